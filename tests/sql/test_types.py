"""SQL type text and Arrow types are two spellings of one thing."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewkeeper.errors import SchemaError
from viewkeeper.sql.type_text import arrow_type
from viewkeeper.sql.types import normal_type, orderable_key, sql_type

UTC = pa.timestamp("us", tz="UTC")

SCALARS = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DECIMAL(10,0)": pa.decimal128(10, 0),
    "DECIMAL(38,38)": pa.decimal128(38, 38),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": UTC,
    "TIMESTAMP_NTZ": pa.timestamp("us"),
}

OTHER_SPELLINGS = {
    "BYTE": pa.int8(),
    "SHORT": pa.int16(),
    "INTEGER": pa.int32(),
    "LONG": pa.int64(),
    "REAL": pa.float32(),
    "DEC": pa.decimal128(10, 0),
    "NUMERIC(7)": pa.decimal128(7, 0),
    "decimal( 12 , 3 )": pa.decimal128(12, 3),
    "TIMESTAMP_LTZ": UTC,
    "struct<a:int,b:array<map<string,double>>>": pa.struct(
        [("a", pa.int32()), ("b", pa.list_(pa.map_(pa.string(), pa.float64())))]
    ),
    "STRUCT<`a b` INT NOT NULL>": pa.struct([pa.field("a b", pa.int32(), nullable=False)]),
}

REFUSED = [
    "VARCHAR(3)",
    "CHAR(3)",
    "DECIMAL(39,0)",
    "DECIMAL(0,0)",
    "DECIMAL(3,4)",
    "DECIMAL(a)",
    "DECIMAL(1,2,3)",
    "DECIMAL('3')",
    "INT(3)",
    "STRING(3)",
    "TIMESTAMP(3)",
    "TIMESTAMP WITHOUT TIME ZONE",
    "TIME",
    "INTERVAL",
    "INTERVAL DAY",
    "VARIANT",
    "VOID",
    "ARRAY",
    "MAP<INT>",
    "MAP<ARRAY<MAP<INT, INT>>, INT>",
    "STRUCT",
    "STRUCT<>",
    "STRUCT<INT>",
    "STRUCT<a: INT, A: INT>",
    "STRUCT<a: INT COMMENT 'x'>",
    "ARRAY<INT NOT NULL>",
    "INT UNSIGNED",
    "FOO",
    "",
    "INT, d INT",
    "INT NOT NULL",
    "INT) USING delta --",
    "STRING COLLATE UTF8_LCASE",
]


@pytest.mark.parametrize(("text", "expected"), SCALARS.items())
def test_scalar_types_both_ways(text: str, expected: pa.DataType) -> None:
    assert arrow_type(text) == expected
    assert arrow_type(text.lower()) == expected
    assert sql_type(expected) == text


@pytest.mark.parametrize(("text", "expected"), OTHER_SPELLINGS.items())
def test_other_spellings(text: str, expected: pa.DataType) -> None:
    assert arrow_type(text) == expected


@pytest.mark.parametrize("text", REFUSED)
def test_refused_types_name_the_column(text: str) -> None:
    with pytest.raises(SchemaError, match='column "c" cannot have type') as caught:
        arrow_type(text, column="c")
    assert caught.value.hint


def test_character_types_point_to_string() -> None:
    with pytest.raises(SchemaError, match="use STRING"):
        arrow_type("VARCHAR(20)")


def decimals() -> st.SearchStrategy[pa.DataType]:
    digits = st.integers(1, 38).flatmap(lambda p: st.tuples(st.just(p), st.integers(0, p)))
    return digits.map(lambda sizes: pa.decimal128(*sizes))


FIELD_NAMES = st.one_of(
    st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True),
    st.sampled_from(["select", "timestamp", "end", "array", "not", "primary", "a`b", "a b", "é", "1"]),
)


def structs(children: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    fields = st.lists(
        st.tuples(FIELD_NAMES, children, st.booleans()), min_size=1, max_size=3, unique_by=lambda part: part[0].lower()
    )
    return fields.map(lambda parts: pa.struct([pa.field(*part) for part in parts]))


ALL_TYPES = st.recursive(
    st.one_of(st.sampled_from(list(SCALARS.values())), decimals()),
    lambda children: st.one_of(
        children.map(pa.list_),
        st.tuples(children.filter(lambda key: "map<" not in str(key)), children).map(lambda pair: pa.map_(*pair)),
        structs(children),
    ),
    max_leaves=6,
)


@given(ALL_TYPES)
def test_text_round_trip(data_type: pa.DataType) -> None:
    assert arrow_type(sql_type(data_type)) == data_type
    assert normal_type(data_type) == data_type


NORMALISED = [
    (pa.large_string(), pa.string()),
    (pa.string_view(), pa.string()),
    (pa.large_binary(), pa.binary()),
    (pa.binary_view(), pa.binary()),
    (pa.binary(4), pa.binary()),
    (pa.timestamp("ns", tz="Europe/Berlin"), UTC),
    (pa.timestamp("s"), pa.timestamp("us")),
    (pa.date64(), pa.date32()),
    (pa.large_list(pa.large_string()), pa.list_(pa.string())),
    (pa.list_(pa.field("element", pa.int8(), nullable=False)), pa.list_(pa.int8())),
    (pa.list_(pa.uint8(), 3), pa.list_(pa.int16())),
    (pa.map_(pa.large_string(), pa.uint16()), pa.map_(pa.string(), pa.int32())),
    (pa.struct([pa.field("a", pa.date64(), nullable=False)]), pa.struct([pa.field("a", pa.date32(), nullable=False)])),
    (pa.dictionary(pa.int8(), pa.large_string()), pa.string()),
    (pa.run_end_encoded(pa.int32(), pa.int64()), pa.int64()),
    (pa.decimal32(5, 2), pa.decimal128(5, 2)),
    (pa.decimal256(38, 2), pa.decimal128(38, 2)),
    (pa.uint32(), pa.int64()),
    (pa.uint64(), pa.decimal128(20, 0)),
    (pa.float16(), pa.float32()),
]


@pytest.mark.parametrize(("given_type", "expected"), NORMALISED)
def test_normal_type(given_type: pa.DataType, expected: pa.DataType) -> None:
    assert normal_type(given_type) == expected


@pytest.mark.parametrize(
    "data_type",
    [
        pa.decimal256(39, 2),
        pa.decimal128(5, -2),
        pa.time64("us"),
        pa.duration("s"),
        pa.null(),
        pa.uuid(),
        pa.struct([]),
        pa.list_(pa.null()),
        pa.struct([("a", pa.int8()), ("A", pa.int8())]),
    ],
)
def test_normal_type_refuses_by_name(data_type: pa.DataType) -> None:
    with pytest.raises(SchemaError, match='column "c" cannot have type') as caught:
        normal_type(data_type, column="c")
    assert caught.value.fields["column"] == "c"


def test_sql_type_knows_canonical_types_only() -> None:
    with pytest.raises(SchemaError, match="large_string"):
        sql_type(pa.large_string())


def test_keys_are_scalars_without_floats() -> None:
    refused = {"FLOAT", "DOUBLE"}
    assert all(orderable_key(data_type) == (text not in refused) for text, data_type in SCALARS.items())
    assert not any(
        orderable_key(nested)
        for nested in (pa.list_(pa.int8()), pa.map_(pa.int8(), pa.int8()), pa.struct([("a", pa.int8())]))
    )
