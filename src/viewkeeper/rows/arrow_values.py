"""The rules for a whole Arrow column: the values that `python_values` accepts, at the cost of a pass over the column.

Casts stay within a family (integers, decimals, floats, strings, bytes, dates, times with a zone, times without) and
never lose anything; an integer also goes where it is exact. A column that has the right type already is not copied:
only what Arrow itself never checks is looked at (valid UTF-8, digits of decimals, years that Python can say).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from viewkeeper.rows.problems import Unfit
from viewkeeper.rows.python_values import converter
from viewkeeper.sql.types import is_bytes, is_list_like, is_nested, is_text

Cast = Callable[[pa.ChunkedArray, pa.DataType], pa.ChunkedArray]

_EPOCH = date(1970, 1, 1)
_FIRST_DAY, _LAST_DAY = (date.min - _EPOCH).days, (date.max - _EPOCH).days
_DAY = 86_400_000_000


def same_family(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of one type may become values of the other at all, before any value is looked at.

    >>> same_family(pa.int64(), pa.decimal128(10, 2)), same_family(pa.float64(), pa.int64())
    (True, False)
    """
    if kinds.is_null(given) or given == wanted:
        return True
    if kinds.is_dictionary(given) or kinds.is_run_end_encoded(given):
        return same_family(given.value_type, wanted)
    if is_nested(wanted):
        return _same_nesting(given, wanted)
    if kinds.is_integer(given):
        return bool(kinds.is_integer(wanted) or kinds.is_decimal(wanted) or kinds.is_floating(wanted))
    if kinds.is_timestamp(given):
        return bool(kinds.is_timestamp(wanted)) and (given.tz is None) == (wanted.tz is None)
    return any(is_of(given) and is_of(wanted) for is_of in _FAMILIES)


_FAMILIES: tuple[Callable[[pa.DataType], bool], ...] = (
    kinds.is_floating,
    kinds.is_decimal,
    kinds.is_date,
    is_text,
    is_bytes,
)


def _same_nesting(given: pa.DataType, wanted: pa.DataType) -> bool:
    if kinds.is_list(wanted):
        return is_list_like(given) and same_family(given.value_type, wanted.value_type)
    if kinds.is_map(wanted):
        return (
            bool(kinds.is_map(given))
            and same_family(given.key_type, wanted.key_type)
            and same_family(given.item_type, wanted.item_type)
        )
    if not kinds.is_struct(given) or sorted(f.name for f in given) != sorted(f.name for f in wanted):
        return False
    return all(same_family(given.field(field.name).type, field.type) for field in wanted)


def fitted(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    """The column with type `wanted`, or `Unfit` if any value would change. Both types are of one family."""
    try:
        column = _decoded(column)
        if column.type != wanted:
            column = _cast_rule(column.type, wanted)(column, wanted)
        return _checked(column)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError, ValueError):
        raise Unfit from None


def first_unfit(column: pa.ChunkedArray, wanted: pa.DataType) -> int:
    """The first row that `fitted` refuses, given that there is one: halving costs as much as two passes."""
    start, stop = 0, len(column)
    while stop - start > 1:
        middle = (start + stop) // 2
        try:
            fitted(column.slice(start, middle - start), wanted)
            start = middle
        except Unfit:
            stop = middle
    return start


def reason(column: pa.ChunkedArray, row: int, wanted: pa.DataType) -> tuple[Any, Unfit]:
    """A row's value and why it does not fit, in the words that the same value in a dict would get.

    Arrow holds years and bytes that Python cannot: those are shown as Arrow keeps them.
    """
    scalar = column[row]
    try:
        value = scalar.as_py()
        if value is not None:
            converter(wanted)(value)
    except Unfit as why:
        return value, why
    except UnicodeDecodeError:
        return _bytes_of(scalar), Unfit("it is not valid UTF-8")
    except (OverflowError, ValueError):
        return getattr(scalar, "value", None), Unfit("it is out of range", hint="the years are 1 to 9999")
    return value, Unfit()


def _bytes_of(scalar: Any) -> bytes | None:
    return scalar.as_buffer().to_pybytes() if hasattr(scalar, "as_buffer") else None


# Casts


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if kinds.is_dictionary(column.type):
        return _decoded(column.cast(column.type.value_type))
    if kinds.is_run_end_encoded(column.type):
        return _decoded(pc.run_end_decode(column))
    return column


def _cast_rule(given: pa.DataType, wanted: pa.DataType) -> Cast:
    if kinds.is_null(given):
        return _plain_cast
    if is_nested(wanted):
        return _through_python
    if kinds.is_integer(given) and kinds.is_decimal(wanted):
        return _integer_to_decimal
    if kinds.is_integer(given) and kinds.is_floating(wanted):
        return _integer_to_float
    if kinds.is_floating(given) and kinds.is_float32(wanted):
        return _to_single
    return _plain_cast


def _plain_cast(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    """Arrow's safe casts refuse what does not fit: range, digits, units."""
    return column.cast(wanted)


def _integer_to_decimal(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    """Arrow's direct cast refuses a small DECIMAL by its type, whatever the values; 20 digits hold any integer."""
    return column.cast(pa.decimal128(20, 0)).cast(wanted)


def _integer_to_float(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    """There and back: Arrow's own check refuses every integer beyond 2**53, also those that are exact.

    A float at the very end of the integers' range has no way back that every processor agrees on, hence the bound.
    """
    result = column.cast(wanted, safe=False)
    wide = result.cast(pa.float64())
    end = 2.0 ** (column.type.bit_width - (1 if kinds.is_signed_integer(column.type) else 0))
    if _any(pc.greater_equal(wide, end)) or _any(pc.not_equal(wide.cast(column.type, safe=False), column)):
        raise Unfit
    return result


def _to_single(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    result = column.cast(wanted)
    if _any(pc.and_(pc.is_inf(result), pc.is_finite(column))):
        raise Unfit
    return result


def _through_python(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    """Nested values of another layout are few and small: one by one, by the rules for Python values."""
    convert = converter(wanted)
    values = [None if value is None else convert(value) for value in column.to_pylist()]
    return pa.chunked_array([pa.array(values, wanted)], wanted)


def _any(condition: Any) -> bool:
    return bool(pc.any(condition).as_py())


# Checks of values whose type is right


def _checked(column: pa.ChunkedArray) -> pa.ChunkedArray:
    for chunk in column.chunks:
        if not _sound(chunk):
            raise Unfit
    return column


def _sound(values: pa.Array) -> bool:
    """Parts of nested values are looked at by themselves: Arrow's check of a list looks beyond the end of a slice."""
    if kinds.is_string(values.type) or kinds.is_decimal(values.type):
        values.validate(full=True)
    if kinds.is_date32(values.type):
        return _between(values, _FIRST_DAY, _LAST_DAY)
    if kinds.is_timestamp(values.type):
        return _between(values, _FIRST_DAY * _DAY, (_LAST_DAY + 1) * _DAY - 1)
    if kinds.is_list(values.type):
        return _sound(values.flatten())
    if kinds.is_struct(values.type):
        return all(_sound_field(values, number) for number in range(values.type.num_fields))
    if kinds.is_map(values.type):
        return _sound_map(values)
    return True


def _between(values: pa.Array, least: int, greatest: int) -> bool:
    bounds = pc.min_max(values)
    first, last = bounds["min"], bounds["max"]
    return not first.is_valid or (first.value >= least and last.value <= greatest)


def _sound_field(values: pa.Array, number: int) -> bool:
    """A field of an absent struct is no value: only NULLs inside of present structs count."""
    inner = values.flatten()[number]
    if not values.type.field(number).nullable and inner.null_count > values.null_count:
        return False
    return _sound(inner)


def _sound_map(values: pa.Array) -> bool:
    """Arrow never looks for a key that a map has twice. One by one: no hash table of Arrow takes every type."""
    convert = converter(values.type)
    for value in values.to_pylist():
        if value is not None:
            convert(value)
    return True
