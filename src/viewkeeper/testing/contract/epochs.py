"""Epochs: invisible until committed, applied once however often, taken back without a trace."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pyarrow as pa
import pytest

from viewkeeper import names
from viewkeeper.errors import Fenced, InputError, NotFound
from viewkeeper.store.contract import Applied, EpochRecord, GroupState, Kind, Store
from viewkeeper.store.regions import regions_of
from viewkeeper.testing.contract.support import (
    BY_PAIR,
    GROUP,
    TOTALS,
    Reopen,
    StoreFixtures,
    apply_all,
    changes,
    created,
    everything,
    exact,
    listed,
    log_of,
    region_of,
    region_rows,
    replayed,
    run_epoch,
    through_a_restart,
)

NONE, G, H = None, "g", "h"
FIRST = [(NONE, None, 1), (G, -0.0, 2), (G, 0.0, 3), (G, 1.0, 4), (H, float("inf"), 5)]
HOME = region_of(TOTALS, G)


def _at(epoch: int) -> tuple[int, ...]:
    return (epoch,) * TOTALS.regions


class EpochContract(StoreFixtures):
    @pytest.fixture
    def kept(self, store: Store) -> Store:
        """A view and an index of one group."""
        return created(store, TOTALS, BY_PAIR)

    def test_a_group_begins_at_epoch_zero(self, store: Store, reopen: Reopen) -> None:
        with pytest.raises(NotFound):
            store.group(GROUP)
        store.create_group("zebra")
        store.create_group(GROUP)
        for handle in through_a_restart(store, reopen):
            assert handle.group(GROUP) == GroupState(GROUP, EpochRecord(0, {}))
            assert [state.name for state in handle.groups()] == [GROUP, "zebra"]

    def test_making_a_group_again_changes_nothing(self, kept: Store) -> None:
        run_epoch(kept, TOTALS, changes(TOTALS, FIRST), cut={"pairs": (4, 2)})
        kept.create_group(GROUP)
        assert kept.group(GROUP) == GroupState(GROUP, EpochRecord(1, {"pairs": (4, 2)}))
        assert exact(kept.scan("totals")) == exact(pa.table(changes(TOTALS, FIRST).drop_columns([names.HAS])))

    def test_a_group_is_forgotten_once_its_tables_are_gone(self, kept: Store) -> None:
        run_epoch(kept, TOTALS, changes(TOTALS, FIRST))
        with pytest.raises(InputError):
            kept.drop_group(GROUP)
        kept.drop("totals")
        kept.drop("by_pair")
        kept.drop_group(GROUP)
        assert kept.groups() == []
        with pytest.raises(NotFound):
            kept.group(GROUP)

    def test_epochs_count_from_one_and_remember_their_cuts(self, kept: Store, reopen: Reopen) -> None:
        for epoch in (1, 2, 3):
            cut = {"pairs": (epoch, 0), "stock": (0, epoch, 7)}
            assert kept.begin(GROUP, cut, 1) == EpochRecord(epoch, cut)
            kept.commit(GROUP, epoch, 1)
        state = reopen().group(GROUP)
        assert state == GroupState(GROUP, EpochRecord(3, {"pairs": (3, 0), "stock": (0, 3, 7)}))

    def test_a_running_epoch_goes_on(self, kept: Store, other: Store, reopen: Reopen) -> None:
        running = kept.begin(GROUP, {"pairs": (1, 2)}, 1)
        assert other.begin(GROUP, {"pairs": (8, 9)}, 2) == running == EpochRecord(1, {"pairs": (1, 2)})
        store = reopen()
        assert store.group(GROUP) == GroupState(GROUP, EpochRecord(0, {}), running)
        assert store.begin(GROUP, {"pairs": (9, 9)}, 3) == running

    def test_an_epoch_is_invisible_until_it_is_committed(self, kept: Store, other: Store) -> None:
        running = kept.begin(GROUP, {}, 1).epoch
        apply_all(kept, TOTALS, changes(TOTALS, FIRST), running)
        apply_all(kept, BY_PAIR, changes(BY_PAIR, [(1, "x", 1)]), running)
        for handle in (kept, other):
            assert everything(handle, "totals") == everything(handle, "by_pair") == []
            assert handle.get("totals", [G, 1.0]) is None
            assert region_rows(handle, TOTALS, HOME).num_rows == 0
            assert everything(handle, "totals", _at(0)) == []
            assert everything(handle, "totals", _at(running)) == FIRST
            assert handle.get("totals", [G, 1.0], at=_at(running)) == {"g": G, "x": 1.0, "n": 4}
            assert region_rows(handle, TOTALS, HOME, running).num_rows >= 3
        kept.commit(GROUP, running, 1)
        for handle in (kept, other):
            assert everything(handle, "totals") == FIRST
            assert everything(handle, "by_pair") == [(1, "x", 1)]
            assert handle.get("totals", [None, None]) == {"g": None, "x": None, "n": 1}

    def test_apply_tells_what_it_did(self, kept: Store) -> None:
        run_epoch(kept, TOTALS, changes(TOTALS, [(G, float(n), n) for n in range(4)]))
        running = kept.begin(GROUP, {}, 1).epoch
        puts = [(G, 0.0, 0), (G, 1.0, 10), (G, 7.0, 7), (G, 8.0, 8)]
        answer = kept.apply("totals", HOME, changes(TOTALS, puts, [(G, 2.0), (G, 99.0)]), running, 1)
        assert answer == Applied(inserted=2, updated=1, deleted=1)
        log = log_of(kept, TOTALS, HOME, after=1)
        assert len(log) == 4
        assert {change[names.POSITION] for change in log} == {running}
        assert kept.positions("totals")[HOME] == running

    def test_applying_twice_is_applying_once(self, kept: Store, other: Store, reopen: Reopen) -> None:
        running = kept.begin(GROUP, {}, 1).epoch
        part = changes(TOTALS, [(G, 1.0, 1), (G, 2.0, 2)])
        first = kept.apply("totals", HOME, part, running, 1)
        assert first == Applied(2, 0, 0)
        assert other.apply("totals", HOME, part, running, 1) == first
        assert other.apply("totals", HOME, changes(TOTALS, [(G, 9.0, 9)], [(G, 1.0)]), running, 2) == first
        store = reopen()
        assert store.apply("totals", HOME, changes(TOTALS), running, 3) == first
        store.commit(GROUP, running, 3)
        assert everything(store, "totals") == [(G, 1.0, 1), (G, 2.0, 2)]
        assert len(log_of(store, TOTALS, HOME)) == 2

    def test_an_apply_that_changed_nothing_counts_as_applied(self, kept: Store) -> None:
        run_epoch(kept, TOTALS, changes(TOTALS, [(G, 1.0, 1)]))
        running = kept.begin(GROUP, {}, 1).epoch
        nothing = changes(TOTALS, [(G, 1.0, 1)], [(G, 5.0)])
        assert kept.apply("totals", HOME, nothing, running, 1) == Applied(0, 0, 0)
        assert kept.apply("totals", HOME, changes(TOTALS, [(G, 7.0, 7)]), running, 1) == Applied(0, 0, 0)
        kept.commit(GROUP, running, 1)
        assert everything(kept, "totals") == [(G, 1.0, 1)]
        assert log_of(kept, TOTALS, HOME, after=1, upto=running) == []

    def test_an_epoch_that_is_not_running_cannot_be_applied(self, kept: Store) -> None:
        part = changes(TOTALS, [(G, 9.0, 9)])
        with pytest.raises(Fenced):
            kept.apply("totals", HOME, part, 1, 1)
        run_epoch(kept, TOTALS, changes(TOTALS, [(G, 1.0, 1)]))
        running = kept.begin(GROUP, {}, 1).epoch
        for wrong in (0, running + 1):
            with pytest.raises(Fenced):
                kept.apply("totals", HOME, part, wrong, 1)
        kept.commit(GROUP, running, 1)
        with pytest.raises(Fenced):
            kept.apply("totals", HOME, part, running + 1, 1)
        assert everything(kept, "totals") == [(G, 1.0, 1)]
        assert len(log_of(kept, TOTALS, HOME)) == 1

    def test_a_late_task_changes_nothing_after_the_commit(self, kept: Store) -> None:
        """Whether it gets the old answer or is told to stop, a task that comes after the commit must not write."""
        run_epoch(kept, TOTALS, changes(TOTALS, [(G, 1.0, 1)]))
        for region in range(TOTALS.regions):
            late = changes(TOTALS, [("late", 2.0, 2)])
            with contextlib.suppress(Fenced):
                answer = kept.apply("totals", region, late, 1, 1)
                assert (region, answer) == (HOME, Applied(1, 0, 0))
        assert everything(kept, "totals") == everything(kept, "totals", _at(9)) == [(G, 1.0, 1)]

    def test_a_late_task_of_an_undone_epoch_finds_nothing_to_write_to(self, kept: Store) -> None:
        first = kept.begin(GROUP, {}, 1)
        kept.undo(GROUP, first.epoch, 1)
        part = changes(TOTALS, [(G, 1.0, 1)])
        with pytest.raises(Fenced):
            kept.apply("totals", HOME, part, first.epoch, 1)
        again = kept.begin(GROUP, {}, 1)
        with pytest.raises(Fenced):
            kept.apply("totals", HOME, part, first.epoch, 1)
        with pytest.raises(Fenced):
            kept.commit(GROUP, first.epoch, 1)
        assert everything(kept, "totals", _at(again.epoch)) == []

    def test_an_epoch_need_not_change_every_region_or_table(self, kept: Store) -> None:
        run_epoch(kept, TOTALS, changes(TOTALS, FIRST))
        run_epoch(kept, BY_PAIR, changes(BY_PAIR, [(1, "x", 1)]))
        run_epoch(kept, TOTALS, changes(TOTALS, [(G, 5.0, 5)]))
        kept.commit(GROUP, kept.begin(GROUP, {}, 1).epoch, 1)
        assert kept.group(GROUP).committed.epoch == 4
        later = [(NONE, None, 1), (G, -0.0, 2), (G, 0.0, 3), (G, 1.0, 4), (G, 5.0, 5), (H, float("inf"), 5)]
        for epoch, rows in enumerate([[], FIRST, FIRST, later, later]):
            assert everything(kept, "totals", _at(epoch)) == rows
        assert everything(kept, "totals") == later
        assert everything(kept, "by_pair") == [(1, "x", 1)]
        assert kept.positions("totals")[HOME] == 3

    def test_older_epochs_stay_readable(self, kept: Store, reopen: Reopen) -> None:
        seen = [everything(kept, "totals")]
        for n in range(1, 6):
            deletes = [(G, float(n - 2))] if n > 2 else []
            run_epoch(kept, TOTALS, changes(TOTALS, [(G, float(n), n), (None, 0.0, n)], deletes))
            seen.append(everything(kept, "totals"))
        for handle in through_a_restart(kept, reopen):
            for epoch, rows in enumerate(seen):
                assert everything(handle, "totals", _at(epoch)) == rows
            for region in range(3):
                assert replayed(TOTALS, log_of(handle, TOTALS, region)) == exact(region_rows(handle, TOTALS, region))

    def test_commit_twice_is_commit_once(self, kept: Store) -> None:
        epoch = run_epoch(kept, TOTALS, changes(TOTALS, FIRST), cut={"pairs": (1, 1)})
        kept.commit(GROUP, epoch, 1)
        running = kept.begin(GROUP, {"pairs": (2, 2)}, 1)
        kept.commit(GROUP, epoch, 1)
        assert kept.group(GROUP) == GroupState(GROUP, EpochRecord(1, {"pairs": (1, 1)}), running)
        with pytest.raises(Fenced):
            kept.commit(GROUP, running.epoch + 1, 1)

    def test_undo_leaves_no_trace(self, kept: Store, other: Store) -> None:
        run_epoch(kept, TOTALS, changes(TOTALS, FIRST), cut={"pairs": (1, 1)})
        before = (kept.positions("totals"), kept.positions("by_pair"), kept.group(GROUP))
        running = kept.begin(GROUP, {"pairs": (2, 2)}, 1).epoch
        apply_all(
            kept, TOTALS, changes(TOTALS, [(G, 1.0, 40), ("new", 1.0, 1)], [(H, float("inf")), (None, None)]), running
        )
        apply_all(kept, BY_PAIR, changes(BY_PAIR, [(1, "x", 1)]), running)
        other.undo(GROUP, running, 1)
        other.undo(GROUP, running, 1)
        assert (kept.positions("totals"), kept.positions("by_pair"), kept.group(GROUP)) == before
        for at in (None, _at(1), _at(2)):
            assert everything(kept, "totals", at) == FIRST
            assert everything(kept, "by_pair", at) == []
        assert all(log_of(kept, TOTALS, region, after=1, upto=9) == [] for region in range(3))

    def test_an_undone_epoch_is_run_again_with_other_content(self, kept: Store, reopen: Reopen) -> None:
        first = kept.begin(GROUP, {"pairs": (1, 1)}, 1)
        apply_all(kept, TOTALS, changes(TOTALS, FIRST), first.epoch)
        store = reopen()
        store.undo(GROUP, first.epoch, 1)
        again = store.begin(GROUP, {"pairs": (2, 2)}, 1)
        assert again.cut == {"pairs": (2, 2)}
        assert again.epoch > first.epoch
        assert store.apply("totals", HOME, changes(TOTALS, [(G, 7.0, 7)]), again.epoch, 1) == Applied(1, 0, 0)
        store.commit(GROUP, again.epoch, 1)
        assert everything(store, "totals") == [(G, 7.0, 7)]
        assert len(log_of(store, TOTALS, HOME)) == 1

    def test_what_is_withdrawn_from_a_table_stays_away(self, kept: Store, other: Store) -> None:
        run_epoch(kept, TOTALS, changes(TOTALS, FIRST))
        running = kept.begin(GROUP, {}, 1).epoch
        news = changes(TOTALS, [(G, 1.0, 40), ("new", 1.0, 1)], [(H, float("inf")), (None, None)])
        regions = regions_of(TOTALS, news)
        kept.apply("totals", HOME, news.filter(pa.array(regions == HOME)), running, 1)
        apply_all(kept, BY_PAIR, changes(BY_PAIR, [(1, "x", 1)]), running)
        other.withdraw("totals", running, 1)
        other.withdraw("totals", running, 1)
        apply_all(kept, TOTALS, news, running)
        kept.commit(GROUP, running, 1)
        for at in (None, _at(1), _at(2)):
            assert everything(other, "totals", at) == FIRST
        assert everything(other, "by_pair") == [(1, "x", 1)], "another table of the epoch"
        assert all(log_of(kept, TOTALS, region, after=1, upto=9) == [] for region in range(3))
        run_epoch(kept, TOTALS, changes(TOTALS, [(G, 7.0, 7)]))
        assert (G, 7.0, 7) in everything(other, "totals")

    def test_an_epoch_with_something_withdrawn_can_be_undone(self, kept: Store) -> None:
        run_epoch(kept, TOTALS, changes(TOTALS, FIRST))
        before = kept.positions("totals")
        running = kept.begin(GROUP, {}, 1).epoch
        apply_all(kept, TOTALS, changes(TOTALS, [(G, 1.0, 40)]), running)
        kept.withdraw("totals", running, 1)
        kept.undo(GROUP, running, 1)
        assert kept.positions("totals") == before
        assert everything(kept, "totals") == FIRST

    def test_only_a_running_epoch_is_withdrawn(self, kept: Store) -> None:
        run_epoch(kept, TOTALS, changes(TOTALS, FIRST))
        with pytest.raises(Fenced):
            kept.withdraw("totals", 1, 1)
        kept.begin(GROUP, {}, 1)
        kept.fence(GROUP, 2)
        with pytest.raises(Fenced):
            kept.withdraw("totals", 2, 1)
        assert everything(kept, "totals") == FIRST

    def test_undo_does_nothing_to_what_is_not_running(self, kept: Store) -> None:
        run_epoch(kept, TOTALS, changes(TOTALS, FIRST))
        kept.undo(GROUP, 1, 1)
        kept.undo(GROUP, 2, 1)
        running = kept.begin(GROUP, {}, 1)
        kept.undo(GROUP, 1, 1)
        assert kept.group(GROUP).running == running
        assert everything(kept, "totals") == FIRST

    def test_a_half_applied_epoch_is_finished_by_another(self, kept: Store, reopen: Reopen) -> None:
        all_changes = changes(TOTALS, FIRST)
        regions = regions_of(TOTALS, all_changes)
        running = kept.begin(GROUP, {}, 1).epoch
        kept.apply("totals", HOME, all_changes.filter(pa.array(regions == HOME)), running, 1)
        store = reopen()
        assert everything(store, "totals") == []
        apply_all(store, TOTALS, all_changes, store.begin(GROUP, {"other": (1,)}, 2).epoch, term=2)
        store.commit(GROUP, running, 2)
        assert everything(store, "totals") == FIRST

    def test_groups_do_not_meet(self, store: Store) -> None:
        side = replace(TOTALS, name="side", group="side", kind=Kind.INDEX)
        created(store, TOTALS, side)
        run_epoch(store, TOTALS, changes(TOTALS, FIRST))
        running = store.begin("side", {}, 1).epoch
        apply_all(store, side, changes(side, [(G, 1.0, 1)]), running)
        store.commit(GROUP, store.begin(GROUP, {}, 1).epoch, 1)
        assert everything(store, "side") == []
        store.undo("side", running, 1)
        assert everything(store, "totals") == FIRST
        assert store.group(GROUP).committed.epoch == running + 1

    def test_an_epoch_is_later_than_any_before_it_of_whatever_group(self, store: Store) -> None:
        """What a follower has seen of a view is no epoch of another one of that name, under whatever schedule."""
        side = replace(TOTALS, name="side", group="side")
        created(store, TOTALS, side)
        numbers = []
        for group in (GROUP, GROUP, "side", GROUP, "side"):
            numbers.append(store.begin(group, {}, 1).epoch)
            store.commit(group, numbers[-1], 1)
        assert numbers == sorted(set(numbers))

    def test_a_table_that_joins_a_group_later_starts_empty(self, kept: Store) -> None:
        for n in (1, 2):
            run_epoch(kept, TOTALS, changes(TOTALS, [(G, 1.0, n)]))
        late = created(kept, replace(TOTALS, name="late")).table("late")
        assert everything(kept, "late") == everything(kept, "late", _at(2)) == []
        run_epoch(kept, late, changes(late, FIRST))
        assert everything(kept, "late") == FIRST
        assert everything(kept, "late", _at(2)) == []
        assert listed(kept.scan("totals")) == [(G, 1.0, 2)]
