"""Writes: put, update and delete; all or nothing; expectations; what changes nothing leaves no trace."""

from __future__ import annotations

import math
import threading
from dataclasses import replace

import pyarrow as pa
import pytest

from viewkeeper.errors import InputError, NotFound
from viewkeeper.store.contract import Store
from viewkeeper.testing.contract.support import (
    PAIRS,
    STOCK,
    TOTALS,
    Reopen,
    StoreFixtures,
    created,
    delete,
    everything,
    exact,
    expect,
    expect_absent,
    log_of,
    put,
    region_of,
    same_region,
    through_a_restart,
    update,
)


class WriteContract(StoreFixtures):
    def test_put_replaces_whole_rows(self, store: Store) -> None:
        created(store, STOCK)
        assert store.write([put(STOCK, (5, "b", 1, 1.5), (6, "a", 2, None))]) is True
        store.write([put(STOCK, (None, "b", 1, None))])
        assert everything(store, "stock") == [(6, "a", 2, None), (None, "b", 1, None)]

    def test_delete_removes_rows_and_skips_absent_ones(self, store: Store) -> None:
        created(store, PAIRS)
        store.write([put(PAIRS, (1, "a"), (2, "b"))])
        assert store.write([delete(PAIRS, (1,), (9,))]) is True
        assert everything(store, "pairs") == [(2, "b")]

    def test_update_changes_the_columns_it_carries(self, store: Store) -> None:
        created(store, STOCK)
        store.write([put(STOCK, (5, "b", 1, 1.5), (6, "a", 2, 2.5))])
        store.write([update(STOCK, {"item": 1, "price": None, "shop": "b"}, {"item": 2, "price": 0.5, "shop": "a"})])
        assert everything(store, "stock") == [(6, "a", 2, 0.5), (5, "b", 1, None)]

    @pytest.mark.parametrize(
        "again",
        [
            PAIRS.schema.set(1, pa.field("v", pa.int64())),
            PAIRS.schema.set(1, pa.field("v", pa.string(), nullable=False)),
            PAIRS.schema.set(1, pa.field("w", pa.string())),
            PAIRS.schema.append(pa.field("w", pa.string())),
            PAIRS.schema.remove(1),
            PAIRS.schema.set(0, pa.field("k", pa.int32(), nullable=False)),
        ],
        ids=["type", "not null", "name", "more", "fewer", "key's type"],
    )
    def test_rows_for_another_table_of_that_name_are_refused(
        self, store: Store, other: Store, again: pa.Schema
    ) -> None:
        """Nothing is cast, left out or filled up so that they fit."""
        created(store, PAIRS, STOCK)
        other.write([put(PAIRS, (1, "a"))])
        store.drop("pairs")
        store.create(replace(PAIRS, schema=again))
        for wrong in (put(PAIRS, (1, "7")), put(PAIRS, (1, None))):
            with pytest.raises(InputError, match='table "pairs" was made again meanwhile'):
                other.write([put(STOCK, (1, "s", 1, 1.0)), wrong])
        assert everything(store, "pairs") == everything(store, "stock") == []

    def test_keys_and_expectations_for_another_table_of_that_name_are_refused(self, store: Store, other: Store) -> None:
        created(store, PAIRS)
        other.write([put(PAIRS, (1, "a"))])
        store.drop("pairs")
        again = replace(PAIRS, key=("v",), distribution=("v",))
        store.create(again)
        store.write([put(again, (1, "a"))])
        for wrong in ([delete(PAIRS, (1,))], [update(PAIRS, {"k": 1})]):
            with pytest.raises(InputError, match='the table has a key column "v"'):
                other.write(wrong)
        for unknown in (expect(PAIRS, {"k": 1}), expect_absent(PAIRS, (2,))):
            with pytest.raises(InputError, match="made again meanwhile"):
                other.write([], [unknown])
        assert everything(other, "pairs") == [(1, "a")]
        assert other.write([delete(again, ("a",))], [expect(again, {"v": "a", "k": 1})]) is True

    def test_update_needs_the_row_or_nothing_is_done(self, store: Store) -> None:
        created(store, PAIRS, STOCK)
        store.write([put(PAIRS, (1, "a"))])
        with pytest.raises(NotFound):
            store.write([put(STOCK, (1, "s", 1, 1.0)), update(PAIRS, {"k": 1, "v": "x"}, {"k": 2, "v": "y"})])
        assert everything(store, "pairs") == [(1, "a")]
        assert everything(store, "stock") == []
        assert store.positions("stock") == (0, 0, 0)

    def test_a_write_is_one_step_over_tables_and_regions(self, store: Store, reopen: Reopen) -> None:
        created(store, PAIRS, STOCK)
        store.write([put(PAIRS, *((k, str(k)) for k in range(20))), put(STOCK, (1, "s", 1, 1.0))])
        store.write([delete(PAIRS, (3,)), put(PAIRS, (4, "four")), update(PAIRS, {"k": 5, "v": "five"})])
        for handle in through_a_restart(store, reopen):
            assert dict(everything(handle, "pairs")) == {k: str(k) for k in range(20) if k != 3} | {
                4: "four",
                5: "five",
            }
            assert everything(handle, "stock") == [(1, "s", 1, 1.0)]

    def test_a_write_counts_once_in_each_region_it_changes(self, store: Store) -> None:
        created(store, PAIRS)
        first, second, third = same_region(PAIRS, 0, 3)
        store.write([put(PAIRS, (first, "a"), (second, "b"))])
        store.write([put(PAIRS, (first, "c")), delete(PAIRS, (second,)), put(PAIRS, (third, "d"))])
        assert store.positions("pairs") == (2, 0)
        store.write([put(PAIRS, (same_region(PAIRS, 1, 1)[0], "e"))])
        assert store.positions("pairs") == (2, 1)

    def test_a_write_in_part_impossible_is_not_done_at_all(self, store: Store) -> None:
        created(store, PAIRS)
        with pytest.raises(NotFound):
            store.write([put(PAIRS, (1, "a")), put(STOCK, (1, "s", 1, 1.0))])
        assert everything(store, "pairs") == []
        assert store.positions("pairs") == (0, 0)

    def test_nothing_to_write_is_written(self, store: Store) -> None:
        created(store, PAIRS)
        assert store.write([]) is True
        assert store.write([put(PAIRS)]) is True
        assert store.positions("pairs") == (0, 0)

    def test_what_changes_nothing_leaves_no_trace(self, store: Store) -> None:
        created(store, STOCK)
        rows = [(None, "s", 1, math.nan), (1, "s", 2, -0.0), (2, "s", 3, None)]
        store.write([put(STOCK, *rows)])
        store.write([put(STOCK, *rows[:2]), update(STOCK, {"shop": "s", "item": 3, "price": None})])
        store.write([delete(STOCK, ("s", 9), ("t", 1))])
        store.write([update(STOCK, {"shop": "s", "item": 1}), put(STOCK, *rows[1:])])
        home = region_of(STOCK, "s")
        assert store.positions("stock") == tuple(int(region == home) for region in range(3))
        assert len(log_of(store, STOCK, home)) == 3

    def test_only_the_rows_that_change_are_logged(self, store: Store) -> None:
        created(store, STOCK)
        store.write([put(STOCK, (1, "s", 1, 0.0), (1, "s", 2, 0.0))])
        store.write([put(STOCK, (1, "s", 1, -0.0), (1, "s", 2, 0.0)), delete(STOCK, ("s", 3))])
        home = region_of(STOCK, "s")
        assert [change["item"] for change in log_of(store, STOCK, home, after=1)] == [1]
        assert math.copysign(1.0, store.scan("stock")["price"][0].as_py()) == -1.0

    def test_an_expectation_that_holds_lets_the_write_through(self, store: Store) -> None:
        created(store, STOCK, PAIRS)
        store.write([put(STOCK, (1, "s", 1, math.nan), (None, "s", 2, 2.0)), put(PAIRS, (1, "a"))])
        believed = [
            expect(STOCK, {"quantity": 1, "shop": "s", "item": 1, "price": math.nan}),
            expect(STOCK, {"shop": "s", "item": 1}, {"shop": "s", "item": 2}),
            expect(STOCK, {"shop": "s", "item": 2, "quantity": None}),
            expect_absent(STOCK, ("s", 3), ("t", 1)),
            expect(PAIRS, {"v": "a", "k": 1}),
        ]
        assert store.write([put(PAIRS, (2, "b"))], believed) is True
        assert store.write([], believed) is True
        assert everything(store, "pairs") == [(1, "a"), (2, "b")]

    def test_an_expectation_that_fails_does_nothing(self, store: Store) -> None:
        created(store, STOCK, PAIRS)
        store.write([put(STOCK, (1, "s", 1, 0.0), (None, "s", 2, None)), put(PAIRS, (1, "a"))])
        before = store.cut(["stock", "pairs"])
        for wrong in (
            expect(STOCK, {"shop": "s", "item": 1, "quantity": 2}),
            expect(STOCK, {"shop": "s", "item": 1, "quantity": None}),
            expect(STOCK, {"shop": "s", "item": 2, "quantity": 0}),
            expect(STOCK, {"shop": "s", "item": 1, "price": -0.0}),
            expect(STOCK, {"shop": "s", "item": 1}, {"shop": "s", "item": 3}),
            expect_absent(STOCK, ("s", 9), ("s", 2)),
        ):
            mutations = [put(PAIRS, (1, "z"), (2, "b")), delete(STOCK, ("s", 1))]
            assert store.write(mutations, [expect(PAIRS, {"k": 1, "v": "a"}), wrong]) is False
        assert store.cut(["stock", "pairs"]) == before
        assert everything(store, "pairs") == [(1, "a")]
        assert store.scan("stock").num_rows == 2

    def test_expectations_judge_what_was_there_before_the_write(self, store: Store) -> None:
        created(store, PAIRS)
        assert store.write([put(PAIRS, (1, "a"))], [expect_absent(PAIRS, (1,)), expect_absent(PAIRS, (1,))]) is True
        assert (
            store.write([put(PAIRS, (1, "b"))], [expect(PAIRS, {"k": 1}), expect(PAIRS, {"k": 1, "v": "b"})]) is False
        )
        assert store.write([delete(PAIRS, (1,))], [expect(PAIRS, {"k": 1}), expect(PAIRS, {"k": 1, "v": "a"})]) is True
        assert everything(store, "pairs") == []

    def test_a_failing_expectation_comes_before_a_missing_row(self, store: Store) -> None:
        created(store, PAIRS)
        assert store.write([update(PAIRS, {"k": 1, "v": "x"})], [expect(PAIRS, {"k": 1})]) is False

    def test_only_epochs_write_maintained_tables(self, store: Store) -> None:
        created(store, TOTALS, PAIRS)
        with pytest.raises(InputError):
            store.write([put(PAIRS, (1, "a")), put(TOTALS, ("g", 1.0, 1))])
        assert everything(store, "totals") == []
        assert everything(store, "pairs") == []

    def test_other_handles_see_a_write_when_it_returns(self, store: Store, other: Store) -> None:
        created(store, PAIRS)
        for number in range(5):
            store.write([put(PAIRS, (1, f"mine {number}"))])
            assert other.get("pairs", [1]) == {"k": 1, "v": f"mine {number}"}
            other.write([put(PAIRS, (1, f"yours {number}"))])
            assert store.get("pairs", [1]) == {"k": 1, "v": f"yours {number}"}

    def test_a_large_write_is_one_write(self, store: Store) -> None:
        created(store, STOCK)
        rows = [(number, f"shop {number % 7}", number, number / 4) for number in range(4_000)]
        store.write([put(STOCK, *rows)])
        assert set(store.positions("stock")) <= {0, 1}
        assert len(exact(store.scan("stock"))) == 4_000
        assert sorted(everything(store, "stock")) == rows

    def test_test_and_set_loses_no_update(self, store: Store, other: Store) -> None:
        created(store, PAIRS)
        store.write([put(PAIRS, (1, "0"))])

        def count(handle: Store) -> None:
            done = 0
            while done < 15:
                seen = (handle.get("pairs", [1]) or {})["v"]
                done += handle.write([put(PAIRS, (1, str(int(seen) + 1)))], [expect(PAIRS, {"k": 1, "v": seen})])

        threads = [threading.Thread(target=count, args=(handle,)) for handle in (store, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert store.get("pairs", [1]) == {"k": 1, "v": "30"}
        assert store.positions("pairs")[region_of(PAIRS, 1)] == 31
