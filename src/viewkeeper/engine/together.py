"""Writes and the immediate views over them, in one step: the papers' synchronous mode.

Whoever writes to a table under an immediate view leads the group of such views for the time of the write. The rows are
changed and held back, the views' epoch is computed over them as they will be, and both are committed by one record (see
`Store.prepare`). If a view's query fails on the new rows, neither happens, and the writer has the error.

Several transactions may be brought at once and share one epoch. One whose rows make a view fail would take the others
down with it; so after a failure each is tried alone.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from viewkeeper.engine.maintainer import IMMEDIATE, Maintainer
from viewkeeper.errors import Busy, QueryFailed, ViewkeeperError
from viewkeeper.store.contract import Kind, Lease, Outcome, Prepared, Request


@dataclass(frozen=True)
class Together:
    """Writes to guarded tables."""

    maintainer: Maintainer

    def write(self, requests: Sequence[Request]) -> list[Outcome]:
        """What became of each request. Returns when it is so."""
        with self.maintainer.leadership.of(IMMEDIATE) as lease:
            try:
                return self._epoch(requests, lease)
            except QueryFailed as failure:
                if len(requests) == 1:
                    return [failure]
            return [outcome for request in requests for outcome in self._alone(request, lease)]

    def _alone(self, request: Request, lease: Lease) -> list[Outcome]:
        """Every error is this request's own: the others have their answers."""
        try:
            return self._epoch([request], lease)
        except ViewkeeperError as failure:
            return [failure]

    def catch_up(self, lease: Lease) -> None:
        """Take in what was written while the tables were not yet guarded: waits for the writers that were under way."""
        self._epoch([], lease, locking=list(self.maintainer.store.group(IMMEDIATE).committed.cut))

    def _epoch(self, requests: Sequence[Request], lease: Lease, locking: Sequence[str] = ()) -> list[Outcome]:
        started = time.perf_counter()
        store = self.maintainer.store
        self.maintainer.tidy(IMMEDIATE, lease)
        base = [name for name in locking if store.table(name).kind is Kind.BASE]
        prepared = store.prepare(requests, base)
        try:
            if prepared.changed or base:
                self._follow(prepared, lease, started)
            return list(prepared.outcomes)
        finally:
            prepared.rollback()

    def _follow(self, prepared: Prepared, lease: Lease, started: float) -> None:
        maintainer, store = self.maintainer, self.maintainer.store
        plans = maintainer.catalog.plans(IMMEDIATE)
        cut = replace(maintainer.cuts, store=prepared.store).root(IMMEDIATE).cut
        if not prepared.changed and cut == store.group(IMMEDIATE).committed.cut:
            return
        record = store.begin(IMMEDIATE, cut, lease.term)
        if dict(record.cut) != dict(cut):
            raise Busy("an epoch of the immediate views is on record that has to be undone first", hint="call again")
        try:
            epoch = maintainer.epoch_over(prepared.store, IMMEDIATE, plans, lease)
            epoch.strict = True
            actions = maintainer.spark.actions
            views = epoch.run()
            jobs = maintainer.spark.actions - actions
            maintainer.before_commit(IMMEDIATE, epoch, views)
            prepared.commit(IMMEDIATE, record.epoch, lease.term)
        except BaseException:
            prepared.rollback()
            with suppress(ViewkeeperError):  # whoever leads next does it, if it cannot be done now
                if store.group(IMMEDIATE).committed.epoch < record.epoch:
                    store.undo(IMMEDIATE, record.epoch, lease.term)
            raise
        with suppress(ViewkeeperError):  # the write has happened, and its caller must hear so
            maintainer.recorded(IMMEDIATE, epoch, record.cut, views, started, jobs)
