"""Indexes carry what their users need and no more, are shared, and grow with the needs of those who come."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from support import store_of

import viewkeeper as vk
from viewkeeper.store.contract import Kind


@pytest.fixture
def wide(db: vk.Database) -> vk.Database:
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, k STRING, a INT, b INT, c STRING, d DOUBLE)")
    db.execute("CREATE TABLE u (k STRING PRIMARY KEY, w INT, note STRING)")
    db.table("t").put([_row(number) for number in range(12)])
    db.table("u").put([{"k": k, "w": ord(k), "note": k * 3} for k in "abc"])
    return db


def _row(number: int, **others: object) -> dict[str, object]:
    row = {"id": number, "k": "abcd"[number % 4], "a": number, "b": -number, "c": str(number), "d": number / 2}
    return {**row, **others}


def _indexes(db: vk.Database) -> list[list[str]]:
    return sorted(spec.schema.names for spec in store_of(db).tables() if spec.kind is Kind.INDEX)


def _equal(db: vk.Database) -> bool:
    return all(db.verify(view.name).equal for view in db.views())


SUMS = "SELECT u.w, SUM(t.a) AS s FROM t JOIN u ON t.k = u.k GROUP BY u.w"
NESTED = "SELECT s.n, u.w FROM (SELECT k, COUNT(*) AS n, SUM(a) AS s FROM t GROUP BY k) s JOIN u ON s.n = u.w"
PAIRS = "SELECT t.id, t.c, u.w FROM t JOIN u ON t.k = u.k"


def test_an_index_has_the_columns_that_are_used(wide: vk.Database) -> None:
    wide.create_view("sums", SUMS)
    assert _indexes(wide) == [["k", "id", "a"]]


def test_views_that_need_no_more_share_it(wide: vk.Database) -> None:
    wide.create_view("sums", SUMS)
    wide.create_view("again", "SELECT t.a + 1 AS more FROM u JOIN t ON t.k = u.k WHERE u.w > 97")
    assert _indexes(wide) == [["k", "id", "a"]]
    assert "shared with sums" in wide.explain("again")


def test_one_that_needs_more_widens_it_for_all(wide: vk.Database) -> None:
    wide.create_view("sums", SUMS)
    wide.table("t").put(_row(3, a=50))
    wide.create_view("pairs", PAIRS)
    assert _indexes(wide) == [["k", "id", "a", "c"]]
    assert "shared with pairs" in wide.explain("sums")
    wide.table("u").put({"k": "d", "w": 5, "note": "new"})
    wide.table("u").delete("a")
    wide.table("t").put([_row(1, c="changed"), _row(30)])
    wide.refresh()
    assert _equal(wide)
    wide.drop("pairs")
    assert _indexes(wide) == [["k", "id", "a", "c"]], "it is not built again for less"
    wide.table("u").put({"k": "a", "w": 9, "note": "back"})
    wide.refresh()
    assert _equal(wide)
    wide.drop("sums")
    assert _indexes(wide) == []


def test_a_widening_that_fails_leaves_the_narrow_one(wide: vk.Database) -> None:
    wide.create_view("sums", SUMS)
    with pytest.raises(vk.NotMaintainable, match="cannot be filled"):
        wide.create_view("bad", "SELECT t.id, 1 DIV t.b AS q FROM t JOIN u ON t.k = u.k")
    assert _indexes(wide) == [["k", "id", "a"]]
    wide.table("u").put({"k": "d", "w": 5, "note": "new"})
    wide.refresh()
    assert _equal(wide)


def test_a_change_of_a_column_that_nobody_uses_changes_nothing(wide: vk.Database) -> None:
    view = wide.create_view("sums", SUMS)
    wide.table("t").update([{"id": number, "d": 99.0} for number in range(12)])
    wide.refresh()
    assert view.changes(since=1).num_rows == 0
    assert _equal(wide)


@pytest.mark.parametrize(
    ("query", "used"),
    [
        ("SELECT x.id, u.w FROM t x LEFT JOIN u ON X.K = u.k AND x.a > 1", [["k", "id", "a"]]),
        ("SELECT a.id, b.id AS other FROM t a JOIN t b ON a.c = b.c AND a.b < b.b", [["c", "id", "b"]]),
        ("SELECT u.k, transform(array(t.a), x -> x + 1) AS m FROM t JOIN u ON t.k = u.k", [["k", "id", "a"]]),
        ("SELECT t.*, u.w FROM t JOIN u ON t.k = u.k", [["k", "id", "a", "b", "c", "d"]]),
        ("SELECT COUNT(*) AS n FROM t JOIN u ON t.k = u.k", [["k", "id"]]),
        (NESTED, [["n", "k"], ["w", "k"]]),
    ],
)  # fmt: skip
def test_every_way_to_use_a_column_counts(
    wide: vk.Database, spark: SparkSession, query: str, used: list[list[str]]
) -> None:
    wide.create_view("v", query, policy="incremental")
    blocks = [names for names in _indexes(wide) if not any(name.startswith("_vk_") for name in names)]
    assert blocks == sorted(used)
    wide.table("t").put([_row(2, k="a", c="0", a=7), _row(40, k=None), _row(41, c="0", b=-5)])
    wide.table("u").put({"k": "d", "w": 3, "note": "x"})
    wide.table("t").delete([5, 6])
    wide.refresh()
    assert _equal(wide)
    wide.table("u").delete("a")
    wide.refresh()
    assert _equal(wide)


def test_columns_with_brackets_in_their_names_are_told_apart(db: vk.Database) -> None:
    """Found: Spark itself calls a column a[0]; one index was taken for two views that need the table by other columns."""
    db.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, a ARRAY<INT>)")
    db.create_view("u", "SELECT k, a[0], a[1] FROM t")
    for number, other in ((0, 1), (1, 0)):
        join = f"SELECT p.k, q.k AS other, q.`a[{other}]` AS o FROM u p JOIN u q ON p.`a[{number}]` = q.`a[{number}]`"
        db.create_view(f"v{number}", join, policy="incremental")
    db.table("t").put([{"k": 1, "a": [1, 2]}, {"k": 2, "a": [2, 1]}, {"k": 3, "a": [1, 1]}])
    assert not db.refresh().failed
    assert _equal(db)


def test_the_values_of_views_are_told_apart_by_their_names(db: vk.Database) -> None:
    """Found: v keeps values of x1 and x2, and v_x1 those of x2, and both wanted one table for them."""
    db.execute("CREATE TABLE r (k BIGINT PRIMARY KEY, x STRING, y INT, z INT)")
    db.create_view("v", "SELECT x, MIN_BY(k, y) AS m FROM r GROUP BY x", policy="incremental")
    db.create_view("v_x1", "SELECT x, y, MIN(z) AS m FROM r GROUP BY x, y", policy="incremental")
    db.table("r").put([{"k": k, "x": "ab"[k % 2], "y": k % 3, "z": -k} for k in range(6)])
    assert not db.refresh().failed
    assert _equal(db)
