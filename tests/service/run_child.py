"""A process that runs a database and tells so in JSON lines on standard output.

Run as `<folder> <lease seconds> [freeze | hold]`. Its views ask for nothing that Spark must evaluate, so it is quick. In the
middle of its first epoch, when some of its changes are applied and nothing is committed, it suspends itself (`freeze`) or
says so and waits for a line on standard input (`hold`).
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable

import viewkeeper as vk
from viewkeeper.engine import leadership
from viewkeeper.service.logs import LOGGER, JsonFormatter, tell
from viewkeeper.service.runner import Runner
from viewkeeper.store.embedded import faults


def log_to_stdout() -> None:
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger(LOGGER)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)


def freeze() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def hold() -> None:
    tell(logging.INFO, "holding")
    sys.stdin.readline()


def once_in_an_epoch(act: Callable[[], None]) -> None:
    passed: list[str] = []

    def reach(point: str) -> None:
        if point == "apply.committed" and not passed:
            passed.append(point)
            act()

    faults.reach = reach


def main(folder: str, lease: float, *options: str) -> None:
    leadership.SECONDS = lease
    log_to_stdout()
    for option in options:
        once_in_an_epoch({"freeze": freeze, "hold": hold}[option])
    with vk.open(folder, durability="off") as db:
        Runner(db._maintainer, db._catalog, db._store, lease_seconds=lease).run()
    assert "pyspark" not in sys.modules


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), *sys.argv[3:])
