"""The levels, and how a history is placed on one.

| level | what holds |
|---|---|
| convergence | the final looks show the queries over the last state |
| weak | and every look shows the queries over some state: one state for all that was seen at once |
| strong | and there is a choice of such states under which no look shows an older state than a look before it |
| complete | and some reader went through every state, in order; states that show the same count as one |

**The earliest choice is the best one.** Let f be any choice that keeps the order, and let g give each look, in an order in
which predecessors come first, the earliest fitting state that is not below those of its predecessors. Then g ≤ f everywhere:
if g ≤ f for all predecessors of a look, then the state f gives it fits, and is not below g's floor, so g's state is at most
that one. So where some f exists, g never fails; where g fails, there is none. That a state comes again later, or that
readers are ordered only in part, changes nothing in this argument.

**States to try first.** With a long history most time goes into evaluating queries. If it is known where views were meant
to be (the cuts of epochs), those states are tried alone first. A choice among them is a choice: it proves `strong`.
None among them proves nothing, and all states are tried.

**Complete.** If adjacent states that show the same are taken as one, a reader that went through all of them, in order,
has seen exactly that sequence, repeated looks aside. What different readers saw makes no one sequence, so it is not added up.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from viewkeeper.errors import InputError
from viewkeeper.testing.consistency import sentences
from viewkeeper.testing.consistency.observations import Floors, Observation, Readers
from viewkeeper.testing.consistency.states import States


class Level(enum.IntEnum):
    """How true to its tables a history of views is. Each level includes those below it."""

    NONE = 0
    CONVERGENCE = 1
    WEAK = 2
    STRONG = 3
    COMPLETE = 4

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class CounterExample:
    """The first thing that the next level rules out.

    `sentence` says it. `look` is the look that shows it, and `before` the one that it contradicts; `state` is the number
    of the state that the sentence compares with.
    """

    sentence: str
    look: Observation | None = None
    before: Observation | None = None
    state: int | None = None


@dataclass(frozen=True)
class Verdict:
    """The level that a history meets, and why not the next one."""

    level: Level
    counter_example: CounterExample | None

    def __str__(self) -> str:
        if self.counter_example is None:
            return str(self.level)
        return f"{self.level}, not {Level(self.level + 1)}: {self.counter_example.sentence}"


def judge(states: States, readers: Readers, tried_first: Sequence[int] = ()) -> Verdict:
    """Place a history. `InputError` if nobody looked when all was done."""
    divergence = _divergence(states, readers)
    if divergence is not None:
        return Verdict(Level.NONE, divergence)
    if not tried_first or _misfit(states, readers, tuple(sorted(tried_first))) is not None:
        stray = _stray(states, readers)
        if stray is not None:
            return Verdict(Level.CONVERGENCE, stray)
        disorder = _disorder(states, readers)
        if disorder is not None:
            return Verdict(Level.WEAK, disorder)
    gap = _gap(states, readers)
    return Verdict(Level.COMPLETE, None) if gap is None else Verdict(Level.STRONG, gap)


def _divergence(states: States, readers: Readers) -> CounterExample | None:
    """A final look that does not show the last state."""
    finals = readers.finals()
    if not finals:
        raise InputError("nobody looked at the end", hint="record one look with final=True when all is done")
    for look in finals:
        if not states.shows(states.base.last, look):
            sentence = sentences.divergence(states, look)
            return CounterExample(sentence, look, state=states.base.last)
    return None


def _stray(states: States, readers: Readers) -> CounterExample | None:
    """A look that shows no state at all."""
    for look in readers.in_order():
        if not states.fitting(look):
            nearest = sentences.nearest(states, look)
            return CounterExample(sentences.stray(states, look, nearest), look, state=nearest)
    return None


def _disorder(states: States, readers: Readers) -> CounterExample | None:
    """A look that shows only older states than one before it did."""
    misfit = _misfit(states, readers, None)
    if misfit is None:
        return None
    look, floor, before = misfit
    latest = states.fitting(look)[-1]
    assert before is not None, "a look that shows some state is above the first one"
    return CounterExample(sentences.disorder(states, look, latest, before, floor), look, before, latest)


def _misfit(
    states: States, readers: Readers, among: tuple[int, ...] | None
) -> tuple[Observation, int, Observation | None] | None:
    """The earliest choice, as the module argues: the first look that it has no state for, and what it must come after."""
    floors = Floors()
    for look in readers.in_order():
        floor, before = floors.below(look)
        state = states.earliest(look, floor, among)
        if state is None:
            return look, floor, before
        floors.add(look, state)
    return None


def _gap(states: States, readers: Readers) -> CounterExample | None:
    """The first state that nobody saw in its place: of all readers, the one that got furthest is asked."""
    names = frozenset(name for look in readers.looks for name in look.seen if name in states.queries)
    furthest = max(_passed(states, _whole(looks, names)) for _, looks in readers.sequences())
    if furthest > states.base.last:
        return None
    return CounterExample(sentences.gap(states, furthest), state=furthest)


def _whole(looks: Sequence[Observation], names: frozenset[str]) -> list[Observation]:
    """The looks that saw every view that anyone saw, without those that saw the same as the one before."""
    whole = [look for look in looks if names <= look.seen.keys()]
    different = [after for before, after in pairwise(whole) if before.digests != after.digests]
    return [*whole[:1], *different]


def _passed(states: States, looks: Sequence[Observation]) -> int:
    """The first state that these looks did not go through."""
    place = 0
    for state in range(states.base.last + 1):
        if place < len(looks) and states.shows(state, looks[place]):
            continue
        place += 1 if state else 0
        if place >= len(looks) or not states.shows(state, looks[place]):
            return state
    return states.base.last + 1
