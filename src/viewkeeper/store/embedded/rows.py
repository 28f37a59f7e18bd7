"""A region's rows: changing them with a log entry in the same transaction, and reading them as they were."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper import names
from viewkeeper.errors import SnapshotTooOld
from viewkeeper.store.changes import tally
from viewkeeper.store.contract import Applied, Pick
from viewkeeper.store.embedded import log
from viewkeeper.store.embedded.connection import Connection, parameters
from viewkeeper.store.embedded.layout import Layout
from viewkeeper.store.embedded.ordering import sort_indices
from viewkeeper.store.encoding import from_python

SEVERAL = 2
"""Rows from which a write asks whether the region is empty: then it has nothing to compare with."""

CHUNK = 32_768
"""Rows changed per round: enough to make the fixed cost of a round small, few enough to stay in SQLite's cache."""


class State(NamedTuple):
    """The one row of a region's `state` table."""

    position: int
    stamp: int
    trimmed: int
    previous: int
    inserted: int
    updated: int
    deleted: int
    fence: int
    dropped: int


def state(connection: Connection) -> State:
    found = connection.one("SELECT * FROM state")
    assert found is not None, "a region's file is made with its state"
    return State(*found)


def advance(connection: Connection, position: int, stamp: int, applied: Applied) -> None:
    """Record the newest write."""
    connection.execute(
        "UPDATE state SET previous = position, position = ?, stamp = ?, inserted = ?, updated = ?, deleted = ?",
        parameters(position, stamp, applied.inserted, applied.updated, applied.deleted),
    )


# Changing


@dataclass(frozen=True)
class Changed:
    """What a write did to a region, and its log entries."""

    applied: Applied
    entries: list[log.Entry]


def change(connection: Connection, layout: Layout, desired: pa.Table, position: int, stamp: int) -> Changed:
    """Bring the rows to what `desired` says (the columns and `names.HAS`; keys are distinct) and log what changed.

    A row that is already as desired is no change. If nothing changes, the region stays at its position.
    """
    fills = desired.num_rows >= SEVERAL and connection.one("SELECT 1 FROM rows LIMIT 1") is None
    if fills and not pc.all(desired[names.HAS]).as_py():
        desired = desired.filter(desired[names.HAS])
    desired = _sorted(layout, desired)
    entries: list[log.Entry] = []
    counts = Applied(0, 0, 0)
    change_chunk = _fill_chunk if fills else _change_chunk
    for start in range(0, desired.num_rows, CHUNK):
        changes = change_chunk(connection, layout, desired.slice(start, CHUNK), position, stamp, len(entries))
        if changes is not None:
            entries.append(changes[0])
            counts = _plus(counts, changes[1])
    return Changed(counts, entries)


def _plus(one: Applied, two: Applied) -> Applied:
    return Applied(one.inserted + two.inserted, one.updated + two.updated, one.deleted + two.deleted)


def _sorted(layout: Layout, table: pa.Table) -> pa.Table:
    """In key order: SQLite appends to a leaf instead of seeking, and log batches cover narrow ranges of keys."""
    if table.num_rows < 2:
        return table
    return table.take(sort_indices(layout.encode(table, layout.spec.key)))


def _change_chunk(
    connection: Connection, layout: Layout, desired: pa.Table, position: int, stamp: int, part: int
) -> tuple[log.Entry, Applied] | None:
    stored = layout.encode(desired, layout.order)
    has = desired[names.HAS].combine_chunks()
    _stage(connection, layout, stored, has)
    had, before = _before(connection, layout, desired.num_rows)
    changed = _changed(stored[len(layout.spec.key) :], has, before, had)
    if not pc.any(changed).as_py():
        connection.execute("DELETE FROM temp.stage")
        return None
    _move_stage(connection, layout, has)
    changes = _log_batch(layout, desired, has, before, had)
    if not pc.all(changed).as_py():
        changes, stored = changes.filter(changed), [column.filter(changed) for column in stored[:1]]
    entry = log.Entry(part, changes.num_rows, log.pack(changes))
    log.append(connection, layout, position, stamp, entry, stored[0].slice(0, 1), stored[0].slice(len(stored[0]) - 1))
    return entry, tally(changes)


def _fill_chunk(
    connection: Connection, layout: Layout, desired: pa.Table, position: int, stamp: int, part: int
) -> tuple[log.Entry, Applied]:
    """The same where there was no row before the write: nothing to look for or to compare with, and every row is new."""
    stored = layout.encode(desired, layout.order)
    slots = ", ".join(layout.bound(name) for name in layout.order)
    batch = pa.record_batch(stored, names=list(layout.columns))
    connection.execute(f"INSERT INTO rows ({', '.join(layout.columns)}) VALUES ({slots})", batch)
    count = desired.num_rows
    before = [pa.nulls(count, layout.codecs[name].stored) for name in layout.spec.values]
    has = desired[names.HAS].combine_chunks()
    changes = _log_batch(layout, desired, has, before, pa.repeat(pa.scalar(False), count))
    entry = log.Entry(part, count, log.pack(changes))
    log.append(connection, layout, position, stamp, entry, stored[0].slice(0, 1), stored[0].slice(count - 1))
    return entry, Applied(count, 0, 0)


def _stage(connection: Connection, layout: Layout, stored: list[pa.Array], has: pa.Array) -> None:
    connection.once(f"CREATE TEMP TABLE IF NOT EXISTS stage (has, {', '.join(layout.columns)})")
    slots = ", ".join(layout.bound(name) for name in layout.order)
    batch = pa.record_batch([has.cast(pa.int64()), *stored], names=["has", *layout.columns])
    connection.execute(f"INSERT INTO temp.stage VALUES (?, {slots})", batch)


def _before(connection: Connection, layout: Layout, count: int) -> tuple[pa.Array, list[pa.Array]]:
    """Whether each staged row was there, and its stored values then, in the order of the stage."""
    values = layout.spec.values
    columns = "".join(f", r.{layout.column[name]}" for name in values)
    samples = "".join(f", {layout.codecs[name].sample_literal}" for name in values)
    found = connection.query(
        f"SELECT 0{samples} UNION ALL"
        f" SELECT s.rowid{columns} FROM temp.stage s CROSS JOIN rows r ON {layout.match('r', 's')}"
    ).slice(1)
    slots = np.full(count, -1, dtype=np.int64)
    slots[found.column(0).to_numpy() - 1] = np.arange(found.num_rows)
    index = pa.array(slots, mask=slots < 0)
    return index.is_valid(), [column.combine_chunks().take(index) for column in found.columns[1:]]


def _changed(after: list[pa.Array], has: pa.Array, before: list[pa.Array], had: pa.Array) -> pa.Array:
    """Compared as stored: there NaN equals itself, and -0.0 is not 0.0."""
    differs = pc.xor(has, had)
    both = pc.and_(has, had)
    if not pc.any(both).as_py():
        return differs
    for new, old in zip(after, before, strict=True):
        unequal = pc.fill_null(pc.not_equal(new, old), False)
        differs = pc.or_(differs, pc.and_(both, pc.or_(unequal, pc.xor(new.is_valid(), old.is_valid()))))
    return differs


def _move_stage(connection: Connection, layout: Layout, has: pa.Array) -> None:
    if not pc.all(has).as_py():
        keys = ", ".join(layout.keys)
        connection.execute(f"DELETE FROM rows WHERE ({keys}) IN (SELECT {keys} FROM temp.stage WHERE NOT has)")
    if pc.any(has).as_py():
        columns = ", ".join(layout.columns)
        connection.execute(f"INSERT OR REPLACE INTO rows SELECT {columns} FROM temp.stage WHERE has")
    connection.execute("DELETE FROM temp.stage")


def _log_batch(
    layout: Layout, desired: pa.Table, has: pa.Array, before: list[pa.Array], had: pa.Array
) -> pa.RecordBatch:
    """What left (decoded from the file) and what came (as it was given)."""
    keys = [desired[name].combine_chunks() for name in layout.spec.key]
    old = [layout.codecs[n].decode(column) for n, column in zip(layout.spec.values, before, strict=True)]
    new = [desired[name].combine_chunks() for name in layout.spec.values]
    if not pc.all(has).as_py():
        new = [pc.if_else(has, column, pa.scalar(None, column.type)) for column in new]
    return pa.record_batch([*keys, had, has, *old, *new], schema=layout.log_schema)


def restore(connection: Connection, layout: Layout, position: int) -> None:
    """Undo the newest write, which is at `position`: rows and log as before it."""
    for batch in log.read(connection, layout, position - 1, position):
        before = before_images(layout, pa.Table.from_batches([batch]))
        _stage(connection, layout, layout.encode(before, layout.order), before[names.HAS].combine_chunks())
        _move_stage(connection, layout, before[names.HAS].combine_chunks())
    log.drop_position(connection, position)
    connection.execute("UPDATE state SET position = previous, inserted = 0, updated = 0, deleted = 0")


def after_images(layout: Layout, changes: pa.Table) -> pa.Table:
    """A log's changes as the rows that they want: what `change` takes."""
    return _as_desired(layout, changes, names.HAS, names.AFTER)


def before_images(layout: Layout, changes: pa.Table) -> pa.Table:
    """A log's changes as the rows that undo them."""
    return _as_desired(layout, changes, names.HAD, names.BEFORE)


def _as_desired(layout: Layout, changes: pa.Table, flag: str, prefix: str) -> pa.Table:
    keys = {name: changes[name] for name in layout.spec.key}
    values = {name: changes[prefix + name] for name in layout.spec.values}
    return pa.table({**keys, **values, names.HAS: changes[flag]})


# Reading


class Picture:
    """A region's rows at a position, inside one read transaction of a connection.

    If nothing was written since, that is `rows`. Else the earliest change of each key after the position is put into a
    temporary table, and the picture is: the rows whose key is not there, and the befores that are. With `first_key` (a
    stored value of the first key column) the picture is right for the keys that begin with it, and costs only those.
    """

    def __init__(
        self, connection: Connection, layout: Layout, at: int | None, first_key: pa.Array | None = None
    ) -> None:
        self._connection = connection
        self._layout = layout
        now = state(connection)
        self.dropped = bool(now.dropped)
        self._undone = at is not None and now.position > at and not self.dropped
        if self._undone:
            assert at is not None
            self._undo(now, at, first_key)

    def _undo(self, now: State, at: int, first_key: pa.Array | None) -> None:
        if at < now.trimmed:
            raise too_old(self._layout.spec.name, at, now.trimmed)
        layout = self._layout
        keys = ", ".join(layout.keys)
        self._connection.once(
            f"CREATE TEMP TABLE IF NOT EXISTS undo (had, {', '.join(layout.columns)}, PRIMARY KEY ({keys})) WITHOUT ROWID"
        )
        self._connection.execute("DELETE FROM temp.undo")
        before = before_images(layout, log.first_changes(self._connection, layout, at, first_key))
        slots = ", ".join(layout.bound(name) for name in layout.order)
        stored = layout.encode(before, layout.order)
        had = before[names.HAS].combine_chunks().cast(pa.int64())
        batch = pa.record_batch([had, *stored], names=["had", *layout.columns])
        self._connection.execute(f"INSERT INTO temp.undo VALUES (?, {slots})", batch)

    def _sources(self, alias: str) -> list[tuple[str, str]]:
        """What to read from, as `table alias`, and the condition that makes it part of the picture."""
        if not self._undone:
            return [(f"rows {alias}", "1")]
        gone = f"NOT EXISTS (SELECT 1 FROM temp.undo u WHERE {self._layout.match('u', alias)})"
        return [(f"rows {alias}", gone), (f"temp.undo {alias}", f"{alias}.had")]

    def _ordered_sql(self, wanted: Sequence[str], where: str = "1", limit: int | None = None) -> str:
        """The query for stored columns of the rows for which `where` holds (alias `r`), in key order."""
        layout = self._layout
        inside = ", ".join(f"r.{column}" for column in layout.columns)
        arms = [f"SELECT {inside} FROM {source} WHERE {holds} AND {where}" for source, holds in self._sources("r")]
        body = f"{' UNION ALL '.join(arms)} ORDER BY {', '.join(layout.keys)} LIMIT {-1 if limit is None else limit}"
        return f"SELECT {layout.samples(wanted)} UNION ALL SELECT {layout.selected(wanted, 'p')} FROM ({body}) p"

    def scan(
        self, columns: Sequence[str], where: str = "1", values: pa.RecordBatch | None = None, limit: int | None = None
    ) -> pa.Table:
        """Stored key and columns, in key order. `values` are the parameters of `where`, once for each source."""
        if values is not None and self._undone:
            doubled = [*values.columns, *values.columns]
            values = pa.record_batch(doubled, names=[str(i) for i in range(len(doubled))])
        return self._connection.query(
            self._ordered_sql([*self._layout.spec.key, *columns], where, limit), values
        ).slice(1)

    def count(self, weight: str | None) -> int:
        """How many rows, or the sum of an integer column over them."""
        measure = "count(*)" if weight is None else f"ifnull(sum(r.{self._layout.column[weight]}), 0)"
        arms = [f"SELECT {measure} AS n FROM {source} WHERE {holds}" for source, holds in self._sources("r")]
        found = self._connection.one(f"SELECT sum(n) FROM ({' UNION ALL '.join(arms)})")
        return int(found[0]) if found else 0

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Decoded columns of all rows in key order, as they are read."""
        first = 1
        for batch in self._connection.stream(self._batches_sql(columns)) if columns else ():
            yield from self._layout.decode(batch.slice(first).columns, columns).to_batches()
            first = 0

    def _batches_sql(self, columns: Sequence[str]) -> str:
        """`rows` has one tree, which is in key order, and reading it through costs a third less if nobody asks for an order."""
        layout = self._layout
        if self._undone:
            return self._ordered_sql(columns)
        return f"SELECT {layout.samples(columns)} UNION ALL SELECT {layout.selected(columns, 'r')} FROM rows r"

    def probe(self, keys: list[pa.Array], numbers: pa.Array, columns: Sequence[str], pick: Pick) -> pa.Table:
        """Number, stored key and stored columns of the rows under each of `keys` (stored leading key columns)."""
        self._stage_probe(keys, numbers)
        wanted = [*self._layout.spec.key, *columns]
        query = self._all_sql if pick is Pick.ALL else self._edge_sql
        arms = [query(source, len(keys), wanted, pick) for source in range(len(self._sources("r")))]
        found = self._connection.query(f"SELECT 0, {self._layout.samples(wanted)} UNION ALL {' UNION ALL '.join(arms)}")
        return edges(found.slice(1), len(self._layout.keys), pick) if self._undone else found.slice(1)

    def _stage_probe(self, keys: list[pa.Array], numbers: pa.Array) -> None:
        layout = self._layout
        leading = layout.keys[: len(keys)]
        name = f"probe{len(keys)}"
        self._connection.once(f"CREATE TEMP TABLE IF NOT EXISTS {name} (n, {', '.join(leading)})")
        self._connection.execute(f"DELETE FROM temp.{name}")
        slots = ", ".join(layout.bound(column) for column in layout.spec.key[: len(keys)])
        batch = pa.record_batch([numbers, *keys], names=["n", *leading])
        self._connection.execute(f"INSERT INTO temp.{name} VALUES (?, {slots})", batch)

    def _all_sql(self, source: int, width: int, wanted: Sequence[str], pick: Pick) -> str:
        table, holds = self._sources("r")[source]
        shown = self._layout.selected(wanted, "r")
        match = self._layout.match("r", "q", width)
        return f"SELECT q.n, {shown} FROM temp.probe{width} q CROSS JOIN {table} ON {match} AND {holds}"

    def _edge_sql(self, source: int, width: int, wanted: Sequence[str], pick: Pick) -> str:
        """One seek for the key at the edge, one for its row."""
        table, _ = self._sources("r")[source]
        inner, inner_holds = self._sources("e")[source]
        direction = "ASC" if pick is Pick.FIRST else "DESC"
        order = ", ".join(f"e.{key} {direction}" for key in self._layout.keys)
        rest = self._layout.keys[width:] or self._layout.keys[-1:]
        edge = (
            f"SELECT {', '.join(f'e.{key}' for key in rest)} FROM {inner}"
            f" WHERE {self._layout.match('e', 'q', width)} AND {inner_holds} ORDER BY {order} LIMIT 1"
        )
        match = self._layout.match("r", "q", width)
        rest_match = f"({', '.join(f'r.{key}' for key in rest)}) = ({edge})"
        shown = self._layout.selected(wanted, "r")
        return f"SELECT q.n, {shown} FROM temp.probe{width} q CROSS JOIN {table} ON {match} AND {rest_match}"


def edges(found: pa.Table, key_width: int, pick: Pick) -> pa.Table:
    """With two sources, each gave its own edge: keep the outer one of each probe."""
    if pick is Pick.ALL or found.num_rows == 0:
        return found
    ordered = found.take(sort_indices([found.column(i) for i in range(1 + key_width)]))
    numbers = ordered.column(0).to_numpy()
    fresh = numbers[1:] != numbers[:-1]
    keep = np.append(True, fresh) if pick is Pick.FIRST else np.append(fresh, True)
    return ordered.filter(pa.array(keep))


class Point(NamedTuple):
    """The answer to a point read: the row as it is now, and where the region is."""

    position: int
    dropped: bool
    row: dict[str, Any] | None


def point(connection: Connection, layout: Layout, key: list[pa.Array]) -> Point:
    """One row by its whole stored key, and where the region is, in one statement."""
    found = connection.one(layout.point_sql, pa.record_batch(key, names=list(layout.keys)))
    assert found is not None, "the state has one row"
    position, dropped, present, *stored = found
    row = {name: layout.codecs[name].value(v) for name, v in zip(layout.spec.schema.names, stored, strict=True)}
    return Point(position, bool(dropped), row if present else None)


def too_old(table: str, at: int, trimmed: int) -> SnapshotTooOld:
    return SnapshotTooOld(
        f'table "{table}" cannot be read at position {at}: its log begins after {trimmed}',
        hint="take a new snapshot, or keep logs longer",
        table=table,
        position=at,
        trimmed=trimmed,
    )


def one_row(values: Sequence[Any], layout: Layout, columns: Sequence[str]) -> list[pa.Array]:
    """Python values of key columns as stored values, one each."""
    fields = [layout.spec.schema.field(name) for name in columns]
    return [
        layout.codecs[field.name].encode(from_python(value, field.type))
        for field, value in zip(fields, values, strict=True)
    ]
