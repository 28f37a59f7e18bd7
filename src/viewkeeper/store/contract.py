"""What the layers above may ask of a store, and what they may rely on.

A store keeps tables in regions. A region is the unit of parallel work and of order: it has rows and a log, and every
write appends to the log in the same atomic step in which it changes the rows.

**Positions.** A region's log numbers its writes. In a *base* table they are numbered 1, 2, 3 ... In a table that a
*group* maintains (a view, an index) the number of a write is the epoch that made it. Position 0 is the empty table. So
"the rows at position p" has one meaning for both: every write up to p, and none after it.

**Visibility.** A reader that names no position sees a base table's newest rows, and a maintained table's rows of its
group's last committed epoch. A reader that names positions sees exactly those, or `SnapshotTooOld`.

**Atomicity.** `write` is all or nothing over any number of tables and regions, through a crash at any moment.
`commit` is one record that moves every table of a group to an epoch at once.

**Guards.** A group may guard the tables of its committed cut: then `write` refuses them with `Guarded`, and whoever leads
the group writes them by `prepare`, together with an epoch of the group. So rows and views change in one step.

**Order.** Writes to a region are numbered in the order in which they became visible. `cut` gives positions that no
transaction is half inside of, and that include everything that had been acknowledged when `cut` was called and
everything that those writes had seen.

What a store does not do: evaluate SQL, know what a view is, convert or check Python values. It takes tables whose
schema is exactly the declared one.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import EllipsisType
from typing import Any, Protocol

import pyarrow as pa

from viewkeeper.errors import ViewkeeperError

Positions = tuple[int, ...]
"""One position per region of a table."""

Cut = Mapping[str, Positions]
"""Positions by table name."""

Row = dict[str, Any]


class Kind(enum.Enum):
    """What a table is for: clients write BASE tables, epochs write VIEW and INDEX tables."""

    BASE = "base"
    VIEW = "view"
    INDEX = "index"


@dataclass(frozen=True)
class TableSpec:
    """A table's name and shape. `distribution` is a prefix of `key`: rows that agree on it share a region."""

    name: str
    schema: pa.Schema
    key: tuple[str, ...]
    distribution: tuple[str, ...]
    regions: int
    kind: Kind = Kind.BASE
    group: str | None = None
    number: int = field(default=0, compare=False)
    """Which of the tables of this name it is, given by the store to what it returns: one that is made again has another."""

    def __post_init__(self) -> None:
        if not self.key or self.distribution != self.key[: len(self.distribution)] or not self.distribution:
            raise ValueError("the distribution columns are a prefix of the key, and neither is empty")
        if self.regions < 1:
            raise ValueError("a table has at least one region")
        if (self.kind is Kind.BASE) != (self.group is None):
            raise ValueError("a base table has no group, and every other table has one")

    @property
    def values(self) -> tuple[str, ...]:
        """The columns that are not in the key, in schema order."""
        return tuple(name for name in self.schema.names if name not in self.key)


class Action(enum.Enum):
    """What a mutation does with its rows.

    PUT replaces whole rows, DELETE names keys (absent ones are not an error), UPDATE changes the columns it carries and
    needs the rows to exist.
    """

    PUT = "put"
    DELETE = "delete"
    UPDATE = "update"


@dataclass(frozen=True)
class Mutation:
    """Rows of one table to put, delete or update. Keys are distinct over all mutations of one `write`."""

    table: str
    action: Action
    rows: pa.Table


@dataclass(frozen=True)
class Expectation:
    """What a writer believes: each of `rows` (key columns, and any others) is there as given; `absent` keys are not there."""

    table: str
    rows: pa.Table | None = None
    absent: pa.Table | None = None


@dataclass(frozen=True)
class Request:
    """What one transaction wants: see `Store.write`."""

    mutations: Sequence[Mutation]
    expected: Sequence[Expectation] = ()


class Guarded(Exception):
    """A table is guarded by a group: it is written by `Store.prepare`, under that group's lead."""

    def __init__(self, table: str, group: str) -> None:
        super().__init__(f'table "{table}" is guarded by group "{group}"')
        self.table = table
        self.group = group


class Pick(enum.Enum):
    """Which of the rows under a probed prefix: all of them, or the first or last in key order at the cost of a seek."""

    ALL = "all"
    FIRST = "first"
    LAST = "last"


@dataclass(frozen=True)
class Applied:
    """What an epoch's changes did to a region. Applying them again gives the same answer."""

    inserted: int
    updated: int
    deleted: int


@dataclass(frozen=True)
class EpochRecord:
    """An epoch of a group and the cut that it brings the group to. Epoch 0 is the group's empty beginning."""

    epoch: int
    cut: Cut


@dataclass(frozen=True)
class RunningEpoch:
    """An epoch that is under way, and the term of whoever runs it."""

    group: str
    epoch: int
    term: int


@dataclass(frozen=True)
class GroupState:
    """Where a group is: the epoch that readers see, and the one under way, if any."""

    name: str
    committed: EpochRecord
    running: EpochRecord | None = None
    guards: bool = False
    undoing: bool = False
    """Whether the running epoch is being taken back: it can only be undone."""


@dataclass(frozen=True)
class Lease:
    """Leadership under a name until `expires` (seconds since 1970). Terms only grow: each new leader has a higher one."""

    name: str
    holder: str
    term: int
    expires: float


Outcome = bool | ViewkeeperError
"""What became of a request: done, an expectation that did not hold, or the error that it ended in."""


class Prepared(Protocol):
    """Writes that are done and not yet decided: their regions are locked, and nobody else sees them."""

    @property
    def outcomes(self) -> Sequence[Outcome]:
        """One for each request. What failed changed nothing."""

    @property
    def changed(self) -> bool:
        """Whether any row is to change."""

    @property
    def store(self) -> Store:
        """The database as it would be with these writes. For the thread that prepared them, until they end."""

    def commit(self, group: str, epoch: int, term: int) -> None:
        """The writes and the group's epoch happen, in one step; `Fenced`, and neither, if the term has ended."""

    def rollback(self) -> None:
        """The writes have never been. Nothing happens if they are committed."""


class Store(Protocol):
    """The contract. `viewkeeper.testing.contract` is its test suite; a new store joins by a fixture of one line."""

    # Tables

    def create(self, spec: TableSpec) -> None:
        """Make an empty table. `NameTaken` if the name is in use, whatever its case."""

    def drop(self, table: str, number: int | None = None) -> None:
        """Remove a table, its rows and its log. A writer that comes later gets `NotFound`; none writes into the void.

        With `number`, only the table of that number: `NotFound`, with nothing done, if another has its name by now.
        """

    def table(self, name: str) -> TableSpec:
        """The table of that name, whatever the case of its letters; `NotFound` lists what there is."""

    def tables(self) -> list[TableSpec]:
        """Every table, by name."""

    def number(self, table: str) -> int:
        """Which of the tables of this name calls go to: its `TableSpec.number`, greater than 0 and never used again.

        It costs next to nothing, and may lag behind others who drop the table and make it anew, but never behind an answer:
        what a call gave that has returned is of this table, or of an earlier one that was still there. So whoever knows a
        number from `table`, and finds the same one after a call, has had an answer of that very table.
        """

    def size(self, table: str) -> int:
        """About how many bytes a table takes, at no cost to speak of: for choosing between ways to the same rows."""

    # Rows

    def write(self, mutations: Sequence[Mutation], expected: Sequence[Expectation] = ()) -> bool:
        """Do all of it, or nothing. False, with nothing done, when an expectation does not hold.

        A key that is named by several expectations and by a mutation is judged as it was before the write. `NotFound`
        when an UPDATE names a row that is not there. A mutation that changes nothing (a delete of an absent key, a put
        of the row that is there) leaves no entry in the log. Base tables only; `Guarded` for those that a group guards.
        `InputError` when rows have other columns than the table (`store.fit`): it was made again since they were made for it.
        """

    def prepare(self, requests: Sequence[Request], tables: Sequence[str] = ()) -> Prepared:
        """Do the requests one after the other, each as `write` would, and hold them for a decision.

        All regions of `tables` are locked as well, whether they are written or not. The caller ends it with `commit` or
        `rollback`. A crash before the commit leaves nothing; one after it leaves everything, for whoever comes next to
        carry out.
        """

    def get(self, table: str, key: Sequence[Any], at: Positions | None = None) -> Row | None:
        """The row of that key (values in key order) as Python values, or None."""

    def scan(
        self,
        table: str,
        *,
        start: Sequence[Any] | None = None,
        stop: Sequence[Any] | None = None,
        prefix: Sequence[Any] = (),
        limit: int | None = None,
        columns: Sequence[str] | None = None,
        at: Positions | None = None,
    ) -> pa.Table:
        """Rows in key order, from `start` (included) to `stop` (excluded), under `prefix`. Each may be a part of the key."""

    def count(self, table: str, *, weight: str | None = None, at: Positions | None = None) -> int:
        """How many rows there are, or the sum of an integer column over them, without reading them out."""

    def read(
        self, table: str, region: int, *, columns: Sequence[str] | None = None, at: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """A region's rows in key order, in batches of bounded size, all at one position."""

    def probe(
        self,
        table: str,
        keys: pa.Table,
        *,
        pick: Pick = Pick.ALL,
        columns: Sequence[str] | None = None,
        region: int | None = None,
        at: Positions | None = None,
    ) -> pa.Table:
        """The rows under each of `keys` (the leading key columns, in key order), at the cost of the matches.

        The answer has `names.PROBE` (the number of the key in `keys`) and the columns. NULL matches NULL here: a
        caller with SQL's equality drops NULL keys first. With `region`, only that region is asked.
        """

    # Logs

    def positions(self, table: str) -> Positions:
        """The newest position of each region; for a maintained table, applied and not yet committed epochs included."""

    def log(self, table: str, region: int, after: int, upto: int) -> Iterator[pa.RecordBatch]:
        """The changes of the writes after `after`, up to and with `upto`, in order.

        Columns: `names.POSITION`, the key, `names.HAD`, `names.HAS`, and each other column twice, before and after
        (`store.changes` makes and reads this form). `SnapshotTooOld` when the log was trimmed past `after`.
        """

    def backlog(self, table: str, after: Positions, upto: Positions, *, whole: bool = True) -> int:
        """How many changes lie between two positions, without reading them.

        `SnapshotTooOld` when the log was trimmed past `after`: none left is not none written. Without `whole` what is left
        is counted.
        """

    def oldest(self, table: str, after: Positions) -> float | None:
        """When the first change after these positions was written (seconds since 1970), or None if there is none."""

    def cut(self, tables: Sequence[str], *, after: Cut | None = None, at_most: int | None = None) -> Cut:
        """A consistent point: see **Order** above. Never waits for a writer that has not decided; writers never wait.

        With `after` and `at_most`, an earlier such point: not before `after`, and so that about `at_most` changes lie
        between the two. One transaction is never split, so there may be more.
        """

    def trim(self, before: float) -> int:
        """Drop log entries older than `before` (seconds since 1970) that every group has consumed; how many changes went.

        A group has consumed what its committed epoch's cut holds; a maintained table's own log is needed from its
        group's committed epoch on, and by whoever reads it in a cut.
        """

    # Epochs

    def create_group(self, name: str, *, guards: bool = False) -> None:
        """A group at epoch 0, which guards the tables of its cut or not. Nothing happens if it is there."""

    def drop_group(self, name: str) -> None:
        """Forget a group. Its tables must be gone."""

    def group(self, name: str) -> GroupState:
        """Where a group is; `NotFound` if there is none."""

    def groups(self) -> list[GroupState]:
        """Every group, by name."""

    def begin(self, group: str, cut: Cut, term: int) -> EpochRecord:
        """Record the next epoch as running, with its cut. If one is running, that one is the answer: it goes on.

        Its number is greater than that of any epoch before, of whatever group: a view that is dropped and made again under
        another schedule has no epoch that the one before had.
        """

    def apply(self, table: str, region: int, changes: pa.Table, epoch: int, term: int) -> Applied:
        """All of a region's changes of one epoch in one atomic step.

        `changes` has the table's columns and `names.HAS`: true puts the row, false deletes its key. Keys are distinct.
        The epoch must be the group's running one. A second call with the same epoch changes nothing and answers the
        same, whatever it carries. `Fenced` when a later term has fenced the region.
        """

    def withdraw(self, table: str, epoch: int, term: int) -> None:
        """What a running epoch did to one table is taken back, and whatever it may still do there is nothing.

        Rows and log are as before the epoch, in every region, and each region counts as applied: so a task that comes late
        changes nothing. The epoch goes on for the other tables.
        """

    def commit(self, group: str, epoch: int, term: int) -> None:
        """Readers of every table of the group see `epoch` from here on. Committing a committed epoch does nothing."""

    def undo(self, group: str, epoch: int, term: int) -> None:
        """Take a running epoch back: rows and logs are as if it had never begun. Nothing happens if it is not running.

        Once begun, nothing of the epoch is applied or committed any more, and `begin` refuses until it is done.
        """

    # Leadership

    def lead(self, name: str, holder: str, seconds: float) -> Lease | None:
        """Leadership for `seconds`, under a higher term than ever before, if nobody else holds it; else None.

        The holder itself gets a new term too: after a restart it must not be taken for its former self.
        """

    def renew(self, lease: Lease, seconds: float) -> Lease:
        """The same term, longer; `Fenced` if it has passed to someone else."""

    def resign(self, lease: Lease) -> None:
        """Let go at once. Nothing happens if it was lost already."""

    def fence(self, group: str, term: int) -> None:
        """From here on nobody with a lower term begins, applies, commits or undoes in this group.

        `Fenced` if a higher one was here.
        """

    # Records

    def records(self, prefix: str = "") -> dict[str, str]:
        """Every record whose name starts with `prefix`, in order of name, all as of one instant.

        A record is a small named text that the layers above keep here: a definition, a line of history. Every character
        of a name counts, and so does its case. Records and tables do not share names.
        """

    def record(self, name: str) -> str | None:
        """The text of one record, or None if there is none."""

    def put_record(
        self,
        name: str,
        text: str | None,
        expected: str | EllipsisType | None = ...,
        *,
        during: RunningEpoch | None = None,
    ) -> bool:
        """Keep `text` under `name`, or remove the record if it is None. True if that was done.

        With `expected` (a text, or None for no record) it is done only if that is what is there, and is False, with
        nothing done, otherwise. Looking and putting are one atomic step, also among processes, and the record is durable
        when the call returns.

        With `during` it is done only while that epoch is running and its term not fenced off, and ends in `Fenced`
        otherwise, in the same step: so a maintainer that slept puts nothing under another's nose.
        """

    def reopener(self) -> Callable[[], Store] | None:
        """What opens this store in another process (it can be pickled), or None if no other process can."""

    def close(self) -> None:
        """Let go of files and locks. Nothing is lost without it. A store that keeps files is not used after it: `InputError`."""
