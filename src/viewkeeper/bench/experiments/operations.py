"""Number of operations: whether the time to follow them grows as they do, from ten thousand to ten million.

After experiment 4 of the thesis "Dynamic Scalable View Maintenance": eight view managers and two region servers, and a time
that grew linearly with the operations. Here each size is a table of its own that is empty at first, as theirs was.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial

from viewkeeper.bench.experiment import Experiment, Plot
from viewkeeper.bench.outcomes import Finding, Mark, Outcome, Sample, ceiling
from viewkeeper.bench.runner import compared, failed, in_turn, proved, refreshed, verified
from viewkeeper.bench.settings import Settings
from viewkeeper.bench.streams import Spread, Stream
from viewkeeper.bench.truth import same_sums

STEPS = (10_000, 100_000, 1_000_000, 10_000_000)
QUICK = (100, 1_000, 10_000)
CHUNK = 1_000_000
LINEAR = ceiling(1.5)
"""The time per operation at the largest size, as a multiple of that at a tenth of it."""


def sizes(settings: Settings) -> dict[str, int]:
    steps = [settings.scaled(step) for step in (QUICK if settings.quick else STEPS)]
    return {
        **{f"operations_{number}": step for number, step in enumerate(steps, 1)},
        "groups": settings.size(100_000, 1_000),
        "repetitions": settings.bulk_repetitions,
        "repetitions_of_the_largest": 2,
    }


def measure(settings: Settings) -> Iterator[Finding]:
    """The largest size comes last. Its table doubles with each repetition: two of them, after a warm-up of fewer operations."""
    size = sizes(settings)
    steps = [step for name, step in size.items() if name.startswith("operations")]
    times: dict[int, Sample] = {}
    for step in steps:
        largest = step == steps[-1]
        what = f"{step:,} operations"
        with closing(Stream(settings.folder / f"{step}.vk", Spread(size["groups"]), settings.seed)) as stream:
            stream.view("v")
            _epoch(stream, min(step, CHUNK))
            repetitions = size["repetitions_of_the_largest" if largest else "repetitions"]
            found = in_turn({step: partial(_epoch, stream, step)}, repetitions, warmups=0)[step]
            yield compared(what, found, mark=Mark("sum by group", step))
            # The oracle would take Spark longer than all epochs did.
            if step >= CHUNK:
                yield proved(f"{what}, rows compared", partial(same_sums, stream.db, "v"))
            else:
                yield proved(f"{what}, rows verified", partial(verified, stream.db, ["v"]))
        if isinstance(found, Sample):
            times[step] = found
    yield _linear(times, steps[-2:])


def _epoch(stream: Stream, count: int) -> float:
    for first in range(0, count, CHUNK):
        stream.insert(min(CHUNK, count - first))
    return refreshed(stream.db, "v")


def _linear(times: dict[int, Sample], steps: list[int]) -> Outcome:
    what = f"time per operation, {steps[1]:,} beside {steps[0]:,}"
    if not set(steps) <= times.keys():
        return failed(what, KeyError("one of them has no figure"))
    less, more = (times[step].median / step for step in steps)
    return Outcome(what, "times", Sample((more / less,)), limit=LINEAR)


EXPERIMENT = Experiment(
    name="operations",
    title="Number of operations",
    source="thesis on scalable maintenance, experiment 4 (figure 10.4)",
    seen=(
        "40 virtual nodes on one server with 4 Xeon 4650 (32 cores, 512 GB, two SSDs), two region servers and eight view "
        "managers: the time grew linearly from 10,000 operations on."
    ),
    limits=(
        "By construction an epoch reads the log once, folds it by group, and writes the groups that changed, at "
        "most all of them; beside few operations its fixed costs show. Ten times the operations take less than ten times "
        "as long: the groups stay as many, and each is written once however often it changed. The limit is that they "
        "take no more than half as long again."
    ),
    measure=measure,
    sizes=sizes,
    plots=(
        Plot(
            "Does the time to follow operations grow as they do?",
            "operations in one epoch (log)",
            "seconds (log)",
            log_x=True,
            log_y=True,
            reference="in proportion",
        ),
    ),
)
