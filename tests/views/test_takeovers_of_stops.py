"""A view has stopped, and whoever brings it back, or drops it, sleeps or dies: each was once a wrong answer."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from small import equal
from takeovers import QUOTIENTS, SUMS, Died, Pair, at, die, lose_the_lead

from viewkeeper.engine.catalog import ViewCatalog
from viewkeeper.engine.leftovers import Leftovers
from viewkeeper.engine.maintainer import Maintainer
from viewkeeper.engine.stops import Stop
from viewkeeper.errors import Fenced


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
            lose_the_lead(one, "on demand")
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
            lose_the_lead(one, "on demand")
            other.repair("sums")
        before_commit(self, *others)

    monkeypatch.setattr(Maintainer, "before_commit", sleeping)
    with pytest.raises(Fenced):
        one.create_view("late", "SELECT COUNT(*) AS n FROM t")
    assert slept
    other.refresh()
    assert other.view("quotients").scan().num_rows == 4
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
            lose_the_lead(one, "on demand")
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
