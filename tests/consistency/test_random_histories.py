"""Random histories: what is generated as strong is judged so, what is spoilt is judged lower, and a plain search agrees.

The plain search tries every way to give looks states, as the definitions read. It is what the checker's one pass over the
looks is compared with.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from viewkeeper.testing.consistency import Change, History, Level, Verdict, deleted, inserted
from viewkeeper.testing.consistency.base import Tables

KEYS = 3


def total(tables: Tables) -> list[tuple[int]]:
    return [(sum(amount for _, amount in tables["t"]),)]


def largest(tables: Tables) -> list[tuple[int]]:
    return [(amount,) for _, amount in sorted(tables["t"], key=lambda row: row[1])[-1:]]


QUERIES = {"total": total, "largest": largest}

Write = tuple[int, int | None]
"""A key, and its new amount, or None to delete it."""

writes = st.tuples(st.integers(0, KEYS - 1), st.one_of(st.none(), st.integers(0, 2)))
transactions = st.lists(st.lists(writes, min_size=1, max_size=2, unique_by=lambda write: write[0]), max_size=8)


@dataclass
class Case:
    """A history under way, with the tables of every state beside it."""

    history: History
    states: list[Tables]

    def shown(self, state: int) -> dict[str, Any]:
        return {name: query(self.states[state]) for name, query in QUERIES.items()}

    def judged(self) -> Verdict:
        """With a right look at the end."""
        self.history.look(self.shown(-1), reader="end", final=True)
        return self.history.verdict()


def case_of(batches: list[list[Write]]) -> Case:
    case = Case(History(QUERIES, {"t": []}), [{"t": []}])
    rows: dict[int, int] = {}
    for batch in batches:
        changes = [change for key, amount in batch for change in _write(rows, key, amount)]
        case.history.transaction(changes)
        case.states.append({"t": list(rows.items())})
    return case


def _write(rows: dict[int, int], key: int, amount: int | None) -> list[Change]:
    gone = deleted("t", (key, rows.pop(key))) if key in rows else []
    if amount is None:
        return gone
    rows[key] = amount
    return [*gone, *inserted("t", (key, amount))]


@st.composite
def strong_cases(draw: st.DrawFn) -> Case:
    """Readers that go forward, each at its own pace. Nobody has looked at the end yet."""
    case = case_of(draw(transactions))
    last = len(case.states) - 1
    for reader in ("a", "b"):
        for state in sorted(draw(st.lists(st.integers(0, last), max_size=6))):
            case.history.look(case.shown(state), reader=reader)
    return case


@given(strong_cases())
def test_what_goes_forward_is_strong(case: Case) -> None:
    assert case.judged().level >= Level.STRONG


@given(strong_cases(), st.data())
def test_states_tried_first_change_nothing(case: Case, data: st.DataObject) -> None:
    before = case.judged()
    for state in data.draw(st.lists(st.integers(0, len(case.states) - 1))):
        case.history.try_first(state)
    assert case.history.verdict() == before


@given(transactions)
def test_whoever_sees_everything_is_complete(batches: list[list[Write]]) -> None:
    case = case_of(batches)
    for state in range(len(case.states)):
        case.history.look(case.shown(state))
    assert case.judged().level is Level.COMPLETE


@given(strong_cases())
def test_a_wrong_end_is_none(case: Case) -> None:
    case.history.look({"total": [(1_000,)]}, reader="wrong", final=True)
    assert case.judged().level is Level.NONE


@given(strong_cases())
def test_a_wrong_state_is_convergence_at_most(case: Case) -> None:
    case.history.look({"total": [(1_000,)]}, reader="wrong")
    verdict = case.judged()
    assert verdict.level is Level.CONVERGENCE
    assert verdict.counter_example is not None
    assert verdict.counter_example.look is not None
    assert verdict.counter_example.look.reader == "wrong"


@given(strong_cases())
def test_a_state_from_before_an_unmistakable_one_is_weak(case: Case) -> None:
    """A larger amount than ever, then back to the state before it, which never comes again."""
    rows = [*case.states[-1]["t"], (KEYS, 100)]
    case.history.transaction(inserted("t", (KEYS, 100)))
    case.states.append({"t": rows})
    for state in (-1, -2):
        case.history.look(case.shown(state), reader="back")
    verdict = case.judged()
    assert verdict.level is Level.WEAK
    assert verdict.counter_example is not None
    assert verdict.counter_example.look is not None
    assert (verdict.counter_example.look.reader, verdict.counter_example.look.number) == ("back", 2)


# The plain search

Look = tuple[int, int, int, int]
"""The reader, the state that is shown, how long after the reader's last look it began, how long it took."""


@settings(max_examples=200)
@given(
    transactions.filter(lambda batches: len(batches) <= 4),
    st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 4), st.integers(0, 3), st.integers(0, 5)), min_size=1, max_size=5
    ),
)
def test_a_plain_search_agrees(batches: list[list[Write]], looks: list[Look]) -> None:
    case = case_of(batches)
    last = len(case.states) - 1
    timed = _with_times([look for look in looks if look[1] <= last])
    for reader, state, began, ended in timed:
        case.history.look(case.shown(state), reader=str(reader), began=began, ended=ended)
    assert (case.judged().level >= Level.STRONG) == _search(case, timed)


def _with_times(looks: list[Look]) -> list[tuple[int, int, int, int]]:
    """Each reader's looks one after the other: reader, state, beginning and end."""
    clocks = [0, 0]
    timed = []
    for reader, state, pause, length in looks:
        began = clocks[reader] + pause
        clocks[reader] = began + length
        timed.append((reader, state, began, clocks[reader]))
    return timed


def _search(case: Case, looks: list[tuple[int, int, int, int]]) -> bool:
    fitting = [
        [state for state in range(len(case.states)) if case.shown(state) == case.shown(shown)]
        for _, shown, _, _ in looks
    ]
    before = [
        (first, second)
        for first, second in product(range(len(looks)), repeat=2)
        if (looks[first][0] == looks[second][0] and first < second) or looks[first][3] < looks[second][2]
    ]
    return any(all(choice[one] <= choice[two] for one, two in before) for choice in product(*fitting))
