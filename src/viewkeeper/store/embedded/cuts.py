"""Cuts: one position per region, such that the whole is a state that the database passed through.

Every write gets its stamp from the shared clock while it holds all of its regions' locks. A cut takes a stamp `s`,
then reads from each region the newest position whose stamp is not above `s`, then looks at the decisions.

*Nothing acknowledged is missing, and causes come before effects.* Let A be acknowledged before B begins. Then A's
stamp is below B's, and A was visible before B got its stamp. If B is in the cut, then B's stamp is at most `s`, so A
was visible before `s` was taken, and the cut, which reads later, has it. Likewise for every A acknowledged before the
cut began.

*No transaction is half inside.* A transaction shows in some region only after its decision. So the decisions that are
read last include every one of which a region was seen to have a part. Those with a stamp up to `s` are taken in whole:
the regions' positions are raised to theirs, and what a dead process left is carried out. Raising is sound: what
precedes the transaction in a region was visible before the transaction had locked it, so it is in the cut already.
Those with a stamp above `s` are in no part of the cut.

*An earlier cut* is the same with a stamp `s` of the past: nothing above speaks of how old `s` is, only that regions are read
after it. It is joined with the cut that the caller comes from, position by position: both are closed under causes and
split no transaction, and so is what is in one of them or the other.

A cut waits only for transactions that are already decided. Writers never wait for a cut.

A region that has not come to where the caller comes from has lost writes, for positions only grow: the power went, and less
than full durability had been asked for. Its next writes would take the numbers of those that are lost, and the caller would
never see them; so that is an error.
"""

from __future__ import annotations

from collections.abc import Sequence

from viewkeeper.errors import Corrupt
from viewkeeper.store.contract import Cut
from viewkeeper.store.embedded import log, rows, writes
from viewkeeper.store.embedded.connection import Connection, parameters
from viewkeeper.store.embedded.files import Files, Handle, check_open
from viewkeeper.store.embedded.layout import PARTS
from viewkeeper.store.embedded.transactions import KEEP_NANOSECONDS, Decision


def cut(files: Files, tables: Sequence[str], after: Cut | None, at_most: int | None) -> Cut:
    """See `Store.cut`."""
    while True:
        begun = files.clock.tick()
        handles = [files.handle(name) for name in tables]
        after = {} if after is None else after
        early = None if at_most is None else _early_stamp(files, handles, after, at_most)
        stamp = begun if early is None else early
        positions = {handle.number: _positions(files, handle, stamp) for handle in handles}
        for decision in files.transactions.open_at(stamp, begun):
            if writes.stands(files, decision):
                _take_in(files, decision, positions)
        if early is None:
            _refuse_lost_writes(files, handles, positions, after)
        if files.clock.tick() - begun < KEEP_NANOSECONDS:
            return {handle.spec.name: _joined(positions[handle.number], after, handle) for handle in handles}


def _joined(positions: list[int], after: Cut, handle: Handle) -> tuple[int, ...]:
    known = after.get(handle.spec.name)
    return tuple(positions if known is None else map(max, positions, known))


def _refuse_lost_writes(files: Files, handles: Sequence[Handle], positions: dict[int, list[int]], after: Cut) -> None:
    """Those that look so are looked at again: there are stamps of the future where somebody took the clock's file away."""
    for handle in handles:
        for region, known in enumerate(after.get(handle.spec.name, ())):
            if positions[handle.number][region] < known:
                with files.region(handle, region) as connection:
                    newest = check_open(rows.state(connection)).position
                if newest < known:
                    raise _lost_writes(handle.spec.name, newest, known)


def _lost_writes(table: str, newest: int, known: int) -> Corrupt:
    return Corrupt(
        f'table "{table}" has lost writes that a view has taken in: it is at position {newest}, and was at {known}',
        hint="restore the folder from a copy, or drop the views over the table and create them anew",
        table=table,
    )


def _early_stamp(files: Files, handles: Sequence[Handle], after: Cut, at_most: int) -> int | None:
    """The stamp up to which about `at_most` changes lie after a cut; None if there are no more than that."""
    waiting: list[tuple[int, int]] = []
    for handle in handles:
        for region, position in enumerate(after.get(handle.spec.name, ())):
            with files.region(handle, region) as connection:
                waiting += log.stamps(connection, position)
    total, last = 0, 0
    for stamp, changes in sorted(waiting):
        if total and total + changes > at_most:
            return last
        total, last = total + changes, stamp
    return None


def _positions(files: Files, handle: Handle, stamp: int) -> list[int]:
    if handle.spec.group is not None:
        return [files.catalog.committed_epoch(handle.spec.group)] * handle.spec.regions
    found = []
    for region in range(handle.spec.regions):
        with files.region(handle, region) as connection:
            found.append(_position_at(connection, stamp))
    return found


def _position_at(connection: Connection, stamp: int) -> int:
    """The newest position with a stamp up to `stamp`. What lies beyond is new, so the search from the end is short."""
    now = check_open(rows.state(connection))
    if now.stamp <= stamp:
        return now.position
    newest = connection.one("SELECT id FROM log WHERE stamp <= ? ORDER BY id DESC LIMIT 1", parameters(stamp))
    return int(newest[0]) // PARTS if newest is not None else now.trimmed


def _take_in(files: Files, decision: Decision, positions: dict[int, list[int]]) -> None:
    for participant in decision.participants:
        known = positions.get(participant.table)
        if known is not None and known[participant.region] < participant.position:
            writes.complete(files, decision)
            known[participant.region] = participant.position
