"""What happens in the market place: a thread that writes transactions at a steady pace until it is told to stop."""

from __future__ import annotations

import threading
import time
from types import TracebackType

import numpy as np
import pyarrow as pa

import viewkeeper as vk
from viewkeeper.demo.shop import CATEGORIES, PRODUCTS, QUIET_SHOPS, SHOPS, WAKING_SHOPS, amounts, new_events

PAUSE = 0.1
"""Seconds from one transaction to the next."""

INSERTS, PRICES, DELETES = 140, 40, 20
"""Per transaction: new events, changed amounts, and the oldest events, which go."""

MOVE_EVERY = 10
"""Transactions between two moves of a product to another category."""

AWAKE_EVERY = 40
"""Transactions between the first sales of two quiet shops."""


class Traffic:
    """Used in a `with` block: it writes inside, and has stopped, or says why it failed, at the end."""

    def __init__(self, db: vk.Database, events: int) -> None:
        self._db = db
        self._rng = np.random.default_rng(2)
        self._oldest, self._next = 0, events
        self._transactions = 0
        self._ended = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="traffic", daemon=True)
        self.written = 0
        """Changes so far."""

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        if self._failure is not None and error is None:
            raise self._failure

    def _run(self) -> None:
        due = time.monotonic()
        try:
            while not self._ended.wait(max(0.0, due - time.monotonic())):
                self._transaction()
                due = max(due + PAUSE, time.monotonic())
        except BaseException as failure:
            self._failure = failure

    def _transaction(self) -> None:
        """Inserts, price updates and deletes, all or nothing; now and then a product in another category."""
        awake = min(WAKING_SHOPS, self._transactions // AWAKE_EVERY)
        remaining = self._oldest + DELETES
        repriced = np.unique(self._rng.integers(remaining, self._next, PRICES))
        with self._db.transaction() as tx:
            tx.table("events").put(new_events(self._rng, self._next, INSERTS, SHOPS - QUIET_SHOPS + awake))
            tx.table("events").update(pa.table({"id": repriced, "amount": amounts(self._rng, len(repriced))}))
            tx.table("events").delete(list(range(self._oldest, remaining)))
            moves = self._transactions % MOVE_EVERY == MOVE_EVERY - 1
            if moves:
                tx.table("products").update(
                    {
                        "id": int(self._rng.integers(PRODUCTS)),
                        "category": int(self._rng.integers(len(CATEGORIES))),
                    }
                )
        self._oldest, self._next = remaining, self._next + INSERTS
        self._transactions += 1
        self.written += INSERTS + len(repriced) + DELETES + moves
