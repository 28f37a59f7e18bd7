"""Regions side by side, and interrupts meanwhile."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from viewkeeper.store.threads import side_by_side


def test_answers_come_in_the_order_of_the_items() -> None:
    assert side_by_side(lambda item: item * 2, [3, 1, 2], worth=True) == [6, 2, 4]
    assert side_by_side(lambda item: item * 2, [3, 1, 2], worth=False) == [6, 2, 4]


def test_nobody_is_at_work_any_more_when_an_interrupt_comes_out() -> None:
    """Found: a second Ctrl-C left threads at work with connections that their caller then closed, and Python crashed."""
    started, ended = [0], [0]
    lock = threading.Lock()

    def work(item: int) -> None:
        with lock:
            started[0] += 1
        for _ in range(3):
            time.sleep(0.05)
            if item == 0:
                os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.2)
        with lock:
            ended[0] += 1

    with pytest.raises(KeyboardInterrupt):
        side_by_side(work, range(8), worth=True)
    assert started == ended
    assert started[0] > 0
