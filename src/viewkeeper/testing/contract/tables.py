"""Tables: making, finding and dropping them; names whatever their case; a new table under an old name starts anew."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from viewkeeper import names
from viewkeeper.errors import NameTaken, NotFound
from viewkeeper.store.changes import positioned_log_schema
from viewkeeper.store.contract import Store, TableSpec
from viewkeeper.testing.contract.support import (
    PAIRS,
    STOCK,
    TOTALS,
    Reopen,
    StoreFixtures,
    created,
    delete,
    everything,
    expect,
    keys_of,
    log_of,
    put,
    through_a_restart,
)

KEY_ONLY = TableSpec(
    "edges",
    pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.string(), nullable=False)]),
    key=("a", "b"),
    distribution=("a",),
    regions=2,
)


class TableContract(StoreFixtures):
    def test_a_table_is_found_as_it_was_declared(self, store: Store, reopen: Reopen) -> None:
        created(store, PAIRS, STOCK, TOTALS)
        for handle in through_a_restart(store, reopen):
            assert [handle.table(spec.name) for spec in (PAIRS, STOCK, TOTALS)] == [PAIRS, STOCK, TOTALS]
            assert handle.table("stock").schema.equals(STOCK.schema)

    def test_tables_are_listed_by_name(self, store: Store) -> None:
        assert store.tables() == []
        created(store, STOCK, TOTALS, PAIRS)
        assert store.tables() == [PAIRS, STOCK, TOTALS]

    def test_names_have_no_case(self, store: Store) -> None:
        created(store, replace(PAIRS, name="Pairs"))
        assert store.table("PAIRS").name == "Pairs"
        store.write([put(replace(PAIRS, name="pAIRS"), (1, "a"))])
        assert store.get("pairs", [1]) == {"k": 1, "v": "a"}
        assert store.scan("PAIRS").num_rows == 1
        with pytest.raises(NameTaken):
            store.create(PAIRS)
        store.drop("PAIRS")
        assert store.tables() == []

    def test_a_missing_table_is_not_found_and_the_error_lists_what_there_is(self, store: Store) -> None:
        created(store, PAIRS, STOCK)
        with pytest.raises(NotFound) as caught:
            store.table("stocks")
        assert "stocks" in caught.value.message
        assert "pairs" in str(caught.value)

    def test_every_call_on_a_missing_table_says_so(self, store: Store) -> None:
        with pytest.raises(NotFound):
            store.drop("pairs")
        with pytest.raises(NotFound):
            store.write([put(PAIRS, (1, "a"))])
        with pytest.raises(NotFound):
            store.write([], [expect(PAIRS, {"k": 1})])
        with pytest.raises(NotFound):
            store.get("pairs", [1])
        with pytest.raises(NotFound):
            store.scan("pairs")
        with pytest.raises(NotFound):
            list(store.read("pairs", 0))
        with pytest.raises(NotFound):
            store.probe("pairs", keys_of(PAIRS, [(1,)]))
        with pytest.raises(NotFound):
            store.positions("pairs")
        with pytest.raises(NotFound):
            list(store.log("pairs", 0, 0, 1))
        with pytest.raises(NotFound):
            store.cut(["pairs"])

    def test_nobody_writes_into_a_dropped_table(self, store: Store, other: Store) -> None:
        created(store, PAIRS, STOCK)
        other.write([put(PAIRS, (1, "a")), put(STOCK, (1, "s", 1, 1.0))])
        store.drop("pairs")
        with pytest.raises(NotFound):
            other.write([put(STOCK, (2, "s", 1, 1.0)), put(PAIRS, (2, "b"))])
        with pytest.raises(NotFound):
            other.get("pairs", [1])
        assert everything(other, "stock") == [(1, "s", 1, 1.0)]
        assert other.tables() == [STOCK]

    def test_a_name_used_again_is_a_new_empty_table(self, store: Store, other: Store, reopen: Reopen) -> None:
        created(store, PAIRS)
        other.write([put(PAIRS, (1, "a"), (2, "b"), (3, "c"))])
        store.drop("pairs")
        wider = replace(PAIRS, schema=PAIRS.schema.append(pa.field("w", pa.int32())), regions=3)
        store.create(wider)
        assert other.table("pairs") == wider
        assert other.positions("pairs") == (0, 0, 0)
        assert everything(other, "pairs") == []
        other.write([put(wider, (1, "a", 7))])
        assert sum(other.positions("pairs")) == 1
        assert everything(reopen(), "pairs") == [(1, "a", 7)]

    def test_a_table_made_again_has_another_number(self, store: Store, other: Store, reopen: Reopen) -> None:
        created(store, PAIRS, STOCK)
        first = other.table("pairs").number
        assert other.get("pairs", [1]) is None
        assert first == other.number("pairs") == other.number("PAIRS") != other.number("stock")
        assert [spec.number for spec in other.tables()] == [first, other.number("stock")]
        store.drop("pairs")
        store.create(replace(PAIRS, number=first))
        assert other.get("pairs", [1]) is None, "it may learn by a call that the table is another"
        second = other.number("pairs")
        assert second not in (0, first)
        for handle in through_a_restart(store, reopen):
            assert handle.number("pairs") == handle.table("pairs").number == second
        handle.drop("pairs")
        with pytest.raises(NotFound):
            handle.number("pairs")

    def test_a_table_made_again_is_not_dropped_for_the_one_before(self, store: Store, other: Store) -> None:
        created(store, PAIRS)
        first = other.table("pairs").number
        store.drop("pairs", first)
        with pytest.raises(NotFound):
            other.drop("pairs", first)
        created(store, PAIRS)
        store.write([put(PAIRS, (1, "a"))])
        with pytest.raises(NotFound, match="made again"):
            other.drop("pairs", first)
        assert everything(other, "pairs") == [(1, "a")]
        other.drop("PAIRS", store.number("pairs"))
        assert store.tables() == []

    def test_a_table_made_again_is_asked_by_its_own_key(self, store: Store, other: Store) -> None:
        """By whoever has looked at it, though they had read the one before."""
        created(store, PAIRS)
        assert other.get("pairs", [1]) is None
        store.drop("pairs")
        again = replace(PAIRS, key=("v",), distribution=("v",))
        created(store, again)
        assert other.table("pairs").key == ("v",)
        assert other.get("pairs", ["a"]) is None
        store.drop("pairs")
        created(store, PAIRS)
        assert other.tables()[0].key == ("k",)
        assert other.scan("pairs", prefix=[1]).num_rows == 0

    def test_an_empty_table_answers_with_its_schema(self, store: Store) -> None:
        created(store, STOCK)
        nothing = keys_of(STOCK, [("s",)])
        assert store.scan("stock").schema.equals(STOCK.schema)
        assert store.probe("stock", nothing).schema.names == [names.PROBE, *STOCK.schema.names]
        assert store.scan("stock").num_rows == store.probe("stock", nothing).num_rows == 0
        assert [batch.num_rows for region in range(3) for batch in store.read("stock", region)] in ([], [0, 0, 0])
        assert store.positions("stock") == (0, 0, 0)
        assert store.get("stock", ["s", 1]) is None
        assert store.backlog("stock", (0, 0, 0), (0, 0, 0)) == 0
        assert store.cut(["stock"]) == {"stock": (0, 0, 0)}
        assert log_of(store, STOCK, 0) == []

    def test_a_table_may_have_nothing_but_its_key(self, store: Store) -> None:
        created(store, KEY_ONLY)
        store.write([put(KEY_ONLY, (2, "x"), (1, "y"), (1, "x"))])
        store.write([put(KEY_ONLY, (1, "x")), delete(KEY_ONLY, (2, "x"))])
        assert everything(store, "edges") == [(1, "x"), (1, "y")]
        assert store.get("edges", [1, "y"]) == {"a": 1, "b": "y"}
        assert store.write([], [expect(KEY_ONLY, {"a": 1, "b": "y"})])
        logs = [change for region in range(2) for change in log_of(store, KEY_ONLY, region)]
        assert len(logs) == 4
        assert list(logs[0]) == positioned_log_schema(KEY_ONLY).names
