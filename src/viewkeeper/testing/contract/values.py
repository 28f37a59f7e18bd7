"""Values: every type comes back as it went in, and every type that can be in a key has its one order."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from viewkeeper.store.contract import Kind, Pick, Store, TableSpec
from viewkeeper.testing.contract.support import (
    GROUP,
    Reopen,
    StoreFixtures,
    arrow,
    changes,
    created,
    exact,
    keys_of,
    log_of,
    put,
    region_rows,
    replayed,
    run_epoch,
    through_a_restart,
)
from viewkeeper.testing.memory_values import rank, to_python

NAN, INF = math.nan, math.inf
MICROS, DAYS = 2**63 - 1, 2**31 - 1
UTC, NTZ = pa.timestamp("us", tz="UTC"), pa.timestamp("us")
ENDS = {bits: (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)}
NINES = 10**38 - 1


def _decimals(scale: int, *unscaled: int) -> list[Decimal]:
    """Decimals from their digits. Arithmetic on `Decimal` would round them to the 28 digits of its context."""
    return [Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale)) for n in unscaled]


ORDERS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [False, True]),
    "tinyint": (pa.int8(), [ENDS[8][0], -1, 0, 2, 10, ENDS[8][1]]),
    "smallint": (pa.int16(), [ENDS[16][0], -1, 0, 2, 10, ENDS[16][1]]),
    "int": (pa.int32(), [ENDS[32][0], -1, 0, 2, 10, ENDS[32][1]]),
    "bigint": (pa.int64(), [ENDS[64][0], -(2**53) - 1, -(2**53), -1, 0, 2, 10, 2**53, 2**53 + 1, ENDS[64][1]]),
    "decimal": (pa.decimal128(10, 2), _decimals(2, -(10**10) + 1, -1050, -200, 0, 3, 200, 1050, 10**10 - 1)),
    "long decimal": (pa.decimal128(38, 0), _decimals(0, -NINES, -(2**64), -1, 0, 2**63, 2**64, NINES)),
    "fine decimal": (pa.decimal128(38, 38), _decimals(38, -NINES, -(10**37), -1, 0, 1, 10**37, NINES)),
    "string": (pa.string(), ["", "\0", "\0\0", "\0a", "10", "2", "B", "a", "a\0", "a ", "aa", "é", "￿", "😀"]),
    "binary": (
        pa.binary(),
        [b"", b"\0", b"\0\0", b"\x01", b"a", b"a\0", b"aa", b"\x7f", b"\x80", b"\xff", b"\xff\xff"],
    ),
    "date": (pa.date32(), [-DAYS - 1, -719_163, -719_162, -1, 0, 1, 2_932_896, 2_932_897, DAYS]),
    "timestamp": (UTC, [-MICROS, -62_135_596_800_000_001, -1, 0, 1, 253_402_300_799_999_999, 253_402_300_800_000_000]),
    "timestamp_ntz": (NTZ, [-62_135_596_800_000_000, -1, 0, 1, 253_402_300_800_000_000, MICROS]),
}
"""Values of each type that a key can have, in order. Dates and timestamps are days and microseconds."""

FLOATS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "float": (pa.float32(), [-INF, -1.5, -(2.0**-149), -0.0, 0.0, 2.0**-149, 0.25, 10.0, INF, NAN]),
    "double": (pa.float64(), [-INF, -1.7e308, -1.5, -5e-324, -0.0, 0.0, 5e-324, 0.1, 2.0, 10.0, INF, NAN]),
}
"""Keys of maintained tables only."""

POINT = pa.struct([pa.field("x", pa.float32()), pa.field("when", UTC), pa.field("tag", pa.string())])
NESTED: dict[str, tuple[pa.DataType, list[Any]]] = {
    "array": (pa.list_(pa.int32()), [[], [None], [1, None, 2], [ENDS[32][0]]]),
    "array of strings": (pa.list_(pa.string()), [["", "\0", None, 'q"\\é😀']]),
    "array of binary": (pa.list_(pa.binary()), [[b"", b"\0\xff", None]]),
    "array of decimals": (pa.list_(pa.decimal128(38, 10)), [[*_decimals(10, NINES, -NINES, -1, 0), None]]),
    "array of booleans": (pa.list_(pa.bool_()), [[True, None, False]]),
    "array of doubles": (pa.list_(pa.float64()), [[-0.0, 0.0, NAN, INF, None, 0.1]]),
    "array of dates": (pa.list_(pa.date32()), [[0, None, DAYS, -DAYS]]),
    "array of arrays": (pa.list_(pa.list_(pa.int64())), [[[], None, [None], [1, 2]], []]),
    "map": (pa.map_(pa.string(), pa.int64()), [[], [("", None), ("b", 1), ("a", 2)]]),
    "map of structs": (
        pa.map_(pa.int32(), POINT),
        [[(1, {"x": -0.0, "when": MICROS, "tag": None}), (2, None), (3, {"x": NAN, "when": None, "tag": "\0"})]],
    ),
    "struct": (POINT, [{"x": None, "when": None, "tag": None}, {"x": 1.5, "when": -1, "tag": "é"}]),
    "struct of all": (
        pa.struct(
            [pa.field("m", pa.map_(pa.string(), pa.list_(NTZ))), pa.field("s", POINT), pa.field("b", pa.bool_())]
        ),
        [
            {"m": [("k", [0, None]), ("l", None)], "s": None, "b": True},
            {"m": None, "s": {"x": 0.5, "when": 0, "tag": ""}, "b": None},
        ],
    ),
}
VALUES = ORDERS | FLOATS | NESTED


def _values_table(kind: pa.DataType) -> TableSpec:
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", kind), pa.field("w", kind)])
    return TableSpec("things", schema, ("k",), ("k",), 2)


def _keyed_table(kind: pa.DataType, regions: int, table_kind: Kind) -> TableSpec:
    base = table_kind is Kind.BASE
    schema = pa.schema([pa.field("k", kind, nullable=not base), pa.field("n", pa.int64())])
    return TableSpec("things", schema, ("k",), ("k",), regions, table_kind, None if base else GROUP)


class ValueContract(StoreFixtures):
    @pytest.mark.parametrize("name", VALUES)
    def test_every_value_comes_back_as_it_went_in(self, store: Store, reopen: Reopen, name: str) -> None:
        kind, values = VALUES[name]
        spec = _values_table(kind)
        rows = [(number, value, None) for number, value in enumerate([*values, None])]
        created(store, spec)
        store.write([put(spec, *rows)])
        store.write([put(spec, *((number, None, value) for number, value, _ in rows))])
        swapped = arrow(spec, [{"k": number, "v": None, "w": value} for number, value, _ in rows])
        original = arrow(spec, [{"k": number, "v": value, "w": None} for number, value, _ in rows])
        for handle in through_a_restart(store, reopen):
            assert exact(handle.scan("things")) == exact(swapped)
            assert handle.scan("things").schema.equals(spec.schema)
            at = tuple(min(position, 1) for position in handle.positions("things"))
            assert exact(handle.scan("things", at=at)) == exact(original)
            probed = handle.probe(
                "things", keys_of(spec, [(number,) for number, _, _ in rows]), columns=["k", "v", "w"]
            )
            assert sorted(row[1:] for row in exact(probed)) == exact(swapped)
            for region in range(2):
                assert replayed(spec, log_of(handle, spec, region)) == exact(region_rows(handle, spec, region))

    @pytest.mark.parametrize("name", VALUES)
    def test_get_gives_python_values(self, store: Store, name: str) -> None:
        kind, values = VALUES[name]
        spec = _values_table(kind)
        created(store, spec)
        store.write([put(spec, *((number, value, None) for number, value in enumerate(values)))])
        for number, value in enumerate(values):
            row = store.get("things", [number])
            assert row is not None
            assert row["w"] is None
            assert rank(row["v"]) == rank(to_python(value, kind))

    def test_python_values_are_the_expected_ones(self, store: Store) -> None:
        fields = {"d": pa.date32(), "t": UTC, "n": NTZ, "c": pa.decimal128(5, 2), "s": pa.list_(POINT)}
        schema = pa.schema([pa.field("k", pa.binary(), nullable=False), *(pa.field(*item) for item in fields.items())])
        spec = created(store, TableSpec("things", schema, ("k",), ("k",), 1)).table("things")
        store.write([put(spec, (b"k\0", 1, 1_000_001, -1, Decimal("1.50"), [{"x": 0.5, "when": 0, "tag": "a"}]))])
        row = store.get("things", [b"k\0"])
        assert row == {
            "k": b"k\0",
            "d": datetime.date(1970, 1, 2),
            "t": datetime.datetime(1970, 1, 1, 0, 0, 1, 1, tzinfo=datetime.UTC),
            "n": datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999),
            "c": Decimal("1.50"),
            "s": [{"x": 0.5, "when": datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC), "tag": "a"}],
        }
        assert type(row["d"]) is datetime.date
        assert row["t"].tzinfo is not None
        assert row["n"].tzinfo is None

    def test_timestamps_reach_to_the_ends_of_their_type(self, store: Store) -> None:
        schema = pa.schema([pa.field("k", UTC, nullable=False), pa.field("v", NTZ)])
        spec = created(store, TableSpec("things", schema, ("k",), ("k",), 2)).table("things")
        rows = arrow(spec, [{"k": micros, "v": micros} for micros in (-MICROS - 1, -MICROS, MICROS)])
        store.write([put(spec, *((micros, micros) for micros in (MICROS, -MICROS - 1, -MICROS)))])
        assert exact(store.scan("things")) == exact(rows)
        assert store.probe("things", rows.select(["k"])).num_rows == 3

    @pytest.mark.parametrize("name", ORDERS)
    def test_every_key_type_has_its_order(self, store: Store, name: str) -> None:
        kind, values = ORDERS[name]
        spec = created(store, _keyed_table(kind, 3, Kind.BASE)).table("things")
        store.write([put(spec, *((value, n) for n, value in reversed(list(enumerate(values)))))])
        self._check_order(store, spec, values)

    @pytest.mark.parametrize("name", [*ORDERS, *FLOATS])
    def test_keys_of_maintained_tables_order_null_first(self, store: Store, name: str) -> None:
        kind, values = (ORDERS | FLOATS)[name]
        spec = created(store, _keyed_table(kind, 3, Kind.VIEW)).table("things")
        values = [None, *values]
        run_epoch(store, spec, changes(spec, [(value, n) for n, value in enumerate(values)][::-1]))
        self._check_order(store, spec, values)

    def _check_order(self, store: Store, spec: TableSpec, values: list[Any]) -> None:
        """Every value is found by itself, begins and ends ranges where it should, and the rows come in order."""
        kind = spec.schema.field("k").type
        everyone = list(range(len(values)))
        assert store.scan("things")["n"].to_pylist() == everyone
        for number, value in enumerate(values):
            given = [to_python(value, kind)]
            row = store.get("things", given)
            assert row is not None
            assert row["n"] == number
            assert store.scan("things", start=given)["n"].to_pylist() == everyone[number:]
            assert store.scan("things", stop=given)["n"].to_pylist() == everyone[:number]
            assert store.scan("things", prefix=given)["n"].to_pylist() == [number]
        probed = store.probe("things", keys_of(spec, [(value,) for value in values]), columns=["n"])
        assert sorted(probed["n"].to_pylist()) == everyone

    @pytest.mark.parametrize("name", [*ORDERS, *FLOATS])
    def test_first_and_last_follow_the_order(self, store: Store, name: str) -> None:
        kind, values = (ORDERS | FLOATS)[name]
        schema = pa.schema([pa.field("g", pa.int32()), pa.field("k", kind)])
        spec = created(store, TableSpec("things", schema, ("g", "k"), ("g",), 2, Kind.INDEX, GROUP)).table("things")
        rows = [(1, value) for value in values] + [(2, None), (2, values[1]), (None, values[0])]
        run_epoch(store, spec, changes(spec, rows))
        groups = keys_of(spec, [(1,), (2,), (None,)])
        for pick, expected in (
            (Pick.FIRST, [values[0], None, values[0]]),
            (Pick.LAST, [values[-1], values[1], values[0]]),
        ):
            answer = store.probe("things", groups, pick=pick, columns=["k"])
            assert sorted(exact(answer)) == [(rank(n), rank(value)) for n, value in enumerate(expected)]
