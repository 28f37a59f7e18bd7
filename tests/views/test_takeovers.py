"""A process sleeps or dies at a bad moment, and another goes on: found by review, each once a wrong answer.

A death is an exception at the point, with what SQLite would roll back; a sleep is what others do meanwhile, called there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from support import file_with_rows, store_of

import viewkeeper as vk
from viewkeeper import names
from viewkeeper.engine.catalog import ViewCatalog
from viewkeeper.engine.creation import Creation
from viewkeeper.engine.epoch import Epoch
from viewkeeper.engine.leadership import Leadership
from viewkeeper.engine.leftovers import Leftovers
from viewkeeper.engine.maintainer import Maintainer
from viewkeeper.engine.stops import Stop
from viewkeeper.errors import Busy, Fenced, NotMaintainable
from viewkeeper.maintain.plan import ViewPlan
from viewkeeper.rows import rows_table
from viewkeeper.store.contract import Action, Mutation, Request
from viewkeeper.store.embedded import faults

SUMS = "SELECT x, SUM(y) AS s, COUNT(*) AS n FROM t GROUP BY x"
QUOTIENTS = "SELECT k, 100 DIV y AS q FROM t"
Pair = tuple[vk.Database, vk.Database]


class Died(BaseException):
    """The process is gone: nothing of it catches this."""


@pytest.fixture
def two(tmp_path: Path, spark: SparkSession) -> Iterator[Pair]:
    """One folder as two processes have it open."""
    with (
        vk.open(tmp_path / "db.vk", spark=spark, durability="off", timeout=3.0) as one,
        vk.open(tmp_path / "db.vk", spark=spark, durability="off", timeout=3.0) as other,
    ):
        one.execute("CREATE TABLE t (k INT PRIMARY KEY, x STRING, y INT)")
        one.execute("CREATE TABLE u (x STRING PRIMARY KEY, z INT)")
        one.table("t").put([{"k": 1, "x": "a", "y": 1}, {"k": 2, "x": "b", "y": 2}])
        one.table("u").put({"x": "a", "z": 1})
        yield one, other


@contextmanager
def at(point: str, action: Callable[[], None]) -> Iterator[None]:
    """Do something when a fault point is first reached."""
    with pytest.MonkeyPatch.context() as patch:

        def reach(reached: str) -> None:
            if reached == point:
                patch.undo()
                action()

        patch.setattr(faults, "reach", reach)
        yield


def die() -> None:
    raise Died


def request(db: vk.Database, *rows: tuple[str, dict[str, Any]]) -> Request:
    return Request([Mutation(name, Action.PUT, rows_table(db._store.table(name), row)) for name, row in rows])


def keys(db: vk.Database) -> list[int]:
    return db.table("t").scan(columns=["k"])["k"].to_pylist()


def equal(db: vk.Database) -> bool:
    return all(db.verify(view.name).equal for view in db.views())


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


def test_a_creation_that_died_is_not_born_by_the_next_write(two: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = two
    one.create_view("sums", SUMS, refresh="immediate")
    with monkeypatch.context() as patch:
        patch.setattr(Epoch, "run", lambda self, rebuild=(): die())
        patch.setattr(Leftovers, "undo_creation", lambda *_: die())
        with pytest.raises(Died):
            one.create_view("late", "SELECT k, y FROM t", refresh="immediate")
    other.table("t").put({"k": 3, "x": "a", "y": 5})
    assert [view.name for view in other.views()] == ["sums"]
    assert equal(other)


def test_a_creation_that_died_does_not_hold_its_table(two: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = two
    with monkeypatch.context() as patch:
        patch.setattr(Epoch, "run", lambda self, rebuild=(): die())
        patch.setattr(Leftovers, "undo_creation", lambda *_: die())
        with pytest.raises(Died):
            one.create_view("late", SUMS)
    other.drop("t")
    assert [table.name for table in other.tables()] == ["u"]
    assert other._store.records("view/") == {}


def test_a_view_that_had_stopped_is_built_anew_by_a_second_run_too(two: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = two
    one.create_view("quotients", QUOTIENTS)
    one.table("t").put([{"k": 10, "x": "z", "y": 0}, {"k": 11, "x": "z", "y": 5}])
    one.refresh()
    one.table("t").put({"k": 12, "x": "z", "y": 4})
    with monkeypatch.context() as patch:
        patch.setattr(one._store, "commit", lambda *_: die())
        with pytest.raises(Died):
            one.refresh()
    other.refresh()
    assert other.view("quotients").status().failure is not None
    other.table("t").put({"k": 10, "x": "z", "y": 1})
    other.refresh()
    assert other.view("quotients").scan().num_rows == 5
    assert equal(other)


def test_an_upper_group_sees_that_a_view_below_is_still_stopped(two: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the group below tries it again."""
    one, other = two
    one.create_view("quotients", QUOTIENTS, refresh="every 60 seconds")
    one.create_view("count", "SELECT COUNT(*) AS n FROM quotients")
    one.table("t").put({"k": 3, "x": "a", "y": 0})
    one.refresh()
    one.table("t").put({"k": 4, "x": "a", "y": 5})
    commit, looked = one._store.commit, []

    def pausing(group: str, epoch: int, term: int) -> None:
        if group != "on demand":
            other._maintainer.refresh("on demand")
            looked.append(other.view("count").status().failure)
        commit(group, epoch, term)

    monkeypatch.setattr(one._store, "commit", pausing)
    one._maintainer.refresh("every 60 seconds")
    assert len(looked) == 1
    assert 'waits for "quotients"' in str(looked[0])


def test_a_repair_waits_for_what_is_decided(two: Pair) -> None:
    one, other = two
    one.create_view("sums", SUMS, refresh="immediate")
    with at("prepare.decided", die), pytest.raises(Died):
        one.table("t").put({"k": 3, "x": "a", "y": 100})
    repaired = other.repair("sums")
    assert (repaired.inserted, repaired.updated, repaired.deleted) == (0, 0, 0)
    assert keys(other) == [1, 2, 3]
    assert equal(other)


def test_a_creator_that_wakes_leaves_alone_what_others_made(two: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = two
    run = Epoch.run
    slept: list[bool] = []

    def hanging(self: Epoch, rebuild: Sequence[str] = ()) -> Any:
        if not slept:
            slept.append(True)
            _lose_the_lead(one, "on demand")
            other.create_view("sums", SUMS)
        return run(self, rebuild)

    monkeypatch.setattr(Epoch, "run", hanging)
    with pytest.raises(Fenced):
        one.create_view("sums", SUMS)
    assert [view.name for view in other.views()] == ["sums"]
    assert equal(other)


def _lose_the_lead(db: vk.Database, group: str) -> None:
    """As if the lease had run out."""
    lease = db._store.lead(f"group/{group}", db._maintainer.leadership.holder, 1.0)
    assert lease is not None
    db._store.resign(lease)


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


def test_a_view_is_not_dropped_from_under_one_that_is_being_made(two: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = two
    one.create_view("sums", SUMS, refresh="every 60 seconds")
    run, tried = Epoch.run, []

    def meanwhile(self: Epoch, rebuild: Sequence[str] = ()) -> Any:
        if "top" in rebuild:
            with pytest.raises(vk.InputError, match='"top" stand on it'):
                other.drop("sums")
            tried.append(True)
        return run(self, rebuild)

    monkeypatch.setattr(Epoch, "run", meanwhile)
    one.create_view("top", "SELECT COUNT(*) AS n FROM sums")
    assert tried
    assert equal(other)


def test_two_creations_at_once_make_no_ring_of_groups(two: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = two
    one.create_view("sums", SUMS, refresh="every 60 seconds")
    one.create_view("counts", "SELECT COUNT(*) AS n FROM t", refresh="every 30 seconds")
    first_aim = Creation._first_aim
    crossed: list[bool] = []

    def meanwhile(*arguments: Any) -> Any:
        if not crossed:
            crossed.append(True)
            other.create_view("two", "SELECT s FROM sums", refresh="every 30 seconds")
        return first_aim(*arguments)

    monkeypatch.setattr(Creation, "_first_aim", meanwhile)
    with pytest.raises(NotMaintainable, match="stand on views refreshed"):
        one.create_view("one", "SELECT n FROM counts", refresh="every 60 seconds")
    assert [view.name for view in other.views()] == ["sums", "counts", "two"]
    assert equal(other)


def test_a_table_that_was_dropped_and_made_again_is_in_no_old_cut(two: Pair) -> None:
    one, _ = two
    one.create_view("sums", SUMS, refresh="every 60 seconds")
    one.create_view("joined", "SELECT sums.x, sums.s, u.z FROM sums JOIN u ON sums.x = u.x")
    one.drop("joined")
    one.drop("u")
    assert set(one._store.group("every 60 seconds").committed.cut) == {"t"}
    one.create_table("u", "x STRING, z INT", primary_key="x", regions=8)
    one.table("u").put([{"x": str(number), "z": number} for number in range(40)])
    one.trim(0)
    with one.snapshot() as snapshot:
        assert snapshot.table("u").scan().num_rows == 40


def test_a_snapshot_of_immediate_views_is_whole_while_others_write(two: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that two groups read is where the views are that guard it."""
    one, other = two
    one.create_view("sums", SUMS, refresh="immediate")
    one.create_view("counts", "SELECT COUNT(*) AS n FROM t")
    groups = other._store.groups

    def then_a_write() -> Any:
        found = groups()
        one.table("t").put({"k": 3, "x": "a", "y": 100})
        return found

    monkeypatch.setattr(other._store, "groups", then_a_write)
    with other.snapshot() as snapshot:
        rows = sum(snapshot.table("t").scan(columns=["y"])["y"].to_pylist())
        assert rows == sum(snapshot.view("sums").scan(columns=["s"])["s"].to_pylist())


def test_an_epoch_that_was_undone_has_brought_no_view_back(two: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """It had said so before it died; then another epoch was committed, in which the view had no part."""
    one, other = two
    one.create_view("quotients", QUOTIENTS)
    one.create_view("sums", SUMS)
    one.table("t").put({"k": 3, "x": "a", "y": 0})
    assert set(one.refresh().failed) == {"quotients"}
    one.table("t").put([{"k": 3, "x": "a", "y": 4}, {"k": 4, "x": "b", "y": 5}])
    with monkeypatch.context() as patch:
        patch.setattr(Leftovers, "undo_creation", lambda *_: die())
        with at("commit.before", die), pytest.raises(Died):
            one.create_view("late", "SELECT COUNT(*) AS n FROM t")
    other.repair("sums")
    other.refresh()
    assert other.view("quotients").scan().num_rows == 4
    assert equal(other)


@pytest.mark.parametrize("moment", ["noting", "clearing"])
def test_a_leader_that_slept_takes_no_other_s_stop_off_the_record(
    two: Pair, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """It had brought the view back; while it slept another one stopped it again."""
    one, other = two
    one.create_view("quotients", QUOTIENTS)
    one.table("t").put({"k": 3, "x": "a", "y": 0})
    one.refresh()
    one.table("t").put({"k": 3, "x": "a", "y": 4})
    change = ViewCatalog.change_stop
    slept: list[bool] = []

    def sleeping(self: ViewCatalog, view: str, known: Stop, stop: Stop | None, *others: Any) -> None:
        if not slept and (stop is None) == (moment == "clearing"):
            slept.append(True)
            _lose_the_lead(one, "on demand")
            other.refresh()
            other.table("t").put([{"k": 5, "x": "b", "y": 0}, {"k": 6, "x": "b", "y": 8}])
            assert set(other.refresh().failed) == {"quotients"}
        change(self, view, known, stop, *others)

    monkeypatch.setattr(ViewCatalog, "change_stop", sleeping)
    with suppress(Fenced):
        one.refresh()
    assert slept
    assert other.view("quotients").status().failure is not None
    other.table("t").delete(5)
    assert other.refresh().failed == {}
    assert other.view("quotients").scan().num_rows == 4
    assert equal(other)


def test_a_creator_that_slept_before_it_said_what_it_makes_makes_nothing(two: Pair) -> None:
    """Another one has ended its epoch: a definition that names it would be that of a view that was never filled."""
    one, other = two
    one.create_view("sums", SUMS)
    one.table("t").put({"k": 3, "x": "a", "y": 5})

    def sleep() -> None:
        _lose_the_lead(one, "on demand")
        other.refresh()

    with at("begin.recorded", sleep), pytest.raises(Fenced):
        one.create_view("late", QUOTIENTS)
    assert [view.name for view in other.views()] == ["sums"]
    other.create_view("late", QUOTIENTS)
    assert equal(other)


def test_a_drop_that_slept_leaves_the_view_that_took_the_name(two: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = two
    one.create_view("sums", SUMS)
    fence = type(one._store).fence
    slept: list[bool] = []

    def sleeping(self: Any, group: str, term: int) -> None:
        fence(self, group, term)
        if self is one._store and one._store.record("going/sums") and not slept:
            slept.append(True)
            _lose_the_lead(one, "on demand")
            other.drop("sums")
            other.create_view("sums", QUOTIENTS)

    monkeypatch.setattr(type(one._store), "fence", sleeping)
    with pytest.raises(Fenced):
        one.drop("sums")
    assert slept
    assert [view.name for view in other.views()] == ["sums"]
    assert equal(other)


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


@pytest.mark.parametrize(
    "query",
    [
        "SELECT (SELECT n FROM one) - (SELECT n FROM two) AS d",
        "SELECT (SELECT n FROM one) - (SELECT COUNT(*) FROM t) AS d",
        "SELECT (SELECT MAX(k) FROM t) - (SELECT MAX(z) FROM u) AS d",
    ],
    ids=["views", "a view and its table", "tables"],
)
def test_a_query_sees_one_state_whatever_is_committed_meanwhile(
    two: Pair, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    one, other = two
    one.create_view("one", "SELECT COUNT(*) AS n FROM t")
    one.create_view("two", "SELECT COUNT(*) AS n FROM t")
    scan, between = one._store.scan, iter(range(10, 13))

    def write(number: int) -> None:
        with other.transaction() as transaction:
            transaction.table("t").put({"k": number, "x": "a", "y": 1})
            transaction.table("u").put({"x": "a", "z": number})
        other.refresh()

    def scanning(*args: Any, **options: Any) -> Any:
        found = scan(*args, **options)
        for number in between:
            write(number)
            break
        return found

    write(9)
    monkeypatch.setattr(one._store, "scan", scanning)
    assert [row["d"] for row in one.sql(query).collect()] == [0]
    assert keys(other)[-1] > 9


def test_a_query_over_tables_alone_sees_what_was_just_written(two: Pair) -> None:
    one, _ = two
    one.create_view("sums", SUMS)
    one.table("t").put({"k": 3, "x": "a", "y": 5})
    assert one.sql("SELECT COUNT(*) AS n FROM t").collect()[0]["n"] == 3
    both = "SELECT (SELECT COUNT(*) FROM t) AS n, (SELECT SUM(n) FROM sums) AS m"
    assert tuple(one.sql(both).collect()[0]) == (2, 2)
    one.refresh()
    assert tuple(one.sql(both).collect()[0]) == (3, 3)


def test_a_leader_that_slept_notes_no_return_for_an_epoch_that_was_undone(
    two: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = two
    one.create_view("quotients", QUOTIENTS)
    one.create_view("sums", SUMS)
    one.table("t").put({"k": 3, "x": "a", "y": 0})
    one.refresh()
    one.table("t").put([{"k": 3, "x": "a", "y": 4}, {"k": 4, "x": "b", "y": 5}])
    before_commit = Maintainer.before_commit
    slept: list[bool] = []

    def sleeping(self: Maintainer, *others: Any) -> None:
        if self is one._maintainer and not slept:
            slept.append(True)
            _lose_the_lead(one, "on demand")
            other.repair("sums")
        before_commit(self, *others)

    monkeypatch.setattr(Maintainer, "before_commit", sleeping)
    with pytest.raises(Fenced):
        one.create_view("late", "SELECT COUNT(*) AS n FROM t")
    assert slept
    other.refresh()
    assert other.view("quotients").scan().num_rows == 4
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


def test_a_drop_that_slept_leaves_the_stop_of_the_view_that_took_the_name(
    two: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = two
    one.create_view("quotients", QUOTIENTS)
    remove = ViewCatalog.remove
    slept: list[bool] = []

    def sleeping(self: ViewCatalog, definition: Any) -> bool:
        done = remove(self, definition)
        if not slept:
            slept.append(True)
            _lose_the_lead(one, "on demand")
            other.create_view("quotients", QUOTIENTS)
            other.table("t").put([{"k": 3, "x": "a", "y": 0}, {"k": 4, "x": "a", "y": 5}])
            assert set(other.refresh().failed) == {"quotients"}
        return done

    monkeypatch.setattr(ViewCatalog, "remove", sleeping)
    with suppress(Fenced):
        one.drop("quotients")
    assert slept
    assert other.view("quotients").status().failure is not None
    other.table("t").delete(3)
    other.refresh()
    assert other.view("quotients").scan().num_rows == 3
    assert equal(other)
