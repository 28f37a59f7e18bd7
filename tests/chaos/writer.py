"""A writer of the campaign: transfers in transactions over two tables, and pings under an immediate view.

Run as `<folder> <number> <incarnation> <seed> <journal>`; it goes on until its standard input ends. It may be killed or
suspended at any moment, and dies by itself at a fault point that its environment names.
"""

from __future__ import annotations

import random
import select
import sys
from dataclasses import dataclass, field
from pathlib import Path

import _neighbours  # noqa: F401  # puts the folders beside this one on the path
import bank
from journals import DONE, PING, REFUSED, TRANSFER, TRIED, UNKNOWN, Journal

import viewkeeper as vk
from viewkeeper.engine import leadership
from viewkeeper.errors import RetryError, StorageError

PAUSE = 0.1
"""Seconds between two transactions."""

LEASE = 1.0

PINGS = 0.25
"""Which part of the transactions are pings."""


@dataclass
class Writer:
    number: int
    incarnation: int
    chance: random.Random
    journal: Journal
    made: dict[int, tuple[int, int]] = field(default_factory=dict)

    def write(self, db: vk.Database, turn: int) -> None:
        """One transaction, noted before and after."""
        name = f"{self.number}-{self.incarnation}-{turn}"
        kind = PING if self.chance.random() < PINGS else TRANSFER
        key = self.number * 1_000_000_000 + self.incarnation * 1_000_000 + turn
        self.journal.write(TRIED, name, kind)
        try:
            if kind == PING:
                self._ping(db, key, name)
            else:
                self._transfer(db, key, name)
        except RetryError:
            self.journal.write(REFUSED, name, kind)
        except StorageError as error:
            print(f"{name}: {error}", file=sys.stderr, flush=True)
            self.journal.write(UNKNOWN, name, kind)
        else:
            self.journal.write(DONE, name, kind)

    def _ping(self, db: vk.Database, key: int, name: str) -> None:
        row = {"id": key, "writer": self.number, "amount": self.chance.randrange(10), "made_by": name}
        db.table("pings").put(row)

    def _transfer(self, db: vk.Database, key: int, name: str) -> None:
        """A new one, or another amount for one that this process made."""
        if self.made and self.chance.random() < 0.25:
            key = self.chance.choice(list(self.made))
        elif key not in self.made:
            source = self.chance.choice(bank.PAYING)
            self.made[key] = (source, self.chance.choice([account for account in bank.PAID if account != source]))
        bank._make(db, key, *self.made[key], self.chance.randrange(10), name)


def is_over(seconds: float) -> bool:
    """Whether standard input has ended; waits a little for it."""
    ready, _, _ = select.select([sys.stdin], [], [], seconds)
    return bool(ready) and not sys.stdin.read(1)


def opened(folder: str) -> vk.Database | None:
    """The database, once it can be opened."""
    while True:
        try:
            return vk.open(folder, durability="off")
        except (RetryError, StorageError):
            if is_over(0.2):
                return None


def main(folder: str, number: int, incarnation: int, seed: str, journal: Path) -> None:
    leadership.SECONDS = LEASE
    writer = Writer(number, incarnation, random.Random(f"{seed}/{number}/{incarnation}"), Journal(journal))
    db = opened(folder)
    turn = 0
    while db is not None and not is_over(PAUSE):
        writer.write(db, turn)
        turn += 1


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], Path(sys.argv[5]))
