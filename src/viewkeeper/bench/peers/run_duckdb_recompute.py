"""DuckDB evaluates the view anew after each batch. Only that is timed, and not writing the base rows."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

QUERIES = {
    "v1": "SELECT x, SUM(y)::BIGINT AS s, COUNT(*) AS n FROM r GROUP BY x",
    "v2": "SELECT x, MIN(y) AS lo, MAX(y) AS hi FROM r GROUP BY x",
    "v3": "SELECT r.k, r.x, r.y, s.z FROM r JOIN s ON r.x = s.x",
    "v4": "SELECT s.z % 1000 AS g, SUM(r.y)::BIGINT AS t FROM r JOIN s ON r.x = s.x GROUP BY s.z % 1000",
}


def main(folder: Path, view: str) -> None:
    import duckdb

    base = duckdb.connect(str(folder / f"duckdb-recompute-{view}.db"))
    for name in ("r", "s"):
        base.execute(f"CREATE TABLE {name} AS SELECT * FROM '{folder}/{name}.parquet'")
    times = []
    for batch in batches(folder):
        base.execute(f"CREATE OR REPLACE TEMP TABLE delta AS SELECT * FROM '{batch}'")
        base.execute("DELETE FROM r WHERE k IN (SELECT k FROM delta WHERE w < 0)")
        base.execute("INSERT INTO r SELECT k, x, y FROM delta WHERE w > 0")
        started = time.perf_counter()
        base.execute(f"CREATE OR REPLACE TABLE v AS {QUERIES[view]}")
        times.append(time.perf_counter() - started)
    base.execute(f"COPY v TO '{folder}/duckdb_recompute-{view}.parquet' (FORMAT parquet)")
    print(json.dumps({"seconds": times}))


def batches(folder: Path) -> list[Path]:
    return sorted(folder.glob("batch-*.parquet"), key=lambda path: int(path.stem.partition("-")[2]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
