"""The two states between which an epoch moves a group: before it and after it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper import names
from viewkeeper.maintain.delta.rows import consolidate, stored_keys
from viewkeeper.maintain.plan import Shape
from viewkeeper.store.changes import positioned_log_schema, rows_after, rows_before
from viewkeeper.store.contract import Cut, Positions, Store, TableSpec


@dataclass
class Step:
    """An epoch under way: what it reads from, what it moves to, and the changes that are already known."""

    store: Store
    before: Cut
    after: Cut
    committed: int
    epoch: int
    term: int
    changes: dict[str, tuple[pa.Table, pa.Table]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)

    def at_start(self, spec: TableSpec) -> Positions:
        """The positions of a table before the epoch. A table that was not read before counts as empty."""
        if self._is_own(spec):
            return (self.committed,) * spec.regions
        return self.before.get(spec.name, (0,) * spec.regions)

    def at_end(self, spec: TableSpec) -> Positions:
        """The positions after it."""
        if self._is_own(spec):
            return (self.epoch,) * spec.regions
        return self.after[spec.name]

    def _is_own(self, spec: TableSpec) -> bool:
        """Whether this epoch's group maintains a table. A view of another group is in the cut, like a base table."""
        return spec.group is not None and spec.name not in self.after

    def images(self, spec: TableSpec) -> tuple[pa.Table, pa.Table]:
        """The rows of a table that the epoch takes away and those it brings, each key once; read from its log, once."""
        if spec.name not in self.changes:
            self.changes[spec.name] = _images(spec, self._log(spec))
        return self.changes[spec.name]

    def _log(self, spec: TableSpec) -> pa.Table:
        batches = [batch for region in range(spec.regions) for batch in self._log_batches(spec, region)]
        return pa.Table.from_batches(batches, schema=positioned_log_schema(spec))

    def _log_batches(self, spec: TableSpec, region: int) -> Iterator[pa.RecordBatch]:
        after, upto = self.at_start(spec)[region], self.at_end(spec)[region]
        if after < upto:
            yield from self.store.log(spec.name, region, after, upto)

    def region_images(self, spec: TableSpec, region: int) -> tuple[pa.Table, pa.Table]:
        """The same for one region alone: a row's changes are all in one."""
        batches = list(self._log_batches(spec, region))
        return _images(spec, pa.Table.from_batches(batches, schema=positioned_log_schema(spec)))

    def size(self, spec: TableSpec) -> int:
        """How many changes the log has for this epoch, without reading them; `SnapshotTooOld` if it has lost some."""
        if spec.name not in self.sizes:
            self.sizes[spec.name] = self.store.backlog(spec.name, self.at_start(spec), self.at_end(spec))
        return self.sizes[spec.name]

    def change(self, shape: Shape) -> pa.Table:
        """The change of a table as queries see it: visible columns and weight, equal rows added up."""
        return as_change(shape, *self.images(shape.spec))

    def region_change(self, shape: Shape, region: int) -> pa.Table:
        """The same for one region alone."""
        return as_change(shape, *self.region_images(shape.spec, region))

    def forget(self, table: str) -> None:
        """A table was applied to: its log has more now."""
        self.changes.pop(table, None)
        self.sizes.pop(table, None)


def as_change(shape: Shape, before: pa.Table, after: pa.Table) -> pa.Table:
    """Rows that left and rows that came, as queries see them."""
    change = pa.concat_tables([_weighted(shape, before, -1), _weighted(shape, after, 1)])
    hidden = shape.spec.group is not None and len(shape.columns) < len(shape.spec.schema)
    return consolidate(change) if hidden else change


def _weighted(shape: Shape, rows: pa.Table, sign: int) -> pa.Table:
    ones = pa.repeat(pa.scalar(sign, pa.int64()), rows.num_rows)
    weight = pc.multiply(rows[names.COUNT], sign) if shape.counted else ones
    return pa.table([*(rows[name] for name in shape.columns), weight], schema=weighted_schema(shape))


def weighted_schema(shape: Shape) -> pa.Schema:
    return shape.schema.append(pa.field(names.WEIGHT, pa.int64()))


def weighted_rows(shape: Shape, rows: pa.Table) -> pa.Table:
    """Rows of a table's state as queries see them."""
    return _weighted(shape, rows, 1)


def _images(spec: TableSpec, log: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Net: of several changes of a row, the first one's before and the last one's after."""
    first, last = log, log
    if pc.count_distinct(log[names.POSITION]).as_py() > 1:
        keys = stored_keys(log, spec.key)
        numbered = keys.append_column("n", pa.array(np.arange(log.num_rows)))
        edges = numbered.group_by(keys.column_names, use_threads=False).aggregate([("n", "min"), ("n", "max")])
        if edges.num_rows < log.num_rows:
            first, last = log.take(edges["n_min"]), log.take(edges["n_max"])
            return _net(spec, rows_before(spec, first), rows_after(spec, last))
    return rows_before(spec, first), rows_after(spec, last)


def _net(spec: TableSpec, before: pa.Table, after: pa.Table) -> tuple[pa.Table, pa.Table]:
    """A row that is again what it was has not changed."""
    both = pa.concat_tables(
        [
            before.append_column(names.WEIGHT, pa.repeat(pa.scalar(-1, pa.int64()), before.num_rows)),
            after.append_column(names.WEIGHT, pa.repeat(pa.scalar(1, pa.int64()), after.num_rows)),
        ]
    )
    change = consolidate(both)
    left = change.filter(pc.less(change[names.WEIGHT], 0)).drop_columns([names.WEIGHT])
    came = change.filter(pc.greater(change[names.WEIGHT], 0)).drop_columns([names.WEIGHT])
    return left, came
