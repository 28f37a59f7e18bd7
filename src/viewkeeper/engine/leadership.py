"""Who may maintain a group now: a lease in the store, and a fence in front of everyone who came before.

A lease is short, and renewed while its holder is at work: what a dead process held is free again in seconds, however
long the epochs of a living one take.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from viewkeeper.errors import Busy, Fenced, ViewkeeperError
from viewkeeper.store.contract import Lease, Store

SECONDS = 10.0
"""How long a maintainer may be silent."""


@dataclass
class Leadership:
    """Takes, keeps and gives back leases. One holder per process, whose threads wait for each other."""

    store: Store
    timeout: float = 30.0
    _mark: str = field(default_factory=lambda: uuid.uuid4().hex[:8])
    _last: dict[str, int] = field(default_factory=dict)
    _locks: dict[str, threading.RLock] = field(default_factory=dict)

    @property
    def holder(self) -> str:
        """Who leads: this process. A fork of it is another one."""
        return f"{socket.gethostname()}:{os.getpid()}:{self._mark}"

    @contextmanager
    def of(self, group: str) -> Iterator[Lease]:
        """Lead a group for this block; `Busy` if somebody else does for too long.

        If the term before was ours as well, there is nobody to fence off, unless an epoch is on record: a task of it may
        still be on its way.
        """
        deadline = time.monotonic() + self.timeout
        with self._alone(group), self._kept(self._taken(group, deadline)) as lease:
            if lease.term != self._last.get(group, 0) + 1 or self.store.group(group).running is not None:
                self.store.fence(group, lease.term)
            self._last[group] = lease.term
            yield lease

    @contextmanager
    def _alone(self, group: str) -> Iterator[None]:
        """One thread at a time: to the store the threads of a process are one holder, and it would let both in."""
        lock = self._locks.setdefault(group, threading.RLock())
        try:
            if not lock.acquire(timeout=self.timeout):  # inside: an interrupt comes right after it too
                raise _busy(group)
            yield
        finally:
            try:  # noqa: SIM105 (an interrupt in `suppress` would come before the release)
                lock.release()
            except RuntimeError:  # it is another's, and was not had in time: the lock itself knows
                pass

    def _taken(self, group: str, deadline: float) -> Lease:
        pause = 0.005
        while True:
            lease = self.store.lead(f"group/{group}", self.holder, SECONDS)
            if lease is not None:
                return lease
            if time.monotonic() > deadline:
                raise _busy(group)
            time.sleep(pause)
            pause = min(0.2, pause * 2)

    @contextmanager
    def _kept(self, lease: Lease) -> Iterator[Lease]:
        """The lease, renewed until the block ends and given back then."""
        ended = threading.Event()
        thread = threading.Thread(target=self._renew, args=(lease, ended), name=f"lease of {lease.name}", daemon=True)
        try:
            thread.start()  # inside: an interrupt comes while it waits too, and the thread would renew for ever
            yield lease
        finally:
            ended.set()
            with suppress(RuntimeError):  # it was not seen to start: if it does, it ends at once
                thread.join()
            with suppress(ViewkeeperError):  # it runs out by itself; what was done under it is done
                self.store.resign(lease)

    def _renew(self, lease: Lease, ended: threading.Event) -> None:
        """A renewal that fails is tried again; when the lease is lost, the store refuses what its holder does next."""
        while not ended.wait(SECONDS / 4):
            try:
                self.store.renew(lease, SECONDS)
            except Fenced:
                return
            except ViewkeeperError:
                continue


def _busy(group: str) -> Busy:
    return Busy(f'group "{group}" is being maintained by another process', hint="call again")
