"""Cost of durability: writing and following with `synchronous` full, normal and off.

After experiment 7 of the thesis "Dynamic Scalable View Maintenance" (40 virtual nodes on one server of 32 cores): without its
commit log the system followed some 500 view records a second more. What is switched off here is waiting for the disk; the
logs are written either way.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from time import perf_counter

from viewkeeper.bench.experiment import Experiment, Kind, Plot
from viewkeeper.bench.outcomes import Finding, Mark
from viewkeeper.bench.runner import in_turn, refreshed, speed
from viewkeeper.bench.settings import Settings
from viewkeeper.bench.streams import Spread, Stream
from viewkeeper.bench.truth import sums_proved

LEVELS = ("full", "normal", "off")


def sizes(settings: Settings) -> dict[str, int]:
    return {
        "groups": settings.size(100_000, 2_000),
        "operations": settings.size(250_000, 5_000),
        "single_writes": settings.size(200, 20),
        "repetitions": settings.bulk_repetitions,
    }


def measure(settings: Settings) -> Iterator[Finding]:
    size = sizes(settings)
    many, few = size["operations"], size["single_writes"]
    with ExitStack() as stack:
        streams = {level: stack.enter_context(closing(_stream(settings, level))) for level in LEVELS}
        for stream in streams.values():
            stream.view("v")
        puts = in_turn({level: partial(_put, stream, many) for level, stream in streams.items()}, size["repetitions"])
        for stream in streams.values():
            stream.db.refresh()
        epochs = in_turn(
            {level: partial(_epoch, stream, many) for level, stream in streams.items()}, size["repetitions"]
        )
        ones = in_turn({level: partial(_ones, stream, few) for level, stream in streams.items()}, size["repetitions"])
        for what, count, found in (
            ("put in bulk", many, puts),
            ("follow", many, epochs),
            ("put one by one", few, ones),
        ):
            for level in LEVELS:
                raw = None if level == "full" else found["full"]
                title = f"{what}, {level}" + (" (raw: full)" if raw else "")
                yield speed(title, count, found[level], raw, mark=Mark(level, what), unit="rows/s")
        yield from sums_proved({level: stream.db for level, stream in streams.items()}, "v")


def _stream(settings: Settings, level: str) -> Stream:
    groups = Spread(sizes(settings)["groups"])
    return Stream(settings.folder / f"{level}.vk", groups, settings.seed, durability=level)


def _put(stream: Stream, count: int) -> float:
    started = perf_counter()
    stream.insert(count)
    return perf_counter() - started


def _epoch(stream: Stream, count: int) -> float:
    stream.insert(count)
    return refreshed(stream.db, "v")


def _ones(stream: Stream, count: int) -> float:
    started = perf_counter()
    for _ in range(count):
        stream.insert(1)
    return perf_counter() - started


EXPERIMENT = Experiment(
    name="durability",
    title="Cost of durability",
    source="thesis on scalable maintenance, experiment 7 (figure 10.7)",
    seen=(
        "Thesis, 40 virtual nodes on one server with 4 Xeon 4650 (32 cores, 512 GB, two SSDs): about 500 view "
        "records a second more without the commit log on HDFS, and otherwise the same curve."
    ),
    limits=(
        "By construction each write waits for the disk once per region and commit: bulk work shares that wait "
        "among many rows, and what is left of it there lies within the spread; a row written alone has it to itself."
    ),
    measure=measure,
    sizes=sizes,
    plots=(Plot("What does waiting for the disk cost?", "", "rows a second (log)", Kind.BARS, log_y=True),),
)
