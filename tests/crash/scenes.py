"""What the dying process writes, known to it and to the test alike."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from viewkeeper.store.contract import Kind, TableSpec
from viewkeeper.store.regions import region_of

GROUP = "group"
KEYS = tuple(range(1, 9))
"""They are spread over both regions of a table."""

PAIR = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("version", pa.int64())])
LEFT = TableSpec("left", PAIR, ("id",), ("id",), 2)
RIGHT = TableSpec("right", PAIR, ("id",), ("id",), 2)
TOTALS = TableSpec("totals", PAIR, ("id",), ("id",), 2, Kind.VIEW, GROUP)
INDEX = TableSpec("by_total", PAIR, ("id",), ("id",), 1, Kind.INDEX, GROUP)
VIEWS = (TOTALS, INDEX)

Rows = dict[int, int]


def rows_of_write(version: int) -> list[dict[str, int]]:
    return [{"id": key, "version": version} for key in KEYS]


def rows_of_transaction(version: int) -> list[dict[str, int]]:
    return [*rows_of_write(version), {"id": 100 + version, "version": version}]


def after_transaction(version: int) -> Rows:
    """What either table holds after that many transactions: each deletes the key that the one before had added."""
    return {row["id"]: version for row in rows_of_transaction(version)} if version else {}


def epoch_rows(spec: TableSpec, epoch: int) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Rows to put and keys to delete. Epoch 2 changes, adds and deletes in every region."""
    puts = [(key, epoch * 10) for key in (*KEYS, 20 * epoch, 20 * epoch + 1)]
    return puts, [(20,), (21,)] if epoch == 2 else []


def after_epoch(epoch: int) -> Rows:
    return {row[0]: row[1] for row in epoch_rows(TOTALS, epoch)[0]} if epoch else {}


def key_in(spec: TableSpec, region: int) -> int:
    """A key that no write of the dying process touches."""
    return next(key for key in range(1000, 2000) if region_of(spec, (key,)) == region)
