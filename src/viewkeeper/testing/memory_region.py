"""One region of a table in memory: rows by key, and the log of the writes that made them.

Law: the rows are the log played over nothing, and the rows at a position are today's rows with every later write
undone, newest first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from viewkeeper.errors import SnapshotTooOld
from viewkeeper.store.contract import Applied
from viewkeeper.testing.memory_values import Plain, Rank, ranks

Key = tuple[Rank, ...]
Rows = dict[Key, Plain]


@dataclass(frozen=True)
class Change:
    """One key before and after a write; None is an absent row."""

    key: Key
    before: Plain | None
    after: Plain | None


@dataclass(frozen=True)
class Entry:
    """What one write did to a region, and when."""

    position: int
    time: float
    changes: tuple[Change, ...]
    stamp: int = 0
    """The same for all regions of one write, and higher for each later one."""


@dataclass
class Region:
    """The rows, the log, how far the log was trimmed, and the answers given to the epochs that were applied."""

    rows: Rows = field(default_factory=dict)
    log: list[Entry] = field(default_factory=list)
    floor: int = 0
    applied: dict[int, Applied] = field(default_factory=dict)

    @property
    def position(self) -> int:
        return self.log[-1].position if self.log else self.floor

    def position_upto(self, limit: int) -> int:
        """The newest position that is not beyond `limit`."""
        return max((entry.position for entry in self.log if entry.position <= limit), default=self.floor)

    def difference(self, wanted: Mapping[Key, Plain | None]) -> tuple[Change, ...]:
        """The changes that bring each key to its wanted row, in key order. Equal rows are no change."""
        changes = (Change(key, self.rows.get(key), wanted[key]) for key in sorted(wanted))
        return tuple(change for change in changes if not _same(change.before, change.after))

    def append(self, position: int, time: float, changes: tuple[Change, ...], stamp: int = 0) -> None:
        """Do the changes and record them. Nothing to do is no entry, and no new position."""
        if not changes:
            return
        for change in changes:
            _set(self.rows, change.key, change.after)
        self.log.append(Entry(position, time, changes, stamp))

    def rows_at(self, position: int | None) -> Rows:
        """The rows at a position (None: now), as a copy that later writes leave alone."""
        rows = dict(self.rows)
        if position is None:
            return rows
        self._check_reach(position)
        for entry in reversed(self.log):
            if entry.position <= position:
                break
            for change in entry.changes:
                _set(rows, change.key, change.before)
        return rows

    def entries(self, after: int, upto: int) -> list[Entry]:
        """The log after one position, up to and with another."""
        if after < upto:
            self._check_reach(after)
        return [entry for entry in self.log if after < entry.position <= upto]

    def position_at(self, stamp: int) -> int:
        """The newest position of a write up to a stamp."""
        return max((entry.position for entry in self.log if entry.stamp <= stamp), default=self.floor)

    def take_back(self, position: int) -> None:
        """As if nothing had been written after a position."""
        self.rows = self.rows_at(position)
        self.log = [entry for entry in self.log if entry.position <= position]

    def undo(self, epoch: int) -> None:
        """As if the epoch, the newest one, had never been applied here."""
        if epoch not in self.applied:
            return
        self.rows = self.rows_at(epoch - 1)
        self.log = [entry for entry in self.log if entry.position != epoch]
        del self.applied[epoch]

    def trim(self, before: float, upto: int) -> int:
        """Drop the oldest entries that are older than `before` and not after position `upto`; how many changes went."""
        gone = 0
        while self.log and self.log[0].time < before and self.log[0].position <= upto:
            entry = self.log.pop(0)
            self.floor = entry.position
            gone += len(entry.changes)
        return gone

    def _check_reach(self, position: int) -> None:
        if position < self.floor:
            raise SnapshotTooOld(
                f"position {position} is out of reach: the log begins after position {self.floor}",
                hint="take a new snapshot",
                position=position,
                floor=self.floor,
            )


def tally_of(changes: Iterable[Change]) -> Applied:
    """How many inserts, updates and deletes there are."""
    kinds = [(change.before is not None, change.after is not None) for change in changes]
    return Applied(kinds.count((False, True)), kinds.count((True, True)), kinds.count((True, False)))


def _same(before: Plain | None, after: Plain | None) -> bool:
    if before is None or after is None:
        return before is after
    return ranks(before, before) == ranks(after, before)


def _set(rows: Rows, key: Key, row: Plain | None) -> None:
    if row is None:
        rows.pop(key, None)
    else:
        rows[key] = row
