"""A view beside its own query: compared, and mended by exactly the difference."""

from __future__ import annotations

import time
from dataclasses import dataclass

from viewkeeper.engine.maintainer import Maintainer
from viewkeeper.engine.oracle import compare, evaluate, shown_rows
from viewkeeper.engine.reports import Verification, ViewReport
from viewkeeper.maintain.definitions import Definition
from viewkeeper.store.contract import Cut, EpochRecord


@dataclass(frozen=True)
class Proof:
    """Verifies and repairs views."""

    maintainer: Maintainer

    def verify(self, name: str) -> Verification:
        """A view beside its oracle, at the view's own cut, while others go on."""
        store, catalog = self.maintainer.store, self.maintainer.catalog
        definition = catalog.definition(name)
        plan = catalog.plan(definition)
        epoch, cut = self._place(definition)
        self._carry_out_decided(definition)
        stored = shown_rows(store, plan.shape, (epoch,) * plan.shape.spec.regions)
        oracle = evaluate(plan, catalog, self.maintainer.spark, cut, catalog.shapes())
        return compare(plan.name, epoch, stored, oracle)

    def _place(self, definition: Definition) -> tuple[int, Cut]:
        """Where a view is: with its group, or where it stopped."""
        store = self.maintainer.store
        while True:
            committed = store.group(definition.group).committed
            stop = self.maintainer.catalog.stop(definition.name)
            if store.group(definition.group).committed.epoch == committed.epoch:
                stopped = stop is not None and not stop.is_over_at(committed.epoch)
                return (stop.committed, stop.cut) if stop and stopped else (committed.epoch, committed.cut)

    def repair(self, name: str) -> ViewReport:
        """Apply exactly the difference between a view and its query, as an epoch at the cut where the view's group is.

        What stands on it may have seen what was wrong with it, or may not: nobody can tell. So views of its group are made
        anew in the same epoch, and those of groups above in their own, which follow.
        """
        catalog = self.maintainer.catalog
        definition = catalog.definition(name)
        report = self._repair(definition)
        while report is None:
            self.maintainer.refresh(definition.group)
            report = self._repair(definition)
        above = {view.group for view in catalog.lineage().above(definition.name)} - {definition.group}
        for group in catalog.lineage().in_order(above):
            self.maintainer.refresh(group)
        return report

    def _repair(self, definition: Definition) -> ViewReport | None:
        """None if the group is behind the one that it stands on: which views had stopped there by then is not known."""
        started = time.perf_counter()
        maintainer, group = self.maintainer, definition.group
        with maintainer.leadership.of(group) as lease:
            maintainer.finish(group, lease)
            committed = maintainer.store.group(group).committed
            stopped = self._stopped_under(group, committed)
            if stopped is None:
                return None
            mended = {definition.name, *(view.name for view in maintainer.catalog.lineage().above(definition.name))}
            plans = [plan for plan in maintainer.catalog.plans(group) if plan.name in mended]
            actions = maintainer.spark.actions
            self._carry_out_decided(definition)
            record = maintainer.store.begin(group, committed.cut, lease.term)
            epoch = maintainer.epoch_over(maintainer.store, group, plans, lease)
            epoch.new_indexes = [access.place for plan in plans for access in plan.indexes]
            epoch.stopped_below = stopped - mended
            views = epoch.run(rebuild=[plan.name for plan in plans])
            maintainer.commit(group, epoch, views, lease)
            maintainer.recorded(group, epoch, record.cut, views, started, maintainer.spark.actions - actions)
            return next(view for view in views if view.view == definition.name)

    def _stopped_under(self, group: str, committed: EpochRecord) -> frozenset[str] | None:
        """The views that stand still in a group and below: over their rows a view would be of no cut at all."""
        maintainer = self.maintainer
        own = frozenset(maintainer.catalog.stopped(group, committed.epoch))
        below = maintainer.catalog.lineage().group_below(group)
        if below is None:
            return own
        aim = maintainer.cuts.upper(below, maintainer.catalog.plans(group))
        return own | aim.stopped if aim.cut == committed.cut else None

    def _carry_out_decided(self, definition: Definition) -> None:
        """A cut does: then the tables under a view have come to where its group's cut says."""
        self.maintainer.store.cut(self.maintainer.catalog.lineage().base_tables(definition))
