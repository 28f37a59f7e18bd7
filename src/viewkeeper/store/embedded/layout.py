"""A table's shape in SQLite: the columns of a region's file, and the SQL over them.

A region's file has three tables:

- `rows`: the key columns (`k0`, `k1` ...) and the others (`v0`, `v1` ...), clustered by key.
- `log`: batches of changes. `id` is position * 2**20 + part, so order by `id` is the log's order. `data` is one Arrow
  record batch of `changes.log_schema`; `low` and `high` bound its first key column, so that a reader who undoes the log
  for one key opens only the batches that can hold it.
- `state`: one row. `position` and `stamp` of the newest write; `trimmed`, the position up to which the log is gone;
  `previous`, `inserted`, `updated`, `deleted`, what the newest epoch did, to answer or undo it; `fence`, the lowest
  term that may still apply; `dropped`, set before the file goes, so that nobody writes into a file without a name.

Users' names never reach SQL: columns are numbered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import pyarrow as pa

from viewkeeper.store.changes import log_schema
from viewkeeper.store.contract import TableSpec
from viewkeeper.store.encoding import Codec, codec

PARTS = 1 << 20
"""Batches of the log that one position may have."""

LOG_DDL = (
    "CREATE TABLE log (id INTEGER PRIMARY KEY, stamp INTEGER, changes INTEGER, low, high, data BLOB)",
    "CREATE TABLE state (position INTEGER, stamp INTEGER, trimmed INTEGER, previous INTEGER, inserted INTEGER,"
    " updated INTEGER, deleted INTEGER, fence INTEGER, dropped INTEGER)",
    "INSERT INTO state VALUES (0, 0, 0, 0, 0, 0, 0, 0, 0)",
)


class Layout:
    """Everything about a table that does not change, made once."""

    def __init__(self, spec: TableSpec) -> None:
        self.spec = spec
        self.order = (*spec.key, *spec.values)
        self.codecs: dict[str, Codec] = {name: codec(spec.schema.field(name).type) for name in self.order}
        self.column = {name: f"k{i}" for i, name in enumerate(spec.key)}
        self.column |= {name: f"v{i}" for i, name in enumerate(spec.values)}
        self.log_schema = log_schema(spec)
        self.row_schema = pa.schema([field.with_nullable(True) for field in spec.schema])

    # Texts

    @cached_property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.column[name] for name in self.spec.key)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.column[name] for name in self.order)

    def ddl(self) -> Iterable[str]:
        yield f"CREATE TABLE rows ({_list(self.columns)}, PRIMARY KEY ({_list(self.keys)})) WITHOUT ROWID"
        yield from LOG_DDL

    def bound(self, name: str, text: str = "?") -> str:
        """A parameter of a column, ready to be compared or stored: NULL in a key becomes its stand-in."""
        nullable = name in self.spec.key and self.spec.schema.field(name).nullable
        return f"ifnull({text}, {self.codecs[name].null_literal})" if nullable else text

    def shown(self, name: str, source: str) -> str:
        """A stored column as it is read: a stand-in becomes NULL again."""
        column = f"{source}.{self.column[name]}"
        nullable = name in self.spec.key and self.spec.schema.field(name).nullable
        return f"nullif({column}, {self.codecs[name].null_literal})" if nullable else column

    def selected(self, names: Iterable[str], source: str) -> str:
        return _list(self.shown(name, source) for name in names)

    def samples(self, names: Iterable[str]) -> str:
        """One value per column, of the type that the driver must see first."""
        return _list(self.codecs[name].sample_literal for name in names)

    def match(self, left: str, right: str, count: int | None = None) -> str:
        """Equality of the first `count` key columns of two sources."""
        return " AND ".join(f"{left}.{key} = {right}.{key}" for key in self.keys[:count])

    @cached_property
    def point_sql(self) -> str:
        match = " AND ".join(f"r.{self.column[name]} = {self.bound(name)}" for name in self.spec.key)
        shown = self.selected(self.spec.schema.names, "r")
        return f"SELECT s.position, s.dropped, r.{self.keys[0]} IS NOT NULL, {shown} FROM state s LEFT JOIN rows r ON {match}"

    # Arrow

    def encode(self, table: pa.Table, names: Sequence[str]) -> list[pa.Array]:
        """Columns as they are stored, in one chunk each."""
        return [self.codecs[name].encode(_one_chunk(table[name])) for name in names]

    def decode(self, stored: Sequence[pa.ChunkedArray], names: Sequence[str]) -> pa.Table:
        """Stored columns as the table's own types."""
        arrays = [self._decoded(column, name) for column, name in zip(stored, names, strict=True)]
        return pa.table(arrays, schema=self.schema_of(names))

    def _decoded(self, column: pa.ChunkedArray, name: str) -> pa.Array:
        """The driver calls a column without values an integer column, whatever it is."""
        chosen = self.codecs[name]
        return chosen.decode(_one_chunk(column).cast(chosen.stored))

    def schema_of(self, names: Iterable[str]) -> pa.Schema:
        return pa.schema([self.spec.schema.field(name) for name in names])


def _one_chunk(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    if isinstance(column, pa.Array):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _list(items: Iterable[str]) -> str:
    return ", ".join(items)
