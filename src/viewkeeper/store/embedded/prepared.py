"""Writes that wait for an epoch: two-phase commit over base tables and the views that follow them at once.

1. The regions are locked in order; each request changes rows and logs there, at a position of its own, and one that fails
   is rolled back to where it began.
2. The caller computes the epoch that these writes ask for, seeing them through the connections that made them, and
   applies it to the views' tables, where no reader looks yet.
3. `commit` records the requests as decisions that depend on the epoch (see `transactions`), and then commits the epoch in
   the catalog. *That is the commit of both.* A maintainer that has been fenced off gets no further than here.
4. The regions are committed, and the decisions marked finished.

A crash before the catalog's commit leaves rows that SQLite rolls back, and a running epoch that the next leader undoes. One
after it leaves decisions that stand: they are carried out by the next writer, cut or open.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from viewkeeper.errors import InputError, StorageError, ViewkeeperError
from viewkeeper.store.contract import Outcome, Request
from viewkeeper.store.embedded import faults, rows
from viewkeeper.store.embedded.files import Files
from viewkeeper.store.embedded.log import Entry
from viewkeeper.store.embedded.transactions import Participant
from viewkeeper.store.embedded.writes import (
    Locked,
    PendingDecision,
    Work,
    as_expected,
    change_all,
    commit_decided,
    complete,
    lock,
    refuse_pending,
    split,
)

if TYPE_CHECKING:
    from viewkeeper.store.embedded.store import EmbeddedStore

Part = tuple[Participant, list[Entry]]


@dataclass
class PreparedWrites:
    """See `viewkeeper.store.contract.Prepared`."""

    files: Files
    store: EmbeddedStore
    _stack: ExitStack
    _regions: dict[tuple[int, int], Locked]
    outcomes: list[Outcome] = field(default_factory=list)
    _done: list[tuple[int, list[Part]]] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        return bool(self._done)

    def attempt(self, request: Request) -> None:
        """One request: all of it, or nothing."""
        try:
            self.outcomes.append(self._tried(split(self.files, request.mutations, request.expected)))
        except StorageError:  # the regions' transactions may be gone, and what was done before with them
            raise
        except ViewkeeperError as error:
            self.outcomes.append(error)

    def _tried(self, works: list[Work]) -> bool:
        locked = [self._at_work(work) for work in works]
        try:
            self._all("SAVEPOINT request", locked)
            done = self._changed(locked)
            if not done:
                self._all("ROLLBACK TO request", locked)
            return done
        except BaseException:
            self._all("ROLLBACK TO request", locked)
            raise
        finally:
            self._all("RELEASE request", locked)

    def _at_work(self, work: Work) -> Locked:
        connection = self._regions[work.place].connection
        return Locked(work, connection, rows.state(connection))

    def _all(self, statement: str, locked: Sequence[Locked]) -> None:
        for region in locked:
            region.connection.execute(statement)

    def _changed(self, locked: list[Locked]) -> bool:
        if not all(as_expected(region) for region in locked):
            return False
        stamp = self.files.clock.tick()
        change_all(locked, stamp)
        parts = [(region.participant, region.entries) for region in locked if region.entries]
        if parts:
            self._done.append((stamp, parts))
        return True

    def commit(self, group: str, epoch: int, term: int) -> None:
        faults.reach("prepare.staged")
        decide = self.files.transactions.decide
        decisions = [decide(stamp, parts, (group, epoch)) for stamp, parts in self._done]
        faults.reach("prepare.recorded")
        self.files.catalog.commit(group, epoch, term)
        faults.reach("prepare.decided")
        try:
            commit_decided(self._regions.values(), "prepare.region_committed")
        finally:
            self._stack.close()
        with suppress(ViewkeeperError):  # the writes are everywhere; whoever finds a decision next marks it finished
            for decision in decisions:
                self.files.transactions.finish(decision, self.files.clock.tick())
        faults.reach("prepare.finished")

    def rollback(self) -> None:
        self._stack.close()


def prepare(
    files: Files, requests: Sequence[Request], tables: Sequence[str], seeing: Callable[[Files], EmbeddedStore]
) -> PreparedWrites:
    """See `Store.prepare`."""
    while True:
        with ExitStack() as stack:
            try:
                works = _all_works(files, requests, tables)
                regions = {work.place: lock(files, stack, work) for work in works}
                refuse_pending(files, list(regions.values()))
            except PendingDecision as pending:
                stack.close()
                complete(files, pending.decision)
                continue
            inside = files.holding({place: region.connection for place, region in regions.items()})
            prepared = PreparedWrites(files, seeing(inside), stack, regions)
            for request in requests:
                prepared.attempt(request)
            prepared._stack = stack.pop_all()
            return prepared


def _all_works(files: Files, requests: Sequence[Request], tables: Sequence[str]) -> list[Work]:
    """Every region that is to be locked, in the order in which all writers lock."""
    found: dict[tuple[int, int], Work] = {}
    for request in requests:
        with suppress(InputError):  # it is the outcome of that request alone
            works = split(files, request.mutations, request.expected)
            found |= {work.place: Work(work.handle, work.region) for work in works}
    for handle in map(files.handle, tables):
        found |= {(handle.number, region): Work(handle, region) for region in range(handle.spec.regions)}
    return [found[place] for place in sorted(found)]
