"""Views that follow their tables beside Spark that evaluates them anew: what an epoch costs, and a fill, and many changes.

Four views over two tables (`workload`), each in a group of its own, so that each is refreshed and timed alone. At the end
every view is compared with Spark's own result of its query over the tables as they are then, from Parquet.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from viewkeeper.bench.experiment import Experiment, Kind, Plot
from viewkeeper.bench.outcomes import Breakdown, Finding, Mark, Outcome, Sample, ceiling, floor
from viewkeeper.bench.peak import megabytes_of_refreshes
from viewkeeper.bench.phases import Notes, median_of, watched
from viewkeeper.bench.recompute import Recompute
from viewkeeper.bench.runner import (
    Measured,
    Wrong,
    compared,
    failed,
    in_turn,
    paired,
    proved,
    refreshed,
    single,
)
from viewkeeper.bench.settings import Settings
from viewkeeper.bench.sides import difference
from viewkeeper.bench.truth import in_order
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
    """How much of everything. `partners` are the rows of S; `pairs` are some epochs over large and small tables in turn.

    With each of the `fills` there are as many epochs as `repetitions`.
    """

    small_rows: int
    large_rows: int
    partners: int
    changes: int
    epoch_changes: int
    fills: int
    repetitions: int
    pairs: int
    epochs_of_a_pair: int
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
        fills, repetitions, pairs, epochs, bulk = (1, 1, 1, 1, 1) if settings.quick else (2, 3, 4, 3, 2)
        return cls(small, large, partners, changes, epoch, fills, repetitions, pairs, epochs, bulk)

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
        warming = Recompute(base, settings.shared.exported(small))
        run = Run(settings.folder, sizes, small, large, by_hand, warming, Notes(watch, base.sparkContext))
        yield from run.beside_recomputing()
        yield from run.throughput()
        if not settings.quick:
            yield from run.memory()
        yield from run.proof()
        yield from run.breakdowns()


@dataclass
class Run:
    """The tables in two sizes, and what is measured over them. `by_hand` evaluates over the large one, `warming` the other."""

    folder: Path
    sizes: Sizes
    small: Tables
    large: Tables
    by_hand: Recompute
    warming: Recompute
    notes: Notes

    # What is timed

    def refresh(self, tables: Tables, query: Query, what: str) -> float:
        """One epoch of one view; how long it took. `Wrong` if it did not follow."""
        return self.notes.timed(f"{query.name}, {what}", partial(refreshed, tables.db, query.name))

    def fill(self, tables: Tables, query: Query, what: str) -> float:
        create = partial(tables.db.create_view, query.name, query.sql, refresh=query.refresh)
        return self.notes.timed(f"{query.name}, {what}", create)

    # Fills and small epochs

    def beside_recomputing(self) -> Iterator[Outcome]:
        """View by view: rounds of a fill, a recomputation and epochs. One recomputation stands beside both of the others."""
        count = f"{self.sizes.epoch_changes:,} changes"
        for query in QUERIES:
            found = self._rounds(query)
            filled, followed, anew = (found[side] for side in ("fill", "epochs", "recompute"))
            bar = _bar(query, "filling it", plot="fill")
            rows = f"{self.sizes.large_rows:,} rows"
            yield compared(f"fill {query.name}, {rows} (raw: recompute)", filled, anew, FILL[query.name], bar)
            bar, limit = _bar(query, f"following {count}"), FASTER_THAN_RECOMPUTE[query.name]
            yield compared(f"{query.name}, {count} at {rows} (raw: recompute)", followed, anew, limit, bar)
            yield from self._pairs(query, f"{query.name}, {count} at {rows} (raw: at {self.sizes.small_rows:,})")

    def _rounds(self, query: Query) -> dict[str, Measured]:
        """The small table first, by both of them, so that nothing is timed cold."""
        try:
            self.fill(self.small, query, "fill, small")
            self.warming.run(query)
        except Exception as error:
            return dict.fromkeys(("fill", "epochs", "recompute"), error)
        sides = {
            "fill": partial(self._fill_anew, query),
            "recompute": partial(self.by_hand.run, query),
            "epochs": partial(self._some_epochs, query),
        }
        return in_turn(sides, self.sizes.fills, warmups=0)

    def _fill_anew(self, query: Query) -> float:
        if query.name in {view.name for view in self.large.db.views()}:
            self.large.db.drop(query.name)
        return self.fill(self.large, query, f"fill, {self.sizes.large_rows:,} rows")

    def _some_epochs(self, query: Query) -> float:
        """The median of some, after one that is a warm-up: the view's files are new."""
        return statistics.median(self._epochs(self.large, query, self.sizes.repetitions + 1)[1:])

    def _pairs(self, query: Query, what: str) -> Iterator[Outcome]:
        sides = {
            "large": partial(self._mean_epoch, self.large, query),
            "small": partial(self._mean_epoch, self.small, query, ", small"),
        }
        found = in_turn(sides, self.sizes.pairs)
        yield compared(what, found["large"], found["small"], SLOWER_WITH_MORE_ROWS)

    def _mean_epoch(self, tables: Tables, query: Query, note: str = "") -> float:
        """Of some: where the journal is brought into the file beside one of them, that slows one, and is owed by all."""
        return statistics.mean(self._epochs(tables, query, self.sizes.epochs_of_a_pair, note))

    def _epochs(self, tables: Tables, query: Query, count: int, note: str = "") -> list[float]:
        times = []
        for _ in range(count):
            tables.change(self.sizes.epoch_changes)
            times.append(self.refresh(tables, query, f"{self.sizes.epoch_changes:,} changes{note}"))
        return times

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
        for tables in (self.small, self.large):
            for query in QUERIES:
                tables.db.refresh(query.name)
            folder = self.folder / f"after-{tables.folder.stem}"
            tables.export(folder)
            truth = Recompute(self.by_hand.session, folder)
            for query in QUERIES:
                what = f"{query.name}, rows verified at {tables.size:,} rows"
                yield proved(what, partial(self._truth, tables, truth, query))

    def _truth(self, tables: Tables, truth: Recompute, query: Query) -> int:
        truth.run(query)
        stored, anew = (in_order(rows, query.key) for rows in (tables.db.view(query.name).scan(), truth.result(query)))
        problem = difference(stored, anew)
        if problem is not None:
            raise Wrong(problem)
        return stored.num_rows

    # Where the time goes

    def breakdowns(self) -> Iterator[Breakdown]:
        for what, seen in self.notes.seen.items():
            if not what.endswith(("small", "catching up")):
                yield median_of(what, seen)


def _bar(query: Query, series: str, plot: str = "") -> Mark:
    return Mark(series, f"{query.name}: {query.title}", raw="Spark evaluates it anew", plot=plot)


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
        "an index of all values. Spark's recomputation writes Parquet, which has no keys. The join's small epoch is the "
        "one that a larger table slows down most: what it reads and writes lies a page each among ten million rows, "
        "and several to a page among one million. Pages are brought from SQLite's journal to their places beside the "
        "epochs, by another thread."
    ),
    measure=measure,
    sizes=lambda settings: Sizes.of(settings).by_name(),
    plots=(
        Plot(
            "How long until a view over {large_rows:,} rows is true again?", "", "seconds (log)", Kind.BARS, log_y=True
        ),
        Plot("What does the first fill cost, from {large_rows:,} rows?", "", "seconds", Kind.BARS, name="fill"),
    ),
)
