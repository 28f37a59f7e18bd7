"""The demo in its short form, as a program: into a pipe, and in a terminal of its own."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TIMEOUT = 240.0
"""Seconds. Alone on two cores it takes a tenth of this."""

COMMAND = [sys.executable, "-m", "viewkeeper.demo", "--seconds", "3"]
VIEWS = ("revenue", "by_category", "price_range", "events_by_shop", "shop_sales", "quiet_shops", "ranking")


def surroundings(folder: Path, **variables: str) -> dict[str, str]:
    """CI=true asks for the short form. Python's temporary folders are made in `folder`."""
    path = os.pathsep.join(sys.path)
    return {**os.environ, "PYTHONPATH": path, "CI": "true", "TMPDIR": str(folder), "COLUMNS": "80", **variables}


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """Where the demo runs and where its temporary folders go: nothing is left in either."""
    here, temporary = tmp_path / "here", tmp_path / "temporary"
    here.mkdir()
    temporary.mkdir()
    yield here, temporary
    assert list(here.iterdir()) == []
    assert list(temporary.iterdir()) == []


def test_into_a_pipe_it_prints_plain_lines(folders: tuple[Path, Path]) -> None:
    here, temporary = folders
    done = subprocess.run(
        [*COMMAND, "--short"],
        cwd=here,
        env=surroundings(temporary, CI=""),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "writing 20,000 events" in done.stdout
    assert done.stderr == ""
    assert re.findall(r"[^\n -~]", done.stdout) == []
    for view in VIEWS:
        assert re.search(rf"^ +{view} +[\d,]+ rows  verified$", done.stdout, re.MULTILINE), view
    assert re.search(r"^ +\d+ s +[\d,]+ changes/s +[\d,]+ waiting  epoch +\d+ ", done.stdout, re.MULTILINE)
    assert re.search(r"^ +quiet_shops +[1-9]", done.stdout, re.MULTILINE), "some shops stay without a sale"
    assert "all 7 views verified" in done.stdout


def test_in_a_terminal_it_is_live(folders: tuple[Path, Path]) -> None:
    here, temporary = folders
    code, shown = run_in_terminal(COMMAND, here, surroundings(temporary, TERM="xterm-256color"))
    assert code == 0, shown
    assert shown.count("\x1b[") > 20, "it is drawn again and again"
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)
    for word in ("changes per second", "changes waiting", "average epoch", "since the start", "all 7 views verified"):
        assert word in text
    assert "log4j" not in text
    assert "WARN" not in text
    assert "\u2501" not in text, "no other bar draws over it"


def run_in_terminal(command: list[str], here: Path, environment: dict[str, str]) -> tuple[int, str]:
    """Exit code and everything that came to the terminal."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(command, cwd=here, env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    try:
        shown = b"".join(_pieces(ours, time.monotonic() + TIMEOUT))
        return child.wait(timeout=TIMEOUT), shown.decode()
    finally:
        child.kill()
        child.wait()
        os.close(ours)


def _pieces(terminal: int, deadline: float) -> Iterator[bytes]:
    """Until the last process on the other side has gone: then reading is an error, or gives nothing."""
    with contextlib.suppress(OSError):
        while time.monotonic() < deadline:
            ready, _, _ = select.select([terminal], [], [], 1.0)
            piece = os.read(terminal, 65_536) if ready else None
            if piece == b"":
                return
            if piece:
                yield piece


@pytest.mark.parametrize("wrong", [("--events", "5"), ("--seconds", "0"), ("--nonsense",)])
def test_wrong_arguments_are_refused_at_once(wrong: tuple[str, ...], tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, *wrong],
        cwd=tmp_path,
        env=surroundings(tmp_path),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 2
    assert wrong[0] in done.stderr
    assert done.stdout == ""


def test_when_spark_does_not_start_it_shows_what_spark_said(folders: tuple[Path, Path]) -> None:
    here, temporary = folders
    done = subprocess.run(
        COMMAND,
        cwd=here,
        env=surroundings(temporary, JAVA_HOME=str(here)),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode != 0
    assert "Spark said:" in done.stderr
    assert "java" in done.stderr
    assert "verified" not in done.stdout
