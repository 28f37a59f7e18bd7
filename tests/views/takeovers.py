"""How one process dies or sleeps at a bad moment of its work, and another goes on.

A death is an exception at the point, with what SQLite would roll back; a sleep is what others do meanwhile, called there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import viewkeeper as vk
from viewkeeper.rows import rows_table
from viewkeeper.store.contract import Action, Mutation, Request
from viewkeeper.store.embedded import faults

SUMS = "SELECT x, SUM(y) AS s, COUNT(*) AS n FROM t GROUP BY x"
QUOTIENTS = "SELECT k, 100 DIV y AS q FROM t"
Pair = tuple[vk.Database, vk.Database]
"""One folder as two processes have it open."""


class Died(BaseException):
    """The process is gone: nothing of it catches this."""


@contextmanager
def at(point: str, action: Callable[[], None]) -> Iterator[None]:
    """Do something when a fault point is first reached."""
    with pytest.MonkeyPatch.context() as patch:

        def reach(reached: str) -> None:
            if reached == point:
                patch.undo()
                action()

        patch.setattr(faults, "reach", reach)
        yield


def die() -> None:
    raise Died


def request(db: vk.Database, *rows: tuple[str, dict[str, Any]]) -> Request:
    return Request([Mutation(name, Action.PUT, rows_table(db._store.table(name), row)) for name, row in rows])


def keys(db: vk.Database) -> list[int]:
    return db.table("t").scan(columns=["k"])["k"].to_pylist()


def lose_the_lead(db: vk.Database, group: str) -> None:
    """As if the lease had run out."""
    lease = db._store.lead(f"group/{group}", db._maintainer.leadership.holder, 1.0)
    assert lease is not None
    db._store.resign(lease)
