"""What the names in a query stand for, whatever they stood for before."""

from __future__ import annotations

from itertools import product

import pyarrow as pa
from pyspark.sql import SparkSession

from viewkeeper.engine.spark import Spark

NARROW = pa.schema([pa.field("a", pa.int64())])
WIDE = pa.schema([pa.field("a", pa.string()), pa.field("b", pa.int64())])
TABLES = {
    ("t", "narrow, empty"): NARROW.empty_table(),
    ("T", "narrow, empty"): NARROW.empty_table(),
    ("t", "wide, empty"): WIDE.empty_table(),
    ("t", "wide"): pa.table({"a": ["x"], "b": [1]}, schema=WIDE),
    ("T", "narrow"): pa.table({"a": [1, 2]}, schema=NARROW),
}


def test_a_name_stands_for_the_table_that_was_given_with_the_query(spark: SparkSession) -> None:
    """Empty tables are named to Spark once. Two spellings are one name to it."""
    ours = Spark(spark)
    for (first, before), (second, table) in product(TABLES.items(), TABLES.items()):
        ours.run("SELECT * FROM t", {first[0]: before})
        assert ours.run("SELECT * FROM t", {second[0]: table}) == table, (first, second)
        if not table.num_rows:
            assert ours.schema("SELECT * FROM t", {second[0]: table.schema}) == table.schema


def test_an_empty_table_is_named_once(spark: SparkSession) -> None:
    ours, named = Spark(spark), []
    session = ours.session(large=False)
    original = session.createDataFrame

    def noting(*args: object) -> object:
        named.append(args)
        return original(*args)  # type: ignore[call-overload]

    session.createDataFrame = noting  # type: ignore[assignment,method-assign]
    for _ in range(3):
        assert ours.schema("SELECT a FROM t", {"t": WIDE}).names == ["a"]
    assert len(named) == 1
