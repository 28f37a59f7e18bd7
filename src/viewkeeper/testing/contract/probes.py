"""Probes: rows by whole keys and by beginnings of keys; all, first or last; NULL matches NULL."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from viewkeeper import names
from viewkeeper.store.contract import Pick, Store
from viewkeeper.testing.contract.support import (
    BY_PAIR,
    GROUP,
    STOCK,
    TOTALS,
    StoreFixtures,
    apply_all,
    changes,
    created,
    delete,
    everything,
    keys_of,
    listed,
    put,
    region_of,
    run_epoch,
)
from viewkeeper.testing.memory_values import rank

TRIPLES = [(a, b, c) for a in (None, -1, 1, 20) for b in (None, "", "x", "y\0") for c in (None, -5, 0, 7)]
FLOATS = [None, -math.inf, -0.0, 0.0, 1.5, math.inf, math.nan]


def _hits(answer: pa.Table) -> list[tuple[Any, ...]]:
    """The answer in one order: by probed key, then by row. The contract leaves the order of an answer open."""
    return sorted(listed(answer), key=rank)


def _expected(asked: list[tuple[Any, ...]], pick: Pick = Pick.ALL, rows: list[Any] = TRIPLES) -> list[tuple[Any, ...]]:
    kept = {Pick.ALL: slice(None), Pick.FIRST: slice(1), Pick.LAST: slice(-1, None)}[pick]
    return [
        (number, *row) for number, key in enumerate(asked) for row in [r for r in rows if r[: len(key)] == key][kept]
    ]


class ProbeContract(StoreFixtures):
    @pytest.fixture
    def indexed(self, store: Store) -> Store:
        created(store, BY_PAIR)
        run_epoch(store, BY_PAIR, changes(BY_PAIR, TRIPLES[::-1]))
        return store

    @pytest.mark.parametrize("pick", list(Pick))
    @pytest.mark.parametrize("length", [1, 2, 3])
    def test_probe_by_the_whole_key_or_its_beginning(self, indexed: Store, pick: Pick, length: int) -> None:
        """One column is less than the distribution, so every region must be asked; three are the whole key."""
        whole: list[tuple[Any, ...]] = [
            (20, "x", 7),
            (None, None, None),
            (3, "x", 0),
            (-1, "", -5),
            (1, "y\0", 1),
            (20, "x", 7),
            (1, "z", 0),
        ]
        asked = [key[:length] for key in whole]
        assert _hits(indexed.probe("by_pair", keys_of(BY_PAIR, asked), pick=pick)) == _expected(asked, pick)

    def test_probe_one_region_only(self, indexed: Store) -> None:
        asked = [(1,), (None,), (1,), (5,)]
        for region in range(3):
            rows = [row for row in TRIPLES if region_of(BY_PAIR, *row[:2]) == region]
            for pick in Pick:
                answer = indexed.probe("by_pair", keys_of(BY_PAIR, asked), pick=pick, region=region)
                assert _hits(answer) == _expected(asked, pick, rows)

    def test_probe_whole_keys_in_the_wrong_region_finds_nothing(self, indexed: Store) -> None:
        home = region_of(BY_PAIR, 1, "x")
        for region in range(3):
            answer = indexed.probe("by_pair", keys_of(BY_PAIR, [(1, "x", 0)]), region=region)
            assert answer.num_rows == int(region == home)

    def test_probe_gives_the_columns_asked_for(self, store: Store) -> None:
        created(store, STOCK)
        store.write([put(STOCK, (5, "a", 1, 1.5), (6, "a", 2, 2.5), (7, "b", 1, None))])
        answer = store.probe("stock", keys_of(STOCK, [("b",), ("a",)]), columns=["price", "item"])
        assert answer.schema.names == [names.PROBE, "price", "item"]
        assert _hits(answer) == [(0, None, 1), (1, 1.5, 1), (1, 2.5, 2)]
        whole = store.probe("stock", keys_of(STOCK, [("a", 2)]))
        assert whole.schema.names == [names.PROBE, *STOCK.schema.names]
        assert pa.types.is_integer(whole.schema.field(names.PROBE).type)
        assert [whole.schema.field(name).type for name in STOCK.schema.names] == STOCK.schema.types
        last = store.probe("stock", keys_of(STOCK, [("a",), ("b",)]), columns=["quantity"], pick=Pick.LAST)
        assert _hits(last) == [(0, 6), (1, 7)]

    def test_probe_for_nothing_gives_nothing(self, indexed: Store) -> None:
        for pick in Pick:
            answer = indexed.probe("by_pair", keys_of(BY_PAIR, []), pick=pick)
            assert answer.num_rows == 0
            assert answer.schema.names == [names.PROBE, "a", "b", "c"]

    def test_probe_takes_many_keys_at_once(self, store: Store) -> None:
        created(store, STOCK)
        store.write([put(STOCK, *((n, f"s{n % 50}", n, None) for n in range(2_000)))])
        asked = [(f"s{n % 60}", n) for n in range(3_000)]
        expected = [(n, n, f"s{n % 50}", n, None) for n in range(2_000) if n % 50 == n % 60]
        assert _hits(store.probe("stock", keys_of(STOCK, asked))) == expected
        firsts = store.probe("stock", keys_of(STOCK, [(f"s{n}",) for n in range(60)]), pick=Pick.FIRST)
        assert _hits(firsts) == [(n, n, f"s{n}", n, None) for n in range(50)]

    def test_probe_orders_numbers_as_spark_does(self, store: Store) -> None:
        created(store, TOTALS)
        run_epoch(store, TOTALS, changes(TOTALS, [("g", x, n) for n, x in enumerate(FLOATS)] + [(None, 2.0, 99)]))
        by_group = keys_of(TOTALS, [("g",), (None,), ("h",)])
        assert _hits(store.probe("totals", by_group, pick=Pick.FIRST)) == [(0, "g", None, 0), (1, None, 2.0, 99)]
        last = _hits(store.probe("totals", by_group, pick=Pick.LAST, columns=["n"]))
        assert last == [(0, len(FLOATS) - 1), (1, 99)]
        each = store.probe("totals", keys_of(TOTALS, [("g", x) for x in FLOATS]), columns=["n"])
        assert _hits(each) == [(n, n) for n in range(len(FLOATS))]

    @pytest.mark.parametrize("pick", list(Pick))
    def test_probe_at_older_positions(self, store: Store, pick: Pick) -> None:
        created(store, STOCK)
        history = []
        for mutations in (
            [put(STOCK, *((n, shop, n, None) for n in range(5) for shop in "abc"))],
            [delete(STOCK, ("a", 0), ("b", 4)), put(STOCK, (9, "c", 0, None), (9, "c", -1, None))],
            [delete(STOCK, *(("a", n) for n in range(1, 5))), put(STOCK, (9, "b", 7, None))],
            [put(STOCK, (1, "a", 3, None))],
        ):
            store.write(mutations)
            history.append((store.positions("stock"), everything(store, "stock")))
        for at, rows in history:
            by_key = [(row[1], row[2], row[0]) for row in rows]
            for asked in ([("a",), ("b",), ("d",), ("c",)], [("a", 0), ("b", 4), ("b", 7), ("c", -1), ("a", 3)]):
                answer = store.probe(
                    "stock", keys_of(STOCK, asked), pick=pick, columns=["shop", "item", "quantity"], at=at
                )
                assert _hits(answer) == _expected(asked, pick, by_key)

    def test_probe_sees_an_epoch_only_when_told_to(self, store: Store) -> None:
        created(store, TOTALS)
        run_epoch(store, TOTALS, changes(TOTALS, [("g", 2.0, 1), ("g", 3.0, 1)]))
        running = store.begin(GROUP, {}, 1).epoch
        apply_all(store, TOTALS, changes(TOTALS, [("g", 1.0, 1)], [("g", 3.0)]), running)
        asked, home = keys_of(TOTALS, [("g",)]), region_of(TOTALS, "g")
        for pick, old, new in ((Pick.FIRST, 2.0, 1.0), (Pick.LAST, 3.0, 2.0)):
            assert store.probe("totals", asked, pick=pick)["x"].to_pylist() == [old]
            assert store.probe("totals", asked, pick=pick, region=home, at=(1,) * 3)["x"].to_pylist() == [old]
            assert store.probe("totals", asked, pick=pick, region=home, at=(2,) * 3)["x"].to_pylist() == [new]
            assert store.probe("totals", asked, pick=pick, at=(0,) * 3).num_rows == 0
