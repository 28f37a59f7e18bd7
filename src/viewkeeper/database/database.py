"""`open` and `Database`: make and drop tables, find them, group writes and reads."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from viewkeeper.database.progress import shown_progress
from viewkeeper.database.snapshot import Snapshot
from viewkeeper.database.table import Table
from viewkeeper.database.transaction import Transaction
from viewkeeper.database.view import View, ViewStatus
from viewkeeper.engine.catalog import HISTORY, ViewCatalog
from viewkeeper.engine.leadership import Leadership
from viewkeeper.engine.maintainer import Maintainer
from viewkeeper.engine.oracle import shown_rows
from viewkeeper.engine.reports import EpochReport, RefreshReport, Verification, ViewReport
from viewkeeper.engine.spark import Spark
from viewkeeper.errors import InputError, NameTaken, NotFound, NotMaintainable, SchemaError
from viewkeeper.maintain.definitions import Definition
from viewkeeper.maintain.explain import explain
from viewkeeper.names import check_name
from viewkeeper.store.contract import Cut, Kind, Store, TableSpec
from viewkeeper.store.embedded import EmbeddedStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from viewkeeper.sql.statements import CreateTable, CreateView

DEFAULT_REGIONS = 4


def open(
    path: str | os.PathLike[str], *, spark: SparkSession | None = None, durability: str = "full", timeout: float = 30.0
) -> Database:
    """Open the database in a folder, or make it. Any number of processes may have it open.

    `durability` is what a power cut may take: with "full" nothing that was acknowledged, with "normal" the last moments,
    with "off" anything. A crash of a process takes nothing. `timeout` is how many seconds a call waits for another
    writer of the same rows before it gives up with `Busy`. `spark` is a session to use; else one is started in this
    process when a view first needs it.
    """
    return Database(EmbeddedStore.open(Path(path), durability=durability, timeout=timeout), spark=spark)


class Database:
    """Tables in a store. Get one from `viewkeeper.open`."""

    def __init__(self, store: Store, *, spark: SparkSession | None = None) -> None:
        self._store = store
        self._spark = Spark(spark)
        self._catalog = ViewCatalog(store)
        self._maintainer = Maintainer(store, self._spark, self._catalog, Leadership(store))

    # Tables

    def execute(self, statement: str) -> None:
        """Run one SQL statement: CREATE or DROP a TABLE or a MATERIALIZED VIEW."""
        from viewkeeper.sql.statements import CreateTable, CreateView, DropTable, DropView, parse_statement

        match parse_statement(statement):
            case CreateTable() as create:
                self._create(create)
            case DropTable(name, if_exists):
                with suppress(*((NotFound,) if if_exists else ())):
                    self._drop_table(name)
            case CreateView() as create_view:
                self._create_view(create_view)
            case DropView(name, if_exists):
                with suppress(*((NotFound,) if if_exists else ())):
                    self._drop_view(name)

    def _create_view(self, statement: CreateView) -> None:
        with suppress(*((NameTaken,) if statement.if_not_exists else ())):
            self.create_view(
                statement.name,
                statement.query,
                refresh=str(statement.refresh),
                policy=statement.policy.value,
                cluster_by=statement.cluster,
            )

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
        """Remove a table or a view with its rows and its log. Refused while a view stands on it."""
        if self._store.table(name).kind is Kind.BASE:
            self._drop_table(name)
        else:
            self._drop_view(name)

    def _drop_table(self, name: str) -> None:
        spec = self._store.table(name)
        if spec.kind is not Kind.BASE:
            raise InputError(f'"{spec.name}" is a view', hint=f"DROP MATERIALIZED VIEW {spec.name}")
        self._refuse_if_needed(spec.name)
        self._store.drop(spec.name)

    def _drop_view(self, name: str) -> None:
        definition = self._catalog.definition(name)
        self._refuse_if_needed(definition.name)
        self._maintainer.drop(definition.name)

    def _refuse_if_needed(self, name: str) -> None:
        users = self._catalog.dependents(name)
        if users:
            named = ", ".join(f'"{user}"' for user in users)
            raise InputError(
                f'"{name}" cannot be dropped: {named} stand on it', hint="drop them first", dependents=users
            )

    def table(self, name: str) -> Table:
        """The table of that name."""
        spec = self._store.table(name)
        if spec.kind is not Kind.BASE:
            raise InputError(
                f'"{spec.name}" is a view: it follows its tables', hint=f'read it with db.view("{spec.name}")'
            )
        return Table(self._store, spec)

    def tables(self) -> list[Table]:
        """Every table, by name."""
        return [Table(self._store, spec) for spec in self._store.tables() if spec.kind is Kind.BASE]

    # Views

    def create_view(
        self,
        name: str,
        query: str,
        *,
        refresh: str = "on demand",
        policy: str = "auto",
        cluster_by: str | Sequence[str] = (),
        regions: int = DEFAULT_REGIONS,
    ) -> View:
        """Make a view of a query and fill it, while writers go on.

        `refresh` is "on demand" or "every 2 seconds"; views of one schedule form a group and are always at one cut.
        `policy` is "auto", "incremental" (refused if some construct has no delta rule) or "full". `cluster_by` arranges
        the rows by columns, for `find`.
        """
        from viewkeeper.sql.refresh import Immediate, parse_policy, parse_refresh

        schedule = parse_refresh(refresh)
        if isinstance(schedule, Immediate):
            raise NotMaintainable("immediate views are not there yet", hint='use "on demand" or "every 1 second"')
        cluster = (cluster_by,) if isinstance(cluster_by, str) else tuple(cluster_by)
        definition = Definition(
            check_name(name, "view"), query, str(schedule), parse_policy(policy).value, cluster, regions
        )
        self._maintainer.create(definition)
        return self.view(name)

    def view(self, name: str) -> View:
        """The view of that name."""
        definition = self._catalog.definition(name)
        return View(
            self._store, self._catalog.plan(definition).shape, self._spark, lambda: self._view_status(definition)
        )

    def views(self) -> list[View]:
        """Every view, in the order of creation."""
        return [self.view(definition.name) for definition in self._catalog.definitions()]

    def refresh(self, name: str | None = None) -> RefreshReport:
        """Bring every group, or the group of one view, to the newest cut; returns when committed."""
        definitions = self._catalog.definitions() if name is None else [self._catalog.definition(name)]
        groups = dict.fromkeys(definition.group for definition in definitions)
        with shown_progress(self._maintainer):
            return RefreshReport(tuple(self._maintainer.refresh(group) for group in groups))

    def explain(self, name: str) -> str:
        """How a view is maintained: blocks, strategy and reason, indexes, the way of each change."""
        definition = self._catalog.definition(name)
        return explain(self._catalog.plan(definition), definition.group, self._catalog.plans(definition.group))

    def verify(self, name: str) -> Verification:
        """A view beside its query evaluated from scratch at the view's own cut, both ways."""
        return self._maintainer.verify(name)

    def repair(self, name: str) -> ViewReport:
        """Make a view what its query says, by applying exactly the difference."""
        return self._maintainer.repair(name)

    def status(self) -> list[ViewStatus]:
        """Where every view is."""
        return [self._view_status(definition) for definition in self._catalog.definitions()]

    def history(self, name: str | None = None) -> list[EpochReport]:
        """The reports of past epochs, oldest first; of one view's group if a view is named."""
        prefix = HISTORY if name is None else f"{HISTORY}{self._catalog.definition(name).group}/"
        return [EpochReport.of_text(text) for text in self._store.records(prefix).values()]

    def _view_status(self, definition: Definition) -> ViewStatus:
        plan = self._catalog.plan(definition)
        committed = self._store.group(definition.group).committed
        failure = self._catalog.failures().get(plan.name)
        return ViewStatus(
            plan.name,
            definition.group,
            plan.strategy.value,
            plan.reason,
            committed.epoch,
            sum(self._waiting(table, committed.cut) for table in self._catalog.base_tables(plan)),
            self._last_report(definition),
            None if failure is None else str(failure["error"]),
        )

    def _last_report(self, definition: Definition) -> ViewReport | None:
        """From the newest epoch back: nearly always it is in the first one that is looked at."""
        for text in reversed(self._store.records(f"{HISTORY}{definition.group}/").values()):
            found = next((view for view in EpochReport.of_text(text).views if view.view == definition.name), None)
            if found is not None:
                return found
        return None

    def _waiting(self, table: str, cut: Cut) -> int:
        """Changes of a base table that the group has not seen."""
        if table not in cut:
            return 0
        return self._store.backlog(table, cut[table], self._store.positions(table))

    def sql(self, query: str) -> DataFrame:
        """Any Spark SQL over committed tables and views, as a DataFrame."""
        from viewkeeper.sql.queries import tables_of

        shapes = self._catalog.shapes()
        used = tables_of(query, {name: shape.columns for name, shape in shapes.items()})
        return self._spark.frame(query, {name: shown_rows(self._store, shapes[name]) for name in used})

    # Many at once

    def transaction(self) -> Transaction:
        """Writes to any number of tables, all or nothing: `with db.transaction() as tx: tx.table("events").put(...)`."""
        return Transaction(self._store)

    def snapshot(self) -> Snapshot:
        """Every table at one point, held while writers go on: `with db.snapshot() as at: at.table("events").get(1)`."""
        return Snapshot(self._store, self._catalog)

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
