"""The database in which the epoch tests kill processes. No view of it has anything that Spark must evaluate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

import viewkeeper as vk
from viewkeeper.engine.spark import Spark
from viewkeeper.maintain.definitions import RecordedTypes

VIEWS = {
    "by_k": "SELECT k, SUM(v) AS s, COUNT(*) AS n FROM t GROUP BY k",
    "joined": "SELECT t.id, u.w FROM t JOIN u ON t.k = u.k",
    "bag": "SELECT k FROM t",
    "least": "SELECT k, MIN(v) AS lo, COUNT(DISTINCT v) AS d FROM t GROUP BY k",
    "above": "SELECT n, COUNT(*) AS groups FROM by_k GROUP BY n",
}

LATE = "SELECT t.k, MIN(u.w) AS lo FROM t JOIN u ON t.v = u.w GROUP BY t.k"
"""The view that is made when a process dies: two indexes that nobody has yet, a value index, and its own table."""

State = dict[str, list[tuple[Any, ...]]]


class Recorded(Spark):
    """Knows the types that will be asked for, and so starts no Spark."""

    def __init__(self, types: dict[str, str]) -> None:
        super().__init__()
        self._types = RecordedTypes(types)

    def schema(self, sql: str, tables: Mapping[str, pa.Schema]) -> pa.Schema:
        return self._types(sql, tables)


def fill(db: vk.Database) -> None:
    db.create_table("t", "id BIGINT, k STRING, v BIGINT", primary_key="id", regions=2)
    db.create_table("u", "k STRING, w BIGINT", primary_key="k", regions=2)
    db.table("t").put([row(key, "abcde"[key % 5], key % 7) for key in range(40)])
    db.table("u").put([{"k": k, "w": w} for w, k in enumerate("abc")])
    for name, query in VIEWS.items():
        db.create_view(name, query, regions=2)


def change(db: vk.Database) -> None:
    """Rows come, go, change their value and their key, in both tables."""
    with db.transaction() as tx:
        tx.table("t").put([row(key, "cdefg"[key % 5], key % 6) for key in range(10, 50)])
        tx.table("t").delete([1, 2, 6])
        tx.table("u").put([{"k": "a", "w": 5}, {"k": "d", "w": 4}])
        tx.table("u").delete("b")


def change_again(db: vk.Database) -> None:
    """What the hidden tables say matters here: groups and values that came with the first change go."""
    db.table("t").delete([*range(0, 60, 3), 5])
    db.table("u").put([{"k": "c", "w": 1}, {"k": "f", "w": 2}])


def row(key: int, k: str, v: int) -> dict[str, Any]:
    return {"id": key, "k": k, "v": v}


def seen(db: vk.Database) -> State:
    """The rows of every view, as a reader of one snapshot sees them."""
    with db.snapshot() as at:
        return {view.name: _rows(at.view(view.name)) for view in db.views()}


def _rows(view: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(found.values()) for found in view.scan().to_pylist()), key=repr)
