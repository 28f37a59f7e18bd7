"""Measuring: warm-up, then repetitions of ours and raw in turn, each of them checked.

Both sides of a pair run one after the other, so that what slows the machine down for a while slows both. The ratio is the
median of the pairs' ratios. Only `Way.run` is timed. A way that raises, or whose check has something to say, ends its
comparison as failed: there is no figure for a wrong result.
"""

from __future__ import annotations

import enum
import gc
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


class Direction(enum.Enum):
    """FLOOR: the ratio is our speed as a share of the raw one. CEILING: what is measured must not be more than that."""

    FLOOR = "floor"
    CEILING = "ceiling"


@dataclass(frozen=True)
class Limit:
    direction: Direction
    value: float

    def holds(self, figure: float) -> bool:
        return figure >= self.value if self.direction is Direction.FLOOR else figure <= self.value


def floor(value: float) -> Limit:
    return Limit(Direction.FLOOR, value)


def ceiling(value: float) -> Limit:
    return Limit(Direction.CEILING, value)


class Verdict(enum.Enum):
    OK = "ok"
    BELOW = "below floor"
    ABOVE = "above ceiling"
    INFORMATION = "for information"
    FAILED = "failed"


@dataclass(frozen=True)
class Sample:
    """One figure per repetition."""

    repetitions: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.repetitions)

    @property
    def low(self) -> float:
        return min(self.repetitions)

    @property
    def high(self) -> float:
        return max(self.repetitions)


@dataclass(frozen=True)
class Outcome:
    """A line of the report. `ratio` is judged by `limit` if there are two sides, else `ours` is."""

    what: str
    unit: str = "s"
    ours: Sample | None = None
    raw: Sample | None = None
    ratio: Sample | None = None
    limit: Limit | None = None
    problem: str | None = None

    @property
    def verdict(self) -> Verdict:
        judged = self.ratio or self.ours
        if self.problem is not None or judged is None:
            return Verdict.FAILED
        if self.limit is None:
            return Verdict.INFORMATION
        if self.limit.holds(judged.median):
            return Verdict.OK
        return Verdict.BELOW if self.limit.direction is Direction.FLOOR else Verdict.ABOVE


@dataclass(frozen=True)
class Breakdown:
    """Where the time of something went, part by part, and how much of what was used."""

    what: str
    seconds: Mapping[str, float]
    counts: Mapping[str, int]


def _nothing() -> None:
    return None


@dataclass(frozen=True)
class Way:
    """One way of doing a thing.

    `run` gets the number of the call, counted on through all repetitions. `check` gets the answers of one repetition and
    says what is wrong with them, or with what they left behind; None if nothing is.
    """

    run: Callable[[int], Any]
    check: Callable[[Sequence[Any]], str | None]
    prepare: Callable[[], None] = _nothing


@dataclass(frozen=True)
class Comparison:
    """The same thing done in our way and in the raw one. With many calls a repetition's figure is their median."""

    what: str
    ours: Way
    raw: Way
    limit: Limit | None = None
    repetitions: int = 5
    warmups: int = 1
    calls: int = 1
    p99: Limit | None = None


class Wrong(Exception):
    """The result of a run is not what it should be."""


def compare(comparison: Comparison) -> Iterator[Outcome]:
    """The outcome, and a second one for the slowest of many calls if the comparison limits that."""
    try:
        ours, raw = _pairs(comparison)
    except Exception as error:
        yield failed(comparison.what, error)
        return
    yield paired(comparison.what, _medians(ours), _medians(raw), comparison.limit)
    if comparison.p99 is not None:
        slowest, raw_slowest = (Sample(tuple(percentile(times, 0.99) for times in side)) for side in (ours, raw))
        yield Outcome(f"{comparison.what}, p99", ours=slowest, raw=raw_slowest, limit=comparison.p99)


def paired(what: str, ours: Sample, raw: Sample, limit: Limit | None) -> Outcome:
    """The outcome of repetitions that ran in turn."""
    return Outcome(what, ours=ours, raw=raw, ratio=_ratio(ours, raw, limit), limit=limit)


def single(what: str, unit: str, measure: Callable[[], float], limit: Limit, repetitions: int = 1) -> Outcome:
    """A figure that is compared with nothing but its limit."""
    try:
        return Outcome(what, unit, Sample(tuple(measure() for _ in range(repetitions))), limit=limit)
    except Exception as error:
        return failed(what, error)


def failed(what: str, error: Exception) -> Outcome:
    text = str(error) if isinstance(error, Wrong) else f"{type(error).__name__}: {error}"
    return Outcome(what, problem=text)


Times = list[float]


def _pairs(comparison: Comparison) -> tuple[list[Times], list[Times]]:
    """The times of every call, by repetition."""
    ours: list[Times] = []
    raw: list[Times] = []
    for repetition in range(comparison.warmups + comparison.repetitions):
        for side, way, name in ((ours, comparison.ours, "ours"), (raw, comparison.raw, "raw")):
            times = _repetition(way, name, repetition * comparison.calls, comparison.calls)
            if repetition >= comparison.warmups:
                side.append(times)
    return ours, raw


def _repetition(way: Way, name: str, first: int, calls: int) -> Times:
    way.prepare()
    gc.collect()
    answers, times = [], []
    for number in range(first, first + calls):
        start = time.perf_counter()
        answer = way.run(number)
        times.append(time.perf_counter() - start)
        answers.append(answer)
    problem = way.check(answers)
    if problem is not None:
        raise Wrong(f"{name}: {problem}")
    return times


def _medians(side: list[Times]) -> Sample:
    return Sample(tuple(statistics.median(times) for times in side))


def _ratio(ours: Sample, raw: Sample, limit: Limit | None) -> Sample:
    """Our speed as a share of the raw one; under a ceiling, our time as a multiple of the raw one."""
    pairs = list(zip(ours.repetitions, raw.repetitions, strict=True))
    if limit is not None and limit.direction is Direction.CEILING:
        return Sample(tuple(our / other for our, other in pairs))
    return Sample(tuple(other / our for our, other in pairs))


def percentile(values: Sequence[float], share: float) -> float:
    """The least of the values that at least this share of them does not exceed.

    >>> percentile([3.0, 1.0, 2.0, 4.0], 0.5)
    2.0
    """
    return sorted(values)[max(0, math.ceil(len(values) * share) - 1)]
