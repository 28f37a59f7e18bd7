"""A table's columns with their rules at hand, worked out once per table.

A point read or write of one row takes some ten microseconds, and hashing an Arrow schema to look something up is as
long. So the memory goes by the identity of the table's spec, which it keeps alive: an identity in it is never reused.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from viewkeeper.rows.python_values import Converter, converter
from viewkeeper.sql.types import sql_type
from viewkeeper.store.contract import TableSpec

_MOST = 1024


@dataclass(frozen=True, slots=True)
class Column:
    """A column with its rule at hand."""

    name: str
    data_type: pa.DataType
    nullable: bool
    convert: Converter

    @property
    def type_text(self) -> str:
        return sql_type(self.data_type)


@dataclass(frozen=True, slots=True)
class Columns:
    """All columns in schema order, and the key's in key order."""

    spec: TableSpec
    all: tuple[Column, ...]
    key: tuple[Column, ...]


_known: dict[int, Columns] = {}


def columns_of(spec: TableSpec) -> tuple[Column, ...]:
    """The table's columns, in schema order."""
    return _columns(spec).all


def key_columns(spec: TableSpec) -> tuple[Column, ...]:
    """The key's columns, in key order."""
    return _columns(spec).key


def _columns(spec: TableSpec) -> Columns:
    found = _known.get(id(spec))
    if found is None:
        found = _worked_out(spec)
        if len(_known) >= _MOST:
            _known.clear()
        _known[id(spec)] = found
    return found


def _worked_out(spec: TableSpec) -> Columns:
    by_name = {
        field.name: Column(field.name, field.type, field.nullable, converter(field.type)) for field in spec.schema
    }
    return Columns(spec, tuple(by_name.values()), tuple(by_name[name] for name in spec.key))
