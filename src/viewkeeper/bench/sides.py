"""Who does the work: us through the public face, us as an epoch does it, and the raw driver.

Each side holds a table with one of the two editions of the rows, and says whether it really does.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

import viewkeeper as vk
from viewkeeper import names
from viewkeeper.bench.data import DDL, SCHEMA, Editions
from viewkeeper.bench.raw import Raw
from viewkeeper.store.contract import Kind, TableSpec
from viewkeeper.store.embedded import EmbeddedStore
from viewkeeper.store.regions import regions_of

REGIONS = 4


class Side(Protocol):
    """What a comparison of bulk writes needs."""

    def begin_empty(self) -> None:
        """An empty table in new files; the next write brings the same edition."""

    def turn(self) -> None:
        """The next write brings the other edition, which changes every row."""

    def write(self, number: int) -> None:
        """Write the edition."""

    def check(self, answers: Sequence[Any]) -> str | None:
        """What is wrong with the table."""


class Putting:
    """Our side as users have it. `store` is the one under `db`."""

    def __init__(self, folder: Path, made: Editions) -> None:
        self.store = EmbeddedStore.open(folder / "put.vk")
        self.db = vk.Database(self.store)
        self.editions = made.rows
        self.edition = 0

    @property
    def held(self) -> pa.Table:
        return self.editions[self.edition]

    def begin_empty(self) -> None:
        self.db.execute("DROP TABLE IF EXISTS t")
        self.db.execute(f"CREATE TABLE t ({DDL})")
        self.table = self.db.table("t")

    def turn(self) -> None:
        self.edition = 1 - self.edition

    def write(self, number: int) -> None:
        self.table.put(self.held)

    def check(self, answers: Sequence[Any]) -> str | None:
        return difference(self.table.scan(), self.held)

    def close(self) -> None:
        self.db.close()


class Applying:
    """Our side as an epoch has it: each region's changes at hand, as many regions at a time as there are cores."""

    spec = TableSpec("v", SCHEMA, ("id",), ("id",), REGIONS, Kind.VIEW, "g")

    def __init__(self, folder: Path, made: Editions) -> None:
        self._store = EmbeddedStore.open(folder / "apply.vk")
        self._store.create_group("g")
        self._store.create(self.spec)
        self._editions = made.rows
        self._shares = [self._split(rows) for rows in made.rows]
        self._edition = 0

    def _split(self, rows: pa.Table) -> list[pa.Table]:
        changes = rows.append_column(names.HAS, pa.repeat(pa.scalar(True), rows.num_rows))
        regions = regions_of(self.spec, rows)
        return [changes.filter(pa.array(regions == region)).combine_chunks() for region in range(REGIONS)]

    def begin_empty(self) -> None:
        self._store.drop("v")
        self._store.create(self.spec)

    def turn(self) -> None:
        self._edition = 1 - self._edition

    def write(self, number: int) -> None:
        epoch = self._store.begin("g", {}, term=1).epoch
        shares = self._shares[self._edition]
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            list(pool.map(lambda region: self._store.apply("v", region, shares[region], epoch, 1), range(REGIONS)))
        self._store.commit("g", epoch, term=1)

    def check(self, answers: Sequence[Any]) -> str | None:
        return difference(self._store.scan("v"), self._editions[self._edition])

    def close(self) -> None:
        self._store.close()


class Upserting:
    """The raw side."""

    def __init__(self, folder: Path, made: Editions) -> None:
        self.raw = Raw(folder)
        self.editions = made.plain
        self.edition = 0

    @property
    def held(self) -> pa.Table:
        return self.editions[self.edition]

    def begin_empty(self) -> None:
        self.raw.renew()

    def turn(self) -> None:
        self.edition = 1 - self.edition

    def write(self, number: int) -> None:
        self.raw.upsert(self.held)

    def check(self, answers: Sequence[Any]) -> str | None:
        return difference(self.raw.scan(), self.held)

    def close(self) -> None:
        self.raw.close()


def difference(found: pa.Table, expected: pa.Table) -> str | None:
    """What is wrong with the rows that were found, column by column; how the columns are called is no matter.

    >>> difference(pa.table({"a": [1, 2]}), pa.table({"a": [1, 3]}))
    'column "a" differs'
    """
    if found.num_rows != expected.num_rows:
        return f"{found.num_rows} rows instead of {expected.num_rows}"
    for name, one, two in zip(expected.column_names, found.columns, expected.columns, strict=True):
        if not one.equals(two):
            return f'column "{name}" differs'
    return None
