"""The demo's output: live in a terminal, plain lines everywhere else."""

from __future__ import annotations

import contextlib
import io
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.table import Table

from viewkeeper.demo.shop import WATCHED

PLAIN_WIDTH = 100
LINE_EVERY = 1.0
"""Seconds between two plain lines while changes stream."""


@dataclass(frozen=True)
class Figures:
    """How the stream goes."""

    seconds: float = 0.0
    written: int = 0
    waiting: int = 0
    epochs: int = 0
    epoch_seconds: float = 0.0
    quiet: int = 0
    revenues: Sequence[tuple[str, Decimal]] = field(default=())
    """Of each category, as the views have it."""

    @property
    def rate(self) -> float:
        """Changes per second that the views have taken in."""
        return (self.written - self.waiting) / self.seconds if self.seconds else 0.0

    @property
    def average(self) -> float:
        return self.epoch_seconds / self.epochs if self.epochs else 0.0

    @property
    def watched(self) -> Decimal:
        return dict(self.revenues).get(WATCHED, Decimal(0))


class Screen:
    """Prints what happens, step by step."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._step = 0
        terminal = sys.stdout.isatty()
        self._console = (
            Console(highlight=False)
            if terminal
            else Console(highlight=False, force_terminal=False, no_color=True, width=PLAIN_WIDTH)
        )
        self.live = terminal and not self._console.is_dumb_terminal

    def say(self, text: RenderableType = "") -> None:
        self._console.print(text, markup=False, soft_wrap=not self.live)
        self._console.file.flush()

    def note(self, text: str) -> None:
        """A line that belongs to the step under way."""
        self.say(f"      {text}")

    @contextmanager
    def step(self, doing: str) -> Iterator[None]:
        """Says what is being done, and then how long it took."""
        self._step += 1
        title = f"{self._step}/{self._steps}  {doing}"
        started = time.perf_counter()
        self.say(title)
        if self.live:
            with self._console.status("working", spinner="line"):
                yield
        else:
            yield
        self.note(f"{time.perf_counter() - started:.1f} s")

    @contextmanager
    def stream(self, title: str, seconds: float) -> Iterator[Stream]:
        """The step in which changes stream."""
        self._step += 1
        self.say(f"{self._step}/{self._steps}  {title}")
        if not self.live:
            yield PlainStream(self)
            return
        stream = LiveStream(seconds)
        live = Live(get_renderable=stream.render, console=self._console, refresh_per_second=4)
        with _without_other_bars(), live:
            yield stream


def _without_other_bars() -> contextlib.AbstractContextManager[object]:
    """A refresh draws a bar on stderr where that is a terminal: two that draw on one would draw over each other."""
    return contextlib.redirect_stderr(io.StringIO())


class Stream:
    """Where figures are shown as they come."""

    def show(self, figures: Figures) -> None:
        raise NotImplementedError


class PlainStream(Stream):
    """A line every second or so."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._last = -LINE_EVERY

    def show(self, figures: Figures) -> None:
        if not figures.epochs or figures.seconds - self._last < LINE_EVERY:
            return
        self._last = figures.seconds
        self._screen.note(
            f"{figures.seconds:4.0f} s  {figures.rate:6,.0f} changes/s  {figures.waiting:6,} waiting  "
            f"epoch {figures.epochs:3} ({figures.average:.2f} s)  {WATCHED} {figures.watched:,}"
        )


class LiveStream(Stream):
    """A table that is drawn again four times a second."""

    def __init__(self, seconds: float) -> None:
        self._started = time.perf_counter()
        self._seconds = seconds
        self._figures = Figures()
        self._first: dict[str, Decimal] = {}

    def show(self, figures: Figures) -> None:
        if not self._first:
            self._first = dict(figures.revenues)
        self._figures = figures

    def render(self) -> RenderableType:
        return Padding(Group(self._state(), "", self._categories()), (0, 0, 0, 6))

    def _state(self) -> Table:
        now = self._figures
        elapsed = min(self._seconds, time.perf_counter() - self._started)
        grid = Table.grid(padding=(0, 2))
        for name, value in (
            ("time", f"{elapsed:.0f} of {self._seconds:.0f} s"),
            ("changes per second", f"{now.rate:,.0f}"),
            ("changes waiting", f"{now.waiting:,}"),
            ("epochs", f"{now.epochs}"),
            ("average epoch", f"{now.average:.2f} s"),
            ("shops without a sale", f"{now.quiet}"),
        ):
            grid.add_row(name, value)
        return grid

    def _categories(self) -> Table:
        table = Table("category", box=None, padding=(0, 2, 0, 0), header_style="bold")
        table.add_column("revenue", justify="right")
        table.add_column("since the start", justify="right")
        for name, revenue in self._figures.revenues:
            moved = revenue - self._first.get(name, revenue)
            table.add_row(name, f"{revenue:,}", f"{moved:+,}", style="bold" if name == WATCHED else None)
        return table
