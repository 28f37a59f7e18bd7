"""Flink SQL follows the changes as a Debezium stream: hashmap state, mini-batches, a sink that drops the rows.

A job has no batches that could be timed. The changes' time is that of a job with the tables and all changes, less that of a job
with the tables alone; a large batch is given its share of it. Each large batch but the first stands for one repetition of the two
jobs. Of small batches it cannot tell, nor of any if in one repetition the job with the changes took no longer: to leave out only
that one would make the others look slow. The view's rows are collected by one more job, which comes first and is the warm-up.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

QUERIES = {
    "v1": ("SELECT x, SUM(y) AS s, COUNT(*) AS n FROM r GROUP BY x", "x STRING, s BIGINT, n BIGINT", 1),
    "v2": ("SELECT x, MIN(y) AS lo, MAX(y) AS hi FROM r GROUP BY x", "x STRING, lo BIGINT, hi BIGINT", 1),
    "v3": ("SELECT r.k, r.x, r.y, s.z FROM r JOIN s ON r.x = s.x", "k BIGINT, x STRING, y BIGINT, z BIGINT", 4),
    "v4": (
        "SELECT MOD(s.z, 1000) AS g, SUM(r.y) AS t FROM r JOIN s ON r.x = s.x GROUP BY MOD(s.z, 1000)",
        "g BIGINT, t BIGINT",
        1,
    ),
}
"""The query, its columns, and how many of the first ones tell its rows apart."""

SETTINGS = {
    "state.backend.type": "hashmap",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "1 s",
    "table.exec.mini-batch.size": "50000",
    "parallelism.default": str(os.cpu_count() or 1),
    "taskmanager.memory.managed.size": "64m",
    "restart-strategy.type": "none",  # else a job that fails is tried again for ever
}

IN_ONE_FILE = {
    "parallelism.default": "1",
    "execution.checkpointing.interval": "1 s",
    "execution.checkpointing.storage": "filesystem",
}
"""In order. The file is complete at a checkpoint, the last of them when the job ends; in memory there is room for 5 MB of it."""


def main(folder: Path, view: str) -> None:
    names = sorted(folder.glob("batch-*.parquet"), key=lambda path: int(path.stem.partition("-")[2]))
    tables = write_stream(folder, "tables", [])
    every = write_stream(folder, "every", names)
    collect(folder, view, every)
    rows = rows_of(names)
    times: list[float | None] = [None] * len(names)
    for number in large(rows)[1:]:
        less, more = seconds(folder, view, tables), seconds(folder, view, every)
        times[number] = (more - less) * rows[number] / sum(rows)
    told = all(time is None or time > 0 for time in times)
    print(json.dumps({"seconds": times if told else [None] * len(times)}))


def rows_of(names: list[Path]) -> list[int]:
    import pyarrow.parquet as pq

    return [pq.read_metadata(path).num_rows for path in names]


def large(rows: list[int]) -> list[int]:
    """The numbers of the large batches."""
    return [number for number, count in enumerate(rows) if count * 10 > max(rows)]


def write_stream(folder: Path, name: str, batches: list[Path]) -> Path:
    """One file, so that a row that left is never read before it came."""
    import pyarrow.parquet as pq

    path = folder / f"flink-{name}" / "r.json"
    if path.exists():
        return path.parent
    path.parent.mkdir()
    with path.open("w") as out:
        for row in pq.read_table(folder / "r.parquet").to_pylist():
            out.write(json.dumps({"before": None, "after": row, "op": "c"}) + "\n")
        for batch in batches:
            for row in pq.read_table(batch).sort_by("w").to_pylist():
                weight = row.pop("w")
                came = {"before": None, "after": row, "op": "c"}
                left = {"before": row, "after": None, "op": "d"}
                out.write(json.dumps(came if weight > 0 else left) + "\n")
    partners = folder / "flink-s"
    if not partners.exists():
        partners.mkdir()
        with (partners / "s.json").open("w") as out:
            out.writelines(json.dumps(row) + "\n" for row in pq.read_table(folder / "s.parquet").to_pylist())
    return path.parent


def environment(folder: Path, stream: Path) -> Any:
    from pyflink.table import EnvironmentSettings, TableEnvironment

    found = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for name, value in SETTINGS.items():
        found.get_config().set(name, value)
    found.execute_sql(
        "CREATE TABLE r (k BIGINT, x STRING, y BIGINT) "
        f"WITH ('connector' = 'filesystem', 'path' = 'file://{stream}', 'format' = 'debezium-json')"
    )
    found.execute_sql(
        "CREATE TABLE s (x STRING, z BIGINT, PRIMARY KEY (x) NOT ENFORCED) "
        f"WITH ('connector' = 'filesystem', 'path' = 'file://{folder}/flink-s', 'format' = 'json')"
    )
    return found


def seconds(folder: Path, view: str, stream: Path) -> float:
    query, columns, _ = QUERIES[view]
    found = environment(folder, stream)
    found.execute_sql(f"CREATE TABLE sink ({columns}) WITH ('connector' = 'blackhole')")
    started = time.perf_counter()
    found.execute_sql(f"INSERT INTO sink {query}").wait()
    return time.perf_counter() - started


def collect(folder: Path, view: str, stream: Path) -> None:
    """The rows that are left when every change of the result has been taken in order, from one file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    query, columns, keys = QUERIES[view]
    out = folder / f"flink-out-{view}"
    found = environment(folder, stream)
    for name, value in IN_ONE_FILE.items():
        found.get_config().set(name, value)
    found.get_config().set("execution.checkpointing.dir", f"file://{folder}/flink-checkpoints-{view}")
    found.execute_sql(
        f"CREATE TABLE sink ({columns}) WITH ('connector' = 'filesystem', 'path' = 'file://{out}', "
        "'format' = 'debezium-json')"
    )
    found.execute_sql(f"INSERT INTO sink {query}").wait()
    names = [column.split()[0] for column in columns.split(", ")]
    rows: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for path in sorted(out.rglob("part-*")):
        for line in path.read_text().splitlines():
            take(rows, json.loads(line), names, keys)
    values = list(zip(*rows.values(), strict=True))
    pq.write_table(pa.table(dict(zip(names, values, strict=True))), folder / f"flink-{view}.parquet")


def take(rows: dict[tuple[Any, ...], tuple[Any, ...]], change: dict[str, Any], names: list[str], keys: int) -> None:
    left, came = change["before"], change["after"]
    if left is not None:
        row = tuple(left[name] for name in names)
        if rows.get(row[:keys]) == row:
            del rows[row[:keys]]
    if came is not None:
        row = tuple(came[name] for name in names)
        rows[row[:keys]] = row


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
