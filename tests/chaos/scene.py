"""The database of the fault campaign: the bank, followed by the clock, and pings, whose view is immediate.

Every write carries the name of its transaction, so the logs tell which were made, and how often.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import _neighbours  # noqa: F401  # puts the folders beside this one on the path
import bank
from bank_rows import create_tables

import viewkeeper as vk
from viewkeeper.store.contract import Cut
from viewkeeper.testing.consistency.base import Tables

FOLLOWED = "every 0.2 seconds"
"""The group of the bank's views."""

BANK = ("transfers", "entries")
PINGED = "SELECT writer, SUM(amount) AS amount, COUNT(*) AS pings FROM pings GROUP BY writer"

Rows = list[dict[str, Any]]
Look = dict[str, Any]
"""What a reader writes down: began, ended, rows by view, and the cut that the snapshot was at."""


def create(db: vk.Database) -> None:
    create_tables(db)
    for name, query in bank.VIEWS.items():
        db.create_view(name, query, refresh=FOLLOWED, regions=2)
    db.create_view("pinged", PINGED, refresh="immediate", regions=2)


def pinged_of(tables: Tables) -> Rows:
    """The immediate view, in Python."""
    amounts: Counter[int] = Counter()
    pings: Counter[int] = Counter()
    for row in tables["pings"]:
        amounts[row["writer"]] += row["amount"]
        pings[row["writer"]] += 1
    return [{"writer": writer, "amount": amounts[writer], "pings": pings[writer]} for writer in pings]


QUERIES = {
    "bank": (bank.QUERIES, BANK),
    "pings": ({"pinged": pinged_of}, ("pings",)),
}
"""Of each group: its views, and the tables under them."""


def look(db: vk.Database) -> Look:
    """All views at once, and the cuts at which they are."""
    began = time.monotonic()
    with db.snapshot() as at:
        seen = {name: at.view(name).scan().to_pylist() for name in (*bank.VIEWS, "pinged")}
        cut = {table: list(at._cut[table]) for table in (*BANK, "pings")}
    return {"began": began, "ended": time.monotonic(), "seen": seen, "cut": cut}


def wrong_views(db: vk.Database) -> list[str]:
    """Views that differ from their queries over the tables of the same snapshot, judged in Python: needs no Spark."""
    with db.snapshot() as at:
        tables = {name: at.table(name).scan().to_pylist() for name in (*BANK, "pings")}
        queries = {name: query for views, _ in QUERIES.values() for name, query in views.items()}
        found = {name: at.view(name).scan().to_pylist() for name in queries}
    return [
        f'view "{name}" shows {_sorted(found[name])}, its query gives {_sorted(query(tables))}'
        for name, query in queries.items()
        if _sorted(found[name]) != _sorted(query(tables))
    ]


def _sorted(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: sorted(row.items()))


def covers(cut: Cut, other: Cut) -> bool:
    """Whether one cut has all that another one has.

    >>> covers({"t": (2, 3)}, {"t": (2, 1)}), covers({"t": (2, 0)}, {"t": (2, 1)})
    (True, False)
    """
    return all(mine >= theirs for table in other for mine, theirs in zip(cut[table], other[table], strict=True))
