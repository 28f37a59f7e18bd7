"""Whether views say what their queries say, found out without the package's own oracle.

The queries are given to Spark as they were written, over DataFrames of the base tables' rows and temporary views for
the views under them; the rows are compared here, as bags. Doubles may differ in their last digits, nothing else may.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

import viewkeeper as vk

TOLERANCE = 1e-9

Row = tuple[Any, ...]


def check(db: vk.Database, spark: SparkSession, views: Mapping[str, str]) -> None:
    """Every view, by name and query in the order of creation, is what Spark says."""
    register(db, spark, views)
    for name, query in views.items():
        check_view(db, spark, name, query)


def check_view(db: vk.Database, spark: SparkSession, name: str, query: str) -> None:
    view = db.view(name)
    assert view.status().failure is None, (name, view.status().failure)
    wanted = spark.table(f"`{name}`").toArrow()
    assert_same(view.scan(), wanted, f"{name}: {query}\n{db.explain(name)}")
    assert kinds(view.schema) == kinds(wanted.schema), name


def verify(db: vk.Database, views: Iterable[str]) -> None:
    """The package's own oracle says so too: asked at the end of a history, since it takes as long as all of `check`."""
    for name in views:
        verified = db.verify(name)
        assert verified.equal, (name, verified)


def register(db: vk.Database, spark: SparkSession, views: Mapping[str, str]) -> None:
    """The base tables and the views as plain Spark has them."""
    for table in db.tables():
        spark.createDataFrame(table.scan().combine_chunks()).createOrReplaceTempView(table.name)
    for name, query in views.items():
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW `{name}` AS {query}")


def kinds(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    return [(field.name, _kind(field.type)) for field in schema]


def _kind(kind: pa.DataType) -> pa.DataType:
    """A type but for what is no part of it: whether nested values may be NULL, and what their fields are called."""
    if pa.types.is_list(kind):
        return pa.list_(_kind(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_kind(kind.key_type), _kind(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([(kind.field(i).name, _kind(kind.field(i).type)) for i in range(kind.num_fields)])
    return kind


def assert_same(found: pa.Table, wanted: pa.Table, about: str) -> None:
    """The same bag of rows."""
    missing, extra = difference(rows_of(found), rows_of(wanted))
    assert not missing, f"missing {missing[:5]}, extra {extra[:5]} of {found.num_rows} rows in {about}"
    assert not extra, f"extra {extra[:5]} of {found.num_rows} rows in {about}"


def rows_of(table: pa.Table) -> list[Row]:
    columns = [table.column(i).to_pylist() for i in range(table.num_columns)]
    return list(zip(*columns, strict=True)) if columns else []


def difference(found: Iterable[Row], wanted: Iterable[Row]) -> tuple[list[Row], list[Row]]:
    """What is wanted and not found, and what is found and not wanted.

    >>> difference([(1, 0.5), (1, 0.5)], [(1, 0.5), (2, None)])
    ([(2, None)], [(1, 0.5)])
    """
    left, right = Counter(map(_exactly, found)), Counter(map(_exactly, wanted))
    extra, missing = list((left - right).elements()), list((right - left).elements())
    for row in list(missing):
        twin = next((other for other in extra if _close(row, other)), None)
        if twin is not None:
            missing.remove(row)
            extra.remove(twin)
    return list(map(_shown, missing)), list(map(_shown, extra))


_NAN = "a NaN, which equals itself"


def _exactly(row: Sequence[Any]) -> Row:
    """A row that can be counted: NaN equals itself, -0.0 is 0.0, nested values are text."""
    return tuple(map(_value, row))


def _value(value: Any) -> Any:
    if isinstance(value, float):
        return _NAN if math.isnan(value) else value + 0.0
    if isinstance(value, bool):
        return ("bool", value)
    return repr(value) if isinstance(value, list | dict) else value


def _shown(row: Row) -> Row:
    return tuple(math.nan if value is _NAN else value for value in row)


def _close(one: Row, two: Row) -> bool:
    return all(
        a == b
        or (isinstance(a, float) and isinstance(b, float) and math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=1e-9))
        for a, b in zip(one, two, strict=True)
    )
