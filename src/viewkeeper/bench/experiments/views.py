"""Views that follow their tables beside Spark that evaluates them anew: what an epoch costs, and a fill, and many changes.

Four views over two tables (`workload`), each in a group of its own, so that each is refreshed and timed alone. At the end
every view is compared with its query: with the oracle over the small table, and with Spark's own result from Parquet over
the large one.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from viewkeeper.bench.experiment import Experiment, Kind, Plot
from viewkeeper.bench.outcomes import Breakdown, Finding, Limit, Mark, Outcome, Sample, ceiling, floor
from viewkeeper.bench.peak import megabytes_of_refreshes
from viewkeeper.bench.phases import Jobs, Watch, watched
from viewkeeper.bench.recompute import Recompute
from viewkeeper.bench.runner import Comparison, Way, Wrong, compare, failed, paired, proved, single, verified
from viewkeeper.bench.settings import Settings
from viewkeeper.bench.sides import difference
from viewkeeper.bench.workload import QUERIES, Query, Tables
from viewkeeper.engine.spark import Spark

EPOCH = 1_000
"""Changes of a small epoch, whatever the scale, unless the tables are smaller still."""

FASTER_THAN_RECOMPUTE = {"v1": floor(8), "v2": floor(6), "v3": floor(12), "v4": floor(8)}
SLOWER_WITH_MORE_ROWS = ceiling(1.2)
FILL = {"v1": ceiling(4), "v2": ceiling(8), "v3": ceiling(8), "v4": ceiling(4)}
THROUGHPUT = {"v1": floor(0.25), "v2": floor(0.15), "v3": floor(0.08), "v4": floor(0.15)}
MEGABYTES = ceiling(3_000)


@dataclass(frozen=True)
class Sizes:
    """How much of everything. `partners` are the rows of S; `pairs` are epochs over large and small tables in turn."""

    small_rows: int
    large_rows: int
    partners: int
    changes: int
    epoch_changes: int
    repetitions: int
    pairs: int
    bulk_repetitions: int

    @classmethod
    def of(cls, settings: Settings) -> Sizes:
        small, large, partners, changes = (
            settings.scaled(size)
            for size in (
                (20_000, 100_000, 2_000, 20_000) if settings.quick else (1_000_000, 10_000_000, 100_000, 1_000_000)
            )
        )
        epoch = min(EPOCH, small // 20)
        repetitions, pairs, bulk = (2, 2, 1) if settings.quick else (3, 7, 2)
        return cls(small, large, partners, changes, epoch, repetitions, pairs, bulk)

    def by_name(self) -> dict[str, int]:
        return asdict(self)


def measure(settings: Settings) -> Iterator[Finding]:
    """The large tables are left to others, with their views; the small ones grow by much and are not."""
    sizes = Sizes.of(settings)
    base = Spark().session()
    small = Tables(settings.folder / "small.vk", sizes.small_rows, sizes.partners, settings.seed)
    large = settings.shared.tables(sizes.large_rows, sizes.partners)
    with closing(small), watched() as watch:
        by_hand = Recompute(base, settings.shared.exported(large))
        run = Run(settings.folder, sizes, small, large, by_hand, watch, Jobs(base.sparkContext))
        yield from run.fills()
        yield from run.epochs()
        yield from run.throughput()
        yield from run.memory()
        yield from run.proof()
        yield from run.breakdowns()


@dataclass
class Run:
    """The tables in two sizes, and what is measured over them."""

    folder: Path
    sizes: Sizes
    small: Tables
    large: Tables
    by_hand: Recompute
    watch: Watch
    jobs: Jobs
    _seen: dict[str, list[Breakdown]] = field(default_factory=lambda: defaultdict(list))

    # What is timed

    def refresh(self, tables: Tables, query: Query, what: str) -> float:
        """One epoch of one view; how long it took. `Wrong` if it did not follow."""
        self.jobs.look()
        self.watch.begin()
        report = tables.db.refresh(query.name)
        seconds = self.watch.end()
        self._note(f"{query.name}, {what}")
        if report.failed or query.name not in report.views:
            raise Wrong(report.failed.get(query.name, "the view found nothing to follow"))
        return seconds

    def fill(self, tables: Tables, query: Query, what: str) -> float:
        self.jobs.look()
        self.watch.begin()
        tables.db.create_view(query.name, query.sql, refresh=query.refresh)
        seconds = self.watch.end()
        self._note(f"{query.name}, {what}")
        return seconds

    def _note(self, what: str) -> None:
        jobs, stages = self.jobs.look()
        counts = {"jobs": jobs, "stages": stages, "crossings": self.watch.crossings}
        self._seen[what].append(Breakdown(what, self.watch.in_order(), counts))

    # Filling

    def fills(self) -> Iterator[Outcome]:
        """The small tables first, and Spark's own work once, so that nothing is timed cold."""
        for query in QUERIES:
            what = f"fill {query.name}, {self.large.size:,} rows (raw: recompute)"
            try:
                self.fill(self.small, query, "fill, small")
                self.by_hand.run(query)
                ours = self.fill(self.large, query, f"fill, {self.large.size:,} rows")
                raw = Sample((_seconds_of(self.by_hand, query),))
                yield paired(what, Sample((ours,)), raw, FILL[query.name], _bar(query, "filling it", plot="fill"))
            except Exception as error:
                yield failed(what, error)

    # Small epochs

    def epochs(self) -> Iterator[Outcome]:
        count = f"{self.sizes.epoch_changes:,} changes"
        for query in QUERIES:
            raw = Way(lambda _, query=query: self.by_hand.run(query), _nothing_wrong)  # type: ignore[misc]
            what = f"{query.name}, {count} at {self.sizes.large_rows:,} rows (raw: recompute)"
            mark = _bar(query, f"following {count}")
            yield from self._epoch(what, query, raw, FASTER_THAN_RECOMPUTE[query.name], self.sizes.repetitions, mark)
            what = f"{query.name}, {count} at {self.sizes.large_rows:,} rows (raw: at {self.sizes.small_rows:,})"
            small = self._way(self.small, query, f"{count}, small")
            yield from self._epoch(what, query, small, SLOWER_WITH_MORE_ROWS, self.sizes.pairs)

    def _epoch(
        self, what: str, query: Query, raw: Way, limit: Limit, repetitions: int, mark: Mark | None = None
    ) -> Iterator[Outcome]:
        """The first epoch is a warm-up: it also follows what the other views have seen meanwhile."""
        ours = self._way(self.large, query, f"{self.sizes.epoch_changes:,} changes")
        yield from compare(Comparison(what, ours, raw, limit, repetitions, warmups=1, mark=mark))

    def _way(self, tables: Tables, query: Query, what: str) -> Way:
        return Way(
            lambda _: self.refresh(tables, query, what),
            _nothing_wrong,
            lambda: _discard(tables.change(self.sizes.epoch_changes)),
        )

    # Large epochs

    def throughput(self) -> Iterator[Outcome]:
        """Every view follows the same changes. A first small epoch brings all of them to one point."""
        times: dict[str, list[tuple[float, float]]] = defaultdict(list)
        problems: dict[str, Outcome] = {}
        titles = {q.name: f"{q.name}, {self.sizes.changes:,} changes (raw: group them by x)" for q in QUERIES}
        self.small.change(self.sizes.epoch_changes)
        for repetition in range(self.sizes.bulk_repetitions + 1):
            for query in QUERIES:
                try:
                    pair = self._large_epoch(query, warm_up=repetition == 0)
                    times[query.name] += [pair] if repetition else []
                except Exception as error:
                    problems[query.name] = failed(titles[query.name], error)
            self.by_hand.keep_changes(self.small.change(self.sizes.changes))
        for name, title in titles.items():
            ours, raw = (Sample(tuple(pair[side] for pair in times[name])) for side in (0, 1))
            yield problems.get(name) or paired(title, ours, raw, THROUGHPUT[name])

    def _large_epoch(self, query: Query, *, warm_up: bool) -> tuple[float, float]:
        ours = self.refresh(self.small, query, "catching up" if warm_up else f"{self.sizes.changes:,} changes")
        if warm_up:
            return ours, 0.0
        started = time.perf_counter()
        self.by_hand.group_changes()
        return ours, time.perf_counter() - started

    # Memory

    def memory(self) -> Iterator[Outcome]:
        """The changes that `throughput` made last and nobody followed, by all views one after the other: no view takes more."""
        self.small.close()
        what = f"memory of all processes at {self.sizes.changes:,} changes, four views in turn"
        names = [query.name for query in QUERIES]
        yield single(what, "MB", partial(megabytes_of_refreshes, self.small.folder, names), MEGABYTES)
        self.small.open()

    # Proof

    def proof(self) -> Iterator[Outcome]:
        for query in QUERIES:
            self.large.db.refresh(query.name)
        self.large.export(self.folder / "after")
        truth = Recompute(self.by_hand.session, self.folder / "after")
        for query in QUERIES:
            small, large = (
                f"{query.name}, rows verified at {tables.size:,} rows" for tables in (self.small, self.large)
            )
            yield proved(small, partial(verified, self.small.db, [query.name]))
            yield proved(large, partial(self._truth, truth, query))

    def _truth(self, truth: Recompute, query: Query) -> int:
        truth.run(query)
        key = query.key
        stored = self.large.db.view(query.name).scan().sort_by(key)
        problem = difference(stored, truth.result(query).sort_by(key))
        if problem is not None:
            raise Wrong(problem)
        return stored.num_rows

    # Where the time goes

    def breakdowns(self) -> Iterator[Breakdown]:
        for what, seen in self._seen.items():
            if not what.endswith(("small", "catching up")):
                yield median_of(what, seen)


def _bar(query: Query, series: str, plot: str = "") -> Mark:
    return Mark(series, f"{query.name}: {query.title}", raw="Spark evaluates it anew", plot=plot)


def median_of(what: str, seen: Sequence[Breakdown]) -> Breakdown:
    """Step by step, so that the steps of an unlucky epoch do not count as a whole."""
    last = seen[-1]
    return Breakdown(
        what, {step: statistics.median(one.seconds[step] for one in seen) for step in last.seconds}, last.counts
    )


def _seconds_of(by_hand: Recompute, query: Query) -> float:
    started = time.perf_counter()
    by_hand.run(query)
    return time.perf_counter() - started


def _nothing_wrong(answers: Sequence[Any]) -> str | None:
    """Of a refresh that was wrong there is no answer; what the views hold is compared at the end."""
    return None


def _discard(value: Any) -> None:
    return None


EXPERIMENT = Experiment(
    name="views",
    title="Four views beside their recomputation",
    source="the four views of the project's own floors",
    seen="",
    limits=(
        "Applying is the largest part of a small epoch of the first three views, and no Spark job is run for "
        "them: what they need is joined and folded in Arrow. The fourth groups by an expression, which Spark "
        "evaluates, and that one statement takes longer than anything else in it. A fill and a large epoch are "
        "spent in Spark tasks that write to SQLite: a join writes a row for each row of R, and MIN and MAX keep "
        "an index of all values. Spark's recomputation writes Parquet, which has no keys."
    ),
    measure=measure,
    sizes=lambda settings: Sizes.of(settings).by_name(),
    plots=(
        Plot("How long until a view over a large table is true again?", "", "seconds (log)", Kind.BARS, log_y=True),
        Plot("What does the first fill cost?", "", "seconds", Kind.BARS, name="fill"),
    ),
)
