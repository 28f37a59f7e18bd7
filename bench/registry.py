"""The benchmarks by name. A new one is a module of its own and a line here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from bench import store, views
from bench.runner import Breakdown, Outcome
from bench.settings import Settings


@dataclass(frozen=True)
class Benchmark:
    """What measures, and how much of everything it does under some settings."""

    measure: Callable[[Settings], Iterator[Outcome | Breakdown]]
    sizes: Callable[[Settings], Mapping[str, int]]


BENCHMARKS: dict[str, Benchmark] = {
    "store": Benchmark(store.measure, Settings.sizes),
    "views": Benchmark(views.measure, lambda settings: views.Sizes.of(settings).by_name()),
}
