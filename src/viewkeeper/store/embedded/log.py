"""A region's log on disk: Arrow batches by position, and what undoing them gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper import names
from viewkeeper.store.embedded.connection import Connection, parameters
from viewkeeper.store.embedded.layout import PARTS, Layout

COMPRESS_FROM = 256
"""Rows from which compressing a batch pays."""

_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True)
class Entry:
    """One batch of one write."""

    part: int
    changes: int
    data: bytes


def pack(batch: pa.RecordBatch) -> bytes:
    """The batch without its schema, which every region's layout knows."""
    if batch.num_rows < COMPRESS_FROM:
        return bytes(batch.serialize())
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=_COMPRESSED) as writer:
        writer.write_batch(batch)
        stop = sink.tell()
    start = batch.schema.serialize().size
    return bytes(sink.getvalue()[start:stop])


def unpack(data: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """The inverse of `pack`."""
    return pa.ipc.read_record_batch(pa.py_buffer(data), schema)


def append(
    connection: Connection, layout: Layout, position: int, stamp: int, entry: Entry, low: pa.Array, high: pa.Array
) -> None:
    """Add a batch. `low` and `high` are the stored values, one each, that bound its first key column."""
    first = layout.bound(layout.spec.key[0])
    values = [pa.array([value]) for value in (position * PARTS + entry.part, stamp, entry.changes)]
    row = pa.record_batch([*values, low, high, pa.array([entry.data], pa.binary())], names=list("abcdef"))
    connection.execute(f"INSERT INTO log VALUES (?, ?, ?, {first}, {first}, ?)", row)


def read(connection: Connection, layout: Layout, after: int, upto: int) -> Iterator[pa.RecordBatch]:
    """The changes of the positions in (after, upto], each batch with its position."""
    bounds = parameters((after + 1) * PARTS, (upto + 1) * PARTS)
    rows = connection.query("SELECT id FROM log WHERE id >= ? AND id < ? ORDER BY id", bounds)
    for identity in rows.column(0).to_pylist() if rows.num_rows else ():
        found = connection.one("SELECT data FROM log WHERE id = ?", parameters(identity))
        assert found is not None, "the caller holds one read transaction"
        yield with_position(unpack(found[0], layout.log_schema), identity // PARTS)


def with_position(batch: pa.RecordBatch, position: int) -> pa.RecordBatch:
    column = pa.repeat(pa.scalar(position, pa.int64()), batch.num_rows)
    return pa.record_batch(
        [column, *batch.columns], schema=pa.schema([pa.field(names.POSITION, pa.int64()), *batch.schema])
    )


def count(connection: Connection, after: int, upto: int) -> int:
    """How many changes the positions in (after, upto] have."""
    bounds = parameters((after + 1) * PARTS, (upto + 1) * PARTS)
    found = connection.one("SELECT ifnull(sum(changes), 0) FROM log WHERE id >= ? AND id < ?", bounds)
    return int(found[0]) if found else 0


def first_stamp(connection: Connection, after: int) -> int | None:
    """The stamp of the first entry after a position, if there is one."""
    found = connection.one("SELECT stamp FROM log WHERE id >= ? ORDER BY id LIMIT 1", parameters((after + 1) * PARTS))
    return None if found is None else int(found[0])


def stamps(connection: Connection, after: int) -> list[tuple[int, int]]:
    """The stamp and the number of changes of each entry after a position."""
    found = connection.query(
        "SELECT stamp, changes FROM log WHERE id >= ? ORDER BY id", parameters((after + 1) * PARTS)
    )
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True)) if found.num_rows else []


def first_changes(connection: Connection, layout: Layout, after: int, first_key: pa.Array | None = None) -> pa.Table:
    """The earliest change of each key after a position: its before is the row as it was at that position.

    `first_key`, a stored value of the first key column, asks for the keys that begin with it alone: batches that hold no
    such key stay closed.
    """
    batches = [unpack(data, layout.log_schema) for data in _data_after(connection, layout, after, first_key)]
    changes = pa.Table.from_batches(batches, schema=layout.log_schema)
    if first_key is not None:
        changes = _beginning_with(layout, changes, first_key)
    return changes if len(batches) < 2 else _earliest(layout, changes)


def _data_after(connection: Connection, layout: Layout, after: int, first_key: pa.Array | None) -> list[bytes]:
    start = pa.array([(after + 1) * PARTS])
    if first_key is None:
        found = connection.query("SELECT data FROM log WHERE id >= ? ORDER BY id", pa.record_batch([start], ["a"]))
    else:
        bound = layout.bound(layout.spec.key[0])
        row = pa.record_batch([start, first_key, first_key], names=list("abc"))
        sql = f"SELECT data FROM log WHERE id >= ? AND high >= {bound} AND low <= {bound} ORDER BY id"
        found = connection.query_few(sql, row)
    return list(found.column(0).to_pylist()) if found.num_rows else []


def _beginning_with(layout: Layout, changes: pa.Table, first_key: pa.Array) -> pa.Table:
    stored = layout.encode(changes, layout.spec.key[:1])[0]
    wanted = first_key[0]
    return changes.filter(pc.equal(stored, wanted) if wanted.is_valid else stored.is_null())


def _earliest(layout: Layout, changes: pa.Table) -> pa.Table:
    """Keys are compared as they are stored: there NaN equals itself."""
    stored = pa.table(layout.encode(changes, layout.spec.key), names=list(layout.keys))
    numbered = stored.append_column("n", pa.array(range(changes.num_rows), pa.int64()))
    first = numbered.group_by(list(layout.keys)).aggregate([("n", "min")])["n_min"]
    return changes.take(first.combine_chunks().sort())


def drop_position(connection: Connection, position: int) -> None:
    """Forget the entries of one position."""
    connection.execute("DELETE FROM log WHERE id >= ? AND id < ?", parameters(position * PARTS, (position + 1) * PARTS))
