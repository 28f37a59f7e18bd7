"""The oracle: a view's query evaluated from scratch by Spark, over base tables at the view's own cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper import names
from viewkeeper.engine.catalog import ViewCatalog
from viewkeeper.engine.reports import Verification
from viewkeeper.engine.spark import Spark
from viewkeeper.maintain.delta.rows import consolidate, stored_keys
from viewkeeper.maintain.plan import Shape, ViewPlan
from viewkeeper.sql.ties import with_ties_broken
from viewkeeper.store.contract import Cut, Kind, Positions, Store

TOLERANCE = 1e-9
"""How far two doubles may be apart, relative to the larger, and still count as the same result of a sum."""


def evaluate(plan: ViewPlan, catalog: ViewCatalog, spark: Spark, cut: Cut, shapes: Mapping[str, Shape]) -> pa.Table:
    """The rows of a view's query at a cut. Views under it are evaluated from scratch as well."""
    tables: dict[str, pa.Table] = {}
    queries: list[tuple[str, str]] = []
    _collect(plan, catalog, cut, shapes, tables, queries)
    with_ = ", ".join(f"`{name}` AS (\n{query}\n)" for name, query in queries)
    query = with_ties_broken(plan.query)
    sql = f"WITH {with_}\nSELECT * FROM (\n{query}\n)" if queries else query
    return spark.run(sql, tables, plan.shape.schema)


def _collect(
    plan: ViewPlan,
    catalog: ViewCatalog,
    cut: Cut,
    shapes: Mapping[str, Shape],
    tables: dict[str, pa.Table],
    queries: list[tuple[str, str]],
) -> None:
    for name in plan.tables:
        if name in tables or any(name == known for known, _ in queries):
            continue
        if shapes[name].spec.kind is Kind.BASE:
            tables[name] = catalog.store.scan(name, at=cut[name])
        else:
            inner = catalog.plan(catalog.definition(name))
            _collect(inner, catalog, cut, shapes, tables, queries)
            queries.append((name, with_ties_broken(inner.query)))


def shown_rows(
    store: Store, shape: Shape, at: Positions | None = None, columns: Sequence[str] | None = None
) -> pa.Table:
    """A table's rows as its query gives them: copies in full, hidden columns left out."""
    wanted = list(shape.columns if columns is None else columns)
    if not shape.counted:
        return store.scan(shape.spec.name, columns=wanted, at=at)
    rows = store.scan(shape.spec.name, columns=[*wanted, names.COUNT], at=at)
    return expanded(rows, wanted)


def expanded(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Each row as many times as its count says."""
    counts = rows[names.COUNT].to_numpy()
    if (counts == 1).all():
        return rows.select(list(columns))
    return rows.select(list(columns)).take(pa.array(np.repeat(np.arange(rows.num_rows), counts)))


def compare(view: str, epoch: int, stored: pa.Table, oracle: pa.Table) -> Verification:
    """Both ways: what the oracle has and the view lacks, and the other way round."""
    parts = [_weighted(oracle, 1), _weighted(stored.cast(oracle.schema), -1)]
    difference = consolidate(pa.concat_tables(parts))
    tolerance = 0.0
    if any(pa.types.is_floating(field.type) for field in oracle.schema):
        tolerance = TOLERANCE
        difference = _beyond_tolerance(difference)
    weights = difference[names.WEIGHT].to_numpy()
    missing, extra = int(weights[weights > 0].sum()), int(-weights[weights < 0].sum())
    return Verification(view, epoch, stored.num_rows, missing, extra, tolerance, _examples(difference))


def _weighted(rows: pa.Table, sign: int) -> pa.Table:
    return rows.append_column(names.WEIGHT, pa.repeat(pa.scalar(sign, pa.int64()), rows.num_rows))


def _examples(difference: pa.Table) -> list[dict[str, Any]]:
    rows = difference.slice(0, 10).to_pylist()
    return [{"side": "missing" if row.pop(names.WEIGHT) > 0 else "extra", "row": row} for row in rows]


def _beyond_tolerance(difference: pa.Table) -> pa.Table:
    """Pairs of rows that agree but for the last digits of their doubles are no difference."""
    columns = [name for name in difference.column_names if name != names.WEIGHT]
    floats = [name for name in columns if pa.types.is_floating(difference[name].type)]
    exact = [name for name in columns if name not in floats]
    if difference.num_rows == 0:
        return difference
    rounded = difference.select(floats)
    for name in floats:
        rounded = rounded.set_column(rounded.column_names.index(name), name, difference[name].cast(pa.float64()))
    order = _order(difference, exact, rounded)
    keep = _unpaired(difference.take(order), exact, rounded.take(order))
    return difference.take(order).filter(pa.array(keep))


def _order(difference: pa.Table, exact: list[str], rounded: pa.Table) -> pa.Array:
    columns = {f"f_{name}": rounded[name] for name in rounded.column_names}
    if exact:
        keys = stored_keys(difference, exact)
        columns = {name: keys[name] for name in keys.column_names} | columns
    keys = pa.table(columns)
    return pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names])


def _unpaired(ordered: pa.Table, exact: list[str], rounded: pa.Table) -> list[bool]:
    keys = stored_keys(ordered, exact).to_pylist() if exact else [{}] * ordered.num_rows
    values = list(zip(*(rounded[name].to_pylist() for name in rounded.column_names), strict=True))
    weights = ordered[names.WEIGHT].to_pylist()
    keep = [True] * ordered.num_rows
    for number in range(ordered.num_rows):
        for other in range(number + 1, min(number + 4, ordered.num_rows)):
            if not (keep[number] and keep[other]) or keys[number] != keys[other] or weights[number] != -weights[other]:
                continue
            if all(map(_close, values[number], values[other])):
                keep[number] = keep[other] = False
    return keep


def _close(one: float | None, two: float | None) -> bool:
    if one is None or two is None:
        return one is two
    if one != one or two != two:
        return one != one and two != two
    return one == two or abs(one - two) <= TOLERANCE * max(abs(one), abs(two), 1e-6)
