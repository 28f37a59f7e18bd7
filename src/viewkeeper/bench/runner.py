"""Measuring: warm-up, then repetitions of ours and raw in turn, each of them checked.

Both sides of a pair, and all sides of a round, run one after the other, so that what slows the machine down for a while
slows all; each round begins with another of them, so that none is always the one that comes after a long write. What was
written before is on the disk when a side begins: whoever waits for the disk waits for his own rows. A ratio is the median of the
pairs' ratios. Only `Way.run` is timed. A way that raises, or whose check has something to say, ends its comparison as failed:
there is no figure for a wrong result.
"""

from __future__ import annotations

import gc
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import viewkeeper as vk
from viewkeeper.bench.outcomes import Direction, Limit, Mark, Of, Outcome, Sample


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
    mark: Mark | None = None


class Wrong(Exception):
    """The result of a run is not what it should be."""


def compare(comparison: Comparison) -> Iterator[Outcome]:
    """The outcome, and a second one for the slowest of many calls if the comparison limits that."""
    try:
        ours, raw = _pairs(comparison)
    except Exception as error:
        yield failed(comparison.what, error)
        return
    yield paired(comparison.what, _medians(ours), _medians(raw), comparison.limit, comparison.mark)
    if comparison.p99 is not None:
        slowest, raw_slowest = (Sample(tuple(percentile(times, 0.99) for times in side)) for side in (ours, raw))
        yield Outcome(f"{comparison.what}, p99", ours=slowest, raw=raw_slowest, limit=comparison.p99)


def paired(
    what: str, ours: Sample, raw: Sample, limit: Limit | None, mark: Mark | None = None, ratio_of: Of | None = None
) -> Outcome:
    """The outcome of repetitions that ran in turn. The ratio is of times if there is a ceiling, of speeds otherwise."""
    of = ratio_of or (Of.TIME if limit is not None and limit.direction is Direction.CEILING else Of.SPEED)
    return Outcome(what, ours=ours, raw=raw, ratio=_ratio(ours, raw, of), limit=limit, mark=mark, ratio_of=of)


def single(what: str, unit: str, measure: Callable[[], float], limit: Limit) -> Outcome:
    """A figure that is compared with nothing but its limit, and measured once."""
    try:
        return Outcome(what, unit, Sample((measure(),)), limit=limit)
    except Exception as error:
        return failed(what, error)


def failed(what: str, error: Exception) -> Outcome:
    text = str(error) if isinstance(error, Wrong) else f"{type(error).__name__}: {error}"
    return Outcome(what, problem=text)


# Many sides


Measured = Sample | Exception
"""The seconds of each repetition, or why there are none."""


def in_turn(
    sides: Mapping[Any, Callable[[], float]],
    repetitions: int,
    warmups: int = 1,
    *,
    before: Callable[[], object] = _nothing,
) -> dict[Any, Measured]:
    """Every side in each round, by whatever tells them apart. A side times itself; one that fails is out.

    `before` is done before each round, and not timed.
    """
    times: dict[Any, list[float]] = {side: [] for side in sides}
    problems: dict[Any, Exception] = {}
    for number in range(warmups + repetitions):
        before()
        for side in _beginning_with(number, list(sides)):
            if side in problems:
                continue
            gc.collect()
            os.sync()
            try:
                seconds = sides[side]()
            except Exception as error:
                problems[side] = error
            else:
                times[side] += [seconds] if number >= warmups else []
    return {side: problems.get(side) or Sample(tuple(times[side])) for side in sides}


def _beginning_with(number: int, sides: list[Any]) -> list[Any]:
    """
    >>> _beginning_with(4, ["a", "b", "c"])
    ['b', 'c', 'a']
    """
    first = number % len(sides)
    return sides[first:] + sides[:first]


def compared(
    what: str,
    ours: Measured,
    raw: Measured | None = None,
    limit: Limit | None = None,
    mark: Mark | None = None,
    ratio_of: Of | None = None,
) -> Outcome:
    """The outcome of sides that ran in turn, in seconds."""
    for side in (ours, raw):
        if isinstance(side, Exception):
            return failed(what, side)
    assert isinstance(ours, Sample)
    if isinstance(raw, Sample):
        return paired(what, ours, raw, limit, mark, ratio_of)
    return Outcome(what, ours=ours, limit=limit, mark=mark)


def speed(
    what: str,
    count: int,
    ours: Measured,
    raw: Measured | None = None,
    limit: Limit | None = None,
    mark: Mark | None = None,
    *,
    unit: str = "changes/s",
) -> Outcome:
    """The same as so many a second: the ratio is of speeds already."""
    found = compared(what, ours, raw, limit, mark)
    if found.ours is None:
        return found
    slower = None if found.raw is None else found.raw.per_second(count)
    return replace(found, unit=unit, ours=found.ours.per_second(count), raw=slower)


def refreshed(db: vk.Database, view: str) -> float:
    """Seconds of one epoch of a view's group. `Wrong` if the view did not follow."""
    started = time.perf_counter()
    report = db.refresh(view)
    seconds = time.perf_counter() - started
    if report.failed or view not in report.views:
        raise Wrong(report.failed.get(view, f'view "{view}" found nothing to follow'))
    return seconds


def proved(what: str, prove: Callable[[], int]) -> Outcome:
    """The line that says that views are what their queries say; `prove` gives the rows, or raises `Wrong`."""
    try:
        return Outcome(what, "rows", Sample((prove(),)), proof=True)
    except Exception as error:
        return replace(failed(what, error), proof=True)


def verified(db: vk.Database, views: Sequence[str]) -> int:
    """Rows of these views, each brought to the newest cut and compared with its oracle."""
    rows = 0
    for view in views:
        db.refresh(view)
        found = db.verify(view)
        if not found.equal:
            raise Wrong(f'view "{view}": {found.missing} rows are missing, {found.extra} too many: {found.examples}')
        rows += found.rows
    return rows


Times = list[float]


def _pairs(comparison: Comparison) -> tuple[list[Times], list[Times]]:
    """The times of every call, by repetition."""
    ours: list[Times] = []
    raw: list[Times] = []
    for repetition in range(comparison.warmups + comparison.repetitions):
        both = [(ours, comparison.ours, "ours"), (raw, comparison.raw, "raw")]
        for side, way, name in _beginning_with(repetition, both):
            times = _repetition(way, name, repetition * comparison.calls, comparison.calls)
            if repetition >= comparison.warmups:
                side.append(times)
    return ours, raw


def _repetition(way: Way, name: str, first: int, calls: int) -> Times:
    way.prepare()
    gc.collect()
    os.sync()
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


def _ratio(ours: Sample, raw: Sample, of: Of) -> Sample:
    """Of samples of seconds."""
    pairs = list(zip(ours.repetitions, raw.repetitions, strict=True))
    if of is Of.TIME:
        return Sample(tuple(our / other for our, other in pairs))
    return Sample(tuple(other / our for our, other in pairs))


def percentile(values: Sequence[float], share: float) -> float:
    """The least of the values that at least this share of them does not exceed.

    >>> percentile([3.0, 1.0, 2.0, 4.0], 0.5)
    2.0
    """
    return sorted(values)[max(0, math.ceil(len(values) * share) - 1)]
