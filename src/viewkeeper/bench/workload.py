"""Two tables that are joined, four views over them, and the changes that views have to follow.

R grows unless told otherwise: of its changes 60 % are new rows, 15 % move to another x, 15 % get another y, 10 % are
deleted. Each key changes at most once in a batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

import viewkeeper as vk

TABLES = (
    "CREATE TABLE r (k BIGINT PRIMARY KEY, x STRING, y BIGINT)",
    "CREATE TABLE s (x STRING PRIMARY KEY, z BIGINT)",
)
CHUNK = 1_000_000
VALUES = 1_000_000
"""Values of y and z lie below."""

Keys = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Query:
    """A view, and the column that tells its rows apart. Views of one schedule form a group; each of these has one of its own."""

    name: str
    sql: str
    refresh: str
    key: str
    title: str


QUERIES = (
    Query("v1", "SELECT x, SUM(y) AS s, COUNT(*) AS n FROM r GROUP BY x", "every 101 seconds", "x", "sum"),
    Query("v2", "SELECT x, MIN(y) AS lo, MAX(y) AS hi FROM r GROUP BY x", "every 102 seconds", "x", "min, max"),
    Query("v3", "SELECT r.k, r.x, r.y, s.z FROM r JOIN s ON r.x = s.x", "every 103 seconds", "k", "join"),
    Query(
        "v4",
        "SELECT s.z % 1000 AS g, SUM(r.y) AS t FROM r JOIN s ON r.x = s.x GROUP BY s.z % 1000",
        "every 104 seconds",
        "g",
        "join, sum",
    ),
)

ALL_FOUR = Query(
    "v12",
    "SELECT x, SUM(y) AS s, COUNT(*) AS n, MIN(y) AS lo, MAX(y) AS hi FROM r GROUP BY x",
    "every 105 seconds",
    "x",
    "sum, count, min, max",
)
"""The view of the thesis on Spark, which holds all of its functions at once."""


@dataclass(frozen=True)
class Mix:
    """Changes in percent by kind: new rows, rows that move to another x, rows that get another y; the rest are deleted."""

    new: int = 0
    moved: int = 0
    updated: int = 0


GROWING = Mix(60, 15, 15)


class Tables:
    """The tables in one database, and which keys are there."""

    def __init__(self, folder: Path, rows: int, partners: int, seed: int) -> None:
        self.folder = folder
        self._rng = np.random.default_rng(seed)
        self._names = pa.array([f"x{number}" for number in range(partners)])
        self.open()
        for statement in TABLES:
            self.db.execute(statement)
        self.db.table("s").put(pa.table({"x": self._names, "z": self._values(partners)}))
        for first in range(0, rows, CHUNK):
            self.db.table("r").put(self._rows(np.arange(first, min(rows, first + CHUNK))))
        self._keys: Keys = np.arange(rows)
        self._next = rows

    def open(self) -> None:
        self.db = vk.open(self.folder)

    def close(self) -> None:
        self.db.close()

    @property
    def size(self) -> int:
        return len(self._keys)

    def export(self, folder: Path) -> None:
        """Both tables as they are now: `r.parquet` and `s.parquet`."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("r", "s"):
            pq.write_table(self.db.table(name).scan(), folder / f"{name}.parquet", row_group_size=CHUNK)

    def change(self, count: int, mix: Mix = GROWING) -> pa.Table:
        """So many changes, in up to three transactions; what they were, a row each."""
        new, moved, updated = (count * share // 100 for share in (mix.new, mix.moved, mix.updated))
        deleted = count - new - moved - updated
        places = self._rng.choice(len(self._keys), moved + updated + deleted, replace=False)
        old = self._keys[places]
        put = self._rows(np.concatenate([np.arange(self._next, self._next + new), old[:moved]]))
        other = pa.table({"k": old[moved : moved + updated], "y": self._values(updated)})
        gone = pa.table({"k": old[moved + updated :]})
        table = self.db.table("r")
        for write, rows in ((table.put, put), (table.update, other), (table.delete, gone)):
            if rows.num_rows:
                write(rows)
        self._keys = np.append(
            np.delete(self._keys, places[moved + updated :]), np.arange(self._next, self._next + new)
        )
        self._next += new
        named = self._rows(np.concatenate([other["k"].to_numpy(), gone["k"].to_numpy()]))
        return pa.concat_tables([put, named])

    def _rows(self, keys: Keys) -> pa.Table:
        names = self._names.take(pa.array(self._rng.integers(0, len(self._names), len(keys))))
        return pa.table({"k": keys, "x": names, "y": self._values(len(keys))})

    def _values(self, count: int) -> Keys:
        return self._rng.integers(0, VALUES, count)
