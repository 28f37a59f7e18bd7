"""Inline and as Spark tasks: the same plan, the same functions, the same rows."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import viewkeeper as vk
from viewkeeper.engine import tasks
from viewkeeper.engine.block_tasks import BlockTarget
from viewkeeper.engine.index_tasks import IndexTarget
from viewkeeper.engine.point import Step
from viewkeeper.errors import SparkFailed
from viewkeeper.store.contract import Applied

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


def test_values_lie_in_the_region_of_their_group_however_it_is_clustered(new_db: Callable[[], vk.Database]) -> None:
    """Found: with CLUSTER BY some of the groups the table was spread by these, its values by all, and no task owned both."""
    db = new_db()
    db.execute("CREATE TABLE r (k BIGINT PRIMARY KEY, a STRING, b INT, y BIGINT)")
    query = "SELECT a, b, MIN(y) AS lo, COUNT(DISTINCT y) AS c FROM r GROUP BY a, b"
    db.create_view("m", query, cluster_by="a", policy="incremental")
    db._maintainer.tasks_from = 0
    for turn in range(2):
        db.table("r").put([{"k": k, "a": "abc"[k % 3], "b": k % 5, "y": (k + turn) % 7} for k in range(30)])
        assert not db.refresh().failed
        assert db.verify("m").equal


def test_a_view_that_fails_in_one_task_shows_nothing_of_the_others(new_db: Callable[[], vk.Database]) -> None:
    """The regions of its table are written one by one. What is torn is no state of the view at all."""
    db = new_db()
    db._maintainer.tasks_from = 0
    db.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, k STRING, v BIGINT)")
    db.table("t").put([{"id": number, "k": k, "v": 1} for number, k in enumerate("abcdefgh")])
    db.create_view("sums", "SELECT k, SUM(v) AS s FROM t GROUP BY k")
    db.create_view("counts", "SELECT k, COUNT(*) AS n FROM t GROUP BY k")
    before = db.view("sums").scan()
    db.table("t").put([{"id": 100 + number, "k": k, "v": 5} for number, k in enumerate("abcdefgh")])
    db.table("t").put({"id": 200, "k": "d", "v": 2**63 - 1})
    report = db.refresh()
    assert report.epochs[0].mode == "tasks"
    assert "does not fit" in report.failed["sums"]
    assert db.view("sums").scan().equals(before)
    assert db.verify("counts").equal
    db.table("t").delete(200)
    assert db.refresh().failed == {}
    assert db.verify("sums").equal
    assert db.verify("counts").equal


TOGETHER = {
    "sums": "SELECT k, SUM(v) AS s FROM t GROUP BY k",
    "counts": "SELECT v % 3 AS m, COUNT(*) AS n FROM t GROUP BY v % 3",
    "lows": "SELECT k, MIN(v) AS lo FROM t GROUP BY k",
    "squares": "SELECT k, VARIANCE(f) AS d FROM t GROUP BY k",
    "quotients": "SELECT id, 100 DIV v AS q FROM t",
    "joined": "SELECT t.id, u.w FROM t JOIN u ON t.k = u.k",
    "above": "SELECT s, COUNT(*) AS n FROM sums GROUP BY s",
    "two_steps": "SELECT n, COUNT(*) AS c FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) GROUP BY n",
}
FAILS = {
    "quotients": {"id": 900, "k": "a", "v": 0, "f": 1.0},
    "sums": {"id": 901, "k": "d", "v": 2**63 - 1, "f": 1.0},
    "squares": {"id": 902, "k": "d", "v": 1, "f": 1e200},
}
"""A row that makes a view fail: where Spark evaluates, where a task applies, where a task reads."""


def _rows_of_t(turn: int) -> list[dict[str, Any]]:
    return [
        {"id": n, "k": "abcdefgh"[(n + turn) % 8], "v": 1 + (n * 7 + turn) % 11, "f": n / 8.0} for n in range(40 + turn)
    ]


@pytest.fixture
def together(new_db: Callable[[], vk.Database]) -> vk.Database:
    db = new_db()
    db._maintainer.tasks_from = 1
    db.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, k STRING, v BIGINT, f DOUBLE)")
    db.execute("CREATE TABLE u (k STRING PRIMARY KEY, w BIGINT)")
    db.table("t").put(_rows_of_t(0))
    db.table("u").put([{"k": k, "w": number} for number, k in enumerate("abcdxyz")])
    for number, (name, query) in enumerate(TOGETHER.items()):
        db.create_view(name, query, policy="incremental", regions=1 + number % 3)
    return db


def test_views_over_the_same_changes_share_a_job(together: vk.Database) -> None:
    """One job for the index that the join has, one for all that stands on tables, and one for each block above these."""
    for turn in (1, 2):
        together.table("t").put(_rows_of_t(turn))
        together.table("t").delete(list(range(turn, 40, 9)))
        together.table("u").put([{"k": "e", "w": turn}, {"k": "a", "w": 7 * turn}])
        report = together.refresh()
        assert report.failed == {}
        assert (report.epochs[0].mode, report.epochs[0].jobs) == ("tasks", 1 + 1 + 2)
        assert [name for name in TOGETHER if not together.verify(name).equal] == []


def test_an_index_that_nobody_looks_into_shares_the_job_too(together: vk.Database) -> None:
    """Only a change of the table that is joined with it does; and then it finds what came before."""
    together.table("t").put(_rows_of_t(3))
    report = together.refresh()
    assert (report.epochs[0].mode, report.epochs[0].jobs) == ("tasks", 1 + 2)
    assert {view.jobs for view in report.epochs[0].views if view.view in ("sums", "joined")} == {1}
    together.table("u").put([{"k": k, "w": 50 + number} for number, k in enumerate("abefgh")])
    assert together.refresh().epochs[0].jobs == 1
    assert [name for name in TOGETHER if not together.verify(name).equal] == []


@pytest.mark.parametrize("name", FAILS)
def test_of_views_that_share_a_job_one_fails_alone(together: vk.Database, name: str) -> None:
    before = together.view(name).scan()
    together.table("t").put([*_rows_of_t(1), FAILS[name]])
    failed = together.refresh().failed
    assert set(failed) == ({"sums", "above"} if name == "sums" else {name})
    assert together.view(name).scan().equals(before), "it stays where it was"
    assert [other for other in TOGETHER if other not in failed and not together.verify(other).equal] == []
    together.table("t").delete(FAILS[name]["id"])
    together.table("u").put({"k": "e", "w": 9})
    assert together.refresh().failed == {}
    assert [other for other in TOGETHER if not together.verify(other).equal] == []


def test_an_index_that_cannot_be_written_ends_the_epoch(together: vk.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Views that look into it would be wrong for ever after."""

    class Damaged(IndexTarget):
        def apply(self, step: Step, region: int, share: pa.Table, *, fill: bool) -> Applied:
            raise vk.Corrupt("the index is damaged")

    together.table("t").put(_rows_of_t(1))
    monkeypatch.setattr(tasks, "IndexTarget", Damaged)
    with pytest.raises(vk.Corrupt, match="damaged"):
        together.refresh()
    monkeypatch.undo()
    together.refresh()
    together.table("u").put({"k": "e", "w": 9})
    together.refresh()
    assert [name for name in TOGETHER if not together.verify(name).equal] == []


def test_a_python_error_in_a_task_is_not_the_querys(together: vk.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """No view stops for it, and nothing is lost once what caused it is gone."""

    class Failing(BlockTarget):
        def apply(self, step: Step, region: int, share: pa.Table, *, fill: bool) -> Applied:
            raise MemoryError("no room for region")

    together.table("t").put(_rows_of_t(1))
    monkeypatch.setattr(tasks, "BlockTarget", Failing)
    with pytest.raises(SparkFailed, match=r"MemoryError: no room for region\n.*the query is not at fault"):
        together.refresh()
    monkeypatch.undo()
    assert [status.failure for status in together.status()] == [None] * len(TOGETHER)
    assert together.refresh().failed == {}
    assert [name for name in TOGETHER if not together.verify(name).equal] == []


def test_a_view_that_waited_looks_into_whole_indexes_again(new_db: Callable[[], vk.Database]) -> None:
    """Its inner block had been brought to the epoch before it was known that the view could not be."""
    db = new_db()
    db._maintainer.tasks_from = 1
    db.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, k STRING, g BIGINT, v BIGINT)")
    db.table("t").put([{"id": n, "k": "ab"[n % 2], "g": n % 3, "v": 1 + n} for n in range(9)])
    counts = "SELECT k, g, COUNT(*) AS n FROM t GROUP BY k, g"
    db.create_view("a", "SELECT id, 100 DIV v AS q FROM t", policy="incremental")
    db.create_view("b", f"SELECT i.k, i.g, i.n, a.q FROM ({counts}) i JOIN a ON i.g = a.id", policy="incremental")
    db.table("t").put([{"id": n, "k": "abc"[n % 3], "g": n % 4, "v": n - 20} for n in range(9, 30)])
    assert set(db.refresh().failed) == {"a", "b"}
    db.table("t").delete(20)
    assert db.refresh().failed == {}
    db.table("t").update([{"id": n, "v": 7} for n in range(4)])
    db.refresh()
    assert [name for name in ("a", "b") if not db.verify(name).equal] == []


EARLY = {
    "grouped": "SELECT s.z % 2 AS g, SUM(r.y) AS t, COUNT(*) AS n FROM r JOIN s ON r.x = s.x GROUP BY s.z % 2",
    "kept": "SELECT r.k, upper(s.x) AS u FROM r JOIN s ON r.x = s.x WHERE s.z > 0 AND s.z IS NOT NULL",
    "divided": "SELECT r.k, 10 DIV s.z AS q FROM r JOIN s ON r.x = s.x",
    "both": "SELECT r.k, s.z + 1 AS p, r.y + s.z AS q FROM r JOIN s ON r.x = s.x",
    "three": "SELECT t.z + 1 AS p, s.z - 1 AS q, r.y FROM r JOIN s ON r.x = s.x JOIN t ON r.y = t.z",
    "itself": "SELECT a.k, b.z * 2 AS d FROM s b JOIN r a ON a.x = b.x JOIN s c ON a.x = c.x",
}


def test_expressions_of_one_source_are_evaluated_before_the_join(new_db: Callable[[], vk.Database]) -> None:
    """With a row that would divide by zero and meets nothing, and one that comes to meet something later."""
    db, rng = new_db(), random.Random(3)
    db._maintainer.tasks_from = db._maintainer.fill_from = 0
    db.execute("CREATE TABLE r (k BIGINT PRIMARY KEY, x STRING, y INT, d DECIMAL(10,2), f DOUBLE)")
    db.execute("CREATE TABLE s (x STRING PRIMARY KEY, z INT)")
    db.execute("CREATE TABLE t (z INT PRIMARY KEY)")
    db.table("r").put([_row(rng, key) for key in range(20)])
    db.table("s").put([{"x": "a", "z": 1}, {"x": "b", "z": 2}, {"x": "c", "z": None}, {"x": "none", "z": 0}])
    db.table("t").put([{"z": 0}, {"z": 1}])
    for name, query in EARLY.items():
        db.create_view(name, query, policy="incremental")
    assert [name for name in EARLY if not db.verify(name).equal] == []
    db.table("r").put([_row(rng, key) for key in range(10, 30)])
    assert db.refresh().epochs[0].mode == "tasks"
    assert [name for name in EARLY if not db.verify(name).equal] == []
    db.table("r").put({**_row(rng, 40), "x": "none"})
    db.refresh()
    assert "zero" in str(db.view("divided").status().failure).lower()
    assert [name for name in EARLY if name != "divided" and not db.verify(name).equal] == []
    db.table("r").delete(40)
    db.table("s").put({"x": "a", "z": 7})
    db.refresh()
    assert [name for name in EARLY if not db.verify(name).equal] == []


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
