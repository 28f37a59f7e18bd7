"""Several processes and threads on one database at the same time."""

from __future__ import annotations

import fcntl
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import adbc_driver_manager
import pyarrow as pa
import pytest
import workers
from support import TIMEOUT, check_consistent, check_cut_is_whole, connect, ended, opened, start, store_of, writes_of

import viewkeeper as vk
from viewkeeper import names
from viewkeeper.store.contract import Action, Mutation, Request
from viewkeeper.store.embedded import EmbeddedStore, connection, epochs
from viewkeeper.store.embedded.checkpoints import Checkpoints
from viewkeeper.store.embedded.clock import Clock
from viewkeeper.store.embedded.connection import Connection, Pool
from viewkeeper.store.embedded.files import Files, Handle
from viewkeeper.testing.contract.support import (
    GROUP,
    PAIRS,
    TOTALS,
    changes,
    created,
    keys_of,
    log_of,
    region_of,
    run_epoch,
)

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


def test_a_statement_that_cannot_be_prepared_does_not_keep_a_connection_open(tmp_path: Path) -> None:
    one = Connection(tmp_path / "one.db", synchronous="OFF", timeout=TIMEOUT, create=True)
    with pytest.raises(vk.StorageError, match="no such table"):
        one.query("SELECT a FROM t")
    one.execute("BEGIN IMMEDIATE")
    one.close()
    other = Connection(tmp_path / "one.db", synchronous="OFF", timeout=0.5)
    other.execute("BEGIN IMMEDIATE")
    other.close()


def test_a_connection_that_cannot_be_set_up_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[Path] = []
    close = Connection.close

    def noting(one: Connection) -> None:
        close(one)
        closed.append(one.path)

    path = tmp_path / "one.db"
    path.write_text("no database" * 1000)
    monkeypatch.setattr(Connection, "close", noting)
    with pytest.raises(vk.Corrupt, match="not a database"):
        Connection(path, synchronous="OFF", timeout=TIMEOUT)
    assert closed == [path]


def test_a_counter_counts_every_success(crew: Crew, db: vk.Database, folder: Path) -> None:
    counters = db.create_table("counters", "name STRING, n BIGINT", primary_key="name")
    counters.put({"name": "hits", "n": 0})
    successes = crew.run(folder, [(workers.increment, 60)] * PROCESSES)
    assert sum(successes) <= 60 * PROCESSES - (PROCESSES - 1), "of the first attempts one went through"
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
    assert sum(conflicts) >= 3, "of the first transfers one went through"
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


READS: dict[str, Callable[[EmbeddedStore], Any]] = {
    "read": lambda store: list(store.read("pairs", 1)),
    "log": lambda store: list(store.log("pairs", 1, 0, 1)),
    "backlog": lambda store: store.backlog("pairs", (0, 0, 0), (1, 1, 1)),
    "oldest": lambda store: store.oldest("pairs", (0, 0, 0)),
}


@pytest.mark.parametrize("read", READS)
def test_a_table_goes_right_after_it_was_found(folder: Path, monkeypatch: pytest.MonkeyPatch, read: str) -> None:
    with opened(folder) as store, opened(folder) as other:
        store.create(replace(PAIRS, regions=3))
        alive = other._alive

        def dropped_then(table: str) -> Handle:
            monkeypatch.undo()
            found = alive(table)
            store.drop(table)
            other._files.pool.close()
            return found

        monkeypatch.setattr(other, "_alive", dropped_then)
        with pytest.raises(vk.NotFound, match='"pairs"'):
            READS[read](other)


@pytest.mark.parametrize("act", ["fence", "undo"])
def test_a_table_goes_while_its_group_changes_hands(folder: Path, monkeypatch: pytest.MonkeyPatch, act: str) -> None:
    """The others are fenced, and restored."""
    with opened(folder) as store, opened(folder) as other:
        store.create_group(GROUP)
        for spec in (replace(TOTALS, name="a"), replace(TOTALS, name="b")):
            store.create(spec)
        epoch = store.begin(GROUP, {}, 1).epoch
        tables_of = epochs._tables_of

        def dropped_then(files: Files, group: str) -> list[Handle]:
            monkeypatch.undo()
            found = tables_of(files, group)
            store.drop("a")
            return found

        monkeypatch.setattr(epochs, "_tables_of", dropped_then)
        if act == "fence":
            other.fence(GROUP, 2)
            with pytest.raises(vk.Fenced):
                store.apply("b", 0, changes(TOTALS), epoch, 1)
        else:
            other.undo(GROUP, epoch, 1)
            assert store.group(GROUP).running is None


LOOKS: dict[str, Callable[[EmbeddedStore], int]] = {
    "get": lambda store: store.get("totals", ("g", 1.0)) is not None,
    "scan": lambda store: store.scan("totals").num_rows,
    "count": lambda store: store.count("totals"),
    "probe": lambda store: store.probe("totals", keys_of(TOTALS, [("g",)])).num_rows,
    "read": lambda store: sum(batch.num_rows for batch in store.read("totals", region_of(TOTALS, "g"))),
}


@pytest.mark.parametrize("look", LOOKS)
def test_who_names_no_position_is_never_too_late(folder: Path, monkeypatch: pytest.MonkeyPatch, look: str) -> None:
    """The epoch that was committed when he looked is passed and trimmed before he reads."""
    with opened(folder) as store, opened(folder) as other:
        created(store, TOTALS)
        run_epoch(store, TOTALS, changes(TOTALS, [("g", 1.0, 1)]))
        committed_epoch = store._files.catalog.committed_epoch

        def then_another(group: str) -> int:
            monkeypatch.undo()
            found = committed_epoch(group)
            run_epoch(other, TOTALS, changes(TOTALS, [("g", 1.0, 2)]))
            other.trim(time.time() + TIMEOUT)
            return found

        monkeypatch.setattr(store._files.catalog, "committed_epoch", then_another)
        assert LOOKS[look](store) == 1


def test_a_drop_that_died_holds_up_nobody_but_who_wants_its_name(
    db: vk.Database, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process sleeps in a write to the table, and has its lock."""
    for name in ("t", "u"):
        db.create_table(name, "id INT, n INT", primary_key="id", regions=1)
    sleeper = connect(store_of(db)._files.handle("t").paths[0])
    sleeper.execute("BEGIN IMMEDIATE")
    with monkeypatch.context() as patch:
        patch.setattr(Files, "finish_drop", lambda *_: None)
        db.drop("t")
    with vk.open(folder, timeout=0.1) as other:
        other.table("u").put({"id": 1, "n": 1})
        other.create_table("v", "id INT", primary_key="id", regions=1)
        with pytest.raises(vk.Busy):
            other.create_table("T", "id INT", primary_key="id", regions=1)
        sleeper.close()
        assert other.create_table("T", "id INT", primary_key="id", regions=1).scan().num_rows == 0
    check_consistent(store_of(db), folder)


def test_a_drop_is_done_though_somebody_still_writes_there(db: vk.Database, folder: Path) -> None:
    """Who drops waits for writers, but not for ever, and does not hear `Busy` of what is decided."""
    db.create_table("t", "id INT, n INT", primary_key="id", regions=2)
    writing = store_of(db).prepare([], ["t"])
    with vk.open(folder, timeout=0.1) as other:
        other.drop("t")
        assert other.tables() == []
        with pytest.raises(vk.NotFound):
            other.table("t").scan()
        writing.rollback()
        with pytest.raises(vk.NotFound):
            other.drop("t")
        assert other.create_table("t", "id INT", primary_key="id", regions=1).scan().num_rows == 0
    assert len(list((folder / "tables").iterdir())) == 1, "the files of the first are gone"
    check_consistent(store_of(db), folder)


LEARNING: dict[str, Callable[[EmbeddedStore], Any]] = {
    "get": lambda store: store.get("pairs", (1,)),
    "scan": lambda store: store.scan("pairs"),
    "read": lambda store: list(store.read("pairs", 0)),
    "write": lambda store: store.write([one_pair()]),
    "table": lambda store: store.table("pairs"),
    "tables": lambda store: store.tables(),
}


def one_pair() -> Mutation:
    return Mutation("pairs", Action.PUT, pa.table({"k": [1], "v": ["one"]}, schema=PAIRS.schema))


@pytest.mark.parametrize("again", [False, True], ids=["gone", "made again"])
@pytest.mark.parametrize("learn", LEARNING)
def test_files_of_tables_that_another_process_dropped_are_closed(folder: Path, learn: str, again: bool) -> None:
    """They take descriptors here, and room on the disk, for as long as they are open: also if they were never read here."""
    with opened(folder) as store, opened(folder) as other:
        created(store, PAIRS, replace(PAIRS, name="unread"))
        store.write([one_pair()])
        before = store._files.pool.folders()
        other.drop("unread")
        other.drop("pairs")
        if again:
            created(other, PAIRS)
        try:
            LEARNING[learn](store)
        except vk.NotFound:
            assert not again
        assert len(before) == 3
        assert store._files.pool.folders() & before == {folder}, "there the catalog is"
        check_consistent(store, folder)


def test_a_reader_that_has_begun_closes_the_file_of_a_dropped_table_at_its_end(folder: Path) -> None:
    """It goes on meanwhile, whatever another thread has learned."""
    with opened(folder) as store, opened(folder) as other:
        created(store, PAIRS)
        store.write([one_pair()])
        region = region_of(PAIRS, 1)
        path = store._files.handle("pairs").paths[region]
        reader = store.read("pairs", region)
        batch = next(reader)
        other.drop("pairs")
        assert store.tables() == []
        assert batch.num_rows + sum(more.num_rows for more in reader) == 1
        assert not store._files.pool._idle.get(path)


def test_a_file_that_goes_while_it_is_opened_is_not_left_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver has it open already when it finds that it cannot be used."""
    begun: list[Any] = []

    def fail(database: Any) -> None:
        begun.append(database)
        raise KeyboardInterrupt

    monkeypatch.setattr(adbc_driver_manager, "AdbcConnection", fail)
    with pytest.raises(KeyboardInterrupt):
        Connection(tmp_path / "one.db", synchronous="OFF", timeout=0.0, create=True)
    monkeypatch.undo()
    with pytest.raises(adbc_driver_manager.Error):
        adbc_driver_manager.AdbcConnection(begun[0])


# Interrupts

CALLS: dict[str, Callable[[vk.Database], Any]] = {
    "scan": lambda db: db.table("t").scan(),
    "put": lambda db: db.table("t").put({"id": 2, "n": 2}),
    "trim": lambda db: db.trim(3600),
    "update of nothing": lambda db: db.table("t").update({"id": 9, "n": 9}),
}


def fail_once(
    monkeypatch: pytest.MonkeyPatch, statement: str, file: str, error: BaseException, *, when: str = "before"
) -> None:
    """Raise an error before or after a statement on a file is run."""
    execute = Connection.execute

    def failing(one: Connection, sql: str, *rest: Any) -> None:
        here = sql == statement and one.path.name == file
        if here:
            monkeypatch.undo()
        if not here or when == "after":
            execute(one, sql, *rest)
        if here:
            raise error

    monkeypatch.setattr(Connection, "execute", failing)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("alarm"), TimeoutError("alarm")], ids=repr)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("call", "statement"),
    [
        ("scan", "BEGIN"),
        ("scan", "COMMIT"),
        ("put", "BEGIN IMMEDIATE"),
        ("put", "COMMIT"),
        ("trim", "BEGIN IMMEDIATE"),
        ("trim", "COMMIT"),
        ("update of nothing", "ROLLBACK"),
    ],
)
def test_an_interrupt_leaves_no_transaction_open(
    db: vk.Database,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    statement: str,
    when: str,
    error: BaseException,
) -> None:
    """Python looks for signals right before a statement and right after it. The caller may catch the interrupt and go on.

    What a handler of its own raises may be an ordinary exception.
    """
    table = db.create_table("t", "id INT, n INT", primary_key="id", regions=1)
    table.put({"id": 1, "n": 1})
    fail_once(monkeypatch, statement, "region-0.db", error, when=when)
    with pytest.raises(type(error)):
        CALLS[call](db)
    with vk.open(folder, timeout=0.5) as other:
        other.table("t").put({"id": 1, "n": 2})
        assert table.get(1) == {"id": 1, "n": 2}, "and not as it was when it was interrupted"
        table.put({"id": 1, "n": 3})
        assert other.table("t").get(1) == {"id": 1, "n": 3}
    check_consistent(store_of(db), folder)


def test_a_connection_that_only_failed_is_kept(tmp_path: Path) -> None:
    """To open another takes time, and room on a disk that may be full."""
    path = tmp_path / "one.db"
    pool = Pool(tmp_path, synchronous="OFF", timeout=0.0)
    with pool.use(path, create=True) as one:
        one.keep_a_journal()
    other = Connection(path, synchronous="OFF", timeout=0.0)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(vk.Busy), pool.use(path) as taken, taken.writing():
        pytest.fail("the file is locked")
    other.close()
    assert pool._idle[path] == [one]
    with pool.use(path) as taken:
        taken.execute("BEGIN")
        taken.execute("ROLLBACK")  # as SQLite does by itself where the disk is full
        taken.inside = True
        taken.rollback()
    assert pool._idle[path] == [one]
    pool.close()


def test_prepared_writes_that_nobody_holds_lock_nobody_out(db: vk.Database, folder: Path) -> None:
    """An interrupt right after they were prepared leaves their caller without them."""
    table = db.create_table("t", "id INT, n INT", primary_key="id", regions=1)
    rows = pa.table({"id": [1], "n": [1]}, schema=table.schema)
    store_of(db).prepare([Request([Mutation("t", Action.PUT, rows)])])
    with vk.open(folder, timeout=0.5) as other:
        other.table("t").put({"id": 1, "n": 2})
    assert table.get(1) == {"id": 1, "n": 2}


def test_an_interrupt_leaves_the_clock_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flock = fcntl.flock

    def interrupted(file: int, operation: int) -> None:
        monkeypatch.undo()
        flock(file, operation)
        raise KeyboardInterrupt

    clock = Clock(tmp_path / "clock")
    monkeypatch.setattr(fcntl, "flock", interrupted)
    with pytest.raises(KeyboardInterrupt):
        clock.tick()
    with (tmp_path / "clock").open() as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    clock.close()


@pytest.mark.parametrize(
    ("file", "error"),
    [("region-2.db", KeyboardInterrupt()), ("catalog.db", vk.DiskFull("no room left"))],
    ids=["interrupted", "full disk"],
)
def test_a_table_that_takes_the_place_of_one_that_failed(
    db: vk.Database, folder: Path, monkeypatch: pytest.MonkeyPatch, file: str, error: BaseException
) -> None:
    """Another process makes it: it has the number and the file names of the one that failed here, and other files."""
    fail_once(monkeypatch, "COMMIT", file, error)
    with pytest.raises(type(error)):
        db.create_table("t", "id INT, n INT", primary_key="id", regions=4)
    check_another_takes_its_place(db, folder)


@pytest.mark.parametrize(
    ("owner", "method", "call"),
    [(Checkpoints, "leave", 1), (Checkpoints, "leave", 2), (Connection, "close", 1), (Connection, "close", 4)],
)
def test_a_table_that_takes_the_place_of_one_whose_files_were_being_closed(
    db: vk.Database, folder: Path, monkeypatch: pytest.MonkeyPatch, owner: type, method: str, call: int
) -> None:
    """An interrupt where the files of the first are closed leaves none of them to be used here, wherever it comes."""
    calls, real = itertools.count(1), getattr(owner, method)

    def interrupted(one: Any, *rest: Any, **named: Any) -> None:
        if next(calls) == call:
            raise KeyboardInterrupt
        real(one, *rest, **named)

    with monkeypatch.context() as patched, suppress(KeyboardInterrupt):
        patched.setattr(owner, method, interrupted)
        db.create_table("t", "id INT, n INT", primary_key="id", regions=4)
        db.drop("t")
    assert db.tables() == []
    check_another_takes_its_place(db, folder)


def check_another_takes_its_place(db: vk.Database, folder: Path) -> None:
    """What two that have it open see of each other's rows."""
    with vk.open(folder) as other:
        there = other.create_table("t", "id INT, n INT", primary_key="id", regions=4)
        there.put([{"id": number, "n": 1} for number in range(20)])
        here = db.table("t")
        assert here.scan().num_rows == 20
        here.put([{"id": number, "n": 2} for number in range(20, 40)])
        assert there.scan().num_rows == 40
    check_consistent(store_of(db), folder)


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
