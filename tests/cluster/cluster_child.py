"""A program that keeps views on a cluster, as `docs/cluster.md` says: its code does not know where it runs.

Run as `<folder> <scene> ...`; where Spark is comes from VIEWKEEPER_SPARK_MASTER. It asks for help from the process that started
it with a line of JSON, and goes on when a line comes back. Everything runs as tasks that can.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import viewkeeper as vk
from viewkeeper.engine.reports import EpochReport, ViewReport

VIEWS = {
    "filtered": "SELECT id, v * 2 AS w FROM t WHERE v % 3 <> 0",
    "bag": "SELECT k FROM t",
    "joined": "SELECT t.id, u.w FROM t JOIN u ON t.k = u.k",
    "left_joined": "SELECT t.id, u.w FROM t LEFT JOIN u ON t.k = u.k",
    "sums": "SELECT k, SUM(v) AS s, COUNT(*) AS n, AVG(v) AS a FROM t GROUP BY k",
    "extremes": "SELECT k, MIN(v) AS lo, MAX(v) AS hi, COUNT(DISTINCT v) AS d FROM t GROUP BY k",
    "unique_keys": "SELECT DISTINCT k FROM t",
    "both": "SELECT k FROM t UNION ALL SELECT k FROM u",
    "having": "SELECT k, SUM(v) AS s FROM t GROUP BY k HAVING SUM(v) > 100",
    "stacked": "SELECT n, COUNT(*) AS groups FROM sums GROUP BY n",
    "ranked": "SELECT id, RANK() OVER (PARTITION BY k ORDER BY v) AS place FROM t",
}
FEW = ("filtered", "joined", "sums", "stacked")
ELASTIC = ("joined", "sums", "extremes")
AT_ONCE = 20_000
"""Changes of one epoch, where throughput is shown."""


def tell(event: str, **facts: Any) -> None:
    print(json.dumps({"event": event, **facts}), flush=True)


def ask(event: str, **facts: Any) -> None:
    tell(event, **facts)
    sys.stdin.readline()


def rows(count: int, turn: int) -> list[dict[str, Any]]:
    return [{"id": n, "k": "abcdefgh"[(n * 7 + turn) % 8], "v": (n * 13 + turn * 5) % 101} for n in range(count)]


def create(db: vk.Database, names: tuple[str, ...], count: int) -> None:
    db._maintainer.tasks_from = db._maintainer.fill_from = 0
    db.create_table("t", "id BIGINT, k STRING, v BIGINT", primary_key="id", regions=2)
    db.create_table("u", "k STRING, w BIGINT", primary_key="k", regions=1)
    db.table("t").put(rows(count, 0))
    db.table("u").put([{"k": k, "w": w} for w, k in enumerate("abcdxy")])
    for name in names:
        db.create_view(name, VIEWS[name], regions=2)


def change(db: vk.Database, turn: int, count: int) -> None:
    with db.transaction() as tx:
        tx.table("t").put(rows(count, turn))
        tx.table("t").delete([1_000_000 + turn, *range(turn, count, 17)])
        tx.table("u").put([{"k": "e", "w": turn}, {"k": "a", "w": turn}])


def every_operator(db: vk.Database) -> None:
    follow(db, tuple(VIEWS))


def few_operators(db: vk.Database) -> None:
    follow(db, FEW)


def follow(db: vk.Database, names: tuple[str, ...]) -> None:
    """Filled and refreshed as tasks; then again, with an executor lost after the first of the views."""
    create(db, names, 200)
    change(db, 1, 100)
    told("refreshed", db, db.refresh().epochs[0])
    asked: list[str] = []

    def lose_executor(report: ViewReport, views: int) -> None:
        if not asked:
            asked.append(report.view)
            ask("inside", view=report.view)

    db._maintainer.progress = lose_executor
    change(db, 2, 150)
    told("refreshed", db, db._maintainer.refresh("on demand"))


def told(event: str, db: vk.Database, report: EpochReport) -> None:
    wrong = [view.name for view in db.views() if not db.verify(view.name).equal]
    failed = [status.name for status in db.status() if status.failure]
    tell(event, mode=report.mode, epoch=report.epoch, wrong=wrong, failed=failed)


def elastic(db: vk.Database) -> None:
    """Epochs go on while workers come and go; in each phase the throughput of its better epoch of two."""
    create(db, ELASTIC, 100)
    turn = 0
    for phase in ("one worker", "two workers", "one worker again"):
        ask("phase", name=phase)
        speeds = []
        for _ in range(2):
            turn += 1
            change(db, turn, AT_ONCE)
            started = time.perf_counter()
            report = db.refresh().epochs[0]
            assert report.mode == "tasks", report
            speeds.append(AT_ONCE / (time.perf_counter() - started))
        told("throughput", db, report)
        tell("speed", name=phase, changes_per_second=round(max(speeds)))


SCENES = {"every_operator": every_operator, "few_operators": few_operators, "elastic": elastic}


def main(folder: str, *scenes: str) -> None:
    for scene in scenes:
        with vk.open(f"{folder}/{scene}.vk", durability="off") as db:
            SCENES[scene](db)
    tell("ended")


if __name__ == "__main__":
    main(*sys.argv[1:])
