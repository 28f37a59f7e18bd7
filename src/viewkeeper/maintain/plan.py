"""A view's maintenance plan: for each block, the tables that keep it and the ways its changes travel.

Plans are derived from the views' definitions and the types that Spark gives; they are never stored. So creating or
dropping a view is a matter of making the hidden tables that are newly needed and dropping those that no longer are. Which
index serves several views is settled in `sharing`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from viewkeeper import names
from viewkeeper.errors import SchemaError, StatementError
from viewkeeper.maintain.accumulators import Accumulators, accumulators
from viewkeeper.maintain.needs import narrowed
from viewkeeper.maintain.unions import with_one_type
from viewkeeper.sql.algebra import (
    Aggregate,
    Block,
    Edge,
    NotIncremental,
    Outer,
    Output,
    Part,
    Select,
    Side,
    Source,
    Top,
)
from viewkeeper.sql.types import same_type
from viewkeeper.store.contract import Kind, TableSpec

Typer = Callable[[str, Mapping[str, pa.Schema]], pa.Schema]
"""The schema of a query over named empty tables: Spark's answer."""


class Strategy(enum.Enum):
    """How a view follows: from the changes alone, or by evaluating its query again and applying the difference."""

    INCREMENTAL = "incremental"
    FULL = "full"


@dataclass(frozen=True)
class Shape:
    """A table as a query sees it: its visible columns, and whether a row stands for `names.COUNT` copies."""

    spec: TableSpec
    columns: tuple[str, ...]
    counted: bool = False
    made: int = field(default=0, compare=False)
    """The epoch in which a view was made, for those who read it; a plan knows of none."""

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([self.spec.schema.field(name).with_nullable(True) for name in self.columns])


@dataclass(frozen=True)
class Access:
    """Where the rows of a table are found by some of its columns: in the table itself, or in an index of it."""

    table: str
    columns: tuple[str, ...]
    index: TableSpec | None = None

    @property
    def place(self) -> str:
        return self.table if self.index is None else self.index.name

    @property
    def family(self) -> tuple[str, tuple[str, ...]]:
        """What an index arranges, and by what: those of one family differ in the columns that they carry."""
        return self.table, self.columns


@dataclass(frozen=True)
class Hop:
    """One step of a change's way through a join: from the rows at hand of `via` to those of `source` that may match."""

    source: Source
    via: str
    pairs: tuple[tuple[str, str], ...]
    access: Access | None


@dataclass(frozen=True)
class BlockPlan:
    """A block, the table that keeps its rows, and what it needs beside it."""

    block: Block
    shape: Shape
    inputs: Mapping[str, Shape]
    ways: Mapping[tuple[int, str], tuple[Hop, ...]]
    accumulators: Accumulators | None
    part_schema: pa.Schema

    @property
    def indexes(self) -> tuple[Access, ...]:
        found = {hop.access.place: hop.access for way in self.ways.values() for hop in way if hop.access is not None}
        return tuple(access for access in found.values() if access.index is not None)


@dataclass(frozen=True)
class ViewPlan:
    """A view: its blocks in order, the last one its own; or, for `full`, its table alone, and the reason."""

    name: str
    query: str
    strategy: Strategy
    reason: str
    tables: tuple[str, ...]
    shape: Shape
    blocks: tuple[BlockPlan, ...] = ()

    @property
    def hidden(self) -> tuple[TableSpec, ...]:
        """Tables that this view alone needs: inner blocks and value indexes."""
        found = [plan.shape.spec for plan in self.blocks[:-1]]
        for plan in self.blocks:
            if plan.accumulators is not None:
                found += plan.accumulators.value_indexes.values()
        return tuple(found)

    @property
    def indexes(self) -> tuple[Access, ...]:
        found = {access.place: access for plan in self.blocks for access in plan.indexes}
        return tuple(found.values())


@dataclass(frozen=True)
class Wishes:
    """What the user said about a view beside its query."""

    name: str
    group: str
    cluster: tuple[str, ...] = ()
    regions: int = 4


def plan_incremental(
    wishes: Wishes, query: str, blocks: Sequence[Block], schema: pa.Schema, inputs: Mapping[str, Shape], typer: Typer
) -> ViewPlan:
    """The plan of a view whose blocks all have delta rules; `NotIncremental` if types rule that out after all."""
    known = dict(inputs)
    plans = []
    for block in blocks:
        last = block is blocks[-1]
        plan = _plan_block(block, wishes, schema if last else None, known, _typing_parts(typer))
        known[block.name] = plan.shape
        plans.append(plan)
    _refuse_other_types(plans[-1], schema)
    tables = tuple(name for name in inputs if any(name in block.tables for block in blocks))
    return ViewPlan(wishes.name, query, Strategy.INCREMENTAL, "", tables, plans[-1].shape, tuple(plans))


def _refuse_other_types(last: BlockPlan, schema: pa.Schema) -> None:
    """What a plan makes is of the types that Spark gives the query's columns, or the query was misread."""
    made = last.part_schema if last.accumulators is None else last.accumulators.output_schema
    for mine, wanted in zip(made, schema, strict=True):
        if not same_type(mine.type, wanted.type):
            raise NotIncremental(
                f"column {wanted.name}", f"is read otherwise here than by Spark: as {mine.type}, not {wanted.type}"
            )


def plan_full(wishes: Wishes, query: str, schema: pa.Schema, tables: Sequence[str], reason: str) -> ViewPlan:
    """The plan of a view that is evaluated again at every refresh. Its rows are a bag."""
    shape = _bag(wishes, wishes.name, schema, Kind.VIEW)
    return ViewPlan(wishes.name, query, Strategy.FULL, reason, tuple(tables), shape)


# Blocks


def _typing_parts(typer: Typer) -> Typer:
    """Spark took the query. If it does not take a part of it, then that part was more than we saw: an aggregate, mostly."""

    def type_part(sql: str, tables: Mapping[str, pa.Schema]) -> pa.Schema:
        try:
            return typer(sql, tables)
        except (StatementError, SchemaError) as error:
            said = error.message.removeprefix("Spark cannot analyse the query: ")
            raise NotIncremental("a part of the query", f"cannot be evaluated apart from it: {said}") from error

    return type_part


def _plan_block(
    block: Block, wishes: Wishes, schema: pa.Schema | None, known: Mapping[str, Shape], typer: Typer
) -> BlockPlan:
    inputs = {table: known[table] for table in block.tables}
    block = _with_usable_edges(block, inputs)
    block, part_schema = with_one_type(block, inputs, typer)
    inputs = narrowed(block, inputs)
    _refuse_grouped_maps(block, part_schema)
    kind = Kind.INDEX if schema is None else Kind.VIEW
    own = wishes if schema is not None else Wishes(wishes.name, wishes.group, (), wishes.regions)
    kept = None
    if isinstance(block.top, Aggregate):
        order = _groups_in_key_order(block.top, own.cluster)
        spread = len(own.cluster)
        kept = accumulators(block.name, block.top, order, part_schema, wishes.group, own.regions, spread, typer)
        shape = _aggregate_shape(block, block.top, kept, own, schema, kind)
    else:
        visible = part_schema if schema is None else schema
        shape = _rows_shape(block, inputs, own, visible, kind)
    ways = {
        (number, source.alias): _ways(part, source, inputs, wishes)
        for number, part in enumerate(block.parts)
        for source in part.sources
    }
    return BlockPlan(block, shape, inputs, ways, kept, part_schema)


def _refuse_grouped_maps(block: Block, schema: pa.Schema) -> None:
    """Maps with the same entries in another order are one group to Spark, and two here."""
    grouped = block.top.groups if isinstance(block.top, Aggregate) else ()
    for name in schema.names if block.top is Top.DISTINCT else grouped:
        if _has_maps(schema.field(name).type):
            raise NotIncremental("a group by maps", "has no delta rule")


def _has_maps(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return True
    return pa.types.is_nested(kind) and any(_has_maps(kind.field(i).type) for i in range(kind.num_fields))


def _with_usable_edges(block: Block, inputs: Mapping[str, Shape]) -> Block:
    """An edge is usable where equality of the stored values is Spark's equality: between columns of one exact type."""

    def usable(part: Part, edge: Edge) -> bool:
        tables = {source.alias: source.table for source in part.sources}
        ends = [inputs[tables[end.alias]].spec.schema.field(end.name).type for end in (edge.left, edge.right)]
        _refuse_merged(edge, *ends)
        exact = not pa.types.is_floating(ends[0]) and not pa.types.is_nested(ends[0])
        return exact and (ends[0] == ends[1] or all(pa.types.is_integer(end) for end in ends))

    parts = []
    for part in block.parts:
        edges = tuple(edge for edge in part.edges if usable(part, edge))
        if len(edges) < len(part.edges) and (isinstance(part, Outer) or len(edges) < len(part.sources) - 1):
            lost = next(edge for edge in part.edges if edge not in edges)
            text = f"{lost.left.alias}.{lost.left.name} = {lost.right.alias}.{lost.right.name}"
            raise NotIncremental(f"a join on {text}", "between different or inexact types has no delta rule")
        lost_texts = tuple(edge.sql for edge in part.edges if edge not in edges)
        conditions = (*part.conditions, *lost_texts) if isinstance(part, Select) else part.conditions
        parts.append(replace(part, edges=edges, conditions=conditions))
    return replace(block, parts=tuple(parts))


def _refuse_merged(edge: Edge, left: pa.DataType, right: pa.DataType) -> None:
    """The column that USING makes is one side's in Spark, and here the first that is there of both: of the wider type.

    So `hash(x)` of an INT joined with a BIGINT would be another number.
    """
    if edge.merged and left != right:
        raise NotIncremental(f"USING or NATURAL by {edge.left.name}", "of different types has no delta rule: write ON")


# Tables


def _rows_shape(block: Block, inputs: Mapping[str, Shape], wishes: Wishes, schema: pa.Schema, kind: Kind) -> Shape:
    key = _kept_key(block, inputs) if block.top is Top.ROWS else None
    if key is None:
        shape = _bag(wishes, block.name, schema, kind)
        return Shape(shape.spec, shape.columns, counted=block.top is Top.ROWS)
    spec = _spec(wishes, block.name, schema, key, kind)
    return Shape(spec, tuple(schema.names))


def _kept_key(block: Block, inputs: Mapping[str, Shape]) -> tuple[str, ...] | None:
    """The output columns that hold the keys that tell the rows apart, if they do: then no two rows agree on them."""
    if len(block.parts) != 1:
        return None
    part = block.parts[0]
    if isinstance(part, Outer) and part.side is Side.FULL and not _told_apart(part, inputs):
        return None
    if any(inputs[source.table].counted for source in part.sources):
        return None
    found: list[str] = []
    for source in _telling(part, inputs):
        for column in inputs[source.table].spec.key:
            output = _showing(part.outputs, source.alias, column)
            if output is None:
                return None
            found.append(output)
    return tuple(dict.fromkeys(found))


def _telling(part: Part, inputs: Mapping[str, Shape]) -> list[Source]:
    """The sources whose keys tell a part's rows apart.

    A source whose whole key is equated with columns of others has one row for each of theirs, so its key adds nothing. So
    it is in an inner join, and on the right of a left join, where there may be none and the row is padded.
    """
    if isinstance(part, Outer) and part.side is Side.FULL:
        return list(part.sources)
    kept = list(part.sources)
    for source in [part.right] if isinstance(part, Outer) else list(reversed(part.sources)):
        others = {other.alias for other in kept if other is not source}
        bound = {
            end.name
            for edge in part.edges
            if (end := edge.at(source.alias)) and edge.across(source.alias).alias in others
        }
        if others and set(inputs[source.table].spec.key) <= bound:
            kept.remove(source)
    return kept


def _told_apart(part: Outer, inputs: Mapping[str, Shape]) -> bool:
    """Whether a full join's keys are unique: a padded NULL may be a key of the other side too, but in base tables it is none.

    Two views by a NULL group each, joined on that group: both rows are padded, and both have the key (NULL, NULL).
    """
    return any(inputs[source.table].spec.kind is Kind.BASE for source in part.sources)


def _showing(outputs: Sequence[Output], alias: str, column: str) -> str | None:
    return next((o.name for o in outputs if o.column and (o.column.alias, o.column.name) == (alias, column)), None)


def _bag(wishes: Wishes, name: str, schema: pa.Schema, kind: Kind) -> Shape:
    """The whole row is the key, with a count beside it."""
    with_count = schema.append(pa.field(names.COUNT, pa.int64()))
    return Shape(_spec(wishes, name, with_count, tuple(schema.names), kind), tuple(schema.names), counted=True)


def group_columns(top: Aggregate) -> dict[str, str]:
    """The table's column for each group: the one that the query shows it by, or a hidden one."""
    return {
        group: _showing(top.outputs, "", group) or f"{names.GROUP}{number}" for number, group in enumerate(top.groups)
    }


def _groups_in_key_order(top: Aggregate, cluster: tuple[str, ...]) -> list[str]:
    columns = group_columns(top)
    return sorted(top.groups, key=lambda g: cluster.index(columns[g]) if columns[g] in cluster else len(cluster))


def _aggregate_shape(
    block: Block, top: Aggregate, kept: Accumulators, wishes: Wishes, schema: pa.Schema | None, kind: Kind
) -> Shape:
    """Groups are the key: under the name that the query shows them by, or under a hidden one."""
    visible = kept.output_schema if schema is None else schema
    fields = {field.name: field for field in visible}
    key = []
    for group, shown in group_columns(top).items():
        if shown not in fields:
            fields[shown] = pa.field(shown, kept.part_schema.field(group).type)
        key.append(shown)
    if not key:
        key = [names.WHOLE]
        fields[names.WHOLE] = pa.field(names.WHOLE, pa.int8())
    fields |= {state.name: state for state in kept.state_schema}
    if any(column not in key for column in wishes.cluster):
        raise SchemaError(
            f'view "{wishes.name}" cannot be clustered by {", ".join(wishes.cluster)}',
            hint=f"an aggregate is clustered by its group columns: {', '.join(key)}",
        )
    spec = _spec(wishes, block.name, pa.schema(list(fields.values())), tuple(key), kind)
    return Shape(spec, tuple(visible.names))


def _spec(wishes: Wishes, name: str, schema: pa.Schema, key: tuple[str, ...], kind: Kind) -> TableSpec:
    """Clustering columns come first in the key, and rows that agree on them share a region."""
    key = (*wishes.cluster, *(column for column in key if column not in wishes.cluster))
    for column in key:
        if column not in schema.names:
            raise SchemaError(
                f'view "{wishes.name}" has no column "{column}" to be clustered by',
                hint=f"it has {', '.join(schema.names)}",
            )
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    return TableSpec(name, nullable, key, wishes.cluster or key, wishes.regions, kind, wishes.group)


# Ways


def _ways(part: Part, start: Source, inputs: Mapping[str, Shape], wishes: Wishes) -> tuple[Hop, ...]:
    """From a changed source to all others, along the edges; what no edge leads to is read whole (a cross join)."""
    reached = [start.alias]
    hops = []
    rest = [source for source in part.sources if source.alias != start.alias]
    while rest:
        source, via, pairs = _next_hop(part, reached, rest)
        access = _access(inputs[source.table], tuple(own for _, own in pairs), wishes) if pairs else None
        if access is not None:
            order = {own: given for given, own in pairs}
            pairs = tuple((order[column], column) for column in access.columns)
        hops.append(Hop(source, via, pairs, access))
        reached.append(source.alias)
        rest.remove(source)
    return tuple(hops)


def _next_hop(
    part: Part, reached: Sequence[str], rest: Sequence[Source]
) -> tuple[Source, str, tuple[tuple[str, str], ...]]:
    """The next source, from where, and by which columns: each column of either once, so that the way back is the same."""
    for source in rest:
        for via in reached:
            pairs: dict[str, str] = {}
            for edge in part.edges:
                here = edge.at(via)
                there = edge.at(source.alias)
                if here and there and there.name not in pairs and here.name not in pairs.values():
                    pairs[there.name] = here.name
            if pairs:
                return source, via, tuple((given, own) for own, given in pairs.items())
    return rest[0], reached[0], ()


def _access(shape: Shape, columns: tuple[str, ...], wishes: Wishes) -> Access:
    """The table itself if the columns begin its key; else an index that arranges its rows by them.

    The index has the columns that this block uses; `sharing` finds one that all blocks of a group can use.
    """
    spec = shape.spec
    leading = spec.key[: len(columns)]
    if set(leading) == set(columns):
        return Access(spec.name, leading)
    ordered = tuple(sorted(columns))
    key = (*ordered, *(column for column in spec.key if column not in ordered))
    kept = [*shape.columns, *(column for column in spec.key if column not in shape.columns)]
    if shape.counted:
        kept.append(names.COUNT)
    schema = pa.schema([spec.schema.field(name).with_nullable(True) for name in kept])
    name = index_name(
        f"{names.RESERVED_PREFIX}index_{spec.name}({','.join(map(names.quoted, ordered))}",
        wishes.group,
        [name for name in kept if name not in key],
    )
    return Access(spec.name, ordered, TableSpec(name, schema, key, ordered, wishes.regions, Kind.INDEX, wishes.group))


def index_name(family: str, group: str, carried: Sequence[str]) -> str:
    """Of a family of indexes the one that carries these columns.

    >>> index_name(family_of("_vk_index_t(`a[0]`)_on_demand[`b`]", "on demand"), "on demand", ["b", "c"])
    '_vk_index_t(`a[0]`)_on_demand[`b`,`c`]'
    """
    return f"{family})_{_mark(group)}[{','.join(map(names.quoted, carried))}]"


def family_of(index: str, group: str) -> str:
    """What an index is called before what it carries. Columns have brackets in their names too: Spark's own is `a[0]`."""
    return index.partition(f")_{_mark(group)}[")[0]


def _mark(group: str) -> str:
    return group.replace(" ", "_").replace(".", "_")
