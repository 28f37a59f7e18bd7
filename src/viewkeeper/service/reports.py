"""What a run did, per group, and the counting of it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace

from viewkeeper.service.events import Appears, Event, Fails, Turn


@dataclass(frozen=True)
class GroupRun:
    """One group in a run: epochs committed, changes read, rows of views applied, failures; seconds of lag at the end."""

    group: str
    epochs: int = 0
    changes: int = 0
    rows: int = 0
    failures: int = 0
    lag: float | None = None
    """None if it could not be found out: the group is gone, or the store is in trouble."""


@dataclass(frozen=True)
class RunReport:
    """What `Database.run` did. `failures` counts those of no group: the catalog or the leadership could not be asked."""

    seconds: float
    groups: Mapping[str, GroupRun]
    failures: int = 0
    metrics_port: int | None = None

    @property
    def epochs(self) -> int:
        """Epochs of all groups."""
        return sum(group.epochs for group in self.groups.values())


class Tally:
    """Counts for the report."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: dict[str, GroupRun] = {}
        self.failures = 0

    def __call__(self, event: Event) -> None:
        with self._lock:
            match event:
                case Appears(group):
                    self._groups.setdefault(group, GroupRun(group))
                case Turn():
                    self._groups[event.group] = _with(self._groups[event.group], event)
                case Fails(None):
                    self.failures += 1
                case Fails(str(group)):
                    before = self._groups[group]
                    self._groups[group] = replace(before, failures=before.failures + 1)

    @property
    def groups(self) -> dict[str, GroupRun]:
        """Every group that was followed, as counted so far."""
        with self._lock:
            return dict(self._groups)


def _with(before: GroupRun, turn: Turn) -> GroupRun:
    return replace(
        before,
        epochs=before.epochs + 1,
        changes=before.changes + turn.changes,
        rows=before.rows + turn.rows,
    )
