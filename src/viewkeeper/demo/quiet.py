"""Spark's own words, out of sight: they go to a file, which is shown if Spark does not start."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LINES = 30
"""How much of the file is shown."""


@contextmanager
def complaints_into(file: Path) -> Iterator[None]:
    """What this process and those that it starts write to stderr goes to a file.

    The JVM keeps the stderr that it was started with, so whatever it says later goes there too. Before its logging is
    set up it has no other way to be told.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    target = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(target, 2)
    os.close(target)
    failed = True
    try:
        yield
        failed = False
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
        if failed:
            said = file.read_text(errors="replace").splitlines()[-LINES:]
            print("Spark did not start. It said:", *said, sep="\n  ", file=sys.stderr)
