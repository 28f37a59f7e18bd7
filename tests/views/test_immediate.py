"""Immediate views: a write returns when they have it too, or it has not happened."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import viewkeeper as vk
from viewkeeper.engine.creation import Creation
from viewkeeper.engine.cuts import Aim
from viewkeeper.engine.removal import Removal
from viewkeeper.engine.together import Together
from viewkeeper.errors import Busy, Conflict, NotFound, NotMaintainable, QueryFailed
from viewkeeper.rows import rows_table
from viewkeeper.service.immediate import Writer
from viewkeeper.store.contract import Action, Lease, Mutation, Outcome, Request
from viewkeeper.testing.memory_store import MemoryStore

VIEWS = {
    "sums": "SELECT x, SUM(y) AS s FROM t GROUP BY x",
    "joined": "SELECT t.k, u.z FROM t LEFT JOIN u ON t.x = u.x",
    "least": "SELECT x, MIN(y) AS m FROM t GROUP BY x",
    "total": "SELECT SUM(s) AS total FROM sums",
    "quotients": "SELECT k, 100 DIV y AS q FROM t",
    "ranked": "SELECT k, rank() OVER (ORDER BY y) AS r FROM t",
}


@pytest.fixture
def live(db: vk.Database) -> vk.Database:
    db.execute("CREATE TABLE t (k INT PRIMARY KEY, x STRING, y INT)")
    db.execute("CREATE TABLE u (x STRING PRIMARY KEY, z INT)")
    db.table("t").put([{"k": 1, "x": "a", "y": 1}, {"k": 2, "x": "b", "y": 2}])
    db.table("u").put([{"x": "a", "z": 1}])
    for name, query in VIEWS.items():
        db.execute(f"CREATE MATERIALIZED VIEW {name} REFRESH IMMEDIATE AS {query}")
    return db


def _equal(db: vk.Database) -> bool:
    """Every view is the oracle at the cut where its group is, and no change waits."""
    assert [status.waiting for status in db.status() if status.group == "immediate"] == [0] * len(VIEWS)
    return all(db.verify(view.name).equal for view in db.views())


def test_every_kind_of_write_is_in_the_views_when_it_returns(live: vk.Database) -> None:
    live.table("t").put({"k": 3, "x": "a", "y": 5})
    assert live.view("sums").get("a") == {"x": "a", "s": 6}
    assert live.view("total").scan().to_pylist() == [{"total": 8}]
    live.table("t").update({"k": 3, "x": "b"})
    assert live.view("sums").get("a") == {"x": "a", "s": 1}
    live.table("t").delete([1, 3])
    assert live.view("sums").get("a") is None
    assert live.table("t").put_if({"k": 9, "x": "c", "y": 4}, expected=None)
    assert not live.table("t").put_if({"k": 9, "x": "c", "y": 5}, expected=None)
    with live.transaction() as tx:
        tx.table("t").put({"k": 4, "x": "c", "y": 2})
        tx.table("u").put({"x": "c", "z": 7})
        tx.table("u").delete("a")
    assert {row["k"]: row["z"] for row in live.view("joined").scan().to_pylist()} == {2: None, 4: 7, 9: 7}
    assert _equal(live)


def test_a_failing_expression_stops_the_write_and_not_the_view(live: vk.Database) -> None:
    before = live.view("sums").scan()
    with pytest.raises(QueryFailed, match="DIVIDE_BY_ZERO"):
        live.table("t").put([{"k": 5, "x": "a", "y": 3}, {"k": 6, "x": "a", "y": 0}])
    assert live.table("t").get(5) is None
    assert live.view("sums").scan() == before
    assert [status.failure for status in live.status()] == [None] * len(VIEWS)
    live.table("t").put({"k": 5, "x": "a", "y": 3})
    assert _equal(live)


def test_a_conflict_and_a_missing_row_are_told_and_change_nothing(live: vk.Database) -> None:
    with pytest.raises(NotFound, match="no row"):
        live.table("t").update({"k": 77, "y": 1})
    with pytest.raises(Conflict, match="another writer changed rows"):
        _overtaken(live)
    assert live.table("t").get(8) is None
    assert live.view("sums").get("a") == {"x": "a", "s": 9}
    assert _equal(live)


def _overtaken(live: vk.Database) -> None:
    with live.transaction() as tx:
        assert tx.table("t").get(1) is not None
        live.table("t").put({"k": 1, "x": "a", "y": 9})
        tx.table("t").put({"k": 8, "x": "z", "y": 1})


def test_tables_without_immediate_views_are_written_as_ever(live: vk.Database) -> None:
    live.execute("CREATE TABLE other (k INT PRIMARY KEY)")
    epoch = live.view("sums").status().epoch
    live.table("other").put({"k": 1})
    assert live.view("sums").status().epoch == epoch
    with live.transaction() as tx:
        tx.table("other").put({"k": 2})
        tx.table("t").put({"k": 2, "x": "a", "y": 2})
    assert live.table("other").scan().num_rows == 2
    assert live.view("sums").get("a") == {"x": "a", "s": 3}


def test_of_transactions_of_many_threads_a_bad_one_fails_alone(live: vk.Database) -> None:
    gate = threading.Barrier(8)

    def write(number: int) -> str:
        gate.wait()
        try:
            with live.transaction() as tx:
                tx.table("t").put({"k": 100 + number, "x": "m", "y": 0 if number == 3 else 1})
        except QueryFailed:
            return "failed"
        return "done"

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(write, range(8)))
    assert outcomes == ["failed" if number == 3 else "done" for number in range(8)]
    assert live.view("sums").get("m") == {"x": "m", "s": 7}
    assert _equal(live)


def test_a_transaction_is_judged_by_what_it_leaves(db: vk.Database) -> None:
    """Found: it was refused for a new row beside an old one, on which the view's expression fails."""
    db.execute("CREATE TABLE a (k INT PRIMARY KEY, x INT)")
    db.execute("CREATE TABLE b (k INT PRIMARY KEY, y INT)")
    db.table("a").put({"k": 1, "x": 1})
    db.table("b").put({"k": 1, "y": 2})
    db.create_view("v", "SELECT a.k, 10 DIV (a.x - b.y) AS q FROM a LEFT JOIN b ON a.k = b.k", refresh="immediate")
    with db.transaction() as tx:
        tx.table("a").put({"k": 1, "x": 2})
        tx.table("b").put({"k": 1, "y": 4})
    assert db.view("v").get(1) == {"k": 1, "q": -5}
    with pytest.raises(QueryFailed):
        db.table("a").put({"k": 1, "x": 4})
    assert db.view("v").get(1) == {"k": 1, "q": -5}


def test_transactions_that_wait_share_the_next_epoch(live: vk.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one's epoch is held until the others have come."""
    writer = live._writer
    together = writer.together
    sizes: list[int] = []

    def held(requests: Sequence[Request]) -> Sequence[Outcome]:
        deadline = time.monotonic() + 60
        while not sizes and len(writer._waiting) < 7 and time.monotonic() < deadline:
            time.sleep(0.01)
        sizes.append(len(requests))
        return together(requests)

    monkeypatch.setattr(writer, "together", held)
    before = live.view("sums").status().epoch
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: live.table("t").put({"k": 100 + number, "x": "m", "y": 1}), range(8)))
    assert sizes == [1, 7]
    assert live.view("sums").status().epoch == before + 2
    assert live.view("sums").get("m") == {"x": "m", "s": 8}


class Turns:
    """A writer whose epochs do nothing but keep account. The first is held until it is released."""

    def __init__(self) -> None:
        self.seen: list[list[int]] = []
        self.begun, self.released = threading.Event(), threading.Event()
        self.writer = Writer(MemoryStore(), self.together, frozenset({"t"}))

    def together(self, requests: Sequence[Request]) -> Sequence[Outcome]:
        self.seen.append([request.mutations[0].rows["k"][0].as_py() for request in requests])
        self.begun.set()
        assert self.released.wait(60)
        return [True] * len(requests)

    def write(self, number: int) -> bool | BaseException:
        try:
            return self.writer.write([Mutation("t", Action.PUT, pa.table({"k": [number]}))])
        except BaseException as error:
            return error

    def wait_for_waiting(self, count: int) -> None:
        deadline = time.monotonic() + 60
        while len(self.writer._waiting) < count and time.monotonic() < deadline:
            time.sleep(0.001)


def _interrupted(*_: object) -> bool:
    raise KeyboardInterrupt


def test_a_write_that_was_interrupted_while_it_waited_is_not_carried_out_later(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(turns.write, 1)
        assert turns.begun.wait(60)
        monkeypatch.setattr(turns.writer._turns, "wait_for", _interrupted)
        assert isinstance(turns.write(2), KeyboardInterrupt)
        monkeypatch.undo()
        turns.released.set()
        assert first.result(60) is True
    assert turns.write(3) is True
    assert turns.seen == [[1], [3]]


@pytest.mark.parametrize("queued", [False, True])
def test_when_a_turn_cannot_be_handed_over_the_others_take_theirs(
    monkeypatch: pytest.MonkeyPatch, queued: bool
) -> None:
    """An executor that can start no thread keeps the work in its queue all the same. Nothing is done twice."""
    turns = Turns()
    with ThreadPoolExecutor(3) as pool:
        writes = [pool.submit(turns.write, 1)]
        assert turns.begun.wait(60)
        writes += [pool.submit(turns.write, number) for number in (2, 3)]
        turns.wait_for_waiting(2)
        executor = turns.writer._thread
        submit, take_back, taken_back = executor.submit, turns.writer._take_back, threading.Event()

        def taking_back(*given: Any) -> None:
            take_back(*given)
            taken_back.set()

        def failing(*given: Any) -> Any:
            monkeypatch.undo()
            if queued:
                monkeypatch.setattr(turns.writer, "_take_back", taking_back)
                submit(taken_back.wait, 60)  # what follows begins when it has been taken back, not before
                submit(*given)
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(executor, "submit", failing)
        turns.released.set()
        answers = [write.result(60) for write in writes]
    (failed,) = [number for number, answer in enumerate(answers, start=1) if isinstance(answer, RuntimeError)]
    assert turns.seen == [[1], [5 - failed]]
    assert turns.write(4) is True


def test_other_groups_stand_on_immediate_views_and_not_the_other_way_round(live: vk.Database) -> None:
    top = live.create_view("top", "SELECT COUNT(*) AS n FROM sums JOIN u ON sums.x = u.x", refresh="on demand")
    live.table("t").put({"k": 3, "x": "q", "y": 1})
    live.table("u").put({"x": "q", "z": 1})
    live.refresh()
    assert top.scan().to_pylist() == [{"n": 2}]
    assert _equal(live)
    with pytest.raises(NotMaintainable, match='cannot be immediate: it would stand on "top"'):
        live.create_view("above", "SELECT n + 1 AS m FROM top", refresh="immediate")


def test_when_the_last_immediate_view_goes_the_tables_are_plain_again(db: vk.Database) -> None:
    db.execute("CREATE TABLE t (k INT PRIMARY KEY, x STRING, y INT)")
    db.create_view("sums", VIEWS["sums"], refresh="immediate")
    db.table("t").put({"k": 1, "x": "a", "y": 1})
    assert db.view("sums").get("a") == {"x": "a", "s": 1}
    db.drop("sums")
    db.table("t").put({"k": 2, "x": "a", "y": 1})
    db.create_view("sums", VIEWS["sums"], refresh="immediate")
    assert db.view("sums").get("a") == {"x": "a", "s": 2}


@pytest.fixture
def second(tmp_path: Path, spark: SparkSession) -> Iterator[vk.Database]:
    """The same folder as another process has it."""
    with vk.open(tmp_path / "db.vk", spark=spark, durability="off") as other:
        yield other


def test_a_writer_that_was_under_way_when_the_view_was_made_is_in_it(
    db: vk.Database, second: vk.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It found no guard, and commits between the view's cut and its first reader."""
    db.execute("CREATE TABLE t (k INT PRIMARY KEY, x STRING, y INT)")
    catch_up = Together.catch_up

    def first_another_write(self: Together, lease: Lease) -> None:
        writer = threading.Thread(target=lambda: second._store.write(_put(second, 5)))
        monkeypatch.setattr(second._store._files.catalog, "guarded", dict)  # type: ignore[attr-defined]
        writer.start()
        writer.join()
        catch_up(self, lease)

    monkeypatch.setattr(Together, "catch_up", first_another_write)
    db.create_view("sums", VIEWS["sums"], refresh="immediate")
    assert db.view("sums").scan().to_pylist() == [{"x": "late", "s": 5}]


def test_a_view_that_fails_on_a_row_that_came_while_it_was_made_is_not_there(
    db: vk.Database, second: vk.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found: its creator had the error, but the view was there, and refused every write for that row."""
    _one_row(db)
    _while_made(monkeypatch, lambda: second.table("t").put({"k": 2, "x": "b", "y": 0}))
    with pytest.raises(NotMaintainable, match=r'"quotients" cannot be filled: .*DIVIDE_BY_ZERO'):
        db.create_view("quotients", VIEWS["quotients"], refresh="immediate")
    monkeypatch.undo()
    assert db.views() == []
    assert [spec.name for spec in db._store.tables()] == ["t"]
    assert db._store.records("view/") == db._store.records("stop/") == db._store.records("going/") == {}
    second.table("t").put({"k": 3, "x": "c", "y": 7})
    second.table("t").delete(2)
    db.create_view("quotients", VIEWS["quotients"], refresh="immediate")
    assert db.view("quotients").scan().to_pylist() == [{"k": 1, "q": 20}, {"k": 3, "q": 14}]


def test_a_view_that_cannot_wait_for_a_writer_leaves_the_others_as_they_were(
    db: vk.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    _one_row(db)
    db.create_view("sums", VIEWS["sums"], refresh="immediate")
    with monkeypatch.context() as patch:
        patch.setattr(Together, "catch_up", _busy)
        with pytest.raises(Busy, match="somebody writes"):
            db.create_view("quotients", VIEWS["quotients"], refresh="immediate")
    db.table("t").put({"k": 2, "x": "b", "y": 0})
    assert [view.name for view in db.views()] == ["sums"]
    assert db.view("sums").get("b") == {"x": "b", "s": 0}


def test_a_view_that_cannot_be_taken_out_again_is_told_of(db: vk.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    _one_row(db)
    monkeypatch.setattr(Together, "catch_up", _busy)
    monkeypatch.setattr(Removal, "take_out", _busy)
    with pytest.raises(Busy, match=r'view "quotients" is there, but has not .* \(somebody writes\)'):
        db.create_view("quotients", VIEWS["quotients"], refresh="immediate")
    monkeypatch.undo()
    db.drop("quotients")


def _one_row(db: vk.Database) -> None:
    db.execute("CREATE TABLE t (k INT PRIMARY KEY, x STRING, y INT)")
    db.table("t").put({"k": 1, "x": "a", "y": 5})


def _while_made(monkeypatch: pytest.MonkeyPatch, action: Callable[[], None]) -> None:
    """After the cut of a view that is being made, and before its commit."""
    check = Creation._check_logs

    def meanwhile(self: Creation, aim: Aim) -> None:
        action()
        check(self, aim)

    monkeypatch.setattr(Creation, "_check_logs", meanwhile)


def _busy(*_: object) -> None:
    raise Busy("somebody writes", hint="call again")


def _put(db: vk.Database, y: int) -> list[Mutation]:

    return [Mutation("t", Action.PUT, rows_table(db._store.table("t"), {"k": 1, "x": "late", "y": y}))]
