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

A decision may depend on an epoch: then it stands exactly if that epoch is committed, and the catalog's commit is the
commit of both. Whoever undoes an epoch first strikes the decisions that depend on it, behind a fence that keeps the
epoch from being committed any more; and none is recorded any more for an epoch that is struck, so that a process which
slept through all of this cannot do so when it wakes. So a decision on record whose epoch is not running was committed.

Finished decisions are kept for a while, without their batches: a cut that was reading positions while one was being
carried out must be able to see it (see `cuts`). `finished` is the stamp of that moment, or 0.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from viewkeeper.errors import Fenced
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
    "CREATE TABLE IF NOT EXISTS struck (grp TEXT PRIMARY KEY, epoch INTEGER)",
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
    epoch: tuple[str, int] | None = None
    """The group and its epoch that this stands or falls with."""


class Transactions:
    """The decision records of a database."""

    def __init__(self, pool: Pool, path: Path) -> None:
        self._pool = pool
        self._path = path

    def make(self) -> None:
        with self._pool.use(self._path, create=True) as connection:
            connection.keep_a_journal()
            with connection.writing():
                for statement in _DDL:
                    connection.execute(statement)

    def decide(
        self, stamp: int, parts: Sequence[tuple[Participant, Sequence[Entry]]], epoch: tuple[str, int] | None = None
    ) -> Decision:
        """Write the record. When this returns, the transaction has happened, unless it waits for its epoch."""
        participants = tuple(participant for participant, _ in parts)
        places = [[p.table, p.region, p.position] for p in participants]
        text = json.dumps(places if epoch is None else {"places": places, "epoch": epoch})
        with self._pool.use(self._path) as connection, connection.writing():
            if epoch is not None:
                _refuse_struck(connection, *epoch)
            connection.execute(
                "INSERT INTO decisions (stamp, participants, finished) VALUES (?, ?, 0)", parameters(stamp, text)
            )
            number = int((connection.one("SELECT last_insert_rowid()") or (0,))[0])
            for participant, entries in parts:
                _insert_batches(connection, number, participant, entries)
        return Decision(number, stamp, participants, epoch)

    def strike(self, group: str, epoch: int) -> None:
        """Forget the decisions that depend on an epoch which will never be committed, and refuse those that may come.

        One number per group is enough: what epochs before it had to decide is decided.
        """
        with self._pool.use(self._path) as connection, connection.writing():
            values = parameters(group, epoch, epoch)
            connection.execute(
                "INSERT INTO struck VALUES (?, ?) ON CONFLICT (grp) DO UPDATE SET epoch = max(epoch, ?)", values
            )
            for decision in _unfinished(connection):
                if decision.epoch == (group, epoch):
                    connection.execute("DELETE FROM batches WHERE number = ?", parameters(decision.number))
                    connection.execute("DELETE FROM decisions WHERE number = ?", parameters(decision.number))

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
            return _unfinished(connection)

    def open_at(self, stamp: int, begun: int) -> list[Decision]:
        """Decisions made up to a stamp that were not finished when a reader began."""
        with self._pool.use(self._path) as connection:
            found = connection.query(
                "SELECT number, stamp, participants FROM decisions"
                " WHERE stamp <= ? AND (finished = 0 OR finished > ?) ORDER BY number",
                parameters(stamp, begun),
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


def _unfinished(connection: Connection) -> list[Decision]:
    return _decisions(
        connection.query("SELECT number, stamp, participants FROM decisions WHERE finished = 0 ORDER BY number")
    )


def _refuse_struck(connection: Connection, group: str, epoch: int) -> None:
    struck = connection.one("SELECT epoch FROM struck WHERE grp = ?", parameters(group))
    if struck is not None and epoch <= struck[0]:
        raise Fenced(f'group "{group}": epoch {epoch} was undone by another maintainer', hint="write again")


def _insert_batches(connection: Connection, number: int, participant: Participant, entries: Sequence[Entry]) -> None:
    for entry in entries:
        place = [pa.array([value]) for value in (number, participant.table, participant.region, entry.part)]
        row = pa.record_batch([*place, pa.array([entry.data], pa.binary())], names=list("abcde"))
        connection.execute("INSERT INTO batches VALUES (?, ?, ?, ?, ?)", row)


def _decisions(found: pa.Table) -> list[Decision]:
    return [_decision(row["number"], row["stamp"], json.loads(row["participants"])) for row in found.to_pylist()]


def _decision(number: int, stamp: int, stored: Any) -> Decision:
    if isinstance(stored, list):
        return Decision(number, stamp, tuple(Participant(*place) for place in stored))
    group, epoch = stored["epoch"]
    return Decision(number, stamp, tuple(Participant(*place) for place in stored["places"]), (group, epoch))
