"""The base history: the states that the tables went through, one transaction at a time.

State 0 is the beginning, state i the one after the i-th transaction. There are no states inside a transaction. What is kept is
the beginning and the changes; the tables are at one state at a time, and go to another by applying or undoing what lies between.
Each state's digest is kept, so a state that comes again is known as one that was there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from viewkeeper.errors import InputError
from viewkeeper.testing.consistency.rows import MODULUS, Row, canonical, digest, row_digest

Tables = dict[str, list[Any]]
"""Every table's rows, as a query gets them."""

StateDigest = tuple[int, ...]


@dataclass(frozen=True)
class Change:
    """A row that came (weight 1) or went (weight −1)."""

    table: str
    row: Row
    weight: int


def inserted(table: str, *rows: Row) -> list[Change]:
    return [Change(table, row, 1) for row in rows]


def deleted(table: str, *rows: Row) -> list[Change]:
    return [Change(table, row, -1) for row in rows]


def updated(table: str, before: Row, after: Row) -> list[Change]:
    return [Change(table, before, -1), Change(table, after, 1)]


@dataclass(frozen=True)
class Transaction:
    """Changes that happened at once."""

    name: str
    changes: tuple[Change, ...]


class Base:
    """The states of the tables, in order."""

    def __init__(self, beginning: Mapping[str, Iterable[Row]]) -> None:
        self._names = tuple(beginning)
        self.transactions: list[Transaction] = []
        self._tables = {name: _Table(rows) for name, rows in beginning.items()}
        self._digests: list[StateDigest] = [tuple(table.digest for table in self._tables.values())]
        self._at = 0

    @property
    def tables(self) -> tuple[str, ...]:
        return self._names

    @property
    def last(self) -> int:
        """The number of the last state."""
        return len(self.transactions)

    def append(self, transaction: Transaction) -> None:
        """One more state. Refused, with nothing done, if a row goes that is not there."""
        self._move(self.last)
        done: list[Change] = []
        try:
            for change in _departures_first(transaction.changes):
                self._table(change.table).add(change.row, change.weight)
                done.append(change)
        except InputError:
            for change in reversed(done):
                self._tables[change.table].add(change.row, -change.weight)
            raise
        self.transactions.append(transaction)
        self._at = self.last
        self._digests.append(tuple(table.digest for table in self._tables.values()))

    def digest(self, state: int) -> StateDigest:
        """Equal for equal states."""
        return self._digests[state]

    def table_digest(self, state: int, table: str) -> int:
        return self._digests[state][self._names.index(table)]

    def rows(self, state: int) -> Tables:
        """Every table's rows in a state, in no order that means anything."""
        self._move(state)
        return {name: table.rows() for name, table in self._tables.items()}

    def words(self, state: int) -> str:
        """A state in a sentence."""
        return f'the state after transaction "{self.transactions[state - 1].name}"' if state else "the first state"

    def _table(self, name: str) -> _Table:
        if name not in self._tables:
            raise InputError(f'the history has no table "{name}"', hint=f"it began with {', '.join(self._names)}")
        return self._tables[name]

    def _move(self, state: int) -> None:
        while self._at < state:
            self._at += 1
            self._add(_departures_first(self.transactions[self._at - 1].changes), 1)
        while self._at > state:
            self._add(reversed(_departures_first(self.transactions[self._at - 1].changes)), -1)
            self._at -= 1

    def _add(self, changes: Iterable[Change], sign: int) -> None:
        for change in changes:
            self._tables[change.table].add(change.row, sign * change.weight)


def _departures_first(changes: Iterable[Change]) -> list[Change]:
    """A row may leave and come again in one transaction; it must not leave before it has come."""
    return sorted(changes, key=lambda change: change.weight)


class _Table:
    """A bag of rows that changes."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._held: dict[str, list[Any]] = {}
        self.digest = digest(())
        for row in rows:
            self.add(row, 1)

    def add(self, row: Row, weight: int) -> None:
        text = canonical(row)
        held = self._held.get(text, [])
        if len(held) + weight < 0:
            raise InputError(
                f"the history removes a row that is not there: {row}", hint="record what each transaction did, in order"
            )
        self._held[text] = held[:weight] if weight < 0 else held + [row] * weight
        if not self._held[text]:
            del self._held[text]
        self.digest = (self.digest + weight * row_digest(row)) % MODULUS

    def rows(self) -> list[Row]:
        return [row for held in self._held.values() for row in held]
