"""The first key that a batch has twice, found by whole columns.

Each key column becomes integers that are equal exactly where the values are; several columns become one. Then a batch
that comes in key order (the usual one) costs a single pass, and any other one sort.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types as kinds

Codes = npt.NDArray[np.int64]

_MOST = 2**63 - 1


def first_duplicate(columns: Sequence[pa.ChunkedArray]) -> tuple[int, int] | None:
    """The rows (first, second) of a key that is there twice, where `second` comes as early as possible.

    >>> first_duplicate([pa.chunked_array([[1, 2, 1]]), pa.chunked_array([["a", "a", "a"]])])
    (0, 2)
    """
    if len(columns[0]) < 2:
        return None
    codes = _codes(columns[0])
    for column in columns[1:]:
        codes = _combined(codes, _codes(column))
    if bool(np.all(codes[1:] > codes[:-1])):
        return None
    ordered = np.sort(codes)
    if not bool(np.any(ordered[1:] == ordered[:-1])):
        return None
    return _located(codes)


def _located(codes: Codes) -> tuple[int, int]:
    """A stable sort keeps equal keys in row order, so each neighbour is the row before it with the same key."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    again = np.flatnonzero(ordered[1:] == ordered[:-1]) + 1
    second = again[np.argmin(order[again])]
    return int(order[second - 1]), int(order[second])


def _codes(column: pa.ChunkedArray) -> Codes:
    """Integers, dates and times are their own codes; anything else is numbered by Arrow's hash table."""
    if column.null_count == 0 and kinds.is_integer(column.type):
        return _integers(column)
    if column.null_count == 0 and (kinds.is_date32(column.type) or kinds.is_timestamp(column.type)):
        return _integers(column.cast(pa.int32() if kinds.is_date32(column.type) else pa.int64()))
    encoded = column.dictionary_encode(null_encoding="encode")
    return _integers(pa.chunked_array([chunk.indices for chunk in encoded.chunks], pa.int32()))


def _integers(column: pa.ChunkedArray) -> Codes:
    return column.to_numpy().astype(np.int64, copy=False)


def _combined(left: Codes, right: Codes) -> Codes:
    """One integer per pair, without overflow: where the ranges multiply beyond 64 bits, number the values first."""
    left_start, left_span = _range(left)
    right_start, right_span = _range(right)
    if left_span * right_span > _MOST:
        return _combined(_numbered(left), _numbered(right))
    return (left - left_start) * right_span + (right - right_start)


def _range(codes: Codes) -> tuple[int, int]:
    start = int(codes.min())
    return start, int(codes.max()) - start + 1


def _numbered(codes: Codes) -> Codes:
    """Numbers below the number of rows: two of them multiply within 64 bits for every batch that fits into memory."""
    return np.unique(codes, return_inverse=True)[1].astype(np.int64, copy=False)
