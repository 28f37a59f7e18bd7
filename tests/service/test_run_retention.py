"""A run trims the logs as they grow old, and nothing that a group has yet to read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from running import running
from support import store_of

import viewkeeper as vk
from viewkeeper.engine.removal import Removal
from viewkeeper.engine.spark import Spark
from viewkeeper.service import retention
from viewkeeper.service.retention import Retention

EVERY = "every 0.1 seconds"


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[vk.Database]:
    monkeypatch.setattr(retention, "EVERY", 0.0)
    with vk.open(tmp_path / "db.vk", spark=Spark().session(large=False), durability="off") as database:
        database.create_table("t", "id BIGINT, v BIGINT", primary_key="id", regions=1)
        database.create_view("followed", "SELECT v, COUNT(*) AS n FROM t GROUP BY v", refresh=EVERY, regions=1)
        yield database


def put(db: vk.Database, key: int) -> None:
    db.table("t").put({"id": key, "v": key % 2})


def test_what_is_old_goes(db: vk.Database) -> None:
    with running(db, keep_seconds=0) as run:
        put(db, 1)
        run.next_epoch(EVERY)
        assert run.told.next("trimmed")["changes"] >= 1
    with pytest.raises(vk.SnapshotTooOld, match="t"):
        list(store_of(db).log("t", 0, 0, 1))
    assert db.verify("followed").equal


@pytest.mark.parametrize("keep", [None, 3600, float("inf")])
def test_what_is_to_be_kept_stays(db: vk.Database, keep: float | None) -> None:
    with running(db, keep_seconds=keep) as run:
        put(db, 1)
        run.next_epoch(EVERY)
    Retention(db._maintainer, keep).trim()
    assert sum(batch.num_rows for batch in store_of(db).log("t", 0, 0, 1)) == 1


def test_what_a_group_has_not_read_stays(db: vk.Database) -> None:
    db.create_view("asked", "SELECT id FROM t")
    with running(db, keep_seconds=0) as run:
        for key in range(3):
            put(db, key)
            run.next_epoch(EVERY)
    assert sum(batch.num_rows for batch in store_of(db).log("t", 0, 0, 3)) == 3
    db.refresh("asked")
    assert db.verify("asked").equal


def test_what_a_view_held_whose_drop_died_goes(db: vk.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    db.create_view("asked", "SELECT id FROM t")
    monkeypatch.setattr(Removal, "_let_go", _interrupted)
    with pytest.raises(KeyboardInterrupt):
        db.drop("asked")
    monkeypatch.undo()
    put(db, 1)
    db.refresh()
    Retention(db._maintainer, 0).trim()
    with pytest.raises(vk.SnapshotTooOld, match="t"):
        list(store_of(db).log("t", 0, 0, 1))


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("keep", [-1, float("nan"), True, "1"])
def test_a_time_that_is_none_is_refused(db: vk.Database, keep: Any) -> None:
    with pytest.raises(vk.ViewkeeperError, match="logs cannot be kept for"):
        db.run(0, keep_seconds=keep)
