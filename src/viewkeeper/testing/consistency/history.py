"""Recording a history: what happened to the tables, and what readers saw."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from viewkeeper.errors import InputError
from viewkeeper.testing.consistency.base import Base, Change, Transaction
from viewkeeper.testing.consistency.levels import Verdict, judge
from viewkeeper.testing.consistency.observations import Observation, Readers
from viewkeeper.testing.consistency.rows import Rows, listed
from viewkeeper.testing.consistency.states import Query, States


class History:
    """What was done and what was seen.

    `queries` has the views: functions from `{table: list of rows}` to rows. `beginning` has every table, with the rows
    that it had before the first transaction. Views that need not be at one state together (those of different groups) have
    histories of their own.
    """

    def __init__(self, queries: Mapping[str, Query], beginning: Mapping[str, Rows]) -> None:
        both = sorted(queries.keys() & beginning.keys())
        if both:
            raise InputError(f'"{both[0]}" is both a view and a table', hint="give each a name of its own")
        self.base = Base({name: listed(rows) for name, rows in beginning.items()})
        self.tried_first: set[int] = set()
        self._queries = dict(queries)
        self._readers = Readers()

    def transaction(self, *changes: Iterable[Change], name: str | None = None) -> int:
        """Record a transaction, in the order in which they happened; the number of the state after it.

        `changes` come from `inserted`, `deleted` and `updated`.
        """
        together = tuple(change for some in changes for change in some)
        self.base.append(Transaction(str(self.base.last + 1) if name is None else name, together))
        return self.base.last

    def try_first(self, state: int) -> None:
        """Say that views were meant to be at this state: it costs nothing if they were not, and saves time if they were."""
        self.tried_first.add(state)

    def look(
        self,
        seen: Mapping[str, Rows],
        *,
        reader: str = "reader",
        began: float | None = None,
        ended: float | None = None,
        final: bool = False,
    ) -> Observation:
        """Record what a reader saw at once: rows by the name of a view or a table."""
        for name in seen:
            if name not in self._queries and name not in self.base.tables:
                known = ", ".join([*self._queries, *self.base.tables])
                raise InputError(f'the history has no view or table "{name}"', hint=f"it has {known}")
        rows = {name: listed(some) for name, some in seen.items()}
        found = Observation(reader, self._readers.count(reader) + 1, rows, began, ended, final)
        self._readers.add(found)
        return found

    def verdict(self) -> Verdict:
        """The level that this history meets, with the first counter-example to the next one."""
        return judge(States(self.base, self._queries), self._readers, tuple(self.tried_first))
