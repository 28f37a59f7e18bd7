"""A process of its own that maintains views, told what to do line by line: another number of workers, another core.

`python -m viewkeeper.bench.child DATABASE` reads commands from its input, a JSON object a line, and answers each with one.
The parent writes to the same database meanwhile.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import viewkeeper as vk
from viewkeeper.bench.runner import Wrong, refreshed, verified


class Child:
    """The parent's end. `master` is Spark's, such as local[1]; `core` pins the process and what it starts."""

    def __init__(self, database: Path, *, master: str | None = None, core: int | None = None) -> None:
        environment = {**os.environ, **({} if master is None else {"VIEWKEEPER_SPARK_MASTER": master})}
        self._errors = database.with_suffix(".errors")
        command = [sys.executable, "-m", "viewkeeper.bench.child", str(database)]
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
            )
        if core is not None and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(self.process.pid, {core})

    def refresh(self, view: str) -> float:
        """Seconds, as the child sees them."""
        return float(self.ask(do="refresh", view=view)["seconds"])

    def verify(self, views: list[str]) -> int:
        return int(self.ask(do="verify", views=views)["rows"])

    def ask(self, **command: Any) -> dict[str, Any]:
        self.tell(**command)
        return self.answer()

    def tell(self, **command: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                found: dict[str, Any] = json.loads(line)
                if "error" in found:
                    raise Wrong(found["error"])
                return found
        lines = self._errors.read_text(errors="replace").strip().splitlines()
        raise Wrong((lines or ["the process that maintains the views ended without a word"])[-1])

    def close(self) -> None:
        """It ends when its input does."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


# The child's end


def main(database: str) -> None:
    with vk.open(database) as db:
        commands = Commands(db)
        for line in sys.stdin:
            command = json.loads(line)
            try:
                answer = getattr(commands, command.pop("do"))(**command)
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(answer), flush=True)


class Commands:
    """What a child can do, each by its name."""

    def __init__(self, db: vk.Database) -> None:
        self.db = db
        self._stop = threading.Event()
        self._loop: threading.Thread | None = None
        self._epochs: list[dict[str, float]] = []
        self._problem: str | None = None

    def refresh(self, view: str) -> dict[str, float]:
        return {"seconds": refreshed(self.db, view)}

    def verify(self, views: list[str]) -> dict[str, int]:
        return {"rows": verified(self.db, views)}

    def catch_up(self, view: str) -> dict[str, float]:
        """Follow if there is anything to follow; how long that took."""
        report = self.db.refresh(view)
        if report.failed:
            raise Wrong(report.failed[view])
        return {"seconds": sum(epoch.seconds for epoch in report.epochs)}

    def tasks_from(self, changes: int) -> dict[str, int]:
        """Epochs of at least so many changes run as Spark tasks."""
        self.db._maintainer.tasks_from = changes
        return {"tasks_from": changes}

    def start(self, view: str, every: float = 0.0) -> dict[str, bool]:
        """Follow until `stop`: an epoch each so many seconds, or as soon as the one before is done."""
        self._stop.clear()
        self._epochs, self._problem = [], None
        self._loop = threading.Thread(target=self._follow, args=(view, every))
        self._loop.start()
        return {"started": True}

    def stop(self) -> dict[str, Any]:
        """The epochs since `start`: when each was committed, how many changes it followed, how long it took."""
        self._stop.set()
        if self._loop is not None:
            self._loop.join()
        return {"error": self._problem} if self._problem else {"epochs": self._epochs}

    def _follow(self, view: str, every: float) -> None:
        while not self._stop.wait(every):
            try:
                report = self.db.refresh(view)
            except Exception as error:
                self._problem = f"{type(error).__name__}: {error}"
                return
            found = report.views.get(view)
            if found is None:
                self._stop.wait(0.005)
                continue
            if found.error is not None:
                self._problem = found.error
                return
            seconds = sum(epoch.seconds for epoch in report.epochs)
            self._epochs.append({"at": time.time(), "changes": found.changes, "seconds": seconds})


if __name__ == "__main__":
    main(*sys.argv[1:])
