"""The rows that a block's parts gain and lose in an epoch: candidates by probing, joins and expressions by Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper import names
from viewkeeper.engine.point import Step, weighted_rows, weighted_schema
from viewkeeper.engine.spark import Spark
from viewkeeper.errors import QueryFailed
from viewkeeper.maintain.delta.rows import consolidate, stored_keys
from viewkeeper.maintain.delta.select import is_plain, joined_sql, part_sql, pick_columns
from viewkeeper.maintain.plan import Access, BlockPlan, Hop, Shape
from viewkeeper.sql.algebra import Outer, Part, Select, Side, Source
from viewkeeper.store.contract import Positions, TableSpec

WHOLE_FROM = 20_000
WHOLE_BYTES = 64 << 20
"""So many rows to be met, and a table no larger than this: reading it whole is cheaper than probing it."""


@dataclass
class Terms:
    """SQL terms over named Arrow tables, to be added up in one statement."""

    texts: list[str] = field(default_factory=list)
    tables: dict[str, pa.Table] = field(default_factory=dict)

    def add(self, part: Part, rows: Mapping[str, pa.Table], sign: int = 1) -> None:
        """A part over the rows at hand of each source. Without rows of an inner source there is nothing to add."""
        if isinstance(part, Select) and any(table.num_rows == 0 for table in rows.values()):
            return
        named = {alias: self._named(table) for alias, table in rows.items()}
        self.texts.append(part_sql(part, lambda source: named[source.alias], sign))

    def add_joined(self, part: Select, inputs: Mapping[str, Shape], joined: pa.Table) -> None:
        """A part over rows that are joined already."""
        if joined.num_rows:
            self.texts.append(joined_sql(part, inputs, self._named(joined)))

    def _named(self, table: pa.Table) -> str:
        name = f"_vk_t{len(self.tables)}"
        self.tables[name] = table
        return name


@dataclass
class PartRunner:
    """Computes one block's part rows."""

    step: Step
    spark: Spark
    plan: BlockPlan
    given: Mapping[str, pa.Table] = field(default_factory=dict)
    """Rows of sources that are at hand already, by alias: see `early`."""
    _wholes: dict[tuple[str, bool], pa.Table] = field(default_factory=dict)

    def change(self) -> pa.Table:
        """The parts' weighted rows that come and go, equal rows not necessarily added up."""
        terms = Terms()
        plain = []
        for number, part in enumerate(self.plan.block.parts):
            if isinstance(part, Outer):
                self._outer(terms, number, part)
                continue
            joined = self._joined(number, part)
            if is_plain(part):
                plain.append(self.typed(pick_columns(part, joined)))
            else:
                terms.add_joined(part, self.plan.inputs, joined)
        return pa.concat_tables([*plain, self._evaluated(terms)])

    def adds_up(self) -> bool:
        """Whether the change has at most one row that left and one that came under each key of the sources.

        So it is if one source of one inner join has changed: its rows have changed once each. Changes of two sources
        meet in rows that one term brings and another takes away again.
        """
        parts = self.plan.block.parts
        if len(parts) > 1 or isinstance(parts[0], Outer):
            return False
        return sum(1 for source in parts[0].sources if self._delta(source).num_rows) <= 1

    def everything(self, frames: Mapping[str, pa.Table]) -> pa.Table:
        """The parts' rows over whole inputs, by table name: what the block is from scratch."""
        terms = Terms()
        plain = []
        for part in self.plan.block.parts:
            rows = {source.alias: frames[source.table] for source in part.sources}
            if isinstance(part, Select) and is_plain(part):
                plain.append(self.typed(pick_columns(part, self._join_all(part, rows))))
            else:
                terms.add(part, rows)
        return pa.concat_tables([*plain, self._evaluated(terms)])

    def _join_all(self, part: Select, rows: Mapping[str, pa.Table]) -> pa.Table:
        first = part.sources[0].alias
        joined = named_columns(first, rows[first])
        number = self.plan.block.parts.index(part)
        for hop in self.plan.ways[number, first]:
            joined = join_hop(joined, hop, rows[hop.source.alias])
        return keep_equal(joined, part, self.plan.ways[number, first])

    def _evaluated(self, terms: Terms) -> pa.Table:
        schema = self.plan.part_schema.append(pa.field(names.WEIGHT, pa.int64()))
        if not terms.texts:
            return schema.empty_table()
        try:
            return self.spark.run(" UNION ALL ".join(terms.texts), terms.tables, schema)
        except QueryFailed as failure:
            raise self._located(failure, terms, schema) from failure

    def _located(self, failure: QueryFailed, terms: Terms, schema: pa.Schema) -> QueryFailed:
        """The failure with the row that it fails on, found by halving, where one table of rows is evaluated alone."""
        if len(terms.tables) != 1:
            return failure
        name, rows = next(iter(terms.tables.items()))
        while rows.num_rows > 1:
            half = rows.slice(0, rows.num_rows // 2)
            rows = half if self._fails(terms, name, half, schema) else rows.slice(half.num_rows)
        row = {column: value for column, value in rows.to_pylist()[0].items() if column != names.WEIGHT}
        return QueryFailed(f"{failure.message} (on the row {row})", hint=failure.hint, row=row, **failure.fields)

    def _fails(self, terms: Terms, name: str, rows: pa.Table, schema: pa.Schema) -> bool:
        try:
            self.spark.run(terms.texts[0], {name: rows}, schema)
        except QueryFailed:
            return True
        return False

    def typed(self, rows: pa.Table) -> pa.Table:
        return rows.cast(self.plan.part_schema.append(pa.field(names.WEIGHT, pa.int64())))

    def _shape(self, source: Source) -> Shape:
        return self.plan.inputs[source.table]

    def _delta(self, source: Source) -> pa.Table:
        return self.step.change(self._shape(source))

    # Inner joins

    def _joined(self, number: int, part: Select) -> pa.Table:
        """One term per changed source: those before it after their change, those after it before theirs.

        Of several, a row that is new and one that is gone meet in two terms, and cancel out. They do so before Spark
        evaluates anything: an expression may fail on two rows that were never there together.
        """
        schema = joined_schema(part, self.plan.inputs)
        changes = {source: self._delta(source) for source in part.sources}
        terms = [self.term(number, part, source, rows) for source, rows in changes.items() if rows.num_rows]
        joined = pa.concat_tables([schema.empty_table(), *terms])
        return joined if len(terms) < 2 or is_plain(part) else consolidate(joined)

    def term(self, number: int, part: Select, source: Source, rows: pa.Table, *, all_after: bool = False) -> pa.Table:
        """Rows of one source joined with what the others have for them, in columns `alias.column`.

        With `all_after` the others are all seen after the epoch: that is how a block is filled from one source's rows.
        """
        order = [other.alias for other in part.sources]
        way = self.plan.ways[number, source.alias]
        joined = named_columns(source.alias, rows)
        for hop in way:
            after = all_after or order.index(hop.source.alias) < order.index(source.alias)
            joined = join_hop(joined, hop, self._reach(hop, joined, after=after))
        return keep_equal(joined, part, way).select(joined_schema(part, self.plan.inputs).names)

    def _reach(self, hop: Hop, via: pa.Table, *, after: bool) -> pa.Table:
        """The rows of a hop's source that can meet the rows at hand."""
        if hop.source.alias in self.given:
            return self.given[hop.source.alias]
        shape = self._shape(hop.source)
        if hop.access is None or (via.num_rows >= WHOLE_FROM and self.step.store.size(shape.spec.name) < WHOLE_BYTES):
            return self._whole(shape, after=after)
        keys = pa.table(
            [via[names.qualified(hop.via, given)] for given, _ in hop.pairs], names=[own for _, own in hop.pairs]
        )
        return self.probe(shape, hop.access, distinct_keys(keys, shape.spec), after=after)

    def _whole(self, shape: Shape, *, after: bool) -> pa.Table:
        place = (shape.spec.name, after)
        if place not in self._wholes:
            columns = [*shape.columns, *((names.COUNT,) if shape.counted else ())]
            rows = self.step.store.scan(shape.spec.name, columns=columns, at=self._positions(shape.spec, after=after))
            self._wholes[place] = weighted_rows(shape, rows)
        return self._wholes[place]

    def probe(self, shape: Shape, access: Access, keys: pa.Table, *, after: bool) -> pa.Table:
        if keys.num_rows == 0:
            return weighted_schema(shape).empty_table()
        place = shape.spec if access.index is None else access.index
        columns = [*shape.columns, *((names.COUNT,) if shape.counted else ())]
        found = self.step.store.probe(place.name, keys, columns=columns, at=self._positions(place, after=after))
        return weighted_rows(shape, found)

    def _positions(self, spec: TableSpec, *, after: bool) -> Positions:
        return self.step.at_end(spec) if after else self.step.at_start(spec)

    # Outer joins

    def _outer(self, terms: Terms, number: int, part: Outer) -> None:
        """See `delta.outer_join`."""
        left, right = self._delta(part.left), self._delta(part.right)
        if part.side is Side.LEFT:
            self._left(terms, number, part, left, right)
        elif left.num_rows or right.num_rows:
            self._full(terms, number, part, left, right)

    def _left(self, terms: Terms, number: int, part: Outer, left: pa.Table, right: pa.Table) -> None:
        """ΔL and −L₁[K] meet the same R₀, so they are added up first: what is left of them is ΔL without K, and −L₀[K]."""
        to_right, to_left = self._hops(number, part)
        touched = self._reach(to_left, named_columns(part.right.alias, right), after=True)
        sides = [(touched, True), (_without_rows(left, touched), False)]
        for rows, after in sides:
            if rows.num_rows:
                met = self._reach(to_right, named_columns(part.left.alias, rows), after=after)
                terms.add(part, {part.left.alias: rows, part.right.alias: met})

    def _full(self, terms: Terms, number: int, part: Outer, left: pa.Table, right: pa.Table) -> None:
        to_right, to_left = self._hops(number, part)
        assert to_right.access is not None
        assert to_left.access is not None
        keys = self._touched_keys(to_right, left, right)
        left_keys = keys.rename_columns([given for given, _ in to_right.pairs]).select(
            [own for _, own in to_left.pairs]
        )
        for after, sign in ((True, 1), (False, -1)):
            lefts = self.probe(self._shape(part.left), to_left.access, left_keys, after=after)
            rights = self.probe(self._shape(part.right), to_right.access, keys, after=after)
            terms.add(part, {part.left.alias: lefts, part.right.alias: rights}, sign)
        spec = self._shape(part.right).spec
        lonely_left = _without_key(left, {given: spec.schema.field(own).type for given, own in to_right.pairs})
        lonely_right = _without_key(right, {own: spec.schema.field(own).type for _, own in to_right.pairs})
        for one, other in ((lonely_left, right.slice(0, 0)), (left.slice(0, 0), lonely_right)):
            if one.num_rows or other.num_rows:
                terms.add(part, {part.left.alias: one, part.right.alias: other})

    def _touched_keys(self, to_right: Hop, left: pa.Table, right: pa.Table) -> pa.Table:
        own = [name for _, name in to_right.pairs]
        given = pa.table([left[name] for name, _ in to_right.pairs], names=own)
        schema = pa.schema([right.schema.field(name) for name in own])
        fitting = distinct_keys(given, self._shape(to_right.source).spec)
        return distinct_keys(
            pa.concat_tables([fitting.cast(schema), right.select(own)]), self._shape(to_right.source).spec
        )

    def _hops(self, number: int, part: Outer) -> tuple[Hop, Hop]:
        return self.plan.ways[number, part.left.alias][0], self.plan.ways[number, part.right.alias][0]


def _without_rows(change: pa.Table, rows: pa.Table) -> pa.Table:
    """A change less some rows, added up."""
    if rows.num_rows == 0:
        return change
    place = rows.column_names.index(names.WEIGHT)
    taken = rows.set_column(place, rows.schema.field(place), pc.negate(rows[names.WEIGHT]))
    return taken if change.num_rows == 0 else consolidate(pa.concat_tables([change, taken]))


def joined_schema(part: Select, inputs: Mapping[str, Shape]) -> pa.Schema:
    """The columns of a part's joined rows: every source's, named `alias.column`, and the weight."""
    columns = ((source, column) for source in part.sources for column in inputs[source.table].schema)
    fields = [column.with_name(names.qualified(source.alias, column.name)) for source, column in columns]
    return pa.schema([*fields, pa.field(names.WEIGHT, pa.int64())])


def named_columns(alias: str, rows: pa.Table) -> pa.Table:
    """A source's rows with columns named `alias.column`; the weight keeps its name."""
    return rows.rename_columns(
        [name if name == names.WEIGHT else names.qualified(alias, name) for name in rows.column_names]
    )


def _columns(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    return dict(zip(table.column_names, table.columns, strict=True))


def join_hop(joined: pa.Table, hop: Hop, rows: pa.Table) -> pa.Table:
    """The rows at hand joined with those of a hop's source, weights multiplied. NULL equals nothing."""
    right = named_columns(hop.source.alias, rows).rename_columns({names.WEIGHT: _OTHER})
    if hop.access is None:
        paired = _product(joined, right)
    else:
        left_keys = [names.qualified(hop.via, given) for given, _ in hop.pairs]
        right_keys = [names.qualified(hop.source.alias, own) for _, own in hop.pairs]
        paired = _equi_join(joined, right, left_keys, right_keys)
    weight = pc.multiply(paired[names.WEIGHT], paired[_OTHER])
    place = paired.column_names.index(names.WEIGHT)
    return paired.set_column(place, names.WEIGHT, weight).drop_columns([_OTHER])


_OTHER = "_vk_other"


def _equi_join(left: pa.Table, right: pa.Table, left_keys: list[str], right_keys: list[str]) -> pa.Table:
    """Row numbers are joined, on stored keys; then the rows are taken: so any column may ride along, nested ones too."""
    keys = [f"k{i}" for i in range(len(left_keys))]
    one, two = stored_keys(left, left_keys), stored_keys(right, right_keys)
    one = one.append_column("l", pa.array(np.arange(left.num_rows)))
    two = two.append_column("r", pa.array(np.arange(right.num_rows)))
    pairs = one.join(two, keys, join_type="inner", use_threads=False)
    return _beside(left.take(pairs["l"]), right.take(pairs["r"]))


def _product(left: pa.Table, right: pa.Table) -> pa.Table:
    lefts = np.repeat(np.arange(left.num_rows), right.num_rows)
    rights = np.tile(np.arange(right.num_rows), left.num_rows)
    return _beside(left.take(pa.array(lefts)), right.take(pa.array(rights)))


def _beside(left: pa.Table, right: pa.Table) -> pa.Table:
    return pa.table({**_columns(left), **_columns(right)})


def keep_equal(joined: pa.Table, part: Select, way: Sequence[Hop]) -> pa.Table:
    """What meets the equalities that the way did not use: one of a ring of sources, or a second one of a column."""
    used = {frozenset([(h.via, given), (h.source.alias, own)]) for h in way for given, own in h.pairs}
    for edge in part.edges:
        ends = [(end.alias, end.name) for end in (edge.left, edge.right)]
        if frozenset(ends) not in used:
            one, two = (joined[names.qualified(alias, name)] for alias, name in ends)
            joined = joined.filter(pc.fill_null(pc.equal(one, two), False))
    return joined


def _without_key(change: pa.Table, kinds: Mapping[str, pa.DataType]) -> pa.Table:
    """Rows that match nothing: with a NULL among their join columns, or a number that the other side's type cannot hold."""
    mask = pa.array(np.zeros(change.num_rows, dtype=bool))
    for name, kind in kinds.items():
        mask = pc.or_(mask, pc.invert(_can_match(change[name], kind)))
    return change.filter(mask)


def _can_match(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Whether there can be an equal value of that type."""
    if column.type == kind:
        return column.is_valid()
    low, high = -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1
    numbers = column.cast(pa.int64())
    return pc.fill_null(pc.and_(pc.greater_equal(numbers, low), pc.less_equal(numbers, high)), False)


def distinct_keys(keys: pa.Table, spec: TableSpec) -> pa.Table:
    """Each key once, as the type of the table's column, without those that can match nothing: NULLs, and numbers too wide."""
    for name in keys.column_names:
        wanted = spec.schema.field(name).type
        keys = keys.filter(_can_match(keys[name], wanted))
        if keys[name].type != wanted:
            keys = keys.set_column(keys.column_names.index(name), name, keys[name].cast(wanted))
    if keys.num_rows == 0:
        return keys
    weighted = keys.append_column(names.WEIGHT, pa.repeat(pa.scalar(1, pa.int64()), keys.num_rows))
    return consolidate(weighted).drop_columns([names.WEIGHT])
