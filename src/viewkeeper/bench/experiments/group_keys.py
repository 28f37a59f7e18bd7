"""Number of aggregation keys, from a million down to two: whether few groups make workers wait for each other.

After experiment 5 of the thesis "Dynamic Scalable View Maintenance": throughput rose from 100,000 keys down to 100, and
collapsed below, since many view managers contended for the same view records.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial

from viewkeeper.bench.experiment import Experiment, Plot
from viewkeeper.bench.outcomes import Finding, Mark, floor
from viewkeeper.bench.runner import in_turn, refreshed, speed
from viewkeeper.bench.settings import Settings
from viewkeeper.bench.streams import Spread, Stream
from viewkeeper.bench.truth import sums_proved

KEYS = (1_000_000, 100_000, 10_000, 1_000, 100, 10, 2)
FEW, MANY = 2, 100_000
LIMIT = floor(1.0)


def sizes(settings: Settings) -> dict[str, int]:
    return {
        "operations": settings.size(250_000, 5_000),
        "most_keys": _keys(settings)[0],
        "fewest_keys": _keys(settings)[-1],
        "repetitions": settings.bulk_repetitions,
    }


def _keys(settings: Settings) -> tuple[int, ...]:
    """A small run has no million keys to show."""
    return tuple(keys for keys in KEYS if keys <= MANY) if settings.quick else KEYS


def measure(settings: Settings) -> Iterator[Finding]:
    size = sizes(settings)
    operations = size["operations"]
    with ExitStack() as stack:
        streams = {
            keys: stack.enter_context(closing(Stream(settings.folder / f"{keys}.vk", Spread(keys), settings.seed)))
            for keys in _keys(settings)
        }
        for stream in streams.values():
            stream.view("v")
        sides = {keys: partial(_epoch, stream, operations) for keys, stream in streams.items()}
        found = in_turn(sides, size["repetitions"])
        for keys, measured in found.items():
            raw, limit = (found[MANY], LIMIT) if keys == FEW else (None, None)
            what = f"{keys:,} keys" + (f" (raw: {MANY:,})" if raw else "")
            yield speed(what, operations, measured, raw, limit, Mark("sum by group", keys))
        yield from sums_proved({f"{keys:,} keys": stream.db for keys, stream in streams.items()}, "v")


def _epoch(stream: Stream, operations: int) -> float:
    stream.insert(operations)
    return refreshed(stream.db, "v")


EXPERIMENT = Experiment(
    name="group_keys",
    title="Number of aggregation keys",
    source="thesis on scalable maintenance, experiment 5 (figure 10.5)",
    seen=(
        "40 virtual nodes on one server with 4 Xeon 4650 (32 cores, 512 GB, two SSDs): throughput rose from 100,000 keys down to "
        "about 100 and then dropped sharply, for many view managers waited for few view records."
    ),
    limits=(
        "By construction nothing waits: each reading task folds its changes by group, and one task owns a region "
        "of the view. The fewer the groups, the less there is to write; with a million of them nearly each change "
        "is a row of its own."
    ),
    measure=measure,
    sizes=sizes,
    plots=(
        Plot(
            "Do few groups make maintenance collapse?",
            "number of aggregation keys (log)",
            "changes followed a second",
            log_x=True,
        ),
    ),
)
