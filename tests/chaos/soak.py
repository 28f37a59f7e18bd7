"""A soak: a steady load for some minutes, and the memory of every process that serves it.

    python tests/chaos/soak.py --seconds 600 [--cluster]

Writers, readers and one run, as in the fault campaign, but nothing bad happens. The resident memory of each kind of process
is sampled; what counts is whether it still grows after the first half, when everything has met everything once. The logs
are trimmed as they grow, as a run of hours would have it. It ends with 1 if memory grows, or a view is wrong.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path

import _neighbours  # noqa: F401  # puts the folders beside this one on the path
from grounds import Site
from processes import Broken
from scene import create, wrong_views
from standalone import EXECUTOR, PYTHON_WORKER, Standalone, marked

import viewkeeper as vk

EVERY = 2.0
"""Seconds between samples."""

KEPT_SECONDS = 60.0
"""How far back the logs reach."""

GROWTH = 0.10
"""Of the second half's memory, from its first quarter to its last: more than this is taken for a leak."""

SLACK = 16 << 20
"""Bytes that are never called growth: what an allocator keeps or gives back at its own time."""

KINDS = {
    "driver": "driver.py",
    "driver's Java": "SparkSubmit",
    "executors": EXECUTOR,
    "python workers": PYTHON_WORKER,
    "writers": "writer.py",
    "readers": "reader.py",
}


def resident(pid: int) -> int:
    """Bytes in memory; 0 for a process that has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def growth(samples: list[int]) -> float:
    """By how much the last quarter of the second half is above its first one.

    >>> growth([9, 9, 9, 9, 10, 10, 10, 10, 10, 10, 10, 11])
    0.1
    >>> growth([1, 5, 9, 10, 10, 10, 10, 10])
    0.0
    """
    half = samples[len(samples) // 2 :]
    quarter = max(1, len(half) // 4)
    first, last = statistics.median(half[:quarter]), statistics.median(half[-quarter:])
    return 0.0 if not first else round(float(last / first - 1), 4)


def is_flat(samples: list[int]) -> bool:
    half = samples[len(samples) // 2 :]
    return growth(samples) <= GROWTH or max(half) - min(half) <= SLACK


def sample(mark: str, into: dict[str, list[int]]) -> None:
    for kind, word in KINDS.items():
        pids = marked(mark, word)
        if pids:
            into[kind].append(sum(map(resident, pids)))


def soak(site: Site, seconds: float) -> dict[str, list[int]]:
    samples: dict[str, list[int]] = defaultdict(list)
    mark = site.mark if site.cluster is None else site.cluster.mark
    site.start(drivers=1)
    site.recover(drivers=1)
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        time.sleep(EVERY)
        sample(mark, samples)
        site.db.trim(KEPT_SECONDS)
    site.finish()
    for complaint in wrong_views(site.db):
        raise Broken(complaint)
    return samples


def report(samples: dict[str, list[int]]) -> bool:
    """Whether all of them are flat."""
    print(f"{'':16} {'first MB':>9} {'half MB':>9} {'last MB':>9} {'growth':>7}")
    for kind, sizes in samples.items():
        first, half, last = (size >> 20 for size in (sizes[0], sizes[len(sizes) // 2], sizes[-1]))
        word = "flat" if is_flat(sizes) else "GROWS"
        print(f"{kind:16} {first:9} {half:9} {last:9} {growth(sizes):7.1%} {word}")
    return all(map(is_flat, samples.values()))


def main(seconds: float, on_cluster: bool) -> int:
    with tempfile.TemporaryDirectory(prefix="viewkeeper-soak-") as folder, ExitStack() as stack:
        notes = Path(folder)
        cluster = None
        if on_cluster:
            cluster = stack.enter_context(Standalone(notes / "cluster", cores=1))
            cluster.add_worker()
        db = stack.enter_context(vk.open(notes / "bank.vk", durability="off"))
        create(db)
        site = Site(db, notes / "bank.vk", notes, "soak", cluster)
        stack.callback(site.clear)
        try:
            samples = soak(site, seconds)
        except Broken as broken:
            print(f"BROKEN: {broken}")
            return 1
        return 0 if report(samples) else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A steady load, and the memory of all processes.")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--cluster", action="store_true", help="tasks in an executor of a standalone cluster")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # as Ctrl-C does: nothing of it lives on
    sys.exit(main(given.seconds, given.cluster))
