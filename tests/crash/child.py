"""The process that dies. It says what it was told is done, line by line, and reaches the fault that its environment names.

Run as `child.py <folder> <operation>`. Each operation first does its thing once whole, then again: the second time ends
in the crash, so that there is always something acknowledged before it.
"""

from __future__ import annotations

import json
import random
import sys
import time
from itertools import count
from typing import Any

from scenes import GROUP, LEFT, RIGHT, TOTALS, VIEWS, epoch_rows, rows_of_transaction, rows_of_write

import viewkeeper as vk
from viewkeeper.store.contract import Request, Store
from viewkeeper.testing.contract.support import apply_all, changes, put

TERM = 1


def say(*words: object) -> None:
    print(*words, flush=True)


def put_one(db: vk.Database) -> None:
    for version in (1, 2):
        db.table("left").put({"id": 1, "version": version})
        say(version)


def put_many(db: vk.Database) -> None:
    for version in (1, 2):
        db.table("left").put(rows_of_write(version))
        say(version)


def transaction(db: vk.Database) -> None:
    for version in (1, 2):
        with db.transaction() as tx:
            for table in ("left", "right"):
                tx.table(table).put(rows_of_transaction(version))
                if version > 1:
                    tx.table(table).delete(version - 1 + 100)
        say(version)


def create(db: vk.Database) -> None:
    for name in ("first", "second"):
        db.create_table(name, "id BIGINT, version BIGINT", primary_key="id", regions=2)
        say(name)


def drop(db: vk.Database) -> None:
    for name in ("right", "left"):
        db.drop(name)
        say(name)


def trim(db: vk.Database) -> None:
    say(db._store.trim(time.time() + 60))


def epoch(db: vk.Database) -> None:
    for number in (1, 2):
        _apply(db._store, number)
        db._store.commit(GROUP, number, TERM)
        say(number)


def undo(db: vk.Database) -> None:
    _apply(db._store, 1)
    db._store.commit(GROUP, 1, TERM)
    say(1)
    _apply(db._store, 2)
    db._store.undo(GROUP, 2, TERM)
    say(2)


def withdraw(db: vk.Database) -> None:
    _apply(db._store, 1)
    db._store.commit(GROUP, 1, TERM)
    say(1)
    _apply(db._store, 2)
    db._store.withdraw(TOTALS.name, 2, TERM)
    say(2)


def together(db: vk.Database) -> None:
    """Rows of two tables and an epoch of the group, in one step."""
    store = db._store
    for version in (1, 2):
        pairs = [(row["id"], version) for row in rows_of_write(version)]
        prepared = store.prepare([Request([put(LEFT, *pairs)]), Request([put(RIGHT, *pairs)])])
        assert store.begin(GROUP, prepared.store.cut(["left", "right"]), TERM).epoch == version
        for spec in VIEWS:
            apply_all(prepared.store, spec, changes(spec, *epoch_rows(spec, version)), version, TERM)
        prepared.commit(GROUP, version, TERM)
        say(version)


def _apply(store: Store, number: int) -> None:
    assert store.begin(GROUP, {"left": (number, number)}, TERM).epoch == number
    for spec in VIEWS:
        puts, deletes = epoch_rows(spec, number)
        apply_all(store, spec, changes(spec, puts, deletes), number, TERM)


def random_writes(db: vk.Database) -> None:
    """Writes for ever, each announced before and acknowledged after. The test kills this when it has heard enough."""
    chance = random.Random(int(sys.argv[3]))
    there = {name: set(db.table(name).scan().column(0).to_pylist()) for name in ("left", "right")}
    for number in count(1):
        wishes = _wishes(chance, there, int(sys.argv[3]) * 1_000_000 + number)
        say(json.dumps(wishes))
        if len(wishes) == 1:
            _do(db.table(wishes[0][0]), *wishes[0][1:])
        else:
            with db.transaction() as tx:
                for table, action, what in wishes:
                    _do(tx.table(table), action, what)
        say("done")
        for table, action, what in wishes:
            if action == "put":
                there[table] |= {row["id"] for row in what}
            elif action == "delete":
                there[table] -= set(what)


def _wishes(chance: random.Random, there: dict[str, set[int]], version: int) -> list[tuple[str, str, Any]]:
    tables = chance.choice((["left"], ["right"], ["left", "right"], ["left", "right"]))
    return [(table, *_wish(chance, there[table], version)) for table in tables]


def _wish(chance: random.Random, there: set[int], version: int) -> tuple[str, Any]:
    some = chance.sample(sorted(there), min(len(there), chance.randint(1, 3)))
    match chance.choice(("put", "put", "update", "delete")) if some else "put":
        case "update":
            return "update", [{"id": key, "version": version} for key in some]
        case "delete":
            return "delete", some
        case _:
            keys = chance.sample(range(12), chance.randint(1, 4))
            return "put", [{"id": key, "version": version} for key in keys]


def _do(table: Any, action: str, what: Any) -> None:
    getattr(table, action)(what)


if __name__ == "__main__":
    with vk.open(sys.argv[1]) as database:
        globals()[sys.argv[2]](database)
    say("end")
