"""`open` and `Database`: make and drop tables, find them, group writes and reads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from viewkeeper.database.progress import shown_progress
from viewkeeper.database.snapshot import Snapshot
from viewkeeper.database.table import Table, base_table
from viewkeeper.database.transaction import Transaction
from viewkeeper.database.view import View, ViewStatus
from viewkeeper.engine.catalog import HISTORY, ViewCatalog
from viewkeeper.engine.reports import EpochReport, RefreshReport, Verification, ViewReport
from viewkeeper.engine.spark import Spark
from viewkeeper.engine.waiting import Waiting
from viewkeeper.errors import InputError, NameTaken, NotFound, SchemaError
from viewkeeper.maintain.definitions import Definition
from viewkeeper.maintain.explain import explain
from viewkeeper.names import COUNT, check_name
from viewkeeper.service.immediate import Writer
from viewkeeper.store.contract import Kind, Store, TableSpec
from viewkeeper.store.embedded import EmbeddedStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from viewkeeper.engine.maintainer import Maintainer
    from viewkeeper.engine.together import Together
    from viewkeeper.service.reports import RunReport
    from viewkeeper.service.stopping import Until
    from viewkeeper.sql.statements import CreateTable, CreateView

DEFAULT_REGIONS = 4


def open(
    path: str | os.PathLike[str],
    *,
    spark: SparkSession | None = None,
    durability: str = "full",
    timeout: float = 30.0,
    create: bool = True,
) -> Database:
    """Open the database in a folder, or make it. Any number of processes may have it open.

    `durability` is what a power cut may take: with "full" nothing that was acknowledged; with "normal" the last writes of each
    file, of one more than of another, so that transactions may be split and views may not fit their tables; with "off"
    anything. A crash of a process takes nothing. `timeout` is how many seconds a call waits for another
    writer of the same rows before it gives up with `Busy`. `spark` is a session to use; else one is started in this
    process when a view first needs it. With `create=False` a folder that holds no database is an error.
    """
    if not create and not EmbeddedStore.is_in(path):
        raise NotFound(f'there is no database in "{os.fspath(path)}"', hint="look at the name, or make one there first")
    return Database(EmbeddedStore.open(Path(path), durability=durability, timeout=timeout), spark=spark)


class Database:
    """Tables in a store. Get one from `viewkeeper.open`."""

    def __init__(self, store: Store, *, spark: SparkSession | None = None) -> None:
        self._store = store
        self._spark = Spark(spark)
        self._catalog = ViewCatalog(store)
        self._writer = Writer(store, lambda requests: self._together.write(requests))

    @cached_property
    def _together(self) -> Together:
        from viewkeeper.engine.together import Together

        return Together(self._maintainer)

    @cached_property
    def _maintainer(self) -> Maintainer:
        """What runs epochs. Whoever only reads and writes rows does not wait for its modules."""
        from viewkeeper.engine.leadership import Leadership
        from viewkeeper.engine.maintainer import Maintainer

        return Maintainer(self._store, self._spark, self._catalog, Leadership(self._store))

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
        """The table that has the name now, and not one that takes it while we look for views over this one."""
        from viewkeeper.engine.removal import Removal

        spec = self._store.table(name)
        if spec.kind is not Kind.BASE:
            raise InputError(f'"{spec.name}" is a view', hint=f"DROP MATERIALIZED VIEW {spec.name}")
        Removal(self._maintainer).end_dead_creations(spec.name)
        with self._catalog.going(spec.name):
            self._store.drop(spec.name, spec.number)

    def _drop_view(self, name: str) -> None:
        from viewkeeper.engine.removal import Removal

        Removal(self._maintainer).drop(self._catalog.definition(name).name)

    def table(self, name: str) -> Table:
        """The table of that name."""
        return Table(self._store, base_table(self._store, name), self._writer)

    def tables(self) -> list[Table]:
        """Every table, by name."""
        return [Table(self._store, spec, self._writer) for spec in self._store.tables() if spec.kind is Kind.BASE]

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

        `refresh` is "on demand", "every 2 seconds" or "immediate": a write to a table under an immediate view returns when
        the view has it too. Views of one schedule form a group and are always at one cut.
        `policy` is "auto", "incremental" (refused if some construct has no delta rule) or "full". `cluster_by` arranges
        the rows by columns, for `find`.
        """
        from viewkeeper.engine.creation import Creation
        from viewkeeper.sql.refresh import parse_policy, parse_refresh
        from viewkeeper.sql.words import only_statement

        cluster = (cluster_by,) if isinstance(cluster_by, str) else tuple(cluster_by)
        definition = Definition(
            check_name(name, "view"),
            only_statement(query),
            str(parse_refresh(refresh)),
            parse_policy(policy).value,
            cluster,
            regions,
        )
        Creation(self._maintainer).create(definition)
        return self.view(name)

    def view(self, name: str) -> View:
        """The view of that name."""
        return View(
            self._store,
            lambda: self._catalog.shape_of(name),
            self._spark,
            lambda: self._view_status(self._catalog.definition(name)),
        )

    def views(self) -> list[View]:
        """Every view, in the order of creation."""
        return [self.view(definition.name) for definition in self._catalog.definitions()]

    def refresh(self, name: str | None = None) -> RefreshReport:
        """Bring every group, or the group of one view, to the newest cut; returns when committed."""
        definitions = self._catalog.definitions() if name is None else [self._catalog.definition(name)]
        groups = dict.fromkeys(definition.group for definition in definitions)
        with shown_progress(self._maintainer):
            return RefreshReport(
                tuple(self._maintainer.refresh(group) for group in self._catalog.lineage().in_order(groups))
            )

    def run(
        self,
        until: Until = None,
        *,
        metrics_port: int | None = None,
        most_changes: int = 1_000_000,
        on_epoch: Callable[[EpochReport], None] | None = None,
        keep_seconds: float | None = 3600,
    ) -> RunReport:
        """Keep every view fresh by its schedule, until a number of seconds is over, an event is set, or a signal comes.

        `db.run(60)` runs for a minute; `db.run()` until SIGINT (Ctrl-C) or SIGTERM. Epochs under way are finished first.
        Several processes may run one database: one maintains it, the others stand by and take over if it dies or hangs.

        `most_changes` bounds one epoch: a storm of changes is cut into several. `on_epoch` is called with the report of
        each, in the thread of its group. With `metrics_port` (0: any free one) Prometheus can read metrics on this machine.
        Logs are trimmed to `keep_seconds` (None: never), as `trim` does it.
        What happens is logged under "viewkeeper.run". Failures are logged, counted and tried again; they do not end the run.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, open(f"{folder}/shop.vk") as db:
        ...     db.run(0.1).epochs
        0
        """
        from viewkeeper.service.runner import Runner

        runner = Runner(
            self._maintainer,
            self._catalog,
            self._store,
            most_changes,
            metrics_port,
            on_epoch,
            keep_seconds=keep_seconds,
        )
        return runner.run(until)

    def explain(self, name: str) -> str:
        """How a view is maintained: blocks, strategy and reason, indexes, the way of each change."""
        definition = self._catalog.definition(name)
        return explain(self._catalog.plan(definition), definition.group, self._catalog.plans(definition.group))

    def verify(self, name: str) -> Verification:
        """A view beside its query evaluated from scratch at the view's own cut, both ways."""
        from viewkeeper.engine.proof import Proof

        return Proof(self._maintainer).verify(name)

    def repair(self, name: str) -> ViewReport:
        """Make a view what its query says, by applying exactly the difference."""
        from viewkeeper.engine.proof import Proof

        return Proof(self._maintainer).repair(name)

    def status(self) -> list[ViewStatus]:
        """Where every view is."""
        return [self._view_status(definition) for definition in self._catalog.definitions()]

    def history(self, name: str | None = None) -> list[EpochReport]:
        """The reports of past epochs, oldest first; of one view's group if a view is named."""
        prefix = HISTORY if name is None else f"{HISTORY}{self._catalog.definition(name).group}/"
        return [EpochReport.of_text(text) for text in self._store.records(prefix).values()]

    def _view_status(self, definition: Definition) -> ViewStatus:
        summary = self._catalog.summary(definition)
        committed = self._store.group(definition.group).committed
        stop = self._catalog.stop(definition.name)
        waiting = Waiting.for_view(self._store, self._catalog, definition)
        last = self._last_report(definition, committed.epoch)
        return ViewStatus(
            definition.name,
            definition.group,
            summary.strategy,
            summary.reason,
            committed.epoch,
            waiting.changes,
            None if last is None else next(view for view in last.views if view.view == definition.name),
            stop.error if stop is not None and stop.stands_at(committed.epoch) else None,
            rows=self._store.count(definition.name, weight=COUNT if summary.counted else None),
            lag=waiting.seconds,
            refreshed=None if last is None else last.finished,
        )

    def _last_report(self, definition: Definition, epoch: int) -> EpochReport | None:
        """The newest epoch that says something about a view: nearly always the committed one, else from there back."""
        for text in self._newest_first(f"{HISTORY}{definition.group}/", epoch):
            report = EpochReport.of_text(text)
            if any(view.view == definition.name for view in report.views):
                return report
        return None

    def _newest_first(self, prefix: str, epoch: int) -> Iterator[str]:
        newest = self._store.record(f"{prefix}{epoch:012d}")
        if newest is not None:
            yield newest
        yield from reversed(self._store.records(prefix).values())

    def sql(self, query: str) -> DataFrame:
        """Any Spark SQL over committed tables and views, as a DataFrame; everything it names is read at one point.

        Tables alone are as they are now. Beside views they are where a snapshot has them, so that both agree.
        """
        from viewkeeper.sql.queries import tables_of

        used = tables_of(query, {name: shape.columns for name, shape in self._catalog.shapes().items()})
        return self._spark.frame(query, Snapshot(self._store, self._catalog, used).rows(used))

    # Many at once

    def transaction(self) -> Transaction:
        """Writes to any number of tables, all or nothing: `with db.transaction() as tx: tx.table("events").put(...)`."""
        return Transaction(self._store, self._writer)

    def snapshot(self) -> Snapshot:
        """Every table at one point, held while writers go on: `with db.snapshot() as at: at.table("events").get(1)`."""
        return Snapshot(self._store, self._catalog)

    def trim(self, keep_seconds: float) -> int:
        """Let go of log entries older than this that nobody needs any more; how many changes went."""
        from viewkeeper.service.retention import trim

        return trim(self._maintainer, keep_seconds)

    def close(self) -> None:
        """Let go of files. Nothing is lost without it."""
        self._store.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
