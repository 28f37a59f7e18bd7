"""What two of the views must hold, evaluated by Arrow from a scan of their tables: a proof that ten million rows can afford.

The oracle (`Database.verify`) hands every row to Spark and back, which takes minutes at that size. This says the same of
sums of integers and of a join on a key, and knows nothing of how views are maintained.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

import viewkeeper as vk
from viewkeeper.bench.runner import Wrong
from viewkeeper.bench.sides import difference
from viewkeeper.bench.workload import Query, Tables


def same_as_arrow(tables: Tables, queries: tuple[Query, ...]) -> int:
    """Rows of these views, each brought to the newest cut; `Wrong` if any differs."""
    rows = 0
    for query in queries:
        tables.db.refresh(query.name)
        stored = tables.db.view(query.name).scan().sort_by(query.key)
        problem = difference(stored, EXPECTED[query.name](tables.db))
        if problem is not None:
            raise Wrong(f'view "{query.name}": {problem}')
        rows += stored.num_rows
    return rows


def same_sums(db: vk.Database, view: str) -> int:
    """Rows of a view that sums y of R by x, brought to the newest cut."""
    db.refresh(view)
    stored = db.view(view).scan().sort_by("x")
    problem = difference(stored, _sums(db).select(["x", "s"]))
    if problem is not None:
        raise Wrong(f'view "{view}": {problem}')
    return int(stored.num_rows)


def _sums(db: vk.Database) -> pa.Table:
    rows = db.table("r").scan(columns=["x", "y"])
    sums = rows.group_by("x").aggregate([("y", "sum"), ([], "count_all")]).sort_by("x")
    return pa.table({"x": sums["x"], "s": sums["y_sum"], "n": sums["count_all"]})


def _join(db: vk.Database) -> pa.Table:
    """Each x of R is in S once."""
    rows, partners = db.table("r").scan(), db.table("s").scan()
    places = pc.index_in(rows["x"], value_set=partners["x"].combine_chunks())
    return rows.append_column("z", partners["z"].take(places)).sort_by("k")


EXPECTED: dict[str, Callable[[vk.Database], pa.Table]] = {"v1": _sums, "v3": _join}
