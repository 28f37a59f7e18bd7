from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import pytest

from viewkeeper.errors import InputError
from viewkeeper.service.stopping import SIGNALS, stopping

LONG = 120.0
"""Seconds that no wait here is to last."""


def test_a_time() -> None:
    with stopping(0.05) as stop:
        assert stop.wait(LONG)
        assert stop.reason == "time"


def test_before_its_time_it_goes_on() -> None:
    with stopping(LONG) as stop:
        assert not stop.wait(0.01)
        assert stop.reason is None


def test_an_event_ends_a_wait_at_once() -> None:
    event = threading.Event()
    with stopping(event) as stop:
        threading.Timer(0.05, event.set).start()
        began = time.monotonic()
        assert stop.wait(LONG)
    assert stop.reason == "event"
    assert time.monotonic() - began < LONG / 2


def test_who_wakes_it_does_not_end_it() -> None:
    with stopping(None) as stop:
        stop.wake()
        began = time.monotonic()
        assert not stop.wait(LONG)
    assert time.monotonic() - began < LONG / 2


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_asks_and_a_second_one_interrupts(number: signal.Signals) -> None:
    with stopping(None) as stop:
        os.kill(os.getpid(), number)
        assert stop.wait(LONG)
        assert stop.reason == number.name
        with pytest.raises(KeyboardInterrupt):
            struck(number)


def struck(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)
    time.sleep(LONG)


def test_handlers_are_as_before() -> None:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    with stopping(None):
        assert all(signal.getsignal(number) is not before[number] for number in SIGNALS)
    assert {number: signal.getsignal(number) for number in SIGNALS} == before


def test_in_another_thread_signals_are_left_alone() -> None:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    seen: list[dict[signal.Signals, Any]] = []

    def run() -> None:
        with stopping(None):
            seen.append({number: signal.getsignal(number) for number in SIGNALS})

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [before]


@pytest.mark.parametrize("until", [-1, float("nan"), True, "soon"])
def test_what_is_no_time(until: Any) -> None:
    with pytest.raises(InputError, match="a run cannot last until"), stopping(until):
        pass
