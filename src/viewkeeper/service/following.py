"""One group, followed by its schedule: wait until it is due, bring it to a new cut, wait again. A thread's whole life.

A failure never ends it: it is told, and tried again after a pause that grows. What keeps views true is the epoch's own
business; here is only decided when one begins.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from viewkeeper.engine.catalog import HISTORY
from viewkeeper.engine.maintainer import Maintainer
from viewkeeper.engine.reports import EpochReport
from viewkeeper.service.events import Fails, Retries, Turn, Watcher
from viewkeeper.service.schedules import cut_time, goes_on, maintained_by_writers, pause_after, until_due
from viewkeeper.store.contract import Cut, GroupState, Store

OFF_DUTY = 0.1
"""Seconds after which a thread that may not begin an epoch asks again whether it may."""


@dataclass
class Following:
    """A group and when it is next due. `may_begin` is asked before every epoch; `on_epoch` is the user's."""

    group: str
    every: float
    maintainer: Maintainer
    most: int
    tell: Watcher
    may_begin: Callable[[], bool]
    on_epoch: Callable[[EpochReport], None] | None = None
    ended: threading.Event = field(default_factory=threading.Event)
    _failures: int = 0
    _epoch: int | None = None
    _due: float = 0.0

    def follow(self) -> None:
        """Go on until `ended`. An epoch that has begun is finished first."""
        rest = 0.0
        while not self.ended.wait(rest):
            rest = self._step() if self.may_begin() else OFF_DUTY

    def _step(self) -> float:
        """A turn if the group is due; seconds to rest then."""
        if self._failures:
            self.tell(Retries(self.group))
        try:
            if not self._rest():
                self._turn()
            self._failures = 0
            return self._rest()
        except Exception as error:  # whatever it is, the views that others look after must not suffer from it
            self._failures += 1
            pause = pause_after(self._failures)
            self.tell(Fails(self.group, error, pause))
            return pause

    def _rest(self) -> float:
        """Seconds until the group is due. Somebody else's epoch counts too: its cut is on record."""
        epoch = self._store.group(self.group).committed.epoch
        if epoch != self._epoch:
            self._epoch = epoch
            self._due = time.monotonic() + until_due(self.every, self._recorded_cut(epoch), time.time())
        return max(0.0, self._due - time.monotonic())

    def _recorded_cut(self, epoch: int) -> float | None:
        report = self._recorded(epoch)
        return None if report is None else cut_time(report)

    def _recorded(self, epoch: int) -> EpochReport | None:
        text = self._store.record(f"{HISTORY}{self.group}/{epoch:012d}")
        return None if text is None else EpochReport.of_text(text)

    def _turn(self) -> None:
        """A refresh that fails leaves the group due."""
        began, state = time.monotonic(), self._store.group(self.group)
        waiting, cut = self.maintainer.waiting(self.group).changes, state.committed.cut
        report = self._refreshed(waiting)
        self._epoch, self._due = state.committed.epoch, began + self.every
        for done in [] if report is None else self._committed(state, report):
            turn, cut = self._measured(done, cut), done.cut
            self._epoch = done.epoch
            if turn.changes and goes_on(waiting, turn.waiting, self.most):
                self._due = began
            self._told(turn)

    def _committed(self, state: GroupState, report: EpochReport) -> list[EpochReport]:
        """Also the epoch that was under way before, which a process that died had left: a refresh finishes it first.

        If there was nothing else to do, that is the one which the refresh tells of.
        """
        left = None if state.running is None else self._recorded(state.running.epoch)
        found = {done.epoch: done for done in (left, report) if done is not None and done.epoch is not None}
        return list(found.values())

    def _refreshed(self, waiting: int) -> EpochReport | None:
        """None where the writers have left nothing behind: then an epoch under way is theirs."""
        if maintained_by_writers(self.group) and not waiting:
            return None
        return self.maintainer.refresh(self.group, self.most)

    def _measured(self, report: EpochReport, before: Cut) -> Turn:
        """Changes are those of the base tables, for a group that stands on another one too: what `backlog` counts."""
        under = self.maintainer.catalog.lineage().tables_under([self.group])
        tables = [table for table in under if table in before and table in report.cut]
        read = sum(self._store.backlog(table, before[table], report.cut[table], whole=False) for table in tables)
        waiting = self.maintainer.waiting(self.group)
        return Turn(report, read, waiting.changes, waiting.seconds)

    def _told(self, turn: Turn) -> None:
        self.tell(turn)
        if self.on_epoch is not None:
            self.on_epoch(turn.report)

    @property
    def _store(self) -> Store:
        return self.maintainer.store
