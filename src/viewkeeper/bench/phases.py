"""Where the time of an epoch goes: the engine's own steps, timed from outside.

A step's time is its own, without that of the steps it calls. Those of the first thread are timed, and the others run
within them, so that the parts add up to the whole; what Spark tasks do is one step. A step that has lost its name ends the
run, rather than being left out.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

from pyspark import SparkContext
from pyspark.sql.classic.dataframe import DataFrame

from viewkeeper.bench.outcomes import Breakdown
from viewkeeper.engine import blocks, epoch, tasks
from viewkeeper.engine import spark as engine_spark
from viewkeeper.engine.blocks import BlockRunner
from viewkeeper.engine.catalog import ViewCatalog
from viewkeeper.engine.epoch import Epoch
from viewkeeper.engine.maintainer import Maintainer
from viewkeeper.engine.parts import PartRunner
from viewkeeper.engine.point import Step
from viewkeeper.engine.spark import Spark
from viewkeeper.store.embedded import EmbeddedStore

STEPS: tuple[tuple[str, tuple[tuple[Any, str], ...]], ...] = (
    ("plan", ((ViewCatalog, "plans"), (ViewCatalog, "shapes"), (ViewCatalog, "stops"))),
    ("cut", ((Maintainer, "_is_current"), (EmbeddedStore, "lead"), (EmbeddedStore, "cut"), (EmbeddedStore, "begin"))),
    ("log", ((Step, "images"),)),
    ("scan", ((EmbeddedStore, "scan"),)),
    ("parts", ((PartRunner, "change"), (PartRunner, "everything"), (Epoch, "_rows_after"))),
    ("Spark", ((Spark, "run"), (Spark, "schema"))),
    ("probe", ((EmbeddedStore, "probe"),)),
    ("fold", ((BlockRunner, "desired"),)),
    ("tasks", ((tasks, "follow"), (tasks, "fill"), (tasks, "follow_indexes"), (tasks, "fill_indexes"))),
    ("apply", ((blocks, "apply_by_region"), (epoch, "apply_by_region"), (blocks, "replace_rows"))),
    ("commit", ((EmbeddedStore, "commit"), (EmbeddedStore, "put_record"), (EmbeddedStore, "resign"))),
)
REST = "rest"
CROSSINGS: tuple[tuple[Any, str], ...] = ((engine_spark, "_frame"), (DataFrame, "toArrow"), (DataFrame, "mapInArrow"))
"""What brings rows from Python to Spark, back, or there and back in tasks."""


class Watch:
    """Seconds by step, and crossings, since `begin`."""

    def __init__(self) -> None:
        self.crossings = 0
        self.seconds: dict[str, float] = {}
        self._inner: list[float] = []
        self._started = 0.0

    def begin(self) -> None:
        self.crossings = 0
        self.seconds = defaultdict(float)
        self._started = time.perf_counter()

    def end(self) -> float:
        """Seconds in all; what no step took is the rest."""
        total = time.perf_counter() - self._started
        self.seconds[REST] = total - sum(self.seconds.values())
        return total

    def in_order(self) -> dict[str, float]:
        return {step: self.seconds.get(step, 0.0) for step in (*(step for step, _ in STEPS), REST)}

    def timed(self, step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def run(*args: Any, **options: Any) -> Any:
            if threading.current_thread() is not threading.main_thread():
                return function(*args, **options)
            self._inner.append(0.0)
            started = time.perf_counter()
            try:
                return function(*args, **options)
            finally:
                took = time.perf_counter() - started
                self.seconds[step] = self.seconds.get(step, 0.0) + took - self._inner.pop()
                if self._inner:
                    self._inner[-1] += took

        return run

    def counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def run(*args: Any, **options: Any) -> Any:
            self.crossings += 1
            return function(*args, **options)

        return run


@contextmanager
def watched() -> Iterator[Watch]:
    """Every step is timed within this block, at a microsecond a call."""
    watch = Watch()
    originals: list[tuple[Any, str, Any]] = []

    def put(owner: Any, name: str, around: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        originals.append((owner, name, getattr(owner, name)))
        setattr(owner, name, around(getattr(owner, name)))

    try:
        for step, places in STEPS:
            for owner, name in places:
                put(owner, name, lambda function, step=step: watch.timed(step, function))  # type: ignore[misc]
        for owner, name in CROSSINGS:
            put(owner, name, watch.counted)
        yield watch
    finally:
        for owner, name, original in reversed(originals):
            setattr(owner, name, original)


class Jobs:
    """The Spark jobs and stages that ran since the last look."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._seen: set[int] = set()
        self.look()

    def look(self) -> tuple[int, int]:
        """How many jobs, and how many stages they had. Spark tells of them a little later than it runs them."""
        self._context._jsc.sc().listenerBus().waitUntilEmpty()
        tracker = self._context.statusTracker()
        new = set(tracker.getJobIdsForGroup()) - self._seen
        self._seen |= new
        stages = 0
        for job in new:
            info = tracker.getJobInfo(job)
            stages += len(info.stageIds) if info is not None else 0
        return len(new), stages


class Notes:
    """Where the time of each thing went, every time that it was done."""

    def __init__(self, watch: Watch, context: SparkContext) -> None:
        self.seen: dict[str, list[Breakdown]] = defaultdict(list)
        self._watch = watch
        self._jobs = Jobs(context)

    def timed(self, what: str, work: Callable[[], object]) -> float:
        """Seconds. What fails leaves no note."""
        self._jobs.look()
        self._watch.begin()
        work()
        seconds = self._watch.end()
        jobs, stages = self._jobs.look()
        counts = {"jobs": jobs, "stages": stages, "crossings": self._watch.crossings}
        self.seen[what].append(Breakdown(what, self._watch.in_order(), counts))
        return seconds


def median_of(what: str, seen: Sequence[Breakdown]) -> Breakdown:
    """Step by step, so that the steps of an unlucky epoch do not count as a whole."""
    last = seen[-1]
    return Breakdown(
        what, {step: statistics.median(one.seconds[step] for one in seen) for step in last.seconds}, last.counts
    )
