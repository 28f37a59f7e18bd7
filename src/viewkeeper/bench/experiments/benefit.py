"""Benefit of a view: reading a count by scanning in the client, by a Spark scan, and from the view.

After figure 9 of "Dynamic Scalable View Maintenance in KV-stores": a client that scans became impracticable as the table
grew, a scan by all region servers took 5 s for a million rows, and reading the view stayed below 1 ms up to ten million.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from statistics import median
from time import perf_counter

import pyarrow.compute as pc

import viewkeeper as vk
from viewkeeper.bench.experiment import Experiment, Plot
from viewkeeper.bench.outcomes import Finding, Mark, ceiling
from viewkeeper.bench.runner import Wrong, compared, in_turn, proved
from viewkeeper.bench.settings import Settings
from viewkeeper.bench.truth import same_as_arrow
from viewkeeper.bench.workload import QUERIES, Tables

COUNTS = QUERIES[0]
"""The view that counts, and sums, by x."""

READS = 200
LIMIT = ceiling(0.001)
STEPS = (10_000, 100_000, 1_000_000, 10_000_000)
QUICK = (1_000, 20_000, 100_000)


def sizes(settings: Settings) -> dict[str, int]:
    steps = [settings.scaled(step) for step in (QUICK if settings.quick else STEPS)]
    return {
        **{f"rows_{number}": step for number, step in enumerate(steps, 1)},
        "partners": settings.size(100_000, 2_000),
        "reads": READS,
        "repetitions": settings.bulk_repetitions,
        "repetitions_of_the_largest": 2,
    }


def measure(settings: Settings) -> Iterator[Finding]:
    size = sizes(settings)
    steps = [step for name, step in size.items() if name.startswith("rows")]
    with ExitStack() as stack:
        for step in steps:
            shared = step in steps[-2:]
            tables = (
                settings.shared.tables(step, size["partners"])
                if shared
                else stack.enter_context(
                    closing(Tables(settings.folder / f"{step}.vk", step, min(step, size["partners"]), settings.seed))
                )
            )
            settings.shared.have(tables, COUNTS)
            yield from _at(tables, step, size["repetitions_of_the_largest" if step == steps[-1] else "repetitions"])


def _at(tables: Tables, rows: int, repetitions: int) -> Iterator[Finding]:
    answers: set[int] = set()
    found = in_turn(
        {
            "the view": partial(_timed, tables, _from_view, READS, answers),
            "a scan in the client": partial(_timed, tables, _in_client, 1, answers),
            "a Spark scan": partial(_timed, tables, _by_spark, 1, answers),
        },
        repetitions,
    )
    view = found.pop("the view")
    yield compared(f"{rows:,} rows, from the view", view, limit=LIMIT, mark=Mark("the view", rows))
    for name, other in found.items():
        what = f"{rows:,} rows, from the view (raw: {name})"
        yield compared(what, view, other, mark=Mark(None, rows, raw=name))
    yield proved(f"{rows:,} rows, counts compared", partial(_same, tables, answers))


def _timed(tables: Tables, read: Callable[[vk.Database, str], int], calls: int, answers: set[int]) -> float:
    """The median of so many reads of different groups. What the first says of its group is kept."""
    times = []
    for number in range(calls):
        started = perf_counter()
        count = read(tables.db, f"x{number}")
        times.append(perf_counter() - started)
        if number == 0:
            answers.add(count)
    return median(times)


def _same(tables: Tables, answers: set[int]) -> int:
    """All ways gave one count, and the view's rows are what the table's say, group by group."""
    rows = same_as_arrow(tables, (COUNTS,))
    if len(answers) != 1:
        raise Wrong(f"the ways disagree: {answers}")
    return rows


def _from_view(db: vk.Database, group: str) -> int:
    row = db.view(COUNTS.name).get(group)
    return 0 if row is None else int(row["n"])


def _in_client(db: vk.Database, group: str) -> int:
    return int(pc.sum(pc.equal(db.table("r").scan(columns=["x"])["x"], group)).as_py() or 0)


def _by_spark(db: vk.Database, group: str) -> int:
    return int(db.sql(f"SELECT COUNT(*) AS n FROM r WHERE x = '{group}'").collect()[0]["n"])


EXPERIMENT = Experiment(
    name="benefit",
    title="Benefit of a view",
    source="KV-stores paper, figure 9",
    seen=(
        "On 40 nodes with 10 region servers: the client's scan was the slowest, a scan by all region servers took 5 s for a "
        "million rows, the view's read stayed below 1 ms at ten million."
    ),
    limits=(
        "By construction a read of the view is one point read and the view's definition from the catalog, "
        "whatever the table's size. Both scans read the whole table, and Spark's gets it from this process as "
        "Arrow, so that it is slower than a scan in the client, and not faster as on the papers' many machines."
    ),
    measure=measure,
    sizes=sizes,
    plots=(
        Plot(
            "How long does it take to read one count?",
            "rows of the table (log)",
            "seconds (log)",
            log_x=True,
            log_y=True,
        ),
    ),
)
