"""A run in a thread of the test, and what can be awaited of it: its epochs and its lines in the log."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import viewkeeper as vk
from viewkeeper.engine.reports import EpochReport
from viewkeeper.service.logs import LOGGER

PATIENCE = 120.0
"""Seconds after which what should have happened is taken for something that never will."""


class Told(logging.Handler):
    """The events of a run, as they are logged."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self._new: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.events: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._new.put({"event": record.event, **record.facts})  # type: ignore[attr-defined]  # `tell` puts them there

    def next(self, event: str, **facts: Any) -> dict[str, Any]:
        """The next event of that name with those facts."""
        while True:
            found = self._new.get(timeout=PATIENCE)
            self.events.append(found)
            if found["event"] == event and facts.items() <= found.items():
                return found

    def all(self, event: str) -> list[dict[str, Any]]:
        """Every event of that name so far."""
        while not self._new.empty():
            self.events.append(self._new.get())
        return [found for found in self.events if found["event"] == event]


@dataclass
class Run:
    """A run under way. `report` is there once it has ended."""

    told: Told = field(default_factory=Told)
    epochs: queue.SimpleQueue[EpochReport] = field(default_factory=queue.SimpleQueue)
    stop: threading.Event = field(default_factory=threading.Event)
    report: vk.RunReport | None = None

    def next_epoch(self, group: str) -> EpochReport:
        """The next epoch of a group."""
        while True:
            found = self.epochs.get(timeout=PATIENCE)
            if found.group == group:
                return found

    @property
    def done(self) -> vk.RunReport:
        assert self.report is not None, "it has ended"
        return self.report


@contextmanager
def running(db: vk.Database, on_epoch: Callable[[EpochReport], None] | None = None, **options: Any) -> Iterator[Run]:
    """Run a database until the block ends."""
    run = Run()

    def heard(report: EpochReport) -> None:
        run.epochs.put(report)
        if on_epoch is not None:
            on_epoch(report)

    def keep() -> None:
        run.report = db.run(run.stop, on_epoch=heard, **options)

    thread = threading.Thread(target=keep)
    with listening(run.told):
        thread.start()
        try:
            yield run
        finally:
            run.stop.set()
            thread.join(PATIENCE)
            assert not thread.is_alive(), "a run stops when it is asked to"


@contextmanager
def listening(told: Told) -> Iterator[None]:
    logger = logging.getLogger(LOGGER)
    before = logger.level
    logger.addHandler(told)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(told)
        logger.setLevel(before)
