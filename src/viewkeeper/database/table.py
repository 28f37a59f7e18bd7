"""Tables as users see them: rows in, rows out, by key. Nothing here starts Spark."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from viewkeeper import rows
from viewkeeper.errors import InputError, NotFound, SnapshotTooOld
from viewkeeper.maintain.plan import Shape
from viewkeeper.rows.zeros import Values
from viewkeeper.service.immediate import Writer
from viewkeeper.store.contract import Action, Expectation, Kind, Mutation, Positions, Row, Store, TableSpec

Answer = TypeVar("Answer")


class TableAt:
    """A table to read: as it is now, or as it was at a snapshot."""

    def __init__(self, store: Store, shape: Shape, at: Positions | None = None) -> None:
        self._store = store
        self._shape = shape
        self._at = at

    @property
    def _spec(self) -> TableSpec:
        return self._shape.spec

    @property
    def name(self) -> str:
        return self._spec.name

    @property
    def schema(self) -> pa.Schema:
        """Column names and types, as Arrow has them."""
        return self._spec.schema

    @property
    def key(self) -> tuple[str, ...]:
        """The primary key's columns."""
        return self._spec.key

    def get(self, key: Any) -> Row | None:
        """The row of a key, or None. A key of several columns is a tuple in key order, or a dict."""
        return self._read(lambda shape: self._get(shape, key))

    def _get(self, shape: Shape, key: Any) -> Row | None:
        return self._row(shape.spec.name, rows.key_values(shape.spec, key))

    def _row(self, table: str, key: Values) -> Row | None:
        return self._store.get(table, key, self._at)

    def scan(
        self,
        start: Any = None,
        stop: Any = None,
        *,
        prefix: Any = None,
        limit: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """Rows in key order: from `start` (included) to `stop` (excluded), those under `prefix`, the first `limit`.

        For a key of several columns each of the three may name only the first few.
        """
        most = checked_limit(limit)
        return self._read(lambda shape: self._scan(shape, start, stop, prefix, most, columns))

    def _scan(
        self, shape: Shape, start: Any, stop: Any, prefix: Any, limit: int | None, columns: Sequence[str] | None
    ) -> pa.Table:
        spec = shape.spec
        return self._rows(
            spec.name,
            None if start is None else rows.prefix_values(spec, start),
            None if stop is None else rows.prefix_values(spec, stop),
            () if prefix is None else rows.prefix_values(spec, prefix),
            limit,
            columns if columns is None else known_columns(spec, columns),
        )

    def _rows(
        self,
        table: str,
        start: Values | None,
        stop: Values | None,
        prefix: Values,
        limit: int | None,
        columns: Sequence[str] | None,
    ) -> pa.Table:
        return self._store.scan(table, start=start, stop=stop, prefix=prefix, limit=limit, columns=columns, at=self._at)

    def _read(self, read: Callable[[Shape], Answer]) -> Answer:
        """What a read gives that was of the very table whose shape it was given, and not of another of its name.

        Which table there is, is asked after the read: one that is gone never comes back with its number (`Store.number`). A
        read that fails is judged with the catalog in hand: it may have failed only because its shape is another table's.
        """
        while True:
            shape = self._shape
            try:
                found = read(shape)
            except Exception:
                if self._store.table(shape.spec.name).number == shape.spec.number:
                    raise
            else:
                if self._store.number(shape.spec.name) == shape.spec.number:
                    return found
            self._shape = self._anew()

    def _anew(self) -> Shape:
        """What to read instead, where the table was dropped and made again: a snapshot has nothing to show of the new one."""
        raise SnapshotTooOld(
            f'"{self.name}" cannot be read: it was dropped and made again after the snapshot was taken',
            hint="take a new snapshot",
            table=self.name,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


def checked_limit(limit: int | None) -> int | None:
    """None for more rows than any table has: neither SQLite nor Arrow can count that far."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
        raise InputError(f"limit is a number of rows, not {limit!r}", hint="give 0 or more, or leave it out")
    return None if limit is None or limit > sys.maxsize else limit


class Table(TableAt):
    """A table to read and to write. Each call is one transaction: all of its rows, or none."""

    def __init__(self, store: Store, spec: TableSpec, writer: Writer) -> None:
        super().__init__(store, table_shape(spec))
        self._writer = writer

    def _anew(self) -> Shape:
        return table_shape(base_table(self._store, self.name))

    def put(self, given: Any) -> None:
        """Write whole rows, new or in place of those with the same key: a dict, a list of dicts, an Arrow or pandas table."""
        self._write(Action.PUT, rows.rows_table(self._spec, given))

    def update(self, given: Any) -> None:
        """Change some columns of rows that are there. `NotFound`, and nothing changed, if one of them is not."""
        tables = rows.update_tables(self._spec, given)
        self._writer.write([Mutation(self.name, Action.UPDATE, table) for table in tables])

    def delete(self, keys: Any) -> None:
        """Remove rows: a key, a list of keys, or a table of keys. Keys that are not there are no error."""
        self._write(Action.DELETE, rows.keys_table(self._spec, keys))

    def put_if(self, row: Mapping[str, Any], expected: Mapping[str, Any] | None) -> bool:
        """Put a row if the one with its key is as expected (the columns that are given), or absent for None.

        True if it was put; False, and nothing written, if the table says otherwise.
        """
        put = rows.rows_table(self._spec, row)
        return self._writer.write([Mutation(self.name, Action.PUT, put)], [expectation(self._spec, put, expected)])

    def _write(self, action: Action, table: pa.Table) -> None:
        if table.num_rows:
            self._writer.write([Mutation(self.name, action, table)])


def base_table(store: Store, name: str) -> TableSpec:
    """The table of that name, if it is one that can be written."""
    spec = store.table(name)
    if spec.kind is not Kind.BASE:
        raise InputError(f'"{spec.name}" is a view: it follows its tables', hint=f'read it with db.view("{spec.name}")')
    return spec


def table_shape(spec: TableSpec) -> Shape:
    """A table as its readers see it: with all of its columns."""
    return Shape(spec, tuple(spec.schema.names))


def known_columns(spec: TableSpec, columns: Sequence[str]) -> list[str]:
    for column in columns:
        if column not in spec.schema.names:
            raise NotFound(
                f'table "{spec.name}" has no column "{column}"',
                hint=f"it has {', '.join(spec.schema.names)}",
                table=spec.name,
                column=column,
            )
    return list(columns)


def expectation(spec: TableSpec, put: pa.Table, expected: Mapping[str, Any] | None) -> Expectation:
    """What the one row of `put` expects to find in its place."""
    key = put.select(list(spec.key))
    if expected is None:
        return Expectation(spec.name, absent=key)
    given = rows.partial_row_table(spec, {**key.to_pylist()[0], **expected})
    if not given.select(list(spec.key)).equals(key):
        raise InputError(
            f'table "{spec.name}": the expected row has another key than the new one', hint="put_if is about one row"
        )
    return Expectation(spec.name, rows=given)
