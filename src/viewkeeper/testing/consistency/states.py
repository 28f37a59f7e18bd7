"""What readers should see: the queries over the states of the tables, and where in history a look fits.

A query is a function of the tables' rows. It is called once for each state that is new and asked about; a state that
comes again is not evaluated again. A table may be looked at too: what it should show is itself.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from viewkeeper.testing.consistency.base import Base, StateDigest, Tables
from viewkeeper.testing.consistency.observations import Observation
from viewkeeper.testing.consistency.rows import Row, Rows, digest, listed

Query = Callable[[Tables], Rows]

Places = dict[tuple[int, ...], list[int]]
"""From what is shown under some names to the states, in order, that show it."""


class States:
    """Where each look fits."""

    def __init__(self, base: Base, queries: Mapping[str, Query]) -> None:
        self.base = base
        self.queries = queries
        self._digests: dict[tuple[str, StateDigest], int] = {}
        self._places: dict[tuple[tuple[str, ...], tuple[int, ...] | None], Places] = {}

    def right(self, state: int, name: str) -> list[Row]:
        """The rows that a view, or a table, should show in a state."""
        tables = self.base.rows(state)
        return listed(self.queries[name](tables)) if name in self.queries else tables[name]

    def digest(self, state: int, name: str) -> int:
        if name not in self.queries:
            return self.base.table_digest(state, name)
        key = (name, self.base.digest(state))
        if key not in self._digests:
            self._digests[key] = digest(self.right(state, name))
        return self._digests[key]

    def shows(self, state: int, look: Observation) -> bool:
        """Whether all that the look saw is what this one state should show."""
        return all(self.digest(state, name) == seen for name, seen in look.digests.items())

    def earliest(self, look: Observation, floor: int, among: tuple[int, ...] | None = None) -> int | None:
        """The first state from `floor` on that shows what the look saw; only states of `among`, if that is given."""
        states = self.fitting(look, among)
        found = bisect_left(states, floor)
        return states[found] if found < len(states) else None

    def fitting(self, look: Observation, among: tuple[int, ...] | None = None) -> Sequence[int]:
        """Every state that shows what the look saw, in order."""
        names = tuple(sorted(look.digests))
        if (names, among) not in self._places:
            self._places[names, among] = self._placed(names, among)
        return self._places[names, among].get(tuple(look.digests[name] for name in names), ())

    def _placed(self, names: tuple[str, ...], among: tuple[int, ...] | None) -> Places:
        places: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
        for state in range(self.base.last + 1) if among is None else among:
            places[tuple(self.digest(state, name) for name in names)].append(state)
        return dict(places)
