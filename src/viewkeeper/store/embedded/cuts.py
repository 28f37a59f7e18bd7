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

A cut waits only for transactions that are already decided. Writers never wait for a cut.
"""

from __future__ import annotations

from collections.abc import Sequence

from viewkeeper.store.contract import Cut
from viewkeeper.store.embedded import rows
from viewkeeper.store.embedded.connection import Connection, parameters
from viewkeeper.store.embedded.files import Files, Handle, check_open
from viewkeeper.store.embedded.layout import PARTS
from viewkeeper.store.embedded.transactions import KEEP_NANOSECONDS, Decision
from viewkeeper.store.embedded.writes import complete


def cut(files: Files, tables: Sequence[str]) -> Cut:
    """See `Store.cut`."""
    while True:
        stamp = files.clock.tick()
        handles = [files.handle(name) for name in tables]
        positions = {handle.number: _positions(files, handle, stamp) for handle in handles}
        for decision in files.transactions.open_at(stamp):
            _take_in(files, decision, positions)
        if files.clock.tick() - stamp < KEEP_NANOSECONDS:
            return {handle.spec.name: tuple(positions[handle.number]) for handle in handles}


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
            complete(files, decision)
            known[participant.region] = participant.position
