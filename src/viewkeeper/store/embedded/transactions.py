"""Two-phase commit over region files, with a decision record.

A write that touches one region is one SQLite transaction. One that touches several:

1. locks all of its regions, in the order of (table, region), so that no two writers wait for each other in a ring;
2. changes rows and logs in each file, not committed;
3. writes the decision to `transactions.db`: who takes part, at which position, and the log batches. *This is the commit.*
4. commits each region's file; 5. marks the decision finished and lets the batches go.

Before 3 a crash leaves nothing: SQLite rolls the files back. After 3 the decision stands, and whatever region lacks it
gets it from the record: by the next writer of that region, by the next cut, or by the next to open. A region has it
exactly when its position has reached the one that the decision names, for the region was locked when the decision was
made, and everyone who locks it later looks for decisions first. So a region's writes never change their order.

Finished decisions are kept for a while, without their batches: a cut that was reading positions while one was being
carried out must be able to see it (see `cuts`). `finished` is the stamp of that moment, or 0.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from viewkeeper.store.embedded.connection import Connection, Pool, parameters
from viewkeeper.store.embedded.log import Entry

KEEP_NANOSECONDS = 600 * 10**9
"""How long finished decisions are kept. A cut that took longer starts again."""

_DDL = (
    "CREATE TABLE IF NOT EXISTS decisions"
    " (number INTEGER PRIMARY KEY AUTOINCREMENT, stamp INTEGER, participants TEXT, finished INTEGER)",
    "CREATE INDEX IF NOT EXISTS by_finish ON decisions (finished)",
    "CREATE TABLE IF NOT EXISTS batches"
    " (number INTEGER, tbl INTEGER, region INTEGER, part INTEGER, data BLOB, PRIMARY KEY (number, tbl, region, part))",
)


@dataclass(frozen=True)
class Participant:
    """A region that a decision changes, and the position that the change has there."""

    table: int
    region: int
    position: int


@dataclass(frozen=True)
class Decision:
    number: int
    stamp: int
    participants: tuple[Participant, ...]


class Transactions:
    """The decision records of a database."""

    def __init__(self, pool: Pool, path: Path) -> None:
        self._pool = pool
        self._path = path

    def make(self) -> None:
        with self._pool.use(self._path, create=True) as connection:
            connection.query("PRAGMA journal_mode = WAL")
            with connection.writing():
                for statement in _DDL:
                    connection.execute(statement)

    def decide(self, stamp: int, parts: Sequence[tuple[Participant, Sequence[Entry]]]) -> Decision:
        """Write the record. When this returns, the transaction has happened."""
        participants = tuple(participant for participant, _ in parts)
        text = json.dumps([[p.table, p.region, p.position] for p in participants])
        with self._pool.use(self._path) as connection, connection.writing():
            connection.execute(
                "INSERT INTO decisions (stamp, participants, finished) VALUES (?, ?, 0)", parameters(stamp, text)
            )
            number = int((connection.one("SELECT last_insert_rowid()") or (0,))[0])
            for participant, entries in parts:
                _insert_batches(connection, number, participant, entries)
        return Decision(number, stamp, participants)

    def finish(self, decision: Decision, stamp: int) -> None:
        """Every participant has it: the batches can go."""
        number = decision.number
        with self._pool.use(self._path) as connection, connection.writing():
            connection.execute("DELETE FROM batches WHERE number = ?", parameters(number))
            connection.execute("UPDATE decisions SET finished = ? WHERE number = ?", parameters(stamp, number))
            connection.execute(
                "DELETE FROM decisions WHERE finished BETWEEN 1 AND ?", parameters(stamp - KEEP_NANOSECONDS)
            )

    def unfinished(self) -> list[Decision]:
        """Decisions that are being carried out, or were when their process died; in order."""
        with self._pool.use(self._path) as connection:
            return _decisions(
                connection.query("SELECT number, stamp, participants FROM decisions WHERE finished = 0 ORDER BY number")
            )

    def open_at(self, stamp: int) -> list[Decision]:
        """Decisions made up to a stamp that were not finished by then."""
        with self._pool.use(self._path) as connection:
            found = connection.query(
                "SELECT number, stamp, participants FROM decisions"
                " WHERE stamp <= ? AND (finished = 0 OR finished > ?) ORDER BY number",
                parameters(stamp, stamp),
            )
        return _decisions(found)

    def batches(self, decision: Decision, participant: Participant) -> list[bytes]:
        """The log batches for a participant; none if the decision has been finished meanwhile."""
        with self._pool.use(self._path) as connection:
            found = connection.query(
                "SELECT data FROM batches WHERE number = ? AND tbl = ? AND region = ? ORDER BY part",
                parameters(decision.number, participant.table, participant.region),
            )
        return list(found.column(0).to_pylist()) if found.num_rows else []


def _insert_batches(connection: Connection, number: int, participant: Participant, entries: Sequence[Entry]) -> None:
    for entry in entries:
        place = [pa.array([value]) for value in (number, participant.table, participant.region, entry.part)]
        row = pa.record_batch([*place, pa.array([entry.data], pa.binary())], names=list("abcde"))
        connection.execute("INSERT INTO batches VALUES (?, ?, ?, ?, ?)", row)


def _decisions(found: pa.Table) -> list[Decision]:
    return [
        Decision(row["number"], row["stamp"], tuple(Participant(*place) for place in json.loads(row["participants"])))
        for row in found.to_pylist()
    ]
