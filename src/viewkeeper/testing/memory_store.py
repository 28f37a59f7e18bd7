"""A store in memory: the contract in its simplest form, to compare other stores with and to test higher layers on.

Simple before fast: one lock around every call, a dict of rows per region, and a snapshot is a copy with the later
writes undone. Nothing survives the process, so there is no crash to recover from; everything else the contract promises
holds, and `viewkeeper.testing.contract` shows it.
"""

from __future__ import annotations

import functools
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import EllipsisType
from typing import Any, Concatenate, ParamSpec, TypeVar

import pyarrow as pa

from viewkeeper import names
from viewkeeper.errors import Fenced, InputError, NameTaken, NotFound, ViewkeeperError
from viewkeeper.store.changes import positioned_log_schema
from viewkeeper.store.contract import (
    Action,
    Applied,
    Cut,
    EpochRecord,
    Expectation,
    GroupState,
    Guarded,
    Lease,
    Mutation,
    Outcome,
    Pick,
    Positions,
    Request,
    Row,
    RunningEpoch,
    TableSpec,
)
from viewkeeper.store.fit import made_again, misfit
from viewkeeper.store.regions import regions_of
from viewkeeper.testing.memory_region import Change, Entry, Key, Region, Rows, tally_of
from viewkeeper.testing.memory_values import Plain, ranks, ranks_given, rows_of, table_of, to_python

BATCH_ROWS = 1024

P = ParamSpec("P")
T = TypeVar("T")


def _locked(method: Callable[Concatenate[MemoryStore, P], T]) -> Callable[Concatenate[MemoryStore, P], T]:
    """The whole call is one atomic step: what makes this store obviously right, and useless under load."""

    @functools.wraps(method)
    def call(self: MemoryStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self._lock:
            return method(self, *args, **kwargs)

    return call


@dataclass
class _Table:
    spec: TableSpec
    regions: list[Region]

    @property
    def key_fields(self) -> list[pa.Field]:
        return [self.spec.schema.field(name) for name in self.spec.key]

    def placed(self, rows: pa.Table) -> list[tuple[int, Key, Plain]]:
        """Each row with its region and its key."""
        plain = rows_of(rows)
        return [
            (int(region), ranks(row, self.spec.key), row)
            for region, row in zip(regions_of(self.spec, rows), plain, strict=True)
        ]

    def answer_schema(self, columns: Sequence[str] | None) -> pa.Schema:
        return self.spec.schema if columns is None else pa.schema([self.spec.schema.field(name) for name in columns])


@dataclass
class _Group:
    state: GroupState
    fence: int = 0
    last: int = 0
    """The newest epoch that ever began. Numbers are not used again, so a straggler of an undone epoch finds none."""


@dataclass
class _Leadership:
    term: int = 0
    lease: Lease | None = None


@dataclass
class MemoryStore:
    """The `Store` of the contract on dicts and lists. `clock` gives seconds since 1970: tests may bring their own."""

    clock: Callable[[], float] = time.time
    _tables: dict[str, _Table] = field(default_factory=dict)
    _groups: dict[str, _Group] = field(default_factory=dict)
    _leaderships: defaultdict[str, _Leadership] = field(default_factory=lambda: defaultdict(_Leadership))
    _records: dict[str, str] = field(default_factory=dict)
    _made: int = 0
    _writes: int = 0
    _lock: threading.RLock = field(default_factory=threading.RLock)

    # Tables

    @_locked
    def create(self, spec: TableSpec) -> None:
        if spec.name.lower() in self._tables:
            raise NameTaken(
                f'table "{spec.name}" exists', hint="drop it first, or choose another name", table=spec.name
            )
        if spec.group is not None:
            self._group(spec.group)
        self._made += 1
        self._tables[spec.name.lower()] = _Table(
            replace(spec, number=self._made), [Region() for _ in range(spec.regions)]
        )

    @_locked
    def drop(self, table: str, number: int | None = None) -> None:
        if number not in (None, self._table(table).spec.number):
            raise NotFound(f'table "{table}" was dropped and made again by another process', hint="drop that one too")
        del self._tables[table.lower()]

    @_locked
    def table(self, name: str) -> TableSpec:
        return self._table(name).spec

    @_locked
    def tables(self) -> list[TableSpec]:
        return [self._tables[name].spec for name in sorted(self._tables)]

    @_locked
    def number(self, table: str) -> int:
        return self._table(table).spec.number

    def size(self, table: str) -> int:
        return self.scan(table).nbytes

    # Rows

    @_locked
    def write(self, mutations: Sequence[Mutation], expected: Sequence[Expectation] = ()) -> bool:
        for mutation in mutations:
            self._refuse_guarded(self._table(mutation.table).spec.name)
        return self._write(Request(mutations, expected))

    def _refuse_guarded(self, table: str) -> None:
        for group in self._groups.values():
            if group.state.guards and table in group.state.committed.cut:
                raise Guarded(table, group.state.name)

    def prepare(self, requests: Sequence[Request], tables: Sequence[str] = ()) -> PreparedInMemory:
        """The lock is held until the end, so nobody sees what may still be taken back."""
        self._lock.acquire()
        try:
            base = [table for table in self._tables.values() if table.spec.group is None]
            before = [(region, region.position) for table in base for region in table.regions]
            outcomes = [self._outcome(request) for request in requests]
            return PreparedInMemory(self, outcomes, before)
        except BaseException:
            self._lock.release()
            raise

    def _outcome(self, request: Request) -> Outcome:
        try:
            return self._write(request)
        except ViewkeeperError as error:
            return error

    def _write(self, request: Request) -> bool:
        mutations, expected = request.mutations, request.expected
        self._refuse_misfits(request)
        if not all(self._holds(expectation) for expectation in expected):
            return False
        wanted: defaultdict[tuple[str, int], dict[Key, Plain | None]] = defaultdict(dict)
        for mutation in mutations:
            for region, key, row in self._wanted(mutation):
                wanted[mutation.table.lower(), region][key] = row
        self._writes += 1
        for (name, number), rows in wanted.items():
            target = self._tables[name].regions[number]
            target.append(target.position + 1, self.clock(), target.difference(rows), self._writes)
        return True

    @_locked
    def get(self, table: str, key: Sequence[Any], at: Positions | None = None) -> Row | None:
        found = self._table(table)
        wanted = ranks_given(key, found.key_fields)
        row = self._merged(found, at).get(wanted)
        return row and {column.name: to_python(row[column.name], column.type) for column in found.spec.schema}

    @_locked
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
        found = self._table(table)
        low, high, under = (ranks_given(bound or (), found.key_fields) for bound in (start, stop, prefix))
        rows = self._merged(found, at)
        chosen = [
            rows[key] for key in sorted(rows) if low <= key and (not high or key < high) and key[: len(under)] == under
        ]
        return table_of(chosen[:limit], found.answer_schema(columns))

    @_locked
    def read(
        self, table: str, region: int, *, columns: Sequence[str] | None = None, at: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        found = self._table(table)
        rows = found.regions[region].rows_at(self._committed(found.spec) if at is None else at)
        answer = table_of([rows[key] for key in sorted(rows)], found.answer_schema(columns))
        return iter(answer.to_batches(max_chunksize=BATCH_ROWS))

    @_locked
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
        found = self._table(table)
        rows = self._merged(found, at, region)
        under: defaultdict[Key, list[Key]] = defaultdict(list)
        for key in sorted(rows):
            under[key[: keys.num_columns]].append(key)
        chosen = {Pick.ALL: slice(None), Pick.FIRST: slice(1), Pick.LAST: slice(-1, None)}[pick]
        answer = [
            {names.PROBE: number, **rows[key]}
            for number, asked in enumerate(rows_of(keys))
            for key in under[ranks(asked, asked)][chosen]
        ]
        return table_of(answer, pa.schema([pa.field(names.PROBE, pa.int64()), *found.answer_schema(columns)]))

    @_locked
    def count(self, table: str, *, weight: str | None = None, at: Positions | None = None) -> int:
        found = self.scan(table, columns=None if weight is None else [weight], at=at)
        return found.num_rows if weight is None else sum(found[weight].to_pylist())

    # Logs

    @_locked
    def positions(self, table: str) -> Positions:
        return tuple(region.position for region in self._table(table).regions)

    @_locked
    def log(self, table: str, region: int, after: int, upto: int) -> Iterator[pa.RecordBatch]:
        found = self._table(table)
        changes = [
            _log_row(found.spec, entry, change)
            for entry in found.regions[region].entries(after, upto)
            for change in entry.changes
        ]
        return iter(table_of(changes, positioned_log_schema(found.spec)).to_batches(max_chunksize=BATCH_ROWS))

    @_locked
    def backlog(self, table: str, after: Positions, upto: Positions, *, whole: bool = True) -> int:
        spans = zip(self._table(table).regions, after, upto, strict=True)
        found = [
            entry
            for region, low, high in spans
            for entry in region.entries(low if whole else max(low, region.floor), high)
        ]
        return sum(len(entry.changes) for entry in found)

    @_locked
    def oldest(self, table: str, after: Positions) -> float | None:
        spans = zip(self._table(table).regions, after, strict=True)
        times = [entry.time for region, low in spans for entry in region.entries(low, region.position)]
        return min(times, default=None)

    @_locked
    def cut(self, tables: Sequence[str], *, after: Cut | None = None, at_most: int | None = None) -> Cut:
        newest = {name: self._settled(self._table(name)) for name in tables}
        stamp = None if at_most is None else self._early_stamp(after or {}, at_most)
        if stamp is None:
            return newest
        return {
            name: self._early(name, positions, (after or {}).get(name), stamp) for name, positions in newest.items()
        }

    def _early(self, table: str, newest: Positions, after: Positions | None, stamp: int) -> Positions:
        """Where a table was at a stamp, and no earlier than `after`."""
        lows = (0,) * len(newest) if after is None else after
        return tuple(max(r.position_at(stamp), low) for r, low in zip(self._table(table).regions, lows, strict=True))

    def _early_stamp(self, after: Cut, at_most: int) -> int | None:
        """The stamp up to which about `at_most` changes lie after a cut; None if there are no more than that."""
        waiting = [
            (entry.stamp, len(entry.changes))
            for name, positions in after.items()
            for region, low in zip(self._table(name).regions, positions, strict=True)
            for entry in region.entries(low, region.position)
        ]
        total, last = 0, 0
        for stamp, changes in sorted(waiting):
            if total and total + changes > at_most:
                return last
            total, last = total + changes, stamp
        return None

    @_locked
    def trim(self, before: float) -> int:
        return sum(
            region.trim(before, self._consumed(found.spec, number))
            for found in self._tables.values()
            for number, region in enumerate(found.regions)
        )

    # Epochs

    @_locked
    def create_group(self, name: str, *, guards: bool = False) -> None:
        self._groups.setdefault(name, _Group(GroupState(name, EpochRecord(0, {}), guards=guards)))

    @_locked
    def drop_group(self, name: str) -> None:
        self._group(name)
        if members := [found.spec.name for found in self._members(name)]:
            raise InputError(
                f'group "{name}" still has tables: {", ".join(members)}', hint="drop them first", group=name
            )
        del self._groups[name]

    @_locked
    def group(self, name: str) -> GroupState:
        return self._group(name).state

    @_locked
    def groups(self) -> list[GroupState]:
        return [self._groups[name].state for name in sorted(self._groups)]

    @_locked
    def begin(self, group: str, cut: Cut, term: int) -> EpochRecord:
        found = self._fenced_group(group, term)
        if found.state.running is None:
            found.last = 1 + max(group.last for group in self._groups.values())
            found.state = replace(found.state, running=EpochRecord(found.last, dict(cut)))
        assert found.state.running is not None
        return found.state.running

    @_locked
    def apply(self, table: str, region: int, changes: pa.Table, epoch: int, term: int) -> Applied:
        found = self._table(table)
        if found.spec.group is None:
            raise InputError(f'table "{table}" is a base table, and no epoch writes those', table=table)
        state = self._fenced_group(found.spec.group, term).state
        target = found.regions[region]
        if epoch not in target.applied:
            _check_running(state, epoch)
            wanted = {key: _row_or_none(row) for _, key, row in found.placed(changes)}
            done = target.difference(wanted)
            target.append(epoch, self.clock(), done)
            target.applied[epoch] = tally_of(done)
        return target.applied[epoch]

    @_locked
    def withdraw(self, table: str, epoch: int, term: int) -> None:
        found = self._table(table)
        assert found.spec.group is not None, "only maintained tables have epochs"
        _check_running(self._fenced_group(found.spec.group, term).state, epoch)
        for region in found.regions:
            region.undo(epoch)
            region.append(epoch, self.clock(), ())
            region.applied[epoch] = Applied(0, 0, 0)

    @_locked
    def commit(self, group: str, epoch: int, term: int) -> None:
        found = self._fenced_group(group, term)
        if epoch <= found.state.committed.epoch:
            return
        found.state = GroupState(group, _check_running(found.state, epoch), guards=found.state.guards)

    @_locked
    def undo(self, group: str, epoch: int, term: int) -> None:
        found = self._fenced_group(group, term)
        if found.state.running is None or found.state.running.epoch != epoch:
            return
        for member in self._members(group):
            for region in member.regions:
                region.undo(epoch)
        found.state = replace(found.state, running=None)

    # Leadership

    @_locked
    def lead(self, name: str, holder: str, seconds: float) -> Lease | None:
        found, now = self._leaderships[name], self.clock()
        if found.lease is not None and found.lease.holder != holder and found.lease.expires > now:
            return None
        found.term += 1
        found.lease = Lease(name, holder, found.term, now + seconds)
        return found.lease

    @_locked
    def renew(self, lease: Lease, seconds: float) -> Lease:
        found = self._leaderships[lease.name]
        if found.lease is None or found.lease.term != lease.term:
            raise Fenced(
                f'leadership "{lease.name}" has passed on from "{lease.holder}" at term {lease.term}',
                hint="stop, or lead again under a new term",
                name=lease.name,
                term=lease.term,
            )
        found.lease = replace(found.lease, expires=self.clock() + seconds)
        return found.lease

    @_locked
    def resign(self, lease: Lease) -> None:
        found = self._leaderships[lease.name]
        if found.lease is not None and found.lease.term == lease.term:
            found.lease = None

    @_locked
    def fence(self, group: str, term: int) -> None:
        self._fenced_group(group, term).fence = term

    # Records

    @_locked
    def records(self, prefix: str = "") -> dict[str, str]:
        return {name: self._records[name] for name in sorted(self._records) if name.startswith(prefix)}

    @_locked
    def record(self, name: str) -> str | None:
        return self._records.get(name)

    @_locked
    def put_record(
        self,
        name: str,
        text: str | None,
        expected: str | EllipsisType | None = ...,
        *,
        during: RunningEpoch | None = None,
    ) -> bool:
        if during is not None:
            _check_running(self._fenced_group(during.group, during.term).state, during.epoch)
        if expected is not ... and self._records.get(name) != expected:
            return False
        if text is None:
            self._records.pop(name, None)
        else:
            self._records[name] = text
        return True

    def reopener(self) -> None:
        """No other process can see this one's memory."""

    def close(self) -> None:
        """Nothing to let go of."""

    # What the calls above are made of; the lock is held.

    def _table(self, name: str) -> _Table:
        if (found := self._tables.get(name.lower())) is None:
            there = ", ".join(spec.name for spec in self.tables()) or "none"
            raise NotFound(f'there is no table "{name}"', hint=f"tables: {there}", table=name)
        return found

    def _group(self, name: str) -> _Group:
        if (found := self._groups.get(name)) is None:
            raise NotFound(f'there is no group "{name}"', hint=f"groups: {', '.join(sorted(self._groups)) or 'none'}")
        return found

    def _fenced_group(self, name: str, term: int) -> _Group:
        """The group, if nobody with a higher term than this caller's has fenced it."""
        found = self._group(name)
        if term < found.fence:
            raise Fenced(
                f'group "{name}" is led under term {found.fence}: term {term} is over',
                hint="stop: another maintainer leads now",
                group=name,
                term=term,
            )
        return found

    def _members(self, group: str) -> Iterable[_Table]:
        return [found for found in self._tables.values() if found.spec.group == group]

    def _committed(self, spec: TableSpec) -> int | None:
        """The position that a reader sees who names none; None stands for the newest."""
        return None if spec.group is None else self._group(spec.group).state.committed.epoch

    def _settled(self, found: _Table) -> Positions:
        """The newest positions that no epoch is half inside of."""
        committed = self._committed(found.spec)
        if committed is None:
            return self.positions(found.spec.name)
        return tuple(region.position_upto(committed) for region in found.regions)

    def _merged(self, found: _Table, at: Positions | None, only: int | None = None) -> Rows:
        """The rows of all regions, or of one, at positions. Regions share no key."""
        rows: Rows = {}
        for number, region in enumerate(found.regions):
            if only is None or only == number:
                rows |= region.rows_at(self._committed(found.spec) if at is None else at[number])
        return rows

    def _holds(self, expectation: Expectation) -> bool:
        found = self._table(expectation.table)
        rows = self._merged(found, None)
        for row in [] if expectation.rows is None else rows_of(expectation.rows):
            there = rows.get(ranks(row, found.spec.key))
            if there is None or ranks(there, row) != ranks(row, row):
                return False
        absent = [] if expectation.absent is None else rows_of(expectation.absent)
        return not any(ranks(row, found.spec.key) in rows for row in absent)

    def _refuse_misfits(self, request: Request) -> None:
        given = [(mutation.table, mutation.action, mutation.rows) for mutation in request.mutations]
        for expected in request.expected:
            given += [(expected.table, Action.UPDATE, expected.rows), (expected.table, Action.DELETE, expected.absent)]
        for table, action, rows in given:
            spec = self._table(table).spec
            wrong = None if rows is None else misfit(spec, action, rows)
            if wrong is not None:
                raise made_again(spec, wrong)

    def _wanted(self, mutation: Mutation) -> list[tuple[int, Key, Plain | None]]:
        """The row that each key of a mutation shall have, with its region; None for a delete."""
        found = self._table(mutation.table)
        if found.spec.group is not None:
            raise InputError(
                f'table "{found.spec.name}" is maintained by group "{found.spec.group}" and cannot be written',
                hint="write the base tables under it",
                table=found.spec.name,
            )
        placed = found.placed(mutation.rows)
        match mutation.action:
            case Action.PUT:
                return [(region, key, row) for region, key, row in placed]
            case Action.DELETE:
                return [(region, key, None) for region, key, _ in placed]
            case Action.UPDATE:
                return [(region, key, _updated(found, region, key, row)) for region, key, row in placed]

    def _consumed(self, spec: TableSpec, region: int) -> int:
        """The position that nobody needs the log before: a snapshot at it can still be read."""
        committed = self._committed(spec)
        newest = self._table(spec.name).regions[region].position if committed is None else committed
        readers = [_consumed_by(group.state, spec) for group in self._groups.values()]
        return min([newest, *(positions[region] for positions in readers if positions is not None)])


@dataclass
class PreparedInMemory:
    """Writes that are in the store and can be taken back, under its lock."""

    store: MemoryStore
    outcomes: list[Outcome]
    _before: list[tuple[Region, int]]
    _ended: bool = False

    @property
    def changed(self) -> bool:
        return any(region.position != position for region, position in self._before)

    def commit(self, group: str, epoch: int, term: int) -> None:
        self.store.commit(group, epoch, term)
        self._end()

    def rollback(self) -> None:
        if self._ended:
            return
        for region, position in self._before:
            region.take_back(position)
        self._end()

    def _end(self) -> None:
        self._ended = True
        self.store._lock.release()


def _consumed_by(state: GroupState, spec: TableSpec) -> Positions | None:
    """What a group has consumed of a table; None if it does not read it.

    A table that only the running epoch names is read for the first time, as a snapshot at that epoch's cut.
    """
    for record in (state.committed, state.running):
        for name, positions in ({} if record is None else record.cut).items():
            if name.lower() == spec.name.lower():
                return positions
    return None


def _check_running(state: GroupState, epoch: int) -> EpochRecord:
    if state.running is None or state.running.epoch != epoch:
        running = "none" if state.running is None else state.running.epoch
        raise Fenced(
            f'epoch {epoch} of group "{state.name}" is not running',
            hint=f"committed: {state.committed.epoch}, running: {running}",
            group=state.name,
            epoch=epoch,
        )
    return state.running


def _updated(found: _Table, region: int, key: Key, row: Plain) -> Plain:
    if (there := found.regions[region].rows.get(key)) is None:
        shown = {name: row[name] for name in found.spec.key}
        raise NotFound(f'table "{found.spec.name}" has no row {shown} to update', table=found.spec.name, key=shown)
    return there | row


def _row_or_none(row: Plain) -> Plain | None:
    """The row of an epoch's change, or None for a delete."""
    return row if row.pop(names.HAS) else None


def _log_row(spec: TableSpec, entry: Entry, change: Change) -> Plain:
    before, after = change.before or {}, change.after or {}
    row = {name: (after or before)[name] for name in spec.key}
    row |= {names.POSITION: entry.position, names.HAD: change.before is not None, names.HAS: change.after is not None}
    for name in spec.values:
        row |= {names.BEFORE + name: before.get(name), names.AFTER + name: after.get(name)}
    return row
