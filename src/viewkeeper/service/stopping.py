"""When a run ends: at a time, at an event, or at a signal (SIGINT, SIGTERM), whichever comes first.

Only the thread that runs waits here. A signal's handler runs in the middle of that thread, between any two of its steps, so
it must not take a lock that the thread may hold: it puts a word into a `SimpleQueue`, whose `put` is made for that
(`Event.set` is not, and could wait for itself).
"""

from __future__ import annotations

import math
import queue
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from viewkeeper.errors import InputError

Until = float | threading.Event | None

SIGNALS = (signal.SIGINT, signal.SIGTERM)

_HEED = 0.5
"""Seconds after which the thread that waits for a user's event looks whether the run has ended without it."""


class Stop:
    """Whether the run is to end, and why."""

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline
        self._words: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.reason: str | None = None

    def ask(self, reason: str) -> None:
        """End the run. From any thread, and from a signal's handler."""
        self._words.put(reason)

    def wake(self) -> None:
        """End a wait early; the run goes on."""
        self._words.put(None)

    def wait(self, seconds: float) -> bool:
        """Wait for so long, or until the run is to end or someone wakes it; whether it is to end."""
        if self.reason is None:
            self.reason = self._next(min(seconds, self._deadline - time.monotonic()))
        return self.reason is not None

    def _next(self, seconds: float) -> str | None:
        try:
            return self._words.get(timeout=max(0.0, seconds))
        except queue.Empty:
            return "time" if time.monotonic() >= self._deadline else None


@contextmanager
def stopping(until: Until) -> Iterator[Stop]:
    """What says when to stop. Handlers of signals are as before when the block ends."""
    event = until if isinstance(until, threading.Event) else None
    stop = Stop(math.inf if until is None or isinstance(until, threading.Event) else _deadline(until))
    with _at_signals(stop), _at_event(stop, event):
        yield stop


def _deadline(seconds: float) -> float:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        raise InputError(
            f"a run cannot last until {seconds!r}",
            hint="give seconds, a threading.Event, or None for ever",
            until=seconds,
        )
    return time.monotonic() + seconds


@contextmanager
def _at_signals(stop: Stop) -> Iterator[None]:
    """The first signal asks to stop; a second one, of a user who will not wait for the epochs under way, interrupts."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if seen:
            raise KeyboardInterrupt
        seen.append(number)
        stop.ask(signal.Signals(number).name)

    before = {number: signal.signal(number, handle) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            # None: whatever handles it was not installed by Python, which cannot put it back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


@contextmanager
def _at_event(stop: Stop, event: threading.Event | None) -> Iterator[None]:
    ended = threading.Event()
    if event is not None:
        threading.Thread(target=_heed, args=(stop, event, ended), name="end of run", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def _heed(stop: Stop, event: threading.Event, ended: threading.Event) -> None:
    while not ended.is_set():
        if event.wait(_HEED):
            stop.ask("event")
            return
