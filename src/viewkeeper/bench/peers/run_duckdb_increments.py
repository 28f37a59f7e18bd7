"""DuckDB with the delta rules of the four views written by hand. Only following is timed, and not writing the base rows."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

TABLES = {
    "v1": "x VARCHAR PRIMARY KEY, s BIGINT, n BIGINT",
    "v2": "x VARCHAR PRIMARY KEY, lo BIGINT, hi BIGINT",
    "v3": "k BIGINT PRIMARY KEY, x VARCHAR, y BIGINT, z BIGINT",
    "v4": "g BIGINT PRIMARY KEY, t BIGINT, n BIGINT",
}
FILLS = {
    "v1": "SELECT x, SUM(y), COUNT(*) FROM r GROUP BY x",
    "v2": "SELECT x, MIN(y), MAX(y) FROM r GROUP BY x",
    "v3": "SELECT r.k, r.x, r.y, s.z FROM r JOIN s ON r.x = s.x",
    "v4": "SELECT s.z % 1000, SUM(r.y), COUNT(*) FROM r JOIN s ON r.x = s.x GROUP BY s.z % 1000",
}
RULES = {
    "v1": (
        "INSERT INTO v SELECT x, SUM(w * y), SUM(w) FROM delta GROUP BY x "
        "ON CONFLICT (x) DO UPDATE SET s = s + excluded.s, n = n + excluded.n",
        "DELETE FROM v WHERE n = 0",
    ),
    "v2": (
        "DELETE FROM v WHERE x IN (SELECT x FROM delta) AND x NOT IN (SELECT x FROM r)",
        "INSERT INTO v SELECT x, MIN(y), MAX(y) FROM r WHERE x IN (SELECT x FROM delta) GROUP BY x "
        "ON CONFLICT (x) DO UPDATE SET lo = excluded.lo, hi = excluded.hi",
    ),
    "v3": (
        "DELETE FROM v WHERE k IN (SELECT k FROM delta WHERE w < 0 EXCEPT SELECT k FROM delta WHERE w > 0)",
        "INSERT INTO v SELECT d.k, d.x, d.y, s.z FROM delta d JOIN s ON d.x = s.x WHERE d.w > 0 "
        "ON CONFLICT (k) DO UPDATE SET x = excluded.x, y = excluded.y, z = excluded.z",
    ),
    "v4": (
        "INSERT INTO v SELECT s.z % 1000, SUM(d.w * d.y), SUM(d.w) FROM delta d JOIN s ON d.x = s.x GROUP BY s.z % 1000 "
        "ON CONFLICT (g) DO UPDATE SET t = t + excluded.t, n = n + excluded.n",
        "DELETE FROM v WHERE n = 0",
    ),
}
SHOWN = {"v1": "x, s, n", "v2": "x, lo, hi", "v3": "k, x, y, z", "v4": "g, t"}


def main(folder: Path, view: str) -> None:
    import duckdb

    base = duckdb.connect(str(folder / f"duckdb-increments-{view}.db"))
    for name in ("r", "s"):
        base.execute(f"CREATE TABLE {name} AS SELECT * FROM '{folder}/{name}.parquet'")
    base.execute(f"CREATE TABLE v ({TABLES[view]})")
    base.execute(f"INSERT INTO v {FILLS[view]}")
    times = []
    for batch in batches(folder):
        base.execute(f"CREATE OR REPLACE TEMP TABLE delta AS SELECT * FROM '{batch}'")
        base.execute("DELETE FROM r WHERE k IN (SELECT k FROM delta WHERE w < 0)")
        base.execute("INSERT INTO r SELECT k, x, y FROM delta WHERE w > 0")
        started = time.perf_counter()
        base.execute("BEGIN")
        for rule in RULES[view]:
            base.execute(rule)
        base.execute("COMMIT")
        times.append(time.perf_counter() - started)
    base.execute(f"COPY (SELECT {SHOWN[view]} FROM v) TO '{folder}/duckdb_increments-{view}.parquet' (FORMAT parquet)")
    print(json.dumps({"seconds": times}))


def batches(folder: Path) -> list[Path]:
    return sorted(folder.glob("batch-*.parquet"), key=lambda path: int(path.stem.partition("-")[2]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
