"""The power goes where less than full durability was asked for: what some files have is on the disk, and of others it is not.

SQLite keeps what was committed and not yet folded into a file beside it. A copy without that is the file as a power cut may
leave it: each file is whole, at a moment of its own.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support import store_of

import viewkeeper as vk
from viewkeeper.errors import Corrupt

SUMS = "SELECT x, SUM(y) AS s FROM t GROUP BY x"


@pytest.fixture
def db(tmp_path: Path, spark: SparkSession) -> Iterator[vk.Database]:
    """Two tables, on the disk."""
    with vk.open(tmp_path / "db.vk", spark=spark, durability="normal") as made:
        for name in ("t", "u"):
            made.create_table(name, "k INT, x STRING, y INT", primary_key="k", regions=1)
            made.table(name).put({"k": 1, "x": "a", "y": 1})
    with vk.open(tmp_path / "db.vk", spark=spark, durability="normal") as database:
        yield database


@contextmanager
def after_a_power_cut(db: vk.Database, spark: SparkSession, *lost: str) -> Iterator[vk.Database]:
    """The database again, where what was last written to some of its tables had not got to the disk."""
    files = store_of(db)._files
    folder = Path(shutil.copytree(files.folder, files.folder.with_name("after.vk")))
    for name in lost:
        for path in files.handle(name).paths:
            log = folder / path.relative_to(files.folder).with_name(f"{path.name}-wal")
            assert log.stat().st_size, "something is there to be lost"
            log.unlink()
    for shared in folder.rglob("*-shm"):
        shared.unlink()
    with vk.open(folder, spark=spark, durability="normal") as database:
        yield database


def put(db: vk.Database, key: int, *tables: str) -> None:
    with db.transaction() as tx:
        for name in tables:
            tx.table(name).put({"k": key, "x": "a", "y": key})


def test_a_transaction_may_be_split(db: vk.Database, spark: SparkSession) -> None:
    """Nothing tells of it: its decision says that it was carried out everywhere."""
    put(db, 2, "t", "u")
    with after_a_power_cut(db, spark, "u") as left:
        assert left.table("t").get(2) is not None
        assert left.table("u").get(2) is None
        assert store_of(left).cut(["t", "u"]) == {"t": (2,), "u": (1,)}


@pytest.mark.parametrize("refresh", ["on demand", "immediate"])
def test_a_view_is_not_followed_by_the_numbers_of_writes_that_are_lost(
    db: vk.Database, spark: SparkSession, refresh: str
) -> None:
    db.create_view("sums", SUMS, refresh=refresh)
    put(db, 2, "t")
    put(db, 3, "t")
    db.refresh()
    with after_a_power_cut(db, spark, "t") as left:
        assert left.view("sums").get("a") == {"x": "a", "s": 6}, "the view is ahead of its table"
        assert left.table("t").scan().num_rows == 1
        if refresh == "immediate":
            with pytest.raises(Corrupt, match="has lost writes that a view has taken in"):
                put(left, 4, "t")
        else:
            put(left, 4, "t")
            with pytest.raises(Corrupt, match="it is at position 2, and was at 3"):
                left.refresh()
        left.drop("sums")
        left.create_view("sums", SUMS, refresh=refresh)
        put(left, 5, "t")
        left.refresh()
        assert left.verify("sums").equal


def test_a_view_that_lost_an_epoch_is_found_by_verify(db: vk.Database, spark: SparkSession) -> None:
    """And by nothing else: a region without changes in an epoch stays where it is."""
    db.create_view("sums", SUMS, regions=1)
    put(db, 2, "t")
    db.refresh()
    with after_a_power_cut(db, spark, "sums") as left:
        left.refresh()
        assert not left.verify("sums").equal
        left.repair("sums")
        put(left, 3, "t")
        left.refresh()
        assert left.verify("sums").equal


def test_views_over_a_table_that_lost_writes_in_an_epoch_can_be_dropped(db: vk.Database, spark: SparkSession) -> None:
    db.create_view("sums", SUMS)
    put(db, 2, "t")
    db.refresh()
    put(db, 3, "t")
    store = store_of(db)
    store.begin("on demand", store.cut(["t"]), 1_000)
    with after_a_power_cut(db, spark, "t") as left:
        left.drop("sums")
        left.create_view("sums", SUMS)
        assert left.verify("sums").equal
