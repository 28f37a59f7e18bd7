"""The four threats of the papers against the real engine: each is provoked, and the history is strong all the same.

`test_broken.py` has the same threats against maintainers that fall to them.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support import TIMEOUT, ended, start, store_of

import viewkeeper as vk
from viewkeeper.engine.reports import ViewReport
from viewkeeper.engine.spark import Spark
from viewkeeper.store.embedded.faults import VARIABLE
from viewkeeper.testing.consistency import History, Level, deleted, inserted, logged_history
from viewkeeper.testing.consistency.base import Change, Tables
from viewkeeper.testing.consistency.states import Query

Seen = dict[str, Any]


def sums(tables: Tables) -> list[Seen]:
    found: Counter[Any] = Counter()
    for row in tables["r"]:
        found[row["x"]] += row["y"]
    return [{"x": x, "s": s} for x, s in found.items()]


def small(tables: Tables) -> list[Seen]:
    return [{"k": row["k"], "y": row["y"]} for row in tables["r"] if row["y"] < 300]


def joined(tables: Tables) -> list[Seen]:
    pairs = [(r, s) for r in tables["r"] for s in tables["s"] if r["x"] == s["x"]]
    return [{"x": r["x"], "y": r["y"], "z": s["y"]} for r, s in pairs]


def least(tables: Tables) -> list[Seen]:
    found: dict[Any, int] = {}
    for row in tables["r"]:
        found[row["x"]] = min(row["y"], found.get(row["x"], row["y"]))
    return [{"x": x, "least": value} for x, value in found.items()]


VIEWS: dict[str, tuple[str, Query]] = {
    "sums": ("SELECT x, SUM(y) AS s FROM r GROUP BY x", sums),
    "small": ("SELECT k, y FROM r WHERE y < 300", small),
    "joined": ("SELECT r.x, r.y, s.y AS z FROM r JOIN s ON r.x = s.x", joined),
    "least": ("SELECT x, MIN(y) AS least FROM r GROUP BY x", least),
}
QUERIES = {name: query for name, (_, query) in VIEWS.items()}


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    """The session that the package would start; all tests of a run share it."""
    return Spark().session(large=False)


@pytest.fixture
def db(tmp_path: Path, spark: SparkSession) -> Iterator[vk.Database]:
    with vk.open(tmp_path / "db.vk", spark=spark, durability="off") as database:
        for name in ("r", "s"):
            database.create_table(name, "k STRING, x STRING, y BIGINT", primary_key="k", regions=3)
        yield database


def create_views(db: vk.Database) -> None:
    for name, (sql, _) in VIEWS.items():
        db.create_view(name, sql)


def row(k: str, x: str, y: int) -> dict[str, Any]:
    return {"k": k, "x": x, "y": y}


def seen(db: vk.Database) -> Seen:
    """Every view, and the tables that they were made of, at once."""
    with db.snapshot() as at:
        tables = {name: at.table(name).scan() for name in ("r", "s")}
        return tables | {view.name: at.view(view.name).scan() for view in db.views()}


Look = tuple[float, Seen, float]
"""What was seen, between when it began and when it ended."""


def looked(db: vk.Database) -> Look:
    return time.monotonic(), seen(db), time.monotonic()


def check_strong(db: vk.Database, readers: dict[str, list[Look]]) -> None:
    """Where several wrote at once: the order is in the logs."""
    db.refresh()
    history = logged_history(store_of(db), QUERIES, ["r", "s"], [report.cut for report in db.history()])
    for reader, looks in readers.items():
        for began, found, ended_at in looks:
            history.look(found, reader=reader, began=began, ended=ended_at)
    history.look(seen(db), reader="end", final=True)
    verdict = history.verdict()
    assert verdict.level >= Level.STRONG, str(verdict)


class Recorder:
    """Writes rows one by one, and records each write and each look."""

    def __init__(self, db: vk.Database, history: History) -> None:
        self.db = db
        self.history = history

    def put(self, table: str, new: dict[str, Any]) -> None:
        gone = self._gone(table, new["k"])
        self.db.table(table).put(new)
        self.history.transaction(gone, inserted(table, new))

    def delete(self, table: str, k: str) -> None:
        gone = self._gone(table, k)
        self.db.table(table).delete(k)
        self.history.transaction(gone)

    def _gone(self, table: str, k: str) -> list[Change]:
        old = self.db.table(table).get(k)
        return [] if old is None else deleted(table, old)

    def look(self, *, final: bool = False) -> None:
        self.history.look(seen(self.db), final=final)

    def judged(self) -> History:
        self.db.refresh()
        self.look(final=True)
        return self.history


# An update that comes twice


def test_an_epoch_that_runs_twice_counts_once(db: vk.Database, tmp_path: Path) -> None:
    """Processes die after a region was written, before the commit, and after it; somebody else runs the epoch again."""
    recorder = Recorder(db, History({"sums": sums}, {"r": [], "s": []}))
    recorder.put("r", row("k0", "x1", 50))
    db.create_view("sums", VIEWS["sums"][0])
    recorder.look()
    for number, fault in enumerate(("apply.committed:1", "commit.before", "commit.recorded"), start=1):
        recorder.put("r", row(f"k{number}", "x1", 100))
        recorder.put("r", row(f"l{number}", f"x{number}", 1))
        code, _, complaint = ended(
            start(Path(__file__).with_name("dying_child.py"), tmp_path / "db.vk", **{VARIABLE: fault})
        )
        assert code == -signal.SIGKILL, complaint
        assert (store_of(db).group("on demand").running is None) == (fault == "commit.recorded")
        recorder.look()
        db.refresh()
        recorder.look()
    history = recorder.judged()
    assert history.verdict().level is Level.STRONG
    assert db.view("sums").get("x1") == {"x": "x1", "s": 351}


# Updates in the wrong order


def test_a_row_that_changes_many_times_is_followed_in_order(db: vk.Database) -> None:
    """Few rows over several regions come, change and go while epochs run; 25 writes are let loose with each of them."""
    create_views(db)
    turns, writes = 8, 25
    allowed = threading.Semaphore(0)

    def write() -> None:
        chance = random.Random(1)
        for n in range(turns * writes):
            allowed.acquire()
            key = f"k{chance.randrange(5)}"
            if chance.random() < 0.3:
                db.table("r").delete(key)
            else:
                db.table("r").put(row(key, "x1", n % 400))

    looks = [looked(db)]
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        for _ in range(turns):
            allowed.release(writes)
            while db.refresh().epochs[0].epoch is None:  # it came before the first of the writes
                assert not (writing.done() and writing.exception())
            looks.append(looked(db))
        writing.result(timeout=TIMEOUT)
    check_strong(db, {"reader": looks})


# Concurrent commit


def test_two_maintainers_at_once_lose_nothing(db: vk.Database, tmp_path: Path, spark: SparkSession) -> None:
    """Both write to the same sums and refresh them, each through a database of its own, as two processes would."""
    create_views(db)
    turns = 10
    begin = threading.Barrier(2)

    def work(number: int) -> list[Look]:
        looks = []
        with vk.open(tmp_path / "db.vk", spark=spark, durability="off") as mine:
            begin.wait(timeout=TIMEOUT)
            for turn in range(turns):
                mine.table("r").put(row(f"r{number}-{turn}", f"x{turn % 2}", 100 * number - turn))
                mine.table("s").put(row(f"s{number}-{turn % 3}", f"x{turn % 2}", turn))
                mine.refresh()
                looks.append(looked(mine))
        return looks

    with ThreadPoolExecutor(2) as pool:
        one, two = pool.map(work, (1, 2))
    check_strong(db, {"one": one, "two": two})


# Update interference


def test_rows_that_change_while_an_epoch_runs_are_not_in_it(db: vk.Database) -> None:
    """When the first view of an epoch is done, partners and lesser values come and go, before the others look for them.

    The sums need no look at other rows; the join and the least value do, and are told nothing of what comes too late.
    """
    recorder = Recorder(db, History(QUERIES, {"r": [], "s": []}))
    recorder.put("r", row("k0", "x1", 400))
    create_views(db)
    recorder.look()
    interfered = 0

    def interfere(report: ViewReport, views: int) -> None:
        nonlocal interfered
        if report.view != "sums":
            return
        interfered += 1
        recorder.put("s", row(f"j{interfered}", "x1", 200))
        recorder.put("r", row("k0", "x1", 200))
        recorder.put("r", row("k0", "x1", 500 + interfered))
        recorder.look()

    db._maintainer.progress = interfere
    for number in range(1, 4):
        recorder.put("r", row(f"k{number}", "x1", 100 * number))
        recorder.delete("r", "k0")
        db.refresh()
        recorder.look()
    db._maintainer.progress = lambda report, views: None
    assert interfered == 3
    verdict = recorder.judged().verdict()
    assert verdict.level is Level.STRONG, str(verdict)
