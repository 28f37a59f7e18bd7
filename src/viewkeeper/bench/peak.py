"""A process of its own that refreshes views and says how much memory it and the processes it starts took at most.

`python -m viewkeeper.bench.peak DATABASE VIEW ...` prints a number of megabytes: the sum of their peaks, wherever in time each
was.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import viewkeeper as vk
from viewkeeper.bench.memory import megabytes
from viewkeeper.bench.runner import Wrong

PROCESSES = Path("/proc")


def megabytes_of_refreshes(database: Path, views: Sequence[str]) -> float:
    """Measured in a child, where nothing else has made Python or Spark grow. `Wrong` if a refresh fails."""
    command = [sys.executable, "-m", "viewkeeper.bench.peak", str(database), *views]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Wrong((done.stderr.strip().splitlines() or ["the process that was to refresh failed"])[-1])
    return float(done.stdout.split()[-1])


def main(database: str, *views: str) -> None:
    with vk.open(database) as db:
        for view in views:
            report = db.refresh(view)
            if report.failed or view not in report.views:
                sys.exit(f'view "{view}" was not refreshed: {report.failed.get(view, "nothing had changed")}')
        print(megabytes("VmHWM") + sum(_peak(process) for process in descendants(os.getpid())))


def _peak(process: int) -> float:
    """Where there is no such folder, only this process is counted."""
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", (PROCESSES / str(process) / "status").read_text())
    except OSError:
        found = None
    return int(found[1]) / 1024 if found else 0.0


def descendants(process: int) -> list[int]:
    """The processes that a process has started, and those that they have."""
    found = []
    for path in (PROCESSES / str(process) / "task").glob("*/children"):
        for child in path.read_text().split():
            found += [int(child), *descendants(int(child))]
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
