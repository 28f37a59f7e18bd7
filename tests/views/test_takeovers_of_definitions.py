"""A process sleeps or dies while it makes or drops a view or a table, and another goes on: each was once a wrong answer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest
from small import equal
from support import store_of
from takeovers import QUOTIENTS, SUMS, Died, Pair, at, die, keys, lose_the_lead

import viewkeeper as vk
from viewkeeper.engine.creation import Creation
from viewkeeper.engine.epoch import Epoch
from viewkeeper.engine.leftovers import Leftovers
from viewkeeper.engine.spark import Spark
from viewkeeper.errors import Conflict, Fenced, NotFound, NotMaintainable


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


def test_a_creator_that_wakes_leaves_alone_what_others_made(two: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = two
    run = Epoch.run
    slept: list[bool] = []

    def hanging(self: Epoch, rebuild: Sequence[str] = ()) -> Any:
        if not slept:
            slept.append(True)
            lose_the_lead(one, "on demand")
            other.create_view("sums", SUMS)
        return run(self, rebuild)

    monkeypatch.setattr(Epoch, "run", hanging)
    with pytest.raises(Fenced):
        one.create_view("sums", SUMS)
    assert [view.name for view in other.views()] == ["sums"]
    assert equal(other)


def test_a_creator_that_slept_before_it_said_what_it_makes_makes_nothing(two: Pair) -> None:
    """Another one has ended its epoch: a definition that names it would be that of a view that was never filled."""
    one, other = two
    one.create_view("sums", SUMS)
    one.table("t").put({"k": 3, "x": "a", "y": 5})

    def sleep() -> None:
        lose_the_lead(one, "on demand")
        other.refresh()

    with at("begin.recorded", sleep), pytest.raises(Fenced):
        one.create_view("late", QUOTIENTS)
    assert [view.name for view in other.views()] == ["sums"]
    other.create_view("late", QUOTIENTS)
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


@pytest.mark.parametrize("point", ["_first_aim", "_put_on_record"])
def test_a_view_is_not_made_of_a_table_that_took_the_name_of_another_meanwhile(
    two: Pair, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """It was planned for the columns of the first, and its cut has positions of the first."""
    one, other = two
    step = getattr(Creation, point)

    def anew(*arguments: Any) -> Any:
        monkeypatch.undo()
        other.drop("t")
        other.create_table("t", "k INT, x STRING, y INT", primary_key="k", regions=4)
        return step(*arguments)

    for number in range(3):
        one.table("t").put({"k": 1, "x": "a", "y": number})
    monkeypatch.setattr(Creation, point, anew)
    with pytest.raises(Conflict, match="made again"):
        one.create_view("sums", SUMS)
    assert other.views() == []
    other.create_view("sums", SUMS)
    other.table("t").put({"k": 1, "x": "a", "y": 1})
    other.refresh()
    assert other.view("sums").get("a") == {"x": "a", "s": 1, "n": 1}


def test_a_creation_is_not_too_late_for_its_own_cut(two: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is trimmed after the cut was taken and before it is on record, where it holds the log."""
    one, other = two
    first_aim = Creation._first_aim

    def then_trimmed(*arguments: Any) -> Any:
        monkeypatch.undo()
        aim = first_aim(*arguments)
        other.table("t").put([{"k": key, "x": "a", "y": 100} for key in (1, 2, 3)])
        other.trim(0)
        return aim

    monkeypatch.setattr(Creation, "_first_aim", then_trimmed)
    one.create_view("sums", SUMS)
    assert one.view("sums").scan().to_pylist() == [{"x": "a", "s": 300, "n": 3}]
    assert equal(one)


def test_a_creation_that_is_under_way_keeps_the_log_it_reads(two: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = two
    run = Epoch.run

    def meanwhile(self: Epoch, rebuild: Sequence[str] = ()) -> Any:
        monkeypatch.undo()
        other.table("t").put([{"k": key, "x": "a", "y": 100} for key in (1, 2, 3)])
        other.trim(0)
        return run(self, rebuild)

    monkeypatch.setattr(Epoch, "run", meanwhile)
    one.create_view("sums", SUMS)
    assert one.view("sums").scan().to_pylist() == [{"x": "a", "s": 1, "n": 1}, {"x": "b", "s": 2, "n": 1}]
    one.refresh()
    assert equal(one)


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


def test_a_drop_that_died_leaves_no_cut_that_hides_rows(two: Pair) -> None:
    """The view is gone and its group's cut still has the table: nothing moves that cut any further."""
    one, other = two
    one.create_view("sums", SUMS)
    with at("drop.files_gone", die), pytest.raises(Died):
        one.drop("sums")
    assert other.views() == []
    assert "t" in other._store.group("on demand").committed.cut
    other.table("t").put([{"k": key, "x": "c", "y": key} for key in (3, 4)])
    with other.snapshot() as snapshot:
        assert snapshot.table("t").scan().num_rows == 4
    other.create_view("of_u", "SELECT SUM(z) AS z FROM u")
    assert set(other._store.group("on demand").committed.cut) == {"u"}, "the group's next epoch lets go of it"


@pytest.mark.parametrize("point", ["drop.recorded", "drop.files_gone", "begin.recorded"])
def test_a_drop_that_died_holds_no_log(two: Pair, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    """Its group has no view any more, and nobody comes back to it. To find that out takes no Spark."""
    one, other = two
    one.create_view("sums", SUMS)
    with at(point, die), pytest.raises(Died):
        one.drop("sums")
    other.table("t").put({"k": 3, "x": "c", "y": 3})
    monkeypatch.setattr(Spark, "session", lambda *_, **__: pytest.fail("Spark is asked"))
    other.trim(0)
    assert _logged(other, "t") == 0
    assert {spec.group for spec in store_of(other).tables()} == {None}


def _logged(db: vk.Database, table: str) -> int:
    """Changes that are left of a table's log."""
    newest = store_of(db).positions(table)
    return store_of(db).backlog(table, (0,) * len(newest), newest, whole=False)


def test_a_drop_that_died_holds_no_log_of_what_the_other_views_do_not_read(two: Pair) -> None:
    one, other = two
    one.create_view("sums", SUMS)
    one.create_view("of_u", "SELECT SUM(z) AS z FROM u")
    with at("drop.files_gone", die), pytest.raises(Died):
        one.drop("sums")
    other.table("t").put({"k": 3, "x": "c", "y": 3})
    other.trim(0)
    assert _logged(other, "t") == 0
    other.table("u").put({"x": "b", "z": 2})
    other.refresh()
    assert other.view("of_u").scan().to_pylist() == [{"z": 3}]
    assert equal(other)


@pytest.mark.parametrize(("recorded", "beside"), [(True, True), (True, False), (False, False)])
def test_a_creation_that_died_holds_no_log(
    two: Pair, monkeypatch: pytest.MonkeyPatch, recorded: bool, beside: bool
) -> None:
    """It had begun its epoch, whose cut has the table, and may not yet have said what it makes. (Where it has not, beside
    other views, its epoch is one of theirs that their next refresh finishes.)"""
    one, other = two
    if beside:
        one.create_view("of_u", "SELECT SUM(z) AS z FROM u")
    with monkeypatch.context() as patch:
        if recorded:
            patch.setattr(Epoch, "run", lambda self, rebuild=(): die())
            patch.setattr(Leftovers, "undo_creation", lambda *_: die())
        else:
            patch.setattr(Creation, "_put_on_record", lambda *_: die())
        with pytest.raises(Died):
            one.create_view("sums", SUMS)
    other.table("t").put({"k": 3, "x": "c", "y": 1})
    other.trim(0)
    assert _logged(other, "t") == 0
    other.create_view("sums", SUMS)
    assert equal(other)


def test_a_drop_from_before_the_clock_was_set_back_holds_nobody_up(two: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process died right after it had said what it drops."""
    one, other = two
    day = time.time() + 86_400
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: day)
        said = one._catalog.going("t")
        said.__enter__()
        assert one._catalog.is_going("t")
    other.create_view("sums", SUMS)
    assert equal(other)


def test_what_drops_of_the_dead_have_said_goes_with_the_next(two: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = two
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: 0.0)
        said = one._catalog.going("t")
        said.__enter__()
    assert one._store.records("going/")
    other.drop("t")
    assert one._store.records("going/") == {}


def test_a_drop_that_slept_leaves_the_table_that_took_the_name(two: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found: two drops of one table. The first made room for a new one with a view over it, and the second took that."""
    one, other = two
    drop = type(one._store).drop

    def sleeping(self: Any, *table: Any) -> None:
        if self is one._store:
            monkeypatch.undo()
            other.drop("t")
            other.execute("CREATE TABLE t (k INT PRIMARY KEY, x STRING, y INT)")
            other.table("t").put({"k": 7, "x": "c", "y": 3})
        drop(self, *table)

    monkeypatch.setattr(type(one._store), "drop", sleeping)
    with pytest.raises(NotFound, match="made again"):
        one.drop("t")
    assert keys(other) == [7]
    other.create_view("sums", SUMS)
    assert equal(other)


def test_a_drop_that_ends_does_not_take_back_what_another_has_said(two: Pair) -> None:
    """Found: whoever had said so last, or first, the record was gone, and a view could be made over a table on its way out."""
    one, other = two
    for first, last in (two, two[::-1]):
        with first._catalog.going("t"):
            with last._catalog.going("T"):
                pass
            with pytest.raises(NotFound, match="being dropped"):
                other.create_view("sums", SUMS)
    one.create_view("sums", SUMS)
    assert equal(other)


def test_a_drop_that_slept_leaves_the_view_that_took_the_name(two: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = two
    one.create_view("sums", SUMS)
    fence = type(one._store).fence
    slept: list[bool] = []

    def sleeping(self: Any, group: str, term: int) -> None:
        fence(self, group, term)
        if self is one._store and one._store.records("going/sums/") and not slept:
            slept.append(True)
            lose_the_lead(one, "on demand")
            other.drop("sums")
            other.create_view("sums", QUOTIENTS)

    monkeypatch.setattr(type(one._store), "fence", sleeping)
    with pytest.raises(Fenced):
        one.drop("sums")
    assert slept
    assert [view.name for view in other.views()] == ["sums"]
    assert equal(other)
