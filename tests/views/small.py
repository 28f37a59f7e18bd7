"""Two small tables, and what tests of views ask of them."""

from __future__ import annotations

from typing import Any

import viewkeeper as vk

BY_K = "SELECT k, SUM(v) AS s, COUNT(*) AS n FROM t GROUP BY k"


def row(key: int, k: str | None, v: int | None) -> dict[str, Any]:
    return {"id": key, "k": k, "v": v}


def rows(view: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(found.values()) for found in view.scan().to_pylist()), key=repr)


def equal(db: vk.Database) -> bool:
    """Every view equals its oracle."""
    return all(db.verify(view.name).equal for view in db.views())
