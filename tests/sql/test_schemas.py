"""A schema comes as DDL text, as PySpark's types or as Arrow's, and means the same."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

from viewkeeper.errors import InvalidName, SchemaError
from viewkeeper.sql.schemas import table_schema

EVENTS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("product", pa.string(), nullable=False),
        pa.field("cost", pa.decimal128(10, 2)),
    ]
)
DDL = "id BIGINT, product STRING NOT NULL, cost DECIMAL(10,2)"


@pytest.mark.parametrize(
    ("text", "primary_key"),
    [
        (DDL, "id"),
        (DDL, ["ID"]),
        ("id BIGINT PRIMARY KEY, product STRING NOT NULL, cost DECIMAL(10,2) NULL", None),
        ("id BIGINT NOT NULL PRIMARY KEY, product STRING NOT NULL, cost DECIMAL(10,2)", "id"),
        (DDL + ", PRIMARY KEY (Id)", None),
        (DDL + ", CONSTRAINT pk PRIMARY KEY (id)", ("id",)),
        ("`id` BIGINT, -- a comment\n product STRING NOT NULL, cost DECIMAL(10,2)", "id"),
    ],
)
def test_ddl(text: str, primary_key: str | list[str] | None) -> None:
    assert table_schema(text, primary_key) == (EVENTS, ("id",))


def test_composite_key_is_in_the_order_given() -> None:
    schema, key = table_schema("a INT, b STRING, c DATE", ["c", "a"])
    assert key == ("c", "a")
    assert [field.nullable for field in schema] == [False, True, False]


def test_arrow_schema_is_normalised_and_loses_metadata() -> None:
    given = pa.schema(
        [
            pa.field("id", pa.uint32(), metadata={"a": "b"}),
            pa.field("product", pa.dictionary(pa.int8(), pa.large_string()), nullable=False),
            pa.field("cost", pa.decimal64(10, 2)),
        ],
        metadata={"c": "d"},
    )
    schema, key = table_schema(given, "id")
    assert schema.equals(EVENTS, check_metadata=True)
    assert key == ("id",)


def test_spark_struct_type() -> None:
    types = pytest.importorskip("pyspark.sql.types")
    inner = types.StructType([types.StructField("a b", types.IntegerType(), False)])
    struct = (
        types.StructType()
        .add("id", types.LongType())
        .add("price", types.DecimalType(38, 18), False)
        .add("at", types.TimestampType())
        .add("local", types.TimestampNTZType())
        .add("day", types.DateType())
        .add("flags", types.ArrayType(types.ByteType()))
        .add("notes", types.MapType(types.StringType(), inner))
        .add("raw", types.BinaryType())
        .add("f", types.FloatType())
    )
    schema, key = table_schema(struct, "id")
    assert key == ("id",)
    assert schema == pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("price", pa.decimal128(38, 18), nullable=False),
            pa.field("at", pa.timestamp("us", tz="UTC")),
            pa.field("local", pa.timestamp("us")),
            pa.field("day", pa.date32()),
            pa.field("flags", pa.list_(pa.int8())),
            pa.field("notes", pa.map_(pa.string(), pa.struct([pa.field("a b", pa.int32(), nullable=False)]))),
            pa.field("raw", pa.binary()),
            pa.field("f", pa.float32()),
        ]
    )


def test_spark_types_without_a_place_are_refused() -> None:
    types = pytest.importorskip("pyspark.sql.types")
    for data_type in (
        types.VarcharType(3),
        types.NullType(),
        types.DayTimeIntervalType(),
        types.StringType("UTF8_LCASE"),
    ):
        with pytest.raises(SchemaError, match='column "c"'):
            table_schema(types.StructType().add("id", types.LongType()).add("c", data_type), "id")
    with pytest.raises(SchemaError, match="not a struct"):
        table_schema(types.LongType(), "id")


def test_pyspark_is_not_imported() -> None:
    code = "import sys, viewkeeper.sql.schemas, viewkeeper.rows; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("schema", "primary_key", "fact"),
    [
        ("", "id", "at least one column"),
        (pa.schema([]), "id", "at least one column"),
        (DDL, None, "no primary key"),
        (DDL, [], "no primary key"),
        (pa.schema([("id", pa.int64())]), None, "no primary key"),
        (DDL, "nope", "names column 'nope', which the table does not have"),
        (DDL, ["id", "ID"], "names a column twice"),
        (DDL + ", PRIMARY KEY (id)", "product", "more than one primary key"),
        ("id INT PRIMARY KEY, b INT PRIMARY KEY", None, "more than one primary key"),
        ("id INT, ID INT", "id", '"ID" is declared twice'),
        ("id DOUBLE", "id", 'column "id" of type DOUBLE cannot be in the primary key'),
        ("id FLOAT", "id", "FLOAT"),
        ("id ARRAY<INT>", "id", "ARRAY<INT>"),
        ("id VARCHAR(3)", "id", 'column "id" cannot have type VARCHAR'),
        ("id", "id", 'column "id" has no type'),
        ("id INT NULL NOT NULL", "id", "both NULL and NOT NULL"),
        ("id INT DEFAULT 3", "id", "DEFAULT 3 is not supported"),
        ("id INT COMMENT 'x'", "id", "COMMENT 'x' is not supported"),
        ("id INT, CHECK (id > 3)", "id", "CHECK"),
        ("id INT) USING delta --", "id", "syntax error"),
        ("id INT,\nproduct FOO", "id", 'syntax error at line 2, column 9, near "FOO"'),
        ("id TIMESTAMP WITHOUT TIME ZONE", "id", "WITHOUT TIME ZONE at line 1"),
        (pa.schema([("id", pa.int64()), ("t", pa.time32("s"))]), "id", 'column "t" cannot have type time32'),
        (42, "id", "cannot be a int"),
    ],
)
def test_what_no_table_can_have(schema: object, primary_key: str | list[str] | None, fact: str) -> None:
    with pytest.raises(SchemaError) as caught:
        table_schema(schema, primary_key)
    assert fact in caught.value.message
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("name", ["_vk_position", "a b", "ü", "1a"])
def test_column_names_follow_the_rules_of_names(name: str) -> None:
    with pytest.raises(InvalidName, match="column name"):
        table_schema(pa.schema([(name, pa.int64())]), name)
