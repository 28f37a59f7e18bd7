"""`open` and `Database`: make and drop tables, find them, group writes and reads."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from viewkeeper.database.snapshot import Snapshot
from viewkeeper.database.table import Table
from viewkeeper.database.transaction import Transaction
from viewkeeper.errors import InputError, NameTaken, NotFound, SchemaError
from viewkeeper.names import check_name
from viewkeeper.store.contract import Kind, Store, TableSpec
from viewkeeper.store.embedded import EmbeddedStore

if TYPE_CHECKING:
    from viewkeeper.sql.statements import CreateTable

DEFAULT_REGIONS = 4


def open(path: str | os.PathLike[str], *, durability: str = "full", timeout: float = 30.0) -> Database:
    """Open the database in a folder, or make it. Any number of processes may have it open.

    `durability` is what a power cut may take: with "full" nothing that was acknowledged, with "normal" the last moments,
    with "off" anything. A crash of a process takes nothing. `timeout` is how many seconds a call waits for another
    writer of the same rows before it gives up with `Busy`.
    """
    return Database(EmbeddedStore.open(Path(path), durability=durability, timeout=timeout))


class Database:
    """Tables in a store. Get one from `viewkeeper.open`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # Tables

    def execute(self, statement: str) -> None:
        """Run one SQL statement: CREATE TABLE or DROP TABLE."""
        from viewkeeper.sql.statements import CreateTable, DropTable, parse_statement

        match parse_statement(statement):
            case CreateTable() as create:
                self._create(create)
            case DropTable(name, if_exists):
                with suppress(*((NotFound,) if if_exists else ())):
                    self.drop(name)

    def _create(self, statement: CreateTable) -> None:
        regions = DEFAULT_REGIONS if statement.regions is None else statement.regions
        spec = TableSpec(
            statement.name, statement.schema, statement.key, statement.distribution or statement.key, regions
        )
        with suppress(*((NameTaken,) if statement.if_not_exists else ())):
            self._store.create(spec)

    def create_table(
        self,
        name: str,
        schema: Any,
        primary_key: str | Sequence[str] | None = None,
        *,
        regions: int = DEFAULT_REGIONS,
        distribution: str | Sequence[str] | None = None,
    ) -> Table:
        """Make a table from a DDL string, a PySpark StructType or a pyarrow schema.

        Rows that agree on `distribution` (the first columns of the key; all of them if left out) are kept in one of
        `regions` files.
        """
        from viewkeeper.sql.schemas import table_schema

        columns, key = table_schema(schema, primary_key)
        if isinstance(regions, bool) or not isinstance(regions, int) or not 1 <= regions <= 65_536:
            raise SchemaError(f'table "{name}" cannot have {regions!r} regions', hint="give a number from 1 to 65536")
        spread = (
            key if distribution is None else (distribution,) if isinstance(distribution, str) else tuple(distribution)
        )
        if not spread or spread != key[: len(spread)]:
            raise SchemaError(
                f'table "{name}" cannot be distributed by {", ".join(spread)}',
                hint=f"name the first columns of the key: {', '.join(key)}",
            )
        self._store.create(TableSpec(check_name(name, "table"), columns, key, spread, regions))
        return self.table(name)

    def drop(self, name: str) -> None:
        """Remove a table with its rows and its log."""
        self._store.drop(name)

    def table(self, name: str) -> Table:
        """The table of that name."""
        return Table(self._store, self._store.table(name))

    def tables(self) -> list[Table]:
        """Every table, by name."""
        return [Table(self._store, spec) for spec in self._store.tables() if spec.kind is Kind.BASE]

    # Many at once

    def transaction(self) -> Transaction:
        """Writes to any number of tables, all or nothing: `with db.transaction() as tx: tx.table("events").put(...)`."""
        return Transaction(self._store)

    def snapshot(self) -> Snapshot:
        """Every table at one point, held while writers go on: `with db.snapshot() as at: at.table("events").get(1)`."""
        return Snapshot(self._store)

    def trim(self, keep_seconds: float) -> int:
        """Let go of log entries older than this that nobody needs any more; how many changes went."""
        if keep_seconds < 0:
            raise InputError(f"logs cannot be kept for {keep_seconds} seconds", hint="give 0 or more")
        return self._store.trim(time.time() - keep_seconds)

    def close(self) -> None:
        """Let go of files. Nothing is lost without it."""
        self._store.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
