"""Queries that must not be followed from changes, and those that must not be views at all. What is followed is Spark's answer."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from truth import check

import viewkeeper as vk

START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


@pytest.fixture
def tables(db: vk.Database) -> vk.Database:
    for name in "abc":
        db.execute(f"CREATE TABLE {name} (x STRING PRIMARY KEY, v BIGINT)")
    db.execute("CREATE TABLE r (k BIGINT PRIMARY KEY, x STRING, y BIGINT, b BOOLEAN)")
    db.execute("CREATE TABLE p (k BIGINT PRIMARY KEY, one BIGINT, two BIGINT)")
    db.execute("CREATE TABLE e (id BIGINT PRIMARY KEY, u STRING, ts TIMESTAMP)")
    return db


def put_rows(db: vk.Database) -> None:
    """'p' is in b and c, 'q' in a alone: what USING makes of the three is not a's own column."""
    db.table("a").put({"x": "q", "v": 9})
    db.table("b").put({"x": "p", "v": 1})
    db.table("c").put({"x": "p", "v": 2})
    db.table("r").put([{"k": k, "x": "pq"[k % 2], "y": k + 3, "b": k < 3} for k in range(5)])
    db.table("p").put([{"k": 1, "one": 10, "two": 20}, {"k": 2, "one": None, "two": 20}])
    db.table("e").put([{"id": k, "u": "u", "ts": START + k * dt.timedelta(minutes=3)} for k in range(4)])


def evaluated(db: vk.Database, spark: SparkSession, *queries: str, strategy: str = "full") -> None:
    """Views of the strategy, made over empty tables, say what Spark says when rows have come and gone."""
    views = {f"v{number}": query for number, query in enumerate(queries)}
    for name, query in views.items():
        db.create_view(name, query)
    assert {status.name: status.strategy for status in db.status()} == dict.fromkeys(views, strategy)
    changes: list[Callable[[vk.Database], Any]] = [put_rows, lambda db: db.table("r").delete([0, 3])]
    for change in changes:
        change(db)
        assert not db.refresh().failed
        check(db, spark, views)


def test_using_after_a_join_that_keeps_the_other_side(tables: vk.Database, spark: SparkSession) -> None:
    """Found: the next USING was joined on the first table's column, which is NULL in what a FULL or RIGHT JOIN pads."""
    evaluated(
        tables, spark,
        "SELECT x, a.v AS av, b.v AS bv, c.v AS cv FROM a FULL JOIN b USING (x) FULL JOIN c USING (x)",
        "SELECT x, a.v AS av, b.v AS bv, c.v AS cv FROM a RIGHT JOIN b USING (x) JOIN c USING (x)",
        "SELECT x, k FROM a NATURAL FULL JOIN b JOIN r USING (x)",
        "SELECT COUNT(*) AS n FROM (SELECT x FROM a RIGHT JOIN b USING (x) NATURAL JOIN (SELECT x FROM c))",
    )  # fmt: skip


def test_using_after_other_joins_is_followed(tables: vk.Database, spark: SparkSession) -> None:
    evaluated(
        tables, spark,
        "SELECT x, a.v AS av, b.v AS bv, c.v AS cv FROM a LEFT JOIN b USING (x) FULL JOIN c USING (x)",
        "SELECT x, a.v AS av, b.v AS bv, c.v AS cv FROM a JOIN b USING (x) LEFT JOIN c USING (x)",
        "SELECT * FROM r JOIN b USING (x) JOIN (SELECT x, v AS w FROM c) USING (x)",
        strategy="incremental",
    )  # fmt: skip


def test_a_star_of_one_table_beside_using(tables: vk.Database, spark: SparkSession) -> None:
    """Found: Spark puts the columns of USING first in `p1.*` too, and the view had each value under another's name."""
    evaluated(
        tables, spark,
        "SELECT p1.* FROM p p1 JOIN p p2 USING (two)",
        "SELECT MAX(k) AS k FROM (SELECT p1.* FROM p p1 LEFT JOIN p p2 USING (two) UNION ALL SELECT * FROM p)",
    )  # fmt: skip


def test_columns_renamed_by_a_table_alias(tables: vk.Database, spark: SparkSession) -> None:
    """Found: `one` was the table's own, not the third of its columns."""
    evaluated(
        tables, spark,
        "SELECT k, one FROM p AS t(k, two, one)",
        "WITH q AS (SELECT k, one, two FROM p) SELECT k, one FROM q AS t(k, two, one)",
    )  # fmt: skip


def test_pipes(tables: vk.Database, spark: SparkSession) -> None:
    """Found: WHERE saw the y from before the SELECT that it follows."""
    evaluated(
        tables, spark,
        "SELECT k, y + 1 AS y FROM r |> WHERE y > 5",
        "SELECT COUNT(*) AS n FROM (SELECT k, y + 1 AS y FROM r |> WHERE y > 5)",
        "FROM r |> EXTEND y + 1 AS z |> AGGREGATE max_by(k, z) AS m GROUP BY x |> WHERE m > 3",
    )  # fmt: skip


def test_a_name_in_having_that_is_a_column_and_a_result(tables: vk.Database, spark: SparkSession) -> None:
    """Found: inside ANY and FILTER it is the column, and the result was put there."""
    evaluated(
        tables, spark,
        "SELECT x, NOT b AS b, COUNT(*) AS n FROM r GROUP BY x, b HAVING any(b)",
        "SELECT x, bool_or(b) AS b FROM r GROUP BY x HAVING any(b)",
        "SELECT x, y * 2 AS y FROM r GROUP BY x, y HAVING MAX(k) FILTER (WHERE y > 5) > 0",
    )  # fmt: skip


def test_a_name_in_having_in_every_and_some(tables: vk.Database, spark: SparkSession) -> None:
    evaluated(
        tables, spark,
        "SELECT x, NOT b AS b, COUNT(*) AS n FROM r GROUP BY x, b HAVING every(b)",
        "SELECT x, bool_and(b) AS b FROM r GROUP BY x HAVING some(b)",
        strategy="incremental",
    )  # fmt: skip


def test_sliding_and_session_windows(tables: vk.Database, spark: SparkSession) -> None:
    """Found: sessions were not merged, and rows of one key came twice, which ended the epoch of all views."""
    evaluated(
        tables, spark,
        "SELECT u, COUNT(*) AS n FROM e GROUP BY u, session_window(ts, '5 minutes')",
        "SELECT id, window(ts, '10 minutes', '5 minutes').start AS w FROM e",
        "SELECT u, COUNT(*) AS n FROM e GROUP BY u, window(ts, '10 minutes', '5 minutes')",
    )  # fmt: skip


def test_tumbling_windows_are_followed(tables: vk.Database, spark: SparkSession) -> None:
    tables.table("e").put({"id": 9, "u": None, "ts": None})  # Spark leaves out a row without a time
    evaluated(
        tables, spark,
        "SELECT id, window(ts, '5 minutes').start AS w FROM e",
        "SELECT u, COUNT(*) AS n FROM e GROUP BY u, window(ts, '5 minutes')",
        strategy="incremental",
    )  # fmt: skip


def test_a_subquery_turned_around(tables: vk.Database, spark: SparkSession) -> None:
    """Found: where no column of the subquery is named, nothing showed that there is a PIVOT."""
    evaluated(
        tables, spark,
        "SELECT COUNT(*) AS n FROM (SELECT x, y FROM r) PIVOT (SUM(y) FOR x IN ('p', 'q'))",
        "SELECT COUNT(*) AS n FROM (SELECT k, y FROM r) UNPIVOT (val FOR name IN (k, y))",
    )  # fmt: skip


def test_counts_of_some_columns_are_not_counts_of_rows(tables: vk.Database, spark: SparkSession) -> None:
    """A row counts if none of the columns is NULL."""
    evaluated(
        tables, spark,
        "SELECT COUNT(* EXCEPT (two)) AS n FROM p",
        "SELECT COUNT(*, 1) AS n FROM p",
    )  # fmt: skip
