"""What some views must hold, evaluated by Arrow from a scan of their tables: a proof that ten million rows can afford.

The oracle (`Database.verify`) hands every row to Spark and back, which takes minutes at that size. This says the same of
sums of integers and of a join on a key, and knows nothing of how views are maintained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

import viewkeeper as vk
from viewkeeper.bench.outcomes import Outcome
from viewkeeper.bench.runner import Wrong, proved, verified
from viewkeeper.bench.sides import difference
from viewkeeper.bench.workload import Query, Tables


def same_as_arrow(tables: Tables, queries: tuple[Query, ...]) -> int:
    """Rows of these views, each brought to the newest cut; `Wrong` if any differs."""
    rows = 0
    for query in queries:
        tables.db.refresh(query.name)
        rows += same_rows(tables.db, query.name, query.key, EXPECTED[query.name](tables.db))
    return rows


def same_sums(db: vk.Database, view: str) -> int:
    """Rows of a view that sums y of R by x, brought to the newest cut."""
    db.refresh(view)
    return same_rows(db, view, "x", _sums(db).select(["x", "s"]))


def sums_proved(databases: Mapping[str, vk.Database], view: str) -> Iterator[Outcome]:
    """The same view in several databases: the oracle looks at the first, which was followed like the others, Arrow at those."""
    for number, (name, db) in enumerate(databases.items()):
        if number == 0:
            yield proved(f"{name}, rows verified", partial(verified, db, [view]))
        else:
            yield proved(f"{name}, rows compared", partial(same_sums, db, view))


def same_rows(db: vk.Database, view: str, key: str, expected: pa.Table) -> int:
    """Rows of a view as it is; `expected` is in the order of its key."""
    stored = in_order(db.view(view).scan(), key)
    problem = difference(stored, expected)
    if problem is not None:
        raise Wrong(f'view "{view}": {problem}')
    return int(stored.num_rows)


def in_order(rows: pa.Table, key: str) -> pa.Table:
    """Sorted by a column that has no NULL: ten million rows that lie so already, as scans do, are left as they are.

    >>> in_order(pa.table({"k": [2, 1]}), "k")["k"].to_pylist()
    [1, 2]
    """
    column = rows[key]
    sorted_already = pc.all(pc.less_equal(column[:-1], column[1:])).as_py() is not False
    return rows if sorted_already else rows.sort_by(key)


def sums_of(rows: pa.Table, x: str, y: str) -> pa.Table:
    """One column summed up by another, in that one's order."""
    sums = rows.group_by(x).aggregate([(y, "sum")]).sort_by(x)
    return pa.table({x: sums[x], "s": sums[f"{y}_sum"]})


def _sums(db: vk.Database) -> pa.Table:
    return _all_four(db).select(["x", "s", "n"])


def _all_four(db: vk.Database) -> pa.Table:
    rows = db.table("r").scan(columns=["x", "y"])
    functions = [("y", "sum"), ([], "count_all"), ("y", "min"), ("y", "max")]
    found = rows.group_by("x").aggregate(functions).sort_by("x")
    return found.select(["x", "y_sum", "count_all", "y_min", "y_max"]).rename_columns(["x", "s", "n", "lo", "hi"])


def _join(db: vk.Database) -> pa.Table:
    """Each x of R is in S once."""
    rows, partners = db.table("r").scan(), db.table("s").scan()
    places = pc.index_in(rows["x"], value_set=partners["x"].combine_chunks())
    return in_order(rows.append_column("z", partners["z"].take(places)), "k")


EXPECTED: dict[str, Callable[[vk.Database], pa.Table]] = {"v1": _sums, "v3": _join, "v12": _all_four}
