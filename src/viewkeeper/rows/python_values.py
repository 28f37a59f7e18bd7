"""The rules for one Python value: for each type, a function from an acceptable value to its normal form, or `Unfit`.

Normal forms are what Arrow takes as they are, and what keys are compared by: `int`, `Decimal` with exactly the column's
digits after the point, `datetime` in UTC, lists, dicts, and lists of pairs for maps. NumPy's scalars count as their
Python counterparts. `None` never gets here, except inside nested values.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from pyarrow import types as kinds

from viewkeeper.rows.problems import Unfit, shown
from viewkeeper.sql.types import sql_type

Converter = Callable[[Any], Any]
Parsed = TypeVar("Parsed")

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,6})?", re.ASCII)
_BEYOND_MICROSECONDS = re.compile(r"[.,]\d{6}\d*[1-9]", re.ASCII)


@lru_cache(maxsize=1024)
def converter(data_type: pa.DataType) -> Converter:
    """The rule of a canonical type.

    >>> converter(pa.decimal128(10, 2))("9.9")
    Decimal('9.90')
    """
    if kinds.is_integer(data_type):
        return _integer(data_type.bit_width)
    if kinds.is_decimal(data_type):
        return _decimal(data_type.precision, data_type.scale)
    if kinds.is_list(data_type):
        return _array(converter(data_type.value_type))
    if kinds.is_map(data_type):
        return _map(converter(data_type.key_type), converter(data_type.item_type))
    if kinds.is_struct(data_type):
        return _struct({field.name: (converter(field.type), field.nullable) for field in data_type})
    if kinds.is_timestamp(data_type):
        return _timestamp_ntz if data_type.tz is None else _timestamp
    return _SIMPLE[sql_type(data_type)]


def _plain(value: Any) -> Any:
    """NumPy's scalar as Python's. NumPy's `item` would give nanoseconds as a bare integer, and NaT as None."""
    if not isinstance(value, np.generic):
        return value
    if isinstance(value, np.datetime64):
        return _plain_datetime(value)
    return value.item()


def _plain_datetime(value: np.datetime64) -> Any:
    if np.isnat(value):
        raise Unfit("it is NaT", hint="give None for NULL")
    if np.datetime_data(value.dtype)[0] in ("Y", "M", "W", "D"):
        return value.item()
    micros = value.astype("datetime64[us]")
    if micros.astype(value.dtype) != value:
        raise Unfit("it has more than microseconds")
    return micros.item()


# Scalars


def _boolean(value: Any) -> bool:
    value = _plain(value)
    if not isinstance(value, bool):
        raise Unfit(hint="give True or False")
    return value


def _integer(bits: int) -> Converter:
    least, greatest = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def convert(value: Any) -> int:
        number: int = value if type(value) is int else _whole(value, "give an int")
        if not least <= number <= greatest:
            raise Unfit("it is out of range", hint=f"the range is {least} to {greatest}")
        return number

    return convert


def _whole(value: Any, hint: str) -> int:
    value = _plain(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise Unfit(hint=hint)
    return int(value)


def _decimal(precision: int, scale: int) -> Converter:
    """Quantizing with traps is the exact test: `Inexact` is a lost digit, `InvalidOperation` one digit too many."""
    unit = Decimal(1).scaleb(-scale)
    zero = Decimal(0).quantize(unit)
    context = Context(prec=precision, traps=[Inexact, InvalidOperation])

    def convert(value: Any) -> Decimal:
        number = _decimal_of(value)
        try:
            # A zero has one form: -0.00 is the same key as 0.00.
            return context.quantize(number, unit) if number else zero
        except Inexact:
            raise Unfit(f"more than {scale} digits after the point", hint="round it yourself") from None
        except InvalidOperation:
            raise Unfit("it is out of range", hint=f"{precision - scale} digits before the point at most") from None

    return convert


def _decimal_of(value: Any) -> Decimal:
    value = _plain(value)
    if isinstance(value, Decimal) and value.is_finite():
        return value
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return Decimal(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return Decimal(value)
    if isinstance(value, float):
        raise Unfit("a float is not exact", hint="give a Decimal, an int, or a string such as '9.90'")
    raise Unfit(hint="give a Decimal, an int, or a string such as '9.90'")


def _double(value: Any) -> float:
    if type(value) is float:
        return value
    value = _plain(value)
    return float(value) if isinstance(value, float) else _exact_float(value, float)


def _float(value: Any) -> float:
    if type(value) is not float:
        value = _plain(value)
        if not isinstance(value, float):
            return _exact_float(value, _single)
    return _single(value)


def _single(value: float) -> float:
    """The nearest single-precision number. A finite value never becomes infinite.

    `struct` checks the range only where the byte order is given: its native "f" makes infinity of 1e39.
    """
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
        return rounded
    except OverflowError:
        raise Unfit("it is out of range", hint="the range is -3.4028235e38 to 3.4028235e38: use DOUBLE") from None


def _exact_float(value: Any, to_float: Callable[[float], float]) -> float:
    number = _whole(value, "give a float")
    try:
        result = to_float(float(number))
    except OverflowError:
        raise Unfit("it is out of range") from None
    if int(result) != number:
        raise Unfit("no float is exactly this integer", hint="give a float, or use DECIMAL or BIGINT")
    return result


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise Unfit(hint="give a str")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Unfit("it is not valid Unicode: it has a lone surrogate") from None
    return value


def _binary(value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise Unfit(hint="give bytes")
    return bytes(value)


def _date(value: Any) -> date:
    value = _plain(value)
    if isinstance(value, str):
        return _parsed(value, date.fromisoformat, "'2026-01-31'")
    if isinstance(value, datetime):
        raise Unfit("it has a time of day", hint="give a date: value.date()")
    if not isinstance(value, date):
        raise Unfit(hint="give a date, or a string such as '2026-01-31'")
    return value


def _timestamp(value: Any) -> datetime:
    moment = _moment(value)
    if moment.utcoffset() is None:
        raise Unfit("it has no time zone", hint="add one (tzinfo=timezone.utc), or declare the column TIMESTAMP_NTZ")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise Unfit("it is out of range", hint="the years are 1 to 9999 in UTC") from None


def _timestamp_ntz(value: Any) -> datetime:
    moment = _moment(value)
    if moment.tzinfo is not None:
        raise Unfit("it has a time zone", hint="drop it (value.replace(tzinfo=None)), or declare the column TIMESTAMP")
    return moment.replace(fold=0) if moment.fold else moment


def _moment(value: Any) -> datetime:
    if type(value) is datetime:
        return value
    value = _plain(value)
    if isinstance(value, str):
        if _BEYOND_MICROSECONDS.search(value):
            raise Unfit("it has more than microseconds")
        return _parsed(value, datetime.fromisoformat, "'2026-01-31T12:00:00'")
    if not isinstance(value, datetime):
        raise Unfit(hint="give a datetime, or a string such as '2026-01-31T12:00:00'")
    return _pandas_moment(value)


def _pandas_moment(value: Any) -> datetime:
    """pandas' Timestamp is a datetime with nanoseconds, and its NaT is one that compares with nothing."""
    if not hasattr(value, "to_pydatetime"):
        return value
    if value != value:
        raise Unfit("it is NaT", hint="give None for NULL")
    if value.nanosecond:
        raise Unfit("it has more than microseconds")
    moment: datetime = value.to_pydatetime()
    return moment


def _parsed(text: str, parse: Callable[[str], Parsed], example: str) -> Parsed:
    try:
        if text.isascii():
            return parse(text)
    except ValueError:
        pass
    raise Unfit(hint=f"write it as ISO 8601 does, such as {example}")


_SIMPLE: dict[str, Converter] = {
    "BOOLEAN": _boolean,
    "FLOAT": _float,
    "DOUBLE": _double,
    "STRING": _string,
    "BINARY": _binary,
    "DATE": _date,
}


# Nested values: the reason says where inside, the innermost part last


def _inside(part: str, value: Any, convert: Converter) -> Any:
    try:
        return convert(value)
    except Unfit as why:
        reason = f"{part} is {shown(value)}" if why.reason is None else f"{part}: {why.reason}"
        raise Unfit(reason, hint=why.hint) from None


def _array(convert: Converter) -> Converter:
    def convert_array(value: Any) -> list[Any]:
        if isinstance(value, np.ndarray):
            value = list(value)
        if not isinstance(value, list | tuple):
            raise Unfit(hint="give a list")
        return [
            None if element is None else _inside(f"element {number}", element, convert)
            for number, element in enumerate(value)
        ]

    return convert_array


def _map(convert_key: Converter, convert_value: Converter) -> Converter:
    def convert_map(value: Any) -> list[tuple[Any, Any]]:
        pairs = [_pair(key, item, convert_key, convert_value) for key, item in _pairs(value)]
        seen = set()
        for key, _ in pairs:
            if _identity(key) in seen:
                raise Unfit(f"key {shown(key)} is there twice", hint="a map has each key once")
            seen.add(_identity(key))
        return pairs

    return convert_map


def _pairs(value: Any) -> list[Any]:
    pairs = list(value.items()) if isinstance(value, Mapping) else value
    if not isinstance(pairs, list | tuple) or not all(
        isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs
    ):
        raise Unfit(hint="give a dict, or a list of pairs")
    return list(pairs)


def _pair(key: Any, value: Any, convert_key: Converter, convert_value: Converter) -> tuple[Any, Any]:
    if key is None:
        raise Unfit("a key is NULL", hint="the keys of a map are not NULL")
    return (
        _inside("a key", key, convert_key),
        None if value is None else _inside(f"the value of {shown(key)}", value, convert_value),
    )


def _identity(value: Any) -> Any:
    """A hashable stand-in that is equal where Spark's map keys are: NaN is one key, and so are 0.0 and -0.0."""
    if isinstance(value, float) and value != value:
        return "NaN"
    if isinstance(value, dict):
        return tuple(_identity(part) for part in value.values())
    if isinstance(value, list | tuple):
        return tuple(_identity(part) for part in value)
    return value


def _struct(fields: dict[str, tuple[Converter, bool]]) -> Converter:
    hint = f"give a dict with exactly {', '.join(fields)}"

    def convert_struct(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping) or value.keys() != fields.keys():
            raise Unfit(hint=hint)
        return {name: _field(name, value[name], *fields[name]) for name in fields}

    return convert_struct


def _field(name: str, value: Any, convert: Converter, nullable: bool) -> Any:
    if value is not None:
        return _inside(f"field {name}", value, convert)
    if not nullable:
        raise Unfit(f"field {name} cannot be NULL")
    return None
