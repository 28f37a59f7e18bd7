"""Who may maintain a group now: a lease in the store, and a fence in front of everyone who came before."""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from viewkeeper.errors import Busy
from viewkeeper.store.contract import Lease, Store

SECONDS = 60.0
"""How long a maintainer may be silent."""


@dataclass
class Leadership:
    """Takes and gives back leases. One holder per process."""

    store: Store
    timeout: float = 30.0
    holder: str = field(default_factory=lambda: f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}")
    _last: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def of(self, group: str) -> Iterator[Lease]:
        """Lead a group for this block; `Busy` if somebody else does for too long."""
        lease = self._taken(group)
        try:
            if lease.term != self._last.get(group, 0) + 1:
                self.store.fence(group, lease.term)
            self._last[group] = lease.term
            yield lease
        finally:
            self.store.resign(lease)

    def _taken(self, group: str) -> Lease:
        """If the term before was ours too, nobody else has led in between, and there is nobody to fence off."""
        deadline = time.monotonic() + self.timeout
        pause = 0.005
        while True:
            lease = self.store.lead(f"group/{group}", self.holder, SECONDS)
            if lease is not None:
                return lease
            if time.monotonic() > deadline:
                raise Busy(f'group "{group}" is being maintained by another process', hint="call again")
            time.sleep(pause)
            pause = min(0.2, pause * 2)
