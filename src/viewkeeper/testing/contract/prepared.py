"""Prepared writes: seen by nobody before their epoch is committed, there with it, and gone without it."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from viewkeeper import names
from viewkeeper.errors import Fenced, NotFound
from viewkeeper.store.contract import Action, Cut, Expectation, Guarded, Mutation, Request, Store
from viewkeeper.testing.contract.support import PAIRS, TOTALS, StoreFixtures, changes, log_of, region_of

KEEPER = "keeper"
TERM = 1
KEPT = replace(TOTALS, group=KEEPER)


def _rows(*pairs: tuple[int, str]) -> pa.Table:
    return pa.Table.from_pylist([{"k": k, "v": v} for k, v in pairs], schema=PAIRS.schema)


def _put(*pairs: tuple[int, str]) -> Request:
    return Request([Mutation("pairs", Action.PUT, _rows(*pairs))])


def _contents(store: Store) -> list[tuple[int, str]]:
    return [(row["k"], row["v"]) for row in store.scan("pairs").to_pylist()]


def _total(store: Store) -> list[int]:
    return store.scan("totals", columns=["n"])["n"].to_pylist()


def _apply_total(store: Store, epoch: int, number: int) -> None:
    table = changes(KEPT, [("all", 0.0, number)])
    store.apply("totals", region_of(KEPT, "all"), table, epoch, TERM)


class PreparedContract(StoreFixtures):
    @pytest.fixture
    def guarding(self, store: Store) -> Store:
        """A table with one row, guarded by a group with one view."""
        store.create(PAIRS)
        store.create_group(KEEPER, guards=True)
        store.create(KEPT)
        store.write(_put((1, "a")).mutations)
        epoch = store.begin(KEEPER, store.cut(["pairs"]), TERM).epoch
        _apply_total(store, epoch, 1)
        store.commit(KEEPER, epoch, TERM)
        return store

    def test_a_guarded_table_is_not_written_past_its_group(self, guarding: Store) -> None:
        with pytest.raises(Guarded) as refused:
            guarding.write(_put((2, "b")).mutations)
        assert (refused.value.table, refused.value.group) == ("pairs", KEEPER)
        assert _contents(guarding) == [(1, "a")]

    def test_a_group_that_does_not_guard_hinders_nobody(self, store: Store) -> None:
        store.create(PAIRS)
        store.create_group("other")
        store.commit("other", store.begin("other", store.cut(["pairs"]), TERM).epoch, TERM)
        assert store.write(_put((2, "b")).mutations)

    def test_rows_and_epoch_appear_together(self, guarding: Store) -> None:
        prepared = guarding.prepare([_put((2, "b"), (3, "c"))])
        assert prepared.outcomes == [True]
        assert prepared.changed
        cut = prepared.store.cut(["pairs"])
        epoch = guarding.begin(KEEPER, cut, TERM).epoch
        assert _contents(prepared.store) == [(1, "a"), (2, "b"), (3, "c")]
        _apply_total(prepared.store, epoch, 3)
        prepared.commit(KEEPER, epoch, TERM)
        assert _contents(guarding) == [(1, "a"), (2, "b"), (3, "c")]
        assert _total(guarding) == [3]
        assert guarding.cut(["pairs"]) == cut == guarding.group(KEEPER).committed.cut

    def test_a_rollback_leaves_nothing(self, guarding: Store) -> None:
        before = guarding.positions("pairs")
        prepared = guarding.prepare([_put((1, "changed"), (2, "b"))])
        epoch = guarding.begin(KEEPER, prepared.store.cut(["pairs"]), TERM).epoch
        _apply_total(prepared.store, epoch, 9)
        prepared.rollback()
        prepared.rollback()
        guarding.undo(KEEPER, epoch, TERM)
        assert _contents(guarding) == [(1, "a")]
        assert _total(guarding) == [1]
        assert guarding.positions("pairs") == before
        assert guarding.group(KEEPER).running is None

    def test_a_fenced_leader_commits_neither_side(self, guarding: Store) -> None:
        prepared = guarding.prepare([_put((2, "b"))])
        epoch = guarding.begin(KEEPER, prepared.store.cut(["pairs"]), TERM).epoch
        guarding.fence(KEEPER, TERM + 1)
        with pytest.raises(Fenced):
            prepared.commit(KEEPER, epoch, TERM)
        prepared.rollback()
        guarding.undo(KEEPER, epoch, TERM + 1)
        assert _contents(guarding) == [(1, "a")]
        assert _total(guarding) == [1]

    def test_requests_are_done_in_turn_and_fail_alone(self, guarding: Store) -> None:
        expects_a = Expectation("pairs", rows=_rows((1, "a")))
        expects_b = Expectation("pairs", rows=_rows((1, "b")))
        no_row = Mutation("pairs", Action.UPDATE, _rows((7, "x")))
        prepared = guarding.prepare(
            [
                Request(_put((1, "b")).mutations, [expects_a]),
                Request(_put((1, "c")).mutations, [expects_a]),
                Request([*_put((2, "half")).mutations, no_row]),
                Request(_put((3, "d")).mutations, [expects_b]),
            ]
        )
        first, second, third, fourth = prepared.outcomes
        assert (first, second, fourth) == (True, False, True)
        assert isinstance(third, NotFound)
        epoch = guarding.begin(KEEPER, prepared.store.cut(["pairs"]), TERM).epoch
        _apply_total(prepared.store, epoch, 2)
        prepared.commit(KEEPER, epoch, TERM)
        assert _contents(guarding) == [(1, "b"), (3, "d")]
        assert _total(guarding) == [2]

    def test_each_request_is_a_write_of_its_own_in_the_log(self, guarding: Store) -> None:
        before = sum(guarding.positions("pairs"))
        prepared = guarding.prepare([_put((1, "b")), _put((1, "c"))])
        epoch = guarding.begin(KEEPER, prepared.store.cut(["pairs"]), TERM).epoch
        prepared.commit(KEEPER, epoch, TERM)
        assert sum(guarding.positions("pairs")) == before + 2
        home = region_of(PAIRS, 1)
        assert [row[f"{names.AFTER}v"] for row in log_of(guarding, PAIRS, home)][-2:] == ["b", "c"]

    def test_what_changes_nothing_needs_no_epoch(self, guarding: Store) -> None:
        prepared = guarding.prepare([_put((1, "a"))], tables=["pairs"])
        assert prepared.outcomes == [True]
        assert not prepared.changed
        prepared.rollback()
        assert guarding.group(KEEPER).running is None

    def test_a_table_is_free_again_when_the_group_no_longer_reads_it(self, guarding: Store) -> None:
        guarding.commit(KEEPER, guarding.begin(KEEPER, {}, TERM).epoch, TERM)
        assert guarding.write(_put((2, "b")).mutations)


class EarlyCutContract(StoreFixtures):
    @pytest.fixture
    def written(self, store: Store) -> Store:
        """Twenty writes of two rows each."""
        store.create(PAIRS)
        for number in range(20):
            store.write(_put((2 * number, "x"), (2 * number + 1, "x")).mutations)
        return store

    def _size(self, store: Store, after: tuple[int, ...], upto: tuple[int, ...]) -> int:
        return store.backlog("pairs", after, upto)

    def test_a_storm_is_walked_through_in_steps_that_split_no_write(self, written: Store) -> None:
        newest = written.cut(["pairs"])
        at: Cut = {"pairs": (0, 0)}
        steps = []
        while at != newest:
            following = written.cut(["pairs"], after=at, at_most=7)
            steps.append(self._size(written, at["pairs"], following["pairs"]))
            at = following
        assert sum(steps) == 40
        assert all(0 < step <= 8 and step % 2 == 0 for step in steps)

    def test_a_write_that_is_too_large_is_taken_whole(self, store: Store) -> None:
        store.create(PAIRS)
        store.write(_put(*((k, "x") for k in range(50))).mutations)
        store.write(_put((99, "x")).mutations)
        first = store.cut(["pairs"], after={"pairs": (0, 0)}, at_most=10)
        assert self._size(store, (0, 0), first["pairs"]) == 50

    def test_a_small_backlog_is_taken_at_once(self, written: Store) -> None:
        newest = written.cut(["pairs"])
        assert written.cut(["pairs"], after={"pairs": (0, 0)}, at_most=40) == newest
        assert written.cut(["pairs"], after=newest, at_most=1) == newest
