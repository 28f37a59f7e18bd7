"""The catalog file: which tables there are, where each group is, who leads, and the records of the layers above.

One SQLite file. Every change is one transaction of it, so each of these facts changes at one instant: a table's
existence, a group's committed epoch (the record that makes an epoch visible in all of the group's tables at once), a
leadership, a record.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import EllipsisType
from typing import Any

import pyarrow as pa

from viewkeeper.errors import Fenced, InputError, NameTaken, NotFound
from viewkeeper.store.contract import Cut, EpochRecord, GroupState, Kind, Lease, RunningEpoch, TableSpec
from viewkeeper.store.embedded import faults
from viewkeeper.store.embedded.connection import Connection, Pool, parameters

FORMAT = 2
"""Grows when an older viewkeeper could misread the folder."""

LONGEST_LEASE = 600.0
"""Seconds. A lease that ends later than this was taken before the machine's clock was set back: its holder, if it lives, has
not renewed it since, and is fenced off like any other that slept."""

KNOWN_SPECS = 4_096
"""Tables whose text is not read again: whoever plans an epoch looks at all of them."""

_DDL = (
    "CREATE TABLE tables (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE COLLATE NOCASE, spec TEXT)",
    "CREATE TABLE groups (name TEXT PRIMARY KEY, epoch INTEGER, cut TEXT, running INTEGER, running_cut TEXT,"
    " last INTEGER, fence INTEGER, guards INTEGER)",
    "CREATE TABLE leases (name TEXT PRIMARY KEY, holder TEXT, term INTEGER, expires REAL)",
    "CREATE TABLE records (name TEXT PRIMARY KEY, text TEXT)",
    f"PRAGMA user_version = {FORMAT}",
)


_FROM_1 = ("ALTER TABLE groups ADD COLUMN guards INTEGER NOT NULL DEFAULT 0", f"PRAGMA user_version = {FORMAT}")
"""What makes a folder of format 1 one of this format."""


@dataclass(frozen=True)
class Entry:
    """A table in the catalog. Its number names its folder and is never used again."""

    number: int
    spec: TableSpec


class DropUnfinished(Exception):
    """The name is free, but files of the dropped table may still take writes: they are closed before it is used again."""


class Catalog:
    """Reads and changes the catalog file."""

    def __init__(self, pool: Pool, path: Path) -> None:
        self._pool = pool
        self._path = path

    def make(self) -> None:
        """Make the file's tables, once, whoever comes first."""
        with self._pool.use(self._path, create=True) as connection:
            connection.keep_a_journal()
            with connection.writing():
                for statement in {0: _DDL, 1: _FROM_1}.get(self.format(connection), ()):
                    connection.execute(statement)

    def format(self, connection: Connection | None = None) -> int:
        """The format version; 0 for an empty file."""
        if connection is not None:
            return int((connection.one("PRAGMA user_version") or (0,))[0])
        with self._pool.use(self._path) as own:
            return self.format(own)

    @contextmanager
    def _changing(self) -> Iterator[Connection]:
        with self._pool.use(self._path) as connection, connection.writing():
            yield connection

    # Tables

    def entries(self) -> list[Entry]:
        with self._pool.use(self._path) as connection:
            return self._entries(connection)

    def _entries(self, connection: Connection) -> list[Entry]:
        found = connection.query("SELECT id, spec FROM tables WHERE name IS NOT NULL ORDER BY lower(name)")
        return [Entry(number, _spec_of(number, text)) for number, text in _rows(found)]

    def find(self, name: str) -> Entry:
        with self._pool.use(self._path) as connection:
            found = connection.one("SELECT id, spec FROM tables WHERE name = ?", parameters(name))
        if found is None:
            raise self._not_found(name)
        return Entry(found[0], _spec_of(*found))

    def _not_found(self, name: str) -> NotFound:
        known = ", ".join(f'"{entry.spec.name}"' for entry in self.entries() if entry.spec.kind is not Kind.INDEX)
        return NotFound(
            f'table "{name}" does not exist',
            hint=f"there are {known}" if known else "there are no tables yet",
            table=name,
        )

    def add(self, spec: TableSpec, make_files: Callable[[int, int], None]) -> Entry:
        """Record a table after `make_files(number, fence)` has made its files, so that a table in the catalog is whole."""
        with self._changing() as connection:
            if connection.one("SELECT 1 FROM tables WHERE name = ?", parameters(spec.name)):
                raise NameTaken(f'table or view "{spec.name}" exists', hint="drop it first, or choose another name")
            if any(entry.spec.name.lower() == spec.name.lower() for entry in _dropped(connection)):
                raise DropUnfinished
            fence = self._group_row(connection, spec.group)["fence"] if spec.group else 0
            connection.execute("INSERT INTO tables (name, spec) VALUES (?, ?)", parameters(spec.name, _text_of(spec)))
            number = int((connection.one("SELECT last_insert_rowid()") or (0,))[0])
            make_files(number, fence)
            faults.reach("create.files_made")
        faults.reach("create.recorded")
        return Entry(number, spec)

    def mark_dropped(self, number: int) -> None:
        """Take the table's name away: from here on the drop is decided, and is finished by whoever opens."""
        with self._changing() as connection:
            connection.execute("UPDATE tables SET name = NULL WHERE id = ?", parameters(number))
        faults.reach("drop.recorded")

    def dropped(self) -> list[Entry]:
        """Tables whose drop is decided and not finished."""
        with self._pool.use(self._path) as connection:
            return _dropped(connection)

    def forget(self, number: int) -> None:
        with self._changing() as connection:
            connection.execute("DELETE FROM tables WHERE id = ?", parameters(number))

    # Groups

    def create_group(self, name: str, *, guards: bool) -> None:
        with self._changing() as connection:
            values = parameters(name, int(guards))
            connection.execute("INSERT OR IGNORE INTO groups VALUES (?, 0, '{}', 0, '', 0, 0, ?)", values)

    def guarded(self) -> dict[str, str]:
        """The tables that a group guards, each with its group."""
        with self._pool.use(self._path) as connection:
            found = connection.query_few("SELECT name, cut FROM groups WHERE guards")
        return {table: group for group, cut in _rows(found) for table in _cut_of(cut)}

    def drop_group(self, name: str) -> None:
        with self._changing() as connection:
            self._group_row(connection, name)
            left = [entry.spec.name for entry in self._entries(connection) if entry.spec.group == name]
            if left:
                raise InputError(f'group "{name}" still has tables: {", ".join(left)}', hint="drop them first")
            connection.execute("DELETE FROM groups WHERE name = ?", parameters(name))

    def group(self, name: str) -> GroupState:
        with self._pool.use(self._path) as connection:
            return _group_state(self._group_row(connection, name))

    def groups(self) -> list[GroupState]:
        with self._pool.use(self._path) as connection:
            found = connection.query("SELECT * FROM groups ORDER BY name")
        return [_group_state(row) for row in found.to_pylist()]

    def committed_epoch(self, group: str) -> int:
        with self._pool.use(self._path) as connection:
            found = connection.one("SELECT epoch FROM groups WHERE name = ?", parameters(group))
        if found is None:
            raise _no_group(group)
        return int(found[0])

    def begin(self, group: str, cut: Cut, term: int) -> EpochRecord:
        with self._changing() as connection:
            row = self._unfenced(connection, group, term)
            if row["running"] < 0:
                raise Fenced(f'group "{group}": epoch {-row["running"]} is being undone', hint="finish that first")
            if row["running"]:
                return EpochRecord(row["running"], _cut_of(row["running_cut"]))
            newest = connection.one("SELECT max(last) FROM groups")
            epoch = 1 + (0 if newest is None else int(newest[0]))
            values = parameters(epoch, _cut_text(cut), epoch, group)
            connection.execute("UPDATE groups SET running = ?, running_cut = ?, last = ? WHERE name = ?", values)
        faults.reach("begin.recorded")
        return EpochRecord(epoch, {table: tuple(positions) for table, positions in cut.items()})

    def commit(self, group: str, epoch: int, term: int) -> None:
        faults.reach("commit.before")
        with self._changing() as connection:
            row = self._unfenced(connection, group, term)
            if row["epoch"] >= epoch:
                return
            if row["running"] != epoch:
                raise Fenced(
                    f'group "{group}": epoch {epoch} is not running', hint="it was undone by another maintainer"
                )
            connection.execute(
                "UPDATE groups SET epoch = running, cut = running_cut, running = 0, running_cut = '' WHERE name = ?",
                parameters(group),
            )
        faults.reach("commit.recorded")

    def begin_undo(self, group: str, epoch: int, term: int) -> bool:
        """From here on nothing of the running epoch is applied or committed: a straggler's task finds it negative."""
        with self._changing() as connection:
            row = self._unfenced(connection, group, term)
            if abs(row["running"]) != epoch:
                return False
            connection.execute("UPDATE groups SET running = ? WHERE name = ?", parameters(-epoch, group))
        return True

    def end_running(self, group: str, epoch: int, term: int) -> None:
        """The running epoch is undone. Its number is not used again: a straggler of it finds no epoch to apply to."""
        with self._changing() as connection:
            self._unfenced(connection, group, term)
            values = parameters(group, -epoch)
            connection.execute("UPDATE groups SET running = 0, running_cut = '' WHERE name = ? AND running = ?", values)
        faults.reach("undo.recorded")

    def check_running(self, group: str, epoch: int, term: int) -> None:
        """`Fenced` unless this epoch may be applied by this term now."""
        with self._pool.use(self._path) as connection:
            self._check_running(connection, group, epoch, term)

    def _check_running(self, connection: Connection, group: str, epoch: int, term: int) -> None:
        if self._unfenced(connection, group, term)["running"] != epoch:
            raise Fenced(f'group "{group}": epoch {epoch} is not running', hint="it was undone by another maintainer")

    def raise_fence(self, group: str, term: int) -> None:
        with self._changing() as connection:
            self._unfenced(connection, group, term)
            connection.execute("UPDATE groups SET fence = ? WHERE name = ?", parameters(term, group))

    def _unfenced(self, connection: Connection, group: str, term: int) -> dict[str, Any]:
        row = self._group_row(connection, group)
        if term < row["fence"]:
            raise fenced(group, term, row["fence"])
        return row

    def _group_row(self, connection: Connection, group: str) -> dict[str, Any]:
        found = connection.query("SELECT * FROM groups WHERE name = ?", parameters(group))
        if not found.num_rows:
            raise _no_group(group)
        return dict(found.to_pylist()[0])

    # Leadership

    def lead(self, name: str, holder: str, seconds: float) -> Lease | None:
        now = time.time()
        with self._changing() as connection:
            row = connection.one("SELECT holder, term, expires FROM leases WHERE name = ?", parameters(name))
            if row is not None and row[0] != holder and now < row[2] <= now + max(LONGEST_LEASE, seconds):
                return None
            lease = Lease(name, holder, (row[1] if row else 0) + 1, now + seconds)
            values = parameters(name, holder, lease.term, lease.expires)
            connection.execute("INSERT OR REPLACE INTO leases VALUES (?, ?, ?, ?)", values)
        return lease

    def renew(self, lease: Lease, seconds: float) -> Lease:
        expires = time.time() + seconds
        with self._changing() as connection:
            row = connection.one("SELECT term, expires FROM leases WHERE name = ?", parameters(lease.name))
            if row is None or row[0] != lease.term or row[1] == 0.0:
                raise Fenced(
                    f'leadership "{lease.name}" of term {lease.term} has passed on', hint="stop, and ask to lead again"
                )
            connection.execute("UPDATE leases SET expires = ? WHERE name = ?", parameters(expires, lease.name))
        return Lease(lease.name, lease.holder, lease.term, expires)

    def resign(self, lease: Lease) -> None:
        """The row stays, so that the next term is higher."""
        with self._changing() as connection:
            values = parameters(lease.name, lease.term)
            connection.execute("UPDATE leases SET expires = 0.0 WHERE name = ? AND term = ?", values)

    # Records

    def records(self, prefix: str) -> dict[str, str]:
        """A range of names, not LIKE: there % and _ stand for others."""
        stop = _after_prefix(prefix)
        where, bounds = ("name >= ?", [prefix]) if stop is None else ("name >= ? AND name < ?", [prefix, stop])
        with self._pool.use(self._path) as connection:
            found = connection.query(f"SELECT name, text FROM records WHERE {where} ORDER BY name", parameters(*bounds))
        return dict(_rows(found))

    def record(self, name: str) -> str | None:
        with self._pool.use(self._path) as connection:
            return _record(connection, name)

    def put_record(
        self, name: str, text: str | None, expected: str | EllipsisType | None, during: RunningEpoch | None
    ) -> bool:
        with self._changing() as connection:
            if during is not None:
                self._check_running(connection, during.group, during.epoch, during.term)
            if expected is not ... and _record(connection, name) != expected:
                return False
            if text is None:
                connection.execute("DELETE FROM records WHERE name = ?", parameters(name))
            else:
                connection.execute("INSERT OR REPLACE INTO records VALUES (?, ?)", parameters(name, text))
        return True


def fenced(where: str, term: int, fence: int) -> Fenced:
    return Fenced(
        f'"{where}": term {term} has ended, term {fence} leads now',
        hint="stop, and ask to lead again",
        term=term,
        fence=fence,
    )


def _dropped(connection: Connection) -> list[Entry]:
    found = connection.query("SELECT id, spec FROM tables WHERE name IS NULL")
    return [Entry(number, _spec_of(number, text)) for number, text in _rows(found)]


def _record(connection: Connection, name: str) -> str | None:
    found = connection.one("SELECT text FROM records WHERE name = ?", parameters(name))
    return None if found is None else str(found[0])


def _after_prefix(prefix: str) -> str | None:
    """The first text after all that start with `prefix`, or None if there is no such text.

    SQLite compares the bytes of UTF-8, which is the order of the code points.

    >>> _after_prefix("view/"), _after_prefix("a\\U0010ffff"), _after_prefix("")
    ('view0', 'b', None)
    """
    rest = prefix.rstrip("\U0010ffff")
    if not rest:
        return None
    following = ord(rest[-1]) + 1
    return rest[:-1] + chr(0xE000 if 0xD800 <= following < 0xE000 else following)


def _no_group(name: str) -> NotFound:
    return NotFound(f'group "{name}" does not exist', group=name)


def _group_state(row: dict[str, Any]) -> GroupState:
    running = EpochRecord(abs(row["running"]), _cut_of(row["running_cut"])) if row["running"] else None
    committed = EpochRecord(row["epoch"], _cut_of(row["cut"]))
    return GroupState(row["name"], committed, running, bool(row["guards"]), undoing=row["running"] < 0)


def _cut_text(cut: Cut) -> str:
    return json.dumps({table: list(positions) for table, positions in cut.items()})


def _cut_of(text: str) -> Cut:
    return {table: tuple(positions) for table, positions in json.loads(text).items()}


def _rows(found: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True)) if found.num_rows else []


def _text_of(spec: TableSpec) -> str:
    schema = base64.b64encode(spec.schema.serialize().to_pybytes()).decode()
    shape = {"key": spec.key, "distribution": spec.distribution, "regions": spec.regions}
    return json.dumps({"name": spec.name, "schema": schema, **shape, "kind": spec.kind.value, "group": spec.group})


@lru_cache(KNOWN_SPECS)
def _spec_of(number: int, text: str) -> TableSpec:
    stored = json.loads(text)
    return TableSpec(
        name=stored["name"],
        schema=pa.ipc.read_schema(pa.py_buffer(base64.b64decode(stored["schema"]))),
        key=tuple(stored["key"]),
        distribution=tuple(stored["distribution"]),
        regions=stored["regions"],
        kind=Kind(stored["kind"]),
        group=stored["group"],
        number=number,
    )
