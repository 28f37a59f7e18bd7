"""Which of several runs of one database maintains it: a standing lease named "run", renewed while its holder lives.

The lease only keeps the others from doing the same work. What keeps a view true is the fence of each group
(`engine/leadership.py`): whoever lost a group applies and commits nothing, with or without this lease.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from viewkeeper.errors import Fenced, ViewkeeperError
from viewkeeper.store.contract import Lease, Store

NAME = "run"


class Duty:
    """The lease, from the moment it was granted. `on_loss` is called, in another thread, if it passes to someone else."""

    def __init__(self, store: Store, lease: Lease, seconds: float, began: float, on_loss: Callable[[], None]) -> None:
        self._store = store
        self._seconds = seconds
        self._lease = lease
        self._until = began + seconds
        self._on_loss = on_loss
        self._lost = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="lease of run", daemon=True)
        self._thread.start()

    @classmethod
    def taken(cls, store: Store, holder: str, seconds: float, on_loss: Callable[[], None]) -> Duty | None:
        """The duty, if nobody else has it."""
        began = time.monotonic()
        lease = store.lead(NAME, holder, seconds)
        return None if lease is None else cls(store, lease, seconds, began, on_loss)

    @property
    def term(self) -> int:
        return self._lease.term

    @property
    def lost(self) -> bool:
        """Whether somebody else has it now."""
        return self._lost.is_set()

    def holds(self) -> bool:
        """Whether nobody else can have it. A process that was suspended past its lease knows at once that it may not go on."""
        return not self.lost and time.monotonic() < self._until

    def end(self) -> None:
        """Give it back."""
        self._ended.set()
        self._thread.join()
        self._store.resign(self._lease)

    def _keep(self) -> None:
        """A renewal that fails is tried again: the lease may still be ours, and if it is not, a later one says so."""
        while not self._ended.wait(self._seconds / 4):
            began = time.monotonic()
            try:
                self._store.renew(self._lease, self._seconds)
                self._until = began + self._seconds
            except Fenced:
                self._lost.set()
                self._on_loss()
                return
            except ViewkeeperError:
                continue
