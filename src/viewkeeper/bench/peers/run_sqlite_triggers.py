"""SQLite keeps the view by triggers, within the transaction that writes the base rows: the two cannot be timed apart.

Through ADBC, in a process and a file of its own, in WAL mode and durable.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

TABLES = {
    "v1": "x TEXT PRIMARY KEY, s INTEGER, n INTEGER",
    "v2": "x TEXT PRIMARY KEY, lo INTEGER, hi INTEGER",
    "v3": "k INTEGER PRIMARY KEY, x TEXT, y INTEGER, z INTEGER",
    "v4": "g INTEGER PRIMARY KEY, t INTEGER, n INTEGER",
}
CAME = {
    "v1": "INSERT INTO v VALUES (new.x, new.y, 1) ON CONFLICT (x) DO UPDATE SET s = s + excluded.s, n = n + 1;",
    "v2": "INSERT INTO v VALUES (new.x, new.y, new.y) ON CONFLICT (x) DO UPDATE "
    "SET lo = MIN(lo, excluded.lo), hi = MAX(hi, excluded.hi);",
    "v3": "INSERT INTO v SELECT new.k, new.x, new.y, z FROM s WHERE s.x = new.x;",
    "v4": "INSERT INTO v SELECT z % 1000, new.y, 1 FROM s WHERE s.x = new.x "
    "ON CONFLICT (g) DO UPDATE SET t = t + excluded.t, n = n + 1;",
}
LEFT = {
    "v1": "UPDATE v SET s = s - old.y, n = n - 1 WHERE x = old.x; DELETE FROM v WHERE x = old.x AND n = 0;",
    "v2": "UPDATE v SET lo = (SELECT MIN(y) FROM r WHERE x = old.x), hi = (SELECT MAX(y) FROM r WHERE x = old.x) "
    "WHERE x = old.x; DELETE FROM v WHERE x = old.x AND lo IS NULL;",
    "v3": "DELETE FROM v WHERE k = old.k;",
    "v4": "UPDATE v SET t = t - old.y, n = n - 1 WHERE g = (SELECT z % 1000 FROM s WHERE s.x = old.x); "
    "DELETE FROM v WHERE g = (SELECT z % 1000 FROM s WHERE s.x = old.x) AND n = 0;",
}
SHOWN = {"v1": "x, s, n", "v2": "x, lo, hi", "v3": "k, x, y, z", "v4": "g, t"}
UPSERT = "INSERT INTO r VALUES (?, ?, ?) ON CONFLICT (k) DO UPDATE SET x = excluded.x, y = excluded.y"


def main(folder: Path, view: str) -> None:
    import adbc_driver_sqlite.dbapi as adbc
    import pyarrow.parquet as pq

    with adbc.connect(str(folder / f"sqlite-{view}.db"), autocommit=True) as connection, connection.cursor() as cursor:
        prepare(cursor, view)
        cursor.execute("BEGIN")
        cursor.executemany("INSERT INTO s VALUES (?, ?)", pq.read_table(folder / "s.parquet").select(["x", "z"]))
        cursor.executemany(UPSERT, pq.read_table(folder / "r.parquet").select(["k", "x", "y"]))
        cursor.execute("COMMIT")
        times = [follow(cursor, pq.read_table(batch)) for batch in batches(folder)]
        rows = cursor.execute(f"SELECT {SHOWN[view]} FROM v").fetch_arrow_table()
        pq.write_table(rows, folder / f"sqlite_triggers-{view}.parquet")
    print(json.dumps({"seconds": times}))


def prepare(cursor: Any, view: str) -> None:
    for setting in ("journal_mode=WAL", "synchronous=FULL", "cache_size=-64000"):
        cursor.execute(f"PRAGMA {setting}").fetchall()
    cursor.execute("CREATE TABLE r (k INTEGER PRIMARY KEY, x TEXT, y INTEGER)")
    cursor.execute("CREATE TABLE s (x TEXT PRIMARY KEY, z INTEGER) WITHOUT ROWID")
    cursor.execute(f"CREATE TABLE v ({TABLES[view]})")
    if view == "v2":
        cursor.execute("CREATE INDEX by_x ON r (x, y)")
    for event, body in (("INSERT", CAME[view]), ("DELETE", LEFT[view]), ("UPDATE", LEFT[view] + " " + CAME[view])):
        cursor.execute(f"CREATE TRIGGER on_{event.lower()} AFTER {event} ON r BEGIN {body} END")


def follow(cursor: Any, batch: Any) -> float:
    import pyarrow.compute as pc

    came = batch.filter(pc.greater(batch["w"], 0))
    left = batch.filter(pc.less(batch["w"], 0))
    gone = left.filter(pc.invert(pc.is_in(left["k"], value_set=came["k"].combine_chunks())))
    started = time.perf_counter()
    cursor.execute("BEGIN IMMEDIATE")
    cursor.executemany("DELETE FROM r WHERE k = ?", gone.select(["k"]))
    cursor.executemany(UPSERT, came.select(["k", "x", "y"]))
    cursor.execute("COMMIT")
    return time.perf_counter() - started


def batches(folder: Path) -> list[Path]:
    return sorted(folder.glob("batch-*.parquet"), key=lambda path: int(path.stem.partition("-")[2]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
