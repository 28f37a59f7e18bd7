"""Bringing groups of views to a new cut, by epochs. Creation, removal and proof run theirs through the same few methods."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from viewkeeper.engine.catalog import HISTORY, ViewCatalog
from viewkeeper.engine.cuts import Aim, GroupCuts
from viewkeeper.engine.epoch import FILL_FROM, TASKS_FROM, Epoch, Progress
from viewkeeper.engine.leadership import Leadership
from viewkeeper.engine.leftovers import Leftovers
from viewkeeper.engine.point import Step
from viewkeeper.engine.reports import EpochReport, ViewReport
from viewkeeper.engine.spark import Spark
from viewkeeper.engine.stops import Stop
from viewkeeper.engine.waiting import Waiting
from viewkeeper.errors import Corrupt, Fenced
from viewkeeper.maintain.plan import ViewPlan
from viewkeeper.store.contract import Cut, Lease, Store

IMMEDIATE = "immediate"
"""The group whose epochs belong to the writes that cause them: see `together`."""

KEPT_HISTORY = 1_000
"""Epochs per group whose reports are kept."""


@dataclass
class Maintainer:
    """Runs the epochs of a database. One may lead a group at a time, over all processes."""

    store: Store
    spark: Spark
    catalog: ViewCatalog
    leadership: Leadership
    progress: Progress = field(default=lambda report, views: None)
    tasks_from: int = TASKS_FROM
    fill_from: int = FILL_FROM

    @cached_property
    def leftovers(self) -> Leftovers:
        return Leftovers(self.store, self.catalog)

    @cached_property
    def cuts(self) -> GroupCuts:
        return GroupCuts(self.store, self.catalog)

    def refresh(self, group: str, at_most: int | None = None, tables: Sequence[str] = ()) -> EpochReport:
        """Bring a group to a new cut, after what a crash left. Nothing new: no epoch, no Spark.

        With `at_most`, to one that is about so many changes away, if more wait. `tables` are base tables that the cut is to
        have for a group above.
        """
        started = time.perf_counter()
        seen = self.store.group(group)
        if self._is_current(group, tables):
            return self._no_epoch(group, started)
        with self.leadership.of(group) as lease:
            settled = self.tidy(group, lease)
            if self.store.group(group) != seen and self._is_current(group, tables):
                return settled or self._no_epoch(group, started)
            return self._epoch(group, lease, started, at_most, tables)

    def _is_current(self, group: str, tables: Sequence[str] = ()) -> bool:
        """Whether there is nothing to do: no change, no view to build anew, no epoch to finish."""
        plans = self.catalog.plans(group)
        state = self.store.group(group)
        stopped = self.catalog.stops()
        if state.running is not None or any(plan.name in stopped for plan in plans):
            return False
        cut = self._aim(group, plans, tables).cut
        return all(state.committed.cut.get(table) == positions for table, positions in cut.items())

    def _aim(
        self, group: str, plans: Sequence[ViewPlan], tables: Sequence[str] = (), at_most: int | None = None
    ) -> Aim:
        below = self.catalog.lineage().group_below(group)
        if below is None:
            return self.cuts.root(group, tables, at_most=at_most)
        missing = self.cuts.missing(below, [*self.cuts.tables(group), *tables])
        if missing:
            self.refresh(below, tables=missing)
        return self.cuts.upper(below, plans)

    def tidy(self, group: str, lease: Lease) -> EpochReport | None:
        """What a crash left comes first, a creation before an epoch: the creation's epoch must not be committed for it."""
        self.leftovers.clear_unborn(group, lease)
        settled = self._settle(group, lease)
        self._forget_undone(group)
        return settled

    def finish(self, group: str, lease: Lease) -> None:
        """The same before a view is made, dropped or mended: tables without a view go too."""
        self.leftovers.clear_unborn(group, lease)
        self.leftovers.drop_unneeded(group, lease)
        self._settle(group, lease)
        self._forget_undone(group)

    def _settle(self, group: str, lease: Lease) -> EpochReport | None:
        """End an epoch that a crash left. One over base tables alone goes on with its own cut.

        One that stands on another group is undone: which views of that group had stopped by then is not on record. So is
        one of a group that guards its tables: it belongs to writes that have died with their process; and one that stays
        at its cut: it was mending a view, and which one is not on record either.
        """
        state = self.store.group(group)
        if state.running is None:
            return None
        mends = state.running.cut == state.committed.cut
        if state.undoing or state.guards or mends or self.catalog.lineage().group_below(group) is not None:
            self.store.undo(group, state.running.epoch, lease.term)
            return None
        try:
            return self._epoch(group, lease, time.perf_counter())
        except Corrupt:  # a table that has lost writes; its views can be dropped
            self.store.undo(group, state.running.epoch, lease.term)
            return None

    def waiting(self, group: str) -> Waiting:
        """What a group has not seen yet."""
        return Waiting.for_group(self.store, self.catalog, group)

    def _no_epoch(self, group: str, started: float) -> EpochReport:
        cut = self.store.group(group).committed.cut
        return EpochReport(group, None, cut, "none", time.perf_counter() - started, 0)

    def _epoch(
        self, group: str, lease: Lease, started: float, at_most: int | None = None, tables: Sequence[str] = ()
    ) -> EpochReport:
        """The cut is taken by the leader: one that somebody took while he waited may be older than what is committed."""
        plans = self.catalog.plans(group)
        actions = self.spark.actions
        aim = self._aim(group, plans, tables, at_most)
        record = self.store.begin(group, aim.cut, lease.term)
        epoch = self.epoch_over(self.store, group, plans, lease)
        epoch.stopped_below = aim.stopped
        views = epoch.run()
        self.commit(group, epoch, views, lease)
        jobs = self.spark.actions - actions
        return self.recorded(group, epoch, record.cut, views, started, jobs)

    def epoch_over(self, store: Store, group: str, plans: list[ViewPlan], lease: Lease) -> Epoch:
        """The group's running epoch, seeing tables as a store has them."""
        state = self.store.group(group)
        if state.running is None:
            raise Fenced(f'group "{group}": the epoch was undone by another maintainer', hint="call again")
        running, committed = state.running, state.committed
        return Epoch(
            Step(store, committed.cut, running.cut, committed.epoch, running.epoch, lease.term),
            self.spark,
            self.catalog,
            plans,
            self.catalog.shapes(),
            tasks_from=self.tasks_from,
            fill_from=self.fill_from,
            progress=self.progress,
        )

    def recorded(
        self, group: str, epoch: Epoch, cut: Cut, views: Sequence[ViewReport], started: float, jobs: int
    ) -> EpochReport:
        number = epoch.step.epoch
        for name in _returned(epoch, views):
            self.catalog.change_stop(name, _noted(epoch, name), None)
        seconds = time.perf_counter() - started
        report = EpochReport(group, number, cut, epoch.mode, seconds, jobs, tuple(views), time.time())
        self.store.put_record(f"{HISTORY}{group}/{number:012d}", report.text())
        self._forget_history(group, epoch.step.committed, number)
        return report

    def _forget_history(self, group: str, committed: int, number: int) -> None:
        """One report goes for one that came. Epochs that were undone in between have let none go: then they are counted."""
        old = [f"{HISTORY}{group}/{number - KEPT_HISTORY:012d}"]
        if number > committed + 1:
            old = list(self.store.records(f"{HISTORY}{group}/"))[:-KEPT_HISTORY]
        for name in old:
            self.store.put_record(name, None)

    def commit(self, group: str, epoch: Epoch, views: Sequence[ViewReport], lease: Lease) -> None:
        self.before_commit(group, epoch, views)
        self.store.commit(group, epoch.step.epoch, lease.term)

    def before_commit(self, group: str, epoch: Epoch, views: Sequence[ViewReport]) -> None:
        """Note which views come back: whoever looks right after the commit must not take them for stopped.

        The record goes only after it: an epoch that is run again after a crash must find what it found the first time.
        """
        for name in _returned(epoch, views):
            if _noted(epoch, name) != epoch.stops[name]:
                self.catalog.change_stop(name, epoch.stops[name], _noted(epoch, name), epoch.running)
        if epoch.anew:
            self._distrust(group, epoch.anew)

    def _distrust(self, group: str, anew: Collection[str]) -> None:
        """Views of other groups over some that were made anew have to be, too, before they are followed again.

        It is said before the epoch is committed, since from there on they could follow it. One that is made anew too early,
        over what was still wrong, then follows what mends it.
        """
        lineage = self.catalog.lineage()
        above = {view.name: view for name in anew for view in lineage.above(name) if view.group != group}
        for view in above.values():
            self.catalog.set_stop(view.name, partial(Stop.distrusted, at=self.store.group(view.group).committed))

    def _forget_undone(self, group: str) -> None:
        """What was noted in an epoch that was undone has not happened: neither that a view stopped, nor that it came back.

        Before the next commit: epochs are numbered on, and to a later one the note would say that it had. Notes are made while
        their epoch is running. So of those that were there before we looked where the group is, one whose epoch is neither
        running nor committed is of an epoch that was undone, whatever others have done since.
        """
        stops = self.catalog.stops()
        state = self.store.group(group)
        left = {name: stop.at(state.committed.epoch) for name, stop in stops.items()}
        if state.running is not None or left == stops:
            return
        own = {definition.name for definition in self.catalog.definitions() if definition.group == group}
        for name, stop in stops.items():
            if name in own and left[name] != stop:
                self.catalog.change_stop(name, stop, left[name])


def _returned(epoch: Epoch, views: Sequence[ViewReport]) -> list[str]:
    """The views that an epoch followed and that had stopped, as far as it knew."""
    return [view.view for view in views if view.error is None and view.view in epoch.stops]


def _noted(epoch: Epoch, name: str) -> Stop:
    """The record of such a view with a note that this epoch brings it back, if none had.

    Only the record that the epoch knew is changed: whoever has written another since, while this process slept, knows better.
    """
    known = epoch.stops[name]
    return known if known.is_over_at(epoch.step.committed) else replace(known, mended=epoch.step.epoch)
