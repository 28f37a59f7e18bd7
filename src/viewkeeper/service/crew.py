"""The threads of a run: one per group that has a schedule, so that a slow group never holds up another."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from viewkeeper.service.events import Appears, Goes, Watcher
from viewkeeper.service.following import Following

STEP = 0.5
"""Seconds after which a thread that waits for others looks up."""


class Crew:
    """Starts and ends threads as groups appear and go. Used by one thread."""

    def __init__(self, follow: Callable[[str, float], Following], tell: Watcher) -> None:
        self._follow = follow
        self._tell = tell
        self._members: dict[str, tuple[Following, threading.Thread]] = {}

    def match(self, schedules: Mapping[str, float]) -> None:
        """Follow exactly these groups, by seconds from cut to cut. One that comes back waits for its former thread to end."""
        self._bury()
        for group, (following, _) in self._members.items():
            if group not in schedules:
                following.ended.set()
        for group, every in schedules.items():
            if group not in self._members:
                self._start(group, every)

    def _start(self, group: str, every: float) -> None:
        following = self._follow(group, every)
        # A daemon: an epoch that hangs must not keep a process alive whose user has interrupted it. What it leaves is on record.
        thread = threading.Thread(target=following.follow, name=f"group {group}", daemon=True)
        self._tell(Appears(group))
        self._members[group] = (following, thread)
        thread.start()

    def dismiss(self) -> None:
        """Begin nothing new."""
        for following, _ in self._members.values():
            following.ended.set()

    def join(self) -> None:
        """Wait for the epochs under way.

        In steps: a signal that arrives just before Python begins to wait does not end the wait, and its handler, which runs
        between two steps of this thread, would have to wait as well.
        """
        for _, thread in self._members.values():
            while thread.is_alive():
                thread.join(STEP)
        self._bury()

    def _bury(self) -> None:
        for group in [group for group, (_, thread) in self._members.items() if not thread.is_alive()]:
            del self._members[group]
            self._tell(Goes(group))
