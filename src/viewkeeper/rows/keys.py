"""Keys for delete, get, scan and find: one value, a tuple in key order, or a dict; many of them; or a table of keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from viewkeeper.errors import RowError
from viewkeeper.rows.columns import Column, key_columns
from viewkeeper.rows.frames import arrow_table
from viewkeeper.rows.problems import duplicate_key, missing_column, place, shown, unknown_column
from viewkeeper.rows.tables import column_value, table_of_arrow, table_of_values
from viewkeeper.store.contract import TableSpec


def keys_table(spec: TableSpec, keys: Any) -> pa.Table:
    """Each key once, in the key's columns and types. A list is many keys; a tuple is one key."""
    given = arrow_table(spec, _as_table(spec, keys))
    columns = key_columns(spec)
    if given is not None:
        return table_of_arrow(spec, given, columns)
    rows = []
    seen: dict[tuple[Any, ...], int] = {}
    for number, key in enumerate(_many(keys)):
        values = _values(spec, columns, _whole_key(spec, key, number), number)
        first = seen.setdefault(values, number)
        if first != number:
            raise duplicate_key(spec, values, first, number)
        rows.append(values)
    return table_of_values(columns, rows)


def key_values(spec: TableSpec, key: Any) -> tuple[Any, ...]:
    """One whole key as Python values of the key's types, in key order."""
    return _values(spec, key_columns(spec), _whole_key(spec, key, None), None)


def prefix_values(spec: TableSpec, prefix: Any) -> tuple[Any, ...]:
    """The first columns of a key, as many as are given, in key order."""
    parts = _parts(spec, prefix, None)
    return _values(spec, key_columns(spec)[: len(parts)], parts, None)


def _as_table(spec: TableSpec, keys: Any) -> Any:
    """A bare Arrow column is a table of keys where the key has one column."""
    if isinstance(keys, pa.Array | pa.ChunkedArray) and len(spec.key) == 1:
        return pa.table({spec.key[0]: keys})
    return keys


def _many(keys: Any) -> Iterable[Any]:
    """What is one key, and what is many: strings, bytes, tuples and dicts are keys, every other iterable holds keys."""
    single = isinstance(keys, str | bytes | bytearray | memoryview | tuple | Mapping)
    return [keys] if single or not isinstance(keys, Iterable) else keys


def _whole_key(spec: TableSpec, key: Any, row: int | None) -> Sequence[Any]:
    parts = _parts(spec, key, row)
    if len(parts) < len(spec.key):
        raise _wrong_count(spec, key, row)
    return parts


def _parts(spec: TableSpec, key: Any, row: int | None) -> Sequence[Any]:
    if isinstance(key, Mapping):
        return _named_parts(spec, key, row)
    parts = key if isinstance(key, tuple) else (key,)
    if len(parts) > len(spec.key):
        raise _wrong_count(spec, key, row)
    return parts


def _named_parts(spec: TableSpec, key: Mapping[Any, Any], row: int | None) -> Sequence[Any]:
    """A prefix has no holes: the columns that are given are the first ones of the key."""
    for name in key:
        if name not in spec.key:
            raise unknown_column(spec, row, name, spec.key)
    leading = spec.key[: len(key)]
    for name in leading:
        if name not in key:
            raise missing_column(spec, row, name)
    return [key[name] for name in leading]


def _wrong_count(spec: TableSpec, key: Any, row: int | None) -> RowError:
    columns = ", ".join(spec.key)
    many = len(spec.key) > 1
    return RowError(
        f"{place(spec, row)}: {shown(key)} is not a key: the key is ({columns})",
        hint=f"give a tuple ({columns}) or a dict" if many else "give one value, or a list of keys",
        table=spec.name,
        row=row,
        value=key,
    )


def _values(spec: TableSpec, columns: Sequence[Column], parts: Sequence[Any], row: int | None) -> tuple[Any, ...]:
    return tuple(column_value(spec, column, part, row) for column, part in zip(columns, parts, strict=True))
