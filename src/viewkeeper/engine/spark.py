"""Spark, as the engine uses it: SQL over Arrow tables, and schemas of SQL over empty ones.

A session of ours is made when it is first needed. Temporary views live in a session derived from it, so nothing of a
user's own session is seen or disturbed, and the settings that a view's truth rests on are the same for everyone: ANSI
(an overflow is an error, not a wrong number) and UTC.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from viewkeeper import errors
from viewkeeper.errors import QueryFailed, StatementError, ViewkeeperError
from viewkeeper.sql.schemas import arrow_schema, ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.autoBroadcastJoinThreshold": "64m",
}
SMALL_SETTINGS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
}
"""For a handful of rows: compiling the plan would take longer than running it."""

LARGE = 50_000
"""Rows from which a query is worth compiling and more than one task."""


class Spark:
    """A lazily started session, and the SQL that runs in it."""

    def __init__(self, session: SparkSession | None = None) -> None:
        self._given = session
        self._sessions: dict[bool, SparkSession] = {}
        self._lock = threading.RLock()
        self._names = 0
        self.actions = 0

    def session(self, large: bool = True) -> SparkSession:
        """The session for large or small inputs."""
        with self._lock:
            if large not in self._sessions:
                derived = (self._given or _local_session()).newSession()
                for name, value in {**SETTINGS, **({} if large else SMALL_SETTINGS)}.items():
                    derived.conf.set(name, value)
                self._sessions[large] = derived
            return self._sessions[large]

    def schema(self, sql: str, tables: Mapping[str, pa.Schema]) -> pa.Schema:
        """The schema of a query over empty tables. No job."""
        with self._lock:
            session = self.session(large=False)
            self._register(session, {name: schema.empty_table() for name, schema in tables.items()})
            with _Explained(sql, analysing=True):
                return arrow_schema(session.sql(sql).schema)

    def run(self, sql: str, tables: Mapping[str, pa.Table | DataFrame], schema: pa.Schema | None = None) -> pa.Table:
        """The rows of a query, as the given schema if there is one."""
        size = sum(table.num_rows if isinstance(table, pa.Table) else LARGE for table in tables.values())
        with self._lock:
            session = self.session(large=size >= LARGE)
            self._register(session, tables)
            self.actions += 1
            with _Explained(sql, analysing=False):
                frame = session.sql(sql)
                wanted = arrow_schema(frame.schema) if schema is None else schema
                return frame.toArrow().rename_columns(wanted.names).cast(wanted)

    def frame(self, sql: str, tables: Mapping[str, pa.Table]) -> DataFrame:
        """A query as a DataFrame, for a user to go on with."""
        with self._lock:
            session = self.session()
            self._register(session, tables)
            with _Explained(sql, analysing=True):
                return session.sql(sql)

    def collect(self, frame: DataFrame) -> pa.Table:
        """Run a DataFrame of ours."""
        with self._lock:
            self.actions += 1
            with _Explained("tasks", analysing=False):
                return frame.toArrow()

    def name(self) -> str:
        """A new name for a temporary view."""
        self._names += 1
        return f"_vk_f{self._names}"

    def _register(self, session: SparkSession, tables: Mapping[str, pa.Table | DataFrame]) -> None:
        for name, table in tables.items():
            frame = _frame(session, table) if isinstance(table, pa.Table) else table
            frame.createOrReplaceTempView(name)


def _frame(session: SparkSession, table: pa.Table) -> Any:
    """Arrow as a DataFrame of exactly our types.

    In one chunk: Spark takes an empty batch in the middle of a table for its end, and drops every row after it.
    """
    return session.createDataFrame(table.combine_chunks(), ddl(table.schema))


def _local_session() -> SparkSession:
    """Spark in this process, quiet, with the interpreter that runs us for its Python workers."""
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    # A failing row reaches the caller as our error. PySpark logs it as well, with a stack of 8,000 characters, each time.
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel("CRITICAL")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    cores = os.cpu_count() or 1
    builder = SparkSession.builder.master(os.environ.get("VIEWKEEPER_SPARK_MASTER", f"local[{cores}]"))
    settings = {
        "spark.app.name": "viewkeeper",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.log.level": "ERROR",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.artifact.isolation.enabled": "false",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _raise_if_ours(text: str) -> None:
    """An error of ours in a worker comes back as text. What is not the query's fault must not look like it."""
    found = re.search(r"viewkeeper\.errors\.(\w+): (.*)", text)
    kind = getattr(errors, found[1], None) if found else None
    if found is not None and isinstance(kind, type) and issubclass(kind, ViewkeeperError):
        raise kind(found[2])


class _Explained:
    """Spark's errors as ours: a wrong query is the caller's, a failing row the data's."""

    def __init__(self, sql: str, *, analysing: bool) -> None:
        self._sql = sql
        self._analysing = analysing

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        from pyspark.errors import PySparkException

        if not isinstance(error, PySparkException):
            return
        text = str(error).split("JVM stacktrace")[0].strip().splitlines()
        line = next((part for part in text if part.strip()), "unknown error")
        _raise_if_ours(str(error))
        if self._analysing:
            raise StatementError(f"Spark cannot analyse the query: {line}", sql=self._sql) from error
        raise QueryFailed(f"the query fails: {line}", hint="mend the row or the query", sql=self._sql) from error
