"""How far back the logs reach: a run lets go of what is older, about once a minute, while it leads.

What a group has not read yet, and what an epoch under way may have to undo, stays however old it is: the store sees to it.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from viewkeeper.errors import InputError
from viewkeeper.service.logs import tell
from viewkeeper.store.contract import Store

EVERY = 60.0
"""Seconds between two looks at what has become too old."""


@dataclass
class Retention:
    """Trims a store's logs. With None nothing is ever let go."""

    store: Store
    keep_seconds: float | None
    _due: float = 0.0

    def __post_init__(self) -> None:
        keep = self.keep_seconds
        if keep is not None and (isinstance(keep, bool) or not isinstance(keep, int | float) or not keep >= 0):
            raise InputError(f"logs cannot be kept for {keep!r} seconds", hint="give 0 or more, or None for ever")

    def trim(self) -> None:
        """If it is time again."""
        if self.keep_seconds is None or time.monotonic() < self._due:
            return
        self._due = time.monotonic() + EVERY
        gone = self.store.trim(time.time() - self.keep_seconds)
        if gone:
            tell(logging.INFO, "trimmed", changes=gone)
