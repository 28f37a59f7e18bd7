"""The store contract on a folder of SQLite files. This module reads; writing, cuts and epochs have their own."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import EllipsisType
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from viewkeeper import names
from viewkeeper.errors import InputError, NotFound, SnapshotTooOld
from viewkeeper.store.changes import positioned_log_schema
from viewkeeper.store.contract import (
    Applied,
    Cut,
    EpochRecord,
    Expectation,
    GroupState,
    Lease,
    Mutation,
    Pick,
    Positions,
    Request,
    Row,
    RunningEpoch,
    TableSpec,
)
from viewkeeper.store.embedded import cuts, epochs, log, rows, writes
from viewkeeper.store.embedded.connection import PAGE_BYTES, Connection
from viewkeeper.store.embedded.files import Dropped, Files, Handle, check_open
from viewkeeper.store.embedded.ordering import sort_indices
from viewkeeper.store.embedded.prepared import PreparedWrites, prepare
from viewkeeper.store.encoding import to_python
from viewkeeper.store.regions import region_of, regions_of

Answer = TypeVar("Answer")

DURABILITY = {"full": "FULL", "normal": "NORMAL", "off": "OFF"}
"""What survives a power cut: every acknowledged write; of each file all but its last writes; nothing is promised.

With the second each file is whole, at a moment of its own: what holds over several files (a decision and its regions, an epoch's
commit and its views, a group's cut and its tables) may not hold any more. Only where a group's cut is ahead of a table is that
noticed (`cuts`). A crash of the process alone loses nothing in any of them.
"""


ATTEMPTS = 100
"""How often a reader looks again for what is committed."""

LONGEST_WAIT = (2**31 - 1) // 1000
"""Seconds: SQLite counts milliseconds in 32 bits, and takes any more for none. 24 days are as good as for ever."""


class EmbeddedStore:
    """See `viewkeeper.store.contract.Store`."""

    def __init__(self, files: Files, durability: str = "full", timeout: float = 30.0) -> None:
        self._files = files
        self._durability = durability
        self._timeout = timeout
        self._finalizer = weakref.finalize(self, files.close)

    @classmethod
    def open(cls, folder: Path | str, *, durability: str = "full", timeout: float = 30.0) -> EmbeddedStore:
        """Open a folder, or make it; finish what crashed processes had decided."""
        synchronous, timeout = _synchronous(durability), _timeout(timeout)
        files = Files(Path(folder).absolute(), synchronous=synchronous, timeout=timeout)
        files.finish_drops()
        writes.recover(files)
        return cls(files, durability, timeout)

    @staticmethod
    def is_in(folder: Path | str | os.PathLike[str]) -> bool:
        """Whether a folder holds a database. Nothing is opened."""
        return (Path(folder) / "catalog.db").is_file()

    def reopener(self) -> Callable[[], EmbeddedStore] | None:
        folder = str(self._files.folder)
        return partial(EmbeddedStore.open, folder, durability=self._durability, timeout=self._timeout)

    def close(self) -> None:
        """It can be closed again where an interrupt came in between."""
        self._files.close()
        self._finalizer.detach()

    # Tables

    def create(self, spec: TableSpec) -> None:
        self._files.create(spec)

    def drop(self, table: str, number: int | None = None) -> None:
        self._files.drop(table, number)

    def table(self, name: str) -> TableSpec:
        return self._files.current([self._files.entry(name)])[0].spec

    def tables(self) -> list[TableSpec]:
        return [entry.spec for entry in self._files.current(self._files.entries())]

    def number(self, table: str) -> int:
        return self._files.number(table)

    def size(self, table: str) -> int:
        def attempt() -> int:
            handle = self._files.handle(table)
            return sum(self._pages(handle, region) for region in range(handle.spec.regions)) * PAGE_BYTES

        return self._files.retrying(attempt)

    def _pages(self, handle: Handle, region: int) -> int:
        """Of a region's file once its journal is in it. The journal itself may be much longer than what it says."""
        with self._files.region(handle, region) as connection:
            return int((connection.one("PRAGMA page_count") or (0,))[0])

    # Rows

    def write(self, mutations: Sequence[Mutation], expected: Sequence[Expectation] = ()) -> bool:
        return self._files.retrying(lambda: writes.write(self._files, mutations, expected))

    def prepare(self, requests: Sequence[Request], tables: Sequence[str] = ()) -> PreparedWrites:
        return self._files.retrying(lambda: prepare(self._files, requests, tables, self._seeing))

    def _seeing(self, files: Files) -> EmbeddedStore:
        return _Inside(files, self._durability, self._timeout)

    def get(self, table: str, key: Sequence[Any], at: Positions | None = None) -> Row | None:
        return self._looking(at, lambda: self._get(self._files.handle(table), key, at))

    def _get(self, handle: Handle, key: Sequence[Any], at: Positions | None) -> Row | None:
        layout = handle.layout
        stored = rows.one_row(key, layout, layout.spec.key)
        region = region_of(handle.spec, key)
        position = self._visible(handle, at)[region] if at is not None or handle.spec.group else None
        with self._files.region(handle, region) as connection:
            found = rows.point(connection, layout, stored)
            if found.dropped:
                raise Dropped
            if position is None or found.position <= position:
                return found.row
            with connection.reading():
                picture = rows.Picture(connection, layout, position, stored[0])
                return _only_row(picture.probe(stored, pa.array([0]), layout.spec.values, Pick.ALL), handle)

    def _looking(self, at: Positions | None, look: Callable[[], Answer]) -> Answer:
        """Who names no position sees what is committed. If that is passed and trimmed while he looks, he looks again."""
        for _ in range(ATTEMPTS):
            with suppress(*((SnapshotTooOld,) if at is None else ())):
                return self._files.retrying(look)
        return self._files.retrying(look)

    def _visible(self, handle: Handle, at: Positions | None) -> Sequence[int | None]:
        """The positions to read at: those named, or what every reader may see."""
        if at is not None:
            return at
        if handle.spec.group is None:
            return [None] * handle.spec.regions
        return [self._files.catalog.committed_epoch(handle.spec.group)] * handle.spec.regions

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
        def attempt() -> pa.Table:
            handle = self._files.handle(table)
            where, values = _range(handle, start, stop, prefix)
            return self._scan(handle, where, values, limit, columns, at)

        return self._looking(at, attempt)

    def _scan(
        self,
        handle: Handle,
        where: str,
        values: pa.RecordBatch | None,
        limit: int | None,
        columns: Sequence[str] | None,
        at: Positions | None,
    ) -> pa.Table:
        wanted = handle.spec.schema.names if columns is None else list(columns)
        others = [name for name in wanted if name not in handle.spec.key]
        parts = []
        for region, position in enumerate(self._visible(handle, at)):
            with self._files.region(handle, region) as connection, connection.reading():
                picture = _picture(connection, handle, position)
                parts.append(picture.scan(others, where, values, limit))
        merged = _merged(parts, len(handle.spec.key), limit)
        return handle.layout.decode(merged.columns, [*handle.spec.key, *others]).select(wanted)

    def count(self, table: str, *, weight: str | None = None, at: Positions | None = None) -> int:
        def attempt() -> int:
            handle = self._files.handle(table)
            total = 0
            for region, position in enumerate(self._visible(handle, at)):
                with self._files.region(handle, region) as connection, connection.reading():
                    total += _picture(connection, handle, position).count(weight)
            return total

        return self._looking(at, attempt)

    def read(
        self, table: str, region: int, *, columns: Sequence[str] | None = None, at: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        handle = self._files.retrying(lambda: self._alive(table))
        wanted = handle.spec.schema.names if columns is None else list(columns)
        for attempt in range(ATTEMPTS):
            position = at if at is not None else self._visible(handle, None)[region]
            with self._streaming(handle, region) as connection:
                try:
                    picture = _picture(connection, handle, position)
                except SnapshotTooOld:
                    if at is not None or attempt == ATTEMPTS - 1:
                        raise
                    continue  # as in `_looking`
                yield from picture.batches(wanted)
                return

    @contextmanager
    def _streaming(self, handle: Handle, region: int) -> Iterator[Connection]:
        """For those who hand out batches, and so cannot begin again with what the catalog says now (`Files.retrying`)."""
        try:
            with self._files.region(handle, region) as connection, connection.reading():
                yield connection
        except Dropped:
            self._files.forget_dropped()
            name = handle.spec.name
            raise NotFound(f'table "{name}" was dropped meanwhile', hint="look for it again", table=name) from None

    def _alive(self, table: str) -> Handle:
        handle = self._files.handle(table)
        with self._files.region(handle, 0) as connection:
            check_open(rows.state(connection))
        return handle

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
        return self._looking(at, lambda: self._probe(self._files.handle(table), keys, pick, columns, region, at))

    def _probe(
        self,
        handle: Handle,
        keys: pa.Table,
        pick: Pick,
        columns: Sequence[str] | None,
        region: int | None,
        at: Positions | None,
    ) -> pa.Table:
        spec, layout = handle.spec, handle.layout
        wanted = spec.schema.names if columns is None else list(columns)
        others = [name for name in wanted if name not in spec.key]
        leading = list(spec.key[: keys.num_columns])
        visible = self._visible(handle, at)
        parts = [_no_matches(handle, others)]
        for number, numbers, share in _shares(handle, keys.select(leading), region):
            with self._files.region(handle, number) as connection, connection.reading():
                picture = _picture(connection, handle, visible[number])
                parts.append(picture.probe(layout.encode(share, leading), numbers, others, pick))
        found = pa.concat_tables([_aligned(part, parts[0].schema) for part in parts])
        if pick is not Pick.ALL and len(parts) > 2:
            found = rows.edges(found, len(spec.key), pick)
        decoded = layout.decode(found.columns[1:], [*spec.key, *others]).select(wanted)
        return decoded.add_column(0, names.PROBE, found.column(0))

    # Logs

    def positions(self, table: str) -> Positions:
        def attempt() -> Positions:
            handle = self._files.handle(table)
            found = []
            for region in range(handle.spec.regions):
                with self._files.region(handle, region) as connection:
                    found.append(check_open(rows.state(connection)).position)
            return tuple(found)

        return self._files.retrying(attempt)

    def log(self, table: str, region: int, after: int, upto: int) -> Iterator[pa.RecordBatch]:
        handle = self._files.retrying(lambda: self._alive(table))
        with self._streaming(handle, region) as connection:
            _check_reaches_back(connection, handle, after, upto)
            schema = positioned_log_schema(handle.spec)
            for batch in log.read(connection, handle.layout, after, upto):
                yield batch.cast(schema)

    def backlog(self, table: str, after: Positions, upto: Positions, *, whole: bool = True) -> int:
        def attempt() -> int:
            handle = self._alive(table)
            total = 0
            for region, (low, high) in enumerate(zip(after, upto, strict=True)):
                with self._files.region(handle, region) as connection, connection.reading():
                    if whole:
                        _check_reaches_back(connection, handle, low, high)
                    total += log.count(connection, low, high)
            return total

        return self._files.retrying(attempt)

    def oldest(self, table: str, after: Positions) -> float | None:
        def attempt() -> float | None:
            handle = self._alive(table)
            found = []
            for region, position in enumerate(after):
                with self._files.region(handle, region) as connection:
                    found.append(log.first_stamp(connection, position))
            return min((stamp / 1e9 for stamp in found if stamp is not None), default=None)

        return self._files.retrying(attempt)

    def cut(self, tables: Sequence[str], *, after: Cut | None = None, at_most: int | None = None) -> Cut:
        return self._files.retrying(lambda: cuts.cut(self._files, tables, after, at_most))

    def trim(self, before: float) -> int:
        return epochs.trim(self._files, before)

    # Epochs

    def create_group(self, name: str, *, guards: bool = False) -> None:
        self._files.catalog.create_group(name, guards=guards)

    def drop_group(self, name: str) -> None:
        self._files.catalog.drop_group(name)

    def group(self, name: str) -> GroupState:
        return self._files.catalog.group(name)

    def groups(self) -> list[GroupState]:
        return self._files.catalog.groups()

    def begin(self, group: str, cut: Cut, term: int) -> EpochRecord:
        return self._files.catalog.begin(group, cut, term)

    def apply(self, table: str, region: int, changes: pa.Table, epoch: int, term: int) -> Applied:
        return self._files.retrying(
            lambda: epochs.apply(self._files, self._files.handle(table), region, changes, epoch, term)
        )

    def withdraw(self, table: str, epoch: int, term: int) -> None:
        self._files.retrying(lambda: epochs.withdraw(self._files, self._files.handle(table), epoch, term))

    def commit(self, group: str, epoch: int, term: int) -> None:
        self._files.catalog.commit(group, epoch, term)

    def undo(self, group: str, epoch: int, term: int) -> None:
        epochs.undo(self._files, group, epoch, term)

    # Leadership

    def lead(self, name: str, holder: str, seconds: float) -> Lease | None:
        return self._files.catalog.lead(name, holder, seconds)

    def renew(self, lease: Lease, seconds: float) -> Lease:
        return self._files.catalog.renew(lease, seconds)

    def resign(self, lease: Lease) -> None:
        self._files.catalog.resign(lease)

    def fence(self, group: str, term: int) -> None:
        epochs.fence(self._files, group, term)

    # Records

    def records(self, prefix: str = "") -> dict[str, str]:
        return self._files.catalog.records(prefix)

    def record(self, name: str) -> str | None:
        return self._files.catalog.record(name)

    def put_record(
        self,
        name: str,
        text: str | None,
        expected: str | EllipsisType | None = ...,
        *,
        during: RunningEpoch | None = None,
    ) -> bool:
        return self._files.catalog.put_record(name, text, expected, during)


class _Inside(EmbeddedStore):
    """The store as prepared writes would leave it. It lives as long as they wait, and no other process can see it."""

    def __init__(self, files: Files, durability: str, timeout: float) -> None:
        self._files = files
        self._durability = durability
        self._timeout = timeout

    def reopener(self) -> None:
        return None

    def close(self) -> None:
        return None


def _synchronous(durability: str) -> str:
    if not isinstance(durability, str) or durability not in DURABILITY:
        raise InputError(f"there is no durability {durability!r}", hint=f"give one of {', '.join(DURABILITY)}")
    return DURABILITY[durability]


def _timeout(seconds: float) -> float:
    """How long to wait for a lock."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        raise InputError(f"a call cannot wait {seconds!r} seconds for another writer", hint="give 0 or more")
    return min(seconds, LONGEST_WAIT)


def _check_reaches_back(connection: Connection, handle: Handle, after: int, upto: int) -> None:
    """`SnapshotTooOld` if a region's log has lost some of what lies between two positions."""
    trimmed = rows.state(connection).trimmed
    if after < min(trimmed, upto):
        raise rows.too_old(handle.spec.name, after, trimmed)


def _picture(connection: Connection, handle: Handle, position: int | None) -> rows.Picture:
    picture = rows.Picture(connection, handle.layout, position)
    if picture.dropped:
        raise Dropped
    return picture


def _only_row(found: pa.Table, handle: Handle) -> Row | None:
    if not found.num_rows:
        return None
    decoded = handle.layout.decode(found.columns[1:], handle.layout.order)
    return {name: to_python(decoded[name])[0] for name in handle.spec.schema.names}


def _range(
    handle: Handle, start: Sequence[Any] | None, stop: Sequence[Any] | None, prefix: Sequence[Any]
) -> tuple[str, pa.RecordBatch | None]:
    """The condition on a region's rows (alias `r`) and its parameters."""
    layout = handle.layout
    conditions, values = ["1"], []
    for operator, bound in (("=", prefix), (">=", start), ("<", stop)):
        if not bound:
            continue
        leading = layout.spec.key[: len(bound)]
        left = ", ".join(f"r.{layout.column[name]}" for name in leading)
        right = ", ".join(layout.bound(name) for name in leading)
        conditions.append(f"({left}) {operator} ({right})")
        values += rows.one_row(bound, layout, leading)
    batch = pa.record_batch(values, names=[str(i) for i in range(len(values))]) if values else None
    return " AND ".join(conditions), batch


def _merged(parts: list[pa.Table], key_width: int, limit: int | None) -> pa.Table:
    """Several regions' rows, each in key order, as one table in key order."""
    if len(parts) == 1:
        return parts[0]
    together = pa.concat_tables([_aligned(part, parts[0].schema) for part in parts])
    filled = sum(1 for part in parts if part.num_rows)
    if filled > 1:
        together = together.take(sort_indices(together.columns[:key_width]))
    return together if limit is None else together.slice(0, limit)


def _aligned(part: pa.Table, schema: pa.Schema) -> pa.Table:
    """The driver names result columns after their SQL, and calls a column of NULLs an integer column."""
    return part.rename_columns(schema.names).cast(schema)


def _no_matches(handle: Handle, others: Sequence[str]) -> pa.Table:
    """The answer of a probe without matches: its stored columns, with names and types."""
    columns = [*handle.spec.key, *others]
    fields = [pa.field(names.PROBE, pa.int64()), *(pa.field(n, handle.layout.codecs[n].stored) for n in columns)]
    return pa.schema(fields).empty_table()


def _shares(handle: Handle, keys: pa.Table, region: int | None) -> Iterator[tuple[int, pa.Array, pa.Table]]:
    """Which keys each region is asked for, and their numbers.

    A key that has all distribution columns is in one region; a shorter one may have rows in all.
    """
    everything = pa.array(np.arange(keys.num_rows))
    if region is not None:
        yield region, everything, keys
    elif keys.num_columns < len(handle.spec.distribution):
        for number in range(handle.spec.regions):
            yield number, everything, keys
    elif keys.num_rows:
        regions = regions_of(handle.spec, keys)
        for number in np.unique(regions):
            chosen = pa.array(np.flatnonzero(regions == number))
            yield int(number), chosen, keys.take(chosen)
