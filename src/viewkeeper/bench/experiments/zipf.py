"""Zipf against uniform keys: whether a few hot rows, or a few hot groups, slow an epoch down.

After figure 11 of "Dynamic Scalable View Maintenance in KV-stores" and experiment 3 of the thesis "Dynamic Scalable View
Maintenance": keys drawn by Zipf's law made views lag far behind on their clusters, since few managers got most of the work.
Here the rows that are updated are drawn by Zipf's law, in a second series the groups that they move to; and in a third one
group has half of all changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial

import numpy as np

from viewkeeper.bench.experiment import Experiment, Kind, Plot
from viewkeeper.bench.outcomes import Finding, Mark, floor
from viewkeeper.bench.runner import in_turn, refreshed, speed
from viewkeeper.bench.settings import Settings
from viewkeeper.bench.streams import Spread, Stream
from viewkeeper.bench.truth import sums_proved

PUTS = 25
"""The operations come in so many puts: a hot row is in nearly every one of them, and cannot be in one twice."""

SKEW = 1.0
LIMIT = floor(0.9)


def sizes(settings: Settings) -> dict[str, int]:
    return {
        "rows": settings.size(500_000, 20_000),
        "groups": settings.size(100_000, 2_000),
        "operations": settings.size(250_000, 5_000),
        "puts": PUTS,
        "repetitions": settings.bulk_repetitions,
    }


def measure(settings: Settings) -> Iterator[Finding]:
    size = sizes(settings)
    even = Spread(size["groups"])
    streams = {
        "uniform": (even, Spread(size["rows"])),
        "hot rows": (even, Spread(size["rows"], SKEW)),
        "hot groups": (Spread(size["groups"], SKEW), Spread(size["rows"])),
        "half in one group": (Spread(size["groups"], hottest=0.5), Spread(size["rows"])),
    }
    with ExitStack() as stack:
        made: dict[str, Stream] = {}
        sides: dict[str, Callable[[], float]] = {}
        for number, (name, (groups, rows)) in enumerate(streams.items()):
            stream = stack.enter_context(closing(Stream(settings.folder / f"{number}.vk", groups, settings.seed)))
            stream.insert(size["rows"])
            stream.view("v")
            made[name] = stream
            rng = np.random.default_rng(settings.seed)
            sides[name] = partial(_epoch, stream, rows, rng, size["operations"] // PUTS)
        found = in_turn(sides, size["repetitions"])
        operations = size["operations"] // PUTS * PUTS
        yield speed("uniform", operations, found["uniform"], mark=Mark("changes a second", "uniform"))
        for name in list(streams)[1:]:
            what, mark = f"{name} (raw: uniform)", Mark("changes a second", name)
            yield speed(what, operations, found[name], found["uniform"], LIMIT, mark)
        yield from sums_proved({name: stream.db for name, stream in made.items()}, "v")


def _epoch(stream: Stream, rows: Spread, rng: np.random.Generator, count: int) -> float:
    for _ in range(PUTS):
        stream.update(rows.draw_different(rng, count))
    return refreshed(stream.db, "v")


EXPERIMENT = Experiment(
    name="zipf",
    title="Zipf against uniform keys",
    source="KV-stores paper, figure 11; thesis on scalable maintenance, experiment 3",
    seen=(
        "On 40 nodes with HBase, creating base table and views took much longer under Zipf's law than under a uniform one, "
        "for few region servers got 90 % of the load; more view managers helped, salted keys would have."
    ),
    limits=(
        "By construction a hot row is netted before anything else happens, and a hot group is folded where the log is read, "
        "so both cost one row; the log is as long either way. A put holds a row once, so that a hot row comes as often as "
        "there are puts in an epoch, and no more often: rows are less uneven here than under Zipf's law. For groups "
        "there is no such bound."
    ),
    measure=measure,
    sizes=sizes,
    plots=(Plot("Do hot rows or hot groups slow an epoch down?", "", "changes followed a second", Kind.BARS),),
)
