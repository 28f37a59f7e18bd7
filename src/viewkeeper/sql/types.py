"""SQL's types and Arrow's: one canonical Arrow type for each SQL type, both ways.

The law: `arrow_type(sql_type(t)) == t` for every canonical `t`, and `sql_type` knows no other (`arrow_type`, which
parses, is in `type_text`). `normal_type` brings what a user's Arrow schema may say (large strings, other units,
dictionaries) to the canonical type that holds every value of it.

The elements of an ARRAY and the values of a MAP may always be NULL: Spark's text cannot say otherwise, so neither do
we. The keys of a MAP never are. The fields of a STRUCT may be NOT NULL.
"""

from __future__ import annotations

import re
from functools import cache

import pyarrow as pa
from pyarrow import types as kinds

from viewkeeper.errors import SchemaError

TIMESTAMP = pa.timestamp("us", tz="UTC")
TIMESTAMP_NTZ = pa.timestamp("us")
MOST_DIGITS = 38

KNOWN_TYPES = (
    "BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p,s), STRING, BINARY, DATE, TIMESTAMP, "
    "TIMESTAMP_NTZ, ARRAY<T>, MAP<K, V>, STRUCT<name: T, ...>"
)

_SCALARS: dict[pa.DataType, str] = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.date32(): "DATE",
    TIMESTAMP: "TIMESTAMP",
    TIMESTAMP_NTZ: "TIMESTAMP_NTZ",
}

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


# Arrow to text


def sql_type(data_type: pa.DataType) -> str:
    """Spark's text for a canonical Arrow type.

    >>> sql_type(pa.struct([pa.field("price", pa.decimal128(10, 2), nullable=False), ("tags", pa.list_(pa.string()))]))
    'STRUCT<price: DECIMAL(10,2) NOT NULL, tags: ARRAY<STRING>>'
    """
    if data_type in _SCALARS:
        return _SCALARS[data_type]
    if kinds.is_decimal128(data_type):
        return f"DECIMAL({data_type.precision},{data_type.scale})"
    if kinds.is_list(data_type):
        return f"ARRAY<{sql_type(data_type.value_type)}>"
    if kinds.is_map(data_type):
        return f"MAP<{sql_type(data_type.key_type)}, {sql_type(data_type.item_type)}>"
    if kinds.is_struct(data_type):
        return f"STRUCT<{', '.join(_field_text(field) for field in data_type)}>"
    raise bad_type(str(data_type), None)


def same_type(one: pa.DataType, two: pa.DataType) -> bool:
    """Whether two types are one but for what may be NULL inside.

    >>> same_type(pa.struct([pa.field("a", pa.int32(), nullable=False)]), pa.struct([("a", pa.int32())]))
    True
    >>> same_type(pa.list_(pa.int32()), pa.list_(pa.int64()))
    False
    """
    if not kinds.is_nested(one) or one.id != two.id or one.num_fields != two.num_fields:
        return bool(one == two)
    fields = [(one.field(place), two.field(place)) for place in range(one.num_fields)]
    named_alike = not kinds.is_struct(one) or all(mine.name == other.name for mine, other in fields)
    return named_alike and all(same_type(mine.type, other.type) for mine, other in fields)


def _field_text(field: pa.Field) -> str:
    return f"{_quoted(field.name)}: {sql_type(field.type)}{'' if field.nullable else ' NOT NULL'}"


def _quoted(name: str) -> str:
    if _PLAIN.fullmatch(name) and name.upper() not in _keywords():
        return name
    return "`" + name.replace("`", "``") + "`"


@cache
def _keywords() -> frozenset[str]:
    """sqlglot is imported for a STRUCT's field names alone: nothing else here needs it."""
    from sqlglot.dialects.spark import Spark

    return frozenset(Spark.Tokenizer.KEYWORDS)


# Arrow to Arrow


def normal_type(data_type: pa.DataType, *, column: str | None = None) -> pa.DataType:
    """The canonical type that holds every value of an acceptable Arrow type. `column` is for the error only.

    Unsigned integers go to the next larger signed type: none has a value that the wider type lacks.

    >>> normal_type(pa.dictionary(pa.int8(), pa.large_string())), normal_type(pa.uint64())
    (DataType(string), Decimal128Type(decimal128(20, 0)))
    """
    if data_type in _SCALARS:
        return data_type
    scalar = _normal_scalar(data_type)
    if scalar is not None:
        return scalar
    if kinds.is_dictionary(data_type) or kinds.is_run_end_encoded(data_type):
        return normal_type(data_type.value_type, column=column)
    if is_list_like(data_type):
        return pa.list_(normal_type(data_type.value_type, column=column))
    if kinds.is_map(data_type):
        key, value = normal_type(data_type.key_type, column=column), normal_type(data_type.item_type, column=column)
        return map_type(key, value, column)
    if kinds.is_struct(data_type):
        return struct_type([_normal_field(field, column) for field in data_type], column)
    raise bad_type(f"{data_type} (of Arrow)", column)


_WIDER: dict[pa.DataType, pa.DataType] = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
}


def _normal_scalar(data_type: pa.DataType) -> pa.DataType | None:
    if data_type in _WIDER:
        return _WIDER[data_type]
    if is_text(data_type):
        return pa.string()
    if is_bytes(data_type):
        return pa.binary()
    if kinds.is_timestamp(data_type):
        return TIMESTAMP_NTZ if data_type.tz is None else TIMESTAMP
    if kinds.is_decimal(data_type) and 0 <= data_type.scale <= data_type.precision <= MOST_DIGITS:
        return pa.decimal128(data_type.precision, data_type.scale)
    return None


def _normal_field(field: pa.Field, column: str | None) -> pa.Field:
    return pa.field(field.name, normal_type(field.type, column=column), nullable=field.nullable)


# Rules for types that any way leads to


def map_type(key: pa.DataType, value: pa.DataType, column: str | None) -> pa.DataType:
    """Spark compares the keys of a map with each other, and cannot compare maps."""
    if "MAP<" in sql_type(key):
        raise bad_type(sql_type(pa.map_(key, value)), column, "the key of a MAP has no MAP in it")
    return pa.map_(key, value)


def struct_type(fields: list[pa.Field], column: str | None) -> pa.DataType:
    """Spark ignores the case of field names, so names that differ only in case are one name twice."""
    struct = pa.struct(fields)
    if not fields or not all(field.name for field in fields):
        raise bad_type(str(struct), column, "a STRUCT has at least one field, and each has a name")
    if len({field.name.lower() for field in fields}) < len(fields):
        raise bad_type(sql_type(struct), column, "the fields of a STRUCT differ in more than upper and lower case")
    return struct


def bad_type(text: str, column: str | None, hint: str | None = None) -> SchemaError:
    """The error of a type that no column can have."""
    subject = "a column" if column is None else f'column "{column}"'
    return SchemaError(
        f"{subject} cannot have type {text}", hint=hint or f"the types are {KNOWN_TYPES}", column=column, type=text
    )


# Families


def is_text(data_type: pa.DataType) -> bool:
    """Any of Arrow's layouts of strings."""
    return bool(kinds.is_string(data_type) or kinds.is_large_string(data_type) or kinds.is_string_view(data_type))


def is_bytes(data_type: pa.DataType) -> bool:
    """Any of Arrow's layouts of byte strings."""
    return bool(
        kinds.is_binary(data_type)
        or kinds.is_large_binary(data_type)
        or kinds.is_binary_view(data_type)
        or kinds.is_fixed_size_binary(data_type)
    )


def is_list_like(data_type: pa.DataType) -> bool:
    """Any of Arrow's layouts of lists. A map is none."""
    return bool(
        kinds.is_list(data_type)
        or kinds.is_large_list(data_type)
        or kinds.is_fixed_size_list(data_type)
        or kinds.is_list_view(data_type)
        or kinds.is_large_list_view(data_type)
    )


def is_nested(data_type: pa.DataType) -> bool:
    """Whether values have parts: lists, maps and structs."""
    return is_list_like(data_type) or bool(kinds.is_map(data_type) or kinds.is_struct(data_type))


def orderable_key(data_type: pa.DataType) -> bool:
    """Whether a key may have this (canonical) type.

    FLOAT and DOUBLE may not: a key must equal itself in every engine, and NaN, -0.0 and rounding break that. Nested
    values have no order that Spark, Arrow and Python agree on.
    """
    return not (kinds.is_floating(data_type) or is_nested(data_type))
