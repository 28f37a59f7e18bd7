"""A block in an epoch: from the change of its parts to the change of its table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper import names
from viewkeeper.engine.parts import PartRunner
from viewkeeper.engine.point import Step
from viewkeeper.engine.spark import Spark
from viewkeeper.errors import Corrupt
from viewkeeper.maintain.accumulators import EXTREMES, FIRSTS, Accumulators, value_columns
from viewkeeper.maintain.delta import aggregate, extremes
from viewkeeper.maintain.delta.rows import as_desired, consolidate, desired_rows, one_zero, without
from viewkeeper.maintain.plan import BlockPlan, group_columns
from viewkeeper.sql.algebra import Aggregate, Function, Top
from viewkeeper.store.contract import Applied, Pick, TableSpec
from viewkeeper.store.regions import regions_of
from viewkeeper.store.threads import side_by_side

PARALLEL_FROM = 500
"""Rows from which regions are written side by side: each waits for the disk, and 1,000 rows among ten million take a seventh less
so. With fewer rows most of it is Python, which threads do not share."""


@dataclass
class BlockRunner:
    """Brings one block's tables from the state before the epoch to the one after it.

    `new` says that the tables were made in this epoch. `region` is the one region that a task owns, of every table that
    it writes; None on the driver, which owns all.
    """

    step: Step
    spark: Spark
    plan: BlockPlan
    new: bool = False
    region: int | None = None

    def follow(self) -> tuple[int, Applied]:
        """From the inputs' changes. How many part rows there were, and what it did to the block's table."""
        parts = PartRunner(self.step, self.spark, self.plan)
        rows = parts.change()
        if rows.num_rows == 0:
            return 0, Applied(0, 0, 0)
        desired = self.desired(rows, from_scratch=False, added_up=parts.adds_up())
        return rows.num_rows, self.apply(self.plan.shape.spec, desired)

    def rebuild(self, frames: Mapping[str, pa.Table]) -> tuple[int, Applied]:
        """From whole inputs: what is stored becomes what the query gives, whatever it was."""
        rows = PartRunner(self.step, self.spark, self.plan).everything(frames)
        desired = self.desired(rows, from_scratch=True)
        return rows.num_rows, self.replace(self.plan.shape.spec, desired)

    # What the table is to become

    def desired(self, rows: pa.Table, *, from_scratch: bool, added_up: bool = False) -> pa.Table:
        """From the parts' rows. Value indexes are brought to the epoch on the way."""
        spec = self.plan.shape.spec
        if isinstance(self.plan.block.top, Aggregate):
            assert self.plan.accumulators is not None
            kept = self.plan.accumulators
            return self._aggregate(kept, one_zero(rows, kept.top.groups), from_scratch=from_scratch)
        if self.plan.block.top is Top.DISTINCT:
            rows = one_zero(rows, self.plan.part_schema.names)
        keyed = names.COUNT not in spec.schema.names
        change = rows if keyed and (added_up or from_scratch) else consolidate(rows)
        if keyed:
            return desired_rows(change.rename_columns([*self.plan.shape.columns, names.WEIGHT]), spec.schema, spec.key)
        return self._bag(
            spec, change.rename_columns([*self.plan.shape.columns, names.WEIGHT]), from_scratch=from_scratch
        )

    def _bag(self, spec: TableSpec, change: pa.Table, *, from_scratch: bool) -> pa.Table:
        """Copies are counted; a row without copies goes."""
        before = np.zeros(change.num_rows, dtype=np.int64)
        if not from_scratch:
            current = self._probe(spec, change.select(list(spec.key)), [names.COUNT])
            before[current[names.PROBE].to_numpy()] = current[names.COUNT].to_numpy()
        after = before + change[names.WEIGHT].to_numpy()
        if (after < 0).any():
            raise Corrupt(f'"{spec.name}" has fewer than no copies of a row', hint="verify and repair the view")
        rows = change.drop_columns([names.WEIGHT]).append_column(names.COUNT, pa.array(after))
        there = pa.array(after > 0)
        return as_desired(rows.filter(there), rows.filter(pc.invert(there)), spec.schema)

    def _probe(self, spec: TableSpec, keys: pa.Table, columns: list[str]) -> pa.Table:
        """Rows by whole key or leading columns, as they were before the epoch."""
        wanted = pa.schema([spec.schema.field(name) for name in keys.column_names])
        return self.step.store.probe(spec.name, keys.cast(wanted), columns=columns, at=self.step.at_start(spec))

    # Aggregates

    def _aggregate(self, kept: Accumulators, rows: pa.Table, *, from_scratch: bool) -> pa.Table:
        return self.merged(kept, aggregate.fold(kept, rows), rows, from_scratch=from_scratch)

    def merged(self, kept: Accumulators, folded: pa.Table, rows: pa.Table, *, from_scratch: bool) -> pa.Table:
        """From folded accumulators, and the rows themselves where value indexes need them."""
        if not kept.top.groups and folded.num_rows == 0:
            folded = _the_whole(kept)
        distincts = {
            values[0]: self._values(kept, values, rows, folded, from_scratch=from_scratch)
            for values in sorted(kept.value_indexes, key=len, reverse=True)
        }
        state = aggregate.merge(kept, folded, self._current(kept, folded, from_scratch=from_scratch), distincts)
        calls = aggregate.results(kept, state, self._edges(kept, state))
        return self._stored(kept, state, calls)

    def _current(self, kept: Accumulators, folded: pa.Table, *, from_scratch: bool) -> pa.Table:
        spec = self.plan.shape.spec
        columns = kept.state_schema.names
        if from_scratch:
            fields = [pa.field(names.PROBE, pa.int64()), *(spec.schema.field(name) for name in columns)]
            return pa.schema(fields).empty_table()
        keys = pa.table([folded[group] for group in groups_in_key_order(self.plan)], names=list(spec.key))
        return self._probe(spec, keys, columns)

    def _values(
        self, kept: Accumulators, columns: tuple[str, ...], rows: pa.Table, folded: pa.Table, *, from_scratch: bool
    ) -> pa.Array:
        """Bring a value index to the epoch; how each group's number of distinct values moves."""
        spec = kept.value_indexes[columns]
        values = extremes.fold_values(kept, columns, rows)
        if from_scratch:
            current = pa.table({names.PROBE: pa.array([], pa.int64()), names.COUNT: pa.array([], pa.int64())})
        else:
            current = self._probe(spec, values.select(list(spec.key)), [names.COUNT])
        desired, moved = extremes.merge_values(spec, values, current)
        if from_scratch:
            self.replace(spec, desired)
        else:
            self.apply(spec, desired)
        return extremes.distinct_changes(kept, folded, values, moved)

    def _edges(self, kept: Accumulators, state: pa.Table) -> dict[tuple[tuple[str, ...], Function], pa.Array]:
        """The least and greatest values of each group, after the epoch."""
        found = {}
        keys = state.select(kept.group_names)
        for values, spec in kept.value_indexes.items():
            result = list(value_columns(values))[-1]
            keys_in_order = keys.select([name for name in spec.key if name in kept.group_names])
            for function in kept.functions(values) & set(EXTREMES):
                pick = Pick.FIRST if function in FIRSTS else Pick.LAST
                rows = self.step.store.probe(
                    spec.name, keys_in_order, pick=pick, columns=[result], at=self.step.at_end(spec)
                )
                slots = np.full(state.num_rows, -1, dtype=np.int64)
                slots[rows[names.PROBE].to_numpy()] = np.arange(rows.num_rows)
                found[values, function] = rows[result].combine_chunks().take(pa.array(slots, mask=slots < 0))
        return found

    def _stored(self, kept: Accumulators, state: pa.Table, calls: pa.Table) -> pa.Table:
        """State and results as rows of the block's table. A group without rows goes."""
        spec = self.plan.shape.spec
        outputs = self._outputs(kept, state, calls)
        columns = {**{n: state[n] for n in kept.state_schema.names}, **outputs}
        for column, group in zip(spec.key, groups_in_key_order(self.plan), strict=True):
            columns[column] = state[group]
        table = pa.table({name: columns[name] for name in spec.schema.names})
        if not kept.top.groups:
            return as_desired(table, table.slice(0, 0), spec.schema)
        there = pc.greater(table[names.COUNT], 0)
        return as_desired(table.filter(there), table.filter(pc.invert(there)), spec.schema)

    def _outputs(self, kept: Accumulators, state: pa.Table, calls: pa.Table) -> dict[str, pa.ChunkedArray]:
        """The visible columns: groups and calls as they are, and by Spark what is made of them."""
        known = {name: state[name] for name in kept.top.groups}
        known |= {name: calls[name] for name in calls.column_names}
        visible = self.plan.shape.columns
        outputs = kept.top.outputs
        if kept.plain_outputs:
            return {v: known[o.column.name] for v, o in zip(visible, outputs, strict=True) if o.column is not None}
        items = ", ".join(f"{o.sql} AS {names.quoted(v)}" for v, o in zip(visible, outputs, strict=True))
        row = pa.array(np.arange(state.num_rows))
        there = pc.greater(state[names.COUNT], 0) if kept.top.groups else pa.array([True] * state.num_rows)
        table = pa.table({**known, "n": state[names.COUNT], "_vk_row": row}).filter(there)
        schema = pa.schema([*kept.output_schema, pa.field("_vk_row", pa.int64())])
        found = self.spark.run(f"SELECT {items}, _vk_row FROM _vk_state", {"_vk_state": table}, schema)
        slots = np.full(state.num_rows, -1, dtype=np.int64)
        slots[found["_vk_row"].to_numpy()] = np.arange(found.num_rows)
        index = pa.array(slots, mask=slots < 0)
        return {v: found.column(i).combine_chunks().take(index) for i, v in enumerate(visible)}

    # Writing

    def apply(self, spec: TableSpec, desired: pa.Table) -> Applied:
        if self.region is None:
            return apply_by_region(self.step, spec, desired)
        if desired.num_rows and set(np.unique(regions_of(spec, desired))) != {self.region}:
            raise AssertionError(f'rows of "{spec.name}" are not all for region {self.region}')
        return self.step.store.apply(spec.name, self.region, desired, self.step.epoch, self.step.term)

    def replace(self, spec: TableSpec, desired: pa.Table) -> Applied:
        """Apply, and take away every row that is stored and not desired."""
        return self.apply(spec, desired) if self.new else replace_rows(self.step, spec, desired)


def groups_in_key_order(plan: BlockPlan) -> list[str]:
    """The group of each key column of an aggregate's table."""
    assert isinstance(plan.block.top, Aggregate)
    groups = {column: group for group, column in group_columns(plan.block.top).items()} or {names.WHOLE: names.WHOLE}
    return [groups[column] for column in plan.shape.spec.key]


def _the_whole(kept: Accumulators) -> pa.Table:
    """The one group of an aggregate over nothing."""
    fields = [pa.field(names.WHOLE, pa.int8())]
    fields += [field for field in kept.state_schema if not field.name.startswith(names.DISTINCTS)]
    zero = {field.name: pa.array([0]).cast(_castable(field.type)).cast(field.type) for field in fields}
    return pa.table(zero)


def _castable(kind: pa.DataType) -> pa.DataType:
    """Integers become decimals of some scale only by way of one without."""
    return pa.decimal128(38 - kind.scale if kind.scale < 19 else 19, 0) if pa.types.is_decimal(kind) else kind


def apply_by_region(step: Step, spec: TableSpec, desired: pa.Table) -> Applied:
    """Each region's share, in one atomic step each."""
    step.forget(spec.name)
    total = Applied(0, 0, 0)
    if desired.num_rows == 0:
        return total
    regions = regions_of(spec, desired)

    def apply_to(region: int) -> Applied:
        share = desired.filter(pa.array(regions == region)) if spec.regions > 1 else desired
        return step.store.apply(spec.name, region, share, step.epoch, step.term)

    touched = [int(region) for region in np.unique(regions)]
    for done in side_by_side(apply_to, touched, worth=desired.num_rows >= PARALLEL_FROM):
        total = Applied(total.inserted + done.inserted, total.updated + done.updated, total.deleted + done.deleted)
    return total


def replace_rows(step: Step, spec: TableSpec, desired: pa.Table) -> Applied:
    stored = step.store.scan(spec.name, columns=list(spec.key), at=step.at_start(spec))
    stale = without(stored, desired, list(spec.key))
    return apply_by_region(step, spec, pa.concat_tables([desired, _gone(stale, spec)]))


def _gone(keys: pa.Table, spec: TableSpec) -> pa.Table:
    return as_desired(spec.schema.empty_table(), keys, spec.schema)
