"""A Spark for the next experiment when the last one has taken Java down with it.

PySpark keeps the way to its Java process for as long as Python lives, and says that nobody is there when that process is gone.
Forgetting the way makes it start another. Databases that were open hold sessions of the old one: they are opened anew.
"""

from __future__ import annotations

from typing import Any

from viewkeeper.bench.shared import Shared


def revive(shared: Shared) -> bool:
    """Whether Spark had died, and was forgotten. Nothing is started: the next who needs it does that."""
    from pyspark import SparkContext

    if SparkContext._active_spark_context is None or _answers(SparkContext._active_spark_context):
        return False
    _forget()
    shared.reopen()
    return True


def _answers(context: Any) -> bool:
    try:
        return not context._jsc.sc().isStopped()
    except Exception:
        return False


def _forget() -> None:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context: Any = SparkContext
    context._active_spark_context = None
    context._gateway = None
    context._jvm = None  # or the next session's settings would be asked of the process that is gone
    session: Any = SparkSession
    session._instantiatedSession = None
