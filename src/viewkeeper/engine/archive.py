"""Java's classes in one file, so that Spark starts in little more than half the time.

A start of Spark is mostly Java reading ten thousand classes out of jars and checking each. Java can write those that a run has
loaded to a file, an archive, and map that into its memory the next time. `make_archive` has it written once, in a process of its
own that does a little of everything; whoever starts Spark from then on names the file to Java (`java_options`).

Nothing depends on it. Java looks whether the file is of this very Java and of these jars, and starts without it if not. What Java
does not look at is whether the file is whole: so it gets its name when it is.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa

from viewkeeper.errors import SparkFailed, StorageError

SILENT = "-Xlog:cds*=off -Xlog:class+path*=off"
"""Java would say on standard output, where data goes, that a file is not for it."""

ROWS = 60_000
"""Enough for Spark to compile what it runs."""


def archive_path() -> Path:
    """In the Python environment, like the jars: it is of no use to any other, and goes when that goes."""
    return Path(sys.prefix) / "share" / "viewkeeper" / f"spark-{version('pyspark')}.jsa"


def java_options() -> str:
    """For the Java that Spark runs in: the archive if there is one, or nothing."""
    path = archive_path()
    return f"{shlex.quote(f'-XX:SharedArchiveFile={path}')} {SILENT}" if path.exists() else ""


def make_archive() -> Path:
    """Write the archive, in place of one that is there."""
    path = archive_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="making-", dir=path.parent) as folder:
            made = _made(Path(folder))
            made.replace(path)
    except OSError as error:
        hint = "call it as somebody who may, or install viewkeeper into an environment of your own"
        raise StorageError(f'folder "{path.parent}" cannot be written: {error.strerror}', hint=hint) from error
    return path


def _made(folder: Path) -> Path:
    """The process hands its standard output on to Java, which holds it until the file is written: so that is waited for too."""
    archive = folder / "classes.jsa"
    command = [sys.executable, "-m", __name__, str(archive)]
    done = subprocess.run(command, cwd=folder, env=_plain_environment(), capture_output=True, text=True, check=False)
    if done.returncode or not archive.exists():
        said = (done.stderr + done.stdout).strip().splitlines()
        fact = said[-1] if said else "Java wrote none"
        raise SparkFailed(f"no archive of Java's classes: {fact}", hint="Spark starts without it, only slower")
    return archive


def _plain_environment() -> dict[str, str]:
    """Spark in this machine's own process, with Java as it is by default: what is loaded so, others can map as well."""
    apart = ("SPARK_SUBMIT_OPTS", "PYSPARK_SUBMIT_ARGS", "VIEWKEEPER_SPARK_MASTER")
    return {name: value for name, value in os.environ.items() if name not in apart}


def _load_classes(archive: str) -> None:
    """A little of everything that views have Spark do, in a Java that writes what it has loaded when it ends."""
    from viewkeeper.engine.spark import Spark, local_session

    options = f"{shlex.quote(f'-XX:ArchiveClassesAtExit={archive}')} {SILENT}"
    spark = Spark(local_session(options))
    few = pa.table({"k": [1, 2, 3], "x": ["a", "b", None], "y": [1.5, None, 2.5]})
    many = pa.table({"k": range(ROWS), "x": [f"x{number % 100}" for number in range(ROWS)]})
    for left in (few, many):
        spark.schema("SELECT x, COUNT(*) AS n FROM a GROUP BY x", {"a": left.schema})
        for sql in STATEMENTS:
            spark.run(sql, {"a": left, "b": few})
    pairs = spark.frame("SELECT k, x FROM a WHERE k % 2 = 0", {"a": many})
    spark.collect(pairs.mapInArrow(_same, pairs.schema).repartition(2, "x").mapInArrow(_same, pairs.schema))
    pairs.write.parquet("pairs")
    spark.collect(pairs.sparkSession.read.parquet("pairs").groupBy("x").count())


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


STATEMENTS = (
    "SELECT k + 1 AS k, upper(x) AS x FROM a WHERE x IS NOT NULL AND k % 3 > 0",
    "SELECT x, COUNT(*) AS n, SUM(k) AS s, MIN(k) AS lo, AVG(CAST(k AS DECIMAL(10, 2))) AS m FROM a GROUP BY x HAVING n > 0",
    "SELECT a.k, b.y FROM a LEFT JOIN b ON a.x = b.x AND a.k > b.k UNION ALL SELECT k, y FROM b",
    "SELECT DISTINCT x, CASE WHEN k > 1 THEN DATE '2024-02-29' END AS d FROM a ORDER BY x LIMIT 10",
)


if __name__ == "__main__":
    _load_classes(sys.argv[1])
