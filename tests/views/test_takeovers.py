"""A process sleeps or dies at a bad moment of a write or an epoch, and another goes on: each was once a wrong answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from small import equal
from support import file_with_rows, store_of
from takeovers import QUOTIENTS, SUMS, Died, Pair, at, die, keys, request

import viewkeeper as vk
from viewkeeper import names
from viewkeeper.engine.epoch import Epoch
from viewkeeper.engine.leadership import Leadership
from viewkeeper.engine.maintainer import Maintainer
from viewkeeper.errors import Busy, Fenced
from viewkeeper.maintain.plan import ViewPlan
from viewkeeper.store.embedded import faults


def test_a_write_that_was_refused_does_not_come_back(two: Pair) -> None:
    """Its process slept before it recorded its decision, was undone meanwhile, and later epochs were committed."""
    one, other = two
    one.create_view("sums", SUMS, refresh="immediate")

    def sleep() -> None:
        running = other._store.group("immediate").running
        assert running is not None
        other._store.fence("immediate", 1_000)
        other._store.undo("immediate", running.epoch, 1_000)

    with at("prepare.staged", sleep), pytest.raises(Fenced, match="undone by another maintainer"):
        one._together.write([request(one, ("t", {"k": 3, "x": "a", "y": 5}))])
    epoch = other._store.begin("immediate", other._store.cut(["t"]), 1_000).epoch
    other._store.commit("immediate", epoch, 1_000)
    other._store.cut(["t"])
    assert keys(other) == [1, 2]
    assert equal(other)


def test_decisions_that_follow_each_other_in_a_region_are_carried_out_in_order(two: Pair) -> None:
    """The second of them is found first, by a cut of the other table that it writes."""
    one, other = two
    one.create_view("joined", "SELECT t.k, u.z FROM t JOIN u ON t.x = u.x", refresh="immediate")
    wishes = [
        request(one, ("t", {"k": 1, "x": "a", "y": 7})),
        request(one, ("t", {"k": 1, "x": "a", "y": 8}), ("u", {"x": "q", "z": 9})),
        request(one, ("t", {"k": 1, "x": "a", "y": 9})),
    ]
    with at("prepare.decided", die), pytest.raises(Died):
        one._together.write(wishes)
    other._store.cut(["u"])
    assert other.table("u").get("q") == {"x": "q", "z": 9}
    other._store.cut(["t", "u"])
    assert other.table("t").get(1) == {"k": 1, "x": "a", "y": 9}
    assert equal(other)


def test_writes_go_on_after_a_death_between_two_regions(two: Pair) -> None:
    one, other = two
    one.create_view("sums", SUMS, refresh="immediate")
    rows = [{"k": k, "x": "m", "y": 1} for k in range(10, 30)]
    with at("prepare.region_committed", die), pytest.raises(Died):
        one.table("t").put(rows)
    for k in range(10, 30):
        other.table("t").put({"k": k, "x": "m", "y": 2})
    assert other.view("sums").get("m") == {"x": "m", "s": 40, "n": 20}
    assert equal(other)


def test_a_repair_waits_for_what_is_decided(two: Pair) -> None:
    one, other = two
    one.create_view("sums", SUMS, refresh="immediate")
    with at("prepare.decided", die), pytest.raises(Died):
        one.table("t").put({"k": 3, "x": "a", "y": 100})
    repaired = other.repair("sums")
    assert (repaired.inserted, repaired.updated, repaired.deleted) == (0, 0, 0)
    assert keys(other) == [1, 2, 3]
    assert equal(other)


def test_a_late_task_applies_nothing_to_what_is_being_undone(two: Pair) -> None:
    one, other = two
    one.create_view("sums", SUMS)
    with Leadership(one._store).of("on demand") as lease:
        epoch = one._store.begin("on demand", one._store.group("on demand").committed.cut, lease.term).epoch
        region = next(number for number, size in enumerate(map(_rows(one), range(4))) if size)
        row = pa.Table.from_batches(one._store.read("sums", region)).slice(0, 1)
        desired = row.append_column(names.HAS, pa.array([False]))
        one._store.apply("sums", region, desired, epoch, lease.term)

        refused = []

        def straggler(point: str) -> None:
            if point == "undo.region_restored" and other._store.positions("sums")[region] != epoch:
                with pytest.raises(Fenced):
                    other._store.apply("sums", region, desired, epoch, lease.term)
                refused.append(True)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(faults, "reach", straggler)
            one._store.undo("on demand", epoch, lease.term)
        assert refused
    one.table("t").put({"k": 9, "x": "z", "y": 1})
    one.refresh()
    assert equal(one)


def _rows(db: vk.Database) -> Callable[[int], int]:
    return lambda region: sum(batch.num_rows for batch in db._store.read("sums", region))


def test_requests_that_are_tried_alone_begin_with_a_clean_slate(two: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """The undo of the epoch that they failed in together had failed too."""
    one, _ = two
    one.create_view("quotients", QUOTIENTS, refresh="immediate")
    undo = one._store.undo

    def busy(*_: object) -> None:
        monkeypatch.setattr(one._store, "undo", undo)
        raise Busy("locked for too long")

    monkeypatch.setattr(one._store, "undo", busy)
    good, bad = ("t", {"k": 20, "x": "g", "y": 5}), ("t", {"k": 21, "x": "b", "y": 0})
    first, second = one._together.write([request(one, good), request(one, bad)])
    assert first is True
    assert isinstance(second, vk.QueryFailed)
    assert keys(one) == [1, 2, 20]
    assert equal(one)


def test_a_write_whose_report_cannot_be_kept_has_happened(two: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = two
    one.create_view("sums", SUMS, refresh="immediate")
    put_record = one._store.put_record

    def busy(name: str, *others: Any, **options: Any) -> bool:
        if name.startswith("history/"):
            raise Busy("locked for too long")
        return put_record(name, *others, **options)

    monkeypatch.setattr(one._store, "put_record", busy)
    assert one.table("t").put_if({"k": 7, "x": "a", "y": 1}, expected=None)
    assert keys(other) == [1, 2, 7]


def test_a_cut_does_not_go_back_with_the_clock(two: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock's file lost its newest stamps with the power, and the machine's time begins earlier than it ended."""
    one, _ = two
    one.create_view("sums", SUMS)
    one.table("t").put({"k": 3, "x": "a", "y": 5})
    one.refresh()
    (store_of(one)._files.folder / "clock").write_bytes(b"")
    monkeypatch.setattr(time, "time_ns", lambda: 1_000)
    for _ in range(3):
        one.refresh()
    assert equal(one)
    monkeypatch.undo()
    one.refresh()
    assert equal(one)


def test_a_lease_from_before_the_clock_was_set_back_holds_nobody_up(two: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = two
    one.create_view("sums", SUMS)
    day = time.time() + 86_400
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: day)
        assert one._store.lead("group/on demand", "a dead process", 10.0) is not None
    other.table("t").put({"k": 3, "x": "a", "y": 5})
    other.refresh()
    assert equal(other)


@pytest.mark.parametrize("after", [0, 1], ids=["the view", "what stands on it"])
def test_a_repair_that_died_is_not_finished_as_if_the_rows_had_changed(
    two: Pair, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """Nor is it half done: whoever comes next takes it back, and it is asked for again."""
    one, other = two
    one.create_view("sums", SUMS, regions=1)
    one.create_view("beside", "SELECT SUM(s) AS s FROM sums")
    one.create_view("above", "SELECT SUM(s) AS s FROM sums", refresh="every 60 seconds")
    with file_with_rows(one, "sums") as connection:
        connection.execute("UPDATE rows SET v0 = v0 + 1")
    run = Epoch._view
    done: list[str] = []

    def dying(self: Epoch, plan: ViewPlan, rebuild: bool) -> Any:
        if len(done) > after:
            raise Died
        done.append(plan.name)
        return run(self, plan, rebuild)

    with monkeypatch.context() as patch:
        patch.setattr(Epoch, "_view", dying)
        patch.setattr(Maintainer, "before_commit", lambda *_: die())
        with pytest.raises(Died):
            one.repair("sums")
    other.refresh()
    assert not other.verify("sums").equal
    assert other.verify("beside").equal
    assert other.verify("above").equal
    other.repair("sums")
    assert equal(other)
