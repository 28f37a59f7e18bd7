"""What happens in a run, as values. Whoever counts, logs or measures is told of each, and none of them changes its course.

Each group has a thread of its own, so a watcher is called by several at once and keeps what it counts under a lock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from viewkeeper.engine.reports import EpochReport, ViewReport


@dataclass(frozen=True)
class Waits:
    """Another process leads; this one stands by."""


@dataclass(frozen=True)
class Leads:
    """This process maintains the groups from here on."""

    term: int


@dataclass(frozen=True)
class Loses:
    """Another process took over: this one had not been heard of for too long."""

    term: int


@dataclass(frozen=True)
class Resigns:
    """This process maintains nothing any more."""

    term: int


@dataclass(frozen=True)
class Appears:
    """A group is followed from here on."""

    group: str


@dataclass(frozen=True)
class Goes:
    """A group is not followed any more."""

    group: str


@dataclass(frozen=True)
class Turn:
    """An epoch was committed: what it did, how many changes it read, and what had come meanwhile."""

    report: EpochReport
    changes: int
    waiting: int
    lag: float

    @property
    def group(self) -> str:
        return self.report.group

    @property
    def rows(self) -> int:
        """Rows of views that the epoch inserted, updated or deleted."""
        return sum(map(rows_applied, self.report.views))


@dataclass(frozen=True)
class Fails:
    """Something did not work, for one group or (None) for the run itself. It is tried again after the pause."""

    group: str | None
    error: Exception
    pause: float


@dataclass(frozen=True)
class Retries:
    """What failed is tried again now."""

    group: str


Event = Waits | Leads | Loses | Resigns | Appears | Goes | Turn | Fails | Retries
Watcher = Callable[[Event], None]


def rows_applied(view: ViewReport) -> int:
    """Rows that came, went or changed in a view.

    >>> rows_applied(ViewReport("v", "incremental", 9, inserted=1, updated=2, deleted=3, seconds=0.1, jobs=0))
    6
    """
    return view.inserted + view.updated + view.deleted
