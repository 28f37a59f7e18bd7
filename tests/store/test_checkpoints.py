"""Journals that are brought into their files beside those who write (see `checkpoints`)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from support import TIMEOUT, check_consistent, store_of

import viewkeeper as vk
from viewkeeper.errors import DiskFull
from viewkeeper.store.embedded import checkpoints
from viewkeeper.store.embedded.checkpoints import AFTER, Checkpoints
from viewkeeper.store.embedded.connection import PAGE_BYTES, Connection, Pool


def written(pool: Pool, path: Path, pages: int) -> None:
    """A file with so many pages, each committed to the journal."""
    with pool.use(path, create=True) as one:
        one.keep_a_journal()
        with one.writing():
            one.execute("CREATE TABLE t (a)")
            rows = pa.record_batch([pa.array([bytes(PAGE_BYTES)] * pages)], names=["a"])
            one.execute("INSERT INTO t VALUES (?)", rows)


def comes_true(condition: Callable[[], bool]) -> bool:
    until = time.monotonic() + TIMEOUT
    while not condition() and time.monotonic() < until:
        time.sleep(0.01)
    return condition()


def test_a_journal_is_brought_into_its_file_and_not_by_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = 2 * AFTER * PAGE_BYTES
    with closing_pool(tmp_path) as pool:
        written(pool, tmp_path / "one.db", 2 * AFTER)
        assert comes_true(lambda: (tmp_path / "one.db").stat().st_size >= whole)
        monkeypatch.setattr(Checkpoints, "written", lambda self, path, pages: None)
        written(pool, tmp_path / "other.db", 2 * AFTER)
        time.sleep(0.2)
        assert (tmp_path / "other.db").stat().st_size < whole


def closing_pool(folder: Path) -> closing[Pool]:
    return closing(Pool(folder, synchronous="OFF", timeout=TIMEOUT))


def test_reading_asks_for_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Path, int]] = []
    db = vk.open(tmp_path / "shop.vk")
    table = db.create_table("t", "id BIGINT, n BIGINT", primary_key="id", regions=1)
    table.put(pa.table({"id": range(3_000), "n": range(3_000)}))
    monkeypatch.setattr(Checkpoints, "written", lambda self, path, pages: asked.append((path, pages)))
    assert table.get(7) == {"id": 7, "n": 7}
    assert store_of(db).probe("t", pa.table({"id": range(3_000)})).num_rows == 3_000
    assert asked == []
    table.put({"id": 1, "n": 2})
    assert [path.name for path, _ in asked] == ["region-0.db"]
    db.close()


def test_a_folder_is_left_when_the_checkpoint_in_it_has_ended(tmp_path: Path) -> None:
    """Whoever removes the files of a table relies on it, and so does whoever forks."""
    begun, go_on = threading.Event(), threading.Event()

    class Slow(Connection):
        def close(self) -> None:
            begun.set()
            assert go_on.wait(TIMEOUT)
            super().close()

    def connect(path: Path) -> Connection:
        return Slow(path, synchronous="OFF", timeout=TIMEOUT, create=True)

    folder, other = tmp_path / "1", tmp_path / "2"
    folder.mkdir()
    found = Checkpoints(connect)
    for number in range(2):
        found.written(folder / f"region-{number}.db", AFTER)
    assert begun.wait(TIMEOUT)
    found.leave(other)
    with ThreadPoolExecutor(1) as threads:
        leaving = threads.submit(found.leave, folder)
        time.sleep(0.1)
        assert not leaving.done()
        go_on.set()
        leaving.result(TIMEOUT)
    assert sorted(path.name for path in folder.iterdir()) == ["region-0.db"], "the second was never begun"


def test_a_database_that_is_collected_by_the_thread_itself_is_closed(tmp_path: Path) -> None:
    """Whoever let go of one without closing it has it collected wherever the garbage collector runs: here too."""
    ended = threading.Event()

    def connect(path: Path) -> Connection:
        found.end()
        ended.set()
        return Connection(path, synchronous="OFF", timeout=TIMEOUT, create=True)

    found = Checkpoints(connect)
    found.written(tmp_path / "one.db", AFTER)
    assert ended.wait(TIMEOUT)
    checkpoints.leave_all()
    found.written(tmp_path / "one.db", AFTER)
    assert not found._waiting, "it has ended"


def test_a_database_can_be_closed_again_after_an_interrupt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    db = vk.open(tmp_path / "shop.vk")
    pool = store_of(db)._files.pool
    with monkeypatch.context() as patched:
        patched.setattr(Checkpoints, "leave", lambda self, under=None: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            db.close()
    assert pool._idle
    db.close()
    assert not pool._idle


def test_the_size_of_a_table_is_without_its_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It decides how a table is read: one that is written to all the time is no larger for that."""
    monkeypatch.setattr(Checkpoints, "written", lambda self, path, pages: None)
    with vk.open(tmp_path / "shop.vk", durability="off") as db:
        table = db.create_table("t", "id BIGINT, n BIGINT", primary_key="id", regions=1)
        for number in range(100):
            table.put(pa.table({"id": range(1_000), "n": [number] * 1_000}))
            db.trim(keep_seconds=0)
        journal = next(tmp_path.rglob("region-0.db-wal")).stat().st_size
        assert 4 * PAGE_BYTES < store_of(db).size("t") < journal


def test_one_that_fails_does_not_keep_others_from_theirs(tmp_path: Path) -> None:
    tried: list[str] = []

    def connect(path: Path) -> Connection:
        tried.append(path.name)
        raise DiskFull("no room left on the disk", hint="make room")

    found = Checkpoints(connect)
    for name in ("one.db", "other.db", "one.db"):
        found.written(tmp_path / name, AFTER)
        assert comes_true(lambda: not found._at_work)
    assert tried == ["one.db", "other.db", "one.db"]


def test_a_write_succeeds_where_there_is_no_thread_to_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that is ending."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    path = tmp_path / "one.db"
    with closing_pool(tmp_path) as pool:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            written(pool, path, 2 * AFTER)
        with pool.use(path) as one, one.writing():
            one.execute("INSERT INTO t VALUES (?)", pa.record_batch([pa.array([b""] * AFTER)], names=["a"]))
        assert comes_true(lambda: path.stat().st_size >= 2 * AFTER * PAGE_BYTES), "and it is made up for later"


def test_tables_come_and_go_beside_checkpoints_that_never_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "AFTER", 1)
    folder = tmp_path / "shop.vk"
    db = vk.open(folder)

    def use(name: str) -> None:
        for number in range(15):
            table = db.create_table(name, "id BIGINT, n BIGINT", primary_key="id", regions=2)
            for first in range(0, 60, 20):
                table.put(pa.table({"id": range(first, first + 20), "n": [number] * 20}))
            table.delete(7)
            assert table.scan()["n"].to_pylist() == [number] * 59
            db.execute(f"DROP TABLE {name}")

    with ThreadPoolExecutor(3) as threads:
        for one in [threads.submit(use, name) for name in ("a", "b", "c")]:
            one.result(TIMEOUT)
    table = db.create_table("a", "id BIGINT, n BIGINT", primary_key="id", regions=2)
    table.put({"id": 1, "n": 1})
    check_consistent(store_of(db), folder)
    db.close()
