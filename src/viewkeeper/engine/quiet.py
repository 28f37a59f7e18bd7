"""Spark's own words kept out of sight. It is about the process as a whole, so programs ask for it and the library never does."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from viewkeeper.errors import SparkFailed, ViewkeeperError

LINES = 30
"""How much of Spark's own words is shown when it does not start."""


@contextmanager
def quiet_spark() -> Iterator[None]:
    """What the JVM says goes to a file that nobody sees; what we say still goes to standard error.

    The JVM inherits descriptor 2. So that becomes a file, and Python's `sys.stderr` a copy of what it was. If the block
    fails through Spark, or in a way that is not ours to explain, the end of the file is shown: it may say why.
    """
    import tempfile  # here, for every command imports this module, and most of them never start Spark

    sys.stderr.flush()
    before, kept = sys.stderr, os.dup(2)
    with tempfile.TemporaryFile() as said, os.fdopen(kept, "w", buffering=1, closefd=False) as ours:
        os.dup2(said.fileno(), 2)
        sys.stderr = ours
        try:
            yield
        except Exception as error:
            if isinstance(error, SparkFailed) or not isinstance(error, ViewkeeperError):
                _tell(said.fileno(), ours)
            raise
        finally:
            sys.stderr = before
            os.dup2(kept, 2)
    os.close(kept)


def _tell(said: int, to: object) -> None:
    size = os.fstat(said).st_size
    lines = os.pread(said, size, 0).decode(errors="replace").splitlines()[-LINES:]
    if lines:
        print("Spark said:", *lines, sep="\n  ", file=to)  # type: ignore[call-overload]  # a text file
