"""Logs: what they hold, that they and the rows tell the same story, and cuts that no transaction is half inside of."""

from __future__ import annotations

import itertools
import threading
import time

import pyarrow as pa

from viewkeeper import names
from viewkeeper.store.changes import positioned_log_schema, rows_after, rows_before
from viewkeeper.store.contract import Store
from viewkeeper.testing.contract.support import (
    GROUP,
    PAIRS,
    STOCK,
    TOTALS,
    Reopen,
    StoreFixtures,
    apply_all,
    changes,
    created,
    delete,
    everything,
    exact,
    listed,
    log_of,
    put,
    region_of,
    region_rows,
    replayed,
    run_epoch,
    same_region,
    through_a_restart,
    update,
)

ONE, TWO, THREE = same_region(PAIRS, 0, 3)


def _write_history(store: Store) -> None:
    """Five writes; the fourth changes nothing."""
    store.write([put(PAIRS, (ONE, "a"), (TWO, None))])
    store.write([update(PAIRS, {"k": ONE, "v": "b"}), put(PAIRS, (THREE, "c"))])
    store.write([delete(PAIRS, (TWO,))])
    store.write([delete(PAIRS, (TWO,))])
    store.write([put(PAIRS, (TWO, "d")), delete(PAIRS, (ONE,))])


class LogContract(StoreFixtures):
    def test_the_log_has_each_change_with_before_and_after(self, store: Store, reopen: Reopen) -> None:
        created(store, PAIRS)
        _write_history(store)
        expected = [
            (1, ONE, False, True, None, "a"),
            (1, TWO, False, True, None, None),
            (2, ONE, True, True, "a", "b"),
            (2, THREE, False, True, None, "c"),
            (3, TWO, True, False, None, None),
            (4, ONE, True, False, "b", None),
            (4, TWO, False, True, None, "d"),
        ]
        for handle in through_a_restart(store, reopen):
            batches = list(handle.log("pairs", 0, 0, 4))
            assert all(batch.schema.equals(positioned_log_schema(PAIRS)) for batch in batches)
            log = pa.Table.from_batches(batches)
            assert log[names.POSITION].to_pylist() == [1, 1, 2, 2, 3, 4, 4]
            assert sorted(listed(log), key=lambda change: change[:2]) == expected
            assert sorted(listed(rows_before(PAIRS, log))) == [(ONE, "a"), (ONE, "b"), (TWO, None)]
            assert rows_after(PAIRS, log).num_rows == 5

    def test_the_log_is_read_after_one_position_up_to_another(self, store: Store) -> None:
        created(store, PAIRS)
        _write_history(store)
        for after in range(5):
            for upto in range(after, 6):
                positions = [change[names.POSITION] for change in log_of(store, PAIRS, 0, after, upto)]
                assert positions == [p for p in (1, 1, 2, 2, 3, 4, 4) if after < p <= upto]
        assert log_of(store, PAIRS, 1, 0, 9) == []

    def test_the_log_from_any_snapshot_leads_to_any_later_one(self, store: Store) -> None:
        created(store, PAIRS)
        _write_history(store)
        for after in range(5):
            begin = region_rows(store, PAIRS, 0, after).to_pylist()
            for upto in range(after, 5):
                end = exact(region_rows(store, PAIRS, 0, upto))
                assert replayed(PAIRS, log_of(store, PAIRS, 0, after, upto), begin) == end
        assert exact(region_rows(store, PAIRS, 0, 4)) == exact(region_rows(store, PAIRS, 0))

    def test_a_log_of_many_changes_comes_whole(self, store: Store) -> None:
        created(store, STOCK)
        for offset in (0, 2_000):
            store.write([put(STOCK, *((offset, "s", n, None) for n in range(offset, 3_000 + offset)))])
        home = region_of(STOCK, "s")
        log = log_of(store, STOCK, home)
        assert [change[names.POSITION] for change in log] == [1] * 3_000 + [2] * 3_000
        assert replayed(STOCK, log) == exact(store.scan("stock"))

    def test_backlog_counts_changes_and_not_writes(self, store: Store) -> None:
        created(store, PAIRS)
        _write_history(store)
        store.write([put(PAIRS, *((k, "z") for k in same_region(PAIRS, 1, 3)))])
        assert store.positions("pairs") == (4, 1)
        assert store.backlog("pairs", (0, 0), (4, 1)) == 10
        assert store.backlog("pairs", (0, 1), (4, 1)) == 7
        assert store.backlog("pairs", (1, 0), (3, 1)) == 6
        assert store.backlog("pairs", (4, 1), (4, 1)) == 0

    def test_the_oldest_change_after_a_position_has_its_time(self, store: Store) -> None:
        created(store, PAIRS)
        assert store.oldest("pairs", (0, 0)) is None
        times = []
        for value in "ab":
            times.append(time.time())
            store.write([put(PAIRS, (ONE, value))])
        times.append(time.time())
        assert store.positions("pairs") == (2, 0)
        for position in (0, 1):
            found = store.oldest("pairs", (position, 0))
            assert found is not None
            assert times[position] - 0.001 <= found <= times[position + 1] + 0.001
        assert store.oldest("pairs", (2, 0)) is None

    def test_a_cut_holds_everything_acknowledged(self, store: Store, other: Store) -> None:
        created(store, PAIRS, STOCK)
        for number in range(5):
            store.write([put(PAIRS, (number, "a"))])
            assert other.cut(["pairs", "stock"]) == {"pairs": store.positions("pairs"), "stock": (0, 0, 0)}
        assert store.cut([]) == {}
        assert dict(store.cut(["pairs"])) == {"pairs": store.positions("pairs")}

    def test_a_cut_of_a_maintained_table_ends_at_the_committed_epoch(self, store: Store) -> None:
        created(store, TOTALS)
        run_epoch(store, TOTALS, changes(TOTALS, [("g", 1.0, 1)]))
        running = store.begin(GROUP, {}, 1).epoch
        apply_all(store, TOTALS, changes(TOTALS, [("g", 2.0, 1), ("h", 1.0, 1)]), running)
        cut = store.cut(["totals"])["totals"]
        assert max(cut) == 1
        assert everything(store, "totals", cut) == [("g", 1.0, 1)]
        store.commit(GROUP, running, 1)
        assert everything(store, "totals", store.cut(["totals"])["totals"]) == everything(store, "totals")
        assert len(everything(store, "totals")) == 3

    def test_no_transaction_is_half_inside_a_cut(self, store: Store, other: Store) -> None:
        """Each write puts the same number under one key of both tables, so at a cut the tables agree."""
        created(store, PAIRS, STOCK)
        failures: list[BaseException] = []
        threads = [
            threading.Thread(target=_guarded, args=(failures, handle, first))
            for handle, first in ((store, 0), (other, 100))
        ]
        for thread in threads:
            thread.start()
        cuts = [dict(store.cut(["pairs", "stock"]))]
        while any(thread.is_alive() for thread in threads):
            cuts.append(dict(store.cut(["stock", "pairs"])))
        for thread in threads:
            thread.join()
        assert not failures
        for cut in [*cuts[:: len(cuts) // 20 + 1], dict(store.cut(["pairs", "stock"]))]:
            pairs = {k: int(v) for k, v in everything(store, "pairs", cut["pairs"])}
            assert pairs == {item: number for number, _, item, _ in everything(store, "stock", cut["stock"])}
        assert _only_grow(cuts)

    def test_concurrent_writes_are_numbered_one_by_one(self, store: Store, other: Store) -> None:
        created(store, PAIRS, STOCK)
        failures: list[BaseException] = []
        threads = [threading.Thread(target=_guarded, args=(failures, h, n)) for h, n in ((store, 0), (other, 100))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        for region, newest in enumerate(store.positions("pairs")):
            log = log_of(store, PAIRS, region)
            assert [change[names.POSITION] for change in log] == list(range(1, newest + 1))
            assert replayed(PAIRS, log) == exact(region_rows(store, PAIRS, region))


def _guarded(failures: list[BaseException], store: Store, first: int) -> None:
    """Twenty writes over two tables and all regions; what goes wrong in the thread is told to the test."""
    try:
        for number in range(first, first + 20):
            key = number % 4
            store.write([put(PAIRS, (key, str(number))), put(STOCK, (number, "abcd"[key], key, None))])
    except BaseException as error:
        failures.append(error)
        raise


def _only_grow(cuts: list[dict[str, tuple[int, ...]]]) -> bool:
    flat = [(*cut["pairs"], *cut["stock"]) for cut in cuts]
    return all(low <= high for one, two in itertools.pairwise(flat) for low, high in zip(one, two, strict=True))
