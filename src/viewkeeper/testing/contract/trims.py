"""Trimming: what may go goes, what a group or a running epoch still needs stays, and who comes too late is told."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from viewkeeper.errors import SnapshotTooOld
from viewkeeper.store.contract import Store
from viewkeeper.testing.contract.support import (
    GROUP,
    PAIRS,
    TOTALS,
    Reopen,
    StoreFixtures,
    apply_all,
    changes,
    created,
    everything,
    keys_of,
    log_of,
    put,
    region_of,
    region_rows,
    run_epoch,
    same_region,
    through_a_restart,
)

KEY = same_region(PAIRS, 0, 1)[0]
HOME = region_of(TOTALS, "g")


def _later() -> float:
    """A time that everything written so far is older than, whatever the grain of the store's clock."""
    return time.time() + 60


def _three_writes(store: Store) -> None:
    for value in "abc":
        store.write([put(PAIRS, (KEY, value))])


class TrimContract(StoreFixtures):
    def test_trim_drops_what_nobody_needs(self, store: Store, reopen: Reopen) -> None:
        created(store, PAIRS)
        _three_writes(store)
        assert store.trim(_later()) == 3
        assert store.trim(_later()) == 0
        for handle in through_a_restart(store, reopen):
            assert handle.positions("pairs") == (3, 0)
            assert everything(handle, "pairs") == everything(handle, "pairs", (3, 0)) == [(KEY, "c")]
            assert log_of(handle, PAIRS, 0, after=3) == []

    def test_positions_go_on_after_a_trim(self, store: Store, reopen: Reopen) -> None:
        created(store, PAIRS)
        _three_writes(store)
        store.trim(_later())
        store = reopen()
        store.write([put(PAIRS, (KEY, "d"))])
        assert store.positions("pairs") == (4, 0)
        assert everything(store, "pairs", (3, 0)) == [(KEY, "c")]
        assert len(log_of(store, PAIRS, 0, after=3)) == 1

    def test_who_comes_too_late_is_told(self, store: Store, other: Store) -> None:
        created(store, PAIRS)
        _three_writes(store)
        other.trim(_later())
        with pytest.raises(SnapshotTooOld):
            everything(store, "pairs", (1, 0))
        with pytest.raises(SnapshotTooOld):
            store.get("pairs", [KEY], at=(1, 0))
        with pytest.raises(SnapshotTooOld):
            region_rows(store, PAIRS, 0, 2)
        with pytest.raises(SnapshotTooOld):
            store.probe("pairs", keys_of(PAIRS, [(KEY,)]), at=(2, 0))
        with pytest.raises(SnapshotTooOld):
            log_of(store, PAIRS, 0, after=0, upto=3)
        with pytest.raises(SnapshotTooOld):
            log_of(store, PAIRS, 0, after=2, upto=3)
        with pytest.raises(SnapshotTooOld):
            store.backlog("pairs", (2, 0), (3, 0))
        assert store.backlog("pairs", (2, 0), (3, 0), whole=False) == 0, "what is left of it"
        assert store.backlog("pairs", (2, 0), (2, 0)) == store.backlog("pairs", (3, 0), (3, 0)) == 0

    def test_trim_spares_what_is_younger(self, store: Store) -> None:
        created(store, PAIRS)
        store.write([put(PAIRS, (KEY, "a"))])
        time.sleep(0.02)
        between = time.time()
        time.sleep(0.02)
        store.write([put(PAIRS, (KEY, "b"))])
        assert store.trim(between - 60) == 0
        assert store.trim(between) == 1
        assert everything(store, "pairs", (1, 0)) == [(KEY, "a")]
        assert len(log_of(store, PAIRS, 0, after=1)) == 1

    def test_trim_spares_what_a_group_has_not_consumed(self, store: Store) -> None:
        created(store, PAIRS, TOTALS)
        _three_writes(store)
        run_epoch(store, TOTALS, changes(TOTALS), cut={"pairs": (2, 0)})
        assert store.trim(_later()) == 2
        assert everything(store, "pairs", (2, 0)) == [(KEY, "b")]
        assert len(log_of(store, PAIRS, 0, after=2)) == 1
        run_epoch(store, TOTALS, changes(TOTALS), cut={"pairs": (3, 0)})
        assert store.trim(_later()) == 1

    def test_a_running_epoch_has_consumed_nothing_yet(self, store: Store) -> None:
        created(store, PAIRS, TOTALS)
        _three_writes(store)
        run_epoch(store, TOTALS, changes(TOTALS), cut={"pairs": (1, 0)})
        store.begin(GROUP, {"pairs": (3, 0)}, 1)
        assert store.trim(_later()) == 1
        assert len(log_of(store, PAIRS, 0, after=1)) == 2

    def test_the_first_epoch_of_a_group_keeps_the_snapshot_it_reads(self, store: Store) -> None:
        created(store, PAIRS, TOTALS)
        _three_writes(store)
        store.begin(GROUP, {"pairs": (2, 0)}, 1)
        store.trim(_later())
        assert everything(store, "pairs", (2, 0)) == [(KEY, "b")]
        assert len(log_of(store, PAIRS, 0, after=2)) == 1

    def test_the_slowest_group_decides(self, store: Store) -> None:
        slow = replace(TOTALS, name="slow", group="slow")
        created(store, PAIRS, TOTALS, slow)
        _three_writes(store)
        run_epoch(store, TOTALS, changes(TOTALS), cut={"pairs": (3, 0)})
        run_epoch(store, slow, changes(slow), cut={"pairs": (1, 0)})
        assert store.trim(_later()) == 1

    def test_a_dropped_group_needs_nothing(self, store: Store) -> None:
        created(store, PAIRS, TOTALS)
        _three_writes(store)
        run_epoch(store, TOTALS, changes(TOTALS), cut={"pairs": (1, 0)})
        store.drop("totals")
        store.drop_group(GROUP)
        assert store.trim(_later()) == 3

    def test_a_maintained_table_keeps_what_its_readers_and_a_running_epoch_need(self, store: Store) -> None:
        created(store, TOTALS)
        for n in (1, 2, 3):
            run_epoch(store, TOTALS, changes(TOTALS, [("g", 1.0, n)]))
        running = store.begin(GROUP, {}, 1).epoch
        apply_all(store, TOTALS, changes(TOTALS, [("g", 1.0, 4)]), running)
        store.trim(_later())
        with pytest.raises(SnapshotTooOld):
            everything(store, "totals", (1, 1, 1))
        assert everything(store, "totals") == everything(store, "totals", (3, 3, 3)) == [("g", 1.0, 3)]
        assert everything(store, "totals", (4, 4, 4)) == [("g", 1.0, 4)]
        store.undo(GROUP, running, 1)
        assert everything(store, "totals", (4, 4, 4)) == [("g", 1.0, 3)]

    def test_a_maintained_table_keeps_what_another_group_reads(self, store: Store) -> None:
        upper = replace(TOTALS, name="upper", group="upper")
        created(store, TOTALS, upper)
        for n in (1, 2, 3):
            run_epoch(store, TOTALS, changes(TOTALS, [("g", 1.0, n)]))
        run_epoch(store, upper, changes(upper), cut={"totals": (1, 1, 1)})
        store.trim(_later())
        assert everything(store, "totals", (1, 1, 1)) == [("g", 1.0, 1)]
        assert len(log_of(store, TOTALS, HOME, after=1)) == 2
