"""How a column's values are stored in SQLite, so that SQLite's order is Spark's order and nothing is lost.

| Arrow type | stored as | why |
|---|---|---|
| bool, integers, date, timestamp | INTEGER | the same order |
| float32, float64 | INTEGER | SQLite turns NaN into NULL; the bits (see `_floating`) order as numbers do, NaN last |
| decimal to 18 digits | INTEGER | the unscaled number |
| decimal to 38 digits | BLOB of 16 | big-endian with the sign bit flipped: bytes order as numbers do |
| string | TEXT | binary collation, NUL bytes included |
| binary | BLOB | bytes order |
| list, map, struct | TEXT | canonical JSON; values only, so order does not matter |

Columns are declared without a type, so SQLite converts nothing. NULL cannot stand in a primary key: there it is
stored as a value that is less than every other of its column (`null_literal`), since SQLite orders storage classes
NULL < numbers < TEXT < BLOB, and -infinity before every integer.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Convert = Callable[[pa.Array], pa.Array]

_EXACT = Context(prec=40)
_LONG, _DOUBLE = struct.Struct("<q"), struct.Struct("<d")
_ALL_BUT_SIGN = 2**63 - 1


@dataclass(frozen=True)
class Codec:
    """A column's way into SQLite and back: `decode(encode(a))` equals `a`, and order is kept."""

    logical: pa.DataType
    stored: pa.DataType
    encode: Convert
    decode: Convert

    def value(self, stored: Any) -> Any:
        """One stored value as Python's own: what `decode` gives, without the fixed cost of an array."""
        if stored is None or self.decode is _same:
            return stored
        if pa.types.is_integer(self.logical):
            return stored
        if pa.types.is_boolean(self.logical):
            return bool(stored)
        if pa.types.is_decimal128(self.logical) and isinstance(stored, int):
            return Decimal(stored).scaleb(-self.logical.scale, _EXACT)
        if pa.types.is_float64(self.logical):
            return _DOUBLE.unpack(_LONG.pack(stored if stored >= 0 else stored ^ _ALL_BUT_SIGN))[0]
        return to_python(self.decode(pa.array([stored], self.stored)))[0]

    @property
    def sample_literal(self) -> str:
        """A value of the stored type. The driver infers a column's type from the first rows, so we give it one."""
        return {pa.int64(): "0", pa.string(): "''", pa.binary(): "x''"}[self.stored]

    @property
    def null_literal(self) -> str:
        """What stands for NULL in a key: below every stored value of this column."""
        return "-9e999" if self.stored == pa.int64() else "0"


def codec(logical: pa.DataType) -> Codec:
    """The codec of a type. The types are those that `sql.types` gives out."""
    types = pa.types
    if types.is_boolean(logical) or types.is_integer(logical):
        return _castable(logical)
    if types.is_floating(logical):
        return _floating(logical)
    if types.is_date32(logical) or types.is_timestamp(logical):
        return _viewable(logical)
    if types.is_decimal128(logical):
        return _small_decimal(logical) if logical.precision <= 18 else _large_decimal(logical)
    if types.is_string(logical):
        return Codec(logical, pa.string(), _same, _same)
    if types.is_binary(logical):
        return Codec(logical, pa.binary(), _same, _same)
    if types.is_nested(logical):
        return _nested(logical)
    raise TypeError(f"no storage for {logical}")


def to_python(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """The values as Python's own; dates and times that Python cannot hold as `numpy.datetime64`."""
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        return [_wide_value(scalar) for scalar in column]


def _wide_value(scalar: Any) -> Any:
    kind = scalar.type
    if not scalar.is_valid:
        return None
    if pa.types.is_struct(kind):
        return {field.name: _wide_value(scalar[i]) for i, field in enumerate(kind)}
    if pa.types.is_map(kind):
        return [(_wide_value(pair[0]), _wide_value(pair[1])) for pair in scalar.values]
    if pa.types.is_list(kind):
        return [_wide_value(item) for item in scalar.values]
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        return np.datetime64(scalar.value, "D") if pa.types.is_date32(kind) else np.datetime64(scalar.value, "us")


def from_python(value: Any, logical: pa.DataType) -> pa.Array:
    """One Python value as an array of one: the inverse of `to_python`.

    Arrow takes a `numpy.datetime64` for a timestamp without a zone only; the instant inside is the same.
    """
    if isinstance(value, np.datetime64) and pa.types.is_timestamp(logical):
        return pa.array([value], pa.timestamp("us")).view(logical)
    return pa.array([value], logical)


def _same(column: pa.Array) -> pa.Array:
    return column


def _castable(logical: pa.DataType) -> Codec:
    if logical == pa.int64():
        return Codec(logical, logical, _same, _same)
    return Codec(logical, pa.int64(), lambda a: a.cast(pa.int64()), lambda a: a.cast(logical))


def _viewable(logical: pa.DataType) -> Codec:
    bits = pa.int32() if pa.types.is_date32(logical) else pa.int64()
    return Codec(
        logical, pa.int64(), lambda a: a.view(bits).cast(pa.int64()), lambda a: a.cast(bits, safe=False).view(logical)
    )


def _floating(logical: pa.DataType) -> Codec:
    """Sign-magnitude bits become two's complement, and back by the same step: flip all but the sign of negatives."""
    width = logical.bit_width
    bits = pa.int32() if width == 32 else pa.int64()
    mask = pa.scalar(2 ** (width - 1) - 1, bits)
    zero = pa.scalar(0, bits)
    nan = pa.scalar(float("nan"), logical)

    def flip(column: pa.Array) -> pa.Array:
        return pc.if_else(pc.less(column, zero), pc.bit_wise_xor(column, mask), column)

    def encode(column: pa.Array) -> pa.Array:
        one_nan = pc.if_else(pc.is_nan(column), nan, column)
        return flip(one_nan.view(bits)).cast(pa.int64())

    def decode(column: pa.Array) -> pa.Array:
        return flip(column.cast(bits)).view(logical)

    return Codec(logical, pa.int64(), encode, decode)


def _small_decimal(logical: pa.DataType) -> Codec:
    def encode(column: pa.Array) -> pa.Array:
        words = np.frombuffer(column.buffers()[1], dtype="<i8")[2 * column.offset : 2 * (column.offset + len(column))]
        return pa.array(words[::2], mask=_null_mask(column))

    def decode(column: pa.Array) -> pa.Array:
        low = column.fill_null(0).to_numpy(zero_copy_only=False)
        return _decimals(logical, np.stack([low, low >> 63], axis=1), column)

    return Codec(logical, pa.int64(), encode, decode)


def _large_decimal(logical: pa.DataType) -> Codec:
    sixteen = pa.binary(16)

    def encode(column: pa.Array) -> pa.Array:
        data = np.frombuffer(column.buffers()[1], dtype=np.uint8)
        data = data[16 * column.offset : 16 * (column.offset + len(column))].reshape(-1, 16)[:, ::-1].copy()
        data[:, 0] ^= 0x80
        packed = pa.Array.from_buffers(sixteen, len(column), [_validity(column), pa.py_buffer(data.tobytes())])
        return packed.cast(pa.binary())

    def decode(column: pa.Array) -> pa.Array:
        packed = column.fill_null(bytes(16)).cast(sixteen)
        data = np.frombuffer(packed.buffers()[1], dtype=np.uint8)
        data = data[16 * packed.offset : 16 * (packed.offset + len(packed))].reshape(-1, 16).copy()
        data[:, 0] ^= 0x80
        return _decimals(logical, data[:, ::-1], column)

    return Codec(logical, pa.binary(), encode, decode)


def _decimals(logical: pa.DataType, little_endian: Any, nulls_of: pa.Array) -> pa.Array:
    data = pa.py_buffer(np.ascontiguousarray(little_endian).tobytes())
    return pa.Array.from_buffers(logical, len(nulls_of), [_validity(nulls_of), data])


def _null_mask(column: pa.Array) -> Any:
    return column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None


def _validity(column: pa.Array) -> pa.Buffer | None:
    """The validity bitmap of a column, at offset zero."""
    return column.is_valid().buffers()[1] if column.null_count else None


def _nested(logical: pa.DataType) -> Codec:
    def encode(column: pa.Array) -> pa.Array:
        texts = [None if row is None else _dump(row) for row in _plain_rows(column)]
        return pa.array(texts, pa.string())

    def decode(column: pa.Array) -> pa.Array:
        return _from_plain([None if text is None else json.loads(text) for text in column.to_pylist()], logical)

    return Codec(logical, pa.string(), encode, decode)


def _dump(row: Any) -> str:
    return json.dumps(row, ensure_ascii=False, separators=(",", ":"))


def _plain_rows(column: pa.Array) -> list[Any]:
    """The rows as what JSON can hold exactly: leaves as numbers or text, a struct as a list, a map as a list of pairs."""
    kind = column.type
    if pa.types.is_struct(kind):
        children = [_plain_rows(column.field(i)) for i in range(kind.num_fields)]
        return _with_nulls(column, [list(values) for values in zip(*children, strict=True)] or [[]] * len(column))
    if pa.types.is_map(kind):
        pairs = [list(p) for p in zip(_plain_rows(column.keys), _plain_rows(column.items), strict=True)]
        return _with_nulls(column, _split(column, pairs))
    if pa.types.is_list(kind):
        return _with_nulls(column, _split(column, _plain_rows(column.values)))
    if pa.types.is_binary(kind):
        return [None if value is None else value.decode("latin-1") for value in column.to_pylist()]
    if pa.types.is_string(kind):
        return list(column.to_pylist())
    return list(codec(kind).encode(column).to_pylist()) if kind.bit_width <= 64 else _decimal_digits(column)


def _decimal_digits(column: pa.Array) -> list[Any]:
    return [None if value is None else str(value) for value in column.to_pylist()]


def _with_nulls(column: pa.Array, rows: list[Any]) -> list[Any]:
    if not column.null_count:
        return rows
    return [row if valid else None for row, valid in zip(rows, column.is_valid().to_pylist(), strict=True)]


def _split(column: pa.Array, items: list[Any]) -> list[Any]:
    """`column.values` ignores the offset and does not slice, so the offsets index it as they are."""
    ends = column.offsets.to_pylist()
    return [items[start:stop] for start, stop in pairwise(ends)]


def _from_plain(rows: list[Any], kind: pa.DataType) -> pa.Array:
    """The inverse of `_plain_rows`."""
    if pa.types.is_struct(kind):
        return _structs(rows, kind)
    if pa.types.is_map(kind):
        flat = [pair for row in rows if row for pair in row]
        keys, items = (
            _from_plain([k for k, _ in flat], kind.key_type),
            _from_plain([v for _, v in flat], kind.item_type),
        )
        return pa.MapArray.from_arrays(_offsets(rows), keys, items, type=kind)
    if pa.types.is_list(kind):
        values = _from_plain([value for row in rows if row for value in row], kind.value_type)
        return pa.ListArray.from_arrays(_offsets(rows), values, type=kind)
    if pa.types.is_binary(kind):
        return pa.array([None if row is None else row.encode("latin-1") for row in rows], kind)
    if pa.types.is_string(kind):
        return pa.array(rows, kind)
    if kind.bit_width <= 64:
        return codec(kind).decode(pa.array(rows, pa.int64()))
    return pa.array(rows, pa.string()).cast(kind)


def _structs(rows: list[Any], kind: pa.DataType) -> pa.Array:
    fields = [kind.field(i) for i in range(kind.num_fields)]
    children = [
        _from_plain([None if row is None else row[i] for row in rows], field.type) for i, field in enumerate(fields)
    ]
    nulls = pa.array([row is None for row in rows], pa.bool_())
    if not fields:
        return pa.array([None if row is None else {} for row in rows], kind)
    return pa.StructArray.from_arrays(children, fields=fields, mask=nulls)


def _offsets(rows: list[Any]) -> pa.Array:
    """Arrow reads a NULL offset as a NULL row."""
    ends: list[int | None] = []
    total = 0
    for row in rows:
        ends.append(None if row is None else total)
        total += len(row or ())
    return pa.array([*ends, total], pa.int32())
