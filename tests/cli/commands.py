"""How these tests run the command line: as a user does, in a process of its own, also on a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TIMEOUT = 240.0
"""Seconds. Alone on two cores, a command that starts Spark takes a fortieth of this."""

COMMAND = [sys.executable, "-m", "viewkeeper"]


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Of `--format json`."""
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass(frozen=True)
class Shell:
    """A folder to run commands in, and the database that VIEWKEEPER_DB names there."""

    folder: Path
    db: Path
    variables: dict[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        ours = {"PYTHONPATH": os.pathsep.join(sys.path), "VIEWKEEPER_DB": str(self.db), "HOME": str(self.folder)}
        kept = {name: value for name, value in os.environ.items() if name not in ("VIEWKEEPER_DEBUG", "COLUMNS")}
        return {**kept, **ours, **self.variables}

    def run(self, *arguments: object, stdin: str | bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*COMMAND, *map(str, arguments)],
            cwd=self.folder,
            env=self.environment(),
            input=stdin.encode() if isinstance(stdin, str) else stdin,
            capture_output=True,
            timeout=TIMEOUT,
            check=False,
        )

    def __call__(self, *arguments: object, stdin: str | bytes = b"") -> Done:
        done = self.run(*arguments, stdin=stdin)
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def ok(self, *arguments: object, stdin: str | bytes = b"") -> Done:
        """A command that must succeed."""
        done = self(*arguments, stdin=stdin)
        assert done.code == 0, (arguments, done)
        return done

    def fails(self, *arguments: object, code: int = 1, stdin: str | bytes = b"") -> str:
        """What a command that must fail says: on standard error, in a few lines, without a traceback."""
        done = self(*arguments, stdin=stdin)
        assert done.code == code, (arguments, done)
        assert done.out == "", (arguments, done)
        assert "Traceback" not in done.err, done.err
        return done.err


class Terminal:
    """A command on a terminal of its own: what it shows, and keys to press."""

    def __init__(self, shell: Shell, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        environment = {**shell.environment(), "TERM": "xterm-256color", "COLUMNS": "120"}
        self._child = subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=shell.folder,
            env=environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.raw = ""

    @property
    def text(self) -> str:
        """Without colours and other signs to the terminal."""
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.raw)

    def wait_for(self, pattern: str, after: int = 0) -> int:
        """Until the text shows it; where it ends."""
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            found = re.compile(pattern).search(self.text, after)
            if found:
                return found.end()
            if not self._read():
                break
        raise AssertionError(f"{pattern!r} did not come; the terminal shows:\n{self.text}")

    def _read(self) -> bool:
        """Whether the other side is still there."""
        ready, _, _ = select.select([self._ours], [], [], 1.0)
        try:
            piece = os.read(self._ours, 65_536) if ready else None
        except OSError:
            return False
        if piece == b"":
            return False
        self.raw += (piece or b"").decode(errors="replace")
        return True

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def interrupt(self) -> None:
        """What Ctrl-C does."""
        os.killpg(self._child.pid, signal.SIGINT)

    def end(self) -> int:
        """The exit code, once it has ended."""
        deadline = time.monotonic() + TIMEOUT
        while self._read() and time.monotonic() < deadline:
            pass
        return self._child.wait(timeout=TIMEOUT)

    def close(self) -> None:
        self._child.kill()
        self._child.wait()
        os.close(self._ours)


@contextmanager
def on_terminal(shell: Shell, *arguments: str) -> Iterator[Terminal]:
    terminal = Terminal(shell, *arguments)
    try:
        yield terminal
    finally:
        terminal.close()
