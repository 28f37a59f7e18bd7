"""Several processes run one database: one leads, and another takes over when it dies or hangs. Signals end them cleanly."""

from __future__ import annotations

import json
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from running import PATIENCE
from support import check_files, connect, start, store_of

import viewkeeper as vk
from viewkeeper.engine.spark import Spark

CHILD = Path(__file__).parent / "run_child.py"
LEASE = 4.0
"""Seconds. A leader that is kept waiting by others on the machine for less than this is not taken for dead."""

EVERY = "every 0.2 seconds"
VIEWS = {
    "by_k": "SELECT k, SUM(v) AS s, COUNT(*) AS n FROM t GROUP BY k",
    "bag": "SELECT k FROM t",
    "joined": "SELECT t.id, u.w FROM t JOIN u ON t.k = u.k",
}


class Child:
    """A running process, and the events that it tells."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.process = start(CHILD, folder, LEASE, *options)
        self.told: list[dict[str, Any]] = []
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self._lines.put(line)

    def next(self, event: str) -> dict[str, Any]:
        """The next event of that name."""
        while True:
            try:
                found = json.loads(self._lines.get(timeout=PATIENCE))
            except queue.Empty:
                raise AssertionError(f"no {event} after {self.told}") from None
            self.told.append(found)
            if found["event"] == event:
                return found

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    def go_on(self) -> None:
        """Let go of what it holds."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def suspended(self) -> None:
        """Wait until it has suspended itself."""
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)

    def close(self) -> None:
        """Nothing of it stays, whatever became of the test."""
        self.process.kill()
        self.process.wait()
        self._listener.join()
        for pipe in (self.process.stdin, self.process.stderr):
            assert pipe is not None
            pipe.close()

    def end(self) -> tuple[int, str]:
        """Exit code and complaints, once it has ended."""
        self.process.wait(PATIENCE)
        assert self.process.stderr is not None
        return self.process.returncode, self.process.stderr.read()


Start = Callable[..., Child]


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    return Spark().session(large=False)


@pytest.fixture
def db(tmp_path: Path, spark: SparkSession) -> Iterator[vk.Database]:
    with vk.open(tmp_path / "db.vk", spark=spark, durability="off") as database:
        database.create_table("t", "id BIGINT, k STRING, v BIGINT", primary_key="id", regions=2)
        database.create_table("u", "k STRING, w BIGINT", primary_key="k", regions=2)
        database.table("u").put([{"k": k, "w": w} for w, k in enumerate("abc")])
        for name, query in VIEWS.items():
            database.create_view(name, query, refresh=EVERY, regions=2)
        yield database


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Start]:
    children: list[Child] = []

    def start_child(*options: str) -> Child:
        children.append(Child(tmp_path / "db.vk", *options))
        return children[-1]

    yield start_child
    for child in children:
        child.close()


def put(db: vk.Database, turn: int) -> None:
    db.table("t").put([{"id": 10 * turn + n, "k": "abc"[n % 3], "v": n} for n in range(10)])


def fresh(db: vk.Database) -> None:
    """Wait until every view has seen everything."""
    deadline = time.monotonic() + PATIENCE
    while any(view.status().waiting for view in db.views()):
        assert time.monotonic() < deadline, db.status()
        time.sleep(0.02)


def check(db: vk.Database, folder: Path) -> None:
    """Every view is what its query says, and no epoch is left half done."""
    assert [name for name in VIEWS if not db.verify(name).equal] == []
    assert store_of(db).group(EVERY).running is None
    check_files(folder)


def longest_lease(folder: Path) -> float:
    """When the last of all leases ends."""
    catalog = connect(folder / "catalog.db")
    ends = catalog.query("SELECT max(expires) FROM leases").column(0).to_pylist()
    catalog.close()
    return float(ends[0])


def test_another_takes_over_when_the_leader_dies(db: vk.Database, started: Start, tmp_path: Path) -> None:
    leader = started()
    leader.next("leading")
    other = started()
    other.next("waiting")
    put(db, 0)
    assert leader.next("epoch")["changes"] == 10
    assert longest_lease(tmp_path / "db.vk") <= time.time() + LEASE, "no longer patience is asked of the other"
    leader.signal(signal.SIGKILL)
    put(db, 1)
    other.next("leading")
    assert other.next("epoch")["changes"] == 10
    fresh(db)
    check(db, tmp_path / "db.vk")
    assert leader.end()[0] == -signal.SIGKILL
    other.signal(signal.SIGTERM)
    assert other.next("stopping")["reason"] == "SIGTERM"
    assert other.next("ended")["epochs"] >= 1
    assert other.end() == (0, "")


def test_a_leader_that_hung_past_its_lease_harms_nothing(db: vk.Database, started: Start, tmp_path: Path) -> None:
    hung = started("freeze")
    hung.next("leading")
    other = started()
    other.next("waiting")
    put(db, 0)
    hung.suspended()
    assert store_of(db).group(EVERY).running is not None, "it hangs in the middle of an epoch"
    other.next("leading")
    assert other.next("epoch")["changes"] == 10
    put(db, 1)
    fresh(db)
    committed = store_of(db).group(EVERY).committed
    hung.signal(signal.SIGCONT)
    hung.next("lost")
    hung.next("waiting")
    assert [fact["error"] for fact in hung.told if fact["event"] == "failed"] == ["fenced"]
    assert [fact for fact in hung.told if fact["event"] == "epoch"] == []
    assert store_of(db).group(EVERY).committed == committed
    check(db, tmp_path / "db.vk")
    other.signal(signal.SIGINT)
    assert other.next("stopping")["reason"] == "SIGINT"
    assert other.end() == (0, "")
    hung.next("leading")
    put(db, 2)
    assert hung.next("epoch")["changes"] == 10
    fresh(db)
    check(db, tmp_path / "db.vk")
    hung.signal(signal.SIGTERM)
    assert hung.end() == (0, "")


def test_one_that_stands_by_stops_at_once(db: vk.Database, started: Start) -> None:
    started().next("leading")
    other = started()
    other.next("waiting")
    other.signal(signal.SIGTERM)
    assert other.end() == (0, "")


def test_the_epoch_under_way_is_committed_before_it_ends(db: vk.Database, started: Start, tmp_path: Path) -> None:
    child = started("hold")
    child.next("leading")
    put(db, 0)
    child.next("holding")
    child.signal(signal.SIGTERM)
    child.next("stopping")
    assert store_of(db).group(EVERY).running is not None
    child.go_on()
    assert child.next("epoch")["changes"] == 10
    assert child.end() == (0, "")
    fresh(db)
    check(db, tmp_path / "db.vk")


def test_a_second_signal_does_not_wait(db: vk.Database, started: Start, tmp_path: Path) -> None:
    child = started("hold")
    child.next("leading")
    put(db, 0)
    child.next("holding")
    child.signal(signal.SIGINT)
    child.next("stopping")
    child.signal(signal.SIGINT)
    code, complaint = child.end()
    assert (code, complaint.splitlines()[-1]) == (-signal.SIGINT, "KeyboardInterrupt")
    assert store_of(db).group(EVERY).running is not None, "it is on record, for whoever comes next"
    db.refresh()
    check(db, tmp_path / "db.vk")
