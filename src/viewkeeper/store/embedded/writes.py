"""Writing rows: all or nothing, over any number of tables and regions. `transactions` says why that holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import pyarrow as pa

from viewkeeper import names
from viewkeeper.errors import Busy, InputError, NotFound, StorageError, ViewkeeperError
from viewkeeper.store.contract import Action, Expectation, Guarded, Kind, Mutation, Pick
from viewkeeper.store.embedded import faults, rows
from viewkeeper.store.embedded.connection import Connection
from viewkeeper.store.embedded.files import Dropped, Files, Handle, check_open
from viewkeeper.store.embedded.log import Entry, unpack
from viewkeeper.store.embedded.transactions import Decision, Participant
from viewkeeper.store.fit import made_again, misfit
from viewkeeper.store.regions import regions_of
from viewkeeper.store.threads import side_by_side

PARALLEL_FROM = 20_000
"""Rows from which a write's regions are worked on side by side."""

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass
class Work:
    """One region's share of a write."""

    handle: Handle
    region: int
    mutations: list[Mutation] = field(default_factory=list)
    expected: list[Expectation] = field(default_factory=list)

    @property
    def place(self) -> tuple[int, int]:
        return self.handle.number, self.region


@dataclass
class Locked:
    """A region whose write lock we hold."""

    work: Work
    connection: Connection
    state: rows.State
    entries: list[Entry] = field(default_factory=list)

    @property
    def position(self) -> int:
        """The position that this write takes."""
        return self.state.position + 1

    @property
    def participant(self) -> Participant:
        return Participant(*self.work.place, self.position)


class PendingDecision(Exception):
    """A region lacks a decision that a dead process left: it must be carried out before anything else is written."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision


def write(files: Files, mutations: Sequence[Mutation], expected: Sequence[Expectation]) -> bool:
    """See `Store.write`."""
    while True:
        try:
            return _attempt(files, split(files, mutations, expected))
        except PendingDecision as pending:
            complete(files, pending.decision)


def _attempt(files: Files, works: list[Work]) -> bool:
    with ExitStack() as stack:
        locked = [lock(files, stack, work) for work in works]
        refuse_pending(files, locked)
        _refuse_guarded(files, works)
        faults.reach("write.locked" if len(locked) == 1 else "transaction.locked")
        if not all(as_expected(region) for region in locked):
            return False
        stamp = files.clock.tick()
        change_all(locked, stamp)
        changed = [region for region in locked if region.entries]
        if len(changed) == 1:
            _commit_alone(changed[0])
        elif changed:
            _commit_together(files, changed, stamp)
    return True


def lock(files: Files, stack: ExitStack, work: Work) -> Locked:
    """Take the region's write lock. Whatever is not committed when the stack unwinds is rolled back."""
    connection = stack.enter_context(files.region(work.handle, work.region))
    connection.execute("BEGIN IMMEDIATE")
    stack.callback(connection.rollback)
    return Locked(work, connection, check_open(rows.state(connection)))


def refuse_pending(files: Files, locked: list[Locked]) -> None:
    """A decision that waits for its epoch is no hindrance: its process is dead, since it would hold these locks."""
    positions = {region.work.place: region.state.position for region in locked}
    for decision in files.transactions.unfinished():
        for participant in decision.participants:
            lacks = positions.get((participant.table, participant.region), participant.position) < participant.position
            if lacks and stands(files, decision):
                raise PendingDecision(decision)


def stands(files: Files, decision: Decision) -> bool:
    """Whether a decision that was found on record is one, or waits for its epoch: see `transactions`."""
    if decision.epoch is None:
        return True
    group, epoch = decision.epoch
    with suppress(NotFound):
        state = files.catalog.group(group)
        return epoch <= state.committed.epoch and (state.running is None or state.running.epoch != epoch)
    return False


def _refuse_guarded(files: Files, works: list[Work]) -> None:
    """Under the locks: a group that begins to guard a table waits for whoever has them, and then takes in what they did."""
    guarded = files.catalog.guarded()
    for work in works:
        if work.mutations and work.handle.spec.name in guarded:
            raise Guarded(work.handle.spec.name, guarded[work.handle.spec.name])


def _commit_alone(region: Locked) -> None:
    faults.reach("write.staged")
    region.connection.execute("COMMIT")
    faults.reach("write.committed")


def commit_decided(regions: Iterable[Locked], point: str) -> None:
    """Commit in every region what a decision is on record for: from there on a failure only puts it off."""
    try:
        for region in regions:
            region.connection.execute("COMMIT")
            faults.reach(point)
    except StorageError as error:
        raise type(error)(
            f"the write is decided, but not yet everywhere: {error.message}",
            hint="do not repeat it: it is carried out by the next write, cut or open that finds the cause mended",
            decided=True,
        ) from error


def _commit_together(files: Files, changed: list[Locked], stamp: int) -> None:
    faults.reach("transaction.staged")
    decision = files.transactions.decide(stamp, [(region.participant, region.entries) for region in changed])
    faults.reach("transaction.decided")
    commit_decided(changed, "transaction.region_committed")
    with suppress(ViewkeeperError):  # the write is everywhere; whoever finds the decision next marks it finished
        files.transactions.finish(decision, files.clock.tick())
    faults.reach("transaction.finished")


# Decisions of others


def recover(files: Files) -> None:
    """Carry out what dead processes had decided."""
    for decision in files.transactions.unfinished():
        if stands(files, decision):
            with suppress(Busy):  # its own process is still at it, or sleeps: whoever needs the rows waits for it
                complete(files, decision)


def complete(files: Files, decision: Decision) -> None:
    """Bring a decision to every participant that lacks it. Waits while its own process is still at it.

    Decisions of one epoch may follow each other in a region: the earlier ones come first, for a region that has reached a
    position counts as having everything before it.
    """
    places = {(participant.table, participant.region) for participant in decision.participants}
    for earlier in files.transactions.unfinished():
        theirs = {(participant.table, participant.region) for participant in earlier.participants}
        if earlier.number < decision.number and places & theirs and stands(files, earlier):
            complete(files, earlier)
    _carry_out(files, decision)


def _carry_out(files: Files, decision: Decision) -> None:
    handles = {handle.number: handle for handle in files.handles()}
    for participant in decision.participants:
        handle = handles.get(participant.table)
        if handle is None:
            continue
        with suppress(Dropped):
            _roll_forward(files, handle, decision, participant)
    files.transactions.finish(decision, files.clock.tick())


def _roll_forward(files: Files, handle: Handle, decision: Decision, participant: Participant) -> None:
    """The same changes at the same position: the region stands where it stood when the decision was made.

    A decision that is struck by now has no entries any more: whoever still holds it must not bring the region to where
    another decision belongs. The region is looked at first without its lock, which may be held: by the caller, for what it
    has prepared on top of this.
    """
    with files.region(handle, participant.region) as connection:
        if rows.state(connection).position >= participant.position:
            return
    with files.region(handle, participant.region) as connection, connection.writing():
        state = rows.state(connection)
        if state.dropped or state.position >= participant.position:
            return
        layout = handle.layout
        batches = [unpack(data, layout.log_schema) for data in files.transactions.batches(decision, participant)]
        if not batches:
            return
        desired = rows.after_images(layout, pa.Table.from_batches(batches, schema=layout.log_schema))
        changed = rows.change(connection, layout, desired, participant.position, decision.stamp)
        rows.advance(connection, participant.position, decision.stamp, changed.applied)


# What a region is to become


def change_all(regions: list[Locked], stamp: int) -> None:
    total = sum(mutation.rows.num_rows for region in regions for mutation in region.work.mutations)
    side_by_side(lambda region: _change(region, stamp), regions, worth=total >= PARALLEL_FROM)


def _change(region: Locked, stamp: int) -> None:
    desired = [_desired(region, mutation) for mutation in region.work.mutations]
    if not desired:
        return
    table = desired[0] if len(desired) == 1 else pa.concat_tables(desired)
    changed = rows.change(region.connection, region.work.handle.layout, table, region.position, stamp)
    if changed.entries:
        rows.advance(region.connection, region.position, stamp, changed.applied)
    region.entries = changed.entries


def _desired(region: Locked, mutation: Mutation) -> pa.Table:
    """The mutation as whole rows with `names.HAS`."""
    schema = region.work.handle.layout.row_schema
    table = mutation.rows
    if mutation.action is Action.UPDATE:
        table = _updated(region, table)
    elif mutation.action is Action.DELETE:
        absent = [
            pa.nulls(table.num_rows, f.type) if f.name not in table.column_names else table[f.name] for f in schema
        ]
        table = pa.table(absent, names=schema.names)
    has = pa.repeat(pa.scalar(mutation.action is not Action.DELETE), table.num_rows)
    return pa.table(
        [*(table[name] for name in schema.names), has], schema=schema.append(pa.field(names.HAS, pa.bool_()))
    )


def _updated(region: Locked, changes: pa.Table) -> pa.Table:
    """The current rows with the columns that `changes` carries."""
    spec = region.work.handle.spec
    current, number = _current(region, changes)
    if current.num_rows < changes.num_rows:
        missing = np.setdiff1d(np.arange(changes.num_rows), number)[0]
        key = changes.select(list(spec.key)).slice(int(missing), 1).to_pylist()[0]
        raise NotFound(
            f'table "{spec.name}" has no row {key} to update', hint="put the whole row", table=spec.name, key=key
        )
    given = changes.take(pa.array(number))
    columns = [given[name] if name in changes.column_names else current[name] for name in spec.schema.names]
    return pa.table(columns, names=spec.schema.names)


def _current(region: Locked, keys: pa.Table) -> tuple[pa.Table, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """The whole rows of those keys that are there, and the number of each in `keys`."""
    layout = region.work.handle.layout
    picture = rows.Picture(region.connection, layout, None)
    numbers = pa.array(np.arange(keys.num_rows))
    found = picture.probe(layout.encode(keys, layout.spec.key), numbers, layout.spec.values, Pick.ALL)
    return layout.decode(found.columns[1:], layout.order), found.column(0).to_numpy()


def as_expected(region: Locked) -> bool:
    return all(_holds(region, expectation) for expectation in region.work.expected)


def _holds(region: Locked, expectation: Expectation) -> bool:
    layout = region.work.handle.layout
    if expectation.absent is not None and _current(region, expectation.absent)[0].num_rows:
        return False
    wanted = expectation.rows
    if wanted is None:
        return True
    current, number = _current(region, wanted)
    if current.num_rows < wanted.num_rows:
        return False
    given = wanted.take(pa.array(number))
    others = [name for name in wanted.column_names if name not in layout.spec.key]
    pairs = zip(layout.encode(given, others), layout.encode(current, others), strict=True)
    return all(_same(one, two) for one, two in pairs)


def _same(one: pa.Array, two: pa.Array) -> bool:
    """Equal as stored, NULL to NULL."""
    return bool(one.equals(two))


# Whose region


def split(files: Files, mutations: Sequence[Mutation], expected: Sequence[Expectation]) -> list[Work]:
    """Each region's share, in the order in which regions are locked."""
    works: dict[tuple[int, int], Work] = {}

    def work(handle: Handle, region: int) -> Work:
        return works.setdefault((handle.number, region), Work(handle, region))

    for mutation in mutations:
        handle = _base(_fitting(files, mutation.table, mutation.action, mutation.rows))
        for region, part in by_region(handle, mutation.rows):
            work(handle, region).mutations.append(Mutation(mutation.table, mutation.action, part))
    for expectation in expected:
        handle = _fitting(files, expectation.table, Action.UPDATE, expectation.rows)
        for region, part in by_region(handle, expectation.rows):
            work(handle, region).expected.append(Expectation(expectation.table, rows=part))
        handle = _fitting(files, expectation.table, Action.DELETE, expectation.absent)
        for region, part in by_region(handle, expectation.absent):
            work(handle, region).expected.append(Expectation(expectation.table, absent=part))
    return [works[place] for place in sorted(works)]


def _fitting(files: Files, table: str, action: Action, given: pa.Table | None) -> Handle:
    """The table that rows go to, if they fit it. Where they do not, the table that we remember may be the one that is gone."""
    handle = files.handle(table)
    wrong = None if given is None else misfit(handle.spec, action, given)
    if wrong is None:
        return handle
    if files.catalog.find(table).number != handle.number:
        raise Dropped
    raise made_again(handle.spec, wrong)


def _base(handle: Handle) -> Handle:
    if handle.spec.kind is not Kind.BASE:
        raise InputError(
            f'"{handle.spec.name}" is a {handle.spec.kind.value}: only epochs write to it',
            hint="write to the tables under it",
        )
    return handle


def by_region(handle: Handle, table: pa.Table | None) -> Iterable[tuple[int, pa.Table]]:
    """The rows of each region that has any."""
    if table is None or table.num_rows == 0:
        return
    regions = regions_of(handle.spec, table)
    if table.num_rows == 1 or handle.spec.regions == 1:
        yield int(regions[0]), table
        return
    for region in np.unique(regions):
        yield int(region), table.filter(pa.array(regions == region))
