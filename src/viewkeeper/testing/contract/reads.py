"""Reads: get, scan and read, newest or at positions; order by key over all regions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from viewkeeper.store.contract import Store
from viewkeeper.store.regions import regions_of
from viewkeeper.testing.contract.support import (
    PAIRS,
    STOCK,
    Reopen,
    StoreFixtures,
    created,
    delete,
    everything,
    listed,
    put,
    region_rows,
    through_a_restart,
    update,
)

SHOPS = ["", "a", "ab", "b", "z\0", "z\0a", "é", "￿", "😀"]
ROWS = [(number, shop, item, None) for shop in SHOPS for number, item in enumerate((-3, 0, 1, 12))]


def _keys(store: Store, **bounds: Any) -> list[tuple[Any, ...]]:
    return [(shop, item) for _, shop, item, _ in listed(store.scan("stock", **bounds))]


ALL = [(shop, item) for _, shop, item, _ in ROWS]


class ReadContract(StoreFixtures):
    @pytest.fixture
    def stocked(self, store: Store) -> Store:
        created(store, STOCK)
        store.write([put(STOCK, *reversed(ROWS))])
        return store

    def test_get_finds_each_row_by_its_key(self, stocked: Store) -> None:
        for quantity, shop, item, price in ROWS:
            expected = {"quantity": quantity, "shop": shop, "item": item, "price": price}
            found = stocked.get("stock", (shop, item))
            assert found == expected
            assert list(found) == STOCK.schema.names
        assert stocked.get("stock", ["a", 2]) is None
        assert stocked.get("stock", ["c", 1]) is None

    def test_scan_gives_all_rows_in_key_order(self, stocked: Store) -> None:
        answer = stocked.scan("stock")
        assert listed(answer) == ROWS
        assert answer.schema.equals(STOCK.schema)

    def test_count_and_sum_over_all_regions(self, stocked: Store) -> None:
        assert stocked.count("stock") == len(ROWS)
        assert stocked.count("stock", weight="quantity") == sum(quantity for quantity, *_ in ROWS)
        stocked.write([delete(STOCK, *((shop, item) for _, shop, item, _ in ROWS))])
        assert (stocked.count("stock"), stocked.count("stock", weight="quantity")) == (0, 0)

    @pytest.mark.parametrize("bound", [("a",), ("ab", 1), ("aa",), ("aa", 5), ("z\0", 0), ("z",), ("😀", 13)])
    def test_start_is_included_and_stop_is_not(self, stocked: Store, bound: Sequence[Any]) -> None:
        bound = tuple(bound)
        assert _keys(stocked, start=bound) == [key for key in ALL if key >= bound]
        assert _keys(stocked, stop=bound) == [key for key in ALL if key[: len(bound)] < bound]
        assert _keys(stocked, start=bound, stop=("b", 1)) == [key for key in ALL if bound <= key < ("b", 1)]
        assert _keys(stocked, start=("ab",), stop=bound) == [key for key in ALL if ("ab",) <= key < bound]

    def test_an_empty_bound_is_no_bound(self, stocked: Store) -> None:
        assert _keys(stocked, start=(), stop=(), prefix=()) == ALL

    def test_prefix_keeps_what_begins_with_it(self, stocked: Store) -> None:
        for shop in [*SHOPS, "none"]:
            assert _keys(stocked, prefix=[shop]) == [key for key in ALL if key[0] == shop]
        assert _keys(stocked, prefix=("a", 1)) == [("a", 1)]
        assert _keys(stocked, prefix=("a", 2)) == []

    def test_prefix_start_stop_and_limit_hold_together(self, stocked: Store) -> None:
        assert _keys(stocked, prefix=("a",), start=("a", 0), stop=("a", 12)) == [("a", 0), ("a", 1)]
        assert _keys(stocked, prefix=("a",), start=("a", 0), limit=1) == [("a", 0)]
        assert _keys(stocked, prefix=("a",), start=("b",)) == []
        assert _keys(stocked, start=("b",), stop=("a",)) == []

    @pytest.mark.parametrize("limit", [0, 1, 5, 36, 100])
    def test_limit_keeps_the_first_rows(self, stocked: Store, limit: int) -> None:
        assert _keys(stocked, limit=limit) == ALL[:limit]

    def test_columns_are_those_asked_for_in_that_order(self, stocked: Store) -> None:
        answer = stocked.scan("stock", columns=["item", "quantity"], limit=2)
        assert listed(answer) == [(-3, 0), (0, 1)]
        assert answer.schema.equals(pa.schema([STOCK.schema.field("item"), STOCK.schema.field("quantity")]))
        batches = list(stocked.read("stock", 0, columns=["price", "shop"]))
        assert all(batch.schema.names == ["price", "shop"] for batch in batches)

    def test_each_region_reads_its_own_rows_in_key_order(self, stocked: Store) -> None:
        parts = [region_rows(stocked, STOCK, region) for region in range(3)]
        for region, part in enumerate(parts):
            assert set(regions_of(STOCK, part)) <= {region}
            keys = [(shop, item) for _, shop, item, _ in listed(part)]
            assert keys == sorted(keys)
        assert sorted(row[:3] for part in parts for row in listed(part)) == sorted(row[:3] for row in ROWS)

    def test_read_stays_at_one_position_while_others_write(self, store: Store, other: Store) -> None:
        created(store, PAIRS)
        store.write([put(PAIRS, *((k, "old") for k in range(6_000)))])
        reading = store.read("pairs", 0)
        batches = [next(reading)]
        other.write([put(PAIRS, *((k, "new") for k in range(6_000)))])
        batches += reading
        assert {value for batch in batches for value in batch["v"].to_pylist()} == {"old"}

    def test_every_position_can_be_read(self, store: Store, reopen: Reopen) -> None:
        created(store, PAIRS)
        seen = {store.positions("pairs"): everything(store, "pairs")}
        for mutations in (
            [put(PAIRS, *((k, "a") for k in range(8)))],
            [delete(PAIRS, (1,), (2,)), put(PAIRS, (3, "b"))],
            [put(PAIRS, (1, "again")), update(PAIRS, {"k": 3, "v": None})],
            [delete(PAIRS, *((k,) for k in (0, 1, 3, 4, 5, 6, 7)))],
            [put(PAIRS, (4, "c"))],
        ):
            store.write(mutations)
            seen[store.positions("pairs")] = everything(store, "pairs")
        for handle in through_a_restart(store, reopen):
            for at, rows in seen.items():
                self._check_snapshot(handle, at, rows)

    def _check_snapshot(self, store: Store, at: tuple[int, ...], rows: list[tuple[Any, ...]]) -> None:
        assert everything(store, "pairs", at) == rows
        assert store.count("pairs", at=at) == len(rows)
        assert store.count("pairs", weight="k", at=at) == sum(key for key, _ in rows)
        parts = [listed(region_rows(store, PAIRS, region, at[region])) for region in range(2)]
        assert sorted(row for part in parts for row in part) == rows
        by_key = dict(rows)
        for key in range(9):
            expected = {"k": key, "v": by_key[key]} if key in by_key else None
            assert store.get("pairs", [key], at=at) == expected
        bounded = store.scan("pairs", start=[2], stop=[6], limit=2, columns=["v"], at=at)
        assert listed(bounded) == [(value,) for key, value in rows if 2 <= key < 6][:2]

    def test_a_snapshot_holds_while_others_write(self, store: Store, other: Store) -> None:
        created(store, PAIRS)
        store.write([put(PAIRS, (1, "a"), (2, "b"))])
        at = store.positions("pairs")
        for number in range(4):
            other.write([put(PAIRS, (1, str(number)), (3, str(number)))])
            assert everything(store, "pairs", at) == [(1, "a"), (2, "b")]
        assert everything(store, "pairs") == [(1, "3"), (2, "b"), (3, "3")]
