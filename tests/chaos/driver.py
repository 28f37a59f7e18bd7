"""A process of the campaign that runs the database, and tells what happens in JSON lines on standard output.

Run as `<folder> <options as JSON>`: `lease` in seconds; `tasks`, whether everything that can runs as Spark tasks; `fault`, a
point to die at, by itself (`where`: "driver") or in the Python processes that run its tasks ("workers").
"""

from __future__ import annotations

import json
import logging
import os
import sys
from dataclasses import dataclass

import viewkeeper as vk
from viewkeeper.engine import leadership
from viewkeeper.service.logs import LOGGER, JsonFormatter, tell
from viewkeeper.service.runner import Runner
from viewkeeper.store.embedded import faults


@dataclass(frozen=True)
class Options:
    lease: float
    tasks: bool = True
    fault: str = ""
    where: str = "driver"


def log_to_stdout() -> None:
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger(LOGGER)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)


def arm(options: Options) -> None:
    """Only the driver, or only its workers: they inherit the environment, by Spark's setting if they are elsewhere."""
    if options.where == "driver":
        faults._armed, faults._passes_left = faults._parse(options.fault)
        return
    os.environ[faults.VARIABLE] = options.fault
    given = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--conf spark.executorEnv.{faults.VARIABLE}={options.fault} {given}"


def main(folder: str, options: Options) -> None:
    leadership.SECONDS = options.lease
    log_to_stdout()
    arm(options)
    with vk.open(folder, durability="off") as db:
        db._spark.session()  # one that stands by is ready to take over
        if options.tasks:
            db._maintainer.tasks_from = 0
        tell(logging.INFO, "ready")
        Runner(db._maintainer, db._catalog, db._store, lease_seconds=options.lease).run()


if __name__ == "__main__":
    main(sys.argv[1], Options(**json.loads(sys.argv[2])))
