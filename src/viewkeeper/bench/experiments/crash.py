"""Crash: throughput over time while an executor is killed.

After figure 14 of "Dynamic Scalable View Maintenance in KV-stores" (40 nodes): 20 s after maintenance began, some of 20, 30 or 40
view managers were ended. One crash slowed maintenance down, further ones hardly more. Here a process maintains a view with two
executors (`local-cluster`), every epoch as tasks, and one of them is killed without warning in the middle of an epoch. Spark
starts another in its place.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Timer
from time import perf_counter

from viewkeeper.bench.child import Child
from viewkeeper.bench.experiment import Experiment, Kind, Plot
from viewkeeper.bench.outcomes import Finding, Outcome, Sample, Trace, floor
from viewkeeper.bench.peak import descendants
from viewkeeper.bench.runner import Wrong, proved
from viewkeeper.bench.settings import Settings
from viewkeeper.bench.streams import Spread, Stream

MASTER = "local-cluster[2,1,1024]"
EXECUTOR = b"CoarseGrainedExecutorBackend"
WARMUPS = 4
HIT = floor(1)
"""Executors killed while the epoch ran: without one, nothing was measured. A short epoch may be over before."""


def sizes(settings: Settings) -> dict[str, int]:
    return {
        "executors": 2,
        "rows": settings.size(100_000, 2_000),
        "groups": settings.size(20_000, 500),
        "changes_of_an_epoch": settings.size(100_000, 2_000),
        "epochs_before": 1 if settings.quick else 4,
        "epochs_after": 1 if settings.quick else 5,
    }


def measure(settings: Settings) -> Iterator[Finding]:
    size = sizes(settings)
    folder = settings.folder / "one.vk"
    with closing(Stream(folder, Spread(size["groups"]), settings.seed)) as stream:
        stream.insert(size["rows"])
        stream.view("v")
        with closing(Child(folder, master=MASTER)) as child:
            run = Run(stream, child, size["changes_of_an_epoch"])
            run.warm_up(1 if settings.quick else WARMUPS)
            before = [run.epoch() for _ in range(size["epochs_before"])]
            hit = run.epoch_with_a_kill(sum(before) / len(before) / 2)
            after = [run.epoch() for _ in range(size["epochs_after"])]
            usual = Sample(tuple(before))
            yield Outcome("epochs before the kill", "s", usual)
            slower = Sample((usual.median / hit,))
            yield Outcome("the epoch that was hit (raw: before)", "s", Sample((hit,)), usual, slower)
            yield Outcome("executors killed during the epoch", "executors", Sample((float(run.killed),)), limit=HIT)
            yield Outcome("epochs after the kill", "s", Sample(tuple(after)))
            yield Outcome("executors at the end", "executors", Sample((float(len(executors(child))),)))
            yield Trace("changes a second", tuple(run.points), tuple(run.events))
            yield proved("rows verified", partial(child.verify, ["v"]))


@dataclass
class Run:
    """Epochs of one size, one after the other, with the time at which each began and ended."""

    stream: Stream
    child: Child
    changes: int
    points: list[tuple[float, float, float]] = field(default_factory=list)
    events: list[tuple[float, str]] = field(default_factory=list)
    killed: int = 0
    _started: float = 0.0

    def warm_up(self, epochs: int) -> None:
        self.child.ask(do="tasks_from", changes=0)
        for _ in range(epochs):
            self.epoch()
        if len(executors(self.child)) < 2:
            raise Wrong(f"{len(executors(self.child))} executors run instead of two")
        self.points.clear()
        self._started = perf_counter()

    def epoch(self) -> float:
        self.stream.insert(self.changes)
        began = perf_counter() - self._started
        seconds = self.child.refresh("v")
        self.points.append((began, perf_counter() - self._started, self.changes / seconds))
        return seconds

    def epoch_with_a_kill(self, after: float) -> float:
        """The epoch must go on without the executor that is killed so many seconds after it began, and be right."""
        self.stream.insert(self.changes)
        timer = Timer(after, self._kill_one)
        began = perf_counter() - self._started
        timer.start()
        seconds = self.child.refresh("v")
        ended = perf_counter() - self._started
        timer.join()
        self.points.append((began, ended, self.changes / seconds))
        self.killed = sum(1 for moment, _ in self.events if moment <= ended)
        return seconds

    def _kill_one(self) -> None:
        for process in executors(self.child)[:1]:
            os.kill(process, signal.SIGKILL)
            self.events.append((perf_counter() - self._started, "an executor is killed"))


def executors(child: Child) -> list[int]:
    """The processes below the child that run tasks."""
    return [
        process
        for process in descendants(child.process.pid)
        if EXECUTOR in _command(process) and not _is_shell(process)
    ]


def _command(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def _is_shell(process: int) -> bool:
    """A script that starts Java and waits has the same words in its command."""
    return not _command(process).split(b"\0")[0].endswith(b"java")


EXPERIMENT = Experiment(
    name="crash",
    title="Crash of an executor",
    source="KV-stores paper, figure 14",
    seen=(
        "On 40 nodes with 20, 30 and 40 view managers: one that crashed slowed maintenance down, for its log was "
        "replayed and the others took its load; further crashes made it no worse as long as each region server "
        "kept one of its two managers, and the more managers there were, the less a crash mattered."
    ),
    limits=(
        "By construction the epoch that is hit waits until Spark has noticed the loss and run the lost tasks "
        "again; a task that runs again applies nothing twice. The new executor has to start Java and Python. Every epoch "
        "is made to run as tasks. A kill is a single figure. "
        "Executors of this cluster are processes of one machine, which share its cores."
    ),
    measure=measure,
    sizes=sizes,
    plots=(
        Plot(
            "What happens to throughput when an executor is killed?",
            "seconds since the first epoch",
            "changes a second, by epoch",
            Kind.TRACES,
        ),
    ),
)
