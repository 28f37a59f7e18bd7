"""Tables, transactions and snapshots as users meet them."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.types import DecimalType, LongType, StringType, StructField, StructType

import viewkeeper as vk

EVENTS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("product", pa.string()),
        pa.field("cost", pa.decimal128(10, 2)),
    ]
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "shop.vk"


@pytest.fixture
def db(folder: Path) -> Iterator[vk.Database]:
    with vk.open(folder) as database:
        yield database


@pytest.fixture
def events(db: vk.Database) -> vk.Table:
    return db.create_table("events", "id BIGINT, product STRING, cost DECIMAL(10,2)", primary_key="id")


@pytest.fixture
def stock(db: vk.Database) -> vk.Table:
    table = db.create_table(
        "stock", "quantity INT, shop STRING, item BIGINT", primary_key=("shop", "item"), distribution="shop"
    )
    table.put([{"shop": shop, "item": item, "quantity": 10 * item} for shop in ("b", "a", "c") for item in (2, 1, 3)])
    return table


def row(number: int, product: str | None = "book", cost: str | None = "9.90") -> dict[str, Any]:
    return {"id": number, "product": product, "cost": None if cost is None else Decimal(cost)}


def ids(found: pa.Table) -> list[int]:
    return list(found["id"].to_pylist())


# Making tables


@pytest.mark.parametrize(
    "schema",
    [
        "id BIGINT, product STRING, cost DECIMAL(10,2)",
        StructType(
            [
                StructField("id", LongType()),
                StructField("product", StringType()),
                StructField("cost", DecimalType(10, 2)),
            ]
        ),
        EVENTS,
    ],
    ids=["DDL", "StructType", "pyarrow"],
)
def test_a_table_from_each_form_of_schema(db: vk.Database, schema: Any) -> None:
    table = db.create_table("events", schema, primary_key="id", regions=3)
    assert (table.name, table.schema, table.key) == ("events", EVENTS, ("id",))
    table.put(row(1))
    assert table.get(1) == row(1)


def test_tables_by_statement(db: vk.Database) -> None:
    create = "CREATE TABLE {} Events (id BIGINT PRIMARY KEY, product STRING, cost DECIMAL(10,2))"
    db.execute(create.format(""))
    db.table("events").put(row(1))
    db.execute(create.format("IF NOT EXISTS"))
    assert [(table.name, table.schema) for table in db.tables()] == [("Events", EVENTS)]
    assert db.table("EVENTS").get(1) == row(1)
    db.execute("DROP TABLE eVents")
    db.execute("DROP TABLE IF EXISTS events")
    assert db.tables() == []
    with pytest.raises(vk.NotFound, match='table "events" does not exist'):
        db.execute("DROP TABLE events")


def test_a_table_made_again_is_empty(db: vk.Database, events: vk.Table) -> None:
    events.put([row(1), row(2)])
    db.drop("events")
    with pytest.raises(vk.NotFound, match='"events" does not exist'):
        events.put(row(3))
    with pytest.raises(vk.NotFound, match='"events" does not exist'):
        events.get(1)
    db.create_table("events", EVENTS, primary_key="id", regions=2)
    assert events.scan().num_rows == 0
    events.put(row(3))
    assert ids(db.table("events").scan()) == [3]


@pytest.mark.parametrize("again", ["product STRING, id BIGINT", "id BIGINT, k INT, product STRING"])
def test_a_table_is_read_as_whoever_made_it_again_made_it(
    db: vk.Database, events: vk.Table, folder: Path, again: str
) -> None:
    """By an object from before: its columns and its key are those of a table that is gone."""
    events.put(row(1))
    with vk.open(folder) as other:
        other.drop("events")
        other.create_table("events", again, primary_key="product", regions=8)
        other.table("events").put([{"id": 1, "product": "7", **({"k": 1} if "k" in again else {})}])
        assert (
            events.scan(prefix="7").to_pylist() == events.scan().to_pylist() == other.table("events").scan().to_pylist()
        )
        assert events.get("7") == other.table("events").get("7")
        assert events.key == ("product",)
        assert "cost" not in events.schema.names


@pytest.mark.parametrize(
    ("again", "wrong"),
    [
        ("id BIGINT, product INT, cost DECIMAL(10,2)", 'column "product" is int32, not string'),
        ("id BIGINT, product STRING NOT NULL, cost DECIMAL(10,2)", 'column "product" is string NOT NULL, not string'),
        ("id BIGINT, cost DECIMAL(10,2)", 'the table has no column "product"'),
        ("id BIGINT, product STRING, cost DECIMAL(10,2), n INT", 'the table has a column "n"'),
    ],
)
def test_rows_for_a_table_that_is_gone_are_not_bent_to_fit_the_new_one(
    db: vk.Database, events: vk.Table, folder: Path, again: str, wrong: str
) -> None:
    events.put(row(1))
    with vk.open(folder) as other:
        other.drop("events")
        other.create_table("events", again, primary_key="id")
        with pytest.raises(vk.InputError, match=f'"events" was made again meanwhile.*{wrong}') as refused:
            events.put([row(1, "7"), row(2, None)])
        assert 'db.table("events")' in str(refused.value)
        assert other.table("events").scan().num_rows == 0


def test_tables_are_listed_by_name(db: vk.Database) -> None:
    for name in ("b", "C", "a"):
        db.create_table(name, "id INT", primary_key="id")
    assert [table.name for table in db.tables()] == ["a", "b", "C"]


def test_everything_is_there_after_closing(db: vk.Database, events: vk.Table, folder: Path) -> None:
    events.put([row(number) for number in range(20)])
    events.delete(7)
    db.close()
    with vk.open(folder, durability="normal", timeout=5) as again:
        assert ids(again.table("events").scan()) == [number for number in range(20) if number != 7]
        assert again.table("events").schema == EVENTS


# Writing


@pytest.mark.parametrize("form", ["dict", "list", "generator", "arrow", "batch", "pandas"])
def test_put_takes_every_form(events: vk.Table, form: str) -> None:
    rows = [row(1)] if form == "dict" else [row(1), row(2, None), row(3, "pen", None)]
    table = pa.Table.from_pylist(rows, EVENTS)
    given = {
        "dict": rows[0],
        "list": rows,
        "generator": iter(rows),
        "arrow": table,
        "batch": table.to_batches()[0],
        "pandas": pd.DataFrame(rows),
    }
    events.put(given[form])
    assert events.scan().to_pylist() == rows


def test_put_replaces_whole_rows(events: vk.Table) -> None:
    events.put([row(1), row(2)])
    events.put([row(2, "pen", None), row(3)])
    assert events.scan().to_pylist() == [row(1), row(2, "pen", None), row(3)]
    events.put([])
    assert events.scan().num_rows == 3


def test_update_changes_what_it_names(events: vk.Table) -> None:
    events.put([row(1), row(2), row(3)])
    events.update([{"id": 1, "cost": "1.00"}, {"id": 3, "product": None}])
    events.update(pa.table({"id": [2], "product": ["pen"]}))
    assert events.scan().to_pylist() == [row(1, cost="1.00"), row(2, "pen"), row(3, None)]


@pytest.mark.parametrize("keys", [2, [2], (2,), {"id": 2}, [(2,)], pa.table({"id": [2]}), pa.array([2]), [2, 99]])
def test_delete_takes_every_form(events: vk.Table, keys: Any) -> None:
    events.put([row(1), row(2), row(3)])
    events.delete(keys)
    assert ids(events.scan()) == [1, 3]


def test_put_if(events: vk.Table) -> None:
    assert events.put_if(row(1), expected=None)
    assert not events.put_if(row(1, "pen"), expected=None)
    assert not events.put_if(row(1, "pen"), expected={"product": "cup"})
    assert not events.put_if(row(2, "pen"), expected={"product": "cup"})
    assert events.scan().to_pylist() == [row(1)]
    assert events.put_if(row(1, None), expected={"product": "book", "cost": "9.90"})
    assert events.put_if(row(1, "pen"), expected={"product": None})
    assert events.put_if(row(1, "cup"), expected={})
    assert events.scan().to_pylist() == [row(1, "cup")]


# Reading


def test_get_by_every_form_of_key(stock: vk.Table) -> None:
    wanted = {"quantity": 20, "shop": "a", "item": 2}
    assert stock.get(("a", 2)) == stock.get({"item": 2, "shop": "a"}) == wanted
    assert stock.get(("a", 9)) is None
    with pytest.raises(vk.RowError, match="is not a key"):
        stock.get("a")


def test_scan_by_ranges(stock: vk.Table) -> None:
    def keys(**arguments: Any) -> list[str]:
        return [f"{r['shop']}{r['item']}" for r in stock.scan(**arguments).to_pylist()]

    everything = ["a1", "a2", "a3", "b1", "b2", "b3", "c1", "c2", "c3"]
    assert keys() == everything
    assert keys(prefix="b") == ["b1", "b2", "b3"]
    assert keys(prefix=("b", 2)) == ["b2"]
    assert keys(start=("a", 3)) == everything[2:]
    assert keys(stop=("b", 2)) == everything[:4]
    assert keys(start=("a", 3), stop=("c", 1)) == everything[2:6]
    assert keys(start="b") == everything[3:]
    assert keys(stop={"shop": "b"}) == everything[:3]
    assert keys(start="b", limit=2) == ["b1", "b2"]
    assert keys(limit=0) == []
    assert keys(prefix="z") == []
    assert keys(prefix="b", start=("b", 2)) == ["b2", "b3"]


def test_scan_of_some_columns(stock: vk.Table) -> None:
    found = stock.scan(columns=["quantity", "shop"], limit=2)
    assert found.to_pydict() == {"quantity": [10, 20], "shop": ["a", "a"]}
    assert found.schema.types == [pa.int32(), pa.string()]


# Transactions


def test_a_transaction_reads_what_it_wrote(db: vk.Database, events: vk.Table) -> None:
    events.put([row(1), row(2), row(3)])
    with db.transaction() as tx:
        table = tx.table("EVENTS")
        table.put(row(4))
        table.update({"id": 4, "cost": "1.00"})
        table.update({"id": 1, "product": "pen"})
        table.update({"id": 1, "cost": "2.00"})
        table.delete(2)
        assert table.get(4) == row(4, cost="1.00")
        assert table.get(1) == row(1, "pen", "2.00")
        assert table.get(2) is None
        assert table.get(3) == row(3)
        assert not table.put_if(row(3), expected=None)
        assert table.put_if(row(2, "new"), expected=None)
        assert table.get(2) == row(2, "new")
        assert ids(events.scan()) == [1, 2, 3]
        assert events.get(1) == row(1)
    assert events.scan().to_pylist() == [row(1, "pen", "2.00"), row(2, "new"), row(3), row(4, cost="1.00")]


def test_a_transaction_over_tables(db: vk.Database, events: vk.Table, stock: vk.Table) -> None:
    with db.transaction() as tx:
        tx.table("events").put([row(number) for number in range(10)])
        tx.table("stock").delete([("a", 1), ("b", 1)])
        tx.table("stock").update({"shop": "c", "item": 1, "quantity": -1})
    assert events.scan().num_rows == 10
    assert stock.scan().num_rows == 7
    assert stock.get(("c", 1)) == {"quantity": -1, "shop": "c", "item": 1}


def test_an_update_after_a_delete(db: vk.Database, events: vk.Table) -> None:
    events.put([row(1), row(2)])
    with pytest.raises(vk.NotFound, match="this transaction deleted it"), db.transaction() as tx:  # noqa: PT012
        tx.table("events").delete(1)
        tx.table("events").update({"id": 1, "product": "pen"})
    assert ids(events.scan()) == [1, 2]


def test_a_call_that_fails_inside_a_transaction_adds_nothing(db: vk.Database, events: vk.Table) -> None:
    events.put([row(1), row(2)])
    with db.transaction() as tx:
        tx.table("events").delete(1)
        with pytest.raises(vk.NotFound, match="deleted it"):
            tx.table("events").update([{"id": 2, "product": "pen"}, {"id": 1, "product": "pen"}])
    assert events.scan().to_pylist() == [row(2)]


def test_an_update_of_several_sets_of_columns_that_fails_adds_nothing(db: vk.Database, events: vk.Table) -> None:
    events.put([row(1), row(2)])
    with db.transaction() as tx:
        tx.table("events").delete(1)
        with pytest.raises(vk.NotFound, match="deleted it"):
            tx.table("events").update([{"id": 2, "product": "pen"}, {"id": 1, "cost": "1.00"}])
        assert tx.table("events").get(2) == row(2)
    assert events.scan().to_pylist() == [row(2)]


def test_an_update_of_several_sets_of_columns_alone(db: vk.Database, events: vk.Table) -> None:
    events.put([row(1), row(2)])
    with db.transaction() as tx:
        tx.table("events").update([{"id": 2, "product": "pen"}, {"id": 1, "cost": "1.00"}])
        tx.table("events").update([])
    assert events.scan().to_pylist() == [row(1, cost="1.00"), row(2, "pen")]


def test_an_update_of_a_missing_row_takes_everything_back(db: vk.Database, events: vk.Table, stock: vk.Table) -> None:
    with pytest.raises(vk.NotFound, match=r"has no row \{'id': 5\} to update"), db.transaction() as tx:  # noqa: PT012
        tx.table("stock").delete(("a", 1))
        tx.table("events").put(row(1))
        tx.table("events").update({"id": 5, "product": "pen"})
    assert (events.scan().num_rows, stock.scan().num_rows) == (0, 9)


@pytest.mark.parametrize("seen", [1, 99], ids=["a row", "an absence"])
def test_a_conflict(db: vk.Database, events: vk.Table, stock: vk.Table, seen: int) -> None:
    events.put([row(1), row(2)])
    with pytest.raises(vk.Conflict, match='rows of "events"'), db.transaction() as tx:  # noqa: PT012
        tx.table("events").get(seen)
        events.put(row(seen, "changed meanwhile"))
        tx.table("events").put(row(2, "pen"))
        tx.table("stock").delete(("a", 1))
    assert events.get(2) == row(2)
    assert stock.scan().num_rows == 9


def test_no_conflict_over_other_rows_or_unread_ones(db: vk.Database, events: vk.Table) -> None:
    events.put([row(1), row(2), row(3)])
    with db.transaction() as tx:
        assert tx.table("events").get(1) == row(1)
        events.put([row(2, "changed"), row(3, "changed")])
        tx.table("events").put(row(2, "pen"))
    assert events.scan().to_pylist() == [row(1), row(2, "pen"), row(3, "changed")]


def test_reads_alone_are_checked_too(db: vk.Database, events: vk.Table) -> None:
    events.put(row(1))
    with pytest.raises(vk.Conflict, match="had read"), db.transaction() as tx:  # noqa: PT012
        tx.table("events").get(1)
        events.delete(1)


def test_a_row_that_was_read_may_be_changed_in_place(db: vk.Database) -> None:
    table = db.create_table("t", "id INT, n INT, tags ARRAY<ARRAY<INT>>", primary_key="id")
    table.put({"id": 1, "n": 1, "tags": [[1]]})
    with db.transaction() as tx:
        read = tx.table("t").get(1)
        assert read is not None
        read["n"] += 1
        read["tags"][0].append(2)
        tx.table("t").put(read)
    assert table.get(1) == {"id": 1, "n": 2, "tags": [[1, 2]]}


@pytest.mark.parametrize("below", [False, True], ids=["alone", "under an update"])
def test_a_row_changed_in_place_is_still_what_was_read(db: vk.Database, below: bool) -> None:
    """Another writer makes the very change that the caller made in place: that is a conflict, not what was expected."""
    table = db.create_table("t", "id INT, m INT, tags ARRAY<INT>", primary_key="id")
    table.put({"id": 1, "m": 0, "tags": [1]})
    with pytest.raises(vk.Conflict, match='rows of "t"'), db.transaction() as tx:  # noqa: PT012
        if below:
            tx.table("t").update({"id": 1, "m": 0})
        read = tx.table("t").get(1)
        assert read is not None
        read["tags"].append(2)
        table.put(read)
        tx.table("t").put(read)


def test_an_error_in_the_block_writes_nothing(db: vk.Database, events: vk.Table) -> None:
    with pytest.raises(ZeroDivisionError), db.transaction() as tx:  # noqa: PT012
        tx.table("events").put(row(1))
        _ = 1 // 0
    assert events.scan().num_rows == 0


def test_a_transaction_is_used_inside_its_block(db: vk.Database, events: vk.Table) -> None:
    transaction = db.transaction()
    with pytest.raises(vk.InputError, match="is not open"):
        transaction.table("events")
    with transaction as tx:
        tx.table("events").put(row(1))
    with pytest.raises(vk.InputError, match="is not open"):
        transaction.table("events")


@pytest.mark.parametrize("again", [False, True], ids=["ended", "entered again"])
def test_a_table_of_a_block_that_has_ended(db: vk.Database, events: vk.Table, again: bool) -> None:
    with db.transaction() as tx:
        table = tx.table("events")
        table.put(row(1))
    calls: list[Callable[[], Any]] = [
        lambda: table.put(row(2)),
        lambda: table.update({"id": 1, "product": "pen"}),
        lambda: table.delete(1),
        lambda: table.put_if(row(3), expected=None),
        lambda: table.get(1),
    ]
    with tx if again else nullcontext():
        for call in calls:
            with pytest.raises(vk.InputError, match="is not open"):
                call()
    assert events.scan().to_pylist() == [row(1)]


def test_a_transaction_that_is_entered_again_begins_with_nothing(db: vk.Database, events: vk.Table) -> None:
    transaction = db.transaction()
    with pytest.raises(ZeroDivisionError), transaction as tx:  # noqa: PT012
        tx.table("events").put(row(1))
        _ = 1 // 0
    with transaction as tx:
        tx.table("events").put(row(2))
    events.put(row(2, "changed"))
    with transaction as tx:
        tx.table("events").put(row(3))
        with pytest.raises(vk.InputError, match="open already"):
            transaction.__enter__()
    assert events.scan().to_pylist() == [row(2, "changed"), row(3)]


# Snapshots


def test_a_snapshot_stays_as_it_was(db: vk.Database, events: vk.Table, stock: vk.Table) -> None:
    events.put([row(number) for number in range(8)])
    with db.snapshot() as at:
        events.put([row(0, "changed"), row(100)])
        events.delete([1, 2])
        stock.delete(("a", 1))
        seen = at.table("Events")
        assert seen.scan().to_pylist() == [row(number) for number in range(8)]
        assert (seen.get(0), seen.get(1), seen.get(100)) == (row(0), row(1), None)
        assert ids(seen.scan(start=1, stop=100, limit=3)) == [1, 2, 3]
        assert at.table("stock").scan(prefix="a").num_rows == 3
        assert not hasattr(seen, "put")
    assert ids(db.snapshot().table("events").scan()) == [0, 3, 4, 5, 6, 7, 100]


@pytest.mark.parametrize(
    ("schema", "regions"),
    [("id BIGINT, product STRING", 4), ("id BIGINT, product STRING", 9), ("id BIGINT, n INT", 1), ("id STRING", 4)],
)
def test_a_snapshot_shows_no_other_table_of_that_name(
    db: vk.Database, events: vk.Table, folder: Path, schema: str, regions: int
) -> None:
    events.put([row(number) for number in range(8)])
    at, also = db.snapshot(), db.snapshot().table("events")
    with vk.open(folder) as other:
        other.drop("events")
        with pytest.raises(vk.NotFound, match='"events" does not exist'):
            at.table("events").scan()
        again = other.create_table("events", schema, primary_key="id", regions=regions)
        keys = map(str if schema == "id STRING" else int, range(30))
        again.put([dict.fromkeys(again.schema.names) | {"id": key} for key in keys])
        for read in (lambda: at.table("events").scan(), lambda: at.table("events").get(7), lambda: also.get(29)):
            with pytest.raises(vk.SnapshotTooOld, match="dropped and made again after the snapshot was taken"):
                read()
        with pytest.raises(vk.SnapshotTooOld, match="made again"):
            also.scan(columns=["cost"])
    assert db.snapshot().table("events").scan().num_rows == 30


def test_a_trimmed_snapshot_is_too_old(db: vk.Database, events: vk.Table) -> None:
    events.put([row(number) for number in range(8)])
    at = db.snapshot()
    events.put([row(number, "changed") for number in range(8)])
    assert db.trim(keep_seconds=3600) == 0
    assert at.table("events").get(1) == row(1)
    assert db.trim(keep_seconds=0) == 16
    with pytest.raises(vk.SnapshotTooOld, match='table "events" cannot be read at position'):
        at.table("events").scan()
    with pytest.raises(vk.SnapshotTooOld, match='table "events" cannot be read at position'):
        at.table("events").get(1)
    assert db.snapshot().table("events").get(1) == row(1, "changed")
    with pytest.raises(vk.InputError, match="-1"):
        db.trim(keep_seconds=-1)


# Every type

STRINGS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
MOMENTS = st.datetimes(datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30))
KEY_TYPES: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-(2**7), 2**7 - 1),
    "SMALLINT": st.integers(-(2**15), 2**15 - 1),
    "INT": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "DECIMAL(9,3)": st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: Decimal(n).scaleb(-3)),
    "DECIMAL(25,0)": st.integers(-(10**25) + 1, 10**25 - 1).map(Decimal),
    "STRING": STRINGS,
    "BINARY": st.binary(max_size=5),
    "DATE": st.dates(),
    "TIMESTAMP": MOMENTS.map(lambda moment: moment.replace(tzinfo=datetime.UTC)),
    "TIMESTAMP_NTZ": MOMENTS,
}
"""The order of their Python values is Spark's order, but for STRING, which Spark orders by its UTF-8 bytes."""

VALUE_TYPES: dict[str, st.SearchStrategy[Any]] = {
    **KEY_TYPES,
    "FLOAT": st.floats(width=32),
    "DOUBLE": st.floats(),
    "ARRAY<INT>": st.lists(st.none() | st.integers(-5, 5), max_size=3),
    "MAP<STRING, ARRAY<DOUBLE>>": st.dictionaries(
        STRINGS, st.none() | st.lists(st.none() | st.floats(), max_size=2), max_size=2
    ).map(lambda pairs: list(pairs.items())),
    "STRUCT<a: BINARY, b: STRUCT<c: TIMESTAMP, d: DECIMAL(38,10)>>": st.fixed_dictionaries(
        {
            "a": st.none() | st.binary(max_size=3),
            "b": st.none()
            | st.fixed_dictionaries(
                {
                    "c": st.none() | MOMENTS.map(lambda moment: moment.replace(tzinfo=datetime.UTC)),
                    "d": st.none() | st.integers(-5, 5).map(lambda n: Decimal(f"{n}.0000000001")),
                }
            ),
        }
    ),
}
QUICK = settings(max_examples=15, suppress_health_check=list(HealthCheck))


def same(one: Any, two: Any) -> bool:
    """Equal, where NaN equals itself and -0.0 is not 0.0."""
    if isinstance(one, float) and isinstance(two, float):
        return (math.isnan(one) and math.isnan(two)) or (one == two and math.copysign(1, one) == math.copysign(1, two))
    if isinstance(one, list | tuple) and isinstance(two, list | tuple):
        return len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(same(one[name], two[name]) for name in one)
    return type(one) is type(two) and bool(one == two)


@QUICK
@given(data=st.data())
def test_every_value_comes_back(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    columns = {f"c{number}": kind for number, kind in enumerate(VALUE_TYPES)}
    strategy = st.fixed_dictionaries({name: st.none() | VALUE_TYPES[kind] for name, kind in columns.items()})
    rows = [
        {"id": number, **values} for number, values in enumerate(data.draw(st.lists(strategy, min_size=1, max_size=4)))
    ]
    folder = tmp_path_factory.mktemp("types") / "shop.vk"
    with vk.open(folder, durability="off") as db:
        ddl = ", ".join(f"{name} {kind}" for name, kind in {"id": "INT", **columns}.items())
        table = db.create_table("t", ddl, primary_key="id", regions=2)
        table.put(rows)
        at = db.snapshot()
        with db.transaction() as tx:
            assert all(same(tx.table("t").get(wanted["id"]), wanted) for wanted in rows)
        table.put([{**dict.fromkeys(columns), "id": number} for number in range(len(rows))])
        assert all(same(at.table("t").get(wanted["id"]), wanted) for wanted in rows)
        table.put(at.table("t").scan())
    with vk.open(folder) as db:
        found = db.table("t").scan().to_pylist()
        assert same(found, rows)
        assert all(same(db.table("t").get(wanted["id"]), wanted) for wanted in rows)


@pytest.mark.parametrize("kind", KEY_TYPES)
@QUICK
@given(data=st.data())
def test_keys_are_in_sparks_order(tmp_path_factory: pytest.TempPathFactory, kind: str, data: st.DataObject) -> None:
    keys = data.draw(st.lists(KEY_TYPES[kind], min_size=2, max_size=8, unique=True))
    with vk.open(tmp_path_factory.mktemp("keys") / "shop.vk", durability="off") as db:
        table = db.create_table("t", f"k {kind}, n INT", primary_key="k", regions=2)
        table.put([{"k": key, "n": number} for number, key in enumerate(keys)])
        ordered = sorted(keys, key=lambda key: key.encode() if isinstance(key, str) else key)
        assert table.scan()["k"].to_pylist() == ordered
        assert [table.get(key) for key in keys] == [{"k": key, "n": number} for number, key in enumerate(keys)]
        assert table.scan(start=ordered[1])["k"].to_pylist() == ordered[1:]
        assert table.scan(stop=ordered[1])["k"].to_pylist() == ordered[:1]
        table.delete(keys[0])
        assert table.get(keys[0]) is None
        assert table.scan().num_rows == len(keys) - 1
