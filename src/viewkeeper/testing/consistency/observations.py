"""What readers saw, and which look came before which.

An observation is one look of one reader: the rows of any number of views and tables, all seen at once. A reader's looks
come one after the other, in the order in which they were recorded. The looks of different readers are ordered by time where
both are stamped: a look that ended before another began came before it, and those that overlap have no order.
Looks marked final were taken when all was done; they come after every other.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from viewkeeper.errors import InputError
from viewkeeper.testing.consistency.rows import Row, digest


@dataclass(frozen=True)
class Observation:
    """One look. `number` counts the reader's looks from 1; the times are of any clock that all readers share."""

    reader: str
    number: int
    seen: Mapping[str, Sequence[Row]]
    began: float | None = None
    ended: float | None = None
    final: bool = False

    @cached_property
    def digests(self) -> dict[str, int]:
        return {name: digest(rows) for name, rows in self.seen.items()}

    def __str__(self) -> str:
        return f'reader "{self.reader}" (look {self.number})'


@dataclass
class Readers:
    """Every look, in the order of recording."""

    looks: list[Observation] = field(default_factory=list)
    _by_reader: dict[str, list[Observation]] = field(default_factory=dict)

    def add(self, look: Observation) -> None:
        before = self._by_reader.setdefault(look.reader, [])
        _check_times(look, before[-1] if before else None)
        before.append(look)
        self.looks.append(look)

    def count(self, reader: str) -> int:
        return len(self._by_reader.get(reader, ()))

    def finals(self) -> list[Observation]:
        return [look for look in self.looks if look.final]

    def in_order(self) -> list[Observation]:
        """The looks before the final ones, so that each comes after all that precede it. Looks without times first."""
        earlier = (look for look in self.looks if not look.final)
        return sorted(earlier, key=lambda look: float("-inf") if look.began is None else look.began)

    def sequences(self) -> Iterator[tuple[str, list[Observation]]]:
        """Each reader's looks; the final ones come last in all of them, whoever took them."""
        finals = self.finals()
        for reader, looks in self._by_reader.items():
            yield reader, [*(look for look in looks if not look.final), *finals]


def _check_times(look: Observation, before: Observation | None) -> None:
    if (look.began is None) != (look.ended is None):
        raise InputError(f"{look} has one time", hint="give both, `began` and `ended`, or none")
    if look.began is not None and look.ended is not None and look.ended < look.began:
        raise InputError(f"{look} ended before it began", hint="take both times from one clock")
    if before is None:
        return
    if before.final and not look.final:
        raise InputError(f"{look} comes after the reader's final one", hint="mark a look final when all is done")
    if (look.began is None) != (before.began is None):
        raise InputError(
            f"{look} and the one before it are not alike", hint="give times to all looks of a reader, or to none"
        )
    if look.began is not None and before.ended is not None and look.began < before.ended:
        raise InputError(f"{look} began before the one before it had ended", hint="record a reader's looks in order")


@dataclass
class Floors:
    """Of each next look, the look before it that was matched with the latest state.

    Looks are given in the order of `Readers.in_order`. A look that precedes another has ended before the other began, so it
    has begun before that too: it was given earlier, and is known when it is needed.
    """

    _last: dict[str, tuple[int, Observation]] = field(default_factory=dict)
    _running: list[tuple[float, int, int, Observation]] = field(default_factory=list)
    _ended: tuple[int, Observation] | None = None
    _added: int = 0

    def below(self, look: Observation) -> tuple[int, Observation | None]:
        """The latest state that some preceding look was matched with, and that look."""
        while self._running and look.began is not None and self._running[0][0] < look.began:
            _, _, state, ended = heapq.heappop(self._running)
            if self._ended is None or state > self._ended[0]:
                self._ended = (state, ended)
        known = [
            pair for pair in (self._last.get(look.reader), self._ended if look.began is not None else None) if pair
        ]
        return max(known, key=lambda pair: pair[0], default=(0, None))

    def add(self, look: Observation, state: int) -> None:
        self._last[look.reader] = (state, look)
        if look.ended is not None:
            self._added += 1
            heapq.heappush(self._running, (look.ended, self._added, state, look))
