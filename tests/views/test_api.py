"""What users do with views, beside what the views compute: make, drop, refresh, read, prove, mend; and what is refused."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from small import BY_K, equal, row, rows
from support import TIMEOUT, ended, file_with_rows, start, store_of

import viewkeeper as vk
from viewkeeper.engine import leadership, maintainer
from viewkeeper.engine.leadership import Leadership
from viewkeeper.errors import (
    Busy,
    InputError,
    NameTaken,
    NotFound,
    NotMaintainable,
    SchemaError,
    SnapshotTooOld,
    StatementError,
)
from viewkeeper.store.contract import Kind, Lease


def hidden(db: vk.Database) -> set[str]:
    return {spec.name for spec in store_of(db).tables() if spec.kind is Kind.INDEX}


# Making and dropping


def test_a_statement_with_every_clause(tables: vk.Database) -> None:
    statement = (
        "CREATE MATERIALIZED VIEW IF NOT EXISTS by_k CLUSTER BY (k) REFRESH EVERY 2 SECONDS POLICY INCREMENTAL AS "
        "SELECT id, k, v FROM t WHERE v > 5"
    )
    tables.execute(statement)
    tables.execute(statement)
    view = tables.view("by_k")
    assert (view.key, view.status().group, view.status().strategy) == (("k", "id"), "every 2 seconds", "incremental")
    assert rows(view) == [(1, "a", 10), (2, "a", 20)]
    assert [view.name for view in tables.views()] == ["by_k"]
    tables.execute("DROP MATERIALIZED VIEW by_k")
    tables.execute("DROP MATERIALIZED VIEW IF EXISTS by_k")
    assert tables.views() == []
    with pytest.raises(NotFound, match='view "by_k" does not exist'):
        tables.execute("DROP MATERIALIZED VIEW by_k")


def test_what_others_stand_on_is_not_dropped(tables: vk.Database) -> None:
    tables.create_view("one", BY_K)
    tables.create_view("two", "SELECT n, COUNT(*) AS c FROM one GROUP BY n")
    tables.create_view("three", "SELECT k FROM one WHERE n > 1")
    for name, users in (("t", ["one"]), ("one", ["two", "three"])):
        with pytest.raises(InputError, match=f'"{name}" cannot be dropped: "{users[0]}"') as refused:
            tables.drop(name)
        assert refused.value.fields["dependents"] == users
    with pytest.raises(InputError, match='"one" is a view'):
        tables.execute("DROP TABLE one")
    for name in ("two", "three", "one", "t"):
        tables.drop(name)
    assert [table.name for table in tables.tables()] == ["u"]


@pytest.mark.parametrize("name", ["t", "T", "v", "V"])
def test_a_name_that_is_taken(tables: vk.Database, name: str) -> None:
    if name.lower() == "v":
        tables.create_view("v", BY_K)
    with pytest.raises(NameTaken, match="exists"):
        tables.create_view(name, BY_K)
    with pytest.raises(NameTaken, match="exists"):
        tables.create_table(name, "x BIGINT", primary_key="x")


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (
            {"query": "SELECT * FROM nowhere"},
            NotFound,
            'table or view "nowhere" does not exist\n  hint: there are t, u',
        ),
        ({"query": "SELECT x FROM t"}, StatementError, "Spark cannot analyse the query"),
        ({"query": "SELECT id, rand() AS r FROM t"}, StatementError, r"not deterministic: RAND\(\)"),
        ({"query": "SELECT id FROM t WHERE now() > '2020-01-01'"}, StatementError, "not deterministic: "),
        ({"query": "SELECT uuid() AS u, id FROM t"}, StatementError, r"not deterministic: UUID\(\)"),
        ({"query": "SELECT * FROM t TABLESAMPLE (10 PERCENT)"}, StatementError, "it samples its rows"),
        ({"query": BY_K, "refresh": "sometimes"}, InputError, "refresh 'sometimes' does not exist"),
        ({"query": BY_K, "policy": "half"}, InputError, "policy 'half' does not exist"),
        ({"query": BY_K, "cluster_by": "s"}, SchemaError, "clustered by its group columns: k"),
        ({"query": "SELECT id, k FROM t", "cluster_by": "v"}, SchemaError, 'has no column "v" to be clustered by'),
        (
            {"query": "SELECT k, percentile(v, 0.5) AS p FROM t GROUP BY k", "policy": "incremental"},
            NotMaintainable,
            r'view "v" cannot be maintained incrementally: PERCENTILE\(.*no delta rule\n  hint: .*POLICY AUTO',
        ),
    ],
)
def test_refused_views_leave_nothing(
    tables: vk.Database, arguments: dict[str, Any], error: type[vk.ViewkeeperError], text: str
) -> None:
    before = [spec.name for spec in store_of(tables).tables()]
    with pytest.raises(error, match=text):
        tables.create_view("v", **arguments)
    assert [spec.name for spec in store_of(tables).tables()] == before
    assert (tables.views(), tables.status()) == ([], [])
    assert store_of(tables).records("view/") == {}


def test_a_view_that_cannot_be_filled_leaves_nothing(tables: vk.Database) -> None:
    tables.create_view("good", BY_K)
    tables.table("t").put(row(4, "c", 0))
    with pytest.raises(NotMaintainable, match=r'view "bad" cannot be filled: .*[Dd]ivision by zero'):
        tables.create_view("bad", "SELECT k, MIN(100 / v) AS m FROM t GROUP BY k")
    assert [spec.name for spec in store_of(tables).tables()] == ["good", "t", "u"]
    tables.table("t").delete(4)
    tables.create_view("bad", "SELECT k, MIN(100 / v) AS m FROM t GROUP BY k")
    assert equal(tables)


def test_full_is_a_policy_and_a_way_out(tables: vk.Database) -> None:
    """What stands on a view that is evaluated anew stays incremental: it follows the difference."""
    tables.create_view("by_policy", BY_K, policy="full")
    tables.create_view("by_need", "SELECT k, percentile(v, 0.5) AS p FROM t GROUP BY k")
    tables.create_view("above", "SELECT COUNT(*) AS c, MAX(s) AS m FROM by_policy")
    status = {status.name: (status.strategy, status.reason) for status in tables.status()}
    assert status["by_policy"] == ("full", "policy FULL")
    assert status["by_need"][0] == "full"
    assert "no delta rule" in status["by_need"][1]
    assert status["above"] == ("incremental", "")
    tables.table("t").put([row(4, "c", 7), row(3, "a", 5)])
    report = tables.refresh().views
    assert (report["by_policy"].inserted, report["by_policy"].deleted) == (2, 2)
    assert report["above"].changes == 4
    assert rows(tables.view("above")) == [(2, 35)]
    assert equal(tables)


def test_a_view_is_made_while_others_write(tables: vk.Database) -> None:
    """Nobody waits, nothing is lost: what came too late for the first cut comes with the next."""
    tables.table("t").put([row(key, "abc"[key % 3], key) for key in range(1_000)])
    stop = threading.Event()
    written = []

    def write() -> None:
        for key in range(1_000, 100_000):
            if stop.is_set():
                return
            tables.table("t").put([row(key, "abc"[key % 3], key), row(key % 1_000, "c", key)])
            written.append(key)

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        try:
            tables.create_view("by_k", BY_K)
            tables.create_view("joined", "SELECT t.id, u.w FROM t JOIN u ON t.k = u.k")
            assert equal(tables)
        finally:
            stop.set()
        writing.result()
    tables.refresh()
    assert equal(tables)
    assert sum(found[2] for found in rows(tables.view("by_k"))) == 1_000 + len(written)


def test_indexes_are_shared_and_go_with_their_last_user(tables: vk.Database) -> None:
    tables.create_view("one", "SELECT t.id, u.w FROM t JOIN u ON t.k = u.k")
    [index] = hidden(tables)
    assert tables._store.table(index).key == ("k", "id")
    tables.create_view("two", "SELECT u.k, t.id FROM u LEFT JOIN t ON t.k = u.k")
    tables.create_view("three", "SELECT k, MIN(v) AS lo FROM t GROUP BY k")
    assert len(hidden(tables)) == 2
    tables.drop("three")
    tables.drop("one")
    assert hidden(tables) == {index}
    tables.table("t").put(row(9, "b", 1))
    tables.refresh()
    assert equal(tables)
    tables.drop("two")
    assert hidden(tables) == set()


def test_indexes_of_similar_columns_are_different(db: vk.Database) -> None:
    """(a, b_c) and (a_b, c) are different columns, whatever their names look like side by side."""
    db.execute("CREATE TABLE one (id BIGINT PRIMARY KEY, a BIGINT, b_c BIGINT, a_b BIGINT, c BIGINT)")
    db.execute("CREATE TABLE two (id BIGINT PRIMARY KEY, a BIGINT, b_c BIGINT, a_b BIGINT, c BIGINT)")
    columns = ("id", "a", "b_c", "a_b", "c")
    db.table("two").put([dict(zip(columns, values, strict=True)) for values in [(1, 1, 2, 3, 4), (2, 3, 4, 1, 2)]])
    join = "SELECT one.id, two.id AS other FROM one JOIN two ON one.{0} = two.{0} AND one.{1} = two.{1}"
    db.create_view("first", join.format("a", "b_c"))
    db.create_view("second", join.format("a_b", "c"))
    db.table("one").put(dict(zip(columns, (7, 1, 2, 1, 2), strict=True)))
    db.refresh()
    assert (rows(db.view("first")), rows(db.view("second"))) == ([(7, 1)], [(7, 2)])
    assert equal(db)


# Refreshing


def test_history_does_not_grow_by_epochs_that_are_undone(tables: vk.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintainer, "KEPT_HISTORY", 2)
    tables.create_view("by_k", BY_K)
    store = store_of(tables)
    for key in range(10, 16):
        store.undo("on demand", store.begin("on demand", {}, 1_000).epoch, 1_000)
        tables.table("t").put(row(key, "a", key))
        tables.refresh()
    assert len(tables.history()) == 2
    assert tables.history()[-1].epoch == store.group("on demand").committed.epoch


def test_reports_history_and_status(tables: vk.Database) -> None:
    tables.create_view("by_k", BY_K)
    tables.create_view("above", "SELECT COUNT(*) AS c FROM by_k WHERE n > 1")
    tables.table("t").put([row(1, "a", 11), row(4, "c", 1)])
    tables.table("t").delete(3)
    assert [status.waiting for status in tables.status()] == [3, 3]
    before = tables.view("by_k").status().epoch
    refreshed = tables.refresh("by_k")
    [epoch] = refreshed.epochs
    assert (epoch.group, epoch.epoch, set(epoch.cut)) == ("on demand", before + 1, {"t"})
    assert epoch.cut["t"] == store_of(tables).positions("t")
    assert epoch.seconds >= sum(view.seconds for view in epoch.views) > 0
    assert epoch.jobs == sum(view.jobs for view in epoch.views) > 0
    report = refreshed.views["by_k"]
    assert (report.strategy, report.changes, report.error) == ("incremental", 4, None)
    assert (report.inserted, report.updated, report.deleted) == (1, 1, 1)
    assert refreshed.failed == {}
    assert tables.history()[-1] == epoch
    assert [past.epoch for past in tables.history("above")] == list(range(1, before + 2))
    status = tables.view("by_k").status()
    assert (status.name, status.group, status.epoch, status.waiting) == ("by_k", "on demand", before + 1, 0)
    assert (status.last, status.failure) == (report, None)


def test_nothing_to_do_costs_nothing(tables: vk.Database) -> None:
    tables.create_view("by_k", BY_K)
    actions, epochs = tables._spark.actions, tables.history()
    reports = [tables.refresh().epochs[0] for _ in range(3)]
    report = min(reports, key=lambda one: one.seconds)
    assert report.seconds < 0.1
    assert (report.epoch, report.mode, report.jobs, report.views) == (None, "none", 0, ())
    assert (tables._spark.actions, tables.history()) == (actions, epochs)
    tables.table("u").put({"k": "z", "w": 0})
    assert tables.refresh().epochs[0].epoch is None, "no view reads u"


def test_an_epoch_that_changes_nothing_runs_no_job(tables: vk.Database) -> None:
    """An update and its undoing cancel out before anything is computed."""
    tables.create_view("by_k", BY_K)
    tables.table("t").put(row(1, "z", 99))
    tables.table("t").put(row(1, "a", 10))
    [report] = tables.refresh().epochs
    assert report.epoch is not None
    assert (report.jobs, report.views[0].changes) == (0, 0)
    assert tables.refresh().epochs[0].epoch is None


def test_views_of_a_group_are_at_one_cut(tables: vk.Database) -> None:
    """While somebody writes and somebody refreshes, a reader of two views sees one state of the tables."""
    tables.create_view("total", "SELECT SUM(v) AS s, COUNT(*) AS n FROM t")
    tables.create_view("mirror", "SELECT id, v FROM t")
    stop = threading.Event()

    def write() -> None:
        key = 100
        while not stop.is_set():
            tables.table("t").put(row(key, "a", key))
            key += 1

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        try:
            for _ in range(4):
                tables.refresh()
                with tables.snapshot() as at:
                    [(total, count)] = rows(at.view("total"))
                    mirror = at.view("mirror").scan()
                    assert (total, count) == (sum(mirror["v"].to_pylist()), mirror.num_rows)
                    assert mirror.num_rows == at.table("t").scan().num_rows
        finally:
            stop.set()
        writing.result()
    assert equal(tables)


def test_groups_are_refreshed_apart(tables: vk.Database) -> None:
    tables.create_view("slow", BY_K, refresh="every 60 seconds")
    tables.create_view("fast", BY_K)
    tables.create_view("other", "SELECT SUM(w) AS s FROM u", refresh="every 60 seconds")
    tables.table("t").put(row(4, "c", 1))
    tables.table("u").put({"k": "c", "w": 3})
    assert [epoch.group for epoch in tables.refresh("fast").epochs] == ["on demand"]
    assert len(rows(tables.view("fast"))) == 3
    assert len(rows(tables.view("slow"))) == 2
    with tables.snapshot() as at:
        assert rows(at.view("other")) == [(3,)]
        assert at.table("u").scan().num_rows == 2, "one group reads u: it is where that group is"
        assert at.table("t").scan().num_rows == 4, "two groups read t: it is as it is"
    assert len(tables.refresh().epochs) == 2
    assert rows(tables.view("slow")) == rows(tables.view("fast"))
    assert equal(tables)


def test_threads_refresh_one_after_the_other(tables: vk.Database) -> None:
    tables.create_view("by_k", BY_K)

    def work(number: int) -> None:
        for turn in range(4):
            tables.table("t").put(row(100 * number + turn, "abc"[turn % 3], number))
            tables.refresh()

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(1, 4)))
    assert tables.view("by_k").status().waiting == 0
    assert equal(tables)
    epochs = [past.epoch for past in tables.history()]
    assert epochs == sorted(set(epochs), key=lambda epoch: epoch or 0)


def test_a_cut_never_goes_back(tables: vk.Database, spark: SparkSession) -> None:
    """A refresh that waited for another one takes its cut when it leads, not when it began to wait."""
    tables.create_view("by_k", BY_K)
    tables.table("t").put(row(4, "c", 1))
    with vk.open(store_of(tables)._files.folder, spark=spark, durability="off") as other, ThreadPoolExecutor(1) as pool:
        with other._maintainer.leadership.of("on demand") as lease:
            waiting = pool.submit(tables.refresh)
            while not (waiting.done() or _wants_to_lead(tables)):
                time.sleep(0.01)
            tables.table("t").put(row(5, "c", 1))
            report = other._maintainer._epoch("on demand", lease, time.perf_counter())
        late = waiting.result()
    assert all(late.epochs[0].cut["t"][i] >= position for i, position in enumerate(report.cut["t"]))
    tables.table("t").put(row(6, "c", 1))
    tables.refresh()
    assert rows(tables.view("by_k")) == [("a", 30, 2), ("b", 5, 1), ("c", 3, 3)]
    assert equal(tables)


def _wants_to_lead(db: vk.Database) -> bool:
    return not all(_is_free(lock) for lock in db._maintainer.leadership._locks.copy().values())


def _is_free(lock: threading.RLock) -> bool:
    free = lock.acquire(blocking=False)
    if free:
        lock.release()
    return free


def test_a_leader_at_work_keeps_its_lease(tables: vk.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long its epoch takes; and what it held is free at once when it ends."""
    monkeypatch.setattr(leadership, "SECONDS", 0.4)
    store, now = store_of(tables), [time.time()]
    store.create_group("g")
    leases: queue.SimpleQueue[Lease] = queue.SimpleQueue()
    renew = store.renew

    def renewing(lease: Lease, seconds: float) -> Lease:
        renewed = renew(lease, seconds)
        leases.put(renewed)
        return renewed

    monkeypatch.setattr(store, "renew", renewing)
    monkeypatch.setattr(time, "time", lambda: now[0])
    one, two = Leadership(store), Leadership(store, timeout=0.0)
    with one.of("g"):
        for _ in range(3):
            now[0] += 0.3
            while leases.get(timeout=TIMEOUT).expires < now[0] + 0.4:
                pass  # this renewal looked at the clock before
        with pytest.raises(Busy, match='group "g" is being maintained by another process'), two.of("g"):
            pass
    with two.of("g") as lease:
        assert lease.holder == two.holder


def test_an_interrupt_while_the_lease_begins_to_be_kept_gives_it_back(
    tables: vk.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found: it left a thread that renewed the lease for the life of the process, and nobody could lead any more."""
    start = threading.Thread.start

    def interrupted(self: threading.Thread) -> None:
        start(self)
        raise KeyboardInterrupt

    store = store_of(tables)
    store.create_group("g")
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt), Leadership(store).of("g"):
            pass
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("lease of")]
    with Leadership(store, timeout=0.0).of("g"):
        pass


def test_an_interrupt_before_the_lease_begins_to_be_kept_gives_it_back(
    tables: vk.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(tables)
    store.create_group("g")
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", _interrupt)
        with pytest.raises(KeyboardInterrupt), Leadership(store).of("g"):
            pass
    with Leadership(store, timeout=0.0).of("g"):
        pass


def test_an_interrupt_right_after_its_turn_has_come_leaves_the_turn_to_other_threads(tables: vk.Database) -> None:
    """Found: the lock stayed taken."""
    store = store_of(tables)
    store.create_group("g")
    leader, lock = Leadership(store, timeout=0.0), threading.RLock()
    leader._locks["g"] = InterruptedLock(lock)  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt), leader.of("g"):
        pass
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(_is_free, lock).result(TIMEOUT)


def test_a_thread_whose_turn_does_not_come_leaves_it_to_the_one_that_has_it(tables: vk.Database) -> None:
    store = store_of(tables)
    store.create_group("g")
    leader = Leadership(store, timeout=0.0)

    def lead() -> None:
        with leader.of("g"):
            pass

    with ThreadPoolExecutor(1) as pool:
        with leader.of("g"):
            for _ in range(2):
                with pytest.raises(Busy):
                    pool.submit(lead).result(TIMEOUT)
        pool.submit(lead).result(TIMEOUT)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


class InterruptedLock:
    """An interrupt comes as soon as it is taken."""

    def __init__(self, lock: threading.RLock) -> None:
        self.lock, self.release = lock, lock.release

    def acquire(self, timeout: float) -> bool:
        assert self.lock.acquire(timeout=timeout)
        raise KeyboardInterrupt


# Reading


def test_a_snapshot_is_held_while_epochs_go_on(tables: vk.Database) -> None:
    tables.create_view("by_k", BY_K)
    tables.create_view("bag", "SELECT k FROM t")
    tables.table("t").put(row(4, "z", 1))
    with tables.snapshot() as at:
        before = (rows(at.view("by_k")), rows(at.view("bag")), rows(at.table("t")))
        assert rows(at.view("bag")) == [("a",), ("a",), ("b",)]
        assert at.table("t").get(4) is None, "the views have not seen it"
        for turn in range(3):
            tables.table("t").put([row(1, "a", turn), row(10 + turn, "b", 1)])
            tables.refresh()
            assert (rows(at.view("by_k")), rows(at.view("bag")), rows(at.table("t"))) == before
        sums: dict[str, int] = {}
        for found in at.table("t").scan().to_pylist():
            sums[found["k"]] = sums.get(found["k"], 0) + found["v"]
        assert {k: s for k, s, _ in rows(at.view("by_k"))} == sums
        assert tables.trim(keep_seconds=0) > 0
        for read in (at.view("by_k"), at.view("bag"), at.table("t")):
            with pytest.raises(SnapshotTooOld, match=f'"{read.name}" cannot be read'):
                read.scan()
    with tables.snapshot() as at:
        assert len(rows(at.view("bag"))) == 7


def test_a_snapshot_does_not_remember_dropped_views(tables: vk.Database) -> None:
    """Where a view was in a table that it no longer reads, or in another one of that name, is nobody's point in time."""
    tables.create_view("by_k", BY_K)
    tables.create_view("of_u", "SELECT SUM(w) AS s FROM u")
    tables.drop("by_k")
    tables.table("t").put(row(4, "z", 1))
    assert len(rows(tables.snapshot().table("t"))) == 4
    tables.drop("t")
    tables.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, k STRING, v BIGINT)")
    tables.table("t").put([row(key, "q", 1) for key in range(20)])
    tables.table("t").put([row(key, "q", 1) for key in range(20, 40)])
    assert len(rows(tables.snapshot().table("t"))) == 40
    tables.create_view("by_k", BY_K)
    assert rows(tables.view("by_k")) == [("q", 40, 40)]


def test_logs_that_no_view_follows_can_be_trimmed(tables: vk.Database) -> None:
    tables.create_view("by_k", BY_K)
    tables.table("t").put(row(4, "c", 1))
    tables.trim(keep_seconds=0)
    tables.refresh()
    assert equal(tables)
    tables.table("t").put(row(5, "c", 1))
    tables.drop("by_k")
    assert tables.trim(keep_seconds=0) > 0
    tables.create_view("by_k", BY_K)
    assert equal(tables)


def test_changes_since_an_epoch(tables: vk.Database) -> None:
    tables.create_view("by_k", BY_K)
    tables.create_view("bag", "SELECT k FROM t")
    since = tables.view("by_k").status().epoch
    tables.table("t").put([row(4, "b", 1), row(5, "b", 1)])
    tables.refresh()
    tables.table("t").delete([1, 2])
    tables.refresh()
    found = tables.view("by_k").changes(since=since)
    assert found.schema.names == ["epoch", "weight", "k", "s", "n"]
    assert [tuple(change.values()) for change in found.to_pylist()] == [
        (since + 1, -1, "b", 5, 1),
        (since + 1, 1, "b", 7, 3),
        (since + 2, -1, "a", 30, 2),
    ]
    weights = [tuple(change.values())[1:] for change in tables.view("bag").changes(since=since).to_pylist()]
    assert weights == [(2, "b"), (-2, "a")]
    assert tables.view("by_k").changes(since=since + 2).num_rows == 0


def test_changes_lead_nowhere_from_before_the_view_was_made(tables: vk.Database) -> None:
    """A copy from then is of another view of that name: "a" left it with its table's rows, in no epoch of this one."""
    tables.create_view("by_k", BY_K)
    before = tables.view("by_k").status().epoch
    tables.table("t").delete([1, 2])
    tables.drop("by_k")
    tables.create_view("by_k", BY_K)
    made = tables.view("by_k").status().epoch
    for view in (tables.view("by_k"), tables.snapshot().view("by_k")):
        with pytest.raises(SnapshotTooOld, match=f"no changes since epoch {before}: it was made in epoch {made}"):
            view.changes(since=before)
        assert [tuple(change.values()) for change in view.changes(since=0).to_pylist()] == [(made, 1, "b", 5, 1)]
        assert view.changes(since=made).num_rows == 0


def test_get_find_and_scan(tables: vk.Database) -> None:
    tables.create_view("by_k", BY_K)
    tables.create_view("arranged", "SELECT id, k, v FROM t", cluster_by="k")
    tables.create_view("bag", "SELECT k, v > 5 AS big FROM t")
    assert tables.view("by_k").get("a") == {"k": "a", "s": 30, "n": 2}
    assert tables.view("by_k").get("z") is None
    assert tables.view("arranged").find("a").to_pydict() == {"id": [1, 2], "k": ["a", "a"], "v": [10, 20]}
    assert tables.view("arranged").get(("b", 3)) == row(3, "b", 5)
    bag = tables.view("bag")
    assert rows(bag) == [("a", True), ("a", True), ("b", False)]
    assert bag.scan(limit=1).num_rows == 1
    assert bag.scan(limit=10**30).num_rows == bag.scan().num_rows
    assert bag.schema == pa.schema({"k": pa.string(), "big": pa.bool_()})
    assert bag.scan(columns=["k"]).to_pydict() == {"k": ["a", "a", "b"]}
    with pytest.raises(NotFound, match='has no column "nope"'):
        bag.scan(columns=["nope"])


def test_the_rows_under_null_are_found_like_any_others(tables: vk.Database) -> None:
    tables.table("t").put(row(4, None, 1))
    view = tables.create_view("by_k", BY_K)
    assert view.find(None).to_pylist() == view.find((None,)).to_pylist() == [view.get(None)]
    assert view.get(None) == {"k": None, "s": 1, "n": 1}


def test_dataframes_and_sql(tables: vk.Database) -> None:
    tables.create_view("by_k", BY_K)
    tables.create_view("bag", "SELECT k FROM t")
    frame = tables.view("by_k").dataframe()
    assert frame.columns == ["k", "s", "n"]
    assert sorted(map(tuple, frame.where("n > 1").collect())) == [("a", 30, 2)]
    joined = tables.sql("SELECT b.k, u.w, COUNT(*) AS c FROM bag b JOIN u ON b.k = u.k GROUP BY b.k, u.w")
    assert sorted(map(tuple, joined.collect())) == [("a", 1, 2), ("b", 2, 1)]
    tables.table("t").put(row(4, "c", 1))
    assert sorted(map(tuple, frame.select("k").collect())) == [("a",), ("b",)], "it is what was committed"
    with pytest.raises(NotFound, match='table or view "nowhere" does not exist'):
        tables.sql("SELECT * FROM nowhere")


# Failures


# Proof


Damage = Callable[[Any], None]


@pytest.mark.parametrize(
    ("damage", "missing", "extra", "mended"),
    [
        pytest.param("UPDATE rows SET v0 = v0 + 1", 1, 1, (0, 1, 0), id="value"),
        pytest.param("DELETE FROM rows", 1, 0, (1, 0, 0), id="deleted"),
        pytest.param("INSERT INTO rows SELECT 'q', v0, v1, v2, v3 FROM rows", 0, 1, (0, 0, 1), id="added"),
    ],
)
def test_verify_finds_damage_and_repair_mends_it(
    tables: vk.Database, damage: str, missing: int, extra: int, mended: tuple[int, int, int]
) -> None:
    """Writers and the other views go on as if nothing had happened."""
    tables.create_view("by_k", "SELECT k, SUM(v) AS s FROM t GROUP BY k", regions=1)
    tables.create_view("other", "SELECT k, MAX(v) AS m FROM t GROUP BY k")
    tables.table("t").delete(3)
    tables.refresh()
    assert tables.verify("by_k").equal
    width = len(store_of(tables).table("by_k").values)
    with file_with_rows(tables, "by_k") as connection:
        connection.execute(damage.replace("v0, v1, v2, v3", ", ".join(f"v{i}" for i in range(width))))
    tables.table("t").put(row(9, "c", 1))
    found = tables.verify("by_k")
    assert (found.equal, found.missing, found.extra) == (False, missing, extra)
    assert sorted(example["side"] for example in found.examples) == ["extra"] * extra + ["missing"] * missing
    assert tables.verify("other").equal
    others = store_of(tables).positions("other")

    report = tables.repair("by_k")
    assert (report.inserted, report.updated, report.deleted) == mended
    assert rows(tables.view("by_k")) == [("a", 30)]
    assert store_of(tables).positions("other") == others
    assert equal(tables)
    tables.refresh()
    assert rows(tables.view("by_k")) == [("a", 30), ("c", 1)]
    assert equal(tables)


def test_damage_that_a_refresh_stumbles_on_stops_that_view_alone(tables: vk.Database) -> None:
    """A bag that lost a row cannot give it away. The others go on, and the next refresh builds the view anew."""
    tables.create_view("bag", "SELECT k FROM t", regions=1)
    tables.create_view("by_k", BY_K)
    with file_with_rows(tables, "bag") as connection:
        connection.execute("DELETE FROM rows")
    tables.table("t").delete(3)
    report = tables.refresh()
    assert set(report.failed) == {"bag"}
    assert "fewer than no copies" in str(tables.view("bag").status().failure)
    assert rows(tables.view("by_k")) == [("a", 30, 2)]
    assert tables.refresh().failed == {}
    assert rows(tables.view("bag")) == [("a",), ("a",)]
    assert equal(tables)


def test_repair_mends_indexes_too(tables: vk.Database) -> None:
    tables.create_view("joined", "SELECT t.id, u.w FROM t JOIN u ON t.k = u.k", regions=1)
    [index] = hidden(tables)
    with file_with_rows(tables, index) as connection:
        connection.execute("DELETE FROM rows")
    tables.table("u").put({"k": "a", "w": 100})
    tables.refresh()
    assert not tables.verify("joined").equal
    tables.repair("joined")
    assert equal(tables)
    tables.table("u").put({"k": "a", "w": 200})
    tables.refresh()
    assert rows(tables.view("joined")) == [(1, 200), (2, 200), (3, 2)]
    assert equal(tables)


# What a dead process left


def test_a_half_dropped_view_does_not_hold_its_name(tables: vk.Database) -> None:
    """Its record went first; then its process died, before the tables went."""
    tables.create_view("v", BY_K, refresh="every 5 seconds")
    tables.create_view("w", "SELECT k, MIN(v) AS lo FROM t GROUP BY k")
    for name in ("v", "w"):
        store_of(tables).put_record(f"view/{name}", None)
    with pytest.raises(NotFound, match='view "v" does not exist'):
        tables.view("v")
    for name in ("v", "w"):
        tables.create_view(name, BY_K)
    assert {spec.name for spec in store_of(tables).tables()} == {"t", "u", "v", "w"}
    assert equal(tables)


def test_two_processes_maintain_one_database(tables: vk.Database) -> None:
    """Definitions survive; both write and refresh as they like; together they lose nothing and count nothing twice."""
    tables.create_view("by_k", BY_K)
    tables.create_view("joined", "SELECT t.id, u.w FROM t JOIN u ON t.k = u.k")
    tables.create_view("least", "SELECT k, MIN(v) AS lo, MAX(v) AS hi FROM t GROUP BY k")
    script = Path(__file__).with_name("refreshing_child.py")
    children = [start(script, store_of(tables)._files.folder, number) for number in (1, 2)]
    for child in children:
        code, said, complaint = ended(child)
        assert (code, said) == (0, ["done"]), complaint
    tables.refresh()
    assert equal(tables)
    assert sum(found[2] for found in rows(tables.view("by_k"))) == 3 + 2 * 100
    cuts = [past.cut["t"] for past in tables.history()]
    moves = [move for before, after in pairwise(cuts) for move in zip(before, after, strict=True)]
    assert all(one <= two for one, two in moves)


def test_changes_of_a_view_that_is_made_again_under_another_schedule(tables: vk.Database) -> None:
    """Found: epochs were counted by schedule, so that an old one could pass for one of the new view's."""
    tables.create_view("w", "SELECT id, v FROM t")
    for number in range(5):
        tables.table("t").put(row(10 + number, "c", number))
        tables.refresh()
    epoch = tables.view("w").status().epoch
    tables.drop("w")
    view = tables.create_view("w", "SELECT id, v * 10 AS v FROM t", refresh="every 1000 seconds")
    with pytest.raises(vk.SnapshotTooOld, match=f'view "w" has no changes since epoch {epoch}: it was made in'):
        view.changes(since=epoch)
    now = view.status().epoch
    assert view.changes(since=now).num_rows == 0
    with pytest.raises(vk.InputError, match=f"is at epoch {now}, and has not come to {now + 1}"):
        view.changes(since=now + 1)


def test_both_zeros_are_found_by_either(tables: vk.Database) -> None:
    """Found: rows with -0.0 were not found by 0.0, nor the group of both by -0.0."""
    tables.execute("CREATE TABLE z (id BIGINT PRIMARY KEY, d DOUBLE)")
    tables.table("z").put([{"id": 1, "d": -0.0}, {"id": 2, "d": 0.0}, {"id": 3, "d": 1.0}, {"id": 4, "d": -1.0}])
    groups = tables.create_view("groups", "SELECT d, COUNT(*) AS n FROM z GROUP BY d")
    clustered = tables.create_view("clustered", "SELECT id, d FROM z", cluster_by="d")
    bag = tables.create_view("bag", "SELECT d, 1 AS one FROM z", cluster_by="d")
    with tables.snapshot() as at:
        for zero in (0.0, -0.0):
            for view in (groups, at.view("groups")):
                assert view.get(zero) == {"d": 0.0, "n": 2}
                assert view.find(zero)["n"].to_pylist() == [2]
            for view in (clustered, at.view("clustered")):
                assert view.find(zero)["id"].to_pylist() == [1, 2]
                assert view.scan(prefix=zero, limit=1)["id"].to_pylist() == [1]
                assert view.get((zero, 1)) == {"id": 1, "d": 0.0}
                assert view.scan(zero)["id"].to_pylist() == [1, 2, 3]
                assert view.scan(stop=zero)["id"].to_pylist() == [4]
            for view in (bag, at.view("bag")):
                assert view.find(zero).num_rows == 2
