"""Staying on one core, so that another is known to be free."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


def spare_core() -> int | None:
    """A core beside the first, if this process may use one."""
    usable = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return usable[-1] if len(usable) > 1 else None


@contextmanager
def on_first_core() -> Iterator[None]:
    """This thread, and the threads that it starts meanwhile. Nothing happens where a system knows no such thing."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    usable = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(usable)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, usable)
