"""Spark, as the engine uses it: SQL over Arrow tables, and schemas of SQL over empty ones.

A session of ours is made when it is first needed. Temporary views live in a session derived from it, so nothing of a
user's own session is seen or disturbed, and the settings that a view's truth rests on are the same for everyone: ANSI
(an overflow is an error, not a wrong number), UTC, and how the text is read (`MEANING`).

Whatever parses SQL is imported where it is needed: this module is loaded by everyone, and most only read and write rows.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from viewkeeper import errors
from viewkeeper.errors import QueryFailed, SparkFailed, StatementError, ViewkeeperError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MEANING = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.ansi.relationPrecedence": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.groupByAliases": "true",
    "spark.sql.groupByOrdinal": "true",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.orderByOrdinal": "true",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.parser.singleCharacterPipeOperator.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.variable.substitute": "false",
}
"""What the text of a query means: Spark's own defaults, but for UTC and two more.

`|` is no pipe, since the parser takes it for the operator; `${env:HOME}` is no variable, since it is another one elsewhere.
"""

LEGACY = "spark.sql.legacy."
"""Settings that bring back what an older Spark did, each in a corner of its own: none holds here."""

SETTINGS = {
    **MEANING,
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

LARGE_SETTINGS = {"spark.sql.execution.arrow.localRelationThreshold": "1m"}
"""Else Spark makes rows of its own of up to 48 MB of Arrow: a million of them take a quarter of a gigabyte of its memory."""

FORGETFUL = {
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "500",
    "spark.sql.ui.retainedExecutions": "10",
}
"""Spark remembers what it ran for a page that we do not show: by default a thousand statements, which a run has soon."""

LARGE = 50_000
"""Rows from which a query is worth compiling and more than one task."""


class _OfThread(threading.local):
    """What each thread has for itself: temporary views of one name must not meet, nor one group wait for another."""

    def __init__(self) -> None:
        self.sessions: dict[bool, SparkSession] = {}
        self.empty: dict[str, tuple[str, pa.Schema]] = {}
        """What stands for a table without rows in the session for small inputs, which nobody but us gets to see: by the name
        in small letters, as Spark tells names apart, the name and the columns."""
        self.actions = 0


class Spark:
    """A lazily started session, and the SQL that runs in it. Threads do not wait for each other."""

    def __init__(self, session: SparkSession | None = None) -> None:
        self._given = session
        self._starting = threading.Lock()
        self._own = _OfThread()

    @property
    def actions(self) -> int:
        """How many statements this thread has run."""
        return self._own.actions

    def session(self, large: bool = True) -> SparkSession:
        """This thread's session for large or small inputs."""
        sessions = self._own.sessions
        if large not in sessions:
            with self._starting:
                derived = (self._given or _local_session()).newSession()
            _settle(derived, {**SETTINGS, **(LARGE_SETTINGS if large else SMALL_SETTINGS)})
            sessions[large] = derived
        return sessions[large]

    def schema(self, sql: str, tables: Mapping[str, pa.Schema]) -> pa.Schema:
        """The schema of a query over empty tables. No job."""
        from viewkeeper.sql.schemas import arrow_schema

        session = self.session(large=False)
        with _Explained(sql, analysing=True):
            self._register({name: schema.empty_table() for name, schema in tables.items()}, large=False)
            return arrow_schema(session.sql(sql).schema)

    def run(self, sql: str, tables: Mapping[str, pa.Table | DataFrame], schema: pa.Schema | None = None) -> pa.Table:
        """The rows of a query, as the given schema if there is one."""
        from viewkeeper.sql.schemas import arrow_schema

        size = sum(table.num_rows if isinstance(table, pa.Table) else LARGE for table in tables.values())
        session = self.session(large=size >= LARGE)
        with _Explained(sql, analysing=False):
            self._register(tables, large=size >= LARGE)
            self._own.actions += 1
            frame = session.sql(sql)
            wanted = arrow_schema(frame.schema) if schema is None else schema
            found = frame.toArrow().rename_columns(wanted.names).cast(wanted)
        if size >= LARGE:
            _forget(session, tables)
        return found

    def frame(self, sql: str, tables: Mapping[str, pa.Table]) -> DataFrame:
        """A query as a DataFrame, for a user to go on with."""
        session = self.session()
        with _Explained(sql, analysing=True):
            self._register(tables, large=True)
            return session.sql(sql)

    def collect(self, frame: DataFrame) -> pa.Table:
        """Run a DataFrame of ours."""
        with _Explained("tasks", analysing=False):
            self._own.actions += 1
            return frame.toArrow()

    def _register(self, tables: Mapping[str, pa.Table | DataFrame], *, large: bool) -> None:
        """Give tables their names. To name an empty one again would take Spark as long as to analyse a query over it."""
        for name, table in tables.items():
            described = (
                (name, table.schema) if isinstance(table, pa.Table) and not table.num_rows and not large else None
            )
            known = None if large else self._own.empty.pop(name.lower(), None)
            if described is None or known is None or not _are_same(described, known):
                frame = _frame(self.session(large), table) if isinstance(table, pa.Table) else table
                frame.createOrReplaceTempView(name)
            if described is not None:
                self._own.empty[name.lower()] = described


def _are_same(one: tuple[str, pa.Schema], other: tuple[str, pa.Schema]) -> bool:
    return one[0] == other[0] and one[1].equals(other[1], check_metadata=True)


def _settle(session: SparkSession, settings: Mapping[str, str]) -> None:
    """A new session has what the application was started with: none of that may change what a view says."""
    for name in session.conf.getAll:
        if name.startswith(LEGACY):
            session.conf.unset(name)
    for name, value in settings.items():
        session.conf.set(name, value)


def _frame(session: SparkSession, table: pa.Table) -> Any:
    """Arrow as a DataFrame of exactly our types.

    In one chunk: Spark takes an empty batch in the middle of a table for its end, and drops every row after it.
    """
    from viewkeeper.sql.schemas import ddl

    return session.createDataFrame(table.combine_chunks(), ddl(table.schema))


def _forget(session: SparkSession, tables: Iterable[str]) -> None:
    """A table that Spark has a name for stays in its memory: a large one must not until the next one takes the name."""
    for name in tables:
        session.catalog.dropTempView(name)


def _local_session() -> SparkSession:
    from viewkeeper.engine.archive import java_options

    return local_session(java_options())


def local_session(java: str) -> SparkSession:
    """Spark in this process, quiet, with the interpreter that runs us for its Python workers. `java` are options of Java's.

    With VIEWKEEPER_SPARK_MASTER the workers are processes elsewhere on this machine: they look for us where we were found.
    """
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
        "spark.driver.defaultJavaOptions": java,
        "spark.driver.memory": "2g",
        "spark.executor.defaultJavaOptions": java,
        "spark.executorEnv.PYTHONPATH": str(Path(errors.__file__).parents[1]),
        "spark.log.level": "ERROR",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.artifact.isolation.enabled": "false",
    }
    for name, value in {**settings, **FORGETFUL}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _raise_if_ours(text: str) -> None:
    """An error of ours in a worker comes back as text. What is not the query's fault must not look like it."""
    found = re.search(r"viewkeeper\.errors\.(\w+): (.*)", text)
    kind = getattr(errors, found[1], None) if found else None
    if found is not None and isinstance(kind, type) and issubclass(kind, ViewkeeperError):
        raise kind(found[2])


class _Explained:
    """Spark's errors as ours: a wrong query is the caller's, a failing row the data's, and the rest Spark's own.

    A row's failure has an SQL state that says so; a lost executor, worker or connection has none. The difference is whether
    the view stops, or the epoch is tried again.
    """

    def __init__(self, sql: str, *, analysing: bool) -> None:
        self._sql = sql
        self._analysing = analysing

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        if not isinstance(error, PySparkException | Py4JError | OSError) or isinstance(error, ViewkeeperError):
            return
        _raise_if_ours(str(error))
        raise self._explained(error) from error

    def _explained(self, error: Exception) -> ViewkeeperError:
        from pyspark.errors import AnalysisException, PySparkException, PythonException

        text = str(error)
        if isinstance(error, PythonException):
            hint = "the query is not at fault: the next refresh tries again; if it fails each time, report it"
            return SparkFailed(f"Python failed in a Spark task: {_last_error(text)}", hint=hint, sql=self._sql)
        known = isinstance(error, PySparkException) and error.getCondition() is not None
        state = error.getSqlState() if isinstance(error, PySparkException) else None
        found = re.search(r"\[\w+[^\n]*SQLSTATE: (\w{5})", text)
        planning = self._analysing or isinstance(error, AnalysisException)
        if _is_sparks_own(state or (found[1] if found else None), known=known, planning=planning):
            hint = "nothing is lost: the next refresh goes on"
            return SparkFailed(f"Spark failed: {_first_line(text)}", hint=hint, sql=self._sql)
        line = found[0] if state is None and found else _first_line(text)
        if self._analysing:
            return StatementError(f"Spark cannot analyse the query: {line}", sql=self._sql)
        return QueryFailed(f"the query fails: {line}", hint="mend the row or the query", sql=self._sql)


def _is_sparks_own(state: str | None, *, known: bool, planning: bool) -> bool:
    """Whether an error is about Spark and its machines, by the class of its SQL state: the rest is about the query.

    A lost executor or connection has no state, and no name that Spark gives to its errors. XX is Spark's bewilderment: by a task
    that is being run, or, while it plans, by the query (`SELECT k, SUM(v) AS s ... HAVING MAX(s) > 1`).
    """
    if state is None:
        return not known
    return state[:2] in {"08", "53", "57", "58"} or (state[:2] == "XX" and not planning)


def _last_error(traceback: str) -> str:
    """What stands under the last line of a Python traceback's stack.

    >>> _last_error(
    ...     "Traceback (most recent call last):\\n  File ...\\n    x()\\nKeyError: 'k'\\n\\nJVM stacktrace: ..."
    ... )
    "KeyError: 'k'"
    """
    lines = traceback.split("JVM stacktrace")[0].strip().splitlines()
    stack = max((place for place, line in enumerate(lines) if line.startswith("  ")), default=-1)
    return next((line for line in lines[stack + 1 :] if line.strip()), lines[-1] if lines else "unknown error")


def _first_line(text: str) -> str:
    lines = text.split("JVM stacktrace")[0].strip().splitlines()
    return next((part for part in lines if part.strip()), "unknown error")
