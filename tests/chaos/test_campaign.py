"""The short form of the fault campaign, and that its laws can be broken."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SEED = "7"


@pytest.mark.slow
def test_the_short_campaign_is_survived() -> None:
    command = [sys.executable, str(HERE / "campaign.py"), "--short", "--seed", SEED]
    run = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert run.returncode == 0, run.stdout + run.stderr[-4000:]
    assert "survived 5 faults" in run.stdout
    assert run.stdout.count("history strong") + run.stdout.count("history complete") == 2
