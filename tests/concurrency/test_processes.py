"""Several processes and threads on one database at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import adbc_driver_manager
import pytest
import workers
from support import TIMEOUT, check_consistent, check_cut_is_whole, ended, opened, start, store_of, writes_of

import viewkeeper as vk
from viewkeeper import names
from viewkeeper.store.embedded import EmbeddedStore, connection
from viewkeeper.store.embedded.connection import Connection, Pool
from viewkeeper.testing.contract.support import log_of

PROCESSES = 5
Task = tuple[Any, ...]
"""A function of `workers`, and its arguments after the database."""


@dataclass
class Crew:
    """Processes that begin together. `watching` ones go on until the others are done."""

    pool: ProcessPoolExecutor
    over: Event

    def run(self, folder: Path, working: Sequence[Task], watching: Sequence[Task] = ()) -> list[Any]:
        """What each returned, in the order given. There is work for every process of the crew, so none runs after another."""
        assert len(working) + len(watching) == PROCESSES
        self.over.clear()
        work = [self.pool.submit(workers.run, task, str(folder), *rest) for task, *rest in working]
        watch = [self.pool.submit(workers.run, task, str(folder), *rest) for task, *rest in watching]
        try:
            done = [future.result(timeout=TIMEOUT) for future in work]
        finally:
            self.over.set()
        return done + [future.result(timeout=TIMEOUT) for future in watch]

    def together(self, task: Callable[..., Any], arguments: list[tuple[Any, ...]]) -> list[Any]:
        futures: list[Future[Any]] = [self.pool.submit(task, *rest) for rest in arguments]
        return [future.result(timeout=TIMEOUT) for future in futures]


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    context = workers.context()
    over = context.Event()
    settings = (context.Barrier(PROCESSES), over)
    with ProcessPoolExecutor(PROCESSES, context, workers.prepare, settings) as pool:
        yield Crew(pool, over)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "shop.vk"


@pytest.fixture
def db(folder: Path) -> Iterator[vk.Database]:
    with vk.open(folder) as database:
        yield database


def make_accounts(db: vk.Database) -> None:
    for name in ("savings", "giro"):
        table = db.create_table(name, "account INT, amount BIGINT", primary_key="account", regions=2)
        table.put([{"account": account, "amount": 0} for account in range(4)])


def make_pairs(db: vk.Database) -> None:
    for name in ("left", "right"):
        db.create_table(name, "id BIGINT, version BIGINT", primary_key="id", regions=2)


# Processes


def test_all_open_a_new_folder_at_once(crew: Crew, folder: Path) -> None:
    assert crew.together(workers.open_and_write, [(str(folder), n) for n in range(PROCESSES)]) == [True] * PROCESSES
    with opened(folder) as store:
        assert store.scan("t")["v"].to_pylist() == list(range(PROCESSES))
        check_consistent(store, folder)


def test_a_new_file_is_made_by_many_at_once(tmp_path: Path) -> None:
    """SQLite refuses one of two that ask for its journal together, without waiting (about 1 in 30 in this test)."""

    def make(path: Path, together: threading.Barrier) -> None:
        one = Connection(path, synchronous="OFF", timeout=TIMEOUT, create=True)
        together.wait(TIMEOUT)
        one.keep_a_journal()
        one.close()

    with ThreadPoolExecutor(PROCESSES) as pool:
        for number in range(100):
            together = threading.Barrier(PROCESSES)
            for made in [pool.submit(make, tmp_path / f"{number}.db", together) for _ in range(PROCESSES)]:
                made.result(TIMEOUT)


def test_idle_connections_are_bounded_by_files_and_by_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pages(number: int) -> Path:
        path = tmp_path / f"{number}.db"
        with pool.use(path, create=True) as one, one.writing():
            one.execute("CREATE TABLE IF NOT EXISTS t (a)")
            one.execute("INSERT INTO t VALUES (zeroblob(100000))")
        return path

    pool = Pool(tmp_path, synchronous="OFF", timeout=TIMEOUT)
    pool._most_files = 3
    paths = [pages(number) for number in range(5)]
    assert list(pool._idle) == paths[2:], "the least recently used are closed"
    monkeypatch.setattr(connection, "IDLE_BYTES", 250_000)
    pages(4)
    assert list(pool._idle) == paths[4:], "it has grown to as much as two of the others"
    pool.close()
    assert (pool._idle_bytes, len(pool._idle)) == (0, 0)


def test_a_temporary_table_is_made_again_after_a_rollback(tmp_path: Path) -> None:
    one = Connection(tmp_path / "one.db", synchronous="OFF", timeout=TIMEOUT, create=True)
    for _ in range(2):
        one.execute("BEGIN")
        one.once("CREATE TEMP TABLE IF NOT EXISTS stage (a)")
        one.execute("INSERT INTO temp.stage VALUES (1)")
        one.rollback()
    one.close()


def test_a_counter_counts_every_success(crew: Crew, db: vk.Database, folder: Path) -> None:
    counters = db.create_table("counters", "name STRING, n BIGINT", primary_key="name")
    counters.put({"name": "hits", "n": 0})
    successes = crew.run(folder, [(workers.increment, 60)] * PROCESSES)
    assert sum(successes) < 60 * PROCESSES, "nobody met anybody: the test shows nothing"
    assert counters.get("hits") == {"name": "hits", "n": sum(successes)}
    store = store_of(db)
    (spec,) = store.tables()
    counted = [change["_vk_after_n"] for region in range(spec.regions) for change in log_of(store, spec, region)]
    assert counted == list(range(sum(successes) + 1))


def test_every_snapshot_has_the_same_total(crew: Crew, db: vk.Database, folder: Path) -> None:
    make_accounts(db)
    *conflicts, (snapshots, wrong) = crew.run(
        folder, [(workers.transfer, seed, 25) for seed in range(4)], [(workers.totals,)]
    )
    assert wrong == []
    assert snapshots >= 5
    assert sum(conflicts) > 0, "nobody met anybody: the test shows nothing"
    store = store_of(db)
    assert sum(sum(db.table(name).scan()["amount"].to_pylist()) for name in ("savings", "giro")) == 0
    assert _transfers(store) == 100
    check_consistent(store, folder)


def _transfers(store: EmbeddedStore) -> int:
    """Each transfer changes two rows; the first write of each table put four."""
    changes = sum(len(log_of(store, spec, region)) for spec in store.tables() for region in range(spec.regions))
    return (changes - 8) // 2


def test_every_kind_of_write_on_the_same_keys(crew: Crew, db: vk.Database, folder: Path) -> None:
    make_pairs(db)
    results = crew.run(folder, [(workers.mixed, number, 40) for number in range(1, PROCESSES + 1)])
    store = store_of(db)
    places = writes_of(store)
    wrote = {version for done in results for kind in ("put", "pair", "put_if", "update") for version in done[kind]}
    assert set(places) == wrote
    for done in results:
        assert all(len({table for table, _, _ in places[version]}) == 2 for version in done["pair"])
    check_consistent(store, folder)
    check_cut_is_whole(store, store.cut(["left", "right"]))


def test_no_snapshot_has_an_effect_without_its_cause(crew: Crew, db: vk.Database, folder: Path) -> None:
    for name in ("causes", "effects", "reactions"):
        db.create_table(name, "id BIGINT, n BIGINT", primary_key="id", regions=1)
    *_, one, two, three = crew.run(
        folder, [(workers.cause, 150), (workers.react, 150)], [(workers.order,), (workers.order,), (workers.order,)]
    )
    for looks, wrong in (one, two, three):
        assert wrong == []
        assert looks >= 5
    check_consistent(store_of(db), folder)


def test_tables_come_and_go_under_writers(crew: Crew, db: vk.Database, folder: Path) -> None:
    table = db.create_table("t", "id BIGINT, v BIGINT", primary_key="id", regions=2)
    _, *writers = crew.run(folder, [(workers.remake, 12)], [(workers.write_anyway, number) for number in range(1, 5)])
    assert [complaint for _, _, complaints in writers for complaint in complaints] == []
    for number, (_, last, _) in enumerate(writers, start=1):
        assert table.get(number) == {"id": number, "v": last}
    check_consistent(store_of(db), folder)


def test_a_table_goes_while_its_file_is_being_opened(
    db: vk.Database, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite has the file by then, and misses it when it looks for the log beside it: the table is gone, not the disk."""
    db.create_table("t", "id BIGINT", primary_key="id", regions=1)
    connect = adbc_driver_manager.AdbcConnection

    def dropped_meanwhile(database: Any) -> Any:
        monkeypatch.undo()
        made = connect(database)
        db.drop("t")
        return made

    with opened(folder) as other:
        other.tables()  # the catalog's connection is open, the table's is not
        monkeypatch.setattr(adbc_driver_manager, "AdbcConnection", dropped_meanwhile)
        with pytest.raises(vk.NotFound):
            other.get("t", (1,))


# Threads


def test_threads_share_a_database(db: vk.Database, folder: Path) -> None:
    make_accounts(db)
    counters = db.create_table("counters", "name STRING, n BIGINT", primary_key="name")
    counters.put({"name": "hits", "n": 0})
    over = threading.Event()

    def work(seed: int) -> int:
        workers.transfer(db, seed, 15)
        return workers.increment(db, 30)

    def watch() -> list[int]:
        found = []
        while not over.is_set():
            with db.snapshot() as at:
                found.append(sum(sum(at.table(name).scan()["amount"].to_pylist()) for name in ("savings", "giro")))
        return found

    with ThreadPoolExecutor(5) as pool:
        watching = pool.submit(watch)
        try:
            successes = [future.result(timeout=TIMEOUT) for future in [pool.submit(work, seed) for seed in range(4)]]
        finally:
            over.set()
        assert set(watching.result(timeout=TIMEOUT)) == {0}
    assert counters.get("hits") == {"name": "hits", "n": sum(successes)}
    check_consistent(store_of(db), folder)


# Forks


def test_a_forked_child_goes_on_when_its_parent_closes(folder: Path) -> None:
    """What the child was told is written is there, though its parent had the files open when it forked."""
    code, said, complaint = ended(start(Path(__file__).with_name("forking.py"), folder))
    assert (code, said) == (0, ["end"]), complaint
    with opened(folder) as store:
        expected = {first + n: first for first in (0, 100, 200, 300) for n in range(20)}
        found = store.scan("t")
        assert dict(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True)) == expected
        check_consistent(store, folder)
        (spec,) = store.tables()
        logged = [change for region in range(2) for change in log_of(store, spec, region)]
        assert len(logged) == len(expected)
        assert not any(change[names.HAD] for change in logged)
