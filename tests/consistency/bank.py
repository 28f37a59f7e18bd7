"""A bank: transfers by several processes, and views that must agree whenever anyone looks.

A transfer is one transaction over two tables: a row of `transfers`, and its two sides in `entries`. Debits are summed
from the one table and credits from the other, so a transaction seen by half shows. Amounts are changed later, too, to
nothing at times. Some accounts only pay and some are only paid.

`write` and `poll` run in processes of their own, which need no Spark.
"""

from __future__ import annotations

import multiprocessing
import random
import time
from collections import Counter
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier, Condition, Event, Semaphore
from typing import Any

import viewkeeper as vk
from viewkeeper.testing.consistency.base import Tables

PATIENCE = 240.0
"""Seconds to wait for others before something must be wrong."""

PAUSE = 0.02
"""Seconds between a reader's looks, so that two cores have time for the others."""

PAYING, PAID = range(6), range(2, 8)
"""Accounts that money may come from and go to."""

VIEWS = {
    "credits": "SELECT account, SUM(amount) AS credit FROM entries WHERE amount > 0 GROUP BY account",
    "debits": "SELECT source AS account, SUM(amount) AS debit FROM transfers GROUP BY source",
    "balance": (
        "SELECT COALESCE(c.account, d.account) AS account, COALESCE(c.credit, 0) - COALESCE(d.debit, 0) AS balance "
        "FROM credits c FULL JOIN debits d ON c.account = d.account"
    ),
    "total": "SELECT COALESCE(SUM(balance), 0) AS total FROM balance",
}

Rows = list[dict[str, Any]]
Look = tuple[float, dict[str, Rows], float]
"""What a reader saw, between when the look began and when it ended."""


def create(db: vk.Database) -> None:
    columns = "id BIGINT, source INT, target INT, amount BIGINT, made_by STRING"
    db.create_table("transfers", columns, primary_key="id", regions=2)
    columns = "transfer BIGINT, account INT, amount BIGINT, made_by STRING"
    db.create_table("entries", columns, primary_key=("transfer", "account"), regions=2)
    for name, query in VIEWS.items():
        db.create_view(name, query, regions=2)


# The views, in Python


def credits_of(tables: Tables) -> Rows:
    found: Counter[int] = Counter()
    for row in tables["entries"]:
        if row["amount"] > 0:
            found[row["account"]] += row["amount"]
    return [{"account": account, "credit": credit} for account, credit in found.items()]


def debits_of(tables: Tables) -> Rows:
    found: Counter[int] = Counter()
    for row in tables["transfers"]:
        found[row["source"]] += row["amount"]
    return [{"account": account, "debit": debit} for account, debit in found.items()]


def balance_of(tables: Tables) -> Rows:
    return balances(credits_of(tables), debits_of(tables))


def total_of(tables: Tables) -> Rows:
    return [{"total": sum(row["balance"] for row in balance_of(tables))}]


def balances(credited: Rows, debited: Rows) -> Rows:
    """What the balances are by what the other two views say."""
    found = {row["account"]: row["credit"] for row in credited}
    for row in debited:
        found[row["account"]] = found.get(row["account"], 0) - row["debit"]
    return [{"account": account, "balance": found[account]} for account in sorted(found)]


QUERIES = {"credits": credits_of, "debits": debits_of, "balance": balance_of, "total": total_of}


# Processes


@dataclass(frozen=True)
class Crew:
    """What the processes have in common: they begin together, and readers go on until it is over."""

    together: Barrier
    allowed: Semaphore
    """A permit is a transaction."""
    looked: Condition
    looks: Any
    """Of each reader, how often it has looked: a shared array, changed under `looked`."""
    over: Event

    def let_through(self, transactions: int) -> None:
        for _ in range(transactions):
            self.allowed.release()

    def await_looks(self) -> None:
        """Until every reader has taken a look that began after this call: the second one from now."""
        with self.looked:
            before = list(self.looks)
            assert self.looked.wait_for(
                lambda: all(n > m + 1 for n, m in zip(self.looks, before, strict=True)), PATIENCE
            )


def crew(writers: int, readers: int) -> Crew:
    """With the process that makes it."""
    context = multiprocessing.get_context("spawn")
    looks = context.Array("q", readers, lock=False)
    barrier = context.Barrier(writers + readers + 1)
    return Crew(barrier, context.Semaphore(0), context.Condition(), looks, context.Event())


_crew: Crew


def join(crew: Crew) -> None:
    """Run once in each process."""
    global _crew
    _crew = crew


def write(folder: str, number: int, transactions: int) -> None:
    chance = random.Random(number)
    made: dict[int, tuple[int, int]] = {}
    with vk.open(folder, durability="off") as db:
        _crew.together.wait(PATIENCE)
        for n in range(transactions):
            assert _crew.allowed.acquire(timeout=PATIENCE)
            if made and chance.random() < 0.25:
                transfer = chance.choice(list(made))
            else:
                transfer = number * 1_000_000 + n
                source = chance.choice(PAYING)
                made[transfer] = (source, chance.choice([account for account in PAID if account != source]))
            _make(db, transfer, *made[transfer], chance.randrange(10), f"{number}-{n}")


def _make(db: vk.Database, transfer: int, source: int, target: int, amount: int, made_by: str) -> None:
    """A transfer, or another amount for one that was made before."""
    sides = ((source, -amount), (target, amount))
    with db.transaction() as tx:
        tx.table("transfers").put(
            {"id": transfer, "source": source, "target": target, "amount": amount, "made_by": made_by}
        )
        tx.table("entries").put(
            [{"transfer": transfer, "account": account, "amount": side, "made_by": made_by} for account, side in sides]
        )


def poll(folder: str, number: int) -> list[Look]:
    """Look at all views again and again until it is over."""
    looks: list[Look] = []
    with vk.open(folder, durability="off") as db:
        _crew.together.wait(PATIENCE)
        while not _crew.over.wait(PAUSE):
            began, found, ended = time.monotonic(), seen(db), time.monotonic()
            same = looks and looks[-1][1] == found
            looks.append((began, looks[-1][1] if same else found, ended))
            with _crew.looked:
                _crew.looks[number] += 1
                _crew.looked.notify_all()
    return looks


def seen(db: vk.Database) -> dict[str, Rows]:
    with db.snapshot() as at:
        return {name: at.view(name).scan().to_pylist() for name in VIEWS}
