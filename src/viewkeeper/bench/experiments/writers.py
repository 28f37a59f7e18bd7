"""Cost to writers: the time to write a million rows while their view is maintained, beside the time without.

After figure 12 of "Dynamic Scalable View Maintenance in KV-stores": view maintenance made creating a base table of a
million rows take about 40 % longer, and each further ten view managers about 2 % more. Here the writer stays on one core
and the maintaining process, with its Spark, on another.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from time import perf_counter

from viewkeeper.bench.child import Child
from viewkeeper.bench.cores import on_first_core, spare_core
from viewkeeper.bench.experiment import Experiment, Kind, Plot
from viewkeeper.bench.outcomes import Finding, Mark, Outcome, Sample, ceiling, floor
from viewkeeper.bench.runner import compared, in_turn, proved
from viewkeeper.bench.settings import Settings
from viewkeeper.bench.streams import Spread, Stream
from viewkeeper.bench.truth import same_sums

PUT = 10_000
"""Rows of a put."""

LIMIT = ceiling(1.15)
MAINTAINED = floor(1)
"""Epochs while rows are written: without one, nothing was measured. In a short run all rows may be there before one begins."""

WARM_UP = 10
"""The share of the rows that is written first and not timed."""


def sizes(settings: Settings) -> dict[str, int]:
    return {
        "rows": settings.size(1_000_000, 20_000),
        "rows_of_a_put": PUT,
        "groups": settings.size(100_000, 2_000),
        "repetitions": settings.bulk_repetitions,
    }


def measure(settings: Settings) -> Iterator[Finding]:
    """Two databases that grow alike; only one of them has a view, and somebody who follows."""
    size = sizes(settings)
    groups = Spread(size["groups"])
    alone = Stream(settings.folder / "alone.vk", groups, settings.seed)
    followed = Stream(settings.folder / "followed.vk", groups, settings.seed)
    epochs: list[int] = []
    with closing(alone), closing(followed):
        followed.view("v")
        with closing(Child(settings.folder / "followed.vk", core=spare_core())) as child:
            sides = {
                "alone": partial(_write, alone, size["rows"]),
                "followed": partial(_write_followed, followed, size["rows"], child, epochs),
            }
            for stream in (alone, followed):
                _write(stream, size["rows"] // WARM_UP)
            child.ask(do="catch_up", view="v")
            found = in_turn(sides, size["repetitions"], warmups=0)
            what = f"{size['rows']:,} rows with maintenance (raw: without)"
            mark = Mark("view maintained meanwhile", f"{size['rows']:,} rows", raw="no view")
            if spare_core() is None:
                yield Outcome(what, skipped="there is no core to spare")
            else:
                yield compared(what, found["followed"], found["alone"], LIMIT, mark)
            if epochs:
                seen = Sample(tuple(map(float, epochs)))
                yield Outcome("epochs while they were written", "epochs", seen, limit=MAINTAINED)
        yield proved("rows compared", partial(same_sums, followed.db, "v"))


def _write(stream: Stream, rows: int) -> float:
    with on_first_core():
        started = perf_counter()
        for first in range(0, rows, PUT):
            stream.insert(min(PUT, rows - first))
        return perf_counter() - started


def _write_followed(stream: Stream, rows: int, child: Child, epochs: list[int]) -> float:
    """What is left over afterwards is followed before the next repetition, and not timed."""
    child.ask(do="start", view="v")
    seconds = _write(stream, rows)
    epochs.append(len(child.ask(do="stop")["epochs"]))
    child.ask(do="catch_up", view="v")
    return seconds


EXPERIMENT = Experiment(
    name="writers",
    title="Cost to writers",
    source="KV-stores paper, figure 12",
    seen="On 40 nodes, 20 to 40 view managers: writing a million rows took about 40 % longer while views were maintained.",
    limits=(
        "By construction writers wait for no lock of maintenance: a cut is read, not held. What both share is the "
        "disk and the memory's bandwidth. The writer stays on one core, with and without maintenance; preparing the rows "
        "counts on both sides."
    ),
    measure=measure,
    sizes=sizes,
    plots=(Plot("Do writers pay for views that are maintained?", "", "seconds to write the rows", Kind.BARS),),
)
