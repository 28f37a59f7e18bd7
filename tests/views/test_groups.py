"""Views of one schedule on views of another: still the oracle of one cut, the lower group's."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from truth import check_view

import viewkeeper as vk
from viewkeeper.errors import NotMaintainable

SUMS = "SELECT x, SUM(y) AS s, COUNT(*) AS n FROM t GROUP BY x"
JOINED = "SELECT sums.x, sums.s, u.z FROM sums JOIN u ON sums.x = u.x"
OFTEN, SELDOM, NEVER = "every 1 second", "every 60 seconds", "on demand"


@pytest.fixture
def filled(db: vk.Database) -> vk.Database:
    db.execute("CREATE TABLE t (k INT PRIMARY KEY, x STRING, y INT)")
    db.execute("CREATE TABLE u (x STRING PRIMARY KEY, z INT)")
    db.execute("CREATE TABLE w (k INT PRIMARY KEY, v INT)")
    db.table("t").put([{"k": k, "x": "ab"[k % 2], "y": k} for k in range(6)])
    db.table("u").put([{"x": "a", "z": 1}])
    db.table("w").put([{"k": 0, "v": 5}])
    return db


def _refresh(db: vk.Database, group: str) -> None:
    db._maintainer.refresh(group)


def _equal(db: vk.Database) -> bool:
    return all(db.verify(view.name).equal for view in db.views())


def test_the_upper_group_goes_where_the_lower_one_is(filled: vk.Database) -> None:
    filled.create_view("sums", SUMS, refresh=OFTEN)
    joined = filled.create_view("joined", JOINED, refresh=SELDOM)
    assert joined.scan().to_pylist() == [{"x": "a", "s": 6, "z": 1}]
    filled.table("t").put({"k": 0, "x": "a", "y": 100})
    filled.table("u").put({"x": "b", "z": 2})
    _refresh(filled, SELDOM)
    assert joined.scan().to_pylist() == [{"x": "a", "s": 6, "z": 1}], "its own table too waits for the group below"
    assert _equal(filled)
    _refresh(filled, OFTEN)
    assert joined.scan().to_pylist() == [{"x": "a", "s": 6, "z": 1}]
    assert _equal(filled)
    _refresh(filled, SELDOM)
    assert joined.scan().to_pylist() == [{"x": "a", "s": 106, "z": 1}, {"x": "b", "s": 9, "z": 2}]
    assert _equal(filled)


def test_refresh_takes_groups_in_order_and_several_epochs_below_are_one_above(
    filled: vk.Database, spark: SparkSession
) -> None:
    filled.create_view("sums", SUMS, refresh=SELDOM)
    filled.create_view("joined", JOINED, refresh=OFTEN)
    filled.create_view("top", "SELECT SUM(s) AS total, COUNT(*) AS n FROM joined", refresh=NEVER)
    for k in range(3):
        filled.table("t").put({"k": 10 + k, "x": "abc"[k], "y": k})
        filled.table("t").delete(k)
        _refresh(filled, SELDOM)
        assert _equal(filled)
    filled.table("u").put([{"x": "b", "z": 2}, {"x": "c", "z": 3}])
    report = filled.refresh()
    assert [epoch.group for epoch in report.epochs] == [SELDOM, OFTEN, NEVER]
    assert [view.waiting for view in filled.status()] == [0, 0, 0]
    for name, query in (("sums", SUMS), ("joined", JOINED)):
        rows = {table.name: table.scan() for table in filled.tables()} | {"sums": filled.view("sums").scan()}
        for table, found in rows.items():
            spark.createDataFrame(found.combine_chunks()).createOrReplaceTempView(table)
        spark.sql(query).createOrReplaceTempView(name)
        check_view(filled, spark, name, query)
    assert _equal(filled)


def test_views_of_one_group_stay_at_one_cut_when_one_of_them_looks_down(filled: vk.Database) -> None:
    """A group that was ahead of the one below: its cut does not go back."""
    filled.create_view("sums", SUMS, refresh=NEVER)
    filled.create_view("counts", "SELECT COUNT(*) AS n FROM w", refresh=OFTEN)
    filled.table("w").put({"k": 1, "v": 1})
    _refresh(filled, OFTEN)
    filled.create_view("joined", JOINED, refresh=OFTEN)
    assert filled.view("counts").scan().to_pylist() == [{"n": 2}]
    filled.table("w").put({"k": 2, "v": 1})
    _refresh(filled, OFTEN)
    assert filled.view("counts").scan().to_pylist() == [{"n": 2}], "the group below has not moved"
    filled.refresh()
    assert filled.view("counts").scan().to_pylist() == [{"n": 3}]
    assert _equal(filled)
    filled.drop("joined")
    filled.table("w").put({"k": 3, "v": 1})
    _refresh(filled, OFTEN)
    assert filled.view("counts").scan().to_pylist() == [{"n": 4}]


def test_a_snapshot_shows_a_table_where_the_views_are_that_read_it(filled: vk.Database) -> None:
    """A view on a view has the tables below in its cut too, and reads none of them."""
    filled.create_view("sums", SUMS, refresh=OFTEN)
    filled.create_view("joined", JOINED, refresh=SELDOM)
    filled.table("t").put({"k": 6, "x": "a", "y": 100})
    filled.table("u").put({"x": "b", "z": 2})
    _refresh(filled, OFTEN)
    filled.table("t").put({"k": 7, "x": "a", "y": 1000})
    with filled.snapshot() as at:
        assert sum(at.view("sums").scan()["s"].to_pylist()) == sum(at.table("t").scan()["y"].to_pylist()) == 115
        assert at.view("joined").scan().num_rows == at.table("u").scan().num_rows == 1
    beside = filled.sql("SELECT (SELECT SUM(s) FROM sums) AS s, (SELECT SUM(y) FROM t) AS y").collect()
    assert tuple(beside[0]) == (115, 115)


def test_a_trim_leaves_groups_alone_that_hold_nothing_for_the_dead(filled: vk.Database) -> None:
    """A group's cut has all tables of the group below, also those that none of its own views is over."""
    filled.create_view("sums", SUMS, refresh=SELDOM)
    filled.create_view("counts", "SELECT COUNT(*) AS n FROM w", refresh=SELDOM)
    filled.create_view("joined", JOINED, refresh=OFTEN)
    filled.create_view("top", "SELECT SUM(s) AS total FROM joined", refresh=NEVER)
    filled.table("w").put({"k": 1, "v": 1})
    filled.refresh()
    before = filled._store.groups()
    filled.trim(0)
    assert filled._store.groups() == before
    assert [report.epoch for report in filled.refresh().epochs] == [None, None, None]


def test_two_groups_below_are_refused_with_the_way_out(filled: vk.Database) -> None:
    filled.create_view("sums", SUMS, refresh=OFTEN)
    filled.create_view("most", "SELECT MAX(z) AS m FROM u", refresh=SELDOM)
    with pytest.raises(NotMaintainable, match="could not all be at one cut") as refused:
        filled.create_view("both", "SELECT sums.x FROM sums JOIN most ON sums.s = most.m", refresh=NEVER)
    assert "schedule of its own" in str(refused.value)
    filled.create_view("joined", JOINED, refresh=NEVER)
    with pytest.raises(NotMaintainable, match="could not all be at one cut"):
        filled.create_view("lonely", "SELECT m FROM most", refresh=NEVER)
    with pytest.raises(NotMaintainable, match="views refreshed on demand stand on views refreshed every 1 second"):
        filled.create_view("ring", "SELECT x FROM joined", refresh=OFTEN)
    assert _equal(filled)


def test_what_stands_on_a_stopped_view_of_another_group_waits_and_comes_back(filled: vk.Database) -> None:
    filled.create_view("sums", "SELECT x, SUM(10 DIV (y + 1)) AS s FROM t GROUP BY x", refresh=OFTEN)
    filled.create_view("joined", JOINED, refresh=SELDOM)
    filled.table("t").put({"k": 9, "x": "a", "y": -1})
    filled.refresh()
    assert "ivision" in str(filled.view("sums").status().failure)
    assert 'waits for "sums"' in str(filled.view("joined").status().failure)
    filled.table("t").delete(9)
    filled.refresh()
    assert [view.failure for view in filled.status()] == [None, None]
    assert _equal(filled)


def test_a_storm_is_cut_into_epochs_of_bounded_size(filled: vk.Database) -> None:
    filled.create_view("sums", SUMS, refresh=OFTEN)
    for k in range(30):
        filled.table("t").put([{"k": 100 + 2 * k + i, "x": "ab"[i], "y": k} for i in (0, 1)])
    sizes = []
    while (report := filled._maintainer.refresh(OFTEN, at_most=8)).epoch is not None:
        sizes.append(report.views[0].changes)
        assert filled.verify("sums").equal
    assert sum(sizes) == 60
    assert max(sizes) <= 8
    assert filled._maintainer.waiting(OFTEN).changes == 0
    assert filled._maintainer.waiting(OFTEN).seconds == 0.0
