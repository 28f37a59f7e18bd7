"""How far back the logs reach: a run lets go of what is older, about once a minute, while it leads.

What a group has not read yet, and what an epoch under way may have to undo, stays however old it is: the store sees to it. What
a group holds only for views that are gone is let go first.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from viewkeeper.errors import InputError
from viewkeeper.service.logs import tell

if TYPE_CHECKING:
    from viewkeeper.engine.maintainer import Maintainer

EVERY = 60.0
"""Seconds between two looks at what has become too old."""


def kept_since(keep_seconds: float) -> float:
    """The moment (seconds since 1970) before which entries are too old. Nothing is older than 1970: infinity keeps all."""
    if isinstance(keep_seconds, bool) or not isinstance(keep_seconds, int | float) or not keep_seconds >= 0:
        raise InputError(
            f"logs cannot be kept for {keep_seconds!r} seconds", hint="give 0 or more; infinity keeps everything"
        )
    now = time.time()
    return now - min(keep_seconds, now)


def trim(maintainer: Maintainer, keep_seconds: float) -> int:
    """Let go of log entries older than this that nobody needs any more; how many changes went."""
    from viewkeeper.engine.removal import Removal

    before = kept_since(keep_seconds)
    Removal(maintainer).let_go_for_the_dead()
    return maintainer.store.trim(before)


@dataclass
class Retention:
    """Trims a database's logs. With None nothing is ever let go."""

    maintainer: Maintainer
    keep_seconds: float | None
    _due: float = 0.0

    def __post_init__(self) -> None:
        if self.keep_seconds is not None:
            kept_since(self.keep_seconds)

    def trim(self) -> None:
        """If it is time again."""
        if self.keep_seconds is None or time.monotonic() < self._due:
            return
        self._due = time.monotonic() + EVERY
        gone = trim(self.maintainer, self.keep_seconds)
        if gone:
            tell(logging.INFO, "trimmed", changes=gone)
