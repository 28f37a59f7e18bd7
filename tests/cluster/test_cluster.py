"""The same program on a Spark standalone cluster and on `local-cluster`: views of every kind, and workers that come and go."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest
from standalone import EXECUTOR, MARK, Standalone, awaited, kill, marked, submit_arguments

pytestmark = pytest.mark.slow

CHILD = Path(__file__).parent / "cluster_child.py"


class Program:
    """A program on a cluster, which asks for things and is answered."""

    def __init__(self, process: subprocess.Popen[str], complaints: Path) -> None:
        self.process = process
        self._complaints = complaints

    def next(self, event: str) -> dict[str, Any]:
        """The next thing that it says."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self._complaints.read_text()[-6000:]
        told: dict[str, Any] = json.loads(line)
        assert told["event"] == event, told
        return told

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def verified(self, event: str) -> dict[str, Any]:
        """Every view is what its query says, none has stopped, and what could ran as tasks."""
        told = self.next(event)
        assert (told["wrong"], told["failed"], told["mode"]) == ([], [], "tasks")
        return told


@contextmanager
def program(folder: Path, environment: dict[str, str], *scenes: str) -> Iterator[Program]:
    complaints = folder / "complaints.txt"
    with complaints.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, str(CHILD), str(folder), *scenes],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    with process:
        try:
            yield Program(process, complaints)
        finally:
            process.kill()


def operators_survive_a_lost_executor(running: Program, mark: str) -> None:
    first = running.verified("refreshed")
    running.next("inside")
    lost = marked(mark, EXECUTOR)
    assert kill(lost[0])
    running.go_on()
    assert running.verified("refreshed")["epoch"] == first["epoch"] + 1
    awaited(lambda: bool(set(marked(mark, EXECUTOR)) - set(lost)), "another executor came")


def test_a_standalone_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Standalone(tmp_path / "cluster") as cluster:
        first = cluster.add_worker()
        environment = {
            **cluster.environment(),
            "VIEWKEEPER_SPARK_MASTER": cluster.master,
            "PYSPARK_SUBMIT_ARGS": submit_arguments(),
        }
        with program(tmp_path, environment, "every_operator", "elastic") as running:
            operators_survive_a_lost_executor(running, cluster.mark)
            speeds = [elastic_phase(running, cluster, step) for step in ("stay", "add", "remove")]
            running.next("ended")
            assert running.process.wait() == 0
        assert cluster.workers != [first], "the one that it began with has gone"
    with capsys.disabled():
        print("\nchanges/s with 1, 2 and again 1 worker:", *speeds)


def elastic_phase(running: Program, cluster: Standalone, step: str) -> int:
    """A worker comes before the epochs of the phase, and goes in the middle of the first of them."""
    running.next("phase")
    if step == "add":
        cluster.add_worker()
        awaited(lambda: len(cluster.executors()) == 2, "each worker has an executor")
    running.go_on()
    if step == "remove":
        cluster.remove_worker(cluster.workers[0])
    running.verified("throughput")
    return int(running.next("speed")["changes_per_second"])


def test_a_local_cluster(tmp_path: Path) -> None:
    """Its workers are threads of the driver's JVM, and its executors processes, as on a real one."""
    environment = {
        **os.environ,
        MARK: str(tmp_path),
        "SPARK_HOME": str(linked_home(tmp_path / "spark")),
        "VIEWKEEPER_SPARK_MASTER": "local-cluster[2,1,1024]",
        "PYSPARK_SUBMIT_ARGS": submit_arguments(),
    }
    with program(tmp_path, environment, "few_operators") as running:
        operators_survive_a_lost_executor(running, str(tmp_path))
        running.next("ended")
        assert running.process.wait() == 0


def linked_home(folder: Path) -> Path:
    """The installed Spark under another name: `local-cluster` keeps its executors' folders in Spark's own, in `work`."""
    folder.mkdir()
    for part in ("bin", "jars", "python"):
        if (Path(pyspark.__file__).parent / part).exists():
            (folder / part).symlink_to(Path(pyspark.__file__).parent / part)
    return folder
