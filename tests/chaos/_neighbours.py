"""Lets the programs of this folder import from the test folders beside it, which pytest does by itself."""

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent

sys.path.extend(str(TESTS / folder) for folder in ("", "chaos", "cluster", "consistency"))
