"""What epochs do to the regions of a group's tables: apply, undo, fence; and the retention of logs."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import pyarrow as pa

from viewkeeper.store.contract import Applied, GroupState
from viewkeeper.store.embedded import faults, rows
from viewkeeper.store.embedded.catalog import fenced
from viewkeeper.store.embedded.connection import Connection, parameters
from viewkeeper.store.embedded.files import Dropped, Files, Handle, check_open
from viewkeeper.store.embedded.layout import PARTS


def apply(files: Files, handle: Handle, region: int, changes: pa.Table, epoch: int, term: int) -> Applied:
    """See `Store.apply`.

    The region's position is the epoch that was applied last, and it moves in the transaction that applies, so the
    region itself knows whether this is the first time. Its fence is checked under the same lock: a maintainer that was
    fenced while it waited for the lock gets no further.
    """
    group = handle.spec.group
    assert group is not None, "only maintained tables have epochs"
    with files.region(handle, region) as connection, connection.writing():
        now = check_open(rows.state(connection))
        faults.reach("apply.locked")
        if term < now.fence:
            raise fenced(handle.spec.name, term, now.fence)
        if now.position == epoch:
            return Applied(now.inserted, now.updated, now.deleted)
        files.catalog.check_running(group, epoch, term)
        stamp = files.clock.tick()
        applied = rows.change(connection, handle.layout, changes, epoch, stamp).applied
        rows.advance(connection, epoch, stamp, applied)
        faults.reach("apply.staged")
    faults.reach("apply.committed")
    return applied


def withdraw(files: Files, handle: Handle, epoch: int, term: int) -> None:
    """See `Store.withdraw`. A region that was restored moves to the epoch again, with nothing: see `apply`."""
    group = handle.spec.group
    assert group is not None, "only maintained tables have epochs"
    files.catalog.check_running(group, epoch, term)
    for region in range(handle.spec.regions):
        with files.region(handle, region) as connection, connection.writing():
            _undo_region(connection, handle, epoch, term)
            rows.advance(connection, epoch, files.clock.tick(), Applied(0, 0, 0))
        faults.reach("withdraw.region_restored")


def undo(files: Files, group: str, epoch: int, term: int) -> None:
    """See `Store.undo`. The record says so first, so that no straggler's task applies to a region that was restored; then
    the regions; then the record goes. A crash in between leaves an epoch that is being undone, to be undone again.
    A table that is dropped meanwhile has nothing to restore.
    """
    if not files.catalog.begin_undo(group, epoch, term):
        return
    faults.reach("undo.begun")
    files.transactions.strike(group, epoch)
    for handle in _tables_of(files, group):
        with suppress(Dropped):
            for region in range(handle.spec.regions):
                with files.region(handle, region) as connection, connection.writing():
                    _undo_region(connection, handle, epoch, term)
                faults.reach("undo.region_restored")
    files.catalog.end_running(group, epoch, term)


def _undo_region(connection: Connection, handle: Handle, epoch: int, term: int) -> None:
    now = rows.state(connection)
    if term < now.fence:
        raise fenced(handle.spec.name, term, now.fence)
    if now.position == epoch:
        rows.restore(connection, handle.layout, epoch)


def fence(files: Files, group: str, term: int) -> None:
    """See `Store.fence`. The group first, so that tables made meanwhile are made with the new fence.

    One that is dropped meanwhile needs none: nobody can write to it any more.
    """
    files.catalog.raise_fence(group, term)
    for handle in _tables_of(files, group):
        with suppress(Dropped):
            for region in range(handle.spec.regions):
                with files.region(handle, region) as connection, connection.writing():
                    connection.execute("UPDATE state SET fence = max(fence, ?)", parameters(term))


def _tables_of(files: Files, group: str) -> list[Handle]:
    return [handle for handle in files.handles() if handle.spec.group == group]


# Retention


def trim(files: Files, before: float) -> int:
    """See `Store.trim`. A table that is dropped meanwhile has no log to keep."""
    gone = 0
    for handle in files.handles():
        with suppress(Dropped):
            for region in range(handle.spec.regions):
                gone += _trim_region(files, handle, region, int(before * 1e9))
                faults.reach("trim.region_trimmed")
    return gone


def _needed_after(handle: Handle, region: int, groups: Iterable[GroupState]) -> int | None:
    """The position whose successors somebody may still ask for; None if nobody reads the log."""
    needed = []
    for group in groups:
        for record in (group.committed, group.running):
            positions = () if record is None else record.cut.get(handle.spec.name, ())
            if region < len(positions):
                needed.append(positions[region])
        if group.name == handle.spec.group:
            needed.append(group.committed.epoch)
    return min(needed, default=None)


def _trim_region(files: Files, handle: Handle, region: int, before: int) -> int:
    """Who needs what is asked under the region's lock: nobody who has a cut without a write finds that write gone."""
    with files.region(handle, region) as connection, connection.writing():
        needed_after = _needed_after(handle, region, files.catalog.groups())
        upto = rows.state(connection).position if needed_after is None else needed_after
        values = parameters((upto + 1) * PARTS, before)
        newest = connection.one("SELECT max(id), sum(changes) FROM log WHERE id < ? AND stamp < ?", values)
        if newest is None or newest[0] is None:
            return 0
        connection.execute("DELETE FROM log WHERE id <= ?", parameters(newest[0]))
        connection.execute("UPDATE state SET trimmed = max(trimmed, ?)", parameters(newest[0] // PARTS))
        return int(newest[1])
