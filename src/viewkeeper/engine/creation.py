"""Making a view: planned, filled in an epoch of its group, and there only when that epoch is committed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from viewkeeper.engine.cuts import Aim
from viewkeeper.engine.epoch import Epoch, block_tables
from viewkeeper.engine.lineage import Lineage
from viewkeeper.engine.maintainer import IMMEDIATE, Maintainer
from viewkeeper.engine.rehearsal import Rehearsal
from viewkeeper.engine.removal import Removal
from viewkeeper.engine.reports import EpochReport, ViewReport
from viewkeeper.engine.together import Together
from viewkeeper.errors import (
    Conflict,
    Corrupt,
    Fenced,
    NameTaken,
    NotFound,
    NotMaintainable,
    QueryFailed,
    SnapshotTooOld,
    ViewkeeperError,
)
from viewkeeper.maintain.definitions import PREFIX, Definition, RecordedTypes, Summary, plan_view
from viewkeeper.maintain.plan import Shape, ViewPlan
from viewkeeper.sql.unrepeatable import refuse_unrepeatable
from viewkeeper.store.contract import EpochRecord, Kind, Lease, RunningEpoch, TableSpec


class Trimmed(Exception):
    """A log was trimmed past the cut before the cut was on record, from where on it holds the logs. The next one may hold."""


@dataclass(frozen=True)
class Creation:
    """Makes views. The others of the group are moved along: all are at one cut when the new one is there.

    The definition is put on record before anything is made and names its epoch. So a definition whose epoch was never
    committed is that of a view that was never born, and whoever leads the group next removes what is there of it.
    """

    maintainer: Maintainer

    def create(self, definition: Definition) -> EpochReport:
        started = time.perf_counter()
        refuse_unrepeatable(definition.query)
        self._check_name(definition.name)
        self.maintainer.store.create_group(definition.group, guards=definition.group == IMMEDIATE)
        with self.maintainer.leadership.of(definition.group) as lease:
            self.maintainer.finish(definition.group, lease)
            report = self._made(definition, lease, started)
            if definition.group == IMMEDIATE:
                self._catch_up(definition.name, lease)
            return report

    def _made(self, definition: Definition, lease: Lease, started: float) -> EpochReport:
        while True:
            with suppress(Trimmed):
                return self._create(definition, lease, started)

    def _create(self, definition: Definition, lease: Lease, started: float) -> EpochReport:
        maintainer, group = self.maintainer, definition.group
        types = RecordedTypes({}, maintainer.spark.schema, Rehearsal(maintainer.spark).agree)
        shapes = maintainer.catalog.shapes()
        plan = plan_view(definition, shapes, types)
        below = self._check_groups(plan, group, maintainer.catalog.lineage())
        others = maintainer.catalog.plans(group)
        plan = maintainer.catalog.widened(plan, group)
        actions = maintainer.spark.actions
        aim = self._first_aim(plan, [*others, plan], group, below)
        record = maintainer.store.begin(group, aim.cut, lease.term)
        recorded = self._put_on_record(replace(definition, types=types.known), plan, record, lease)
        try:
            self._check_again(plan, group, shapes)
            self._check_logs(aim)
            epoch = self._epoch(plan, others, group, aim, lease)
            views = epoch.run(rebuild=[plan.name])
            _check_filled(plan.name, views)
            maintainer.commit(group, epoch, views, lease)
        except BaseException:
            maintainer.leftovers.undo_creation(recorded, lease)
            raise
        with suppress(Fenced):  # the view is there; whoever leads now drops what it does not need
            maintainer.leftovers.drop_unneeded(group, lease)
        return maintainer.recorded(group, epoch, record.cut, views, started, maintainer.spark.actions - actions)

    def _catch_up(self, name: str, lease: Lease) -> None:
        """Take in what was written since the view's cut: until its commit nobody guarded the tables.

        A view that cannot is taken out again, under the same lease: making one is whole or not at all, and one that fails on
        such a row would refuse every write to come, for a row that is none of the writers'.
        """
        made = self.maintainer.catalog.definition(name)
        try:
            Together(self.maintainer).catch_up(lease)
        except BaseException as failure:
            self._take_out(made, failure, lease)
            if isinstance(failure, QueryFailed | Corrupt):
                raise _not_filled(name, str(failure)) from failure
            raise

    def _take_out(self, made: Definition, failure: BaseException, lease: Lease) -> None:
        """Where even that fails, the caller hears that the view is there; unless he is to hear of an interrupt."""
        try:
            Removal(self.maintainer).take_out(made, lease)
        except ViewkeeperError as left:
            if isinstance(failure, ViewkeeperError):
                raise type(left)(
                    f'view "{made.name}" is there, but has not taken in what was written while it was made'
                    f" ({failure.message}), and could not be removed again: {left.message}",
                    hint="drop it, and create it again",
                ) from failure

    # What must hold

    def _check_name(self, name: str) -> None:
        """What a creation or a drop left when its process died does not hold the name."""
        found = self._table_named(name)
        if found is not None and found.group is not None and found.name not in self.maintainer.catalog.names():
            with self.maintainer.leadership.of(found.group) as lease:
                self.maintainer.finish(found.group, lease)
            found = self._table_named(name)
        if found is not None:
            raise _taken(found.name)

    def _table_named(self, name: str) -> TableSpec | None:
        return next((spec for spec in self.maintainer.store.tables() if spec.name.lower() == name.lower()), None)

    def _check_groups(self, plan: ViewPlan, group: str, lineage: Lineage) -> str | None:
        """The other group that this one is to stand on, if any. All views of a group are at one cut, so it can be but one."""
        below = lineage.group_below(group)
        for name in plan.tables:
            other = self.maintainer.store.table(name).group
            if other is None or other == group:
                continue
            if group == IMMEDIATE:
                raise NotMaintainable(
                    f'view "{plan.name}" cannot be immediate: it would stand on "{name}", which is refreshed {other}',
                    hint=f"make that one immediate too, or refresh this one {other}",
                )
            if other in lineage.groups_above(group):
                raise NotMaintainable(
                    f'view "{plan.name}" cannot stand on "{name}": views refreshed {other} stand on views refreshed {group}',
                    hint=f"refresh it {other}",
                )
            if below not in (None, other):
                raise NotMaintainable(
                    f'view "{plan.name}" would stand on "{name}", which is refreshed {other}, and views refreshed {group}'
                    f" stand on views refreshed {below}: they could not all be at one cut",
                    hint=f"refresh it {other}, or give it a schedule of its own",
                )
            below = other
        return below

    def _check_again(self, plan: ViewPlan, group: str, planned: Mapping[str, Shape]) -> None:
        """Now that the definition can be seen: another process may have made a view, or begun to drop one, since the check;
        or a table may be another of that name than the view was planned for, and the cut be of either.

        Whoever makes or drops first says so and then looks at what others have said. So of two that do not go together at
        least one sees the other, and gives way.
        """
        catalog = self.maintainer.catalog
        self._check_groups(plan, group, catalog.lineage(unborn=True))
        for name in plan.tables:
            number = self.maintainer.store.table(name).number
            if catalog.is_going(name):
                raise NotFound(
                    f'"{name}" is being dropped by another process', hint="create the view on something else"
                )
            if number != planned[name].spec.number:
                raise Conflict(f'"{name}" was dropped and made again by another process', hint="create the view again")

    def _check_logs(self, aim: Aim) -> None:
        """Every table can still be read where the cut has it."""
        store = self.maintainer.store
        for name, positions in aim.cut.items():
            try:
                store.backlog(name, positions, store.positions(name))
            except SnapshotTooOld:
                raise Trimmed from None

    # The steps

    def _first_aim(self, plan: ViewPlan, plans: Sequence[ViewPlan], group: str, below: str | None) -> Aim:
        """The group below is brought to now first: its cut has what the new view reads, and lies behind nobody's."""
        maintainer = self.maintainer
        tables = [name for name in plan.tables if maintainer.store.table(name).kind is Kind.BASE]
        if below is None:
            return maintainer.cuts.root(group, tables)
        wanted = [*tables, *maintainer.cuts.tables(group)]
        while True:
            maintainer.refresh(below, tables=wanted)
            aim = maintainer.cuts.upper(below, plans)
            if not set(wanted) - set(aim.cut):
                return aim

    def _put_on_record(self, definition: Definition, plan: ViewPlan, record: EpochRecord, lease: Lease) -> Definition:
        """Only while the epoch is ours: if another process has ended it, a definition that names it would be a view's that
        was never filled."""
        store = self.maintainer.store
        there = [known.number for known in self.maintainer.catalog.lineage(unborn=True).definitions]
        recorded = replace(definition, epoch=record.epoch, number=1 + max(there, default=0), summary=Summary.of(plan))
        ours = RunningEpoch(definition.group, record.epoch, lease.term)
        if not store.put_record(PREFIX + definition.name, recorded.text(), expected=None, during=ours):
            store.undo(definition.group, record.epoch, lease.term)
            raise _taken(definition.name)
        # A view of that name may have stopped whose drop ended with its process.
        self.maintainer.catalog.set_stop(definition.name, lambda _: None, ours)
        return recorded

    def _epoch(self, plan: ViewPlan, others: Sequence[ViewPlan], group: str, aim: Aim, lease: Lease) -> Epoch:
        """The epoch that fills the view, whose tables are made: the hidden ones only if nobody has them yet."""
        there = block_tables(others)
        hidden = [spec for name, spec in block_tables([plan]).items() if name not in there]
        for spec in [plan.shape.spec, *hidden]:
            self.maintainer.store.create(spec)
        epoch = self.maintainer.epoch_over(self.maintainer.store, group, [*others, plan], lease)
        epoch.shapes = {**epoch.shapes, plan.name: plan.shape}
        indexes = {access.place for access in plan.indexes}
        epoch.new_indexes = [spec.name for spec in hidden if spec.name in indexes]
        epoch.new_tables = [plan.name, *(spec.name for spec in hidden)]
        epoch.stopped_below = aim.stopped
        return epoch


def _check_filled(name: str, views: Sequence[ViewReport]) -> None:
    error = next(view.error for view in views if view.view == name)
    if error is not None:
        raise _not_filled(name, error)


def _not_filled(name: str, error: str) -> NotMaintainable:
    return NotMaintainable(f'view "{name}" cannot be filled: {error}', hint="mend the rows or the query")


def _taken(name: str) -> NameTaken:
    return NameTaken(f'table or view "{name}" exists', hint="drop it first, or choose another name")
