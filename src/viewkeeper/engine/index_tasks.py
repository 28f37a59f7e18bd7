"""Indexes in large epochs: a table's change, or all of its rows, arranged by other columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from viewkeeper.engine.parcels import Address, parcels
from viewkeeper.engine.point import Step
from viewkeeper.maintain.delta.rows import as_desired, without
from viewkeeper.store.contract import Applied, TableSpec
from viewkeeper.store.regions import regions_of


@dataclass(frozen=True)
class IndexReading:
    """What an index wants of its table. It needs nothing else, so it reads itself."""

    index: TableSpec
    spec: TableSpec
    to: Address

    @property
    def columns(self) -> Sequence[str]:
        return self.index.schema.names

    def begin(self, step: Step) -> IndexReading:
        return self

    def change(self, before: pa.Table, after: pa.Table) -> Iterator[pa.RecordBatch]:
        yield self._sent(arranged(self.index, before, after))

    def state(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        yield self._sent(arranged(self.index, rows.slice(0, 0), rows))

    def _sent(self, desired: pa.Table) -> pa.RecordBatch:
        return parcels(desired, regions_of(self.index, desired), self.to)


@dataclass(frozen=True)
class IndexTarget:
    """An index's table: what comes for a region is what its rows become."""

    spec: TableSpec
    is_small = False

    def apply(self, step: Step, region: int, share: pa.Table, *, fill: bool) -> Applied:
        return step.store.apply(self.spec.name, region, share, step.epoch, step.term)


def arranged(index: TableSpec, before: pa.Table, after: pa.Table) -> pa.Table:
    """A table's change as its index's: rows that came, and keys that left and did not come again."""
    came, left = after.select(index.schema.names), before.select(index.schema.names)
    return as_desired(came, without(left, came, index.key), index.schema)
