"""The same work by hand: one SQLite table through the ADBC driver, without regions, without a log.

It has what we have: WAL, synchronous=FULL, as much page cache as our four regions together, large Arrow batches where
much is read. Its rows come in key order, which suits it best.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import adbc_driver_sqlite.dbapi as adbc
import pyarrow as pa

from viewkeeper.bench.data import SCHEMA

UPSERT = "INSERT OR REPLACE INTO t VALUES (?, ?, ?, ?, ?)"
SELECT = "SELECT id, customer, quantity, price, amount FROM t"
LARGE_BATCHES = {"adbc.sqlite.query.batch_rows": "65536"}


class Raw:
    """One table in one file. `renew` begins with a new file, so that an empty table has no pages to use again."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._files = 0
        self.renew()

    def renew(self) -> None:
        if self._files:
            self.close()
        self._files += 1
        self.connection = adbc.connect(str(self._folder / f"raw-{self._files}.db"), autocommit=True)
        self.cursor = self.connection.cursor()
        for setting in ("journal_mode=WAL", "synchronous=FULL", "cache_size=-64000", "temp_store=MEMORY"):
            self.cursor.execute(f"PRAGMA {setting}").fetchall()
        self._execute(
            "CREATE TABLE t (id INTEGER NOT NULL PRIMARY KEY, customer TEXT, quantity INTEGER, price REAL, amount INTEGER)"
            " WITHOUT ROWID"
        )
        self._execute("CREATE TEMP TABLE probe (n INTEGER, id INTEGER)")

    def close(self) -> None:
        self.cursor.close()
        self.connection.close()

    def upsert(self, plain: pa.Table) -> None:
        self._execute("BEGIN IMMEDIATE")
        self.cursor.executemany(UPSERT, plain)
        self._execute("COMMIT")

    def upsert_one(self, row: tuple[Any, ...]) -> None:
        self.cursor.execute(UPSERT, row)

    def scan(self) -> pa.Table:
        return self._read(f"{SELECT} ORDER BY id")

    def get_arrow(self, key: int) -> pa.Table:
        return self.cursor.execute(f"{SELECT} WHERE id = ?", (key,)).fetch_arrow_table()

    def get_tuple(self, key: int) -> tuple[Any, ...] | None:
        return self.cursor.execute(f"{SELECT} WHERE id = ?", (key,)).fetchone()

    def probe(self, keys: pa.Table) -> pa.Table:
        """The rows under each key, with its number."""
        self._execute("BEGIN")
        self.cursor.executemany("INSERT INTO probe VALUES (?, ?)", keys)
        columns = ", ".join(f"t.{name}" for name in SCHEMA.names)
        found = self._read(f"SELECT probe.n, {columns} FROM probe CROSS JOIN t ON t.id = probe.id")
        self._execute("DELETE FROM probe")
        self._execute("COMMIT")
        return found

    def _execute(self, statement: str) -> None:
        self.cursor.execute(statement)

    def _read(self, query: str) -> pa.Table:
        with self.connection.cursor(adbc_stmt_kwargs=LARGE_BATCHES) as cursor:
            return cursor.execute(query).fetch_arrow_table()
