"""What must hold of every database after anything that happened to it, and how tests start other processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import viewkeeper as vk
from viewkeeper import names
from viewkeeper.store.contract import Cut, Kind, TableSpec
from viewkeeper.store.embedded import EmbeddedStore
from viewkeeper.store.embedded.connection import Connection, Pool
from viewkeeper.testing.contract.support import exact, log_of, region_rows, replayed

TIMEOUT = 240.0
"""Seconds after which a process that should have ended is taken for one that hangs."""


@contextmanager
def opened(folder: Path) -> Iterator[EmbeddedStore]:
    store = EmbeddedStore.open(folder)
    try:
        yield store
    finally:
        store.close()


def start(script: Path, *arguments: object, **variables: str) -> subprocess.Popen[str]:
    """A Python process that runs a script, with our import path; its output is a pipe."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **variables}
    command = [sys.executable, str(script), *map(str, arguments)]
    return subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def ended(child: subprocess.Popen[str]) -> tuple[int, list[str], str]:
    """Exit code, lines of output and complaints, once it has ended."""
    try:
        out, err = child.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        raise
    return child.returncode, out.splitlines(), err


def state(store: EmbeddedStore, table: str, at: tuple[int, ...] | None = None) -> dict[Any, Any]:
    """Key to value of a table whose first two columns are those."""
    found = store.scan(table, at=at)
    return dict(zip(found.column(0).to_pylist(), found.column(1).to_pylist(), strict=True))


# Laws


def check_consistent(store: EmbeddedStore, folder: Path) -> None:
    """Every law that needs no knowledge of what was written."""
    for spec in store.tables():
        for region in range(spec.regions):
            _check_region(store, spec, region)
    check_files(folder)


def _check_region(store: EmbeddedStore, spec: TableSpec, region: int) -> None:
    """The log makes the rows, at every position and at the end, beginning with the empty table."""
    log = log_of(store, spec, region)
    last = store.positions(spec.name)[region]
    at = [change[names.POSITION] for change in log]
    assert at == sorted(at)
    if spec.kind is Kind.BASE:
        assert sorted(set(at)) == list(range(1, last + 1))
    for position in range(last + 1):
        rebuilt = replayed(spec, [change for change in log if change[names.POSITION] <= position])
        assert exact(region_rows(store, spec, region, at=position)) == rebuilt, (spec.name, region, position)
    assert exact(region_rows(store, spec, region, at=last)) == replayed(spec, log)


def writes_of(store: EmbeddedStore, column: str = "version") -> dict[Any, set[tuple[str, int, int]]]:
    """Where each version, that is each write, stands in the logs: table, region, position."""
    found: dict[Any, set[tuple[str, int, int]]] = {}
    for spec in store.tables():
        for region in range(spec.regions):
            for change in log_of(store, spec, region):
                if change[names.HAS]:
                    place = (spec.name, region, change[names.POSITION])
                    found.setdefault(change[names.AFTER + column], set()).add(place)
    return found


def inside(cut: Cut, places: set[tuple[str, int, int]]) -> list[bool]:
    """Of each place, whether the cut holds it."""
    return [position <= cut[table][region] for table, region, position in sorted(places)]


def check_cut_is_whole(store: EmbeddedStore, cut: Cut) -> None:
    """No write is half inside a cut."""
    for version, places in writes_of(store).items():
        assert len(set(inside(cut, places))) == 1, (version, places, cut)


# Files


def unfinished(folder: Path) -> int:
    """Decisions that nobody has carried out."""
    return int(_ask(folder / "transactions.db", "SELECT count(*) FROM decisions WHERE finished = 0"))


def check_files(folder: Path) -> None:
    """SQLite finds nothing wrong with any file, and no file of a table that is gone is left."""
    for path in sorted(folder.rglob("*.db")):
        assert _ask(path, "PRAGMA integrity_check") == "ok", path
    numbers = _column(folder / "catalog.db", "SELECT id FROM tables WHERE name IS NOT NULL")
    tables = folder / "tables"
    left = [path.name for path in tables.iterdir()] if tables.exists() else []
    assert set(left) <= set(map(str, numbers))


def _ask(path: Path, sql: str) -> Any:
    return _column(path, sql)[0]


def _column(path: Path, sql: str) -> list[Any]:
    pool = Pool(path.parent, synchronous="FULL", timeout=10)
    try:
        with pool.use(path) as connection:
            return list(connection.query(sql).column(0).to_pylist())
    finally:
        pool.close()


def connect(path: Path) -> Connection:
    """A connection of the package's own, for tests that tamper with a file."""
    return Connection(path, synchronous="FULL", timeout=10)


def store_of(database: vk.Database) -> EmbeddedStore:
    store = database._store
    assert isinstance(store, EmbeddedStore)
    return store


@contextmanager
def file_with_rows(db: vk.Database, name: str) -> Iterator[Any]:
    """The file of a region that has rows, opened behind the engine's back."""
    for path in store_of(db)._files.handle(name).paths:
        connection = connect(path)
        try:
            if connection.query("SELECT 1 FROM rows").num_rows:
                yield connection
                return
        finally:
            connection.close()
