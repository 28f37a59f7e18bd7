"""Where a campaign takes place: the folder, the processes over it, and what must hold of it at every moment."""

from __future__ import annotations

import os
import random
import signal
import uuid
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import _neighbours  # noqa: F401  # puts the folders beside this one on the path
from driver import Options
from journals import Ledger
from processes import Broken, Driver, Process, awaited
from scene import BANK, FOLLOWED, covers, wrong_views
from standalone import MARK, PYTHON_WORKER, QUICK, Standalone, kill, marked, submit_arguments

import viewkeeper as vk
from viewkeeper.store.embedded.faults import VARIABLE

WRITERS, READERS, DRIVERS = 3, 2, 2
LEASE = 3.0
"""Seconds that a run may be silent."""


@dataclass
class Site:
    """`place` is where the database is; `notes` is a folder for journals, looks and complaints, which no fault touches."""

    db: vk.Database
    place: Path
    notes: Path
    seed: str
    cluster: Standalone | None = None
    drivers: list[Driver] = field(default_factory=list)
    writers: dict[int, Process] = field(default_factory=dict)
    readers: list[Process] = field(default_factory=list)
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    survived: Counter[str] = field(default_factory=Counter)
    _incarnations: Counter[int] = field(default_factory=Counter)
    _started: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.ledger = Ledger(self.db._store)

    # Processes

    def start(self, drivers: int = DRIVERS) -> None:
        """Everything but the drivers is there at once; one driver leads when this returns."""
        for _ in range(drivers):
            self.add_driver()
        for number in range(1, WRITERS + 1):
            self.start_writer(number)
        for number in range(READERS):
            arguments = [str(self.place), str(self.looks(number))]
            self.readers.append(
                Process("reader.py", arguments, self._environment(), self.notes / f"reader-{number}.txt")
            )
        self.leader()

    def looks(self, number: int) -> Path:
        return self.notes / f"{number}.looks"

    def add_driver(self, **options: object) -> Driver:
        """A run that stands by, or leads if nobody does."""
        self._started += 1
        chosen = Options(lease=LEASE, **options)  # type: ignore[arg-type]  # the caller names them
        driver = Driver(self.place, chosen, self._environment(), self.notes / f"driver-{self._started}.txt")
        self.drivers.append(driver)
        return driver

    def start_writer(self, number: int, fault: str = "") -> Process:
        """The next incarnation of a writer."""
        self._incarnations[number] += 1
        incarnation = str(self._incarnations[number])
        journal = self.notes / f"{number}-{incarnation}.journal"
        arguments = [str(self.place), str(number), incarnation, self.seed, str(journal)]
        environment = {**self._environment(), VARIABLE: fault}
        self.writers[number] = Process("writer.py", arguments, environment, self.notes / f"writer-{number}.txt")
        return self.writers[number]

    def _environment(self) -> dict[str, str]:
        settings = {"spark__driver__extraJavaOptions": QUICK, "spark__executor__cores": 2, "spark__cores__max": 2}
        chosen = {"PYSPARK_SUBMIT_ARGS": submit_arguments(**settings)}
        if self.cluster is None:
            return {**os.environ, MARK: self.mark, "VIEWKEEPER_SPARK_MASTER": "local[2]", **chosen}
        return {**self.cluster.environment(), "VIEWKEEPER_SPARK_MASTER": self.cluster.master, **chosen}

    def python_workers(self) -> list[int]:
        return sorted(marked(self.mark if self.cluster is None else self.cluster.mark, PYTHON_WORKER))

    def leader(self) -> Driver:
        """Whoever leads, once somebody does."""
        awaited(lambda: any(driver.leads for driver in self.drivers), "somebody leads")
        return next(driver for driver in self.drivers if driver.leads)

    def let_go(self, driver: Driver) -> None:
        """It is dead: forget it."""
        driver.wait()
        self.drivers.remove(driver)

    # Promises

    def target(self) -> dict[str, tuple[int, ...]]:
        """Where the bank's tables are now."""
        return dict(self.db._store.cut(BANK))

    def recover(self, drivers: int = DRIVERS) -> None:
        """All is well again: all drivers, every writer, and views that have seen all that had been written by now."""
        while sum(driver.is_alive for driver in self.drivers) < drivers:
            self.add_driver()
        self._check_alive()
        target = self.target()
        awaited(
            lambda: covers(self.db._store.group(FOLLOWED).committed.cut, target),
            "the views have what was written before",
        )
        self.check()

    def _check_alive(self) -> None:
        for number, writer in self.writers.items():
            if not writer.is_alive:
                raise Broken(f"writer {number} died by itself\n{writer.complaint()}")
        for driver in [driver for driver in self.drivers if not driver.is_alive]:
            raise Broken(f"a driver died by itself\n{driver.complaint()}")

    def check(self) -> None:
        """No acknowledged write is lost, none is there twice, and every view is its query over its tables."""
        for complaint in [*self.ledger.complaints(self.notes), *wrong_views(self.db)]:
            raise Broken(complaint)
        for status in self.db.status():
            if status.failure is not None:
                raise Broken(f'view "{status.name}" has stopped: {status.failure}')

    # The end

    def finish(self) -> None:
        """Everyone ends by itself, when asked to: the writers first."""
        for writer in self.writers.values():
            writer.finish()
        for driver in self.drivers:
            driver.await_start()
            driver.send(signal.SIGTERM)
        for driver in self.drivers:
            if driver.wait() != 0:
                raise Broken(f"a driver did not end well\n{driver.complaint()}")
        self.db.refresh()
        for reader in self.readers:
            reader.finish()

    def clear(self) -> None:
        """Nothing lives on, whatever happened."""
        for process in (*self.drivers, *self.writers.values(), *self.readers):
            if process.is_alive:
                process.send_all(signal.SIGKILL)
                process.process.wait()
        for pid in marked(self.mark, ""):
            kill(pid)
