"""The processes of a campaign, as the one that runs it sees them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from driver import Options

HERE = Path(__file__).parent

PATIENCE = 300.0
"""Seconds after which what should have happened is taken for something that never will."""


class Broken(Exception):
    """A promise that was not kept: the counter-example of a campaign."""


def awaited(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            raise Broken(f"in {PATIENCE:.0f} seconds it did not come to this: {what}")
        time.sleep(0.05)


class Process:
    """A script of this folder, with a session of its own: what it starts can be signalled with it."""

    def __init__(self, script: str, arguments: Sequence[str], environment: dict[str, str], complaints: Path) -> None:
        self.complaints = complaints
        with complaints.open("a") as errors:
            self.process = subprocess.Popen(
                [sys.executable, str(HERE / script), *arguments],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def send(self, number: signal.Signals) -> None:
        """To this process alone."""
        self.process.send_signal(number)

    def send_all(self, number: signal.Signals) -> None:
        """Also to its Java."""
        os.killpg(self.process.pid, number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self.wait()

    def wait(self) -> int:
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise Broken(f"{self.process.args!r} did not end\n{self.complaint()}") from None
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None and not pipe.closed and not self._is_read(pipe):
                pipe.close()
        return code

    def _is_read(self, pipe: object) -> bool:
        """Whether a thread reads it to its end."""
        return False

    def finish(self) -> None:
        """Ask it to end by itself. A writer or reader that fails breaks a promise: the database never made it fail so."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        if self.wait() != 0:
            raise Broken(f"{self.process.args!r} failed\n{self.complaint()}")

    def complaint(self) -> str:
        return self.complaints.read_text()[-4000:]


class Driver(Process):
    """A run, and the events that it tells."""

    def __init__(self, folder: Path, options: Options, environment: dict[str, str], complaints: Path) -> None:
        super().__init__("driver.py", [str(folder), json.dumps(asdict(options))], environment, complaints)
        self.options = options
        self.told: list[dict[str, Any]] = []
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines, self.complaints.with_suffix(".events").open("w") as kept:
            for line in lines:
                kept.write(line)
                kept.flush()
                if line.endswith("\n"):
                    self.told.append(json.loads(line))

    def _is_read(self, pipe: object) -> bool:
        return pipe is self.process.stdout

    def count(self, *events: str) -> int:
        return sum(told["event"] in events for told in list(self.told))

    @property
    def leads(self) -> bool:
        """By what it said last."""
        said = [
            told["event"] for told in list(self.told) if told["event"] in ("leading", "lost", "waiting", "resigned")
        ]
        return self.is_alive and said[-1:] == ["leading"]

    def await_start(self) -> None:
        """Until it minds signals: before, one that asks it to end would kill it."""
        awaited(lambda: self.count("started") > 0 or not self.is_alive, "a driver has started")

    def await_more(self, *events: str) -> None:
        """One more of these events, or its end."""
        before = self.count(*events)
        awaited(lambda: self.count(*events) > before or not self.is_alive, f"a driver tells {' or '.join(events)}")
