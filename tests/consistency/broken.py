"""A maintainer as in the papers: updates are messages, workers carry them to the view, and each protection has a switch.

A worker takes an update in two steps: it *reads* what it needs (the view's row, or rows of the base tables), and later
it *writes* the view. A schedule says which step comes when; anything may come between the two, and a message may come
twice. Readers look at the view after every write. With all protections the view is right under every schedule. Without
one of them, a schedule that the papers give makes it wrong.

It is deterministic and single-threaded: the schedule is the concurrency.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from viewkeeper.testing.consistency import History, Verdict, deleted, inserted
from viewkeeper.testing.consistency.base import Tables

Row = tuple[Any, ...]


class Protection(enum.Enum):
    """What keeps each of the four threats away."""

    ONCE = "an update that was applied is not applied again"
    ORDER = "updates are written in the order in which the tables got them"
    CHECK = "what was read is read again if the view has changed since"
    POSITION = "the tables are read as they were when the update was made"


EVERYTHING = frozenset(Protection)


@dataclass(frozen=True)
class Update:
    """A row of a table, before and after. `number` is its place in the order of all updates, from 1."""

    number: int
    table: str
    before: Row | None
    after: Row | None

    def images(self) -> Iterable[tuple[Row, int]]:
        return [(row, weight) for row, weight in ((self.before, -1), (self.after, 1)) if row is not None]


class View(ABC):
    """A view's rows, and how a worker brings an update to them."""

    def __init__(self) -> None:
        self.rows: Counter[Row] = Counter()

    @abstractmethod
    def query(self, tables: Tables) -> list[Row]:
        """The truth."""

    @abstractmethod
    def read(self, update: Update, tables: Tables) -> Any:
        """What the worker needs to know."""

    @abstractmethod
    def write(self, update: Update, known: Any) -> None:
        """Change the rows, by what the worker knows."""

    def put(self, key: Row, row: Row | None) -> None:
        """In place of the row whose first columns are the key."""
        for old in [old for old in self.rows if old[: len(key)] == key]:
            del self.rows[old]
        if row is not None:
            self.rows[row] = 1

    def value(self, key: Row) -> Any:
        return next((row[-1] for row in self.rows if row[:-1] == key), None)


class Sum(View):
    """SELECT x, SUM(y) FROM r GROUP BY x: the row is read, added to, and written back. Rows of r are (k, x, y)."""

    def query(self, tables: Tables) -> list[Row]:
        sums: Counter[Any] = Counter()
        for _, x, y in tables["r"]:
            sums[x] += y
        return list(sums.items())

    def read(self, update: Update, tables: Tables) -> dict[Any, int]:
        return {row[1]: self.value((row[1],)) or 0 for row, _ in update.images()}

    def write(self, update: Update, known: dict[Any, int]) -> None:
        for (_, x, y), weight in update.images():
            known[x] += weight * y
        for x, total in known.items():
            self.put((x,), (x, total))


class Selection(View):
    """SELECT k, y FROM r WHERE y < 300: the row is what the update says. Rows of r are (k, y)."""

    def query(self, tables: Tables) -> list[Row]:
        return [(k, y) for k, y in tables["r"] if y < 300]

    def read(self, update: Update, tables: Tables) -> None:
        return None

    def write(self, update: Update, known: None) -> None:
        row = update.after or update.before
        assert row is not None
        self.put(row[:1], update.after if update.after is not None and update.after[1] < 300 else None)


class Join(View):
    """SELECT x, y, z FROM r JOIN s USING (x), without the keys: the other table is searched for partners."""

    def query(self, tables: Tables) -> list[Row]:
        return [(x, y, z) for _, x, y in tables["r"] for _, other, z in tables["s"] if x == other]

    def read(self, update: Update, tables: Tables) -> list[tuple[Row, int]]:
        other = tables["s" if update.table == "r" else "r"]
        pairs = [(row, partner, weight) for row, weight in update.images() for partner in other if partner[1] == row[1]]
        return [(_pair(update.table, row, partner), weight) for row, partner, weight in pairs]

    def write(self, update: Update, known: list[tuple[Row, int]]) -> None:
        for row, weight in known:
            self.rows[row] += weight
        self.rows = +self.rows


def _pair(table: str, row: Row, partner: Row) -> Row:
    r, s = (row, partner) if table == "r" else (partner, row)
    return r[1], r[2], s[2]


class Least(View):
    """SELECT x, MIN(y) FROM r GROUP BY x: if the least value goes, the table is searched for the next."""

    def query(self, tables: Tables) -> list[Row]:
        return list({x: (x, y) for _, x, y in sorted(tables["r"], key=lambda row: -row[2])}.values())

    def read(self, update: Update, tables: Tables) -> list[Row]:
        return self.query(tables)

    def write(self, update: Update, known: list[Row]) -> None:
        for (_, x, y), weight in update.images():
            least = self.value((x,))
            if weight < 0 and y == least:
                self.put((x,), next((row for row in known if row[0] == x), None))
            if weight > 0 and (least is None or y < least):
                self.put((x,), (x, y))


Step = tuple[str, int]
"""("change", n): the tables get update n. ("read", n) and ("write", n): a worker's two steps."""


@dataclass
class Maintainer:
    """Runs a schedule, and records what the tables got and what a reader saw."""

    view: View
    updates: Sequence[Update]
    beginning: dict[str, list[Row]]
    protections: frozenset[Protection] = EVERYTHING
    _known: dict[int, tuple[Any, Counter[Row]]] = field(default_factory=dict)
    _held_back: list[int] = field(default_factory=list)
    _written: set[int] = field(default_factory=set)
    _changed: int = 0

    def run(self, schedule: Sequence[Step]) -> Verdict:
        history = History({"view": self.view.query}, self.beginning)
        self.view.rows = Counter(self.view.query(self._tables(0)))
        history.look({"view": self.view.rows.elements()})
        for step, number in schedule:
            if step == "change":
                history.transaction(*_changes(self.updates[number - 1]), name=f"u{number}")
                self._changed = number
            for _ in self._taken(step, number):
                history.look({"view": self.view.rows.elements()})
        history.look({"view": self.view.rows.elements()}, final=True)
        return history.verdict()

    def _taken(self, step: str, number: int) -> Iterable[int]:
        """The updates that a step of a worker brings to the view."""
        if step == "read":
            self._read(number)
        if step != "write":
            return
        self._held_back.append(number)
        while self._held_back and (ready := self._ready()):
            self._held_back.remove(ready)
            self._write(ready)
            yield ready

    def _ready(self) -> int:
        """A message that may be written now, or 0."""
        if Protection.ORDER not in self.protections:
            return self._held_back[0]
        return next((n for n in sorted(self._held_back) if n <= len(self._written) + 1), 0)

    def _read(self, number: int) -> None:
        at = number if Protection.POSITION in self.protections else self._changed
        update = self.updates[number - 1]
        self._known[number] = (self.view.read(update, self._tables(at)), Counter(self.view.rows))

    def _write(self, number: int) -> None:
        if Protection.ONCE in self.protections and number in self._written:
            return
        if Protection.CHECK in self.protections and self._known[number][1] != self.view.rows:
            self._read(number)
        self.view.write(self.updates[number - 1], self._known[number][0])
        self._written.add(number)

    def _tables(self, number: int) -> Tables:
        """The base tables after so many updates."""
        bags = {name: Counter(rows) for name, rows in self.beginning.items()}
        for update in self.updates[:number]:
            for row, weight in update.images():
                bags[update.table][row] += weight
        return {name: list(bag.elements()) for name, bag in bags.items()}


def _changes(update: Update) -> list[Any]:
    gone = deleted(update.table, update.before) if update.before is not None else []
    return [gone, inserted(update.table, update.after) if update.after is not None else []]
