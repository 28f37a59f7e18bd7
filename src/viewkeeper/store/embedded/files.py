"""The folder: where everything lies, and the tables of it that this process has seen.

```
shop.vk/
  catalog.db                  tables, groups, leaderships
  transactions.db             decisions over several regions
  clock                       the last stamp
  tables/17/region-0.db       one file per region
```
"""

from __future__ import annotations

import copy
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from viewkeeper.errors import Busy, NewerFormat, NotADatabase, NotFound, ReadOnly, ViewkeeperError
from viewkeeper.store.contract import TableSpec
from viewkeeper.store.embedded import faults, rows
from viewkeeper.store.embedded.catalog import FORMAT, Catalog, DropUnfinished, Entry
from viewkeeper.store.embedded.clock import Clock
from viewkeeper.store.embedded.connection import Connection, Held, MissingFile, Pool, parameters, translated
from viewkeeper.store.embedded.layout import Layout
from viewkeeper.store.embedded.transactions import Transactions

Answer = TypeVar("Answer")


class Dropped(Exception):
    """A region says that its table is gone. What the process knew of the table is out of date."""


@dataclass(frozen=True)
class Handle:
    """An open table."""

    number: int
    spec: TableSpec
    folder: Path

    @cached_property
    def layout(self) -> Layout:
        return Layout(self.spec)

    @cached_property
    def paths(self) -> tuple[Path, ...]:
        return tuple(self.folder / f"region-{region}.db" for region in range(self.spec.regions))


class Files:
    """A database folder, its pool of connections and its tables."""

    def __init__(self, folder: Path, *, synchronous: str, timeout: float) -> None:
        self.folder = folder
        self.pool = Pool(folder, synchronous=synchronous, timeout=timeout)
        self.catalog = Catalog(self.pool, folder / "catalog.db")
        self.transactions = Transactions(self.pool, folder / "transactions.db")
        self._handles: dict[str, Handle] = {}
        self._newest: dict[str, int] = {}
        self._held: Mapping[tuple[int, int], Connection] = {}
        self._lock = threading.Lock()
        _check_folder(folder)
        self.catalog.make()
        _check_format(self.catalog.format(), folder)
        self.transactions.make()
        self.clock = Clock(folder / "clock")

    def handle(self, name: str) -> Handle:
        """The table of that name. A remembered one may be gone: its regions will say so."""
        known = self._handles.get(name)
        return known if known is not None else self._remember(name, self.catalog.find(name))

    def number(self, name: str) -> int:
        """See `Store.number`. Not the handle's alone: a thread that looked before the table was made anew may remember what it
        found after another has read the new one."""
        return max(self.handle(name).number, self._newest.get(name, 0))

    @contextmanager
    def region(self, handle: Handle, region: int) -> Iterator[Connection]:
        """A connection to a region's file. If the file is gone, so is the table."""
        held = self._held.get((handle.number, region))
        if held is not None:
            yield Held(held)
            return
        try:
            with self.pool.use(handle.paths[region]) as connection:
                yield connection
        except MissingFile:
            if handle.folder.exists():
                raise
            raise Dropped from None

    def holding(self, connections: Mapping[tuple[int, int], Connection]) -> Files:
        """The same folder, where these regions are seen through connections that have written to them."""
        other = copy.copy(self)
        other._held = connections
        return other

    def handles(self) -> list[Handle]:
        return [self._open(entry) for entry in self.catalog.entries()]

    def retrying(self, use: Callable[[], Answer]) -> Answer:
        """Run `use`; if a table turns out to be dropped, once more with what the catalog says now.

        The name may have been taken again by a new table; if not, the second run ends in `NotFound`.
        """
        for _ in range(100):
            try:
                return use()
            except Dropped:
                self.forget_dropped()
        raise NotFound("the table is being dropped and made again without end", hint="call again")

    def current(self, entries: list[Entry]) -> list[Entry]:
        """What the catalog says now, which whoever is told of it relies on: a remembered table of these names that is
        another is forgotten, for a key of the new one may be none that the old one could hold."""
        known = [(entry.number, self._handles.get(entry.spec.name)) for entry in entries]
        if any(handle is not None and handle.number != number for number, handle in known):
            self.forget_dropped()
        return entries

    def entry(self, name: str) -> Entry:
        """What the catalog says of a name. If it has none, a table that had it may be open here."""
        try:
            return self.catalog.find(name)
        except NotFound:
            self.forget_dropped()
            raise

    def entries(self) -> list[Entry]:
        """All tables. Others are closed here: their files take room on the disk until nobody has them open any more.

        Which ones are open is looked up first: those are of tables that were recorded before, and are gone if they are not
        found. One that is just being used is closed when it is given back, or the next time.
        """
        open_here = self.pool.folders()
        entries = self.catalog.entries()
        for folder in open_here - {self.folder, *(self._table_folder(entry.number) for entry in entries)}:
            self.pool.close(under=folder)
        return entries

    def forget_dropped(self) -> None:
        """Some table that was remembered is gone."""
        self._forget_handles()
        self.entries()

    def _forget_handles(self) -> None:
        with self._lock:
            self._handles.clear()

    def _remember(self, name: str, entry: Entry) -> Handle:
        handle = self._open(entry)
        with self._lock:
            self._handles[name] = handle
            self._newest[name] = max(handle.number, self._newest.get(name, 0))
        return handle

    def _open(self, entry: Entry) -> Handle:
        return Handle(entry.number, entry.spec, self._table_folder(entry.number))

    def _table_folder(self, number: int) -> Path:
        return self.folder / "tables" / str(number)

    def create(self, spec: TableSpec) -> None:
        self.finish_drops()
        while True:
            try:
                entry = self.catalog.add(spec, lambda number, fence: self._make_regions(Entry(number, spec), fence))
            except DropUnfinished:
                self._finish_drops_of(spec.name)
            else:
                self._open_regions(self._open(entry))
                return

    def _open_regions(self, handle: Handle) -> None:
        """Opening a file takes room on the disk: one that was just made can be read however full the disk gets."""
        for path in handle.paths:
            with suppress(ViewkeeperError), self.pool.use(path):  # the table is there, or dropped meanwhile
                pass

    def _make_regions(self, entry: Entry, fence: int) -> None:
        """A folder of that number can only be left from a creation that failed: it holds nothing.

        Whether this one fails is not known before the catalog's commit. If it does, the number is free, and the next process
        to create a table removes these files and makes others under the same names. So none of them is open when this
        returns: who wrote through a connection to a file that was removed would write rows that nobody ever sees, and to
        close it later would take the log of the new file away, which SQLite removes by its name.
        """
        handle = self._open(entry)
        shutil.rmtree(handle.folder, ignore_errors=True)
        with translated(handle.folder):
            handle.folder.mkdir(parents=True)
        for path in handle.paths:
            self._make_region(path, handle.layout, fence)

    def _make_region(self, path: Path, layout: Layout, fence: int) -> None:
        """Through a connection that is never in the pool: wherever an interrupt comes, nobody gets it from there later."""
        with closing(self.pool.connect(path, create=True)) as connection:
            connection.keep_a_journal()
            with connection.writing():
                for statement in layout.ddl():
                    connection.execute(statement)
                connection.execute("UPDATE state SET fence = ?", parameters(fence))

    def drop(self, name: str, number: int | None = None) -> None:
        """The record decides. Whoever still has a region's lock after the timeout may write there until the drop is finished."""
        entry = self.catalog.find(name)
        if number not in (None, entry.number):
            raise NotFound(
                f'table "{name}" was dropped and made again by another process',
                hint="drop that one too, if it is to go",
            )
        self.catalog.mark_dropped(entry.number)
        with suppress(Busy):  # it is dropped, and whoever comes next finishes it
            self.finish_drop(entry)
        self._forget_handles()

    def finish_drops(self) -> None:
        """Finish every drop that is decided, unless somebody still writes there: that is for the next to come."""
        for entry in self.catalog.dropped():
            with suppress(Busy):
                self.finish_drop(entry)

    def _finish_drops_of(self, name: str) -> None:
        """Those of one name, which is to be used again: whoever still writes there is waited for."""
        for entry in self.catalog.dropped():
            if entry.spec.name.lower() == name.lower():
                self.finish_drop(entry)

    def finish_drop(self, entry: Entry) -> None:
        """Close each region to writers, then remove the files. Each step may have been done before.

        The folder is renamed first, so that nobody opens a region's file after its log, where `dropped` is, has gone.
        """
        handle = self._open(entry)
        for path in handle.paths:
            with suppress(MissingFile), self.pool.use(path) as connection, connection.writing():
                connection.execute("UPDATE state SET dropped = 1")
            faults.reach("drop.region_closed")
        self.pool.close(under=handle.folder)
        leaving = handle.folder.with_name(f"{entry.number}-dropped")
        with translated(leaving), suppress(FileNotFoundError):
            handle.folder.rename(leaving)
        shutil.rmtree(leaving, ignore_errors=True)
        faults.reach("drop.files_gone")
        self.catalog.forget(entry.number)

    def close(self) -> None:
        """For good: whoever comes later hears that the database is closed."""
        self.pool.end()
        self.clock.close()


def check_open(state: rows.State) -> rows.State:
    """The state, if the table is still there."""
    if state.dropped:
        raise Dropped
    return state


def _check_folder(folder: Path) -> None:
    """Make the folder, or make sure that it is ours before anything is written into it."""
    with translated(folder), suppress(FileExistsError):
        folder.mkdir(parents=True)
    if folder.is_dir() and not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise ReadOnly(f'folder "{folder}" cannot be written', hint="check its permissions and owner")
    if not folder.is_dir() or (any(folder.iterdir()) and not (folder / "catalog.db").exists()):
        raise NotADatabase(
            f'"{folder}" is not a viewkeeper database', hint="name a new or empty folder, or one made by viewkeeper"
        )


def _check_format(found: int, folder: Path) -> None:
    if found > FORMAT:
        raise NewerFormat(
            f'database "{folder}" has format {found}, and this viewkeeper reads up to {FORMAT}',
            hint="install a newer viewkeeper",
        )
