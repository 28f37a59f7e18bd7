"""Number of views over one table, 1 to 100: what one more view costs.

After figure 13 of "Dynamic Scalable View Maintenance in KV-stores": a second count view had its auxiliary table for nothing,
since both share it, and each further one gained less.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import viewkeeper as vk
from viewkeeper.bench.experiment import Experiment, Plot
from viewkeeper.bench.outcomes import Finding, Limit, Mark, Of, Outcome, Sample, ceiling
from viewkeeper.bench.runner import Measured, Wrong, compared, failed, in_turn, proved, refreshed, verified
from viewkeeper.bench.settings import Settings
from viewkeeper.bench.truth import same_rows, sums_of

COLUMNS = 10
"""Group columns x0, x1 ... and as many value columns: a hundred different sums."""

ALONE = "alone"
STEPS = (1, 2, 10, 100)
QUICK = (1, 2, 5, 10)
LIMIT = ceiling(0.15)


def sizes(settings: Settings) -> dict[str, int]:
    return {
        "rows": settings.size(50_000, 2_000),
        "groups": settings.size(1_000, 100),
        "operations": settings.size(100_000, 1_000),
        "views": (QUICK if settings.quick else STEPS)[-1],
        "repetitions": 2 if settings.quick else 3,
    }


def measure(settings: Settings) -> Iterator[Finding]:
    """Beside the group of more and more views, one of a single view over the same table: both follow the same changes.

    What an added view costs is judged by the first view's epoch while there was no other: a view alone beside a hundred others
    takes longer, since what these have written is still being brought into their files.
    """
    size = sizes(settings)
    steps = QUICK if settings.quick else STEPS
    first: Measured | None = None
    with closing(Wide(settings.folder / "wide.vk", size, settings.seed)) as wide:
        for count in steps:
            wide.have(count)
            sides = {"all": wide.epoch_of_all, "one": wide.epoch_of_one}
            found = in_turn(sides, size["repetitions"], before=wide.change)
            mark = Mark("one epoch of all views", count)
            plural = "view" if count == 1 else "views"
            what = f"{count} {plural} (raw: one in a group of its own)"
            yield compared(what, found["all"], found["one"], mark=mark, ratio_of=Of.TIME)
            if first is None:
                first = found["all"]
            else:
                yield _added(count, found["all"], first, LIMIT if count == steps[-1] else None)
        some = [wide.views[0], wide.views[-1], ALONE]
        yield proved("three of the views, rows verified", partial(verified, wide.db, some))
        yield proved("all views, rows compared", wide.compared)


def _added(count: int, many: Measured, first: Measured, limit: Limit | None) -> Outcome:
    """What each further view costs, as a share of the first."""
    what = f"an added view, of {count}"
    if isinstance(many, Exception) or isinstance(first, Exception):
        return failed(what, Wrong("one of the two has no figure"))
    alone = first.median
    share = Sample(tuple((together - alone) / (count - 1) / alone for together in many.repetitions))
    mark = Mark("each further view", count, plot="added")
    return Outcome(what, "of the first", share, limit=limit, mark=mark)


class Wide:
    """A table of many columns, and views that each sum one of them by another. All in one group: one epoch for all.

    The first of them is there once more in a group of its own.
    """

    def __init__(self, folder: Path, size: dict[str, int], seed: int) -> None:
        self.db = vk.open(folder)
        self.views: list[str] = []
        self._size = size
        self._rng = np.random.default_rng(seed)
        groups = ", ".join(f"x{number} STRING" for number in range(COLUMNS))
        values = ", ".join(f"y{number} BIGINT" for number in range(COLUMNS))
        self.db.create_table("r", f"k BIGINT, {groups}, {values}", primary_key="k")
        self._names = pa.array([f"group {number}" for number in range(size["groups"])])
        self._put(np.arange(size["rows"]))
        self.db.create_view(ALONE, "SELECT x0, SUM(y0) AS s FROM r GROUP BY x0", refresh="every 1000 seconds")

    def have(self, count: int) -> None:
        for number in range(len(self.views), count):
            x, y = number % COLUMNS, number // COLUMNS
            self.db.create_view(f"v{number}", f"SELECT x{x}, SUM(y{y}) AS s FROM r GROUP BY x{x}")
            self.views.append(f"v{number}")

    def change(self) -> None:
        """Each row is changed as often, in puts of all rows or of some: what happens to a row in between nobody sees."""
        left = self._size["operations"]
        while left > 0:
            count = min(left, self._size["rows"])
            self._put(np.sort(self._rng.choice(self._size["rows"], count, replace=False)))
            left -= count

    def epoch_of_all(self) -> float:
        return refreshed(self.db, self.views[0])

    def epoch_of_one(self) -> float:
        return refreshed(self.db, ALONE)

    def compared(self) -> int:
        """Rows of all views, each beside the same sums by Arrow: the oracle would take Spark longer than all epochs did."""
        self.db.refresh()
        rows = self.db.table("r").scan()
        total = 0
        for number, name in enumerate(self.views):
            x, y = f"x{number % COLUMNS}", f"y{number // COLUMNS}"
            total += same_rows(self.db, name, x, sums_of(rows, x, y))
        return total

    def _put(self, keys: Any) -> None:
        def groups() -> pa.Array:
            return self._names.take(pa.array(self._rng.integers(0, len(self._names), len(keys))))

        columns: dict[str, Any] = {"k": keys}
        columns |= {f"x{number}": groups() for number in range(COLUMNS)}
        columns |= {f"y{number}": self._rng.integers(0, 1_000_000, len(keys)) for number in range(COLUMNS)}
        self.db.table("r").put(pa.table(columns))

    def close(self) -> None:
        self.db.close()


EXPERIMENT = Experiment(
    name="many_views",
    title="Number of views over one table",
    source="KV-stores paper, figure 13",
    seen=(
        "On 40 nodes, of which the paper says no more, throughput leapt from one count view to two, for their auxiliary table "
        "is maintained once; with more views the effect grew less."
    ),
    limits=(
        "By construction the log is read and netted once for all views of a group. What each view adds is its own folding, "
        "probing and writing, and a durable commit for each of its regions: about as much for an epoch of a few changes, which "
        "therefore weighs more beside a first view that is cheap."
    ),
    measure=measure,
    sizes=sizes,
    plots=(
        Plot(
            "How long is an epoch of many views?", "views over one table (log)", "seconds (log)", log_x=True, log_y=True
        ),
        Plot(
            "What does one more view cost, beside the first?",
            "views over one table (log)",
            "share of the first view's time",
            log_x=True,
            name="added",
        ),
    ),
)
