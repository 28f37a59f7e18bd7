"""One table R(k, x, y) and streams of operations on it, with as many groups, and as uneven, as an experiment wants.

A row's group is its x, its value is y. A put holds each key once, so a stream that comes back to a row does it in a later
put.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import viewkeeper as vk
from viewkeeper.bench.workload import TABLES, VALUES

Numbers = npt.NDArray[np.int64]
Weights = npt.NDArray[np.float64]

SUM = "SELECT x, SUM(y) AS s FROM r GROUP BY x"


@dataclass(frozen=True)
class Spread:
    """How numbers below `count` are drawn. `skew` 0 is even; with 1, Zipf's law, the first is drawn most of all.

    `hottest` is a share of the draws that the first one has before the others are considered.
    """

    count: int
    skew: float = 0.0
    hottest: float = 0.0

    def draw(self, rng: np.random.Generator, many: int) -> Numbers:
        """So many, with repetitions."""
        drawn = self._draw(rng, many)
        return np.where(rng.random(many) < self.hottest, 0, drawn) if self.hottest else drawn

    def _draw(self, rng: np.random.Generator, many: int) -> Numbers:
        if not self.skew:
            return rng.integers(0, self.count, many)
        reached = np.cumsum(self.weights())
        return np.searchsorted(reached, rng.random(many) * reached[-1]).astype(np.int64)

    def draw_different(self, rng: np.random.Generator, many: int) -> Numbers:
        """So many different ones, each the likelier to be among them the greater its weight, in order.

        Those whose weight and chance together are greatest: the same as drawing one after the other without putting back.
        """
        chances = np.log(self.weights()) + rng.gumbel(size=self.count)
        return np.sort(np.argpartition(chances, -many)[-many:])

    def weights(self) -> Weights:
        return np.arange(1, self.count + 1, dtype=np.float64) ** -self.skew


class Stream:
    """A database with R, and what was written to it."""

    def __init__(self, folder: Path, groups: Spread, seed: int, *, durability: str = "full") -> None:
        self.db = vk.open(folder, durability=durability)
        self.db.execute(TABLES[0])
        self.table = self.db.table("r")
        self.size = 0
        self._groups = groups
        self._rng = np.random.default_rng(seed)
        self._names = pa.array([f"x{number}" for number in range(groups.count)])

    def view(self, name: str, sql: str = SUM, *, regions: int = 4, cluster_by: str = "") -> None:
        """Each in a group of its own, told apart by its schedule: nothing runs by the clock here."""
        schedule = f"every {1_000 + len(self.db.views())} seconds"
        self.db.create_view(name, sql, refresh=schedule, regions=regions, cluster_by=cluster_by or ())

    def insert(self, count: int) -> None:
        self.table.put(self.rows(np.arange(self.size, self.size + count)))
        self.size += count

    def update(self, keys: Numbers) -> None:
        """Other values, and mostly other groups."""
        self.table.put(self.rows(keys))

    def rows(self, keys: Numbers) -> pa.Table:
        groups = self._names.take(pa.array(self._groups.draw(self._rng, len(keys))))
        return pa.table({"k": keys, "x": groups, "y": self._rng.integers(0, VALUES, len(keys))})

    def close(self) -> None:
        self.db.close()
