"""One epoch of a group: every view of it from one cut to the next, in the order in which they stand on each other."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pyarrow as pa

from viewkeeper import names
from viewkeeper.engine import tasks
from viewkeeper.engine.block_tasks import probed, suits
from viewkeeper.engine.blocks import BlockRunner, apply_by_region, replace_rows
from viewkeeper.engine.catalog import ViewCatalog
from viewkeeper.engine.index_tasks import arranged
from viewkeeper.engine.oracle import expanded
from viewkeeper.engine.point import Step, weighted_rows
from viewkeeper.engine.reports import ViewReport
from viewkeeper.engine.spark import Spark
from viewkeeper.engine.stops import Stop, own_tables, since
from viewkeeper.errors import Corrupt, QueryFailed, SnapshotTooOld
from viewkeeper.maintain.delta.rows import as_desired, consolidate
from viewkeeper.maintain.plan import BlockPlan, Shape, Strategy, ViewPlan
from viewkeeper.sql.ties import with_ties_broken
from viewkeeper.store.contract import Applied, RunningEpoch, TableSpec

TASKS_FROM = 200_000
"""Changes from which a block runs as Spark tasks."""

FILL_FROM = 256 << 20
"""Bytes of input from which a new table is filled by Spark tasks."""


Progress = Callable[[ViewReport, int], None]
"""Told of each view that is done, and of how many there are."""

FROM_SCRATCH = "full, from scratch"
"""The strategy in the report of a view that was built anew, whatever its own is."""

Blocks = Mapping[str, tuple[str, BlockPlan]]
"""By name, each with its view's name."""


@dataclass
class Epoch:
    """Runs the plans of a group. What it applies is not seen by anyone until the group commits."""

    step: Step
    spark: Spark
    catalog: ViewCatalog
    plans: list[ViewPlan]
    shapes: Mapping[str, Shape]
    new_indexes: Iterable[str] = ()
    new_tables: Iterable[str] = ()
    tasks_from: int = TASKS_FROM
    fill_from: int = FILL_FROM
    mode: str = "inline"
    progress: Progress = lambda report, views: None
    stopped_below: frozenset[str] = frozenset()
    """Views of another group that had stopped by the cut which this epoch goes to."""
    strict: bool = False
    """Whether a view whose query fails ends the epoch, instead of stopping alone."""
    anew: set[str] = field(default_factory=set)
    """Views that were made anew because their rows, or those under them, could not be trusted. What the log says of them is no
    change that anybody could follow: who stands on them may have seen the damage, or may not."""
    _moved: dict[str, bool] = field(default_factory=dict)
    _stopped: set[str] = field(default_factory=set)
    _stops: dict[str, Stop] | None = None
    _filled: set[str] = field(default_factory=set)
    _ahead: dict[str, tasks.Followed] = field(default_factory=dict)
    _spent_ahead: dict[str, tuple[float, int]] = field(default_factory=dict)
    """By view: its share of the seconds of a job that it has in common with others, and how many jobs there were."""

    def run(self, rebuild: Iterable[str] = ()) -> list[ViewReport]:
        """Every view; those in `rebuild` from scratch, those that had stopped from where they did."""
        ahead = self._large_blocks([plan for plan in self.plans if plan.name not in set(rebuild)])
        along = self._indexes_along([block for _, block in ahead.values()])
        for table in self._base_tables():
            self._follow_indexes(table, but=along)
        self._follow_ahead(ahead, along)
        reports = []
        for plan in self.plans:
            reports.append(self._view(plan, plan.name in set(rebuild)))
            self.progress(reports[-1], len(self.plans))
        return reports

    def _base_tables(self) -> list[str]:
        own = {plan.name for plan in self.plans}
        return list(dict.fromkeys(table for plan in self.plans for table in plan.tables if table not in own))

    # Views

    def _view(self, plan: ViewPlan, rebuild: bool) -> ViewReport:
        started, actions = time.perf_counter(), self.spark.actions
        stop = self._stop_of(plan)
        strategy = plan.strategy.value
        error = None
        rows, done = 0, Applied(0, 0, 0)
        try:
            waiting = [table for table in plan.tables if table in self._stopped or table in self.stopped_below]
            if waiting:
                raise QueryFailed(
                    f'view "{plan.name}" waits for "{waiting[0]}", which stopped', hint="mend that one first"
                )
            if stop is not None and stop.last == self.step.epoch:
                raise QueryFailed(stop.error, hint=stop.hint)
            if rebuild or not self.anew.isdisjoint(plan.tables):
                self.anew.add(plan.name)
                strategy, (rows, done) = FROM_SCRATCH, self.rebuild(plan)
            elif stop is not None:
                strategy, (rows, done) = self._retry(plan, stop)
            else:
                rows, done = self._follow(plan)
        except (QueryFailed, Corrupt) as failure:
            if self.strict:
                raise
            error = str(failure)
            self._stop(plan, failure)
        seconds_ahead, jobs_ahead = self._spent_ahead.pop(plan.name, (0.0, 0))
        seconds = time.perf_counter() - started + seconds_ahead
        jobs = self.spark.actions - actions + jobs_ahead
        return ViewReport(plan.name, strategy, rows, done.inserted, done.updated, done.deleted, seconds, jobs, error)

    @property
    def running(self) -> RunningEpoch:
        group = self.plans[0].shape.spec.group
        assert group is not None, "views are maintained tables"
        return RunningEpoch(group, self.step.epoch, self.step.term)

    @property
    def stops(self) -> Mapping[str, Stop]:
        """The views that had stopped when the epoch began."""
        if self._stops is None:
            self._stops = self.catalog.stops()
        return self._stops

    def _stop_of(self, plan: ViewPlan) -> Stop | None:
        """Where a view had stopped, in an earlier epoch or in a first run of this one."""
        stop = self.stops.get(plan.name)
        return None if stop is None or stop.is_over_at(self.step.committed) else stop

    def _stop(self, plan: ViewPlan, why: QueryFailed | Corrupt) -> None:
        """The view stays where it is, alone, and the next refresh tries again.

        What has been done to its tables in this epoch is taken back: tasks of some regions may have done their part before
        another one failed, and inner blocks are brought to the epoch before it is known whether their view can be. That it
        has stopped is on record before: whoever runs the epoch again must not take what is left for the whole.
        """
        self._stopped.add(plan.name)
        self._moved[plan.name] = False
        distrusted = plan.name in self.anew or not self.anew.isdisjoint(plan.tables)

        def stopped(known: Stop | None) -> Stop:
            if known is None or known.is_over_at(self.step.committed):
                return Stop.here(self.step, plan, why, distrusted=distrusted)
            return known.again(self.step, why, distrusted=distrusted)

        self.catalog.set_stop(plan.name, stopped, self.running)
        for spec in own_tables(plan):
            self.step.store.withdraw(spec.name, self.step.epoch, self.step.term)
            self.step.forget(spec.name)

    def _retry(self, plan: ViewPlan, stop: Stop) -> tuple[str, tuple[int, Applied]]:
        """A view that had stopped, from the changes since; from scratch where these are no longer known, or of no use."""
        if stop.damaged:
            self.anew.add(plan.name)
        step = since(stop, self.step, plan)
        if step is not None:
            late = replace(self, step=step, _moved={}, _ahead={}, _spent_ahead={})
            with suppress(SnapshotTooOld):  # what it has brought to the epoch by then is what it would be from scratch
                found = late._follow(plan)
                self.mode = late.mode
                self._moved.pop(plan.name, None)
                self.step.forget(plan.name)
                return plan.strategy.value, found
        return FROM_SCRATCH, self.rebuild(plan)

    def _follow(self, plan: ViewPlan) -> tuple[int, Applied]:
        if plan.strategy is Strategy.FULL:
            if any(self._has_moved(table) for table in plan.tables):
                return self.rebuild(plan)
            return 0, Applied(0, 0, 0)
        rows, done = 0, Applied(0, 0, 0)
        for block in plan.blocks:
            if any(self._has_moved(table) for table in block.block.tables):
                seen, done = self._follow_block(block)
                rows += seen if block is plan.blocks[0] else 0
                self._after(block.shape)
        return rows, done

    def _follow_block(self, block: BlockPlan) -> tuple[int, Applied]:
        done = self._ahead.pop(block.block.name, None)
        if done is None and self._is_large(block):  # over something that this epoch has brought about
            self.mode = "tasks"
            done = tasks.follow(self.step, self.spark, [block])[0]
        if done is not None and not (isinstance(done.error, QueryFailed) and self._may_be_no_failure(block)):
            return done.result()
        return BlockRunner(self.step, self.spark, block).follow()

    def _may_be_no_failure(self, block: BlockPlan) -> bool:
        """Whether tasks may have failed on rows that were never there together, and can be made good for here.

        Where several sources of a part have changed, such rows meet in two terms and cancel out; but in tasks only after Spark
        has evaluated them (`PartRunner._joined`). Only if nothing was written: a region takes an epoch's changes once.
        """
        moved = ([source for source in part.sources if self._has_moved(source.table)] for part in block.block.parts)
        kept = {} if block.accumulators is None else block.accumulators.value_indexes
        written = (self.step.store.positions(spec.name) for spec in (block.shape.spec, *kept.values()))
        return any(len(sources) > 1 for sources in moved) and all(max(at) < self.step.epoch for at in written)

    def _is_large(self, block: BlockPlan) -> bool:
        changes = sum(self.step.size(shape.spec) for shape in block.inputs.values())
        return changes >= self.tasks_from and suits(self.step, block)

    def _large_blocks(self, plans: Iterable[ViewPlan]) -> Blocks:
        """Those over nothing that this epoch brings about."""
        given = {*self._base_tables()} - self.stopped_below
        return {
            block.block.name: (plan.name, block)
            for plan in plans
            if plan.strategy is not Strategy.FULL
            for block in plan.blocks
            if given.issuperset(block.block.tables) and self._is_large(block) and self._stop_of(plan) is None
        }

    def _indexes_along(self, blocks: Sequence[BlockPlan]) -> dict[str, tasks.Indexing]:
        """Indexes that can follow in one job with some blocks: of large changes, and none of the blocks looks into them."""
        seen = {place for block in blocks for place in probed(self.step, block, fill=False)}
        return {
            index.name: (index, self._shape(table).spec)
            for table in (self._base_tables() if blocks else ())
            for index in self._indexes_of(table)
            if index.name not in seen and not self._is_new(index) and self._is_large_change(table)
        }

    def _follow_ahead(self, ahead: Blocks, along: Mapping[str, tasks.Indexing]) -> None:
        """Large blocks in one job: a log is read once for all of them. What came of each is taken in at its view's turn."""
        if not ahead:
            return
        self.mode = "tasks"
        started, actions = time.perf_counter(), self.spark.actions
        found = tasks.follow(self.step, self.spark, [block for _, block in ahead.values()], list(along.values()))
        jobs = self.spark.actions - actions
        share = (time.perf_counter() - started) / len(ahead)
        for (name, (view, _)), followed in zip(ahead.items(), found, strict=True):
            self._ahead[name] = followed
            self._spent_ahead[view] = (self._spent_ahead.get(view, (0.0, 0))[0] + share, jobs)

    def _has_moved(self, table: str) -> bool:
        if table not in self._moved:
            self._moved[table] = self.step.size(self._shape(table).spec) > 0
        return self._moved[table]

    def _shape(self, table: str) -> Shape:
        known = self.shapes.get(table)
        if known is not None:
            return known
        return next(b.shape for plan in self.plans for b in plan.blocks if b.block.name == table)

    def _after(self, shape: Shape) -> None:
        self._moved.pop(shape.spec.name, None)
        self._follow_indexes(shape.spec.name)

    # From scratch

    def rebuild(self, plan: ViewPlan) -> tuple[int, Applied]:
        """The view's tables become what its query gives over the inputs after the epoch."""
        if plan.strategy is Strategy.FULL:
            return self._rebuild_full(plan)
        rows, done = 0, Applied(0, 0, 0)
        for block in plan.blocks:
            seen, done = self._rebuild_block(block)
            rows += seen if block is plan.blocks[0] else 0
            if block is plan.blocks[-1]:
                self._after(block.shape)
            else:
                self._refill_indexes(block.shape.spec.name)
        return rows, done

    def _refill_indexes(self, table: str) -> None:
        """Of an inner block, whose log would not do: a view that stopped may have left it ahead of its indexes."""
        self._moved.pop(table, None)
        for index in self._indexes_of(table):
            if not self._is_new(index):
                self._fill_index(index, table)

    def _rebuild_block(self, block: BlockPlan) -> tuple[int, Applied]:
        large = block.shape.spec.name in self.new_tables and self._is_large_fill(block)
        along = self._fill_indexes_of(block, along=large)
        if large:
            self.mode = "tasks"
            seen, done = tasks.fill(self.step, self.spark, block, along).result()
            self._filled |= {index.name for index, _ in along}
            if seen or block.accumulators is None or block.accumulators.top.groups:
                return seen, done
        frames = {table: self._rows_after(shape) for table, shape in block.inputs.items()}
        return BlockRunner(self.step, self.spark, block).rebuild(frames)

    def _is_large_fill(self, block: BlockPlan) -> bool:
        size = sum(self.step.store.size(shape.spec.name) for shape in block.inputs.values())
        return size >= self.fill_from and suits(self.step, block)

    def _rebuild_full(self, plan: ViewPlan) -> tuple[int, Applied]:
        tables = {}
        for name in plan.tables:
            shape = self._shape(name)
            tables[name] = self._shown_after(shape)
        result = self.spark.run(with_ties_broken(plan.query), tables, plan.shape.schema)
        weighted = result.append_column(names.WEIGHT, pa.repeat(pa.scalar(1, pa.int64()), result.num_rows))
        rows = consolidate(weighted)
        counted = rows.rename_columns([*plan.shape.columns, names.COUNT])
        desired = as_desired(counted, counted.slice(0, 0), plan.shape.spec.schema)
        done = replace_rows(self.step, plan.shape.spec, desired)
        self._after(plan.shape)
        return result.num_rows, done

    def _scanned_after(self, shape: Shape) -> pa.Table:
        columns = [*shape.columns, *((names.COUNT,) if shape.counted else ())]
        return self.step.store.scan(shape.spec.name, columns=columns, at=self.step.at_end(shape.spec))

    def _rows_after(self, shape: Shape) -> pa.Table:
        return weighted_rows(shape, self._scanned_after(shape))

    def _shown_after(self, shape: Shape) -> pa.Table:
        rows = self._scanned_after(shape)
        return expanded(rows, shape.columns) if shape.counted else rows

    # Indexes

    def _indexes_of(self, table: str) -> list[TableSpec]:
        found = {}
        for plan in self.plans:
            for access in plan.indexes:
                if access.table == table and access.index is not None:
                    found[access.index.name] = access.index
        return list(found.values())

    def _is_new(self, index: TableSpec) -> bool:
        return index.name in set(self.new_indexes)

    def _is_large_change(self, table: str) -> bool:
        return self.step.size(self._shape(table).spec) >= self.tasks_from and self.step.store.reopener() is not None

    def _follow_indexes(self, table: str, but: Container[str] = ()) -> None:
        """A table's indexes from its change. One that is new is filled with the block that needs it, or if mended, at once."""
        spec = self._shape(table).spec
        for index in self._indexes_of(table):
            if index.name in but or index.name in self.new_tables:
                continue
            if self._is_new(index):
                self._fill_index(index, table)
            elif self._is_large_change(table):
                tasks.follow_indexes(self.step, self.spark, [(index, spec)])
            elif self.step.size(spec):
                apply_by_region(self.step, index, arranged(index, *self.step.images(spec)))

    def _fill_indexes_of(self, block: BlockPlan, *, along: bool) -> list[tasks.Indexing]:
        """Fill the new indexes of a block's inputs; those that it does not look into may be left to its own job."""
        left = []
        looked_into = probed(self.step, block, fill=True)
        for table in block.block.tables:
            for index in self._indexes_of(table):
                if not self._is_new(index) or index.name in self._filled:
                    continue
                if along and index.name not in looked_into:
                    left.append((index, self._shape(table).spec))
                else:
                    self._fill_index(index, table)
        return left

    def _fill_index(self, index: TableSpec, table: str) -> None:
        spec = self._shape(table).spec
        large = self.step.store.size(table) >= self.fill_from and self.step.store.reopener() is not None
        if large and index.name in self.new_tables:
            tasks.fill_indexes(self.step, self.spark, [(index, spec)])
        else:
            rows = self.step.store.scan(table, columns=index.schema.names, at=self.step.at_end(spec))
            replace_rows(self.step, index, as_desired(rows, rows.slice(0, 0), index.schema))
        self._filled.add(index.name)


def block_tables(plans: Iterable[ViewPlan]) -> dict[str, TableSpec]:
    """Every hidden table that some plans need, by name."""
    found: dict[str, TableSpec] = {}
    for plan in plans:
        for spec in plan.hidden:
            found[spec.name] = spec
        for access in plan.indexes:
            assert access.index is not None
            found[access.index.name] = access.index
    return found
