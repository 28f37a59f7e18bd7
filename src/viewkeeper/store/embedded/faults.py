"""Named places where a crash is worth trying.

`reach(point)` does nothing, unless the environment variable `VIEWKEEPER_FAULT` names that point: then the process
kills itself there, as a power cut would, so that a test can look at what is left. `point:3` dies at the third pass.
"""

from __future__ import annotations

import os
import signal

VARIABLE = "VIEWKEEPER_FAULT"

FAULT_POINTS = (
    "create.files_made",
    "create.recorded",
    "drop.recorded",
    "drop.region_closed",
    "drop.files_gone",
    "write.locked",
    "write.staged",
    "write.committed",
    "transaction.locked",
    "transaction.staged",
    "transaction.decided",
    "transaction.region_committed",
    "transaction.finished",
    "prepare.staged",
    "prepare.recorded",
    "prepare.decided",
    "prepare.region_committed",
    "prepare.finished",
    "begin.recorded",
    "apply.locked",
    "apply.staged",
    "apply.committed",
    "withdraw.region_restored",
    "commit.before",
    "commit.recorded",
    "undo.begun",
    "undo.region_restored",
    "undo.recorded",
    "trim.region_trimmed",
)


def _parse(setting: str) -> tuple[str, int]:
    point, _, count = setting.partition(":")
    if point and point not in FAULT_POINTS:
        raise ValueError(f"{VARIABLE}: no fault point {point!r}; there are {', '.join(FAULT_POINTS)}")
    return point, int(count or 1)


_armed, _passes_left = _parse(os.environ.get(VARIABLE, ""))


def reach(point: str) -> None:
    """Die here if asked to."""
    global _passes_left
    if point != _armed:
        return
    _passes_left -= 1
    if _passes_left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
