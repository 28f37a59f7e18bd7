"""A run: while it leads, it keeps every group fresh by its schedule; while another process leads, it stands by.

One thread per group refreshes it (`following.py`); this one looks which groups there are, and whether the run is to end.
Whatever fails is told and tried again: only its user ends a run. Epochs under way are finished first.
"""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from viewkeeper.engine.catalog import ViewCatalog
from viewkeeper.engine.leadership import SECONDS
from viewkeeper.engine.maintainer import Maintainer
from viewkeeper.engine.reports import EpochReport
from viewkeeper.errors import InputError, ViewkeeperError
from viewkeeper.service.crew import Crew
from viewkeeper.service.duty import Duty
from viewkeeper.service.events import Event, Fails, Leads, Loses, Resigns, Waits, Watcher
from viewkeeper.service.following import Following
from viewkeeper.service.journal import Journal
from viewkeeper.service.logs import tell
from viewkeeper.service.reports import RunReport, Tally
from viewkeeper.service.retention import Retention
from viewkeeper.service.schedules import interval, pause_after
from viewkeeper.service.stopping import Stop, Until, stopping
from viewkeeper.store.contract import Store

if TYPE_CHECKING:
    from viewkeeper.service.metrics import Metrics

Result = TypeVar("Result")

LOOK = 1.0
"""Seconds between looks at which groups there are."""

MOST_CHANGES = 1_000_000
"""Changes that one epoch reads at most, so that a storm of them takes no more memory than this."""


@dataclass
class Runner:
    """Runs the groups of one database. `lease_seconds` is how long it may be silent before another run takes over."""

    maintainer: Maintainer
    catalog: ViewCatalog
    store: Store
    most_changes: int = MOST_CHANGES
    metrics_port: int | None = None
    on_epoch: Callable[[EpochReport], None] | None = None
    lease_seconds: float = SECONDS
    keep_seconds: float | None = None

    def __post_init__(self) -> None:
        self.retention = Retention(self.maintainer, self.keep_seconds)
        if isinstance(self.most_changes, bool) or not isinstance(self.most_changes, int) or self.most_changes < 1:
            raise InputError(f"an epoch cannot read at most {self.most_changes!r} changes", hint="give 1 or more")

    def run(self, until: Until = None) -> RunReport:
        """Maintain until then: seconds, an event, or (None) until a signal."""
        began, tally = time.monotonic(), Tally()
        with stopping(until) as stop, self._metrics() as metrics:
            port = None if metrics is None else metrics.port
            tell(logging.INFO, "started", process=os.getpid(), most_changes=self.most_changes, metrics_port=port)
            _Watch(self, stop, _all_of(tally, Journal(), metrics)).stand()
            groups = {name: replace(group, lag=self._lag(name)) for name, group in tally.groups.items()}
        report = RunReport(time.monotonic() - began, groups, tally.failures, port)
        tell(logging.INFO, "ended", seconds=report.seconds, epochs=report.epochs)
        return report

    @contextmanager
    def _metrics(self) -> Iterator[Metrics | None]:
        if self.metrics_port is None:
            yield None
            return
        from viewkeeper.service.metrics import serving

        with serving(self.metrics_port, self.maintainer, self.catalog) as metrics:
            yield metrics

    def _lag(self, group: str) -> float | None:
        try:
            return self.maintainer.waiting(group).seconds
        except ViewkeeperError:
            return None


def _all_of(*watchers: Watcher | None) -> Watcher:
    present = [watcher for watcher in watchers if watcher is not None]

    def tell_all(event: Event) -> None:
        for watcher in present:
            watcher(event)

    return tell_all


@dataclass
class _Watch:
    """One run's time, in one thread: standing by and leading in turns, until it is to stop."""

    runner: Runner
    stop: Stop
    tell: Watcher
    holder: str = field(default_factory=lambda: f"run:{os.getpid()}:{uuid.uuid4().hex[:8]}")
    _failures: int = 0

    def stand(self) -> None:
        """Lead whenever nobody else does."""
        told = False
        while self.stop.reason is None:
            duty = self._tried(self._duty)
            if duty is not None:
                self._lead(duty)
                told = False
            elif not told and not self._failures:
                self.tell(Waits())
                told = True
            self._wait(min(LOOK, self.runner.lease_seconds / 4))

    def _duty(self) -> Duty | None:
        return Duty.taken(self.runner.store, self.holder, self.runner.lease_seconds, self.stop.wake)

    def _lead(self, duty: Duty) -> None:
        self.tell(Leads(duty.term))
        crew = Crew(lambda group, every: self._following(duty, group, every), self.tell)
        try:
            self._look_on(duty, crew)
            crew.dismiss()
            if duty.lost:
                self.tell(Loses(duty.term))
            crew.join()
        finally:
            crew.dismiss()
            self._tried(duty.end)
        if not duty.lost:
            self.tell(Resigns(duty.term))

    def _look_on(self, duty: Duty, crew: Crew) -> None:
        """Which groups there are may change at any time, from any process."""
        while not duty.lost:
            schedules = self._tried(self._schedules)
            if schedules is not None:
                crew.match(schedules)
            self._tried(self.runner.retention.trim)
            if self._wait(LOOK):
                return

    def _schedules(self) -> dict[str, float]:
        groups = dict.fromkeys(definition.group for definition in self.runner.catalog.definitions())
        found = {group: interval(group) for group in groups}
        return {group: every for group, every in found.items() if every is not None}

    def _following(self, duty: Duty, group: str, every: float) -> Following:
        runner = self.runner
        return Following(group, every, runner.maintainer, runner.most_changes, self.tell, duty.holds, runner.on_epoch)

    def _tried(self, act: Callable[[], Result]) -> Result | None:
        """What it gives, or None where it fails: a store in trouble now may be well again later."""
        try:
            result = act()
        except Exception as error:
            self._failures += 1
            self.tell(Fails(None, error, pause_after(self._failures)))
            return None
        self._failures = 0
        return result

    def _wait(self, seconds: float) -> bool:
        """Wait, longer where something failed; whether the run is to end."""
        if self.stop.reason is not None:
            return True
        ends = self.stop.wait(max(seconds, pause_after(self._failures)) if self._failures else seconds)
        if ends:
            tell(logging.INFO, "stopping", reason=self.stop.reason)
        return ends
