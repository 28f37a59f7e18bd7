"""Queries that must not be followed from changes, and those that must not be views at all. What is followed is Spark's answer."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from truth import check

import viewkeeper as vk
from viewkeeper.engine.spark import Spark
from viewkeeper.sql.ties import with_ties_broken
from viewkeeper.sql.unrepeatable import SOMETIMES, UNREPEATABLE

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


def test_using_of_columns_of_different_types(tables: vk.Database, spark: SparkSession) -> None:
    """Found: the INT that Spark makes of both was a BIGINT here, and its hash another number."""
    tables.execute("CREATE TABLE i (k INT PRIMARY KEY, w BIGINT)")
    tables.table("i").put([{"k": 1, "w": 1}, {"k": 7, "w": 7}])
    evaluated(
        tables, spark,
        "SELECT hash(k) AS h, one, w FROM i JOIN p USING (k)",
        "SELECT hash(k) AS h, one, w FROM p RIGHT JOIN i USING (k)",
        "SELECT typeof(k) AS h, one, w FROM i NATURAL LEFT JOIN p",
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
        "SELECT x, k > 1 AS b, COUNT(*) AS n FROM r GROUP BY x, k HAVING any(b)",
        "SELECT x, bool_or(b) AS b FROM r GROUP BY x HAVING any(b)",
        "SELECT x, k * 100 AS y FROM r GROUP BY x, k HAVING MAX(k) FILTER (WHERE y > 5) > 0",
    )  # fmt: skip


def test_a_name_in_having_in_every_and_some(tables: vk.Database, spark: SparkSession) -> None:
    evaluated(
        tables, spark,
        "SELECT x, k > 1 AS b, COUNT(*) AS n FROM r GROUP BY x, k HAVING every(b)",
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


def test_what_spark_takes_only_as_a_whole_is_evaluated_again(
    tables: vk.Database, spark: SparkSession, tmp_path: Path
) -> None:
    """Found: these were refused, or ended in an error of ours. The reason is kept: the plan is made again without Spark."""
    queries = {
        "SELECT mean(y) AS m FROM r": "a part of the query cannot be evaluated apart from it: [MISSING_GROUP_BY]",
        "SELECT try_sum(y) AS s FROM r": "a part of the query cannot be evaluated apart from it: [MISSING_GROUP_BY]",
        "SELECT COUNT(NULL) AS n FROM r": 'a part of the query cannot be evaluated apart from it: column "x0"',
        "SELECT COUNT(*) AS n FROM (SELECT * FROM r JOIN b ON r.x = b.x)": "a subquery with two columns of one name",
    }
    evaluated(tables, spark, *queries)
    with vk.open(tmp_path / "db.vk") as again:
        for number, reason in enumerate(queries.values()):
            assert f"because {reason}" in str(again.explain(f"v{number}"))


def test_a_constant_among_the_groups(tables: vk.Database, spark: SparkSession) -> None:
    """Found: the 1 of ROUND was taken for the group of that number."""
    evaluated(
        tables, spark,
        "SELECT 'all' AS c, x, ROUND(AVG(y), 1) AS a FROM r GROUP BY 1, 2",
        "SELECT 1 AS c, COUNT(*) AS n FROM r GROUP BY 1",
        strategy="incremental",
    )  # fmt: skip


def test_a_group_inside_signs_of_another_rank(tables: vk.Database, spark: SparkSession) -> None:
    """Found: `y | k & 3` was `(y | k) & 3` where the query groups by `y | k`."""
    evaluated(
        tables, spark,
        "SELECT y | k & 3 AS v, COUNT(*) AS n FROM r GROUP BY y | k, y, k",
        "SELECT '1' || k + y AS v, COUNT(*) AS n FROM r GROUP BY k + y, k, y",
    )  # fmt: skip


def test_a_group_inside_clear_signs_is_followed(tables: vk.Database, spark: SparkSession) -> None:
    evaluated(
        tables, spark,
        "SELECT (y | k) & 3 AS v, k * 2 + y AS w, COUNT(*) AS n FROM r GROUP BY y | k, k * 2, y",
        "SELECT '1' || (k + y) AS v, x || 'z' AS w, COUNT(*) AS n FROM r GROUP BY k + y, x",
        strategy="incremental",
    )  # fmt: skip


def test_brackets_look_inside(tables: vk.Database, spark: SparkSession) -> None:
    """Found: `array(k, y)[1]` was read as the array of 1, and so was a column of that name."""
    tables.execute("CREATE TABLE n (k BIGINT PRIMARY KEY, list ARRAY<BIGINT>, array ARRAY<BIGINT>)")
    tables.table("n").put([{"k": 1, "list": [5, None], "array": [6]}, {"k": 2, "list": None, "array": [None]}])
    evaluated(
        tables, spark,
        "SELECT k, array(x, 'z')[1] AS a, array(y, k)[0] IS NULL AS b, array(array(k))[0][0] AS c FROM r WHERE array(b)[0]",
        "SELECT k, list[0] AS a, array[0] AS b, list[0] IS NULL AS c FROM n",
        "SELECT array(x)[0] AS g, SUM(array(y, k)[1]) AS s FROM r GROUP BY array(x)[0]",
        strategy="incremental",
    )  # fmt: skip


@pytest.mark.parametrize("query", ["TABLE r", "WITH q AS (TABLE r) SELECT * FROM q"])
def test_a_bare_table_is_refused(tables: vk.Database, query: str) -> None:
    """Found: it was a query over no table, which saw the rows of some earlier statement and no change ever."""
    tables.sql("SELECT * FROM r").collect()
    with pytest.raises(vk.StatementError, match="TABLE r is not supported"):
        tables.create_view("v", query)


def test_maps_that_tie(tables: vk.Database) -> None:
    tables.execute("CREATE TABLE m (k BIGINT PRIMARY KEY, entries MAP<STRING, BIGINT>)")
    with pytest.raises(vk.NotMaintainable, match="could not choose between rows that tie"):
        tables.create_view("v", "SELECT max_by(entries, k) AS e FROM m")


def test_ties_are_broken_in_the_users_own_text() -> None:
    query = "FROM r |> AGGREGATE max_by(DISTINCT k, -- by y,\n y) AS m, min_by(x, f(y, (1))) AS n, 'max_by(' GROUP BY x"
    assert " ".join(with_ties_broken(query).split()) == (
        "FROM r |> AGGREGATE max_by(DISTINCT k, CASE WHEN ( -- by y, y ) IS NOT NULL THEN struct( -- by y, y , k ) END) AS m, "
        "min_by(x, CASE WHEN ( f(y, (1)) ) IS NOT NULL THEN struct( f(y, (1)) , x ) END) AS n, 'max_by(' GROUP BY x"
    )
    assert with_ties_broken("SELECT  x  FROM `max_by` -- as it is") == "SELECT  x  FROM `max_by` -- as it is"


# What is never the same


@pytest.mark.parametrize(
    "expression",
    [
        "DATE'today'", "TIMESTAMP ' NOW '", "TIMESTAMP_NTZ'tomorrow UTC'", "CAST('yesterday' AS DATE)", "'now'::timestamp",
        "try_cast('now' AS TIMESTAMP)", "to_date('today')", "CAST(lower('TODAY') AS DATE)", "date_add('today', 1)",
        "ts > 'today'", "ts BETWEEN 'yesterday' AND 'epoch'", "coalesce(ts, 'now')",
        "unix_timestamp()", "now()", "current_date", "current_timestamp()", "localtimestamp()", "localtime > current_time",
        "user", "session_user", "current_user()", "current_path()", "uuid()", "rand(1)", "aes_encrypt(u, '0000111122223333')",
        "reflect('java.util.UUID', 'randomUUID')", "try_reflect('java.util.UUID', 'randomUUID')",
    ],
)  # fmt: skip
def test_what_is_never_the_same_is_refused(tables: vk.Database, expression: str) -> None:
    with pytest.raises(vk.StatementError, match="not deterministic"):
        tables.create_view("v", f"SELECT id, {expression} AS q FROM e")


def test_what_only_looks_like_it_is_taken(tables: vk.Database, spark: SparkSession) -> None:
    """Words, the beginning of time, columns of such names, and encryption from a given start."""
    evaluated(
        tables, spark,
        "SELECT id, u = 'today' AS q, upper('now') AS r, CASE WHEN u = 'now' THEN 'tomorrow' ELSE u END AS s FROM e",
        "SELECT id, DATE'epoch' AS q, ts > 'epoch' AS r, unix_timestamp(ts) AS s FROM e",
        "SELECT id, user, current_time FROM (SELECT id, u AS user, u AS current_time FROM e)",
        "SELECT id, aes_encrypt(u, '0000111122223333', 'ECB') AS q, element_at(map('now', 1), 'now') AS r FROM e",
        strategy="incremental",
    )  # fmt: skip


SET_BY_THE_ORDER = {
    "any_value", "approx_top_k", "approx_top_k_estimate", "array_agg", "collect_list", "collect_set", "collect_union", "first",
    "first_value", "last", "last_value", "listagg", "max_by", "min_by", "string_agg",
}  # fmt: skip
"""Aggregates that depend on the order of rows: taken, as docs/limitations.md says. MIN_BY and MAX_BY are made to choose."""

ABOUT_OTHER_THINGS = {"count_min_sketch", "make_timestamp", "make_timestamp_ltz", "try_make_timestamp_ltz"}
"""A seed that is an argument; the "current timestamp" that is made of the arguments."""


def test_every_function_that_spark_calls_random_or_current_is_known(spark: SparkSession) -> None:
    """So that one which a newer Spark brings is noticed: see what it is, and put it where it belongs."""
    telling = re.compile(
        r"non-deterministic|not deterministic|\brandom|reflection|returns the current|current time", re.I
    )
    found = set()
    for (name,) in spark.sql("SHOW SYSTEM FUNCTIONS").collect():
        described = spark.sql(f"DESCRIBE FUNCTION EXTENDED `{name}`").collect()
        if telling.search("\n".join(text for (text,) in described)):
            found.add(name)
    known = {name.lower() for name in UNREPEATABLE | SOMETIMES}
    assert found - known == SET_BY_THE_ORDER | ABOUT_OTHER_THINGS
    assert {"rand", "uuid", "now", "current_date", "reflect", "aes_encrypt", "unix_timestamp"} <= found


# Whose settings hold


LOOSE = {
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.groupByOrdinal": "false",
    "spark.sql.legacy.statisticalAggregate": "true",
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
}


@dataclass(frozen=True)
class Loose:
    """The session of an application that was started with settings of its own: they are in every session derived from it."""

    session: SparkSession

    def newSession(self) -> SparkSession:  # noqa: N802  Spark's name for it
        derived = self.session.newSession()
        for name, value in LOOSE.items():
            derived.conf.set(name, value)
        return derived


@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
def test_an_applications_settings_do_not_change_what_a_query_says(spark: SparkSession, large: bool) -> None:
    """Found: "a" was a column, TIMESTAMP another type, and the deviation of one row NaN."""
    ours = Spark(cast("SparkSession", Loose(spark))).session(large=large)
    query = (
        "SELECT X, \"a\" AS a, TIMESTAMP'2024-01-01 00:00:00' AS t, stddev(x) AS s, '${env:HOME}' AS h, x | 2 AS b "
        "FROM VALUES (1) v(x) GROUP BY 1, 2"
    )
    found = ours.sql(query)
    assert [tuple(row) for row in found.drop("t").collect()] == [(1, "a", None, "${env:HOME}", 3)]
    assert dict(found.dtypes)["t"] == "timestamp"
    assert not [name for name in ours.conf.getAll if name.startswith("spark.sql.legacy.")]
    with pytest.raises(PySparkException, match="DUPLICATED_MAP_KEY"):
        ours.sql("SELECT map(x, 1, x, 2) AS m FROM VALUES (1) v(x)").collect()
