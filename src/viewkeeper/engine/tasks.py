"""Large epochs as Spark tasks: the same functions as inline, each task with one region of its own.

    read      a task per region of each changed source: its log (or, for a fill, its rows), joined with what it meets
    evaluate  Spark, natively: conditions and expressions, where there are any
    fold      in the reading task, before anything travels: a hot group costs one row
    shuffle   to the region of the block's table that each row belongs to
    apply     a task per region: add to what is there, and write, in one atomic step

Workers keep nothing: they open the store where they run, and a task that runs a second time reads what it read the first
time and applies nothing twice. Value indexes have their groups in the region of the same number (see `accumulators`), so
the task that owns a region of the table owns theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from viewkeeper import names
from viewkeeper.engine.blocks import BlockRunner, groups_in_key_order
from viewkeeper.engine.parts import PartRunner, joined_schema
from viewkeeper.engine.point import Step, weighted_rows
from viewkeeper.engine.spark import Spark
from viewkeeper.maintain.accumulators import Accumulators
from viewkeeper.maintain.delta import aggregate
from viewkeeper.maintain.delta.rows import as_desired, consolidate, one_zero, without
from viewkeeper.maintain.delta.select import is_plain, joined_sql, pick_columns
from viewkeeper.maintain.plan import BlockPlan, Shape
from viewkeeper.sql.algebra import Outer, Select, Top
from viewkeeper.sql.schemas import ddl
from viewkeeper.store.contract import Applied, Cut, Store, TableSpec
from viewkeeper.store.regions import regions_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REGION = "_vk_region"
"""In what travels: the region of the table that a row is for."""

DONE = pa.schema([("rows", pa.int64()), ("inserted", pa.int64()), ("updated", pa.int64()), ("deleted", pa.int64())])

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
class Read:
    """One reading task: a region of a part's source."""

    part: int
    source: int
    region: int


def suits(step: Step, plan: BlockPlan) -> bool:
    """Whether a block can run as tasks: its results need nothing that only the driver can ask Spark for."""
    if step.store.reopener() is None or any(isinstance(part, Outer) for part in plan.block.parts):
        return False
    return plan.accumulators is None or plan.accumulators.plain_outputs


def follow(step: Step, spark: Spark, plan: BlockPlan) -> tuple[int, Applied]:
    """A block's epoch from its inputs' logs."""
    reads = []
    for number, part in enumerate(plan.block.parts):
        for place, source in enumerate(part.sources):
            spec = plan.inputs[source.table].spec
            moved = zip(step.at_start(spec), step.at_end(spec), strict=True)
            reads += [Read(number, place, region) for region, (start, end) in enumerate(moved) if start < end]
    return _run(step, spark, plan, reads, fill=False)


def fill(step: Step, spark: Spark, plan: BlockPlan) -> tuple[int, Applied]:
    """A block's first epoch, into empty tables: each part from the rows of its first source, the others probed."""
    reads = [
        Read(number, 0, region)
        for number, part in enumerate(plan.block.parts)
        for region in range(plan.inputs[part.sources[0].table].spec.regions)
    ]
    return _run(step, spark, plan, reads, fill=True)


def _run(step: Step, spark: Spark, plan: BlockPlan, reads: Sequence[Read], *, fill: bool) -> tuple[int, Applied]:
    if not reads:
        return 0, Applied(0, 0, 0)
    remote = Remote.of(step)
    wire = _wire_schema(plan)
    frames: list[DataFrame] = []
    for number, part in enumerate(plan.block.parts):
        mine = [read for read in reads if read.part == number]
        if mine:
            assert isinstance(part, Select)
            frames.append(_part_frame(spark, remote, plan, part, mine, wire, fill=fill))
    together = frames[0]
    for frame in frames[1:]:
        together = together.unionAll(frame)
    owned = together.repartitionById(plan.shape.spec.regions, REGION)
    done = spark.collect(owned.mapInArrow(partial(_apply, remote, plan, fill), ddl(DONE)))
    step.forget(plan.shape.spec.name)
    return _total(done)


def _total(done: pa.Table) -> tuple[int, Applied]:
    sums = [int(np.sum(done[name].to_numpy())) for name in DONE.names]
    return sums[0], Applied(*sums[1:])


def _part_frame(
    spark: Spark, remote: Remote, plan: BlockPlan, part: Select, reads: Sequence[Read], wire: pa.Schema, *, fill: bool
) -> DataFrame:
    session = spark.session(large=True)
    numbers = session.range(0, len(reads), 1, len(reads))
    if is_plain(part):
        return numbers.mapInArrow(partial(_read_and_fold, remote, plan, tuple(reads), fill), ddl(wire))
    joined = joined_schema(part, plan.inputs)
    view = spark.name()
    numbers.mapInArrow(partial(_read, remote, plan, tuple(reads), fill), ddl(joined)).createOrReplaceTempView(view)
    rows = session.sql(joined_sql(part, plan.inputs, view))
    return rows.mapInArrow(partial(_fold, plan), ddl(wire))


# In the workers


def _terms(remote: Remote, plan: BlockPlan, reads: Sequence[Read], fill: bool, numbers: Any) -> Iterator[pa.Table]:
    step = remote.step()
    runner = PartRunner(step, Spark(), plan)
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            read = reads[number]
            part = plan.block.parts[read.part]
            assert isinstance(part, Select)
            source = part.sources[read.source]
            shape = plan.inputs[source.table]
            chunks = _state(step, shape, read.region) if fill else iter([step.region_change(shape, read.region)])
            for rows in chunks:
                if rows.num_rows:
                    yield runner.term(read.part, part, source, rows, all_after=fill)


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


FILL_ROWS = 500_000
"""Rows of a fill that a task has in hand at a time."""


def _read(
    remote: Remote, plan: BlockPlan, reads: Sequence[Read], fill: bool, numbers: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for joined in _terms(remote, plan, reads, fill, numbers):
        yield from _batches(joined)


def _read_and_fold(
    remote: Remote, plan: BlockPlan, reads: Sequence[Read], fill: bool, numbers: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    part = plan.block.parts[reads[0].part]
    schema = plan.part_schema.append(pa.field(names.WEIGHT, pa.int64()))
    for joined in _terms(remote, plan, reads, fill, numbers):
        yield from _batches(_to_wire(plan, pick_columns(part, joined).cast(schema)))


def _fold(plan: BlockPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = plan.part_schema.append(pa.field(names.WEIGHT, pa.int64()))
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(part.num_rows for part in waiting) >= FILL_ROWS:
            yield from _batches(_to_wire(plan, pa.Table.from_batches(waiting).cast(schema)))
            waiting = []
    if waiting:
        yield from _batches(_to_wire(plan, pa.Table.from_batches(waiting).cast(schema)))


def _batches(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Never an empty one: Spark takes it for the end."""
    return (batch for batch in table.combine_chunks().to_batches(max_chunksize=65_536) if batch.num_rows)


def _linear(plan: BlockPlan) -> Accumulators | None:
    """The accumulators of an aggregate that is all sums: what travels is folded whole."""
    kept = plan.accumulators
    return kept if kept is not None and not kept.value_indexes else None


def _wire_schema(plan: BlockPlan) -> pa.Schema:
    kept = _linear(plan)
    if kept is None:
        fields = [*plan.part_schema, pa.field(names.WEIGHT, pa.int64())]
    else:
        fields = [*kept.group_fields, *(_travelling(field) for field in kept.state_schema)]
    return pa.schema([*fields, pa.field(REGION, pa.int32())])


def _travelling(field: pa.Field) -> pa.Field:
    """Sums of a part may be wider than the whole's: they travel as wide as Spark can carry."""
    if pa.types.is_decimal(field.type):
        return pa.field(field.name, pa.decimal128(38, field.type.scale))
    if field.name.startswith(names.SUM) and pa.types.is_integer(field.type):
        return pa.field(field.name, pa.decimal128(38, 0))
    return field


def _to_wire(plan: BlockPlan, rows: pa.Table) -> pa.Table:
    kept = _linear(plan)
    if plan.accumulators is not None:
        rows = one_zero(rows, plan.accumulators.top.groups)
    elif plan.block.top is Top.DISTINCT:
        rows = one_zero(rows, plan.part_schema.names)
    folded = consolidate(rows) if kept is None else aggregate.fold(kept, rows)
    regions = pa.array(regions_of(plan.shape.spec, _distribution(plan, folded)).astype(np.int32))
    schema = _wire_schema(plan)
    return pa.table([*(_cast(folded[f.name], f.type) for f in list(schema)[:-1]), regions], schema=schema)


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


def _apply(remote: Remote, plan: BlockPlan, fill: bool, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """All that there is for one region: add it to what the region has, and write."""
    found = list(batches)
    if not found:
        return
    table = pa.Table.from_batches(found)
    by_region = table[REGION].to_numpy()
    step = remote.step()
    for region in np.unique(by_region):
        runner = BlockRunner(step, Spark(), plan, new=fill, region=int(region))
        share = table.filter(pa.array(by_region == region)).drop_columns([REGION])
        yield _done(share.num_rows, runner.apply(plan.shape.spec, _desired(runner, plan, share, fill=fill)))


def _desired(runner: BlockRunner, plan: BlockPlan, share: pa.Table, *, fill: bool) -> pa.Table:
    kept = _linear(plan)
    if kept is None:
        schema = plan.part_schema.append(pa.field(names.WEIGHT, pa.int64()))
        return runner.desired(share.cast(schema), from_scratch=fill)
    return runner.merged(kept, aggregate.refold(kept, share), share.slice(0, 0), from_scratch=fill)


def _done(rows: int, applied: Applied) -> pa.RecordBatch:
    values = (rows, applied.inserted, applied.updated, applied.deleted)
    return pa.record_batch([pa.array([value], pa.int64()) for value in values], schema=DONE)


# Indexes


def follow_index(step: Step, spark: Spark, index: TableSpec, spec: TableSpec) -> Applied:
    """An index's epoch from its table's log."""
    return _index(step, spark, index, spec, fill=False)


def fill_index(step: Step, spark: Spark, index: TableSpec, spec: TableSpec) -> Applied:
    """A new index from its table's rows."""
    return _index(step, spark, index, spec, fill=True)


def _index(step: Step, spark: Spark, index: TableSpec, spec: TableSpec, *, fill: bool) -> Applied:
    remote = Remote.of(step)
    wire = pa.schema([*index.schema, pa.field(names.HAS, pa.bool_()), pa.field(REGION, pa.int32())])
    numbers = spark.session(large=True).range(0, spec.regions, 1, spec.regions)
    arranged = numbers.mapInArrow(partial(_arrange, remote, index, spec, fill), ddl(wire))
    owned = arranged.repartitionById(index.regions, REGION)
    done = spark.collect(owned.mapInArrow(partial(_apply_index, remote, index), ddl(DONE)))
    step.forget(index.name)
    return _total(done)[1]


def _arrange(
    remote: Remote, index: TableSpec, spec: TableSpec, fill: bool, numbers: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    step = remote.step()
    for batch in numbers:
        for region in batch.column(0).to_pylist():
            for desired in _arranged(step, index, spec, region, fill):
                regions = pa.array(regions_of(index, desired).astype(np.int32))
                yield from _batches(desired.append_column(REGION, regions))


def _arranged(step: Step, index: TableSpec, spec: TableSpec, region: int, fill: bool) -> Iterator[pa.Table]:
    if not fill:
        before, after = (rows.select(index.schema.names) for rows in step.region_images(spec, region))
        yield as_desired(after, without(before, after, index.key), index.schema)
        return
    for batch in step.store.read(spec.name, region, columns=index.schema.names, at=step.at_end(spec)[region]):
        rows = pa.Table.from_batches([batch])
        yield as_desired(rows, rows.slice(0, 0), index.schema)


def _apply_index(remote: Remote, index: TableSpec, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    found = list(batches)
    if not found:
        return
    step = remote.step()
    table = pa.Table.from_batches(found)
    by_region = table[REGION].to_numpy()
    for region in np.unique(by_region):
        share = table.filter(pa.array(by_region == region)).drop_columns([REGION])
        applied = step.store.apply(index.name, int(region), share, step.epoch, step.term)
        yield _done(share.num_rows, applied)
