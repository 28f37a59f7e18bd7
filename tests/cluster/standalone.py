"""A Spark standalone cluster out of the PySpark package: a master and workers, each a process on loopback.

The commands are those of `docs/cluster.md`. A worker has as many executors as applications need; all of them are found
by a mark in their environment, which a process passes on to those that it starts.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import pyspark

MARK = "VIEWKEEPER_CLUSTER"
PATIENCE = 300.0
"""Seconds after which what should have happened is taken for something that never will."""

QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""For a JVM that lives for seconds: it starts sooner, and leaves the cores to the others."""

EXECUTOR = "CoarseGrainedExecutorBackend"
PYTHON_WORKER = "pyspark.daemon"


def submit_arguments(**settings: object) -> str:
    """What PYSPARK_SUBMIT_ARGS is to be for some settings, written with `__` for a dot."""
    given = {"spark.executor.memory": "1g", "spark.executor.extraJavaOptions": QUICK}
    given |= {name.replace("__", "."): str(value) for name, value in settings.items()}
    return " ".join([*(f"--conf '{name}={value}'" for name, value in given.items()), "pyspark-shell"])


def marked(mark: str, word: str) -> list[int]:
    """The living processes that carry a mark and have a word in their command."""
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _is(pid, mark, word)]


def _is(pid: int, mark: str, word: str) -> bool:
    """A zombie has no environment, so it does not count."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return f"{MARK}={mark}".encode() in environment.split(b"\0") and word.encode() in command


def kill(pid: int, number: signal.Signals = signal.SIGKILL) -> bool:
    """Whether it was still there."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def awaited(holds: Callable[[], bool], what: str) -> None:
    """Until something holds, or it is taken for something that never will."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@dataclass
class Standalone:
    """The cluster. `folder` gets the logs and the executors' folders; nothing of it lives on after the block."""

    folder: Path
    cores: int = 1
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _started: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _port: int = 0

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self._port}"

    def __enter__(self) -> Standalone:
        self._start("org.apache.spark.deploy.master.Master", "--port", "0")
        awaited(lambda: "I have been elected leader" in self._log(0), "the master leads")
        self._port = int(re.findall(r"Starting Spark master at spark://127\.0\.0\.1:(\d+)", self._log(0))[0])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._started:
            process.kill()
            process.wait()
        for pid in marked(self.mark, ""):
            kill(pid)

    def add_worker(self) -> subprocess.Popen[bytes]:
        """One more, registered with the master."""
        place = self.folder / f"worker-{len(self._started)}"
        options = ["--cores", str(self.cores), "--memory", f"{self.cores}g", "--work-dir", str(place)]
        process = self._start("org.apache.spark.deploy.worker.Worker", self.master, *options)
        number = len(self._started) - 1
        awaited(lambda: "Successfully registered with master" in self._log(number), "the worker is registered")
        self.workers.append(process)
        return process

    def remove_worker(self, process: subprocess.Popen[bytes]) -> None:
        """It goes, with its executors, in the middle of whatever they do."""
        executors = [pid for pid in self.executors() if _parent(pid) == process.pid]
        process.kill()
        process.wait()
        for pid in executors:
            kill(pid)
        self.workers.remove(process)

    def executors(self) -> list[int]:
        return marked(self.mark, EXECUTOR)

    def python_workers(self) -> list[int]:
        return marked(self.mark, PYTHON_WORKER)

    def environment(self) -> dict[str, str]:
        """For whoever starts processes of the cluster, and for applications that want to be on it."""
        return {
            **os.environ,
            MARK: self.mark,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": QUICK,
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
            "SPARK_HOME": str(_home()),
        }

    def _start(self, program: str, *options: str) -> subprocess.Popen[bytes]:
        command = [str(_home() / "bin" / "spark-class"), program, *options, "--host", "127.0.0.1", "--webui-port", "0"]
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / f"{len(self._started)}.log").open("wb") as log:
            process = subprocess.Popen(command, env=self.environment(), stdout=log, stderr=log)
        self._started.append(process)
        return process

    def _log(self, number: int) -> str:
        assert self._started[number].poll() is None, (self.folder / f"{number}.log").read_text()
        return (self.folder / f"{number}.log").read_text()


def _home() -> Path:
    return Path(pyspark.__file__).parent


def _parent(pid: int) -> int:
    """0 for a process that is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
