"""Several regions at once: SQLite and Arrow write without the interpreter's lock, so threads help where there is much to do.

Reading whole regions so gained nothing, measured at ten million rows.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def side_by_side(action: Callable[[Item], Answer], items: Sequence[Item], *, worth: bool) -> list[Answer]:
    """What the action gives for each: in threads if they are worth starting, one per core at most."""
    if not worth or len(items) < 2:
        return [action(item) for item in items]
    work = _Work(action)
    threads = ThreadPoolExecutor(max_workers=min(len(items), os.cpu_count() or 1))
    try:
        return list(threads.map(work.do, items))
    finally:
        work.end()
        threads.shutdown(wait=False)


class _Work(Generic[Item, Answer]):
    """An action, and how many threads are at it.

    They are counted here: to wait for a thread itself does not do, since one whose waiting was interrupted is taken for
    ended from then on (CPython 3.11).
    """

    def __init__(self, action: Callable[[Item], Answer]) -> None:
        self._action = action
        self._changed = threading.Condition()
        self._at_it = 0
        self._ended = False

    def do(self, item: Item) -> Answer:
        with self._changed:
            if self._ended:
                raise KeyboardInterrupt  # nobody waits for the answer any more
            self._at_it += 1
        try:
            return self._action(item)
        finally:
            with self._changed:
                self._at_it -= 1
                self._changed.notify_all()

    def end(self) -> None:
        """Begin nothing more, and wait for what has begun, whatever interrupts come: what it works with is the caller's."""
        interrupt: KeyboardInterrupt | None = None
        while True:
            try:
                with self._changed:
                    self._ended = True
                    self._changed.wait_for(lambda: not self._at_it)
                break
            except KeyboardInterrupt as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt
