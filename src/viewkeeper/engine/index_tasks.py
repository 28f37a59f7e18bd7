"""Indexes in large epochs, as Spark tasks: a table's log, or all of its rows, arranged by other columns."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pyarrow as pa

from viewkeeper.engine.parcels import PARCEL, PLACE, opened, parcels, sent
from viewkeeper.engine.point import Step
from viewkeeper.engine.spark import Spark
from viewkeeper.engine.tasks import Remote
from viewkeeper.maintain.delta.rows import as_desired, without
from viewkeeper.sql.schemas import ddl
from viewkeeper.store.contract import TableSpec
from viewkeeper.store.regions import regions_of

DONE = pa.schema([("region", pa.int32())])
"""A task must answer something: which region it has written."""


def follow_index(step: Step, spark: Spark, index: TableSpec, spec: TableSpec) -> None:
    """An index's epoch from its table's log."""
    _index(step, spark, index, spec, fill=False)


def fill_index(step: Step, spark: Spark, index: TableSpec, spec: TableSpec) -> None:
    """A new index from its table's rows."""
    _index(step, spark, index, spec, fill=True)


def _index(step: Step, spark: Spark, index: TableSpec, spec: TableSpec, *, fill: bool) -> None:
    remote = Remote.of(step)
    numbers = spark.session(large=True).range(0, spec.regions, 1, spec.regions)
    arranged = numbers.mapInArrow(partial(_arrange, remote, index, spec, fill), ddl(PARCEL))
    owned = arranged.repartitionById(index.regions, PLACE)
    spark.collect(owned.mapInArrow(partial(_apply_index, remote, index), ddl(DONE)))
    step.forget(index.name)


def _arrange(
    remote: Remote, index: TableSpec, spec: TableSpec, fill: bool, numbers: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    step = remote.step()
    for batch in numbers:
        for region in batch.column(0).to_pylist():
            for desired in _arranged(step, index, spec, region, fill):
                yield from sent(parcels(desired, regions_of(index, desired)))


def _arranged(step: Step, index: TableSpec, spec: TableSpec, region: int, fill: bool) -> Iterator[pa.Table]:
    if not fill:
        before, after = (rows.select(index.schema.names) for rows in step.region_images(spec, region))
        yield as_desired(after, without(before, after, index.key), index.schema)
        return
    for batch in step.store.read(spec.name, region, columns=index.schema.names, at=step.at_end(spec)[region]):
        rows = pa.Table.from_batches([batch])
        yield as_desired(rows, rows.slice(0, 0), index.schema)


def _apply_index(remote: Remote, index: TableSpec, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    step = remote.step()
    for _, region, share in opened(batches):
        assert isinstance(share, pa.Table), "nothing is evaluated for an index"
        step.store.apply(index.name, region, share, step.epoch, step.term)
        yield pa.record_batch([[region]], schema=DONE)
