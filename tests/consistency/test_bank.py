"""The bank test: whatever anyone saw at any time was one state of the bank, and no money was made or lost."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import TypeVar

import bank
import pytest
from bank import Crew, Look
from support import store_of

import viewkeeper as vk
from viewkeeper.engine.spark import Spark
from viewkeeper.testing.consistency import History, Level, inserted, logged_history

pytestmark = pytest.mark.slow

Result = TypeVar("Result")

WRITERS, READERS = 3, 2
EPOCHS = 8
AT_ONCE = 45
"""Transactions that are let loose with each epoch."""


@dataclass(frozen=True)
class Day:
    """A day at the bank: what happened by the logs, with all that was seen, and the looks of each reader."""

    history: History
    readers: list[list[Look]]


def keep_fresh(db: vk.Database, crew: Crew) -> None:
    """Refresh again and again, while so many transactions go on, and all readers look in between.

    A refresh that comes before the first of the transactions is no epoch.
    """
    for _ in range(EPOCHS):
        crew.let_through(AT_ONCE)
        while db.refresh().epochs[0].epoch is None:
            pass
        crew.await_looks()


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Day]:
    folder = tmp_path_factory.mktemp("bank") / "bank.vk"
    crew = bank.crew(WRITERS, READERS)
    with (
        vk.open(folder, spark=Spark().session(large=False), durability="off") as db,
        ProcessPoolExecutor(WRITERS + READERS, get_context("spawn"), bank.join, (crew,)) as pool,
    ):
        bank.create(db)
        readers = [pool.submit(bank.poll, str(folder), n) for n in range(READERS)]
        writers = [pool.submit(bank.write, str(folder), n + 1, EPOCHS * AT_ONCE // WRITERS) for n in range(WRITERS)]
        try:
            crew.together.wait(bank.PATIENCE)
            keep_fresh(db, crew)
            _finished(writers)
            db.refresh()
            crew.await_looks()
        finally:
            crew.over.set()
        yield _recorded(db, _finished(readers))


def _finished(futures: list[Future[Result]]) -> list[Result]:
    return [future.result(timeout=bank.PATIENCE) for future in futures]


def _recorded(db: vk.Database, readers: list[list[Look]]) -> Day:
    cuts = [report.cut for report in db.history()]
    history = logged_history(
        store_of(db), bank.QUERIES, ["transfers", "entries"], cuts, name=lambda table, row: row["made_by"]
    )
    for number, looks in enumerate(readers):
        for began, found, ended in looks:
            history.look(found, reader=f"reader {number}", began=began, ended=ended)
    tables = {name: db.table(name).scan() for name in ("transfers", "entries")}
    history.look(bank.seen(db) | tables, reader="end", final=True)
    return Day(history, readers)


def test_no_money_is_made_or_lost(day: Day) -> None:
    looks = [found for looks in day.readers for _, found, _ in looks]
    assert [found["total"] for found in looks if found["total"] != [{"total": 0}]] == []


def test_every_balance_is_credits_less_debits(day: Day) -> None:
    looks = [found for looks in day.readers for _, found, _ in looks]
    shown = [(found, sorted(found["balance"], key=lambda row: row["account"])) for found in looks]
    assert [found for found, rows in shown if rows != bank.balances(found["credits"], found["debits"])] == []


def test_the_day_was_a_busy_one(day: Day) -> None:
    """Else the other tests show nothing."""
    assert day.history.base.last == EPOCHS * AT_ONCE
    for looks in day.readers:
        states = {repr(found) for _, found, _ in looks}
        assert len(states) > EPOCHS / 2, "a lone transfer of nothing shows in no view, so not every epoch is seen"
    credited, debited = ({row["account"] for row in day.readers[0][-1][1][name]} for name in ("credits", "debits"))
    assert credited - debited
    assert debited - credited


def test_the_history_is_strong(day: Day) -> None:
    """All four views of each look are of one state, and the states go forward, from reader to reader too."""
    verdict = day.history.verdict()
    assert verdict.level is Level.STRONG, str(verdict)


def test_half_a_transaction_would_be_seen() -> None:
    """Without Spark: what the views would show of a transfer that has come to one of its tables."""
    transfer = {"id": 1, "source": 1, "target": 2, "amount": 5}
    sides = [{"transfer": 1, "account": 1, "amount": -5}, {"transfer": 1, "account": 2, "amount": 5}]
    for half in ({"transfers": [transfer], "entries": []}, {"transfers": [], "entries": sides}):
        history = History(bank.QUERIES, {"transfers": [], "entries": []})
        history.transaction(inserted("transfers", transfer), inserted("entries", *sides))
        history.look({name: query(half) for name, query in bank.QUERIES.items()})
        whole = {"transfers": [transfer], "entries": sides}
        history.look({name: query(whole) for name, query in bank.QUERIES.items()}, final=True)
        assert history.verdict().level is Level.CONVERGENCE
