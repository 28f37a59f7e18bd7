"""Throughput by view type and number of workers: inserts alone, and inserts, updates and deletes mixed.

After figures 6, 7 and 8 of "Dynamic Scalable View Maintenance in KV-stores" and experiments 1 and 2 of the thesis "Dynamic
Scalable View Maintenance". The paper (40 nodes) saw selections of 10, 50 and 90 % fastest, COUNT and SUM alike, INDEX slower, MIN
and MAX slower still, joins slowest. The thesis (40 virtual nodes on one server of 32 cores) saw 1,500 to 5,500 view records a
second as view managers were added, and with mixed operations the key-foreign-key join fastest and MIN slowest.
A worker is here a slot of Spark for tasks (`local[n]`), in a process of its own that lives through all repetitions. Every epoch
runs as tasks, so that their number can show.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial

import pyarrow as pa

import viewkeeper as vk
from viewkeeper.bench.child import Child
from viewkeeper.bench.experiment import Experiment, Kind, Plot
from viewkeeper.bench.outcomes import Finding, Mark
from viewkeeper.bench.runner import Measured, in_turn, proved, speed, verified
from viewkeeper.bench.settings import Settings
from viewkeeper.bench.truth import in_order, same_rows
from viewkeeper.bench.workload import GROWING, VALUES, Mix, Tables

VIEWS = {
    "selection 10 %": f"SELECT k, x, y FROM r WHERE y < {VALUES * 10 // 100}",
    "selection 50 %": f"SELECT k, x, y FROM r WHERE y < {VALUES * 50 // 100}",
    "selection 90 %": f"SELECT k, x, y FROM r WHERE y < {VALUES * 90 // 100}",
    "count": "SELECT x, COUNT(*) AS n FROM r GROUP BY x",
    "sum": "SELECT x, SUM(y) AS s FROM r GROUP BY x",
    "min": "SELECT x, MIN(y) AS lo FROM r GROUP BY x",
    "max": "SELECT x, MAX(y) AS hi FROM r GROUP BY x",
    "index": "SELECT x, k, y FROM r",
    "join": "SELECT r.k, r.x, r.y, s.z FROM r JOIN s ON r.x = s.x",
}
KEYS = {"selection 10 %": "k", "selection 50 %": "k", "selection 90 %": "k", "index": "k", "join": "k"}
"""What tells the rows of a view apart, where it is not x."""

QUICK = ("selection 50 %", "sum", "join")
"""A row each, a group each, and rows of two tables."""

STREAMS = {"inserts": Mix(new=100), "mixed": GROWING}
Side = tuple[str, int]


def sizes(settings: Settings) -> dict[str, int]:
    return {
        "rows": settings.size(60_000, 2_000),
        "partners": settings.size(20_000, 500),
        "operations": settings.size(60_000, 2_000),
        "most_workers": _workers(settings)[-1],
        "repetitions": 1 if settings.quick else 3,
    }


def _workers(settings: Settings) -> tuple[int, ...]:
    """One and as many as there are cores; a quick run shows that it works with two, whatever the cores."""
    return (2,) if settings.quick else tuple(sorted({1, 2, os.cpu_count() or 1}))


def measure(settings: Settings) -> Iterator[Finding]:
    size = sizes(settings)
    views = QUICK if settings.quick else tuple(VIEWS)
    with ExitStack() as stack:
        tables: dict[int, Tables] = {}
        children: dict[int, Child] = {}
        for workers in _workers(settings):
            folder = settings.folder / f"{workers}.vk"
            made = stack.enter_context(closing(Tables(folder, size["rows"], size["partners"], settings.seed)))
            _define(made, views)
            tables[workers] = made
            child = stack.enter_context(closing(Child(folder, master=f"local[{workers}]")))
            child.ask(do="tasks_from", changes=size["operations"] // 2)
            children[workers] = child
        for stream, mix in STREAMS.items():
            sides = {
                (view, count): partial(child.refresh, _name(view))
                for view in views
                for count, child in children.items()
            }
            write = partial(_change, tables.values(), size["operations"], mix)
            found = in_turn(sides, size["repetitions"], warmups=0 if settings.quick else 1, before=write)
            yield from _outcomes(found, stream, size["operations"], list(tables))
        *fewer, most = children
        yield proved(f"{most} workers, rows verified", partial(verified, tables[most].db, list(map(_name, views))))
        for workers in fewer:
            yield proved(f"{workers} workers, rows compared", partial(_same, tables[workers].db, tables[most].db))


def _same(one: vk.Database, other: vk.Database) -> int:
    """Rows of the views of two databases that were written to alike: what the oracle says of one, it says of the other."""
    return sum(same_rows(one, _name(view), KEYS.get(view, "x"), _ordered(other, view)) for view in VIEWS)


def _ordered(db: vk.Database, view: str) -> pa.Table:
    return in_order(db.view(_name(view)).scan(), KEYS.get(view, "x"))


def _define(tables: Tables, views: Sequence[str]) -> None:
    """The index view is arranged by x; each view is in a group of its own."""
    for number, view in enumerate(views):
        sql = VIEWS[view]
        cluster = "x" if view == "index" else ()
        tables.db.create_view(_name(view), sql, refresh=f"every {100 + number} seconds", cluster_by=cluster)


def _name(view: str) -> str:
    return view.replace(" %", "").replace(" ", "_")


def _change(tables: Iterable[Tables], operations: int, mix: Mix) -> None:
    """Every database alike, whatever the number of its workers."""
    for one in tables:
        one.change(operations, mix)


def _outcomes(found: dict[Side, Measured], stream: str, operations: int, workers: list[int]) -> Iterator[Finding]:
    for (view, count), measured in found.items():
        one = count == workers[0]
        plural = "worker" if count == 1 else "workers"
        what = f"{view}, {stream}, {count} {plural}" + ("" if one else f" (raw: {workers[0]})")
        mark = Mark(f"{stream}, {count} {plural}", view)
        yield speed(what, operations, measured, None if one else found[view, workers[0]], mark=mark)


EXPERIMENT = Experiment(
    name="throughput_by_view",
    title="Throughput by view type and number of workers",
    source="KV-stores paper, figures 6, 7, 8; thesis on scalable maintenance, experiments 1 and 2",
    seen=(
        "Thesis, 40 virtual nodes on one server with 4 Xeon 4650 (32 cores, 512 GB, two SSDs), a million inserts: "
        "from 1,500 to 5,500 view records a second as view managers were added, nearly linearly up to eight of "
        "them; each manager did 600 to 700. With mixed operations the key-foreign-key join and the selection were "
        "fastest, COUNT and SUM alike, MIN slowest. Paper, 40 nodes with 10 region servers: selection fastest, "
        "then COUNT and SUM, INDEX, MIN and MAX, JOIN."
    ),
    limits=(
        "Every epoch is made to run as Spark tasks, so that the number of workers can show. A program of its own would follow "
        "as few changes as these without a job, and several times as fast (see the number of operations). What a job costs "
        "whatever it does is a large part of these epochs, so that what a view writes weighs less than it would with more "
        "changes: a selection, a join and an index view a row for each change that concerns them, MIN and MAX an entry of "
        "their value index, COUNT and SUM one row for each group that changed. Spark's driver, the Python workers and SQLite "
        "share the cores with the slots that are counted."
    ),
    measure=measure,
    sizes=sizes,
    plots=(Plot("How many changes a second does each kind of view follow?", "", "changes a second", Kind.BARS),),
)
