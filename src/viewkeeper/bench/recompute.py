"""The same work by hand: Spark evaluates a view's query anew, from Parquet to Parquet.

It runs in the same process as ours, in a session with the settings that suit it best here: adaptive execution, compiled
plans, a partition per core.
"""

from __future__ import annotations

import os
from pathlib import Path
from time import perf_counter

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from viewkeeper.bench.workload import Query

SETTINGS = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
    "spark.sql.session.timeZone": "UTC",
}


class Recompute:
    """Queries over the tables that `Tables.export` left in a folder."""

    def __init__(self, base: SparkSession, folder: Path) -> None:
        self.folder = folder
        self.session = base.newSession()
        for name, value in SETTINGS.items():
            self.session.conf.set(name, value)

    def run(self, query: Query) -> float:
        """Seconds. The tables are found anew each time, as a job that comes along would find them."""
        started = perf_counter()
        for name in ("r", "s"):
            self.session.read.parquet(str(self.folder / f"{name}.parquet")).createOrReplaceTempView(name)
        self.session.sql(query.sql).write.mode("overwrite").parquet(str(self._result(query)))
        return perf_counter() - started

    def result(self, query: Query) -> pa.Table:
        return pq.read_table(self._result(query))

    def _result(self, query: Query) -> Path:
        return self.folder / f"{query.name}.result"

    def keep_changes(self, changes: pa.Table) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(changes, self.folder / "changes.parquet")

    def group_changes(self) -> None:
        """The least that anybody has to do who follows them: read, bring together what belongs together."""
        changes = self.session.read.parquet(str(self.folder / "changes.parquet"))
        grouped = changes.groupBy("x").agg({"y": "sum", "k": "count"})
        grouped.write.format("noop").mode("overwrite").save()
