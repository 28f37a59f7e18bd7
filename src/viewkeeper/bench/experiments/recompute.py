"""Recompute against incremental: each kind of change at growing tables, and the share of rows from which recomputing wins.

After figure 5.1 of "Materialized views with Apache Spark": tables of 10,000, 100,000 and 250,000 rows in HBase on one laptop
(Core i5-3230M, 3.9 GB), and insert, value update, key update and delete; following a change saved 71 to 90 % of the time of
a recomputation.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import pairwise
from math import exp, log
from statistics import median

from pyspark.sql import SparkSession

from viewkeeper.bench.experiment import Experiment, Plot
from viewkeeper.bench.outcomes import Finding, Mark, Outcome, Sample
from viewkeeper.bench.recompute import Recompute
from viewkeeper.bench.runner import compared, failed, in_turn, proved, refreshed, verified
from viewkeeper.bench.settings import Settings
from viewkeeper.bench.truth import same_as_arrow
from viewkeeper.bench.workload import ALL_FOUR, Mix, Tables
from viewkeeper.engine.spark import Spark

VIEW = ALL_FOUR
CASES = {
    "insert": Mix(new=100),
    "value update": Mix(updated=100),
    "key update": Mix(moved=100),
    "delete": Mix(),
}
STEPS = (10_000, 100_000, 250_000, 1_000_000, 10_000_000)
QUICK = (1_000, 10_000)
CHANGES = 1_000
EPOCHS = 3
"""Epochs of a kind in each round, of which the median counts: they are short, and the machine is not quiet."""

SHARES = (0.0001, 0.001, 0.01, 0.1, 0.25, 0.5)


def sizes(settings: Settings) -> dict[str, int]:
    steps = [settings.scaled(step) for step in (QUICK if settings.quick else STEPS)]
    return {
        **{f"rows_{number}": step for number, step in enumerate(steps, 1)},
        "partners": settings.size(100_000, 2_000),
        "changes": min(CHANGES, steps[0] // 10),
        "epochs": 1 if settings.quick else EPOCHS,
        "crossover_rows": settings.size(250_000, 20_000),
        "repetitions": 1 if settings.quick else 3,
    }


def measure(settings: Settings) -> Iterator[Finding]:
    size = sizes(settings)
    base = Spark().session()
    steps = [step for name, step in size.items() if name.startswith("rows")]
    for step in steps[:-2]:
        yield from _own(settings, base, step, size)
    for step in steps[-2:]:
        tables = settings.shared.tables(step, size["partners"])
        yield from _at(settings, base, tables, step, size)
        yield proved(f"{step:,} rows, rows compared", partial(same_as_arrow, tables, (VIEW,)))
    with _made(settings, "crossover", size["crossover_rows"], size) as tables:
        settings.shared.have(tables, VIEW)
        yield from _crossover(tables, Recompute(base, settings.shared.exported(tables)), size)
        yield proved("crossover, rows verified", partial(verified, tables.db, [VIEW.name]))


def _own(settings: Settings, base: SparkSession, rows: int, size: dict[str, int]) -> Iterator[Outcome]:
    """Tables that nobody else needs."""
    with _made(settings, str(rows), rows, size) as tables:
        yield from _at(settings, base, tables, rows, size)
        yield proved(f"{rows:,} rows, rows verified", partial(verified, tables.db, [VIEW.name]))


def _made(settings: Settings, name: str, rows: int, size: dict[str, int]) -> closing[Tables]:
    return closing(Tables(settings.folder / f"{name}.vk", rows, min(rows, size["partners"]), settings.seed))


def _at(settings: Settings, base: SparkSession, tables: Tables, rows: int, size: dict[str, int]) -> Iterator[Outcome]:
    settings.shared.have(tables, VIEW)
    yield from _cases(tables, Recompute(base, settings.shared.exported(tables)), rows, size)


def _cases(tables: Tables, by_hand: Recompute, rows: int, size: dict[str, int]) -> Iterator[Outcome]:
    """A recomputation takes as long whatever changed: one in each round stands beside all cases."""
    sides = {case: partial(_epochs, tables, size["changes"], mix, size["epochs"]) for case, mix in CASES.items()}
    found = in_turn({**sides, "recompute": partial(by_hand.run, VIEW)}, size["repetitions"])
    for number, case in enumerate(CASES):
        mark = Mark(case, rows, raw=None if number else "recompute")
        what = f"{rows:,} rows, {size['changes']:,} times {case} (raw: recompute)"
        yield compared(what, found[case], found["recompute"], mark=mark)


def _crossover(tables: Tables, by_hand: Recompute, size: dict[str, int]) -> Iterator[Outcome]:
    ratios: dict[float, float] = {}
    for share in SHARES:
        changes = max(1, round(size["crossover_rows"] * share))
        sides = {
            "ours": partial(_epoch, tables, changes, Mix(moved=50, updated=50)),
            "raw": partial(by_hand.run, VIEW),
        }
        found = in_turn(sides, size["repetitions"])
        mark = Mark("incremental", share * 100, raw="recompute", plot="share")
        outcome = compared(f"{share:.2%} of the rows changed (raw: recompute)", found["ours"], found["raw"], mark=mark)
        if outcome.ratio is not None:
            ratios[share] = outcome.ratio.median
        yield outcome
    yield _where_equal(ratios)


def _where_equal(ratios: dict[float, float]) -> Outcome:
    """Between two measured shares, on a straight line through the logarithms; or as far as was measured.

    >>> _where_equal({0.01: 4.0, 0.1: 0.25}).ours
    Sample(repetitions=(3.16...,))
    """
    if not ratios:
        return failed("share of rows from which recomputing is faster", KeyError("no share has a figure"))
    shares = sorted(ratios)
    for less, more in pairwise(shares):
        if ratios[less] >= 1 > ratios[more]:
            along = log(ratios[less]) / (log(ratios[less]) - log(ratios[more]))
            share = exp(log(less) + along * (log(more) - log(less)))
            return Outcome("recomputing is faster from this share of rows on", "%", Sample((share * 100,)))
    if ratios[shares[0]] < 1:
        return Outcome("recomputing is faster from this share of rows on, or less", "%", Sample((shares[0] * 100,)))
    return Outcome("recomputing is not faster up to this share of rows", "%", Sample((shares[-1] * 100,)))


def _epochs(tables: Tables, count: int, mix: Mix, epochs: int) -> float:
    return median(_epoch(tables, count, mix) for _ in range(epochs))


def _epoch(tables: Tables, count: int, mix: Mix) -> float:
    tables.change(count, mix)
    return refreshed(tables.db, VIEW.name)


EXPERIMENT = Experiment(
    name="recompute",
    title="Recompute against incremental",
    source="thesis on Spark, figure 5.1; four change cases of its chapter 4.2",
    seen=(
        "On one laptop (Core i5-3230M, 3.9 GB) with HBase and Spark, at 10,000 to 250,000 rows: following a change saved 71 "
        "to 90 % of a recomputation's time, for each of the four cases."
    ),
    limits=(
        "By construction an epoch's time is set by its changes, a recomputation's by the table; when many rows "
        "change at once, nearly every group does, and each is written durably."
    ),
    measure=measure,
    sizes=sizes,
    plots=(
        Plot(
            "How long does it take to follow {changes:,} changes, and to recompute?",
            "rows of the table (log)",
            "seconds (log)",
            log_x=True,
            log_y=True,
        ),
        Plot(
            "From which share of changed rows on is recomputing faster?",
            "rows changed, in percent of the table (log)",
            "seconds (log)",
            log_x=True,
            log_y=True,
            name="share",
        ),
    ),
)
