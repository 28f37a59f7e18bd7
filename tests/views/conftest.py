"""One Spark session for the whole run, and a fresh database for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

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
