"""Queries that the parser reads otherwise than Spark are found by trying them out; those that it reads right still follow."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from truth import check, verify

import viewkeeper as vk
from viewkeeper.engine.rehearsal import MANNERS, ROWS, Rehearsal, made_up
from viewkeeper.engine.spark import Spark
from viewkeeper.sql.plain import is_plain

TABLE = (
    "CREATE TABLE r (k BIGINT PRIMARY KEY, x STRING, y BIGINT, i INT, b BOOLEAN, c BOOLEAN, d DECIMAL(10,2), ts TIMESTAMP,"
    " arr ARRAY<BIGINT>, items ARRAY<STRUCT<k: BIGINT, y: BIGINT>>)"
)
MISREAD = [
    "SELECT k, ts - INTERVAL 1 DAY 2 HOURS AS o FROM r",
    "SELECT k FROM r WHERE ts > TIMESTAMP'2024-02-28 00:00:00' - INTERVAL 1 DAY 2 HOURS",
    "SELECT k, y | 1 << i AS o FROM r",
    "SELECT x, SUM(y & k >> 1) AS o FROM r GROUP BY x",
    "SELECT x, 2 AS n FROM r GROUP BY x HAVING COUNT(*) >= n",
    "SELECT k, transform(arr, Y -> y + 1) AS o FROM r",
    "SELECT k, transform(items, r -> r.y * y) AS o FROM r",
    "SELECT transform(array(1L), a0 -> a0 + COUNT(*)) AS o FROM r",
    "SELECT k, CAST(TIME'10:00:00' AS STRING) AS o FROM r",
    "SELECT b = c < b AS o, COUNT(*) AS m FROM r GROUP BY b, c, c < b",
    "SELECT b <=> c < b AS o, COUNT(*) AS m FROM r GROUP BY b, c, c < b",
    "SELECT k, struct(items[0].y) AS o FROM r",
    "SELECT (x, y) AS o, COUNT(*) AS m FROM r GROUP BY x, y",
    "SELECT arr, to_json(arrays_zip(arr)) AS o, COUNT(*) AS m FROM r GROUP BY arr",
]
READ_RIGHT = [
    "SELECT k, to_json(named_struct(concat('a', 'b'), x)) AS o FROM r",
    "SELECT k, transform(arr, e -> e + y) AS o, filter(arr, e -> e > 2) AS f FROM r",
    "SELECT k, named_struct('a', x, 'b', y) AS o, struct(x, y) AS p, struct(x AS q) AS s FROM r",
    "SELECT k, ts - INTERVAL 2 HOURS AS o, ts + INTERVAL '1' DAY AS p, y << 1 AS s, (y | 1) << i AS t FROM r",
    "SELECT k, items[0].y AS o, arr[0] AS p, x RLIKE 'a' AS q, y <=> i AS e FROM r",
    "SELECT k, CAST(x AS INT) + 1 AS o, 10 / y AS p, y DIV i AS q FROM r",
    "SELECT x AS n, COUNT(*) AS a0, SUM(d) AS g0, MAX_BY(y, i) AS m FROM r GROUP BY x HAVING COUNT(*) > 1",
    "SELECT date_trunc('HOUR', ts) AS h, (b = c) = b AS o, COUNT(DISTINCT y) AS m FROM r GROUP BY ALL",
]


@pytest.fixture
def table(db: vk.Database) -> vk.Database:
    db.execute(TABLE)
    return db


def _rows(keys: range) -> list[dict[str, Any]]:
    return [
        {
            "k": k,
            "x": str(k % 3),
            "y": k + 1,
            "i": k % 3 + 1,
            "b": k % 2 == 0,
            "c": None if k == 3 else k % 3 == 0,
            "d": Decimal(k) / 4,
            "ts": dt.datetime(2024, 2, 27 + k % 2, k, tzinfo=dt.UTC),
            "arr": [k, k + 1],
            "items": [{"k": k, "y": 10 + k}],
        }
        for k in keys
    ]


def _followed(db: vk.Database, spark: SparkSession, queries: list[str], strategy: str) -> None:
    views = {f"v{number}": query for number, query in enumerate(queries)}
    for name, query in views.items():
        db.create_view(name, query)
    strategies = {views[status.name]: status.strategy for status in db.status()}
    assert strategies == dict.fromkeys(queries, strategy)
    changes: list[Callable[[], None]] = [
        lambda: db.table("r").put(_rows(range(6))),
        lambda: db.table("r").delete([0, 4]),
    ]
    for change in changes:
        change()
        assert not db.refresh().failed
        check(db, spark, views)
    verify(db, views)


def test_what_is_misread_is_evaluated_again(table: vk.Database, spark: SparkSession) -> None:
    """Found: each of these was followed as another query, and its view was wrong."""
    _followed(table, spark, MISREAD, "full")


def test_what_is_unusual_and_read_right_follows(table: vk.Database, spark: SparkSession) -> None:
    _followed(table, spark, READ_RIGHT, "incremental")


def test_the_trial_is_remembered_with_the_view(table: vk.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan is made again without Spark, also in another process, and must be the one that the trial led to."""
    table.create_view("v", MISREAD[2])
    monkeypatch.setattr(Rehearsal, "agree", lambda *_: pytest.fail("tried again"))
    table._catalog._plans.clear()
    assert "because the query has something that is read otherwise here than by Spark" in table.explain("v")


def test_plain_queries_need_no_trial() -> None:
    assert not any(map(is_plain, MISREAD))
    assert is_plain(
        "SELECT a.x, SUM(a.y) AS s FROM r a LEFT JOIN r b ON a.k = b.k WHERE a.y > 1 OR NOT b.b GROUP BY a.x"
    )


def test_rows_that_a_query_fails_on_say_nothing(spark: SparkSession) -> None:
    rehearsal = Rehearsal(Spark(spark))
    schemas = {"t": pa.schema([("x", pa.string()), ("y", pa.int64())])}
    assert rehearsal.agree("SELECT CAST(x AS INT) / y AS o FROM t", "SELECT CAST(x AS INT) / y AS p FROM t", schemas)
    assert not rehearsal.agree("SELECT CAST(x AS INT) AS o FROM t", "SELECT CAST(x AS INT) + 1 AS o FROM t", schemas)
    assert not rehearsal.agree("SELECT x FROM t", "SELECT CAST(x AS INT) AS x FROM t", schemas)
    assert rehearsal.agree("SELECT CAST(raise_error('no') AS INT) AS o FROM t", "SELECT 1 AS o FROM t", schemas), (
        "nothing can be said"
    )


def test_made_up_rows_are_of_every_type() -> None:
    kinds = [
        *(pa.bool_(), pa.int8(), pa.int64(), pa.float32(), pa.float64(), pa.decimal128(3, 2), pa.decimal128(38, 0)),
        *(pa.string(), pa.binary(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")),
        *(pa.list_(pa.int64()), pa.map_(pa.string(), pa.int64()), pa.struct([("a", pa.list_(pa.string()))])),
    ]
    schema = pa.schema([pa.field(f"c{number}", kind) for number, kind in enumerate(kinds)])
    schema = schema.append(pa.field("never", pa.int64(), nullable=False))
    for manner in MANNERS:
        made = made_up(schema, manner)
        assert made == made_up(schema, manner)
        assert made.num_rows == ROWS
        assert made["never"].null_count == 0
        assert all(column.null_count > 0 for column in made.columns[:-1])
