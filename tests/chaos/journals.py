"""What writers say they did, beside what the logs say was done.

A writer notes a transaction before it asks for it, and what came of it after; each line is flushed, so a killed process
has told all that it knew. The laws:

    acknowledged     in the logs, once
    refused          not in the logs, where the error says that nothing was written (a `RetryError`)
    in flight        wholly there, or not at all: its writer died, or had an error of the machine
    anything else    not in the logs
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from viewkeeper import names
from viewkeeper.store.contract import Cut, Store

TRANSFER, PING = "transfer", "ping"
WHOLE = {TRANSFER: {"transfers": 1, "entries": 2}, PING: {"pings": 1}}
"""How many rows each kind of transaction writes to each table."""

TRIED, DONE, REFUSED, UNKNOWN = "tried", "done", "refused", "unknown"


@dataclass(frozen=True)
class Note:
    """The last word on a transaction."""

    kind: str
    word: str


class Journal:
    """A writer's file of lines `word name kind`."""

    def __init__(self, path: Path) -> None:
        self._file: TextIO = path.open("a")

    def write(self, word: str, name: str, kind: str) -> None:
        self._file.write(f"{word} {name} {kind}\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def notes(folder: Path) -> dict[str, Note]:
    """Every transaction that any writer noted. A line without an end was never flushed whole: it does not count."""
    found: dict[str, Note] = {}
    for path in sorted(folder.glob("*.journal")):
        for line in path.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                word, name, kind = line.split()
                found[name] = Note(kind, word)
    return found


@dataclass
class Ledger:
    """What is in the logs, read on from where it was read to."""

    store: Store
    found: dict[str, Counter[str]] = field(default_factory=dict)
    _read: dict[str, list[int]] = field(default_factory=dict)

    def complaints(self, folder: Path) -> list[str]:
        """Every law that is broken. The logs are read to a cut, so there is no half of a transaction in them."""
        before = notes(folder)
        self._read_on(self.store.cut(["transfers", "entries", "pings"]))
        after = notes(folder)
        lost = [name for name, note in before.items() if note.word == DONE and name not in self.found]
        told = [f"acknowledged {before[name].kind} {name} is lost" for name in lost]
        for name, rows in self.found.items():
            note = after.get(name)
            if note is None:
                told.append(f"{name} is in the logs, and nobody wrote it")
            elif dict(rows) != WHOLE[note.kind]:
                told.append(f"{note.kind} {name} ({note.word}) is in the logs as {dict(rows)}")
            elif note.word == REFUSED:
                told.append(f"{note.kind} {name} was refused, and is in the logs")
        return told

    def _read_on(self, cut: Cut) -> None:
        for table, positions in cut.items():
            read = self._read.setdefault(table, [0] * len(positions))
            for region, position in enumerate(positions):
                self._count(table, region, read[region], position)
                read[region] = position

    def _count(self, table: str, region: int, after: int, upto: int) -> None:
        for batch in self.store.log(table, region, after, upto):
            had, made_by = batch[names.HAS], batch[names.AFTER + "made_by"]
            for has, name in zip(had.to_pylist(), made_by.to_pylist(), strict=True):
                if has:
                    self.found.setdefault(name, Counter())[table] += 1
