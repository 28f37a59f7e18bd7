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
from truth import check, verify

import viewkeeper as vk
from viewkeeper.engine.spark import Spark
from viewkeeper.sql.algebra import NotIncremental
from viewkeeper.sql.queries import compile_query, tables_of
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
    verify(db, views)


Given = Callable[[vk.Database], Any]


@dataclass(frozen=True)
class Case:
    """Views over tables that are empty at first, but for what is given; why they are here, mostly what was found once."""

    queries: tuple[str, ...]
    why: str
    given: Given


def case(*queries: str, why: str = "", given: Given = lambda db: None) -> Case:
    return Case(queries, why, given)


def table(name: str, columns: str, *rows: dict[str, Any]) -> Given:
    """One more table, by its key k, and its rows."""
    return lambda db: db.create_table(name, columns, primary_key="k").put(list(rows))


def put_an_event_without_a_time(db: vk.Database) -> None:
    """Spark leaves it out of a window."""
    db.table("e").put({"id": 9, "u": None, "ts": None})


NESTED = table(
    "n",
    "k BIGINT, arr ARRAY<BIGINT>, items ARRAY<STRUCT<y: BIGINT>>, m MAP<STRING, BIGINT>",
    *({"k": k, "arr": [k], "items": [{"y": k}], "m": {"a": k}} for k in (1, 2)),
)

EVALUATED = {
    "using after a join that keeps the other side": case(
        "SELECT x, a.v AS av, b.v AS bv, c.v AS cv FROM a FULL JOIN b USING (x) FULL JOIN c USING (x)",
        "SELECT x, a.v AS av, b.v AS bv, c.v AS cv FROM a RIGHT JOIN b USING (x) JOIN c USING (x)",
        "SELECT x, k FROM a NATURAL FULL JOIN b JOIN r USING (x)",
        "SELECT COUNT(*) AS n FROM (SELECT x FROM a RIGHT JOIN b USING (x) NATURAL JOIN (SELECT x FROM c))",
        why="Found: the next USING was joined on the first table's column, which is NULL in what a FULL or RIGHT JOIN pads.",
    ),
    "a star of one table beside using": case(
        "SELECT p1.* FROM p p1 JOIN p p2 USING (two)",
        "SELECT MAX(k) AS k FROM (SELECT p1.* FROM p p1 LEFT JOIN p p2 USING (two) UNION ALL SELECT * FROM p)",
        why="Found: Spark puts the columns of USING first in `p1.*` too, and the view had each value under another's name.",
    ),
    "using of columns of different types": case(
        "SELECT hash(k) AS h, one, w FROM i JOIN p USING (k)",
        "SELECT hash(k) AS h, one, w FROM p RIGHT JOIN i USING (k)",
        "SELECT typeof(k) AS h, one, w FROM i NATURAL LEFT JOIN p",
        given=table("i", "k INT, w BIGINT", {"k": 1, "w": 1}, {"k": 7, "w": 7}),
        why="Found: the INT that Spark makes of both was a BIGINT here, and its hash another number.",
    ),
    "columns renamed by a table alias": case(
        "SELECT k, one FROM p AS t(k, two, one)",
        "WITH q AS (SELECT k, one, two FROM p) SELECT k, one FROM q AS t(k, two, one)",
        why="Found: `one` was the table's own, not the third of its columns.",
    ),
    "pipes": case(
        "SELECT k, y + 1 AS y FROM r |> WHERE y > 5",
        "SELECT COUNT(*) AS n FROM (SELECT k, y + 1 AS y FROM r |> WHERE y > 5)",
        "FROM r |> EXTEND y + 1 AS z |> AGGREGATE max_by(k, z) AS m GROUP BY x |> WHERE m > 3",
        why="Found: WHERE saw the y from before the SELECT that it follows.",
    ),
    "a name in having that is a column and a result": case(
        "SELECT x, k > 1 AS b, COUNT(*) AS n FROM r GROUP BY x, k HAVING any(b)",
        "SELECT x, bool_or(b) AS b FROM r GROUP BY x HAVING any(b)",
        "SELECT x, k * 100 AS y FROM r GROUP BY x, k HAVING MAX(k) FILTER (WHERE y > 5) > 0",
        why="Found: inside ANY and FILTER it is the column, and the result was put there.",
    ),
    "sliding and session windows": case(
        "SELECT u, COUNT(*) AS n FROM e GROUP BY u, session_window(ts, '5 minutes')",
        "SELECT id, window(ts, '10 minutes', '5 minutes').start AS w FROM e",
        "SELECT u, COUNT(*) AS n FROM e GROUP BY u, window(ts, '10 minutes', '5 minutes')",
        why="Found: sessions were not merged, and rows of one key came twice, which ended the epoch of all views.",
    ),
    "named windows stay a clause": case(
        "SELECT window.start AS s, COUNT(*) AS n FROM e GROUP BY window(ts, '5 minutes'), u",
        "SELECT x, SUM(MAX(y)) OVER w AS s FROM r GROUP BY ALL WINDOW w AS (ORDER BY x)",
        "SELECT COUNT(*) AS n FROM e GROUP BY window(ts, '5 minutes') WINDOW w AS (PARTITION BY u)",
        why="The `window` that stands for the group is a name which only Spark knows.",
    ),
    "truth of what is no truth value": case(
        "SELECT bool_and('true') AS o, bool_or(CAST(b AS STRING)) AS p FROM r",
        why="Found: an error of Arrow's. Spark takes a text that it can cast.",
    ),
    "a subquery turned around": case(
        "SELECT COUNT(*) AS n FROM (SELECT x, y FROM r) PIVOT (SUM(y) FOR x IN ('p', 'q'))",
        "SELECT COUNT(*) AS n FROM (SELECT k, y FROM r) UNPIVOT (val FOR name IN (k, y))",
        why="Found: where no column of the subquery is named, nothing showed that there is a PIVOT.",
    ),
    "counts of some columns are not counts of rows": case(
        "SELECT COUNT(* EXCEPT (two)) AS n FROM p",
        "SELECT COUNT(*, 1) AS n FROM p",
        why="A row counts if none of the columns is NULL.",
    ),
    "a group inside signs of another rank": case(
        "SELECT y | k & 3 AS v, COUNT(*) AS n FROM r GROUP BY y | k, y, k",
        "SELECT '1' || k + y AS v, COUNT(*) AS n FROM r GROUP BY k + y, k, y",
        why="Found: `y | k & 3` was `(y | k) & 3` where the query groups by `y | k`.",
    ),
    "names of fields that spark makes of the text": case(
        "SELECT to_json(arrays_zip(arr)) AS j, COUNT(*) AS n FROM n GROUP BY arr",
        "SELECT k, to_json((K, arr)) AS j FROM n",
        "SELECT to_json((x, COUNT(*))) AS j FROM r GROUP BY x",
        "SELECT (x, COUNT(*)) AS j FROM r GROUP BY x",
        "SELECT k, to_json(struct(items[0].y)) AS j FROM n",
        "SELECT k, to_json(struct((k))) AS j FROM n",
        "SELECT k, to_json(struct(m['a'], k)) AS j FROM n",
        given=NESTED,
        why="Found: they were those of our own columns, or none, and `to_json` showed them.",
    ),
}  # fmt: skip
"""Queries whose changes do not follow from those of their tables, or that are not read as Spark reads them."""

FOLLOWED = {
    "using after other joins": case(
        "SELECT x, a.v AS av, b.v AS bv, c.v AS cv FROM a LEFT JOIN b USING (x) FULL JOIN c USING (x)",
        "SELECT x, a.v AS av, b.v AS bv, c.v AS cv FROM a JOIN b USING (x) LEFT JOIN c USING (x)",
        "SELECT * FROM r JOIN b USING (x) JOIN (SELECT x, v AS w FROM c) USING (x)",
    ),
    "a name in having in every and some": case(
        "SELECT x, k > 1 AS b, COUNT(*) AS n FROM r GROUP BY x, k HAVING every(b)",
        "SELECT x, bool_and(b) AS b FROM r GROUP BY x HAVING some(b)",
    ),
    "tumbling windows": case(
        "SELECT id, window(ts, '5 minutes').start AS w FROM e",
        "SELECT u, COUNT(*) AS n FROM e GROUP BY u, window(ts, '5 minutes')",
        "SELECT COUNT(*) AS n FROM e GROUP BY window(ts, '5 minutes')",
        "SELECT MAX(window.end) AS m FROM (SELECT window(ts, '5 minutes') AS window FROM e) GROUP BY window",
        given=put_an_event_without_a_time,
    ),
    "names that meet across an outer join": case(
        "SELECT a__b.k AS one, a.b__k AS two, p.k AS three FROM r a__b LEFT JOIN m a ON a__b.k = a.k JOIN p ON p.k = a__b.k",
        given=table("m", "k BIGINT, b__k BIGINT", {"k": 1, "b__k": 2}, {"k": 2, "b__k": None}),
        why="Found: two columns were `a__b__k` in the block that is made of the outer join.",
    ),
    "a constant among the groups": case(
        "SELECT 'all' AS c, x, ROUND(AVG(y), 1) AS a FROM r GROUP BY 1, 2",
        "SELECT 1 AS c, COUNT(*) AS n FROM r GROUP BY 1",
        why="Found: the 1 of ROUND was taken for the group of that number.",
    ),
    "a group inside clear signs": case(
        "SELECT (y | k) & 3 AS v, k * 2 + y AS w, COUNT(*) AS n FROM r GROUP BY y | k, k * 2, y",
        "SELECT '1' || (k + y) AS v, x || 'z' AS w, COUNT(*) AS n FROM r GROUP BY k + y, x",
    ),
    "brackets look inside": case(
        "SELECT k, array(x, 'z')[1] AS a, array(y, k)[0] IS NULL AS b, array(array(k))[0][0] AS c FROM r WHERE array(b)[0]",
        "SELECT k, list[0] AS a, array[0] AS b, list[0] IS NULL AS c FROM n",
        "SELECT array(x)[0] AS g, SUM(array(y, k)[1]) AS s FROM r GROUP BY array(x)[0]",
        given=table(
            "n", "k BIGINT, list ARRAY<BIGINT>, array ARRAY<BIGINT>",
            {"k": 1, "list": [5, None], "array": [6]}, {"k": 2, "list": None, "array": [None]},
        ),
        why="Found: `array(k, y)[1]` was read as the array of 1, and so was a column of that name.",
    ),
    "fields that are named alike": case(
        "SELECT k, to_json(named_struct(concat('a', 'B'), k, 'C', arr)) AS j, named_struct('Q', k).q AS q FROM n",
        "SELECT x, to_json(named_struct('X', x, 'n', COUNT(*))) AS j FROM r GROUP BY x",
        "SELECT X, to_json(struct(X, COUNT(*), MAX(y) AS Most, x || 'z')) AS j FROM r GROUP BY x",
        "SELECT k, to_json(struct(K, k + 1, items[0].y AS Z, abs(k))) AS j FROM n",
        "SELECT k, to_json(transform(arr, z -> struct(k, z))) AS j FROM n",
        "SELECT k FROM r WHERE (k, y) > (y, k) OR (x, k) IN (('p', 2L), ('q', 3L))",
        given=NESTED,
        why="Found: the name `concat('a', 'b')` was `concat`. Of a name that is computed only Spark knows the value.",
    ),
    "a query of with that nobody needs": case(
        "WITH bad AS (SELECT 1 DIV (k - k) AS z FROM r), worse AS (SELECT * FROM bad) SELECT k FROM r",
        "WITH a AS (SELECT x, y FROM r), b AS (SELECT x FROM a), c AS (SELECT y FROM a ORDER BY y) SELECT COUNT(*) AS n FROM B",
        given=put_rows,
        why="Found: one that fails refused the view. Spark does not evaluate it.",
    ),
    "signs before numbers and strings": case(
        "SELECT k, -128Y AS a, -32768S AS b, -9223372036854775808L AS c, -2147483648::INT AS d, -1.5BD AS e FROM r",
        "SELECT k FROM z WHERE s = -1::STRING",
        "SELECT k, concat(-1::STRING, -1.5BD::STRING, - 2L::STRING, -CAST(1 AS STRING)) AS v FROM z",
        "SELECT k FROM z WHERE +s = '-1.0'",
        "SELECT k, concat(+s, s) AS v, +1 AS w, 2 - +k AS q, +1::STRING AS p FROM z",
        "SELECT +s AS o, COUNT(*) AS c FROM z GROUP BY +s",
        "SELECT s AS g, +s AS o, COUNT(*) AS c FROM z GROUP BY s",
        given=table("z", "k BIGINT, s STRING", {"k": 1, "s": "-1"}, {"k": 2, "s": "-1.0"}, {"k": 3, "s": None}),
        why="Found: `-1::STRING` was the opposite of a string, a DOUBLE, and a plus was nothing, which makes a DOUBLE too.",
    ),
    "the character NUL before digits": case(
        "SELECT k, '\\u000012' = concat('\\u0000', '12') AS a, hex('a\\0') AS b, hex('\\012') AS c, hex('\\00041') AS d FROM r",
        why="Found: NUL was written as a backslash and 0, and with the digits behind it was one character.",
    ),
    "types of the unions on the way": case(
        "SELECT d AS v FROM z UNION ALL SELECT '2024-01-01 10:30:00' FROM z UNION ALL SELECT t FROM z",
        "SELECT t AS v FROM z UNION ALL (SELECT d FROM z UNION ALL SELECT '2024-01-01 10:30:00' FROM z)",
        "SELECT d AS v FROM z UNION ALL SELECT '2024-01-01 10:30:00' FROM z UNION SELECT t FROM z",
        "SELECT v, COUNT(*) AS n FROM (SELECT n AS v FROM z UNION ALL SELECT m FROM z UNION ALL SELECT f FROM z) GROUP BY v",
        "SELECT f AS v FROM z UNION ALL (SELECT n FROM z UNION ALL (SELECT m FROM z UNION ALL SELECT k FROM z))",
        "SELECT NULL AS v FROM z UNION ALL SELECT k FROM z UNION ALL SELECT f FROM z",
        given=table(
            "z", "k BIGINT, d DATE, t TIMESTAMP, n DECIMAL(38,20), m DECIMAL(38,0), f DOUBLE",
            {"k": 1, "d": dt.date(2024, 1, 2), "t": START, "n": "0.4", "m": 7, "f": 1.5},
            {"k": 2, "d": None, "t": None, "n": None, "m": None, "f": None},
        ),
        why="Found: each was cast to the last type alone, and what is lost in those before it was not.",
    ),
    "what only looks like something that is never the same": case(
        "SELECT id, u = 'today' AS q, upper('now') AS r, CASE WHEN u = 'now' THEN 'tomorrow' ELSE u END AS s FROM e",
        "SELECT id, DATE'epoch' AS q, ts > 'epoch' AS r, unix_timestamp(ts) AS s FROM e",
        "SELECT id, u > '10:30' AS q, to_timestamp('10:30', 'HH:mm') AS r, ts + INTERVAL '10:30' HOUR TO MINUTE AS s FROM e",
        "SELECT id, CAST(DATE'2024-01-01' + INTERVAL '10:30' HOUR TO MINUTE AS TIMESTAMP) AS q, concat(u, 'T10') AS r FROM e",
        "SELECT id, CAST('2024-01-01 ' || '10:30' AS TIMESTAMP) AS q, to_timestamp(concat('2024-01-01 ', '10:30')) AS r FROM e",
        "SELECT id, unix_timestamp('10:30', 'HH:mm') AS q, ts > '2024-01-01 10:30' AS r FROM e",
        "SELECT id, user, current_time FROM (SELECT id, u AS user, u AS current_time FROM e)",
        "SELECT u AS user, COUNT(*) AS n FROM e GROUP BY u HAVING user > 'a'",
        "WITH q(id, user) AS (SELECT id, u FROM e), Z AS (SELECT * FROM Q) SELECT user, id FROM z WHERE user > 'a'",
        "SELECT r.k, user FROM r JOIN (SELECT q.*, 1 AS one FROM (SELECT x AS user, v FROM a) q) s ON user = r.x",
        "SELECT id, aes_encrypt(u, '0000111122223333', 'ECB') AS q, element_at(map('now', 1), 'now') AS r FROM e",
        why="Words, the beginning of time, columns of such names, and encryption from a given start.",
    ),
}  # fmt: skip
"""Queries that look like those and can be followed all the same."""


@pytest.mark.parametrize("name", EVALUATED)
def test_what_cannot_be_followed_is_evaluated_again(tables: vk.Database, spark: SparkSession, name: str) -> None:
    EVALUATED[name].given(tables)
    evaluated(tables, spark, *EVALUATED[name].queries)


@pytest.mark.parametrize("name", FOLLOWED)
def test_what_can_be_followed_is(tables: vk.Database, spark: SparkSession, name: str) -> None:
    FOLLOWED[name].given(tables)
    evaluated(tables, spark, *FOLLOWED[name].queries, strategy="incremental")


def test_a_sign_that_ends_the_query_is_no_part_of_it(tables: vk.Database, spark: SparkSession) -> None:
    """Found: the query stood in parentheses, sign and all, in the proof of what is on the view."""
    tables.create_view("below", "SELECT k, y FROM r -- all\n ; -- and no more\n")
    tables.create_view("above", "SELECT SUM(y) AS s FROM below;")
    put_rows(tables)
    assert not tables.refresh().failed
    assert tables.verify("above").equal
    check(tables, spark, {"below": "SELECT k, y FROM r", "above": "SELECT SUM(y) AS s FROM r"})
    with pytest.raises(vk.StatementError, match="2 statements"):
        tables.create_view("v", "SELECT k FROM r; SELECT y FROM r")


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


@pytest.mark.parametrize("query", ["TABLE r", "WITH q AS (TABLE r) SELECT * FROM q"])
def test_a_bare_table_is_refused(tables: vk.Database, query: str) -> None:
    """Found: it was a query over no table, which saw the rows of some earlier statement and no change ever."""
    tables.sql("SELECT * FROM r").collect()
    with pytest.raises(vk.StatementError, match="TABLE r is not supported"):
        tables.create_view("v", query)


@pytest.mark.parametrize("name", ["shop.r", "global_temp.r", "spark_catalog.default.r AS s", "`Shop`.`r`"])
def test_a_table_of_sparks_catalog_is_not_ours(tables: vk.Database, name: str) -> None:
    """Found: whatever stood in front, the view followed our own table of the last name."""
    for query in (f"SELECT k FROM {name}", f"WITH r AS (SELECT 1 AS k) SELECT k FROM (SELECT k FROM {name})"):
        with pytest.raises(vk.StatementError, match=r"\.r has a database in front"):
            tables.create_view("v", query)
        with pytest.raises(vk.StatementError, match=r"\.r has a database in front"):
            tables.sql(query)


def test_what_spark_is_at_a_loss_about_is_the_querys_error(tables: vk.Database) -> None:
    """It has the SQL state of Spark's own failures, though nothing has failed but the analysis: trying again is of no use."""
    with pytest.raises(vk.StatementError, match=r'cannot analyse the query: \[MISSING_ATTRIBUTES.*"s" missing'):
        tables.create_view("v", "SELECT x, SUM(y) AS s FROM r GROUP BY x HAVING MAX(s) > 1")
    with pytest.raises(vk.StatementError, match="MISSING_ATTRIBUTES"):
        tables.sql("SELECT x, SUM(y) AS s FROM r GROUP BY x HAVING MAX(s) > 1")


def test_names_of_with_have_no_case(tables: vk.Database, spark: SparkSession) -> None:
    """Found: `q1` was looked for among the tables. A name that WITH gives hides a table, but not inside its own query."""
    evaluated(
        tables, spark,
        "WITH Q1 AS (SELECT k, y FROM r) SELECT * FROM q1",
        "WITH R AS (SELECT k, y FROM r WHERE y > 3), s AS (SELECT k FROM R) SELECT COUNT(*) AS n FROM (SELECT * FROM S)",
        strategy="incremental",
    )  # fmt: skip
    assert [row.k for row in tables.sql("WITH Q AS (SELECT k FROM r WHERE k = 1) SELECT * FROM q").collect()] == [1]


@pytest.mark.parametrize(
    "query",
    ["SELECT IDENTIFIER('k') AS o FROM r", "SELECT IDENTIFIER('abs')(k) FROM r", "SELECT k FROM IDENTIFIER('r')"],
)
def test_a_name_that_the_text_hides_is_refused(tables: vk.Database, query: str) -> None:
    """Found: it stopped at the first refresh, or the table "" was not there. It can hide a function that is never the same."""
    with pytest.raises(vk.StatementError, match=r"IDENTIFIER\('\w+'\) hides what the query names"):
        tables.create_view("v", query)


def test_functions_in_from(tables: vk.Database, spark: SparkSession) -> None:
    """Found: the table "" was not there."""
    evaluated(
        tables, spark,
        "SELECT id FROM range(3)",
        "SELECT k, g.id FROM r JOIN range(1, 3) AS g ON g.id = r.k",
        "SELECT k, col FROM r, LATERAL explode(array(k, y))",
    )  # fmt: skip
    assert tables.sql("SELECT COUNT(*) AS n FROM range(3)").collect()[0].n == 3
    for name in ("IDENTIFIER('r')", "nothing(3)", "shop.range(3)"):
        with pytest.raises(vk.StatementError, match="in FROM is not supported"):
            tables.sql(f"SELECT * FROM {name}")


def deeper(frames: int, work: Callable[[], Any]) -> Any:
    return work() if frames == 0 else deeper(frames - 1, work)


def test_deep_nesting_depends_on_nobodys_stack(tables: vk.Database, spark: SparkSession, tmp_path: Path) -> None:
    """Found: a `RecursionError`, the sooner the deeper the caller was. What was made once must stay readable."""
    query = f"SELECT k, {'abs(' * 30}y{')' * 30} AS o FROM r"
    deeper(500, lambda: tables.create_view("v", query))
    put_rows(tables)
    with vk.open(tmp_path / "db.vk", spark=spark) as again:
        assert not deeper(500, again.refresh).failed
        check(again, spark, {"v": query})
        verify(again, ["v"])
        assert again.view("v").status().strategy == "incremental"


def test_too_deep_nesting_is_an_error_of_ours(tables: vk.Database) -> None:
    query = f"SELECT k, {'abs(' * 60}y{')' * 60} AS o FROM r"
    for ask in (
        tables.sql,
        lambda text: tables.create_view("v", text),
        lambda text: tables.execute(f"CREATE MATERIALIZED VIEW v AS {text}"),
    ):
        with pytest.raises(vk.StatementError, match="nested too deep"):
            ask(query)


def test_many_unions_are_evaluated_again() -> None:
    """They nest in the parser's tree: it is read, but there is no room for following it."""
    query = " UNION ALL ".join(["SELECT k FROM r"] * 1000)
    assert tables_of(query, {"r": ["k"]}) == ["r"]
    with pytest.raises(NotIncremental, match="nested this deep"):
        compile_query("v", query, ["k"], {"r": ["k"]})


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
        "CAST('10:30' AS TIMESTAMP)", "TIMESTAMP'10:30:00'", "to_timestamp('T10')", "timestamp(('9:30'))", "ts > '10:30'",
        "date_trunc('HOUR', ' 1:2')", "to_timestamp(to_timestamp('10:30'), 'HH:mm')",
        "ts > 'today'", "ts BETWEEN 'yesterday' AND 'epoch'", "coalesce(ts, 'now')",
        "unix_timestamp()", "now()", "current_date", "current_timestamp()", "localtimestamp()", "localtime > current_time",
        "user", "session_user", "current_user()", "current_path()", "uuid()", "rand(1)", "aes_encrypt(u, '0000111122223333')",
        "reflect('java.util.UUID', 'randomUUID')", "try_reflect('java.util.UUID', 'randomUUID')",
    ],
)  # fmt: skip
def test_what_is_never_the_same_is_refused(tables: vk.Database, expression: str) -> None:
    with pytest.raises(vk.StatementError, match="not deterministic"):
        tables.create_view("v", f"SELECT id, {expression} AS q FROM e")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, u AS user FROM e WHERE u <> user",
        "SELECT id, u AS localtime FROM e WHERE localtime IS NULL",
        "SELECT u AS user, user AS v FROM e",
        "SELECT u AS user, COUNT(*) AS n FROM e GROUP BY u, user",
        "SELECT e.id, e.u AS user FROM e JOIN r ON r.x = user AND r.k = e.id",
        "SELECT k FROM r JOIN b ON b.x = user JOIN (SELECT x AS user FROM c) ON user = r.x",
        "SELECT k FROM r JOIN b ON b.x = r.x LEFT SEMI JOIN (SELECT x AS user FROM c) ON user = r.x WHERE user = b.x",
        "SELECT u AS user, v FROM (SELECT u, user AS v FROM e)",
        "SELECT user FROM (SELECT b.* FROM b JOIN (SELECT x AS user FROM a) c ON b.x = c.user)",
        "SELECT user FROM (SELECT * EXCEPT (user) FROM (SELECT id, u AS user FROM e))",
        "SELECT user FROM (SELECT named_struct('user', u).user FROM e)",
        "SELECT id FROM (SELECT id, u AS user FROM e) WHERE EXISTS (SELECT 1 FROM r WHERE x = user)",
        "SELECT id FROM e LATERAL VIEW explode(array(user)) v AS user",
    ],
)  # fmt: skip
def test_a_name_that_is_a_function_beside_a_column_of_it(tables: vk.Database, query: str) -> None:
    """Found: an alias anywhere in the query made `user` a column, and Spark's own was taken for repeatable."""
    assert "current_" in tables.sql(query)._jdf.queryExecution().analyzed().toString()
    with pytest.raises(vk.StatementError, match=r"not deterministic: (user|localtime) has another value"):
        tables.create_view("v", query)


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
