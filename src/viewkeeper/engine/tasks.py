"""Large epochs as Spark tasks: the same functions as inline, each task with regions of its own.

    read      a task per region of each changed table: its log (or, for a fill, its rows), joined with what it meets
    evaluate  Spark, natively: conditions and expressions, where there are any
    fold      in the reading task, before anything travels: a hot group costs one row
    shuffle   to the region of the block's table that each row belongs to, in parcels (see `parcels`)
    apply     a task per region: add to what is there, and write, in one atomic step

Blocks that need nothing of each other share a job, and a reading task makes of one log what all of them want: a further
view over the same changes costs its own folding and writing, and no more.

Workers keep nothing: they open the store where they run, and a task that runs a second time reads what it read the first
time and applies nothing twice. Value indexes have their groups in the region of the same number (see `accumulators`), so
the task that owns a region of the table owns theirs.

A block whose query fails must not take the others of its job along. So a task brings a failure as an answer, not as an
error. Spark's own, in an expression, end the job; then each block is run alone, and what the first job applied counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper import names
from viewkeeper.engine.blocks import BlockRunner, groups_in_key_order
from viewkeeper.engine.early import evaluate_early
from viewkeeper.engine.parcels import PARCEL, PLACE, Address, complaint, error_of, error_text, opened, parcels, sent
from viewkeeper.engine.parts import PartRunner, joined_schema
from viewkeeper.engine.point import Step, as_change, weighted_rows
from viewkeeper.engine.spark import Spark
from viewkeeper.errors import Corrupt, QueryFailed, ViewkeeperError
from viewkeeper.maintain.accumulators import Accumulators
from viewkeeper.maintain.delta import aggregate
from viewkeeper.maintain.delta.rows import consolidate, one_zero
from viewkeeper.maintain.delta.select import is_plain, joined_sql, pick_columns
from viewkeeper.maintain.plan import BlockPlan, Shape
from viewkeeper.sql.algebra import Outer, Select, Source, Top
from viewkeeper.sql.schemas import ddl
from viewkeeper.store.contract import Applied, Cut, Store
from viewkeeper.store.regions import regions_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DONE = pa.schema(
    [
        ("block", pa.int32()),
        ("rows", pa.int64()),
        ("inserted", pa.int64()),
        ("updated", pa.int64()),
        ("deleted", pa.int64()),
        ("error", pa.string()),
    ]
)

TOGETHER = 8
"""Sums whose regions of one number are one task's: a task of its own for each would cost more than its work."""

FILL_ROWS = 500_000
"""Rows of a fill that a task has in hand at a time."""

NOTHING = Applied(0, 0, 0)

_stores: dict[str, Store] = {}
"""The stores that this worker process has open."""


@dataclass(frozen=True)
class Remote:
    """A step that can travel to another process."""

    reopen: Callable[[], Store]
    before: Cut
    after: Cut
    committed: int
    epoch: int
    term: int

    @classmethod
    def of(cls, step: Step) -> Remote:
        reopen = step.store.reopener()
        assert reopen is not None, "checked by `suits`"
        return cls(reopen, dict(step.before), dict(step.after), step.committed, step.epoch, step.term)

    def step(self) -> Step:
        """The same step here, on this process's own store."""
        place = repr(self.reopen)
        if place not in _stores:
            _stores[place] = self.reopen()
        return Step(_stores[place], self.before, self.after, self.committed, self.epoch, self.term)


@dataclass(frozen=True)
class Reading:
    """What a block wants of one table's change: the term of a part that starts from one of its sources."""

    plan: BlockPlan
    number: int
    place: int
    to: Address
    given: Mapping[str, pa.Table] = field(default_factory=dict)

    @property
    def part(self) -> Select:
        part = self.plan.block.parts[self.number]
        assert isinstance(part, Select), "checked by `suits`"
        return part

    @property
    def source(self) -> Source:
        return self.part.sources[self.place]

    @property
    def shape(self) -> Shape:
        return self.plan.inputs[self.source.table]


Readings = Sequence[tuple[Reading, Sequence[int]]]
"""Each with the regions of its table that have something for it."""


@dataclass(frozen=True)
class Work:
    """What the reading tasks do. A task is a region, and the numbers of the readings that want it, all of one table."""

    remote: Remote
    readings: tuple[Reading, ...]
    tasks: tuple[tuple[int, tuple[int, ...]], ...]
    fill: bool

    @classmethod
    def of(cls, remote: Remote, readings: Readings, *, fill: bool) -> Work:
        tasks: dict[tuple[str, int], list[int]] = {}
        for number, (reading, regions) in enumerate(readings):
            for region in regions:
                tasks.setdefault((reading.source.table, region), []).append(number)
        listed = tuple((region, tuple(wanted)) for (_, region), wanted in tasks.items())
        return cls(remote, tuple(reading for reading, _ in readings), listed, fill)


@dataclass(frozen=True)
class Followed:
    """What became of a block: how many part rows there were and what they did to its table, or why it failed."""

    rows: int = 0
    applied: Applied = NOTHING
    error: ViewkeeperError | None = None

    def result(self) -> tuple[int, Applied]:
        if self.error is not None:
            raise self.error
        return self.rows, self.applied


def suits(step: Step, plan: BlockPlan) -> bool:
    """Whether a block can run as tasks: its results need nothing that only the driver can ask Spark for."""
    if step.store.reopener() is None or any(isinstance(part, Outer) for part in plan.block.parts):
        return False
    return plan.accumulators is None or plan.accumulators.plain_outputs


def follow(step: Step, spark: Spark, plans: Sequence[BlockPlan]) -> list[Followed]:
    """The epoch of blocks that need nothing of each other, from their inputs' logs."""
    try:
        return _run(step, spark, plans, fill=False)
    except QueryFailed as failure:
        if len(plans) == 1:
            return [Followed(error=failure)]
    return [one for plan in plans for one in follow(step, spark, [plan])]


def fill(step: Step, spark: Spark, plan: BlockPlan) -> Followed:
    """A block's first epoch, into empty tables: each part from the rows of its first source, the others probed."""
    return _run(step, spark, [plan], fill=True)[0]


def _run(step: Step, spark: Spark, plans: Sequence[BlockPlan], *, fill: bool) -> list[Followed]:
    remote = Remote.of(step)
    session = spark.session(large=True)
    addresses = _addresses(plans)
    frames: list[DataFrame] = []
    folded: list[tuple[Reading, Sequence[int]]] = []
    for plan, to in zip(plans, addresses, strict=True):
        for number in range(len(plan.block.parts)):
            readings = _readings(step, plan, number, to, fill=fill)
            plain = _plain(step, spark, readings, fill=fill)
            if plain is not None:
                folded += plain
            else:
                frames.append(_evaluated(spark, Work.of(remote, readings, fill=fill)))
    if folded:
        work = Work.of(remote, folded, fill=fill)
        numbers = session.range(0, len(work.tasks), 1, len(work.tasks))
        frames.append(numbers.mapInArrow(partial(_read_and_fold, work), ddl(PARCEL)))
    if not frames:
        return [Followed()] * len(plans)
    together = reduce(lambda one, other: one.unionAll(other), frames)
    places = max(to.first + plan.shape.spec.regions for plan, to in zip(plans, addresses, strict=True))
    owned = together.repartitionById(places, PLACE)
    done = spark.collect(owned.mapInArrow(partial(_apply, remote, tuple(plans), fill), ddl(DONE)))
    for plan in plans:
        step.forget(plan.shape.spec.name)
    return [_followed(done, block) for block in range(len(plans))]


def _addresses(plans: Sequence[BlockPlan]) -> list[Address]:
    """Where each block's regions are written: by tasks of its own, unless it is a sum, which is small once folded."""
    found, free, sums = [], 0, 0
    first, width = 0, 0
    for block, plan in enumerate(plans):
        regions = plan.shape.spec.regions
        if _linear(plan) is None:
            found.append(Address(block, free))
            free += regions
            continue
        if sums % TOGETHER == 0 or regions > width:
            first, width, sums = free, regions, 0
            free += regions
        found.append(Address(block, first))
        sums += 1
    return found


def _readings(step: Step, plan: BlockPlan, number: int, to: Address, *, fill: bool) -> Readings:
    """What a part wants: for a fill, all of its first source; else what has changed of each."""
    part = plan.block.parts[number]
    if fill:
        regions = range(plan.inputs[part.sources[0].table].spec.regions)
        return [(Reading(plan, number, 0, to), regions)]
    found = []
    for place, source in enumerate(part.sources):
        spec = plan.inputs[source.table].spec
        moved = zip(step.at_start(spec), step.at_end(spec), strict=True)
        regions_moved = [region for region, (start, end) in enumerate(moved) if start < end]
        if regions_moved:
            found.append((Reading(plan, number, place, to), regions_moved))
    return found


def _plain(step: Step, spark: Spark, readings: Readings, *, fill: bool) -> Readings | None:
    """The readings of a part that is folded where it is read, as it is or with its expressions evaluated before; else None."""
    if not readings or is_plain(readings[0][0].part):
        return readings
    one = readings[0][0]
    starts = {reading.source.alias for reading, _ in readings}
    early = evaluate_early(step, spark, one.plan, one.part, starts, fill=fill)
    if early is None:
        return None
    return [
        (Reading(early.plan, reading.number, reading.place, reading.to, early.rows), regions)
        for reading, regions in readings
    ]


def _evaluated(spark: Spark, work: Work) -> DataFrame:
    """A part whose expressions Spark evaluates between reading and folding."""
    session, one = spark.session(large=True), work.readings[0]
    numbers = session.range(0, len(work.tasks), 1, len(work.tasks))
    joined = ddl(joined_schema(one.part, one.plan.inputs))
    # The next epoch's takes its place: names do not pile up in Spark.
    view = f"{names.RESERVED_PREFIX}part{one.to.block}_{one.number}"
    numbers.mapInArrow(partial(_read, work), joined).createOrReplaceTempView(view)
    rows = session.sql(joined_sql(one.part, one.plan.inputs, view))
    return rows.mapInArrow(partial(_fold, one.plan, one.to), ddl(PARCEL))


def _followed(done: pa.Table, block: int) -> Followed:
    mine = done.filter(pc.equal(done["block"], block))
    problems = mine["error"].drop_null().to_pylist()
    if problems:
        return Followed(error=error_of(problems[0]))
    sums = [int(np.sum(mine[name].to_numpy())) for name in ("rows", "inserted", "updated", "deleted")]
    return Followed(sums[0], Applied(*sums[1:]))


# In the workers


def _changes(work: Work, numbers: Iterator[pa.RecordBatch]) -> Iterator[tuple[PartRunner, Reading, pa.Table]]:
    """Each reading with rows that it wants: of a change all at once, of a state some at a time."""
    step = work.remote.step()
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            region, wanted = work.tasks[number]
            readings = [work.readings[one] for one in wanted]
            yield from (_state_of if work.fill else _change_of)(step, readings, region)


def _change_of(step: Step, readings: list[Reading], region: int) -> Iterator[tuple[PartRunner, Reading, pa.Table]]:
    images = step.region_images(readings[0].shape.spec, region)
    for reading in readings:
        rows = as_change(reading.shape, *images)
        if rows.num_rows:
            yield PartRunner(step, Spark(), reading.plan, reading.given), reading, rows


def _state_of(step: Step, readings: list[Reading], region: int) -> Iterator[tuple[PartRunner, Reading, pa.Table]]:
    runners = [PartRunner(step, Spark(), reading.plan, reading.given) for reading in readings]
    for rows in _state(step, readings[0].shape, region):
        for runner, reading in zip(runners, readings, strict=True):
            yield runner, reading, rows


def _state(step: Step, shape: Shape, region: int) -> Iterator[pa.Table]:
    columns = [*shape.columns, *((names.COUNT,) if shape.counted else ())]
    at = step.at_end(shape.spec)[region]
    chunk: list[pa.RecordBatch] = []
    for batch in step.store.read(shape.spec.name, region, columns=columns, at=at):
        chunk.append(batch)
        if sum(part.num_rows for part in chunk) >= FILL_ROWS:
            yield weighted_rows(shape, pa.Table.from_batches(chunk))
            chunk = []
    if chunk:
        yield weighted_rows(shape, pa.Table.from_batches(chunk))


def _read(work: Work, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for runner, reading, rows in _changes(work, numbers):
        joined = runner.term(reading.number, reading.part, reading.source, rows, all_after=work.fill)
        for batch in joined.combine_chunks().to_batches(max_chunksize=65_536):
            yield from sent(batch)


def _read_and_fold(work: Work, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for runner, reading, rows in _changes(work, numbers):
        try:
            joined = runner.term(reading.number, reading.part, reading.source, rows, all_after=work.fill)
            picked = pick_columns(reading.part, joined).cast(_part_rows(reading.plan))
            batch = _folded(reading.plan, reading.to, picked)
        except (QueryFailed, Corrupt) as failure:
            batch = complaint(failure, reading.to)
        yield from sent(batch)


def _fold(plan: BlockPlan, to: Address, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What Spark has evaluated."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(part.num_rows for part in waiting) >= FILL_ROWS:
            yield from sent(_folded(plan, to, pa.Table.from_batches(waiting).cast(_part_rows(plan))))
            waiting = []
    if waiting:
        yield from sent(_folded(plan, to, pa.Table.from_batches(waiting).cast(_part_rows(plan))))


def _part_rows(plan: BlockPlan) -> pa.Schema:
    return plan.part_schema.append(pa.field(names.WEIGHT, pa.int64()))


def _linear(plan: BlockPlan) -> Accumulators | None:
    """The accumulators of an aggregate that is all sums: what travels is folded whole."""
    kept = plan.accumulators
    return kept if kept is not None and not kept.value_indexes else None


def _wire_schema(plan: BlockPlan) -> pa.Schema:
    kept = _linear(plan)
    if kept is None:
        return _part_rows(plan)
    return pa.schema([*kept.group_fields, *(_travelling(field) for field in kept.state_schema)])


def _travelling(field: pa.Field) -> pa.Field:
    """Sums of a part may be wider than the whole's: they travel as wide as there is."""
    if pa.types.is_decimal(field.type):
        return pa.field(field.name, pa.decimal128(38, field.type.scale))
    if field.name.startswith(names.SUM) and pa.types.is_integer(field.type):
        return pa.field(field.name, pa.decimal128(38, 0))
    return field


def _folded(plan: BlockPlan, to: Address, rows: pa.Table) -> pa.RecordBatch:
    """Rows of the parts, folded, in parcels for the regions of the block's table."""
    kept = _linear(plan)
    if plan.accumulators is not None:
        rows = one_zero(rows, plan.accumulators.top.groups)
    elif plan.block.top is Top.DISTINCT:
        rows = one_zero(rows, plan.part_schema.names)
    folded = consolidate(rows) if kept is None else aggregate.fold(kept, rows)
    regions = regions_of(plan.shape.spec, _distribution(plan, folded))
    schema = _wire_schema(plan)
    table = pa.table([_cast(folded[field.name], field.type) for field in schema], schema=schema)
    return parcels(table, regions, to)


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_decimal(kind) and pa.types.is_integer(column.type):
        return column.cast(pa.decimal128(19, 0)).cast(kind)
    return column.cast(kind)


def _distribution(plan: BlockPlan, rows: pa.Table) -> pa.Table:
    """The columns that say which region a row is for, under the names and types of the block's table."""
    spec = plan.shape.spec
    if plan.accumulators is None:
        given = dict(zip(plan.shape.columns, plan.part_schema.names, strict=True))
    else:
        rows = rows if names.WHOLE in rows.column_names else aggregate.with_groups(plan.accumulators, rows)
        given = dict(zip(spec.key, groups_in_key_order(plan), strict=True))
    columns = [rows[given[name]].cast(spec.schema.field(name).type) for name in spec.distribution]
    return pa.table(columns, names=list(spec.distribution))


def _apply(
    remote: Remote, plans: Sequence[BlockPlan], fill: bool, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """All that there is for one region of a block's table: add it to what the region has, and write."""
    step = remote.step()
    for block, region, share in opened(batches):
        plan = plans[block]
        runner = BlockRunner(step, Spark(), plan, new=fill, region=region)
        try:
            if isinstance(share, ViewkeeperError):
                raise share
            applied = runner.apply(plan.shape.spec, _desired(runner, plan, share, fill=fill))
            yield _done(block, share.num_rows, applied)
        except (QueryFailed, Corrupt) as failure:
            yield _done(block, 0, NOTHING, error_text(failure))


def _desired(runner: BlockRunner, plan: BlockPlan, share: pa.Table, *, fill: bool) -> pa.Table:
    kept = _linear(plan)
    if kept is None:
        return runner.desired(share.cast(_part_rows(plan)), from_scratch=fill)
    return runner.merged(kept, aggregate.refold(kept, share), share.slice(0, 0), from_scratch=fill)


def _done(block: int, rows: int, applied: Applied, error: str | None = None) -> pa.RecordBatch:
    values = (block, rows, applied.inserted, applied.updated, applied.deleted, error)
    return pa.record_batch([[value] for value in values], schema=DONE)
