"""SQLite through ADBC: connections, a pool of them, and SQLite's errors in our words.

Two traps are closed here. ADBC carries its own SQLite, and two copies of SQLite in one process drop each other's file
locks, so nothing in this package opens a file in any other way. And a connection never crosses a fork: a process closes
its idle connections before it forks, and the child starts with an empty pool. Leaving them open and untouched is not
enough: SQLite remembers in memory which locks its process holds, a child inherits the memory without the locks, and
its parent then takes the log of a file away while the child still writes into it. So fork while no other thread is in
the middle of a call.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import resource
import sys
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import adbc_driver_manager
import adbc_driver_sqlite
import pyarrow as pa

from viewkeeper.errors import Busy, Corrupt, DiskFull, InputError, ReadOnly, StorageError, ViewkeeperError
from viewkeeper.store.embedded.checkpoints import LONGEST, Checkpoints, leave_all

BATCH_ROWS = 65_536
"""Rows per Arrow batch of a result."""

FEW_ROWS = 16
"""The same for results of a row or so: the driver sets room aside for a whole batch first, which takes 0.2 ms for a large one."""

CACHE_BYTES = 16 << 20
"""Pages that a connection may keep in memory."""

IDLE_BYTES = 96 * CACHE_BYTES
"""Pages that all idle connections may keep in memory. Those to small files keep little, so there may be many of them."""

IDLE_SHARE = 6
"""Files with idle connections, as a share of the process's file descriptors: each takes up to three, and half are others'."""

PAGE_BYTES = 4_096
"""SQLite's, unless a file was made with others."""

OPENING_FAILED = ("unable to open", "failed to open", "disk I/O error")
"""SQLite's words for a file that is not there. The last is for one that goes while it is being opened: before SQLite opens
the log beside a file, it looks the file up by name again."""

NO_TRANSACTION = "no transaction is active"
"""SQLite's words where one is to end that an error has ended already."""

SHARED_BYTES = 32 << 10
"""What SQLite asks the disk for beside a file that it opens. If there is no room it says "disk I/O error", and not why."""

_abandoned: list[Any] = []
"""Connections of a parent process, kept from being closed by the garbage collector of its child."""


class MissingFile(StorageError):
    """The file is not there. Its table may have been dropped since its name was looked up."""


class Connection:
    """One SQLite connection with its prepared statements. Used by one thread at a time.

    A file that is not there is made only with `create`: nothing is ever written to a file that a drop has removed.
    """

    def __init__(self, path: Path, *, synchronous: str, timeout: float, create: bool = False) -> None:
        self.path = path
        self.kept_bytes = 0
        self.inside = False
        """Whether it may be in a transaction: said before one is begun, and taken back after it has ended."""
        self.written = 0
        """Pages that may have been written through it, since somebody last took note of them."""
        self._timeout = timeout
        self._statements: dict[str, Any] = {}
        self._made: set[str] = set()
        with translated(path):
            self._database = adbc_driver_sqlite.connect(f"{path.absolute().as_uri()}?mode={'rwc' if create else 'rw'}")
            try:
                self._connection = adbc_driver_manager.AdbcConnection(self._database)
            except BaseException:
                self._database.close()
                raise
        try:
            self._set_up(synchronous)
        except BaseException:  # nobody has it yet who could close it, and the garbage collector does not
            self.abandon()
            raise

    def _set_up(self, synchronous: str) -> None:
        for pragma in (
            f"busy_timeout={int(self._timeout * 1000)}",
            f"synchronous={synchronous}",
            f"cache_size=-{CACHE_BYTES >> 10}",
            "temp_store=MEMORY",
            f"wal_autocheckpoint={LONGEST}",
            f"journal_size_limit={LONGEST * PAGE_BYTES}",
        ):
            self.query(f"PRAGMA {pragma}")

    def keep_a_journal(self) -> None:
        """Writers go on beside readers (SQLite's WAL mode, which the file remembers).

        SQLite refuses at once, whatever its busy timeout, when two that open a new file ask for it together, since
        each would wait for the other's read to end. Both have then let go, so asking again is all there is to do.
        """
        until = time.monotonic() + self._timeout
        while True:
            try:
                self.query("PRAGMA journal_mode = WAL")
                return
            except Busy:
                if time.monotonic() > until:
                    raise
                time.sleep(random.uniform(0.001, 0.01))

    def execute(self, sql: str, parameters: pa.RecordBatch | None = None) -> None:
        """Run a statement, once per row of `parameters`."""
        if sql.startswith("ROLLBACK"):  # also to a savepoint
            self._made.clear()
        was_inside = self.inside
        self.inside = was_inside or sql.startswith("BEGIN")
        with translated(self.path):
            try:
                statement = self._prepared(sql, FEW_ROWS)
                if parameters is not None:
                    statement.bind(*_capsules(parameters))
                statement.execute_update()
            except adbc_driver_manager.Error as error:
                self.inside = was_inside and NO_TRANSACTION not in str(error)
                raise
        self.written += 1 if parameters is None else parameters.num_rows + parameters.nbytes // PAGE_BYTES
        if sql in ("COMMIT", "ROLLBACK"):
            self.inside = False

    def once(self, sql: str) -> None:
        """Make a temporary table, which the connection keeps, unless it was made; a rollback takes it away again."""
        if sql not in self._made:
            self.execute(sql)
            self._made.add(sql)

    def query(self, sql: str, parameters: pa.RecordBatch | None = None) -> pa.Table:
        """Run a query, once per row of `parameters`; all results in one table."""
        return self._query(sql, parameters, BATCH_ROWS)

    def query_few(self, sql: str, parameters: pa.RecordBatch | None = None) -> pa.Table:
        """The same for a query that gives a row or so."""
        return self._query(sql, parameters, FEW_ROWS)

    def _query(self, sql: str, parameters: pa.RecordBatch | None, batch_rows: int) -> pa.Table:
        with translated(self.path):
            statement = self._prepared(sql, batch_rows)
            if parameters is not None:
                statement.bind(*_capsules(parameters))
            return pa.RecordBatchReader.from_stream(statement.execute_query()[0]).read_all()

    def one(self, sql: str, parameters: pa.RecordBatch | None = None) -> tuple[Any, ...] | None:
        """The only row of a result as Python values, or None."""
        table = self.query_few(sql, parameters)
        return tuple(column[0].as_py() for column in table.columns) if table.num_rows else None

    def stream(self, sql: str) -> Iterator[pa.RecordBatch]:
        """The batches of a result, as they are read."""
        with translated(self.path), contextlib.closing(self._new_statement(sql, BATCH_ROWS)) as statement:
            yield from pa.RecordBatchReader.from_stream(statement.execute_query()[0])

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Everything inside sees the file as it was at its first read."""
        written = self.written
        try:
            self.execute("BEGIN")
            try:
                yield
            except BaseException:
                self.rollback()
                raise
            self.execute("COMMIT")
        finally:
            self.written = written

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """The file's only writer; committed at the end, rolled back by an error."""
        self.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            self.rollback()
            raise

    def rollback(self) -> None:
        """Leave a transaction. SQLite has done it already where an error ended it (a full disk), or the connection was closed."""
        with contextlib.suppress(StorageError):
            self.execute("ROLLBACK")

    def close(self) -> None:
        """Whatever transaction it is in is rolled back, and its locks are let go."""
        while self._statements:
            self._statements.popitem()[1].close()
        self._connection.close()
        self._database.close()

    def abandon(self) -> None:
        """Close it because of an error, which is what the caller must hear of."""
        with contextlib.suppress(Exception):
            self.close()

    def _prepared(self, sql: str, batch_rows: int) -> Any:
        if sql not in self._statements:
            self._statements[sql] = self._new_statement(sql, batch_rows)
        return self._statements[sql]

    def _new_statement(self, sql: str, batch_rows: int) -> Any:
        """Prepared, or closed: a connection with a statement that nobody closes can never be closed."""
        statement = adbc_driver_manager.AdbcStatement(self._connection)
        try:
            statement.set_options(**{"adbc.sqlite.query.batch_rows": str(batch_rows)})
            statement.set_sql_query(sql)
            statement.prepare()
        except BaseException:
            statement.close()
            raise
        return statement


class Held(Connection):
    """A connection inside its open transaction: readers of it see what is written there and not yet committed."""

    def __init__(self, connection: Connection) -> None:
        self.__dict__ = connection.__dict__

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """The transaction is open already, and the file is this connection's alone."""
        yield


def _capsules(batch: pa.RecordBatch) -> tuple[Any, Any]:
    schema, array = batch.__arrow_c_array__()
    return array, schema


def parameters(*values: Any) -> pa.RecordBatch:
    """One row of parameters from Python values."""
    return pa.record_batch([pa.array([value]) for value in values], names=[str(i) for i in range(len(values))])


@contextlib.contextmanager
def translated(path: Path) -> Iterator[None]:
    """The errors of the driver and of the operating system as ours."""
    try:
        yield
    except adbc_driver_manager.Error as error:
        raise _translation(str(error), path) from error
    except OSError as error:
        raise _system_translation(error, path) from error


def _translation(text: str, path: Path) -> ViewkeeperError:
    name = f'file "{path}"'
    if "disk is full" in text:
        return _disk_full(path)
    if "readonly" in text or "read-only" in text:
        return ReadOnly(f"{name} cannot be written", hint="check the folder's permissions and owner")
    if "locked" in text or "busy" in text:
        return Busy(
            f"{name} was locked by another process for too long", hint="call again, or open with a longer timeout"
        )
    if "malformed" in text or "not a database" in text:
        return Corrupt(f"{name} is damaged: {text}", hint="restore the folder from a copy")
    if any(words in text for words in OPENING_FAILED) and not path.exists():
        return MissingFile(f"{name} is missing", hint="restore the folder from a copy", path=str(path))
    if "disk I/O error" in text and _room(path) < SHARED_BYTES:
        return _disk_full(path)
    if "unable to open" in text and not os.access(path, os.W_OK):
        return ReadOnly(f"{name} cannot be opened for writing", hint="check the folder's permissions and owner")
    return StorageError(f"{name}: {text}", path=str(path))


def _system_translation(error: OSError, path: Path) -> StorageError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _disk_full(path)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return ReadOnly(
            f'"{path}" cannot be written: {error.strerror}', hint="check the folder's permissions and owner"
        )
    return StorageError(f'"{path}": {error.strerror}', path=str(path))


def closed(folder: Path) -> InputError:
    return InputError(f'database "{folder}" is closed', hint="open it again")


def _room(path: Path) -> int:
    """Bytes that are left on the disk of a file."""
    disk = os.statvfs(path.parent)
    return disk.f_bavail * disk.f_frsize


def _disk_full(path: Path) -> DiskFull:
    return DiskFull(f'file "{path}": no room left on the disk', hint="nothing was written; make room and call again")


class Pool:
    """Connections by file, each lent to one user at a time; the files least recently used are closed first."""

    def __init__(self, folder: Path, *, synchronous: str, timeout: float) -> None:
        self._folder = folder
        self._ended = False
        self.connect = partial(Connection, synchronous=synchronous, timeout=timeout)
        """A connection that is the caller's alone, to be closed by him."""
        self._start()
        _pools.add(self)

    def _start(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._idle: OrderedDict[Path, list[Connection]] = OrderedDict()
        self._idle_bytes = 0
        self._most_files = _most_files()
        self._checkpoints = Checkpoints(self.connect)

    @contextlib.contextmanager
    def use(self, path: Path, *, create: bool = False) -> Iterator[Connection]:
        """A connection to the file for this block alone. It comes back outside of any transaction, or not at all.

        An error is raised by a statement, and whoever began a transaction ends it. An interrupt comes between any two steps:
        after BEGIN and before the `try` that would end it, or in place of the COMMIT. It may be an ordinary exception, where
        a program's own handler of a signal raises it. Kept, such a connection would show the file as it was to all who get
        it next, or lock everybody else out. Closing it ends whatever it was in. And a block that is left for good without
        having been ended (prepared writes that nobody holds any more) leaves its transaction open too, while a reader that
        stops early has ended its own.
        """
        connection = self.take(path, create=create)
        try:
            yield connection
        except GeneratorExit:
            connection.rollback()
            self.give_back(connection)
            raise
        except Exception:
            self.give_back(connection)
            raise
        except BaseException:
            connection.abandon()
            raise
        else:
            self.give_back(connection)

    def take(self, path: Path, *, create: bool = False) -> Connection:
        if self._process != os.getpid():
            _abandoned.append(self._idle)
            self._start()
        with self._lock:
            if self._ended:
                raise closed(self._folder)
            waiting = self._idle.get(path)
            if waiting:
                self._idle_bytes -= waiting[-1].kept_bytes
                return waiting.pop()
        return self.connect(path, create=create)

    def give_back(self, connection: Connection) -> None:
        if connection.inside:
            connection.abandon()
            return
        written, connection.written = connection.written, 0
        there = _measure(connection)
        with self._lock:
            surplus = self._keep(connection) if there and not self._ended else [connection]
        _close_all(surplus)
        if written:
            self._checkpoints.written(connection.path, written)

    def _keep(self, connection: Connection) -> list[Connection]:
        """Those that have to go for it."""
        surplus: list[Connection] = []
        self._idle_bytes += connection.kept_bytes
        self._idle.setdefault(connection.path, []).append(connection)
        self._idle.move_to_end(connection.path)
        while len(self._idle) > self._most_files or self._idle_bytes > IDLE_BYTES:
            surplus += self._forget(next(iter(self._idle)))
        return surplus

    def _forget(self, path: Path) -> list[Connection]:
        gone = self._idle.pop(path)
        self._idle_bytes -= sum(connection.kept_bytes for connection in gone)
        return gone

    def folders(self) -> set[Path]:
        """Those that files with idle connections are in. A fork has none."""
        if self._process != os.getpid():
            return set()
        with self._lock:
            return {path.parent for path in self._idle}

    def end(self) -> None:
        """Close all connections for good: those that are lent out when they come back. A fork has none of them."""
        if self._process != os.getpid():
            return
        with self._lock:
            self._ended = True
        self._checkpoints.end()
        self.close()

    def close(self, under: Path | None = None) -> None:
        """Close idle connections: all of them, or those to files under a folder. None is open beside them either.

        That is waited for first: an interrupt must not find connections that are neither idle nor closed.
        """
        if self._process != os.getpid():
            return
        self._checkpoints.leave(under)
        with self._lock:
            paths = [path for path in self._idle if under is None or under in path.parents]
            closing = [connection for path in paths for connection in self._forget(path)]
        _close_all(closing)


def _measure(connection: Connection) -> bool:
    """Note what it keeps in memory, at most the file. False if that was dropped: nobody needs the connection again."""
    try:
        connection.kept_bytes = min(CACHE_BYTES, connection.path.stat().st_size)
    except FileNotFoundError:
        return False
    except OSError:
        pass  # it keeps what it kept
    return True


def _most_files() -> int:
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if descriptors == resource.RLIM_INFINITY else max(1, descriptors // IDLE_SHARE)


def _close_all(connections: list[Connection]) -> None:
    for connection in connections:
        connection.close()


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


def _before_fork() -> None:
    """All of them, whatever comes meanwhile: who forks is not kept from it by an error here, nor told."""
    interrupt: BaseException | None = None
    while True:
        try:
            for pool in list(_pools):
                pool.close()
            leave_all()
        except KeyboardInterrupt as error:
            interrupt = error
        else:
            break
    if interrupt is not None:
        raise interrupt


os.register_at_fork(before=_before_fork)
