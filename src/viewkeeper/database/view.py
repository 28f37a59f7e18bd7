"""Views as users see them: read-only, always at a committed epoch of their group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper import names
from viewkeeper.database.table import TableAt, known_columns
from viewkeeper.errors import InputError, SnapshotTooOld
from viewkeeper.maintain.delta.rows import consolidate
from viewkeeper.maintain.plan import Shape
from viewkeeper.rows.zeros import Values, from_the_first_zero, with_both_zeros
from viewkeeper.store.changes import rows_after, rows_before
from viewkeeper.store.contract import Row, Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from viewkeeper.engine.reports import ViewReport
    from viewkeeper.engine.spark import Spark

EPOCH = "epoch"
WEIGHT = "weight"


@dataclass(frozen=True)
class ViewStatus:
    """Where a view is and how it does."""

    name: str
    group: str
    strategy: str
    reason: str
    epoch: int
    waiting: int
    last: ViewReport | None
    failure: str | None
    rows: int
    """As many as `scan` gives."""
    lag: float
    """Seconds that the oldest of the waiting changes has waited; 0 if none waits."""
    refreshed: float | None
    """When the last epoch was done, in seconds since 1970."""


class ViewAt(TableAt):
    """A view to read, now or at a snapshot. Its key may be empty of names a user knows; `scan` always works.

    It shows the query's columns and no hidden ones; a row that a bag holds three times comes three times.
    """

    @property
    def schema(self) -> pa.Schema:
        """The query's column names and types, as Arrow has them."""
        return self._shape.schema

    def get(self, key: Any) -> Row | None:
        """The row of a key: group columns, base keys, or the whole row, as `key` says."""
        return super().get(key)

    def _get(self, shape: Shape, key: Any) -> Row | None:
        found = super()._get(shape, key)
        return None if found is None else {name: found[name] for name in shape.columns}

    def _row(self, table: str, key: Values) -> Row | None:
        """By either zero: the columns of a view's key may be floating numbers, which those of a table's may not."""
        every = (super(ViewAt, self)._row(table, one) for one in with_both_zeros(key))
        return next((row for row in every if row is not None), None)

    def _rows(
        self,
        table: str,
        start: Values | None,
        stop: Values | None,
        prefix: Values,
        limit: int | None,
        columns: Sequence[str] | None,
    ) -> pa.Table:
        """The same: those under one zero come before those under the other, as they lie."""
        start, stop = (None if bound is None else from_the_first_zero(bound) for bound in (start, stop))
        parts = [super(ViewAt, self)._rows(table, start, stop, one, limit, columns) for one in with_both_zeros(prefix)]
        found = pa.concat_tables(parts)
        return found if limit is None else found.slice(0, limit)

    def find(self, prefix: Any) -> pa.Table:
        """All rows under the first columns of the key: what CLUSTER BY arranges. None is the NULL group, as in `get`."""
        return self.scan(prefix=(None,) if prefix is None else prefix)

    def _scan(
        self, shape: Shape, start: Any, stop: Any, prefix: Any, limit: int | None, columns: Sequence[str] | None
    ) -> pa.Table:
        wanted = list(shape.columns) if columns is None else known_columns(shape.spec, columns)
        if not shape.counted:
            return super()._scan(shape, start, stop, prefix, limit, wanted)
        found = super()._scan(shape, start, stop, prefix, limit, [*wanted, names.COUNT])
        from viewkeeper.engine.oracle import expanded

        table = expanded(found, wanted)
        return table if limit is None else table.slice(0, limit)

    def changes(self, since: int) -> pa.Table:
        """What left and came after an epoch, in order: the epoch, the weight (negative: left), and the view's columns.

        Since 0 is everything from the beginning. An epoch from before the view was made is `SnapshotTooOld`: what a copy has
        from then is of another view of that name, and no changes of this one lead from there to what it is.
        """
        return self._read(lambda shape: self._changes(shape, since))

    def _changes(self, shape: Shape, since: int) -> pa.Table:
        spec = shape.spec
        if 0 < since < shape.made:
            raise SnapshotTooOld(
                f'view "{spec.name}" has no changes since epoch {since}: it was made in epoch {shape.made}',
                hint="copy it anew (scan, then follow from its epoch), or ask since 0 for everything",
                view=spec.name,
                made=shape.made,
            )
        assert spec.group is not None
        upto = self._store.group(spec.group).committed.epoch if self._at is None else self._at[0]
        if since > upto:
            raise InputError(
                f'view "{spec.name}" is at epoch {upto}, and has not come to {since}',
                hint="ask since an epoch that it has come to: view.status().epoch",
                view=spec.name,
                epoch=upto,
            )
        logs = [batch for region in range(spec.regions) for batch in self._store.log(spec.name, region, since, upto)]
        parts = [_signed_rows(shape, pa.Table.from_batches([batch])) for batch in logs]
        empty = _change_schema(shape).empty_table()
        return pa.concat_tables([empty, *parts]).sort_by([(EPOCH, "ascending"), (WEIGHT, "ascending")])


def _change_schema(shape: Shape) -> pa.Schema:
    return pa.schema([pa.field(EPOCH, pa.int64()), pa.field(WEIGHT, pa.int64()), *shape.schema])


def _signed_rows(shape: Shape, log: pa.Table) -> pa.Table:
    """One batch of a view's log as rows that left and rows that came; what only changed hidden columns is nothing."""
    epoch = log[names.POSITION][0].as_py()
    parts = []
    for table, sign in ((rows_before(shape.spec, log), -1), (rows_after(shape.spec, log), 1)):
        weight = (
            pc.multiply(table[names.COUNT], sign)
            if shape.counted
            else pa.array(np.full(table.num_rows, sign, np.int64))
        )
        parts.append(table.select(list(shape.columns)).append_column(names.WEIGHT, weight))
    change = consolidate(pa.concat_tables(parts))
    columns = [pa.array(np.full(change.num_rows, epoch, np.int64)), change[names.WEIGHT]]
    return pa.table([*columns, *(change[name] for name in shape.columns)], schema=_change_schema(shape))


class View(ViewAt):
    """A view as it is now."""

    def __init__(self, store: Store, look: Callable[[], Shape], spark: Spark, status: Callable[[], ViewStatus]) -> None:
        """`look` says what the view of that name looks like now."""
        super().__init__(store, look())
        self._look = look
        self._spark = spark
        self._status = status

    def _anew(self) -> Shape:
        return self._look()

    def dataframe(self) -> DataFrame:
        """The view's committed rows as a Spark DataFrame."""
        return self._spark.frame(f"SELECT * FROM {names.quoted(self.name)}", {self.name: self.scan()})

    def status(self) -> ViewStatus:
        """Where the view is, what its last refresh did, what waits, and why it stopped if it did."""
        return self._status()
