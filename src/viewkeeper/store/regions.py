"""Which region a row lives in: `crc32` of the canonical text of its distribution columns, modulo the number of regions.

The text is one that Spark SQL can form too, whatever its session's time zone and settings, so that a job can bring
each row to its region without asking Python:

| type | text | in Spark SQL |
|---|---|---|
| BOOLEAN | `true`, `false` | `CAST(c AS STRING)` |
| integers | decimal digits | `CAST(c AS STRING)` |
| DECIMAL(p, s) | plain notation with s digits after the point | `format_string('%.sf', c)` |
| STRING | itself | `c` |
| BINARY | upper-case hexadecimal | `hex(c)` |
| DATE | days since 1970-01-01 | `CAST(unix_date(c) AS STRING)` |
| TIMESTAMP | microseconds since 1970-01-01 UTC | `CAST(unix_micros(c) AS STRING)` |
| TIMESTAMP_NTZ | microseconds since 1970-01-01 00:00 | `timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01', c)` |
| NULL | one NUL character | `coalesce(..., '\\0')` |

Columns are joined by U+001F. FLOAT and DOUBLE, which only maintained tables have in a key, use Python's hexadecimal
form, and nested values, likewise, their stored one.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.store.contract import TableSpec
from viewkeeper.store.encoding import codec, from_python

SEPARATOR = "\x1f"
NULL_TEXT = "\x00"


def regions_of(spec: TableSpec, keys: pa.Table) -> npt.NDArray[np.int64]:
    """The region of each row of `keys`, which has at least the distribution columns."""
    if spec.regions == 1:
        return np.zeros(keys.num_rows, dtype=np.int64)
    texts = canonical_text([keys[name].combine_chunks() for name in spec.distribution])
    return checksums(texts.cast(pa.binary())).astype(np.int64) % spec.regions


TOGETHER_FROM = 128
TOGETHER_BYTES = 48
"""So many texts, none longer than this: stepping through all of them at once is faster than one after the other."""

_BLOCK = 8_192
"""Texts at a time: what a step works on stays in the processor's cache."""


def checksums(texts: pa.Array) -> npt.NDArray[np.uint32]:
    """`crc32` of each text.

    >>> checksums(pa.array([b"", b"a", b"bc"])).tolist() == [zlib.crc32(text) for text in (b"", b"a", b"bc")]
    True
    """
    if len(texts) < TOGETHER_FROM or pc.max(pc.binary_length(texts)).as_py() > TOGETHER_BYTES:
        return np.fromiter(map(zlib.crc32, texts.to_pylist()), dtype=np.uint32, count=len(texts))
    offsets = np.frombuffer(texts.buffers()[1], dtype=np.int32)[texts.offset : texts.offset + len(texts) + 1]
    data = np.frombuffer(texts.buffers()[2] or b"", dtype=np.uint8)
    blocks = [
        _checksums(data, offsets[start : start + _BLOCK], offsets[start + 1 : start + 1 + _BLOCK])
        for start in range(0, len(texts), _BLOCK)
    ]
    return np.concatenate(blocks)


def _checksums(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int32], ends: npt.NDArray[np.int32]
) -> npt.NDArray[np.uint32]:
    """The byte-wise algorithm, one byte of every text at a time; a text that has ended keeps its sum."""
    starts = starts[: len(ends)]
    lengths = ends - starts
    sums = np.full(len(ends), 0xFFFFFFFF, dtype=np.uint32)
    shortest = int(lengths.min())
    for step in range(int(lengths.max())):
        if step < shortest:
            sums = _STEPS[(sums ^ data[starts + step]) & 0xFF] ^ (sums >> 8)
        else:
            rest = np.flatnonzero(lengths > step)
            sums[rest] = _STEPS[(sums[rest] ^ data[starts[rest] + step]) & 0xFF] ^ (sums[rest] >> 8)
    return ~sums


def _steps() -> npt.NDArray[np.uint32]:
    """What each value of a byte adds to the sum: the reversed polynomial of CRC-32, eight times over."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0xEDB88320), table >> 1)
    return table


_STEPS = _steps()


def region_of(spec: TableSpec, key: Sequence[Any]) -> int:
    """The region of one key, given as Python values: the same answer as `regions_of`, without its fixed cost."""
    if spec.regions == 1:
        return 0
    value = key[0]
    if len(spec.distribution) == 1 and type(value) in (int, str):
        return zlib.crc32(str(value).encode()) % spec.regions
    fields = [spec.schema.field(name) for name in spec.distribution]
    arrays = [from_python(value, field.type) for value, field in zip(key, fields, strict=False)]
    return int(regions_of(spec, pa.table(arrays, names=list(spec.distribution)))[0])


def canonical_text(columns: list[pa.Array]) -> pa.Array:
    """The text that is hashed, one per row.

    >>> canonical_text([pa.array([1, None]), pa.array(["a", "b"])]).to_pylist()
    ['1\\x1fa', '\\x00\\x1fb']
    """
    texts = [pc.fill_null(_text(column), NULL_TEXT) for column in columns]
    return texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, SEPARATOR)


def _text(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_date32(kind):
        return column.view(pa.int32()).cast(pa.string())
    if pa.types.is_timestamp(kind):
        return column.view(pa.int64()).cast(pa.string())
    if pa.types.is_decimal(kind):
        return _by_row(column, lambda value: format(value, "f"))
    if pa.types.is_binary(kind):
        return _by_row(column, lambda value: value.hex().upper())
    if pa.types.is_floating(kind):
        return _by_row(column, float.hex)
    if pa.types.is_nested(kind):
        return codec(kind).encode(column)
    return column.cast(pa.string())


def _by_row(column: pa.Array, text: Any) -> pa.Array:
    return pa.array([None if value is None else text(value) for value in column.to_pylist()], pa.string())
