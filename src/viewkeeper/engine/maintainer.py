"""Creating, refreshing, checking and mending views: everything that runs epochs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from viewkeeper.engine.catalog import HISTORY, ViewCatalog
from viewkeeper.engine.epoch import FILL_FROM, TASKS_FROM, Epoch, Progress, block_tables
from viewkeeper.engine.leadership import Leadership
from viewkeeper.engine.oracle import compare, evaluate, shown_rows
from viewkeeper.engine.point import Step
from viewkeeper.engine.reports import EpochReport, Verification, ViewReport
from viewkeeper.engine.spark import Spark
from viewkeeper.errors import NameTaken, NotMaintainable
from viewkeeper.maintain.definitions import PREFIX, Definition, RecordedTypes, plan_view
from viewkeeper.maintain.plan import Shape, ViewPlan
from viewkeeper.sql.queries import refuse_unrepeatable
from viewkeeper.store.contract import Cut, GroupState, Kind, Lease, Store, TableSpec

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

    # Refresh

    def refresh(self, group: str) -> EpochReport:
        """Bring a group to a new cut, after what a crash left. Nothing new: no epoch, no Spark."""
        started = time.perf_counter()
        if self._is_current(group):
            return self._no_epoch(group, started)
        with self.leadership.of(group) as lease:
            self._clear_unborn(group, lease)
            if self.store.group(group).running is not None:
                self._epoch(group, lease, started)
            if self._is_current(group):
                return self._no_epoch(group, started)
            return self._epoch(group, lease, started)

    def _is_current(self, group: str) -> bool:
        """Whether there is nothing to do: no change, no view to build anew, no epoch to finish."""
        plans = self.catalog.plans(group)
        state = self.store.group(group)
        failures = self.catalog.failures()
        if state.running is not None or any(plan.name in failures for plan in plans):
            return False
        cut = self.store.cut(self._base_tables(plans))
        return all(state.committed.cut.get(table) == positions for table, positions in cut.items())

    def _no_epoch(self, group: str, started: float) -> EpochReport:
        cut = self.store.group(group).committed.cut
        return EpochReport(group, None, cut, "none", time.perf_counter() - started, 0)

    def _epoch(self, group: str, lease: Lease, started: float) -> EpochReport:
        """The cut is taken by the leader: one that somebody took while he waited may be older than what is committed."""
        plans = self.catalog.plans(group)
        actions = self.spark.actions
        record = self.store.begin(group, self.store.cut(self._base_tables(plans)), lease.term)
        state = self.store.group(group)
        step = self._step(state, lease)
        epoch = self._new_epoch(step, plans, self.catalog.shapes())
        views = epoch.run()
        self.store.commit(group, record.epoch, lease.term)
        jobs = self.spark.actions - actions
        return self._recorded(group, epoch, record.cut, views, started, jobs)

    def _step(self, state: GroupState, lease: Lease) -> Step:
        assert state.running is not None, "the epoch has begun"
        return Step(
            self.store, state.committed.cut, state.running.cut, state.committed.epoch, state.running.epoch, lease.term
        )

    def _new_epoch(self, step: Step, plans: list[ViewPlan], shapes: Mapping[str, Shape]) -> Epoch:
        return Epoch(
            step,
            self.spark,
            self.catalog,
            plans,
            shapes,
            tasks_from=self.tasks_from,
            fill_from=self.fill_from,
            progress=self.progress,
        )

    def _recorded(
        self, group: str, epoch: Epoch, cut: Cut, views: Sequence[ViewReport], started: float, jobs: int
    ) -> EpochReport:
        self._clear_failures(views)
        seconds = time.perf_counter() - started
        number = epoch.step.epoch
        report = EpochReport(group, number, cut, epoch.mode, seconds, jobs, tuple(views), time.time())
        self.store.put_record(f"{HISTORY}{group}/{number:012d}", report.text())
        self.store.put_record(f"{HISTORY}{group}/{number - KEPT_HISTORY:012d}", None)
        return report

    def _clear_failures(self, views: Sequence[ViewReport]) -> None:
        """Only now: an epoch that is run again after a crash must find what it found the first time."""
        failures = self.catalog.failures()
        for view in views:
            if view.error is None and view.view in failures:
                self.catalog.set_failure(view.view, None)

    def _base_tables(self, plans: Sequence[ViewPlan]) -> list[str]:
        own = {plan.name for plan in plans}
        return list(dict.fromkeys(table for plan in plans for table in plan.tables if table not in own))

    # Creation

    def create(self, definition: Definition) -> EpochReport:
        """Fill a new view in an epoch of its group, which moves the others along: all at one cut when it commits."""
        started = time.perf_counter()
        refuse_unrepeatable(definition.query)
        self._check_name(definition.name)
        self.store.create_group(definition.group)
        with self.leadership.of(definition.group) as lease:
            self._finish_running(definition.group, lease)
            return self._created(definition, lease, started)

    def _check_name(self, name: str) -> None:
        """What a creation or a drop left when its process died does not hold the name."""
        found = self._table_named(name)
        if found is not None and found.group is not None and found.name not in self.catalog.names():
            with self.leadership.of(found.group) as lease:
                self._finish_running(found.group, lease)
            found = self._table_named(name)
        if found is not None:
            raise _taken(found.name)

    def _table_named(self, name: str) -> TableSpec | None:
        return next((spec for spec in self.store.tables() if spec.name.lower() == name.lower()), None)

    def _created(self, definition: Definition, lease: Lease, started: float) -> EpochReport:
        shapes = self.catalog.shapes()
        typer = RecordedTypes({}, self.spark.schema)
        plan = plan_view(definition, shapes, typer)
        self._check_inputs(plan, definition.group)
        others = self.catalog.plans(definition.group)
        plans = [*others, plan]
        actions = self.spark.actions
        record = self.store.begin(definition.group, self.store.cut(self._base_tables(plans)), lease.term)
        numbered = replace(definition, types=typer.known, epoch=record.epoch, number=self._next_number())
        if not self.store.put_record(PREFIX + definition.name, numbered.text(), expected=None):
            self.store.undo(definition.group, record.epoch, lease.term)
            raise _taken(definition.name)
        try:
            new = self._make_tables(plan, others)
            step = self._step(self.store.group(definition.group), lease)
            epoch = self._new_epoch(step, plans, {**shapes, plan.name: plan.shape})
            epoch.new_indexes, epoch.new_tables = new
            views = epoch.run(rebuild=[plan.name])
            mine = next(view for view in views if view.view == plan.name)
            if mine.error is not None:
                raise NotMaintainable(
                    f'view "{plan.name}" cannot be filled: {mine.error}', hint="mend the rows or the query"
                )
            self.store.commit(definition.group, record.epoch, lease.term)
        except BaseException:
            self._undo_creation(numbered, lease)
            raise
        jobs = self.spark.actions - actions
        return self._recorded(definition.group, epoch, record.cut, views, started, jobs)

    def _next_number(self) -> int:
        return 1 + max((Definition.of_text(t).number for t in self.store.records(PREFIX).values()), default=0)

    def _check_inputs(self, plan: ViewPlan, group: str) -> None:
        for name in plan.tables:
            spec = self.store.table(name)
            if spec.kind is not Kind.BASE and spec.group != group:
                raise NotMaintainable(
                    f'view "{plan.name}" would stand on "{name}", which is refreshed {spec.group}, not {group}',
                    hint=f"give it the same schedule: {spec.group}",
                )

    def _make_tables(self, plan: ViewPlan, others: Sequence[ViewPlan]) -> tuple[list[str], list[str]]:
        """The view's table and the hidden ones that nobody has yet; the names of the new indexes, and of all of them."""
        there = block_tables(others)
        new = [spec for name, spec in block_tables([plan]).items() if name not in there]
        for spec in [plan.shape.spec, *new]:
            self.store.create(spec)
        indexes = {access.place for access in plan.indexes}
        names = [spec.name for spec in new]
        return [name for name in names if name in indexes], [plan.name, *names]

    def _undo_creation(self, definition: Definition, lease: Lease) -> None:
        """Nothing of a view that could not be created stays."""
        self.store.undo(definition.group, definition.epoch, lease.term)
        self.catalog.set_failure(definition.name, None)
        self.store.put_record(PREFIX + definition.name, None)
        self._drop_unneeded(definition.group)

    def _clear_unborn(self, group: str, lease: Lease) -> None:
        for definition in self.catalog.unborn(group):
            self._undo_creation(definition, lease)

    def _finish_running(self, group: str, lease: Lease) -> None:
        """What a crash left comes first: tables without a view go, and a running epoch is finished with its own cut."""
        self._clear_unborn(group, lease)
        self._drop_unneeded(group)
        if self.store.group(group).running is not None:
            self._epoch(group, lease, time.perf_counter())

    # Removal

    def drop(self, name: str) -> None:
        """Remove a view that nothing stands on, and the hidden tables that nobody needs any more."""
        definition = self.catalog.definition(name)
        with self.leadership.of(definition.group) as lease:
            self._finish_running(definition.group, lease)
            self.store.put_record(PREFIX + definition.name, None)
            self.catalog.set_failure(definition.name, None)
            self._drop_unneeded(definition.group)
            self._let_go(definition.group, lease)

    def _let_go(self, group: str, lease: Lease) -> None:
        """The cut keeps what the views that are left read, and no more: a log that nobody follows may be trimmed."""
        read = self._base_tables(self.catalog.plans(group))
        cut = self.store.group(group).committed.cut
        if set(cut) != set(read):
            record = self.store.begin(group, {table: cut[table] for table in read}, lease.term)
            self.store.commit(group, record.epoch, lease.term)

    def _drop_unneeded(self, group: str) -> None:
        plans = self.catalog.plans(group)
        needed = {plan.name for plan in plans} | set(block_tables(plans))
        for spec in self.store.tables():
            if spec.group == group and spec.name not in needed:
                self.store.drop(spec.name)

    # Proof

    def verify(self, name: str) -> Verification:
        """A view beside its oracle, at the view's own cut, while others go on."""
        definition = self.catalog.definition(name)
        plan = self.catalog.plan(definition)
        committed = self.store.group(definition.group).committed
        at = (committed.epoch,) * plan.shape.spec.regions
        stored = shown_rows(self.store, plan.shape, at)
        oracle = evaluate(plan, self.catalog, self.spark, committed.cut, self.catalog.shapes())
        return compare(plan.name, committed.epoch, stored, oracle)

    def repair(self, name: str) -> ViewReport:
        """Apply exactly the difference between a view and its query, as an epoch at the cut where the view is."""
        started = time.perf_counter()
        definition = self.catalog.definition(name)
        with self.leadership.of(definition.group) as lease:
            self._finish_running(definition.group, lease)
            plan = self.catalog.plan(definition)
            actions = self.spark.actions
            cut = self.store.group(definition.group).committed.cut
            record = self.store.begin(definition.group, cut, lease.term)
            step = self._step(self.store.group(definition.group), lease)
            epoch = self._new_epoch(step, [plan], self.catalog.shapes())
            epoch.new_indexes = [access.place for access in plan.indexes]
            view = epoch.run(rebuild=[plan.name])[0]
            self.store.commit(definition.group, record.epoch, lease.term)
            jobs = self.spark.actions - actions
            self._recorded(definition.group, epoch, record.cut, [view], started, jobs)
            return view


def _taken(name: str) -> NameTaken:
    return NameTaken(f'table or view "{name}" exists', hint="drop it first, or choose another name")
