"""How the store in memory holds a value: as a *plain* Python value that loses nothing and has one order.

A plain value is what Arrow's `to_pylist` gives, but dates, timestamps and durations are integers: Python's own types
end at the year 9999 and Arrow's do not. `rank` maps a plain value to a tuple that compares as Spark orders (NULL first,
NaN last) and that is equal exactly where the stored bits mean the same: NaN equals NaN, -0.0 is not 0.0.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

Rank = tuple[Any, ...]
Plain = dict[str, Any]
"""A row of plain values."""

_EPOCH = datetime.datetime(1970, 1, 1)
_UNITS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type with integers in the place of dates, timestamps and durations, inside nested types too."""
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(plain_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_plain_field(kind.key_field), _plain_field(kind.item_field))
    if pa.types.is_list(kind):
        return pa.list_(_plain_field(kind.value_field))
    return kind


def _plain_field(field: pa.Field) -> pa.Field:
    return field.with_type(plain_type(field.type))


def rows_of(table: pa.Table) -> list[Plain]:
    """The rows of an Arrow table as plain values."""
    schema = pa.schema([_plain_field(field) for field in table.schema])
    return list(table.cast(schema).to_pylist())


def table_of(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """The Arrow table of plain rows: the inverse of `rows_of`, with exactly this schema."""
    columns = [pa.array([row[field.name] for row in rows], plain_type(field.type)).cast(field.type) for field in schema]
    return pa.table(columns, schema=schema)


def rank(value: Any) -> Rank:
    """A tuple that orders and equates plain values of one type as Spark does.

    >>> sorted([float("nan"), 0.0, None, -0.0, -1.0], key=rank)
    [None, -1.0, -0.0, 0.0, nan]
    >>> rank(float("nan")) == rank(float("nan")), rank(0.0) == rank(-0.0)
    (True, False)
    """
    match value:
        case None:
            return (0,)
        case float():
            return (1, True) if math.isnan(value) else (1, False, value, math.copysign(1.0, value))
        case list() | tuple():
            return (1, tuple(rank(item) for item in value))
        case dict():
            return (1, tuple(rank(item) for item in value.values()))
        case _:
            return (1, value)


def ranks(row: Mapping[str, Any], columns: Iterable[str]) -> tuple[Rank, ...]:
    """The rank of some columns of a row: of its key, to find and order it; of any others, to compare them."""
    return tuple(rank(row[name]) for name in columns)


def ranks_given(values: Sequence[Any], columns: Sequence[pa.Field]) -> tuple[Rank, ...]:
    """The rank of a key, or of its beginning, that a caller gave as Python values."""
    return tuple(rank(_from_python(value, field.type)) for value, field in zip(values, columns, strict=False))


def _from_python(value: Any, kind: pa.DataType) -> Any:
    # Arrow takes a numpy.datetime64 for a timestamp without a zone only; the integer inside is the same.
    source = pa.timestamp(kind.unit) if pa.types.is_timestamp(kind) and isinstance(value, np.datetime64) else kind
    return pa.array([value], source).cast(plain_type(kind)).to_pylist()[0]


def to_python(value: Any, kind: pa.DataType) -> Any:
    """The Python value of a plain one; numpy's date, time or duration where Python's own cannot hold it."""
    if value is None:
        return None
    if pa.types.is_date32(kind):
        return _date(value)
    if pa.types.is_timestamp(kind):
        return _timestamp(value, kind)
    if pa.types.is_duration(kind):
        return np.timedelta64(value, kind.unit).item()
    if pa.types.is_struct(kind):
        return {field.name: to_python(value[field.name], field.type) for field in kind}
    if pa.types.is_map(kind):
        return [(to_python(key, kind.key_type), to_python(item, kind.item_type)) for key, item in value]
    if pa.types.is_list(kind):
        return [to_python(item, kind.value_type) for item in value]
    return value


def _date(days: int) -> datetime.date | np.datetime64:
    try:
        return (_EPOCH + datetime.timedelta(days=days)).date()
    except OverflowError:
        return np.datetime64(days, "D")


def _timestamp(value: int, kind: pa.DataType) -> datetime.datetime | np.datetime64:
    try:
        moment = _EPOCH + datetime.timedelta(microseconds=value * _UNITS[kind.unit] // 1_000)
    except OverflowError:
        return np.datetime64(value, kind.unit)
    return moment.replace(tzinfo=datetime.UTC) if kind.tz is not None else moment
