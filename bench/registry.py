"""The benchmarks by name. A new one is a module of its own and a line here."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bench import store
from bench.runner import Outcome
from bench.settings import Settings

BENCHMARKS: dict[str, Callable[[Settings], Iterator[Outcome]]] = {
    "store": store.measure,
}
