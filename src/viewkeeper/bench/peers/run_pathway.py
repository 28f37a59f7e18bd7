"""Pathway follows the batches as a stream, each sent when the one before has gone through. In memory.

A batch's time is from its first row to the moment at which a sum over the whole result is what it must be after this batch:
that a time of the stream has ended says less, for times end within a batch too. The result itself goes into a sink that drops
it. Handing rows over one by one is Pathway's way in from Python, and counts. The view's rows are from a second run, of the same
query over the same changes.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

SECONDS = 120
"""Nothing takes that long; a batch that does would otherwise be waited for without end."""

COLUMN = {"v1": "s", "v2": "lo", "v3": "y", "v4": "t"}
"""What is summed up to see that a batch has gone through."""


def main(folder: Path, view: str) -> None:
    os.environ.setdefault("PATHWAY_THREADS", str(os.cpu_count() or 1))  # it has one worker unless told
    import pathway as pw

    times: list[float] = []
    through = threading.Event()
    expected = totals(folder, view)
    awaited = [0]

    class Changes(pw.io.python.ConnectorSubject):
        def run(self) -> None:
            for path, total in zip((folder / "r.parquet", *batches(folder)), expected, strict=True):
                left, came = rows_of(path)
                awaited[0] = total
                through.clear()
                started = time.perf_counter()
                for row in left:
                    self.delete(**row)
                for row in came:
                    self.next(**row)
                self.commit()
                if not through.wait(SECONDS):
                    raise TimeoutError(f"{path.name} has not gone through")
                times.append(time.perf_counter() - started)

    found = result(folder, view, pw.io.python.read(Changes(), schema=schema(), autocommit_duration_ms=None))
    pw.io.null.write(found)
    moved = found.reduce(total=pw.reducers.sum(found[COLUMN[view]]))

    def look(key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        if is_addition and row["total"] == awaited[0]:
            through.set()

    pw.io.subscribe(moved, on_change=look)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    pw.internals.parse_graph.G.clear()
    again = result(folder, view, pw.debug.table_from_pandas(stream(folder), schema=schema()))
    pw.debug.table_to_pandas(again, include_id=False).to_parquet(folder / f"pathway-{view}.parquet")
    print(json.dumps({"seconds": times[1:]}))


def totals(folder: Path, view: str) -> list[int]:
    """The sum over the result, at first and after each batch: of all y, or of the least y of each x."""
    rows: dict[int, tuple[str, int]] = {}
    found = []
    for path in (folder / "r.parquet", *batches(folder)):
        left, came = rows_of(path)
        for row in left:
            del rows[row["k"]]
        rows.update((row["k"], (row["x"], row["y"])) for row in came)
        found.append(sum(least(rows).values()) if view == "v2" else sum(y for _, y in rows.values()))
    return found


def least(rows: dict[int, tuple[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for x, y in rows.values():
        found[x] = min(y, found.get(x, y))
    return found


def schema() -> Any:
    import pathway as pw

    class R(pw.Schema):
        k: int = pw.column_definition(primary_key=True)
        x: str
        y: int

    return R


def rows_of(path: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Those that left and those that came; all of them came when there is no weight."""
    import pyarrow.parquet as pq

    left: list[dict[str, Any]] = []
    came: list[dict[str, Any]] = []
    for row in pq.read_table(path).to_pylist():
        (came if row.pop("w", 1) > 0 else left).append(row)
    return left, came


def stream(folder: Path) -> Any:
    """The rows at first have the time 2, each batch the next even number."""
    import pandas as pd

    parts = [pd.read_parquet(folder / "r.parquet").assign(__time__=2, __diff__=1)]
    for number, path in enumerate(batches(folder), 2):
        parts.append(pd.read_parquet(path).rename(columns={"w": "__diff__"}).assign(__time__=2 * number))
    columns = ["k", "x", "y", "__time__", "__diff__"]
    return pd.concat([part[columns] for part in parts], ignore_index=True)


def result(folder: Path, view: str, r: Any) -> Any:
    import pandas as pd
    import pathway as pw

    class S(pw.Schema):
        x: str = pw.column_definition(primary_key=True)
        z: int

    if view == "v1":
        return r.groupby(r.x).reduce(r.x, s=pw.reducers.sum(r.y), n=pw.reducers.count())
    if view == "v2":
        return r.groupby(r.x).reduce(r.x, lo=pw.reducers.min(r.y), hi=pw.reducers.max(r.y))
    s = pw.debug.table_from_pandas(pd.read_parquet(folder / "s.parquet"), schema=S)
    joined = r.join(s, r.x == s.x).select(r.k, r.x, r.y, s.z)
    if view == "v3":
        return joined
    grouped = joined.select(joined.y, g=joined.z % 1000)
    return grouped.groupby(grouped.g).reduce(grouped.g, t=pw.reducers.sum(grouped.y))


def batches(folder: Path) -> list[Path]:
    return sorted(folder.glob("batch-*.parquet"), key=lambda path: int(path.stem.partition("-")[2]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
