"""What an experiment finds: lines of figures, where time went, and what was seen over time.

An outcome is one line of the table. It has a verdict; one with a problem, or without a figure, has failed. A `Mark` says
where in the experiment's plot a line belongs.
"""

from __future__ import annotations

import enum
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace


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
    SKIPPED = "skipped"
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

    def per_second(self, count: int) -> Sample:
        """So many in these seconds, as so many a second.

        >>> Sample((0.5, 2.0)).per_second(10)
        Sample(repetitions=(20.0, 5.0))
        """
        return Sample(tuple(count / seconds for seconds in self.repetitions))


@dataclass(frozen=True)
class Mark:
    """A place in a plot: which line or colour, and where along it. `raw` names the line of the other side.

    A side without a name is not drawn.
    """

    series: str | None
    x: float | str
    raw: str | None = None
    plot: str = ""


@dataclass(frozen=True)
class Outcome:
    """A line of the report. `ratio` is judged by `limit` if there are two sides, else `ours` is.

    A `proof` is the line that says how many rows of the views were compared with their oracle. Without it no other line
    counts. What could not be measured here is `skipped`, and says why.
    """

    what: str
    unit: str = "s"
    ours: Sample | None = None
    raw: Sample | None = None
    ratio: Sample | None = None
    limit: Limit | None = None
    problem: str | None = None
    mark: Mark | None = None
    proof: bool = False
    skipped: str | None = None

    @property
    def verdict(self) -> Verdict:
        if self.skipped is not None:
            return Verdict.SKIPPED
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


@dataclass(frozen=True)
class Trace:
    """What was seen over time, in seconds since the beginning, and what happened meanwhile."""

    what: str
    points: tuple[tuple[float, float], ...]
    events: tuple[tuple[float, str], ...] = ()


Finding = Outcome | Breakdown | Trace


def withheld(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The lines as they may be shown: if a view was not what its query says, none of them is a figure.

    >>> [o.problem for o in withheld([Outcome("a", ours=Sample((1.0,))), Outcome("b", problem="2 rows", proof=True)])]
    ['no figure: b: 2 rows', '2 rows']
    """
    lines = list(outcomes)
    wrong = next((one for one in lines if one.proof and one.problem is not None), None)
    if wrong is None:
        return lines
    problem = f"no figure: {wrong.what}: {wrong.problem}"
    return [
        one
        if one is wrong or one.skipped is not None
        else replace(one, ours=None, raw=None, ratio=None, problem=one.problem or problem)
        for one in lines
    ]
