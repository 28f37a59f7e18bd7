"""What an experiment is: a name, where it comes from, what it does, how it is drawn, and the prose of its section.

The prose lives here and not in the page, so that it changes with what is measured.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from viewkeeper.bench.outcomes import Finding
from viewkeeper.bench.settings import Settings


class Kind(enum.Enum):
    LINES = "lines"
    BARS = "bars"
    TRACES = "traces"
    STACKS = "stacks"
    """Breakdowns: a bar for each, a colour for each part."""


@dataclass(frozen=True)
class Plot:
    """How marks are drawn. `question` is the title: a reader of the picture alone sees what was asked, of how much.

    In it, names of the experiment's sizes stand in braces. `reference` names a line of what would grow as x does.
    """

    question: str
    x: str
    y: str
    kind: Kind = Kind.LINES
    log_x: bool = False
    log_y: bool = False
    name: str = ""
    reference: str = ""

    def asked(self, sizes: Mapping[str, int]) -> str:
        """
        >>> Plot("What do {rows:,} rows cost?", "", "").asked({"rows": 1_000})
        'What do 1,000 rows cost?'
        """
        return self.question.format(**sizes)


@dataclass(frozen=True)
class Experiment:
    """`measure` yields what it finds; `sizes` says how much of everything it does under some settings.

    `source` is the figure that it repeats, `seen` what its authors saw and on which machines, `limits` what holds our
    figure where it is. `views` is whether it has any: then no figure counts unless they were compared with their queries.
    """

    name: str
    title: str
    source: str
    seen: str
    limits: str
    measure: Callable[[Settings], Iterator[Finding]]
    sizes: Callable[[Settings], Mapping[str, int]]
    plots: tuple[Plot, ...] = ()
    views: bool = True
