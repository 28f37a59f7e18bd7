"""`Database.run` over a real database: what it follows, what it leaves alone, and what it says and counts."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession
from running import PATIENCE, Told, listening, running
from support import store_of

import viewkeeper as vk
from viewkeeper.engine.catalog import HISTORY
from viewkeeper.engine.reports import EpochReport
from viewkeeper.engine.spark import Spark
from viewkeeper.service.following import Following

FAST, OTHER, SLOW = "every 0.2 seconds", "every 0.3 seconds", "every 3600 seconds"
BY_K = "SELECT k, SUM(v) AS s, COUNT(*) AS n FROM t GROUP BY k"


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    return Spark().session(large=False)


@pytest.fixture
def db(tmp_path: Path, spark: SparkSession) -> Iterator[vk.Database]:
    with vk.open(tmp_path / "db.vk", spark=spark, durability="off") as database:
        database.create_table("t", "id BIGINT, k STRING, v BIGINT", primary_key="id", regions=2)
        yield database


def rows(numbers: range) -> list[dict[str, Any]]:
    return [{"id": number, "k": "abc"[number % 3], "v": number} for number in numbers]


def test_a_view_follows_by_its_schedule_and_one_on_demand_does_not(db: vk.Database) -> None:
    db.create_view("by_k", BY_K, refresh=FAST)
    db.create_view("doubled", "SELECT id, v * 2 AS d FROM t", refresh=FAST)
    db.create_view("later", BY_K)
    with running(db) as run:
        for turn in range(3):
            db.table("t").put(rows(range(10 * turn, 10 * turn + 10)))
            assert run.next_epoch(FAST).epoch is not None
    assert [db.view(name).status().waiting for name in ("by_k", "doubled", "later")] == [0, 0, 30]
    assert db.verify("by_k").equal
    assert db.verify("doubled").equal
    assert list(run.done.groups) == [FAST]
    group = run.done.groups[FAST]
    assert (group.epochs, group.changes, group.failures, group.lag) == (3, 30, 0, 0.0)
    assert group.rows == sum(entry.inserted + entry.updated + entry.deleted for entry in reports(db, "by_k")[-6:])


def reports(db: vk.Database, view: str) -> list[Any]:
    return [entry for report in db.history(view) for entry in report.views]


def test_an_epoch_that_somebody_left_is_finished_and_counted_once(
    db: vk.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process was gone before the commit, and there is nothing else to do."""
    db.create_view("by_k", BY_K, refresh=FAST)
    db.table("t").put(rows(range(10)))
    with monkeypatch.context() as patch:
        patch.setattr(store_of(db), "commit", _gone)
        with pytest.raises(KeyboardInterrupt):
            db.refresh()
    left = store_of(db).group(FAST).running
    assert left is not None
    with running(db) as run:
        assert run.next_epoch(FAST).epoch == left.epoch
    assert (run.done.groups[FAST].epochs, run.done.groups[FAST].changes) == (1, 10)
    assert db.verify("by_k").equal


def _gone(*_: object) -> None:
    raise KeyboardInterrupt


def test_groups_appear_and_go_while_it_runs(db: vk.Database) -> None:
    with running(db) as run:
        run.told.next("leading")
        for _ in range(2):
            db.create_view("by_k", BY_K, refresh=FAST)
            run.told.next("following", group=FAST)
            db.table("t").put(rows(range(10)))
            run.next_epoch(FAST)
            db.drop("by_k")
            run.told.next("left", group=FAST)
            db.table("t").delete(list(range(10)))
    assert run.done.groups[FAST].epochs == 2


def test_a_storm_is_cut_into_epochs_of_bounded_size(db: vk.Database) -> None:
    """One begins where the other ended, not an hour later: else the second would never be seen here."""
    most, writes, size = 100, 60, 10
    db.create_view("by_k", BY_K, refresh=SLOW)
    backdate(db, "by_k", 3_601)
    first = db.history("by_k")[-1]
    for number in range(writes):
        db.table("t").put(rows(range(size * number, size * (number + 1))))
    with running(db, most_changes=most) as run:
        while db.view("by_k").status().waiting:
            run.next_epoch(SLOW)
    epochs = [first, *(report for report in db.history("by_k") if (report.epoch or 0) > (first.epoch or 0))]
    sizes = [store_of(db).backlog("t", a.cut["t"], b.cut["t"]) for a, b in pairwise(epochs)]
    assert sum(sizes) == writes * size == run.done.groups[SLOW].changes
    assert max(sizes) <= most
    assert len(sizes) >= writes * size / most
    assert db.verify("by_k").equal


def test_a_slow_group_does_not_hold_up_another(db: vk.Database) -> None:
    db.create_view("slow", BY_K, refresh=FAST)
    db.create_view("quick", BY_K, refresh=OTHER)
    goes_on, waits = threading.Event(), threading.Event()

    def hold(report: EpochReport) -> None:
        if report.group == FAST:
            waits.set()
            assert goes_on.wait(4 * PATIENCE), "it waits for three epochs of the other"

    with running(db, hold) as run:
        db.table("t").put(rows(range(10)))
        assert waits.wait(PATIENCE)
        for turn in range(1, 4):
            db.table("t").put(rows(range(10 * turn, 10 * turn + 10)))
            run.next_epoch(OTHER)
        goes_on.set()
    assert run.done.groups[OTHER].epochs >= 3
    assert run.done.groups[FAST].epochs <= 2


def test_a_run_that_is_started_again_goes_on_where_the_last_one_was(db: vk.Database) -> None:
    db.create_view("by_k", BY_K, refresh=SLOW)
    db.table("t").put(rows(range(10)))
    assert db.run(0.3).epochs == 0
    backdate(db, "by_k", 3_601)
    with running(db) as run:
        run.next_epoch(SLOW)
    assert run.done.groups[SLOW].changes == 10


def test_an_epoch_of_somebody_else_counts(db: vk.Database) -> None:
    db.create_view("by_k", BY_K, refresh=SLOW)
    backdate(db, "by_k", 2_400)
    following = Following(SLOW, 3_600.0, db._maintainer, 100, lambda event: None, lambda: True)
    assert following._rest() == pytest.approx(1_200, abs=600)
    db.table("t").put(rows(range(10)))
    db.refresh("by_k")
    assert following._rest() == pytest.approx(3_600, abs=600)


def backdate(db: vk.Database, view: str, seconds: float) -> None:
    """Let a view's last epoch have been so long ago."""
    report = db.history(view)[-1]
    text = replace(report, finished=report.finished - seconds).text()
    store_of(db).put_record(f"{HISTORY}{report.group}/{report.epoch:012d}", text)


def test_immediate_views_are_left_to_their_writers(db: vk.Database) -> None:
    db.create_view("now", BY_K, refresh="immediate")
    db.create_view("by_k", BY_K, refresh=FAST)
    with running(db) as run:
        run.told.next("following", group="immediate")
        db.table("t").put(rows(range(10)))
        assert db.view("now").get("a") == {"k": "a", "s": 18, "n": 4}
        run.next_epoch(FAST)
    assert run.done.groups["immediate"].epochs == 0
    assert db.verify("now").equal


# Failures


def test_failures_are_told_counted_and_tried_again(db: vk.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    db.create_view("by_k", BY_K, refresh=FAST)
    refresh, errors = db._maintainer.refresh, [vk.Busy("not now"), vk.DiskFull("no room"), RuntimeError("a surprise")]

    def flaky(group: str, at_most: int | None = None) -> EpochReport:
        if errors:
            raise errors.pop(0)
        return refresh(group, at_most)

    monkeypatch.setattr(db._maintainer, "refresh", flaky)
    with running(db) as run:
        db.table("t").put(rows(range(10)))
        run.next_epoch(FAST)
    assert run.done.groups[FAST].failures == 3
    failed = run.told.all("failed")
    assert [fact["error"] for fact in failed] == ["busy", "disk-full", "RuntimeError"]
    assert [fact["retry_in"] for fact in failed] == [0.1, 0.2, 0.4]
    assert len(run.told.all("retrying")) == 3
    assert db.verify("by_k").equal


def test_a_store_in_trouble_does_not_end_the_run(db: vk.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    db.create_view("by_k", BY_K, refresh=FAST)
    definitions, errors = db._catalog.definitions, [vk.StorageError("gone for a while")]

    def flaky() -> Any:
        if errors and threading.current_thread().name == "the run":
            raise errors.pop()
        return definitions()

    monkeypatch.setattr(db._catalog, "definitions", flaky)
    told, result = Told(), []
    stop = threading.Event()
    with listening(told):
        thread = threading.Thread(target=lambda: result.append(db.run(stop)), name="the run")
        thread.start()
        assert told.next("failed")["error"] == "storage"
        told.next("following", group=FAST)
        stop.set()
        thread.join()
    assert (result[0].failures, list(result[0].groups)) == (1, [FAST])


def test_a_view_that_stopped_is_told_once(db: vk.Database) -> None:
    db.create_view("inverse", "SELECT id, 60 DIV v AS i FROM t", refresh=FAST)
    db.create_view("by_k", BY_K, refresh=FAST)
    with running(db) as run:
        db.table("t").put({"id": 0, "k": "a", "v": 0})
        assert "DIVIDE_BY_ZERO" in run.told.next("stopped", view="inverse")["error"]
        for _ in range(3):
            run.told.next("epoch")
        db.table("t").put({"id": 0, "k": "a", "v": 6})
        run.told.next("recovered", view="inverse")
    errors = [fact["error"] for fact in run.told.all("stopped")]
    assert len(errors) == len(set(errors)) < 3, "three epochs or more found it stopped"
    assert db.view("inverse").get(0) == {"id": 0, "i": 10}
    assert db.verify("by_k").equal


# What can be seen of it


def scraped(port: int) -> dict[tuple[str, ...], float]:
    """Every sample, by its name and the values of its labels, which come in the order of their names."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    return {(found.name, *found.labels.values()): found.value for family in families for found in family.samples}


def test_metrics_have_the_numbers(db: vk.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    db.create_view("by_k", BY_K, refresh=FAST)
    db.create_view("bag", "SELECT k FROM t", refresh=FAST)
    db.create_view("later", BY_K)
    refresh, errors = db._maintainer.refresh, [vk.Busy("not now")]

    def flaky(group: str, at_most: int | None = None) -> EpochReport:
        if errors:
            raise errors.pop()
        return refresh(group, at_most)

    monkeypatch.setattr(db._maintainer, "refresh", flaky)
    with running(db, metrics_port=0) as run:
        port = run.told.next("started")["metrics_port"]
        db.table("t").put(rows(range(12)))
        run.told.next("epoch")
        run.next_epoch(FAST)
        found = scraped(port)
    assert run.done.metrics_port == port
    wanted = {
        ("viewkeeper_leading",): 1,
        ("viewkeeper_epochs_total", FAST): 1,
        ("viewkeeper_changes_read_total", FAST): 12,
        ("viewkeeper_rows_applied_total", FAST): 6,
        ("viewkeeper_failures_total", "busy", FAST): 1,
        ("viewkeeper_retries_total", FAST): 1,
        ("viewkeeper_epoch_seconds_count", FAST): 1,
        ("viewkeeper_changes_waiting", FAST): 0,
        ("viewkeeper_changes_waiting", "on demand"): 12,
        ("viewkeeper_lag_seconds", FAST): 0,
        ("viewkeeper_view_changes_read_total", FAST, "by_k"): 12,
        ("viewkeeper_view_changes_read_total", FAST, "bag"): 12,
        ("viewkeeper_view_rows_applied_total", FAST, "inserted", "by_k"): 3,
        ("viewkeeper_view_rows_applied_total", FAST, "updated", "by_k"): 0,
        ("viewkeeper_view_changes_waiting", FAST, "by_k"): 0,
        ("viewkeeper_view_changes_waiting", "on demand", "later"): 12,
        ("viewkeeper_view_stopped", FAST, "bag"): 0,
    }
    assert {name: found.get(name) for name in wanted} == wanted
    assert found["viewkeeper_lag_seconds", "on demand"] > 0
    seconds = found["viewkeeper_epoch_seconds_sum", FAST]
    assert found["viewkeeper_changes_per_second", FAST] == pytest.approx(12 / seconds)
    assert found["viewkeeper_rows_per_second", FAST] == pytest.approx(6 / seconds)
    with pytest.raises(urllib.error.URLError):
        scraped(port)


def test_a_port_that_is_taken_is_refused(db: vk.Database) -> None:
    with running(db, metrics_port=0) as run:
        port = run.told.next("started")["metrics_port"]
        with pytest.raises(vk.InputError, match=f"metrics cannot be served on port {port}"):
            db.run(1, metrics_port=port)


def test_every_line_is_json_and_a_story(db: vk.Database, capsys: pytest.CaptureFixture[str]) -> None:
    db.create_view("by_k", BY_K, refresh=FAST)
    with running(db) as run:
        db.table("t").put(rows(range(10)))
        run.next_epoch(FAST)
    epoch = run.told.all("epoch")[0]
    assert json.loads(json.dumps(epoch)) == epoch
    assert (epoch["group"], epoch["changes"], epoch["rows"], epoch["waiting"], epoch["lag"]) == (FAST, 10, 3, 0, 0.0)
    story = [fact["event"] for fact in run.told.events if fact["event"] != "epoch"]
    assert story == ["started", "leading", "following", "stopping", "left", "resigned", "ended"]
    assert capsys.readouterr() == ("", ""), "nothing is printed that nobody asked for"


@pytest.mark.parametrize("most", [0, -1, True, 1.5])
def test_an_epoch_reads_at_least_one_change(db: vk.Database, most: Any) -> None:
    with pytest.raises(vk.InputError, match="an epoch cannot read at most"):
        db.run(1, most_changes=most)
