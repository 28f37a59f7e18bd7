"""Tables as users see them: rows in, rows out, by key. Nothing here starts Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from viewkeeper import rows
from viewkeeper.errors import InputError, NotFound
from viewkeeper.service.immediate import Writer
from viewkeeper.store.contract import Action, Expectation, Mutation, Positions, Row, Store, TableSpec


class TableAt:
    """A table to read: as it is now, or as it was at a snapshot."""

    def __init__(self, store: Store, spec: TableSpec, at: Positions | None = None) -> None:
        self._store = store
        self._spec = spec
        self._at = at

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
        return self._store.get(self.name, rows.key_values(self._spec, key), self._at)

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
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
            raise InputError(f"limit is a number of rows, not {limit!r}", hint="give 0 or more, or leave it out")
        return self._store.scan(
            self.name,
            start=None if start is None else rows.prefix_values(self._spec, start),
            stop=None if stop is None else rows.prefix_values(self._spec, stop),
            prefix=() if prefix is None else rows.prefix_values(self._spec, prefix),
            limit=limit,
            columns=columns if columns is None else self._known(columns),
            at=self._at,
        )

    def _known(self, columns: Sequence[str]) -> list[str]:
        for column in columns:
            if column not in self._spec.schema.names:
                raise NotFound(
                    f'table "{self.name}" has no column "{column}"',
                    hint=f"it has {', '.join(self._spec.schema.names)}",
                    table=self.name,
                    column=column,
                )
        return list(columns)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class Table(TableAt):
    """A table to read and to write. Each call is one transaction: all of its rows, or none."""

    def __init__(self, store: Store, spec: TableSpec, writer: Writer) -> None:
        super().__init__(store, spec)
        self._writer = writer

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
