"""Inline and as Spark tasks: the same plan, the same functions, the same rows."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import viewkeeper as vk

VIEWS = {
    "sums": "SELECT x, SUM(y) AS s, COUNT(*) AS n, AVG(d) AS a, SUM(f) AS t, STDDEV(f) AS v FROM r GROUP BY x",
    "edges": "SELECT x, MIN(y) AS lo, MAX(y) AS hi, COUNT(DISTINCT y) AS c, MIN_BY(k, y) AS b FROM r GROUP BY x",
    "pairs": "SELECT r.k, s.z, upper(r.x) AS u FROM r JOIN s ON r.x = s.x WHERE s.z + r.y > 1",
    "bag": "SELECT x FROM r UNION ALL SELECT x FROM s",
    "whole": "SELECT COUNT(*) AS n, MAX(d) AS m FROM r WHERE y > 0",
    "over": "SELECT n, COUNT(*) AS groups FROM sums GROUP BY n",
    "twice": "SELECT a.k, b.k AS other FROM r a JOIN r b ON a.x = b.x AND a.y = b.y",
}


@pytest.fixture
def new_db(tmp_path: Path, spark: SparkSession) -> Iterator[Callable[[], vk.Database]]:
    """Makes databases, each in a folder of its own."""
    numbers = count()
    with ExitStack() as stack:
        yield lambda: stack.enter_context(vk.open(tmp_path / f"{next(numbers)}.vk", spark=spark, durability="off"))


def _row(rng: random.Random, key: int) -> dict[str, Any]:
    return {
        "k": key,
        "x": rng.choice(["a", "b", "c", None]),
        "y": rng.choice([None, -1, 0, 1, 2]),
        "d": rng.choice([None, "1.25", "-3.10"]),
        "f": rng.choice([None, 1.5, 1.6e9, float("nan"), 2.25]),
    }


def _change(db: vk.Database, rng: random.Random) -> None:
    """Several tables, updates that move rows, and a row that is put and taken away again within the epoch."""
    with db.transaction() as tx:
        for key in rng.sample(range(30), 8):
            tx.table("r").put(_row(rng, key))
        tx.table("s").put({"x": rng.choice("abc"), "z": rng.choice([0, 1, 2])})
    db.table("r").delete(rng.sample(range(30), 4))
    db.table("r").put(_row(rng, 99))
    db.table("r").delete(99)


def _filled(db: vk.Database, rng: random.Random) -> vk.Database:
    db.execute("CREATE TABLE r (k BIGINT PRIMARY KEY, x STRING, y INT, d DECIMAL(10,2), f DOUBLE)")
    db.execute("CREATE TABLE s (x STRING PRIMARY KEY, z INT)")
    db.table("r").put([_row(rng, key) for key in range(20)])
    db.table("s").put([{"x": "a", "z": 1}, {"x": "b", "z": 2}])
    for name, query in VIEWS.items():
        db.create_view(name, query, policy="incremental")
    return db


def _contents(db: vk.Database) -> dict[str, list[str]]:
    return {name: sorted(map(repr, db.view(name).scan().to_pylist())) for name in VIEWS}


def test_tasks_and_inline_agree_with_the_oracle_and_each_other(new_db: Callable[[], vk.Database]) -> None:
    small, large = new_db(), new_db()
    large._maintainer.tasks_from = large._maintainer.fill_from = 0
    dice = [random.Random(7), random.Random(7)]
    for db, rng in zip((small, large), dice, strict=True):
        _filled(db, rng)
    for _ in range(2):
        modes = []
        for db, rng in zip((small, large), dice, strict=True):
            _change(db, rng)
            modes.append(db.refresh().epochs[0].mode)
        assert modes == ["inline", "tasks"]
        assert _contents(small) == _contents(large)
    assert [name for name in VIEWS if not large.verify(name).equal] == []


def test_of_rows_that_tie_the_least_or_the_greatest_result_is_taken(new_db: Callable[[], vk.Database]) -> None:
    db = new_db()
    db.execute("CREATE TABLE t (k INT PRIMARY KEY, y INT, v STRING)")
    rows = [(1, 5, "b"), (2, 5, "a"), (3, None, "z"), (4, 9, None), (5, 9, "c")]
    db.table("t").put([{"k": k, "y": y, "v": v} for k, y, v in rows])
    view = db.create_view("v", "SELECT MIN_BY(v, y) AS low, MAX_BY(v, y) AS high FROM t", policy="incremental")
    assert view.scan().to_pylist() == [{"low": "a", "high": "c"}]
    db.table("t").delete([2, 5])
    db.refresh()
    assert view.scan().to_pylist() == [{"low": "b", "high": None}]
    assert db.verify("v").equal
    db.table("t").delete([1, 4])
    db.refresh()
    assert view.scan().to_pylist() == [{"low": None, "high": None}]
