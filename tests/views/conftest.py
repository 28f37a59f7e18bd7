"""One Spark session for the whole run, and a fresh database for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from small import row
from takeovers import Pair

import viewkeeper as vk
from viewkeeper.engine.spark import Spark


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    """The session that every view test shares: the one that the package would start. It ends with the process."""
    return Spark().session(large=False)


@pytest.fixture
def db(tmp_path: Path, spark: SparkSession) -> Iterator[vk.Database]:
    """A fresh database over the shared session."""
    with vk.open(tmp_path / "db.vk", spark=spark, durability="off") as database:
        yield database


@pytest.fixture
def tables(db: vk.Database) -> vk.Database:
    """t has three rows, u two."""
    db.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, k STRING, v BIGINT)")
    db.execute("CREATE TABLE u (k STRING PRIMARY KEY, w BIGINT)")
    db.table("t").put([row(1, "a", 10), row(2, "a", 20), row(3, "b", 5)])
    db.table("u").put([{"k": "a", "w": 1}, {"k": "b", "w": 2}])
    return db


@pytest.fixture
def two(tmp_path: Path, spark: SparkSession) -> Iterator[Pair]:
    """One folder as two processes have it open."""
    with (
        vk.open(tmp_path / "db.vk", spark=spark, durability="off", timeout=3.0) as one,
        vk.open(tmp_path / "db.vk", spark=spark, durability="off", timeout=3.0) as other,
    ):
        one.execute("CREATE TABLE t (k INT PRIMARY KEY, x STRING, y INT)")
        one.execute("CREATE TABLE u (x STRING PRIMARY KEY, z INT)")
        one.table("t").put([{"k": 1, "x": "a", "y": 1}, {"k": 2, "x": "b", "y": 2}])
        one.table("u").put({"x": "a", "z": 1})
        yield one, other
