"""Blocks in large epochs: what a task makes of a table's change, or of its rows, and what it does to a region of theirs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from viewkeeper import names
from viewkeeper.engine.blocks import BlockRunner, groups_in_key_order
from viewkeeper.engine.parcels import Address, complaint, parcels
from viewkeeper.engine.parts import PartRunner
from viewkeeper.engine.point import Step, as_change, weighted_rows
from viewkeeper.engine.spark import Spark
from viewkeeper.errors import Corrupt, QueryFailed
from viewkeeper.maintain.accumulators import Accumulators
from viewkeeper.maintain.delta import aggregate
from viewkeeper.maintain.delta.rows import consolidate, one_zero
from viewkeeper.maintain.delta.select import pick_columns
from viewkeeper.maintain.plan import BlockPlan, Shape
from viewkeeper.sql.algebra import Outer, Select, Source, Top
from viewkeeper.store.contract import Applied, TableSpec
from viewkeeper.store.regions import regions_of


def suits(step: Step, plan: BlockPlan) -> bool:
    """Whether a block can run as tasks: its results need nothing that only the driver can ask Spark for."""
    if step.store.reopener() is None or any(isinstance(part, Outer) for part in plan.block.parts):
        return False
    return plan.accumulators is None or plan.accumulators.plain_outputs


def probed(step: Step, plan: BlockPlan, *, fill: bool) -> set[str]:
    """The indexes that a block's tasks look into: they must be where the epoch goes to by then."""
    found = set()
    for number, part in enumerate(plan.block.parts):
        for place, source in enumerate(part.sources):
            starts = place == 0 if fill else step.size(plan.inputs[source.table].spec) > 0
            if starts:
                found |= {hop.access.place for hop in plan.ways[number, source.alias] if hop.access is not None}
    return found


# Reading


@dataclass(frozen=True)
class BlockReading:
    """What a block wants of one table's change: the term of a part that starts from one of its sources.

    Where Spark has expressions to evaluate in between (`evaluated`), joined rows leave the task; else they are folded there.
    """

    plan: BlockPlan
    number: int
    place: int
    to: Address
    given: Mapping[str, pa.Table] = field(default_factory=dict)
    evaluated: bool = False

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

    @property
    def spec(self) -> TableSpec:
        return self.shape.spec

    @property
    def columns(self) -> Sequence[str]:
        return [*self.shape.columns, *((names.COUNT,) if self.shape.counted else ())]

    def begin(self, step: Step) -> BlockReader:
        return BlockReader(self, PartRunner(step, Spark(), self.plan, self.given))


@dataclass(frozen=True)
class BlockReader:
    """A reading under way. Tables that are met whole are read once, however many rows come."""

    reading: BlockReading
    runner: PartRunner

    def change(self, before: pa.Table, after: pa.Table) -> Iterator[pa.RecordBatch]:
        rows = as_change(self.reading.shape, before, after)
        if rows.num_rows:
            yield from self._made(rows, all_after=False)

    def state(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        yield from self._made(weighted_rows(self.reading.shape, rows), all_after=True)

    def _made(self, rows: pa.Table, *, all_after: bool) -> Iterator[pa.RecordBatch]:
        if self.reading.evaluated:
            yield from self._joined(rows, all_after).combine_chunks().to_batches(max_chunksize=65_536)
        else:
            yield self._folded(rows, all_after)

    def _joined(self, rows: pa.Table, all_after: bool) -> pa.Table:
        reading = self.reading
        return self.runner.term(reading.number, reading.part, reading.source, rows, all_after=all_after)

    def _folded(self, rows: pa.Table, all_after: bool) -> pa.RecordBatch:
        try:
            picked = pick_columns(self.reading.part, self._joined(rows, all_after))
            return folded(self.reading.plan, self.reading.to, picked)
        except (QueryFailed, Corrupt) as failure:
            return complaint(failure, self.reading.to)


def _part_rows(plan: BlockPlan) -> pa.Schema:
    return plan.part_schema.append(pa.field(names.WEIGHT, pa.int64()))


def linear(plan: BlockPlan) -> Accumulators | None:
    """The accumulators of an aggregate that is all sums: what travels is folded whole."""
    kept = plan.accumulators
    return kept if kept is not None and not kept.value_indexes else None


def _wire_schema(plan: BlockPlan) -> pa.Schema:
    kept = linear(plan)
    if kept is None:
        return _part_rows(plan)
    return pa.schema([*kept.group_fields, *(_travelling(field) for field in kept.state_schema)])


def _travelling(field: pa.Field) -> pa.Field:
    """Sums of a part may be wider than the whole's: they travel as wide as there is, and are added up so.

    In 128 bits three sums of 38 digits can wrap around to a number that fits again, and Arrow does not say so.
    """
    if pa.types.is_decimal(field.type):
        return pa.field(field.name, pa.decimal256(_WIDEST, field.type.scale))
    if field.name.startswith(names.SUM) and pa.types.is_integer(field.type):
        return pa.field(field.name, pa.decimal256(_WIDEST, 0))
    return field


_WIDEST = 76


def folded(plan: BlockPlan, to: Address, rows: pa.Table) -> pa.RecordBatch:
    """Rows of the parts, folded, in parcels for the regions of the block's table."""
    rows = rows.cast(_part_rows(plan))
    kept = linear(plan)
    if plan.accumulators is not None:
        rows = one_zero(rows, plan.accumulators.top.groups)
    elif plan.block.top is Top.DISTINCT:
        rows = one_zero(rows, plan.part_schema.names)
    net = consolidate(rows) if kept is None else aggregate.fold(kept, rows)
    regions = regions_of(plan.shape.spec, _distribution(plan, net))
    schema = _wire_schema(plan)
    table = pa.table([_cast(net[field.name], field.type) for field in schema], schema=schema)
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


# Applying


@dataclass(frozen=True)
class BlockTarget:
    """A block's table: what comes for a region is added to what is there."""

    plan: BlockPlan

    @property
    def spec(self) -> TableSpec:
        return self.plan.shape.spec

    @property
    def is_small(self) -> bool:
        """A sum is, once it is folded."""
        return linear(self.plan) is not None

    def apply(self, step: Step, region: int, share: pa.Table, *, fill: bool) -> Applied:
        runner = BlockRunner(step, Spark(), self.plan, new=fill, region=region)
        return runner.apply(self.spec, self._desired(runner, share, fill=fill))

    def _desired(self, runner: BlockRunner, share: pa.Table, *, fill: bool) -> pa.Table:
        kept = linear(self.plan)
        if kept is None:
            return runner.desired(share.cast(_part_rows(self.plan)), from_scratch=fill)
        return runner.merged(kept, aggregate.refold(kept, share), share.slice(0, 0), from_scratch=fill)
