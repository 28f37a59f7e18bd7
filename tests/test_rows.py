"""What goes in comes out, value by value, or is an error that names the row, the column and the value."""

from __future__ import annotations

import enum
import math
import struct
import time
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewkeeper.errors import RowError
from viewkeeper.rows import key_values, keys_table, partial_row_table, prefix_values, rows_table, update_tables
from viewkeeper.sql.schemas import table_schema
from viewkeeper.sql.type_text import arrow_type
from viewkeeper.store.contract import TableSpec


def spec_of(ddl: str, *key: str, name: str = "events") -> TableSpec:
    schema, columns = table_schema(ddl, key or None)
    return TableSpec(name, schema, columns, columns[:1], 2)


EVENTS = spec_of("id BIGINT, product STRING NOT NULL, cost DECIMAL(10,2)", "id")
PAIRS = spec_of("v INT, b STRING, a INT", "a", "b", name="pairs")
ROW = {"id": 1, "product": "book", "cost": "9.90"}
OUT = {"id": 1, "product": "book", "cost": Decimal("9.90")}


def column_spec(type_text: str) -> TableSpec:
    return spec_of(f"id INT, v {type_text}", "id", name="t")


def labels(cases: Sequence[tuple[Any, ...]]) -> list[str]:
    """A case is named for its type and its number: the values themselves may be 5,000 digits long."""
    return [f"{case[0]}-{number}" for number, case in enumerate(cases)]


def one(type_text: str, value: Any) -> Any:
    """The value as it comes out of a column of that type."""
    table = rows_table(column_spec(type_text), {"id": 1, "v": value})
    return table.column("v").to_pylist()[0]


def same(left: Any, right: Any) -> bool:
    """Equal to the bit: NaN is itself, and -0.0 is not 0.0."""
    if isinstance(left, float) and isinstance(right, float):
        return struct.pack("d", left) == struct.pack("d", right) or (math.isnan(left) and math.isnan(right))
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    return bool(left == right)


# Put: forms


def test_put_forms_agree() -> None:
    second = {"id": 2, "product": "pen", "cost": None}
    rows = [OUT, {**second}]
    table = pa.Table.from_pylist(rows, EVENTS.schema)
    forms: list[Any] = [
        [ROW, second],
        (ROW, second),
        iter([ROW, second]),
        table,
        table.select(["cost", "id", "product"]),
        table.to_batches()[0],
        pa.RecordBatchReader.from_batches(table.schema, table.to_batches()),
        pd.DataFrame(rows),
    ]
    for form in forms:
        got = rows_table(EVENTS, form)
        assert got.schema.equals(EVENTS.schema, check_metadata=True)
        assert got.to_pylist() == rows


def test_put_one_dict() -> None:
    assert rows_table(EVENTS, ROW).to_pylist() == [OUT]


@pytest.mark.parametrize(
    "nothing", [[], EVENTS.schema.empty_table(), pd.DataFrame({"id": [], "product": [], "cost": []}, dtype=object)]
)
def test_nothing_is_no_rows(nothing: Any) -> None:
    assert rows_table(EVENTS, nothing).equals(EVENTS.schema.empty_table())


@pytest.mark.parametrize("given_rows", ["text", 3, None, [1], [ROW, "x"], [[ROW]]])
def test_put_of_no_rows_at_all(given_rows: Any) -> None:
    with pytest.raises(RowError, match="cannot use"):
        rows_table(EVENTS, given_rows)


# Put: errors


def test_the_error_has_its_text_and_fields() -> None:
    rows: list[dict[str, Any]] = [{**ROW, "id": number} for number in range(3)]
    with pytest.raises(RowError) as caught:
        rows_table(EVENTS, [*rows, {"id": 3, "product": "pen", "cost": "abc"}])
    assert caught.value.message == 'table "events", row 3: column "cost" (DECIMAL(10,2)) cannot hold \'abc\''
    assert caught.value.hint
    assert caught.value.fields == {"table": "events", "column": "cost", "row": 3, "value": "abc"}


@pytest.mark.parametrize(
    ("row", "fact", "hint"),
    [
        ({**ROW, "color": "red"}, 'column "color" does not exist', "the columns are id, product, cost"),
        ({**ROW, "Cost": 1}, 'column "Cost" does not exist', 'did you mean "cost"?'),
        ({"id": 1, "product": "x", "costs": 1}, 'column "costs" does not exist', 'did you mean "cost"?'),
        (dict([*ROW.items(), (7, 1)]), "column 7 does not exist", "columns"),
        ({"id": 1, "product": "x"}, 'column "cost" is missing', "use update"),
        ({"product": "x", "cost": 1}, 'column "id" is missing', "primary key (id)"),
        ({**ROW, "id": None}, 'column "id" (BIGINT) cannot be NULL', "primary key"),
        ({**ROW, "product": None}, 'column "product" (STRING) cannot be NULL', "NOT NULL"),
    ],
)
def test_columns_that_do_not_match(row: dict[Any, Any], fact: str, hint: str) -> None:
    with pytest.raises(RowError) as caught:
        rows_table(EVENTS, [row])
    assert caught.value.message.startswith(f'table "events", row 0: {fact}')
    assert hint in str(caught.value.hint)


REFUSED: list[tuple[str, Any]] = [
    ("BOOLEAN", 1),
    ("BOOLEAN", "true"),
    ("INT", True),
    ("INT", 1.0),
    ("INT", "1"),
    ("INT", Decimal(1)),
    ("INT", np.bool_(True)),
    ("TINYINT", 128),
    ("TINYINT", -129),
    ("SMALLINT", 2**15),
    ("INT", 2**31),
    ("BIGINT", 2**63),
    ("BIGINT", 10**5000),
    ("BIGINT", np.uint64(2**63)),
    ("FLOAT", 1e39),
    ("FLOAT", 2**24 + 1),
    ("FLOAT", True),
    ("DOUBLE", "1.5"),
    ("DOUBLE", Decimal("1.5")),
    ("DOUBLE", 2**53 + 1),
    ("DOUBLE", 10**400),
    ("DECIMAL(4,2)", 1.5),
    ("DECIMAL(4,2)", np.float64(1.5)),
    ("DECIMAL(4,2)", True),
    ("DECIMAL(4,2)", "1.234"),
    ("DECIMAL(4,2)", Decimal("0.001")),
    ("DECIMAL(4,2)", 100),
    ("DECIMAL(4,2)", "1e9999999"),
    ("DECIMAL(4,2)", "1_0"),
    ("DECIMAL(4,2)", " 1"),
    ("DECIMAL(4,2)", "\u0661"),
    ("DECIMAL(4,2)", "NaN"),
    ("DECIMAL(4,2)", Decimal("NaN")),
    ("DECIMAL(4,2)", Decimal("Infinity")),
    ("DECIMAL(38,0)", 10**38),
    ("STRING", 1),
    ("STRING", b"x"),
    ("STRING", "\ud800"),
    ("BINARY", "x"),
    ("BINARY", [1]),
    ("DATE", datetime(2026, 1, 1)),
    ("DATE", "2026-13-01"),
    ("DATE", 0),
    ("TIMESTAMP", datetime(2026, 1, 1)),
    ("TIMESTAMP", "2026-01-01T00:00:00"),
    ("TIMESTAMP", datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))),
    ("TIMESTAMP", "2026-01-01T00:00:00.1234567Z"),
    ("TIMESTAMP", date(2026, 1, 1)),
    ("TIMESTAMP", 0),
    ("TIMESTAMP", pd.Timestamp("2026-01-01T00:00:00.123456789Z")),
    ("TIMESTAMP", pd.NaT),
    ("TIMESTAMP_NTZ", datetime(2026, 1, 1, tzinfo=UTC)),
    ("TIMESTAMP_NTZ", "2026-01-01T00:00:00Z"),
    ("TIMESTAMP_NTZ", np.datetime64("NaT")),
    ("TIMESTAMP_NTZ", np.datetime64(1, "ns")),
    ("ARRAY<INT>", [1, "a"]),
    ("ARRAY<INT>", {1: 2}),
    ("ARRAY<INT>", "ab"),
    ("MAP<STRING, INT>", {None: 1}),
    ("MAP<STRING, INT>", {"a": "b"}),
    ("MAP<STRING, INT>", [("a", 1), ("a", 2)]),
    ("MAP<STRING, INT>", [1]),
    ("MAP<DOUBLE, INT>", [(0.0, 1), (-0.0, 2)]),
    ("MAP<DOUBLE, INT>", [(math.nan, 1), (float("nan"), 2)]),
    ("STRUCT<a: INT, b: STRING>", {"a": 1}),
    ("STRUCT<a: INT, b: STRING>", {"a": 1, "b": "x", "c": 2}),
    ("STRUCT<a: INT NOT NULL>", {"a": None}),
    ("STRUCT<a: INT>", (1,)),
]


@pytest.mark.parametrize(("type_text", "value"), REFUSED, ids=labels(REFUSED))
def test_refused_values(type_text: str, value: Any) -> None:
    with pytest.raises(RowError, match="cannot hold") as caught:
        one(type_text, value)
    assert caught.value.fields["value"] is value
    assert len(caught.value.message) < 300


class Color(enum.IntEnum):
    RED = 7


EAST = timezone(timedelta(hours=2))

ACCEPTED: list[tuple[str, Any, Any]] = [
    ("INT", np.int8(5), 5),
    ("INT", Color.RED, 7),
    ("BOOLEAN", np.bool_(True), True),
    ("BIGINT", np.uint64(7), 7),
    ("DOUBLE", 2**60, float(2**60)),
    ("DOUBLE", np.float32(1.5), 1.5),
    ("FLOAT", 0.1, struct.unpack("<f", struct.pack("<f", 0.1))[0]),
    ("FLOAT", 2**24, float(2**24)),
    ("DECIMAL(4,2)", 7, Decimal("7.00")),
    ("DECIMAL(4,2)", "-1.5", Decimal("-1.50")),
    ("DECIMAL(4,2)", "1.50000", Decimal("1.50")),
    ("DECIMAL(4,2)", "12e-1", Decimal("1.20")),
    ("DECIMAL(4,2)", Decimal("-0.000"), Decimal("0.00")),
    ("DECIMAL(38,0)", "9" * 38, Decimal("9" * 38)),
    ("DECIMAL(38,38)", "-0." + "9" * 38, Decimal("-0." + "9" * 38)),
    ("STRING", np.str_("x"), "x"),
    ("STRING", "a\x00b", "a\x00b"),
    ("BINARY", bytearray(b"x"), b"x"),
    ("BINARY", memoryview(b"x\x00"), b"x\x00"),
    ("DATE", "2026-01-31", date(2026, 1, 31)),
    ("DATE", np.datetime64("2026-01-31"), date(2026, 1, 31)),
    ("TIMESTAMP", datetime(2026, 1, 1, 2, tzinfo=EAST), datetime(2026, 1, 1, tzinfo=UTC)),
    ("TIMESTAMP", "2026-01-01T02:00:00.123456+02:00", datetime(2026, 1, 1, 0, 0, 0, 123456, tzinfo=UTC)),
    ("TIMESTAMP", "2026-01-01T00:00:00.123456000Z", datetime(2026, 1, 1, 0, 0, 0, 123456, tzinfo=UTC)),
    ("TIMESTAMP", pd.Timestamp("2026-01-01", tz="Europe/Berlin"), datetime(2025, 12, 31, 23, tzinfo=UTC)),
    ("TIMESTAMP_NTZ", "2026-01-01 12:00", datetime(2026, 1, 1, 12)),
    ("TIMESTAMP_NTZ", np.datetime64("2026-01-01T12:00:00.000001"), datetime(2026, 1, 1, 12, 0, 0, 1)),
    ("ARRAY<DECIMAL(4,2)>", ("1.5", None), [Decimal("1.50"), None]),
    ("ARRAY<INT>", np.array([1, 2]), [1, 2]),
    ("MAP<STRING, INT>", {"a": 1, "b": None}, [("a", 1), ("b", None)]),
    ("MAP<STRING, INT>", [["a", 1]], [("a", 1)]),
    ("STRUCT<a: INT, b: ARRAY<DATE>>", {"b": ["2026-01-31"], "a": None}, {"a": None, "b": [date(2026, 1, 31)]}),
]


@pytest.mark.parametrize(("type_text", "value", "expected"), ACCEPTED, ids=labels(ACCEPTED))
def test_accepted_values(type_text: str, value: Any, expected: Any) -> None:
    assert same(one(type_text, value), expected)


def test_nested_errors_say_where() -> None:
    with pytest.raises(RowError, match=r"cannot hold .*: field tags: element 1 is 'x'"):
        one("STRUCT<tags: ARRAY<INT>>", {"tags": [1, "x"]})


def test_duplicate_keys_name_both_rows() -> None:
    with pytest.raises(RowError) as caught:
        rows_table(EVENTS, [ROW, {**ROW, "id": 2}, ROW])
    assert caught.value.message == 'table "events", row 2: key (id = 1) is in row 0 too'
    assert (caught.value.fields["first_row"], caught.value.fields["row"]) == (0, 2)


@pytest.mark.parametrize(
    ("type_text", "left", "right"),
    [
        ("DECIMAL(6,2)", "1.5", Decimal("1.500")),
        ("DECIMAL(6,2)", 0, Decimal("-0")),
        ("TIMESTAMP", datetime(2026, 1, 1, 2, tzinfo=EAST), "2026-01-01T00:00:00Z"),
        ("BINARY", b"x", bytearray(b"x")),
        ("DATE", "2026-01-31", date(2026, 1, 31)),
        ("BIGINT", 1, np.int8(1)),
    ],
)
def test_duplicates_are_by_value(type_text: str, left: Any, right: Any) -> None:
    spec = spec_of(f"k {type_text}", "k")
    with pytest.raises(RowError, match="is in row 0 too"):
        rows_table(spec, [{"k": left}, {"k": right}])
    with pytest.raises(RowError, match="is in row 0 too"):
        keys_table(spec, [left, right])
    assert key_values(spec, left) == key_values(spec, right)


# Put: values over all types

AWARE = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.sampled_from([UTC, EAST]))
TEXTS = st.one_of(st.sampled_from(["", "\x00", "a\x00b", "\U0010ffff", "\ufeff"]), st.text(max_size=6))


def integers(bits: int) -> st.SearchStrategy[int]:
    least, greatest = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return st.one_of(st.sampled_from([least, greatest, 0, -1]), st.integers(least, greatest))


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    greatest = 10**precision - 1
    units = st.one_of(st.sampled_from([-greatest, greatest, 0, 1]), st.integers(-greatest, greatest))
    return units.map(lambda unit: Decimal(f"{unit}e-{scale}"))


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "TINYINT": integers(8),
    "SMALLINT": integers(16),
    "INT": integers(32),
    "BIGINT": integers(64),
    "FLOAT": st.floats(width=32),
    "DOUBLE": st.one_of(st.sampled_from([-0.0, math.inf, -math.inf, math.nan, 5e-324]), st.floats()),
    "DECIMAL(10,2)": decimals(10, 2),
    "DECIMAL(38,0)": decimals(38, 0),
    "DECIMAL(38,38)": decimals(38, 38),
    "STRING": TEXTS,
    "BINARY": st.binary(max_size=6),
    "DATE": st.one_of(st.sampled_from([date.min, date.max]), st.dates()),
    "TIMESTAMP": AWARE,
    "TIMESTAMP_NTZ": st.one_of(st.sampled_from([datetime.min, datetime.max]), st.datetimes()),
}
SCALARS = dict(VALUES)
KEYS = {text: values for text, values in SCALARS.items() if text not in ("FLOAT", "DOUBLE")}
VALUES |= {f"ARRAY<{text}>": st.lists(st.none() | values, max_size=3) for text, values in SCALARS.items()}
VALUES |= {
    f"MAP<{text}, {text}>": st.dictionaries(values, st.none() | values, max_size=3).map(lambda made: list(made.items()))
    for text, values in KEYS.items()
}
VALUES |= {
    f"STRUCT<x: {text}, y: ARRAY<STRUCT<z: {text}>>>": st.fixed_dictionaries(
        {"x": st.none() | values, "y": st.lists(st.fixed_dictionaries({"z": values}), max_size=2)}
    )
    for text, values in SCALARS.items()
}


@given(st.data())
def test_python_values_come_out_as_they_went_in(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(sorted(VALUES)))
    values = data.draw(st.lists(st.none() | VALUES[text], max_size=4))
    spec = column_spec(text)
    table = rows_table(spec, [{"id": number, "v": value} for number, value in enumerate(values)])
    assert table.schema == spec.schema
    assert same(table.column("v").to_pylist(), values)
    assert rows_table(spec, table).equals(table) or "FLOAT" in text or "DOUBLE" in text
    assert same(rows_table(spec, table).column("v").to_pylist(), values)


@given(st.data())
def test_keys_come_out_as_they_went_in(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(sorted(KEYS)))
    keys = data.draw(st.lists(KEYS[text], max_size=5))
    spec = spec_of(f"k {text}", "k")
    if len(set(keys)) < len(keys):
        with pytest.raises(RowError, match=r"is in row \d too"):
            keys_table(spec, keys)
        table = pa.table({"k": pa.array(keys, arrow_type(text))})
        with pytest.raises(RowError, match=r"is in row \d too"):
            keys_table(spec, table)
        return
    assert keys_table(spec, keys).column("k").to_pylist() == keys
    assert [key_values(spec, key) for key in keys] == [(key,) for key in keys]


# Put: Arrow


def arrow_column(type_text: str, values: Any) -> Any:
    table = pa.table({"id": pa.array(range(len(values)), pa.int32()), "v": values})
    return rows_table(column_spec(type_text), table).column("v")


CASTS: list[tuple[str, Any]] = [
    ("TINYINT", pa.array([127, None], pa.int64())),
    ("BIGINT", pa.array([255], pa.uint8())),
    ("BIGINT", pa.array([2**63 - 1], pa.uint64())),
    ("DECIMAL(4,2)", pa.array([99, None], pa.int64())),
    ("DECIMAL(20,0)", pa.array([2**64 - 1], pa.uint64())),
    ("DECIMAL(4,1)", pa.array([Decimal("1.50")], pa.decimal128(10, 2))),
    ("DECIMAL(4,3)", pa.array([Decimal("1.50")], pa.decimal256(50, 2))),
    ("DECIMAL(4,3)", pa.array([Decimal("1.50")], pa.decimal32(5, 2))),
    ("DOUBLE", pa.array([1.5, math.inf, None], pa.float32())),
    ("DOUBLE", pa.array([2**60, -(2**63), None], pa.int64())),
    ("DOUBLE", pa.array([2**63], pa.uint64())),
    ("FLOAT", pa.array([1.5, math.inf, None], pa.float64())),
    ("FLOAT", pa.array([2**24], pa.int32())),
    ("STRING", pa.array(["a", None], pa.large_string())),
    ("STRING", pa.array(["a", None], pa.string_view())),
    ("STRING", pa.array(["a", None, "a"]).dictionary_encode()),
    ("BINARY", pa.array([b"a"], pa.large_binary())),
    ("BINARY", pa.array([b"ab"], pa.binary(2))),
    ("DATE", pa.array([date(2026, 1, 31)], pa.date64())),
    ("TIMESTAMP", pa.array([datetime(2026, 1, 1, tzinfo=UTC)], pa.timestamp("ns", "UTC"))),
    ("TIMESTAMP", pa.array([datetime(2026, 1, 1, tzinfo=UTC)], pa.timestamp("s", "Europe/Berlin"))),
    ("TIMESTAMP_NTZ", pa.array([datetime(2026, 1, 1)], pa.timestamp("ms"))),
    ("INT", pa.nulls(2)),
    ("MAP<STRING, INT>", pa.nulls(2)),
    ("INT", pa.RunEndEncodedArray.from_arrays(pa.array([1, 3], pa.int32()), pa.array([7, 8], pa.int64()))),
    ("ARRAY<INT>", pa.array([[1, None], None], pa.large_list(pa.int64()))),
    ("ARRAY<DOUBLE>", pa.array([[1.5]], pa.list_(pa.field("e", pa.float32(), nullable=False)))),
    ("STRUCT<a: INT, b: STRING>", pa.array([{"b": "x", "a": 1}], pa.struct([("b", pa.string()), ("a", pa.int8())]))),
    ("MAP<STRING, INT>", pa.array([[("a", 1)]], pa.map_(pa.large_string(), pa.int64()))),
]


@pytest.mark.parametrize(("type_text", "values"), CASTS, ids=labels(CASTS))
def test_arrow_casts_keep_values(type_text: str, values: Any) -> None:
    got = arrow_column(type_text, values)
    assert got.type == arrow_type(type_text)
    assert got.to_pylist() == values.to_pylist()


def test_arrow_float_rounds_to_single_precision() -> None:
    assert arrow_column("FLOAT", pa.array([0.1])).to_pylist() == [struct.unpack("<f", struct.pack("<f", 0.1))[0]]
    assert math.isnan(arrow_column("FLOAT", pa.array([math.nan]))[0].as_py())


def bad_text() -> pa.Array:
    return pa.Array.from_buffers(pa.string(), 2, [None, *pa.array([b"ok", b"\xff"]).buffers()[1:]])


BAD_ARROW: list[tuple[str, Any, int]] = [
    ("TINYINT", pa.array([1, None, 128, 999], pa.int64()), 2),
    ("BIGINT", pa.array([1, 2**63], pa.uint64()), 1),
    ("INT", pa.array([None, 1.0]), 1),
    ("INT", pa.array([None, "1"]), 1),
    ("INT", pa.array([True]), 0),
    ("INT", pa.array([Decimal(1)]), 0),
    ("DECIMAL(4,2)", pa.array([1, 100], pa.int64()), 1),
    ("DECIMAL(4,2)", pa.array([1.5]), 0),
    ("DECIMAL(4,2)", pa.array(["1.5"]), 0),
    ("DECIMAL(4,1)", pa.array([Decimal("1.50"), Decimal("1.55")]), 1),
    ("DECIMAL(4,2)", pa.array([Decimal("1.5"), Decimal("123.4")]), 1),
    ("DOUBLE", pa.array([2**53, 2**53 + 1]), 1),
    ("DOUBLE", pa.array([2**63 - 1]), 0),
    ("DOUBLE", pa.array([2**64 - 1], pa.uint64()), 0),
    ("FLOAT", pa.array([2**31 - 1], pa.int32()), 0),
    ("FLOAT", pa.array([math.inf, 1.0, 1e39]), 2),
    ("FLOAT", pa.array([2**24, 2**24 + 1]), 1),
    ("STRING", pa.array([b"x"]), 0),
    ("STRING", bad_text(), 1),
    ("BINARY", pa.array(["x"]), 0),
    ("DATE", pa.array([0, 86_400_001], pa.date64()), 1),
    ("DATE", pa.array([0, 3_000_000], pa.date32()), 1),
    ("DATE", pa.array([datetime(2026, 1, 1)]), 0),
    ("TIMESTAMP", pa.array([datetime(2026, 1, 1)]), 0),
    ("TIMESTAMP_NTZ", pa.array([datetime(2026, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC")), 0),
    ("TIMESTAMP_NTZ", pa.array([0, 1], pa.timestamp("ns")), 1),
    ("TIMESTAMP_NTZ", pa.array([0, 2**62], pa.timestamp("s")), 1),
    ("TIMESTAMP_NTZ", pa.array([0, 2**62], pa.timestamp("us")), 1),
    ("ARRAY<INT>", pa.array([[1], [2**40]]), 1),
    ("ARRAY<INT>", pa.array([["a"]]), 0),
    ("ARRAY<DATE>", pa.array([[0], [3_000_000]], pa.list_(pa.date32())), 1),
    ("ARRAY<STRING>", pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), bad_text()), 1),
    ("STRUCT<a: INT NOT NULL>", pa.array([None, {"a": None}], pa.struct([("a", pa.int32())])), 1),
    ("STRUCT<a: INT>", pa.array([{"b": 1}]), 0),
    ("MAP<STRING, INT>", pa.array([[("a", 1)], [("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int32())), 1),
    ("MAP<STRING, INT>", pa.array([[("a", 2**40)]], pa.map_(pa.string(), pa.int64())), 0),
    ("TIMESTAMP", pa.array([0], pa.time64("us")), 0),
    ("BINARY", pa.array([b"0" * 16], pa.uuid()), 0),
]


@pytest.mark.parametrize(("type_text", "values", "row"), BAD_ARROW, ids=labels(BAD_ARROW))
def test_bad_arrow_values_name_the_first_row(type_text: str, values: Any, row: int) -> None:
    with pytest.raises(RowError, match="cannot hold") as caught:
        arrow_column(type_text, values)
    assert (caught.value.fields["column"], caught.value.fields["row"]) == ("v", row)


def test_a_wrong_type_with_no_values_is_an_error_all_the_same() -> None:
    with pytest.raises(RowError, match=r'column "v" .INT. cannot hold string'):
        arrow_column("INT", pa.array([], pa.string()))


def test_a_wrong_type_gives_the_hint_that_a_dict_would_get() -> None:
    with pytest.raises(RowError, match="TIMESTAMP_NTZ"):
        arrow_column("TIMESTAMP", pa.array([datetime(2026, 1, 1)]))


def test_absent_structs_are_no_null_fields() -> None:
    values = pa.array([None, {"a": 1}], arrow_type("STRUCT<a: INT NOT NULL>"))
    assert arrow_column("STRUCT<a: INT NOT NULL>", values).to_pylist() == [None, {"a": 1}]


def test_arrow_rows_and_chunks_count_from_the_start() -> None:
    chunks = pa.chunked_array([[1, 2], [], [3, 999], [4]], pa.int64())
    with pytest.raises(RowError) as caught:
        arrow_column("TINYINT", chunks)
    assert (caught.value.fields["row"], caught.value.fields["value"]) == (3, 999)


def test_arrow_nulls_and_columns() -> None:
    table = pa.Table.from_pylist([OUT, {**OUT, "id": None}], pa.schema([(f.name, f.type) for f in EVENTS.schema]))
    with pytest.raises(RowError, match=r'row 1: column "id" .BIGINT. cannot be NULL'):
        rows_table(EVENTS, table)
    with pytest.raises(RowError, match='column "cost" is missing'):
        rows_table(EVENTS, table.drop_columns(["cost"]))
    with pytest.raises(RowError, match='column "extra" does not exist'):
        rows_table(EVENTS, table.append_column("extra", pa.nulls(2)))
    with pytest.raises(RowError, match='column "id" is given twice'):
        rows_table(EVENTS, table.append_column("id", pa.nulls(2)))


def test_right_columns_are_not_copied() -> None:
    table = pa.Table.from_pylist([OUT, {**OUT, "id": 2}], EVENTS.schema)
    got = rows_table(EVENTS, table.select(["product", "cost", "id"]))
    for name in EVENTS.schema.names:
        before, after = table.column(name).chunk(0).buffers(), got.column(name).chunk(0).buffers()
        assert [b and b.address for b in before] == [b and b.address for b in after]


@given(st.lists(st.tuples(st.integers(-3, 3), st.sampled_from("abc")), max_size=12), st.integers(0, 12))
def test_arrow_duplicates_are_what_a_loop_finds(keys: list[tuple[int, str]], split: int) -> None:
    seen: dict[tuple[int, str], int] = {}
    expected = next(((seen[k], n) for n, k in enumerate(keys) if seen.setdefault(k, n) != n), None)
    table = pa.Table.from_pylist(
        [{"v": None, "b": b, "a": a} for a, b in keys], pa.schema([(f.name, f.type) for f in PAIRS.schema])
    )
    chunked = pa.concat_tables([table.slice(0, split), table.slice(split)])
    if expected is None:
        assert rows_table(PAIRS, chunked).num_rows == len(keys)
        return
    with pytest.raises(RowError, match="is in row") as caught:
        rows_table(PAIRS, chunked)
    assert (caught.value.fields["first_row"], caught.value.fields["row"]) == expected
    assert caught.value.fields["value"] == keys[expected[0]]


def test_keys_of_any_range_are_told_apart() -> None:
    spec = spec_of("a BIGINT, b BIGINT, c DECIMAL(38,0)", "a", "b", "c")
    ends = [-(2**63), 2**63 - 1, 0]
    rows = [{"a": a, "b": b, "c": Decimal(c)} for a in ends for b in ends for c in (0, 10**37)]
    table = pa.Table.from_pylist(rows, spec.schema)
    assert rows_table(spec, table).num_rows == len(rows)
    with pytest.raises(RowError, match=f"row {len(rows)}: key .* is in row 4 too"):
        rows_table(spec, pa.concat_tables([table, table.slice(4, 1)]))


def test_a_million_rows_are_checked_for_less_than_python_rows_of_them_cost() -> None:
    """Processor time, least of three: a sixth of it, and a busy machine slows both down alike."""
    spec = spec_of("id BIGINT, v DOUBLE", "id")
    keys = np.random.default_rng(1).permutation(1_000_000)
    table = pa.table({"id": keys, "v": np.zeros(len(keys))})
    assert least_seconds(lambda: rows_table(spec, table)) < least_seconds(table.to_pylist)


def least_seconds(act: Callable[[], object]) -> float:
    seconds = []
    for _ in range(3):
        start = time.process_time()
        act()
        seconds.append(time.process_time() - start)
    return min(seconds)


# pandas


def test_pandas_nan_stays_nan_in_a_float_column() -> None:
    frame = pd.DataFrame({"id": [1, 2], "v": [1.5, math.nan]})
    assert same(rows_table(column_spec("DOUBLE"), frame).column("v").to_pylist(), [1.5, math.nan])
    frame["v"] = pd.array([1.5, None], dtype="Float64")
    assert rows_table(column_spec("DOUBLE"), frame).column("v").to_pylist() == [1.5, None]


def test_pandas_integers_that_became_floats() -> None:
    frame = pd.DataFrame({"id": [1, 2], "v": [1, None]})
    with pytest.raises(RowError, match="Int64"):
        rows_table(column_spec("INT"), frame)
    frame["v"] = frame["v"].astype("Int64")
    assert rows_table(column_spec("INT"), frame).column("v").to_pylist() == [1, None]


def test_pandas_dtypes() -> None:
    frame = pd.DataFrame({"id": [1, 2]}, index=[7, 7])
    columns: list[tuple[str, Any, list[Any]]] = [
        ("STRING", pd.Categorical(["x", None]), ["x", None]),
        ("STRING", ["x", math.nan], ["x", None]),
        ("TIMESTAMP_NTZ", pd.to_datetime(["2026-01-01", None]), [datetime(2026, 1, 1), None]),
        ("TIMESTAMP", pd.to_datetime(["2026-01-01", None], utc=True), [datetime(2026, 1, 1, tzinfo=UTC), None]),
        ("DATE", [date(2026, 1, 1), None], [date(2026, 1, 1), None]),
        ("DECIMAL(4,2)", [Decimal("1.5"), None], [Decimal("1.50"), None]),
        ("INT", [None, None], [None, None]),
        ("MAP<STRING, INT>", [{"a": 1}, None], [[("a", 1)], None]),
        ("ARRAY<INT>", [[1, 2], None], [[1, 2], None]),
    ]
    for text, values, expected in columns:
        assert rows_table(column_spec(text), frame.assign(v=values)).column("v").to_pylist() == expected


def test_pandas_columns_that_cannot_be_read() -> None:
    with pytest.raises(RowError, match='column "v" of the pandas table cannot be read'):
        rows_table(column_spec("STRING"), pd.DataFrame({"id": [1, 2], "v": ["x", 1]}))
    with pytest.raises(RowError, match=r"row 1: column .* cannot hold \['x'\]"):
        rows_table(column_spec("ARRAY<INT>"), pd.DataFrame({"id": [1, 2], "v": [[1], ["x"]]}))


# Update


def test_updates_are_grouped_by_their_columns() -> None:
    tables = update_tables(EVENTS, [{"id": 1, "cost": 1}, {"product": "x", "id": 2}, {"cost": None, "id": 3}])
    assert [table.to_pylist() for table in tables] == [
        [{"id": 1, "cost": Decimal("1.00")}, {"id": 3, "cost": None}],
        [{"id": 2, "product": "x"}],
    ]
    assert tables[0].schema == pa.schema([EVENTS.schema.field("id"), EVENTS.schema.field("cost")])


def test_update_forms() -> None:
    assert update_tables(EVENTS, {"id": 1, "cost": 1})[0].num_rows == 1
    assert update_tables(EVENTS, pa.table({"cost": [1], "id": [1]}))[0].column_names == ["id", "cost"]
    assert update_tables(EVENTS, pd.DataFrame({"cost": [1], "id": [1]}))[0].to_pylist() == [
        {"id": 1, "cost": Decimal(1)}
    ]
    assert update_tables(EVENTS, []) == []


@pytest.mark.parametrize(
    ("rows", "fact"),
    [
        ({"cost": 1}, 'column "id" is missing'),
        ({"id": 1}, "cannot use"),
        ({"id": 1, "color": 1}, 'column "color" does not exist'),
        ({"id": 1, "product": None}, "cannot be NULL"),
        ([{"id": 1, "cost": 1}, {"id": 1, "product": "x"}], "is in row 0 too"),
        (pa.table({"id": [1]}), "cannot use"),
        (pa.table({"cost": [1]}), 'column "id" is missing'),
    ],
)
def test_bad_updates(rows: Any, fact: str) -> None:
    with pytest.raises(RowError) as caught:
        update_tables(EVENTS, rows)
    assert fact in caught.value.message


# Keys


def test_key_forms() -> None:
    for key in (1, (1,), {"id": 1}, np.int64(1)):
        assert key_values(EVENTS, key) == (1,)
        assert keys_table(EVENTS, key).to_pylist() == [{"id": 1}]
    forms: list[Any] = [[1, (2,)], {1, 2}, range(1, 3), np.array([1, 2]), pa.array([1, 2])]
    forms += [pa.table({"id": [1, 2]}), pd.DataFrame({"id": [1, 2]}), pd.Series([1, 2]), [{"id": 1}, 2]]
    for keys in forms:
        assert keys_table(EVENTS, keys).to_pylist() == [{"id": 1}, {"id": 2}]


def test_composite_keys_are_in_key_order() -> None:
    assert PAIRS.key == ("a", "b")
    for key in ((1, "x"), {"b": "x", "a": 1}):
        assert key_values(PAIRS, key) == (1, "x")
    table = keys_table(PAIRS, [(1, "x"), {"b": "y", "a": 1}])
    assert table.column_names == ["a", "b"]
    assert table.to_pylist() == [{"a": 1, "b": "x"}, {"a": 1, "b": "y"}]
    assert keys_table(PAIRS, pa.table({"b": ["x"], "a": [1]})).to_pylist() == [{"a": 1, "b": "x"}]


def test_prefixes() -> None:
    assert prefix_values(PAIRS, ()) == ()
    assert prefix_values(PAIRS, 1) == prefix_values(PAIRS, (1,)) == prefix_values(PAIRS, {"a": 1}) == (1,)
    assert prefix_values(PAIRS, (1, "x")) == prefix_values(PAIRS, {"b": "x", "a": 1}) == (1, "x")
    for prefix in ({"b": "x"}, (1, "x", 2), "x", {"v": 1}, None):
        with pytest.raises(RowError, match='table "pairs": '):
            prefix_values(PAIRS, prefix)


@pytest.mark.parametrize("key", [1, (1,), (1, "x", 2), {"a": 1}, {"a": 1, "b": "x", "v": 1}, ("x", 1), (1, None)])
def test_bad_composite_keys(key: Any) -> None:
    with pytest.raises(RowError, match='table "pairs": '):
        key_values(PAIRS, key)
    with pytest.raises(RowError, match='table "pairs", row 0: '):
        keys_table(PAIRS, [key])


@pytest.mark.parametrize("key", ["1", True, None, (1, 2), [1, 1], [[1]], {"id": 1, "cost": 2}, pa.table({"cost": [1]})])
def test_bad_keys(key: Any) -> None:
    with pytest.raises(RowError, match='table "events"'):
        keys_table(EVENTS, key)


# Put if


def test_partial_rows() -> None:
    assert partial_row_table(EVENTS, {"cost": "1.5", "id": 1}).to_pylist() == [{"id": 1, "cost": Decimal("1.50")}]
    assert partial_row_table(EVENTS, {"id": 1}).to_pylist() == [{"id": 1}]
    for row in ({"cost": 1}, {"id": 1, "color": 1}, {"id": 1, "cost": 0.5}, [1], None):
        with pytest.raises(RowError, match='table "events": '):
            partial_row_table(EVENTS, row)
