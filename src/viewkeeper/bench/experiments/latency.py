"""Latency of an epoch of 1 to 10,000 changes over two sizes of the table, and where its time goes.

No figure of the papers: they measured throughput. A view's reader waits for an epoch, and an epoch must take as long over
ten million rows as over one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from viewkeeper.bench.experiment import Experiment, Kind, Plot
from viewkeeper.bench.outcomes import Finding, Mark, Of, ceiling
from viewkeeper.bench.phases import Notes, median_of, watched
from viewkeeper.bench.runner import compared, in_turn, proved, refreshed, verified
from viewkeeper.bench.settings import Settings
from viewkeeper.bench.truth import same_as_arrow
from viewkeeper.bench.workload import QUERIES, Query, Tables
from viewkeeper.engine.spark import Spark

VIEWS = (QUERIES[0], QUERIES[2])
STEPS = (1, 10, 100, 1_000, 10_000)
LIMIT = ceiling(1.2)
PARTS = {
    "taking the cut": ("cut",),
    "planning": ("plan",),
    "Spark jobs": ("Spark", "tasks"),
    "Python": ("parts", "fold", "rest"),
    "store": ("log", "scan", "probe", "apply"),
    "commit": ("commit",),
}
"""The engine's steps (`phases`) by whose work they are."""


LIMITED = 1_000
"""Changes up to which a larger table must not be slower: so few lie apart, a page each, in tables of either size."""


def sizes(settings: Settings) -> dict[str, int]:
    return {
        "small_rows": settings.size(1_000_000, 20_000),
        "large_rows": settings.size(10_000_000, 100_000),
        "partners": settings.size(100_000, 2_000),
        "most_changes": _steps(settings)[-1],
        "repetitions": 1 if settings.quick else 5,
        "repetitions_of_many": 1 if settings.quick else 3,
    }


def _steps(settings: Settings) -> list[int]:
    return [step for step in STEPS if step * 10 <= settings.size(1_000_000, 20_000)]


def measure(settings: Settings) -> Iterator[Finding]:
    size = sizes(settings)
    both = {name: settings.shared.tables(size[name], size["partners"]) for name in ("large_rows", "small_rows")}
    for tables in both.values():
        for query in VIEWS:
            settings.shared.have(tables, query)
    with watched() as watch:
        notes = Notes(watch, Spark().session().sparkContext)
        for query in VIEWS:
            for changes in _steps(settings):
                about = {name: f"{query.title}, {changes:,} at {size[name]:,}" for name in both}
                sides = {
                    name: partial(_epoch, tables, query, changes, notes, about[name]) for name, tables in both.items()
                }
                found = in_turn(sides, size["repetitions" if changes <= LIMITED else "repetitions_of_many"])
                what = f"{query.title}, {changes:,} changes at {size['large_rows']:,} rows (raw: at {size['small_rows']:,})"
                large, small = (f"{query.title}, {size[name]:,} rows" for name in ("large_rows", "small_rows"))
                mark = Mark(large, changes, raw=small)
                limit = LIMIT if changes <= LIMITED else None
                yield compared(what, found["large_rows"], found["small_rows"], limit, mark, Of.TIME)
    for what, seen in notes.seen.items():
        found_there = median_of(what, seen[1:])
        yield replace(found_there, seconds=_by_part(found_there.seconds))
    names = [query.name for query in VIEWS]
    yield proved("small table, rows verified", partial(verified, both["small_rows"].db, names))
    yield proved("large table, rows compared", partial(same_as_arrow, both["large_rows"], VIEWS))


def _epoch(tables: Tables, query: Query, changes: int, notes: Notes, what: str) -> float:
    tables.change(changes)
    return notes.timed(what, partial(refreshed, tables.db, query.name))


def _by_part(steps: Mapping[str, float]) -> dict[str, float]:
    """Every step belongs to one part, so the parts add up to the whole.

    >>> _by_part({"cut": 1.0, "parts": 2.0, "rest": 0.5})["Python"]
    2.5
    """
    return {part: sum(steps.get(step, 0.0) for step in own) for part, own in PARTS.items()}


EXPERIMENT = Experiment(
    name="latency",
    title="Latency of an epoch",
    source="no figure of the papers, which measured throughput",
    seen="",
    limits=(
        "By construction the table's size is seen only in the depth of its B-trees, and in how many changes share a page: "
        "10,000 changes lie several to a page in a table of a million rows and one to a page in one of ten million, so "
        "the join, which writes a row and an index entry for each, writes up to twice as many pages there, and no more "
        "however large the table. The breakdown says what the "
        "rest is: neither of the two views needs a Spark job for changes as small as these, so it is the store's "
        "work (reading the log, probing, durable writes to up to four regions of each table), and fixed costs in "
        "Python."
    ),
    measure=measure,
    sizes=sizes,
    plots=(
        Plot(
            "How long is an epoch, by the size of the change?",
            "changes in the epoch (log)",
            "seconds (log)",
            log_x=True,
            log_y=True,
        ),
        Plot(
            "Where does the time of an epoch go?",
            "milliseconds",
            "view, changes in the epoch, rows of the table",
            Kind.STACKS,
            name="breakdown",
        ),
    ),
)
