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
    """FLOOR: what is measured must not be less. CEILING: it must not be more."""

    FLOOR = "floor"
    CEILING = "ceiling"


class Of(enum.Enum):
    """What a ratio is of. SPEED: ours as a multiple of the other's. TIME: the same the other way round."""

    SPEED = "speed"
    TIME = "time"


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
    """A line of the report. `ratio`, of the sides' speeds or times, is judged by `limit` if there are two, else `ours` is.

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
    ratio_of: Of = Of.SPEED

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
    """What held over time, each from its beginning to its end in seconds, and what happened meanwhile."""

    what: str
    points: tuple[tuple[float, float, float], ...]
    events: tuple[tuple[float, str], ...] = ()


Finding = Outcome | Breakdown | Trace


def withheld(found: Iterable[Finding], *, unproved: str | None = None) -> list[Finding]:
    """What may be shown: if a view was not what its query says, nothing is a figure.

    `unproved` is what to say if no view was looked at; None if there is none to look at.

    >>> fast, wrong = Outcome("a", ours=Sample((1.0,))), Outcome("b", problem="2 rows", proof=True)
    >>> [one.problem for one in withheld([fast, wrong])]
    ['no figure: b: 2 rows', '2 rows']
    >>> [one.problem for one in withheld([fast], unproved="nothing was compared")]
    ['no figure: nothing was compared']
    """
    everything = list(found)
    problem = _missing_proof(everything) or (None if any(map(_is_proof, everything)) else unproved)
    if problem is None:
        return everything
    return [_without_figure(one, f"no figure: {problem}") for one in everything if isinstance(one, Outcome)]


def _is_proof(one: Finding) -> bool:
    return isinstance(one, Outcome) and one.proof


def _missing_proof(found: Iterable[Finding]) -> str | None:
    broken = (one for one in found if isinstance(one, Outcome) and one.proof and one.problem is not None)
    return next((f"{one.what}: {one.problem}" for one in broken), None)


def _without_figure(one: Outcome, problem: str) -> Outcome:
    if one.skipped is not None:
        return one
    return replace(one, ours=None, raw=None, ratio=None, problem=one.problem or problem)
