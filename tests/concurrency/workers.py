"""What the processes of these tests do. Each function runs in a process of its own and returns what it was told is done."""

from __future__ import annotations

import multiprocessing
import random
from collections.abc import Callable
from multiprocessing.synchronize import Barrier, Event
from typing import Any

import viewkeeper as vk

PATIENCE = 240.0
"""Seconds to wait for the other processes."""

_together: Barrier | None = None
_over: Event


def prepare(together: Barrier, over: Event) -> None:
    """Run once in each process: how it meets the others, and how it learns that the writers are done."""
    global _together, _over
    _together, _over = together, over


def run(task: Callable[..., Any], folder: str, *arguments: Any) -> Any:
    """The task on an open database, begun when all processes are there."""
    with vk.open(folder) as db:
        meet()
        return task(db, *arguments)


def meet() -> None:
    """Wait until all processes are here. Nobody is waited for where there is one process, with threads."""
    if _together is not None:
        _together.wait(PATIENCE)


def open_and_write(folder: str, number: int) -> bool:
    """Open at the same time as the others; whoever comes first makes the database and its table."""
    meet()
    with vk.open(folder) as db:
        db.execute("CREATE TABLE IF NOT EXISTS t (id BIGINT PRIMARY KEY, v BIGINT)")
        db.table("t").put({"id": number, "v": number})
    return True


def until_over(look: Callable[[], None], at_least: int) -> int:
    """Look again and again until the writers are done, and some times more than that if they were quick."""
    looks = 0
    while not _over.is_set() or looks < at_least:
        look()
        looks += 1
    return looks


# Test and set


def increment(db: vk.Database, attempts: int) -> int:
    """Try to add one that often; how often it went through. At first all have read before any of them writes."""
    counters = db.table("counters")
    successes = 0
    for attempt in range(attempts):
        current = counters.get("hits")
        assert current is not None
        if attempt == 0:
            meet()
        successes += counters.put_if({"name": "hits", "n": current["n"] + 1}, expected={"n": current["n"]})
    return successes


# Transfers


def transfer(db: vk.Database, seed: int, times: int) -> int:
    """Move money between accounts of two tables; how many conflicts there were. All begin with the same two accounts."""
    chance = random.Random(seed)
    conflicts = 0 if _moved(db, [("savings", 0), ("giro", 0)], 1, meet) else 1
    for _ in range(times - 1 + conflicts):
        places = chance.sample([(table, account) for table in ("savings", "giro") for account in range(4)], 2)
        while not _moved(db, places, chance.randint(1, 9)):
            conflicts += 1
    return conflicts


def _moved(
    db: vk.Database, places: list[tuple[str, int]], amount: int, meanwhile: Callable[[], None] = lambda: None
) -> bool:
    try:
        with db.transaction() as tx:
            for (table, account), change in zip(places, (-amount, amount), strict=True):
                row = tx.table(table).get(account)
                assert row is not None
                tx.table(table).update({"account": account, "amount": row["amount"] + change})
            meanwhile()
    except vk.Conflict:
        return False
    return True


def totals(db: vk.Database) -> tuple[int, list[int]]:
    """How many snapshots were taken, and the totals that were not what they must be; a snapshot is read twice."""
    wrong: list[int] = []
    meet()

    def look() -> None:
        with db.snapshot() as at:
            for _ in range(2):
                total = sum(sum(at.table(name).scan()["amount"].to_pylist()) for name in ("savings", "giro"))
                wrong.extend([total] if total else [])

    return until_over(look, 5), wrong


# Everything on few keys


def mixed(db: vk.Database, number: int, times: int) -> dict[str, list[int]]:
    """Writes of every kind on the same few keys. Each has a version of its own; those that went through, by kind."""
    chance = random.Random(number)
    done: dict[str, list[int]] = {"put": [], "pair": [], "put_if": [], "update": [], "delete": []}
    left = db.table("left")
    for n in range(times):
        version, key = number * 10_000 + n, chance.randrange(6)
        kind = chance.choice(list(done))
        if _done(db, left, kind, key, version):
            done[kind].append(version)
    return done


def _done(db: vk.Database, left: vk.Table, kind: str, key: int, version: int) -> bool:
    row = {"id": key, "version": version}
    match kind:
        case "put":
            left.put([row, {"id": key + 10, "version": version}])
        case "pair":
            with db.transaction() as tx:
                for name in ("left", "right"):
                    tx.table(name).put([row, {"id": key + 10, "version": version}])
        case "put_if":
            current = left.get(key)
            return left.put_if(row, expected=None if current is None else current)
        case "update":
            try:
                left.update(row)
            except vk.NotFound:
                return False
        case _:
            left.delete([key])
    return True


# Cause and effect


def cause(db: vk.Database, times: int) -> None:
    """Write a number to one table, and when that is done, to another."""
    for n in range(1, times + 1):
        db.table("causes").put({"id": 1, "n": n})
        db.table("effects").put({"id": 1, "n": n})


def react(db: vk.Database, times: int) -> None:
    """Write to a third table what another process has written to the first."""
    seen = 0
    while seen < times:
        row = db.table("causes").get(1)
        if row is not None and row["n"] > seen:
            seen = row["n"]
            db.table("reactions").put({"id": 2, "n": seen})


def order(db: vk.Database) -> tuple[int, list[tuple[int, int, int]]]:
    """Snapshots: how many, and those in which an effect is ahead of its cause or that went back in time."""
    wrong: list[tuple[int, int, int]] = []
    last = (0, 0, 0)

    def look() -> None:
        nonlocal last
        with db.snapshot() as at:
            found = [at.table(name).get(key) for name, key in (("causes", 1), ("effects", 1), ("reactions", 2))]
        causes, effects, reactions = (0 if row is None else row["n"] for row in found)
        ahead = effects > causes or reactions > causes or causes > effects + 1
        if ahead or any(now < before for now, before in zip((causes, effects, reactions), last, strict=True)):
            wrong.append((causes, effects, reactions))
        last = (causes, effects, reactions)

    return until_over(look, 5), wrong


# Tables that come and go


def remake(db: vk.Database, times: int) -> None:
    for _ in range(times):
        db.drop("t")
        db.create_table("t", "id BIGINT, v BIGINT", primary_key="id", regions=2)


def write_anyway(db: vk.Database, number: int) -> tuple[int, int, list[str]]:
    """Keep writing while the table comes and goes. How often it was not there, the last write, and other complaints.

    The last write begins when the table has been made for the last time.
    """
    gone, n, complaints = 0, 0, list[str]()

    def write() -> None:
        nonlocal gone, n
        n += 1
        try:
            rows = [{"id": number * 1_000_000 + 2 * n + i, "v": n} for i in range(2)]
            db.table("t").put(rows)
            db.table("t").get(number)
            db.snapshot().table("t").scan(limit=1)
        except vk.NotFound:
            gone += 1
        except vk.ViewkeeperError as error:
            complaints.append(repr(error))

    until_over(write, 1)
    n += 1
    db.table("t").put({"id": number, "v": n})
    return gone, n, complaints


def context() -> multiprocessing.context.SpawnContext:
    return multiprocessing.get_context("spawn")
