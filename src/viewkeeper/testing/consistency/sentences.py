"""Counter-examples in words: who saw what, and what the tables say."""

from __future__ import annotations

from viewkeeper.testing.consistency.observations import Observation
from viewkeeper.testing.consistency.rows import difference
from viewkeeper.testing.consistency.states import States


def divergence(states: States, look: Observation) -> str:
    last = states.base.last
    return f"{look} saw, when all was done, what {states.base.words(last)} does not give: {_differences(states, look, last)}"


def stray(states: States, look: Observation, nearest: int) -> str:
    alone = _right_alone(states, look)
    if alone:
        return f"no one state gives what {look} saw at once: {alone}"
    return f"no state gives what {look} saw; {states.base.words(nearest)} comes nearest: {_differences(states, look, nearest)}"


def disorder(states: States, look: Observation, latest: int, before: Observation, floor: int) -> str:
    older = states.base.words(latest) + (" or an older one" if latest else "")
    newer = states.base.words(floor) + (" or a newer one" if floor < states.base.last else "")
    return f"{look} saw {older}, after {before} had seen {newer}"


def gap(states: States, state: int) -> str:
    return f"no reader that saw all before it saw {states.base.words(state)}"


def nearest(states: States, look: Observation) -> int:
    """The state that differs from what was seen in the fewest rows; the first of several."""
    return min(range(states.base.last + 1), key=lambda state: _distance(states, look, state))


def _distance(states: States, look: Observation, state: int) -> int:
    return sum(len(difference(rows, states.right(state, name))) for name, rows in look.seen.items())


def _differences(states: States, look: Observation, state: int) -> str:
    found = {name: difference(rows, states.right(state, name)) for name, rows in look.seen.items()}
    return "; ".join(f'in "{name}" {differs}' for name, differs in found.items() if len(differs))


def _right_alone(states: States, look: Observation) -> str | None:
    """Where everything that was seen is right by itself, of some state: what a torn transaction looks like."""
    places = {name: _alone(states, look, name) for name in look.seen}
    if len(places) < 2 or None in places.values():
        return None
    return ", ".join(
        f'"{name}" is of {states.base.words(state)}' for name, state in places.items() if state is not None
    )


def _alone(states: States, look: Observation, name: str) -> int | None:
    fitting = (state for state in range(states.base.last + 1) if states.digest(state, name) == look.digests[name])
    return next(fitting, None)
