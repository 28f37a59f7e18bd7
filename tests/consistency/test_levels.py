"""Hand-made histories of every level, and the edges between them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from viewkeeper.errors import InputError
from viewkeeper.testing.consistency import History, Level, deleted, inserted, updated
from viewkeeper.testing.consistency.base import Tables


def total(tables: Tables) -> list[tuple[int]]:
    return [(sum(amount for _, amount in tables["t"]),)]


def count(tables: Tables) -> list[tuple[int]]:
    return [(len(tables["t"]),)]


def history_of(*amounts: int) -> History:
    """Amounts that come one by one: the totals are their running sums, from 0 on."""
    history = History({"total": total, "count": count}, {"t": []})
    for key, amount in enumerate(amounts, start=1):
        history.transaction(inserted("t", (key, amount)), name=f"t{key}")
    return history


def look(history: History, *totals: int, reader: str = "r") -> None:
    for found in totals:
        history.look({"total": [(found,)]}, reader=reader)


def at_the_end(history: History, found: int) -> History:
    history.look({"total": [(found,)]}, reader="end", final=True)
    return history


# Every level


def test_none_where_the_end_is_wrong() -> None:
    history = history_of(50, 100)
    look(history, 0, 50, 150)
    verdict = at_the_end(history, 250).verdict()
    assert verdict.level is Level.NONE
    assert str(verdict) == (
        'none, not convergence: reader "end" (look 1) saw, when all was done, what the state after transaction "t2" '
        'does not give: in "total" unexpected (250,); missing (150,)'
    )
    example = verdict.counter_example
    assert example is not None
    assert example.look is not None
    assert (example.look.seen, example.state) == ({"total": [(250,)]}, 2)


def test_convergence_where_some_state_is_wrong() -> None:
    history = history_of(50, 100)
    look(history, 0, 100, 150)
    verdict = at_the_end(history, 150).verdict()
    assert verdict.level is Level.CONVERGENCE
    assert str(verdict) == (
        'convergence, not weak: no state gives what reader "r" (look 2) saw; the first state comes nearest: '
        'in "total" unexpected (100,); missing (0,)'
    )


def test_weak_where_the_order_is_wrong() -> None:
    history = history_of(50, 100, 1)
    look(history, 0, 150, 50)
    verdict = at_the_end(history, 151).verdict()
    assert verdict.level is Level.WEAK
    assert str(verdict) == (
        'weak, not strong: reader "r" (look 3) saw the state after transaction "t1" or an older one, '
        'after reader "r" (look 2) had seen the state after transaction "t2" or a newer one'
    )
    example = verdict.counter_example
    assert example is not None
    assert example.look is not None
    assert example.before is not None
    assert (example.look.number, example.before.number, example.state) == (3, 2, 1)


def test_strong_where_states_are_left_out() -> None:
    history = history_of(50, 100, 1)
    look(history, 0, 150)
    verdict = at_the_end(history, 151).verdict()
    assert verdict.level is Level.STRONG
    assert str(verdict) == (
        'strong, not complete: no reader that saw all before it saw the state after transaction "t1"'
    )


def test_complete_where_every_state_is_seen() -> None:
    history = History({"total": total}, {"t": []})
    for key in range(1, 4):
        history.transaction(inserted("t", (key, 1)))
    look(history, 0, 0, 1, 2, 2)
    verdict = at_the_end(history, 3).verdict()
    assert (verdict.level, verdict.counter_example) == (Level.COMPLETE, None)
    assert str(verdict) == "complete"


def test_levels_are_ordered() -> None:
    assert Level.NONE < Level.CONVERGENCE < Level.WEAK < Level.STRONG < Level.COMPLETE
    assert [str(level) for level in Level] == ["none", "convergence", "weak", "strong", "complete"]


# Edges


def test_a_history_without_transactions() -> None:
    history = History({"total": total}, {"t": [(1, 5)]})
    assert at_the_end(history, 5).verdict().level is Level.COMPLETE
    assert at_the_end(History({"total": total}, {"t": []}), 5).verdict().level is Level.NONE


def test_a_state_that_comes_again_may_be_seen_again() -> None:
    """0, 5, 0, 5: whoever sees 5, then 0, then 5 has gone along with it."""
    history = History({"total": total}, {"t": []})
    for _ in range(2):
        history.transaction(inserted("t", (1, 5)))
        history.transaction(deleted("t", (1, 5)))
    history.transaction(inserted("t", (1, 5)))
    look(history, 5, 0, 5, 0)
    assert at_the_end(history, 5).verdict().level is Level.STRONG
    look(history, 5, 0, reader="late")
    assert history.verdict().level is Level.STRONG
    look(history, 5, 0, 5, reader="late")
    assert history.verdict().level is Level.STRONG
    look(history, 0, reader="late")
    assert history.verdict().level is Level.WEAK, "the third return to 0 never happened"


def test_a_state_that_comes_again_must_be_seen_again_to_be_complete() -> None:
    history = History({"total": total}, {"t": []})
    history.transaction(inserted("t", (1, 5)))
    history.transaction(deleted("t", (1, 5)))
    history.transaction(inserted("t", (2, 7)))
    look(history, 0, 5)
    assert at_the_end(history, 7).verdict().level is Level.STRONG
    look(history, 0, 5, 0, reader="all")
    assert history.verdict().level is Level.COMPLETE


def test_a_right_state_that_goes_back() -> None:
    history = history_of(1, 1)
    look(history, 0, 2, 1, 2)
    assert at_the_end(history, 2).verdict().level is Level.WEAK


def test_what_shows_nothing_needs_no_look() -> None:
    """A transaction that changes no view, and one that changes nothing, are seen by seeing what was there."""
    history = History({"total": total}, {"t": []})
    history.transaction(inserted("t", (1, 0)))
    history.transaction()
    history.transaction(inserted("t", (2, 3)))
    look(history, 0)
    assert at_the_end(history, 3).verdict().level is Level.COMPLETE


def test_duplicates_count_and_order_does_not() -> None:
    def everything(tables: Tables) -> Any:
        return tables["t"]

    history = History({"all": everything}, {"t": []})
    history.transaction(inserted("t", (1, 1), (1, 1), (2, 2)))
    history.look({"all": [(2, 2), (1, 1), (1, 1)]}, final=True)
    assert history.verdict().level is Level.STRONG
    history.look({"all": [(2, 2), (1, 1)]}, final=True)
    example = history.verdict().counter_example
    assert example is not None
    assert example.sentence.endswith('in "all" missing (1, 1)')


def test_rows_may_be_mappings_and_arrow_tables() -> None:
    history = History({"same": lambda tables: tables["t"]}, {"t": pa.table({"a": [1.5], "b": [[1]]})})
    history.transaction(updated("t", {"b": [1], "a": 1.5}, {"a": float("nan"), "b": None}))
    history.look({"same": pa.table({"b": [None], "a": [float("nan")]})}, final=True)
    history.look({"t": [{"a": float("nan"), "b": None}]}, final=True)
    assert history.verdict().level is Level.STRONG


def test_close_numbers_are_different() -> None:
    """Python's hash takes −1 and −2 for the same."""
    history = history_of(-1, -1)
    look(history, -2, -1)
    assert at_the_end(history, -2).verdict().level is Level.WEAK


# Several views, several readers


def test_views_seen_at_once_are_of_one_state() -> None:
    history = history_of(10, 20)
    history.look({"total": [(10,)], "count": [(2,)]})
    verdict = at_the_end(history, 30).verdict()
    assert verdict.level is Level.CONVERGENCE
    assert str(verdict) == (
        'convergence, not weak: no one state gives what reader "reader" (look 1) saw at once: '
        '"total" is of the state after transaction "t1", "count" is of the state after transaction "t2"'
    )


def test_views_seen_one_after_the_other_keep_the_order_too() -> None:
    history = history_of(10, 20)
    history.look({"count": [(2,)]})
    history.look({"total": [(10,)]})
    assert at_the_end(history, 30).verdict().level is Level.WEAK


def test_a_table_shows_itself() -> None:
    history = history_of(10, 20)
    history.look({"total": [(10,)], "t": [(1, 10)]})
    assert at_the_end(history, 30).verdict().level is Level.STRONG
    history.look({"total": [(10,)], "t": [(1, 10), (2, 20)]})
    assert history.verdict().level is Level.CONVERGENCE


def test_readers_without_times_are_not_compared() -> None:
    history = history_of(10, 20)
    look(history, 30, reader="fast")
    look(history, 10, reader="slow")
    assert at_the_end(history, 30).verdict().level is Level.STRONG


@pytest.mark.parametrize(("began", "level"), [(2.5, Level.WEAK), (2.0, Level.STRONG), (1.5, Level.STRONG)])
def test_readers_with_times_are_compared_where_one_look_ended_before_the_other_began(
    began: float, level: Level
) -> None:
    history = history_of(10, 20)
    history.look({"total": [(30,)]}, reader="fast", began=1, ended=2)
    history.look({"total": [(10,)]}, reader="slow", began=began, ended=3)
    assert at_the_end(history, 30).verdict().level is level


def test_a_long_look_holds_nobody_up() -> None:
    """It may show anything between its beginning and its end; what comes after it is not below that."""
    history = history_of(1, 1, 1)
    history.look({"total": [(3,)]}, reader="long", began=0, ended=10)
    history.look({"total": [(1,)]}, reader="short", began=2, ended=3)
    history.look({"total": [(2,)]}, reader="short", began=4, ended=5)
    assert at_the_end(history, 3).verdict().level is Level.STRONG
    history.look({"total": [(2,)]}, reader="short", began=11, ended=12)
    verdict = history.verdict()
    assert verdict.level is Level.WEAK
    assert verdict.counter_example is not None
    assert verdict.counter_example.before is not None
    assert verdict.counter_example.before.reader == "long"


def test_what_two_readers_saw_is_not_added_up() -> None:
    history = history_of(1, 1)
    for reader, found in (("one", 0), ("two", 1)):
        look(history, found, reader=reader)
    assert at_the_end(history, 2).verdict().level is Level.STRONG


# States to try first


def test_states_tried_first_change_no_verdict() -> None:
    for totals, level in (((0, 1, 3), Level.STRONG), ((0, 2, 1), Level.WEAK), ((0, 9), Level.CONVERGENCE)):
        for tried in ((), (0,), (2,), (0, 1, 2, 3, 4)):
            history = history_of(1, 1, 1, 1)
            for state in tried:
                history.try_first(state)
            look(history, *totals)
            assert at_the_end(history, 4).verdict().level is level, (totals, tried)


def test_a_right_guess_saves_evaluations() -> None:
    evaluated = []

    def counted(tables: Tables) -> Any:
        evaluated.append(len(tables["t"]))
        return total(tables)

    history = History({"total": counted}, {"t": []})
    for key in range(1, 1_001):
        history.transaction(inserted("t", (key, 1)))
    for state in (0, 500, 1_000):
        history.try_first(state)
        look(history, state)
    assert at_the_end(history, 1_000).verdict().level is Level.STRONG
    assert sorted(evaluated) == [0, 1, 500, 1_000], "and one more for the first state that nobody saw"


def test_thousands_of_transactions_and_looks() -> None:
    history = history_of(*[1] * 3_000)
    for reader in ("a", "b", "c"):
        look(history, *range(0, 3_000, 2), reader=reader)
    assert at_the_end(history, 3_000).verdict().level is Level.STRONG


# What cannot be judged


def test_nobody_looked_at_the_end() -> None:
    history = history_of(1)
    look(history, 1)
    with pytest.raises(InputError, match="nobody looked at the end"):
        history.verdict()


def test_a_history_that_contradicts_itself_is_refused() -> None:
    history = history_of(1)
    with pytest.raises(InputError, match=r"removes a row that is not there: \(7, 7\)"):
        history.transaction(inserted("t", (2, 2)), deleted("t", (1, 1)), deleted("t", (7, 7)))
    assert at_the_end(history, 1).verdict().level is Level.STRONG, "nothing of it was taken"
    with pytest.raises(InputError, match='has no table "u"'):
        history.transaction(inserted("u", (1, 1)))
    with pytest.raises(InputError, match='has no view or table "u"'):
        history.look({"u": []})
    with pytest.raises(InputError, match='"t" is both a view and a table'):
        History({"t": total}, {"t": []})


def test_looks_that_contradict_themselves_are_refused() -> None:
    history = history_of(1)
    with pytest.raises(InputError, match="has one time"):
        history.look({"total": [(0,)]}, began=1)
    with pytest.raises(InputError, match="ended before it began"):
        history.look({"total": [(0,)]}, began=2, ended=1)
    history.look({"total": [(0,)]}, began=1, ended=2)
    with pytest.raises(InputError, match="began before the one before it had ended"):
        history.look({"total": [(0,)]}, began=1, ended=3)
    with pytest.raises(InputError, match="are not alike"):
        history.look({"total": [(0,)]})
    history.look({"total": [(1,)]}, began=3, ended=4, final=True)
    with pytest.raises(InputError, match="comes after the reader's final one"):
        history.look({"total": [(1,)]}, began=5, ended=6)
