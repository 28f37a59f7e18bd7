"""Views that a row has stopped: what they show meanwhile, and how they take up again what they have missed."""

from __future__ import annotations

import pytest
from small import BY_K, equal, row, rows
from support import file_with_rows, store_of

import viewkeeper as vk
from viewkeeper.engine.epoch import FROM_SCRATCH
from viewkeeper.store.contract import Kind

NESTED = (
    "SELECT n, SUM(s) DIV (MIN(s) - 7) AS q FROM (SELECT k, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY k) GROUP BY n"
)
"""Its inner block is brought to the epoch before the outer one fails, where a group's sum is 7."""


class Died(BaseException):
    """In place of a process that dies."""


def dies(*_: object) -> None:
    raise Died


def test_a_failing_view_stops_alone(tables: vk.Database) -> None:
    tables.create_view("good", BY_K)
    tables.create_view("bad", "SELECT id, 100 / v AS q FROM t")
    tables.create_view("above", "SELECT COUNT(*) AS c FROM bad")
    tables.table("t").put([row(4, "c", 0), row(1, "a", 50)])
    report = tables.refresh()
    assert set(report.failed) == {"bad", "above"}
    assert "zero" in report.failed["bad"]
    assert rows(tables.view("good")) == [("a", 70, 2), ("b", 5, 1), ("c", 0, 1)]
    assert rows(tables.view("bad")) == [(1, 10.0), (2, 5.0), (3, 20.0)], "it stays where it was"
    failures = {status.name: status.failure for status in tables.status()}
    assert failures["good"] is None
    assert "zero" in str(failures["bad"])
    assert failures["above"] == 'view "above" waits for "bad", which stopped'
    assert equal(tables), "each at its own cut"

    tables.table("t").put(row(5, "c", 1))
    assert set(tables.refresh().failed) == {"bad", "above"}
    assert tables.verify("good").equal
    statuses = {status.name: status for status in tables.status()}
    assert [statuses[name].waiting for name in ("good", "bad", "above")] == [0, 3, 3], "what it has not taken in"
    assert statuses["good"].lag == 0 < statuses["bad"].lag

    tables.table("t").put(row(4, "c", 4))
    report = tables.refresh()
    assert report.failed == {}
    assert report.views["bad"].strategy == "incremental"
    assert (report.views["bad"].inserted, report.views["bad"].updated) == (2, 1), "what it has missed"
    assert [(status.failure, status.waiting) for status in tables.status()] == [(None, 0)] * 3
    assert rows(tables.view("above")) == [(5,)]
    assert equal(tables)
    tables.table("t").put(row(6, "c", 5))
    assert tables.refresh().views["bad"].strategy == "incremental"
    assert equal(tables)


def test_a_mended_view_is_mended_even_if_the_epoch_is_run_twice(
    tables: vk.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A maintainer that dies before its commit must leave the failure to the one that runs the epoch again."""
    tables.create_view("bad", "SELECT 100 / v AS q FROM t")
    tables.table("t").put([row(4, "c", 0), row(1, "a", 50)])
    assert set(tables.refresh().failed) == {"bad"}
    tables.table("t").delete([4, 2])

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(store_of(tables), "commit", dies)
        with pytest.raises(KeyboardInterrupt):
            tables.refresh()
    assert tables.view("bad").status().failure is not None
    assert tables.refresh().failed == {}
    assert rows(tables.view("bad")) == [(2.0,), (20.0,)]
    assert equal(tables)


def test_a_view_that_would_have_stopped_in_an_epoch_that_was_undone_has_not(tables: vk.Database) -> None:
    """Found: it was on record as stopped, and from the next commit on those above it waited for it."""
    tables.create_view("q", "SELECT id, 100 DIV v AS q FROM t")
    tables.create_view("other", "SELECT k FROM u")
    tables.create_view("above", "SELECT q, COUNT(*) AS n FROM q GROUP BY q", refresh="every 1000 seconds")
    tables.table("t").put(row(4, "c", 0))
    with pytest.raises(vk.NotMaintainable):
        tables.create_view("never", "SELECT 7 DIV v AS r FROM t")
    assert [status.failure for status in tables.status()] == [None] * 3
    tables.table("t").put(row(4, "c", 4))
    tables.drop("other")
    assert store_of(tables).records("stop/") == {}
    assert tables.refresh("above").failed == {}
    assert tables.refresh().failed == {}
    assert equal(tables)
    tables.table("t").put(row(4, "c", 0))
    assert set(tables.refresh().failed) == {"q", "above"}
    assert equal(tables)


@pytest.mark.parametrize("query", [BY_K, NESTED])
@pytest.mark.parametrize("moment", ["commit", "withdraw"])
@pytest.mark.parametrize("times", [1, 2])
def test_an_epoch_in_which_a_view_stops_may_be_run_twice(
    tables: vk.Database, monkeypatch: pytest.MonkeyPatch, query: str, moment: str, times: int
) -> None:
    """What the first run has taken back, the second one must not take for all that there is."""
    tables.create_view("v", query)
    before = rows(tables.view("v"))
    for turn in range(times):
        tables.table("t").put([row(4, "c", 7), row(5, "d", 2**63 - 1), row(6, "d", 10 + turn), row(7, "b", turn)])
        with monkeypatch.context() as patched:
            patched.setattr(store_of(tables), moment, dies)
            with pytest.raises(Died):
                tables.refresh()
        assert set(tables.refresh().failed) == {"v"}
        assert rows(tables.view("v")) == before
    tables.table("t").delete([4, 5])
    report = tables.refresh()
    assert (report.failed, report.views["v"].strategy) == ({}, "incremental")
    assert equal(tables)
    tables.table("t").put(row(8, "c", 1))
    tables.refresh()
    assert equal(tables)


def test_a_record_that_outlives_its_view_s_return_does_no_harm(
    tables: vk.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a process dies after its commit; or one that slept puts it there again, who is not told what came since."""
    tables.create_view("v", BY_K)
    tables.table("t").put([row(4, "c", 2**63 - 1), row(5, "c", 1), row(6, "a", 1)])
    assert set(tables.refresh().failed) == {"v"}
    catalog = tables._maintainer.catalog
    old = catalog.stop("v")
    tables.table("t").delete(4)
    with monkeypatch.context() as patched:
        patched.setattr(type(tables._maintainer), "recorded", dies)
        with pytest.raises(Died):
            tables.refresh()
    assert equal(tables)
    tables.table("t").put(row(7, "a", 1))
    assert tables.refresh().views["v"].strategy == "incremental"
    assert equal(tables)
    catalog.set_stop("v", lambda _: old)
    tables.table("t").put(row(8, "a", 1))
    assert tables.refresh().views["v"].strategy == FROM_SCRATCH
    assert equal(tables)


def test_what_the_logs_no_longer_tell_is_made_anew(tables: vk.Database) -> None:
    tables.create_view("joined", "SELECT t.id, 100 DIV t.v AS q, u.w FROM t JOIN u ON t.k = u.k")
    tables.create_view("sums", BY_K)
    for turn in range(3):
        tables.table("t").put([row(4, "a", 0), row(5 + turn, "b", 3)])
        assert set(tables.refresh().failed) == {"joined"}
    assert tables.trim(keep_seconds=0) > 0
    tables.table("t").delete([4, 5])
    report = tables.refresh()
    assert {name: view.strategy for name, view in report.views.items()} == {
        "joined": FROM_SCRATCH,
        "sums": "incremental",
    }
    assert equal(tables)


def test_an_index_that_was_made_meanwhile_knows_nothing_of_the_time_before(tables: vk.Database) -> None:
    """A wider one takes the place of the view's own when another view needs more columns. Then a change of u looks into it."""
    tables.create_view("joined", "SELECT t.id, 100 DIV u.w AS q FROM t JOIN u ON t.k = u.k", policy="incremental")
    tables.table("u").put([{"k": "a", "w": 0}, {"k": "c", "w": 4}])
    tables.table("t").put([row(4, "c", 1), row(5, "a", 2)])
    assert set(tables.refresh().failed) == {"joined"}
    narrow = {spec.name for spec in store_of(tables).tables() if spec.kind is Kind.INDEX}
    tables.create_view("wide", "SELECT t.id, t.v, u.w FROM t JOIN u ON t.k = u.k", policy="incremental")
    assert {spec.name for spec in store_of(tables).tables() if spec.kind is Kind.INDEX} != narrow
    tables.table("u").put({"k": "a", "w": 50})
    tables.table("t").delete(1)
    report = tables.refresh()
    assert (report.failed, report.views["joined"].strategy) == ({}, FROM_SCRATCH)
    assert equal(tables)


def test_an_index_that_was_dropped_and_made_again_meanwhile_does_not_either(db: vk.Database) -> None:
    """Found: it has the name of the one that the view had when it stopped, and was taken for it."""
    db.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, x INT, a INT, b INT, c INT)")
    db.execute("CREATE TABLE u (x INT PRIMARY KEY, y INT)")
    db.table("t").put([{"id": n, "x": n % 3, "a": n, "b": n, "c": n} for n in range(6)])
    db.table("u").put([{"x": x, "y": 1} for x in range(3)])

    def shown(view: str, column: str) -> set[str]:
        """Make a view that needs one column more; the indexes that are there then."""
        db.create_view(view, f"SELECT u.x, t.id, t.{column} FROM u JOIN t ON u.x = t.x")
        return {spec.name for spec in store_of(db).tables() if spec.kind is Kind.INDEX}

    db.create_view("sums", "SELECT u.x, SUM(t.a DIV u.y) AS s FROM u JOIN t ON u.x = t.x GROUP BY u.x")
    had = shown("first", "b")
    db.table("u").put({"x": 0, "y": 0})
    assert set(db.refresh().failed) == {"sums"}
    db.drop("first")
    assert shown("second", "c") != had
    db.drop("second")
    assert shown("third", "b") == had
    db.table("u").put([{"x": 0, "y": 2}, {"x": 1, "y": 3}])
    report = db.refresh()
    assert (report.failed, report.views["sums"].strategy) == ({}, FROM_SCRATCH)
    assert equal(db)


@pytest.mark.parametrize("tasks", [False, True])
def test_a_stopped_join_meets_what_changed_on_both_sides(tables: vk.Database, tasks: bool) -> None:
    """Its index is seen as it was when the view stopped, three epochs ago."""
    if tasks:
        tables._maintainer.tasks_from = 0
    tables.create_view("joined", "SELECT t.id, t.v, 100 DIV (t.v + u.w) AS q FROM t JOIN u ON t.k = u.k")
    tables.create_view("above", "SELECT v % 2 AS odd, SUM(q) AS s, MIN(q) AS lo FROM joined GROUP BY v % 2")
    tables.create_view("other", "SELECT t.id, t.v, u.w FROM t JOIN u ON t.k = u.k")
    for turn in range(3):
        tables.table("t").put([row(4, "a", -1), row(5, "b", turn), row(1, "ba"[turn % 2], 10), row(6 + turn, "a", 3)])
        tables.table("u").put({"k": "b", "w": 2 + turn})
        assert set(tables.refresh().failed) == {"joined", "above"}
    tables.table("t").delete([4, 6])
    report = tables.refresh()
    assert report.failed == {}
    assert {view.strategy for view in report.views.values()} == {"incremental"}
    assert equal(tables)
    tables.table("u").put({"k": "a", "w": 9})
    tables.refresh()
    assert equal(tables)


def test_a_view_stays_stopped_when_nothing_is_left_of_what_it_missed(tables: vk.Database) -> None:
    """No change in the log is not the same as no change."""
    tables.create_view("bad", "SELECT id, 100 / v AS q FROM t")
    tables.table("t").put([row(4, "c", 0), row(1, "a", 50)])
    tables.refresh()
    assert tables.trim(keep_seconds=0) > 0
    assert set(tables.refresh().failed) == {"bad"}
    tables.table("t").delete(4)
    assert tables.refresh().failed == {}
    assert rows(tables.view("bad")) == [(1, 2.0), (2, 5.0), (3, 20.0)]
    assert equal(tables)


def test_a_view_that_a_change_of_another_table_mends_has_not_lost_the_first_one(tables: vk.Database) -> None:
    tables.create_view(
        "q",
        "SELECT s.k, 100 DIV (s.n + u.w) AS q FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) AS s JOIN u ON s.k = u.k",
    )
    tables.table("u").put({"k": "a", "w": -3})
    tables.refresh()
    tables.table("t").put(row(4, "a", 1))
    assert set(tables.refresh().failed) == {"q"}
    assert tables.trim(keep_seconds=0) > 0
    tables.table("u").put({"k": "a", "w": 10})
    assert tables.refresh().failed == {}
    assert equal(tables)


def test_what_stands_on_a_view_that_was_damaged_is_made_anew(tables: vk.Database) -> None:
    """In its group and in others: what mends the view is in its log, and they had never seen what was wrong with it."""
    tables.create_view("bag", "SELECT k FROM t", regions=1)
    tables.create_view("beside", "SELECT COUNT(*) AS n FROM bag")
    tables.create_view("above", "SELECT k, COUNT(*) AS n FROM bag GROUP BY k", refresh="every 60 seconds")
    tables.create_view("top", "SELECT SUM(n) AS n FROM above", refresh="every 60 seconds")
    with file_with_rows(tables, "bag") as connection:
        connection.execute("DELETE FROM rows")
    tables.table("t").delete(3)
    assert "bag" in tables.refresh("bag").failed
    assert tables.refresh("bag").failed == {}
    tables.refresh()
    assert rows(tables.view("beside")) == [(2,)]
    assert rows(tables.view("above")) == [("a", 2)]
    assert rows(tables.view("top")) == [(2,)]
    assert [status.failure for status in tables.status()] == [None] * 4
    assert equal(tables)
    tables.table("t").put(row(9, "z", 1))
    assert {view.strategy for view in tables.refresh().views.values()} == {"incremental"}
    assert equal(tables)


def test_repair_mends_what_stands_on_a_view_too(tables: vk.Database) -> None:
    tables.create_view("by_k", "SELECT k, SUM(v) AS s FROM t GROUP BY k", regions=1)
    tables.create_view("beside", "SELECT SUM(s) AS s FROM by_k")
    tables.create_view("above", "SELECT SUM(s) AS s FROM by_k", refresh="every 60 seconds")
    with file_with_rows(tables, "by_k") as connection:
        connection.execute("UPDATE rows SET v0 = v0 + 1")
    tables.repair("by_k")
    assert equal(tables)
    with file_with_rows(tables, "beside") as connection:
        connection.execute("UPDATE rows SET v0 = v0 + 1")
    tables.repair("by_k")
    assert equal(tables), "damage that had been passed on"
    tables.table("t").put(row(9, "z", 1))
    tables.refresh()
    assert equal(tables)


def test_a_view_over_one_that_stopped_is_not_repaired_over_its_old_rows(tables: vk.Database) -> None:
    tables.create_view("bad", "SELECT id, 100 / v AS q FROM t")
    tables.create_view("above", "SELECT t.id, bad.q FROM t LEFT JOIN bad ON t.id = bad.id")
    tables.create_view("higher", "SELECT COUNT(*) AS n FROM bad", refresh="every 60 seconds")
    tables.table("t").put([row(4, "c", 0), row(5, "c", 1)])
    tables.refresh()
    for name in ("above", "higher"):
        assert 'waits for "bad"' in str(tables.repair(name).error)
        assert tables.view(name).status().failure is not None
    tables.table("t").delete(4)
    tables.refresh("bad")
    assert tables.repair("higher").error is None
    assert rows(tables.view("higher")) == [(4,)], "it goes where the view below has gone"
    assert equal(tables)
    tables.refresh()
    assert equal(tables)


@pytest.mark.parametrize("damaged", [False, True], ids=["repaired", "found damaged"])
def test_a_view_that_could_not_be_made_anew_still_has_to_be(tables: vk.Database, damaged: bool) -> None:
    """It fails for a reason of its own, too. When that is mended, it must not follow what has mended the view below."""
    tables.create_view("bag", "SELECT k, v FROM t", regions=1)
    tables.create_view("beside", "SELECT SUM(100 DIV (v - 7)) AS q, COUNT(*) AS n FROM bag")
    tables.create_view("both", "SELECT bag.k, COUNT(*) AS n FROM bag CROSS JOIN beside GROUP BY bag.k")
    tables.table("t").put(row(4, "c", 7))
    assert set(tables.refresh().failed) == {"beside", "both"}
    with file_with_rows(tables, "bag") as connection:
        connection.execute("DELETE FROM rows")
    if damaged:
        tables.table("t").delete(3)
        assert "bag" in tables.refresh().failed
        assert "bag" not in tables.refresh().failed
    else:
        tables.repair("bag")
    tables.table("t").put(row(4, "c", 8))
    assert tables.refresh().failed == {}
    assert equal(tables)
    tables.table("t").put(row(9, "c", 9))
    tables.refresh()
    assert equal(tables)


NEVER_TOGETHER = {
    "joined": "SELECT a.k, 10 DIV (a.x - b.y) AS q FROM a JOIN b ON a.g = b.g",
    "summed": "SELECT a.g, SUM(10 DIV (a.x - b.y)) AS s FROM a JOIN b ON a.g = b.g GROUP BY a.g",
    "filtered": "SELECT a.k FROM a JOIN b ON a.g = b.g WHERE 10 DIV (a.x - b.y) < 0",
    "kept": "SELECT a.k, b.k AS bk, 10 DIV (a.x - b.y) AS q FROM a LEFT JOIN b ON a.g = b.g",
    "both_kept": "SELECT a.k, b.k AS bk, 10 DIV (a.x - b.y) AS q FROM a FULL JOIN b ON a.g = b.g",
    "selves": "SELECT p.k, q.k AS qk, 10 DIV (p.x - q.x - 1) AS z FROM a p JOIN a q ON p.k = q.k",
}


@pytest.mark.parametrize("tasks", [False, True])
def test_rows_that_were_never_there_together_stop_no_view(db: vk.Database, tasks: bool) -> None:
    """Found: of a row that came and one that left, which meet in two terms and cancel out, the expression failed."""
    if tasks:
        db._maintainer.tasks_from = 0
    db.execute("CREATE TABLE a (k INT PRIMARY KEY, g INT, x INT)")
    db.execute("CREATE TABLE b (k INT PRIMARY KEY, g INT, y INT)")
    db.table("a").put([{"k": 1, "g": 1, "x": 1}, {"k": 2, "g": 2, "x": 1}])
    db.table("b").put([{"k": 1, "g": 1, "y": 2}, {"k": 2, "g": 2, "y": 5}])
    for name, query in NEVER_TOGETHER.items():
        db.create_view(name, query, policy="incremental")
    for change in (
        [("a", {"k": 1, "g": 1, "x": 2}), ("b", {"k": 1, "g": 1, "y": 3})],  # 2 - 2 at neither cut
        [("b", {"k": 1, "g": 1, "y": 2}), ("a", {"k": 1, "g": 1, "x": 1})],
        [("a", {"k": 1, "g": 2, "x": 5}), ("b", {"k": 2, "g": 2, "y": 4})],  # 5 - 5
    ):
        for table, given in change:
            db.table(table).put(given)
        assert db.refresh().failed == {}
        assert [name for name in NEVER_TOGETHER if not db.verify(name).equal] == []
    db.table("a").put({"k": 1, "g": 2, "x": 4})
    db.table("b").put({"k": 1, "g": 1, "y": 0})
    assert set(db.refresh().failed) == set(NEVER_TOGETHER) - {"selves"}, "4 - 4 is there"
