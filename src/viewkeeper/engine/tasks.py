"""Large epochs as Spark tasks: the same functions as inline, each task with regions of its own.

    read      a task per region of each changed table: its log (or, for a fill, its rows), joined with what it meets
    evaluate  Spark, natively: conditions and expressions, where there are any
    fold      in the reading task, before anything travels: a hot group costs one row
    shuffle   to the region of the block's table that each row belongs to, in parcels (see `parcels`)
    apply     a task per region: add to what is there, and write, in one atomic step

Blocks and indexes that need nothing of each other share a job, and a reading task makes of one log what all of them want: a
further view over the same changes costs its own folding and writing, and no more. What each of them wants of a table, and what
it does with what comes for it, is in `block_tasks` and `index_tasks`.

Workers keep nothing: they open the store where they run, and a task that runs a second time reads what it read the first
time and applies nothing twice. Value indexes have their groups in the region of the same number (see `accumulators`), so
the task that owns a region of the table owns theirs.

A block whose query fails must not take the others of its job along. So a task brings a failure as an answer, not as an
error. Spark's own, in an expression, end the job; then each block is run alone, and what the first job applied counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper import names
from viewkeeper.engine.block_tasks import BlockReading, BlockTarget, folded
from viewkeeper.engine.early import evaluate_early
from viewkeeper.engine.index_tasks import IndexReading, IndexTarget
from viewkeeper.engine.parcels import PARCEL, PLACE, Address, error_of, error_text, opened, sent
from viewkeeper.engine.parts import joined_schema
from viewkeeper.engine.point import Step
from viewkeeper.engine.spark import Spark
from viewkeeper.errors import Corrupt, QueryFailed, ViewkeeperError
from viewkeeper.maintain.delta.select import is_plain, joined_sql
from viewkeeper.maintain.plan import BlockPlan
from viewkeeper.sql.schemas import ddl
from viewkeeper.store.contract import Applied, Cut, Store, TableSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DONE = pa.schema(
    [
        ("block", pa.int32()),
        ("rows", pa.int64()),
        ("inserted", pa.int64()),
        ("updated", pa.int64()),
        ("deleted", pa.int64()),
        ("error", pa.string()),
    ]
)

TOGETHER = 8
"""Small targets whose regions of one number are one task's: a task of its own for each would cost more than its work."""

FILL_ROWS = 500_000
"""Rows of a fill that a task has in hand at a time."""

NOTHING = Applied(0, 0, 0)

Indexing = tuple[TableSpec, TableSpec]
"""An index, and the table that it arranges."""

_stores: dict[str, Store] = {}
"""The stores that this worker process has open."""


class Target(Protocol):
    """A table that a job writes to."""

    @property
    def spec(self) -> TableSpec: ...

    @property
    def is_small(self) -> bool:
        """Whether what comes for it is little, however much has changed."""

    def apply(self, step: Step, region: int, share: pa.Table, *, fill: bool) -> Applied:
        """All that came for one region, in one atomic step."""


class Reading(Protocol):
    """What a target wants of one table."""

    @property
    def spec(self) -> TableSpec: ...

    @property
    def columns(self) -> Sequence[str]:
        """Those that it needs of the table's state."""

    def begin(self, step: Step) -> Reader: ...


class Reader(Protocol):
    """A reading under way, in a worker. What it makes is parcels, unless Spark has something to evaluate first."""

    def change(self, before: pa.Table, after: pa.Table) -> Iterator[pa.RecordBatch]: ...

    def state(self, rows: pa.Table) -> Iterator[pa.RecordBatch]: ...


@dataclass(frozen=True)
class Remote:
    """A step that can travel to another process."""

    reopen: Callable[[], Store]
    before: Cut
    after: Cut
    committed: int
    epoch: int
    term: int

    @classmethod
    def of(cls, step: Step) -> Remote:
        reopen = step.store.reopener()
        assert reopen is not None, "checked by `suits`"
        return cls(reopen, dict(step.before), dict(step.after), step.committed, step.epoch, step.term)

    def step(self) -> Step:
        """The same step here, on this process's own store."""
        place = repr(self.reopen)
        if place not in _stores:
            _stores[place] = self.reopen()
        return Step(_stores[place], self.before, self.after, self.committed, self.epoch, self.term)


Regions = Sequence[int]
Readings = Sequence[tuple[Reading, Regions]]
"""Each with the regions of its table that have something for it."""


@dataclass(frozen=True)
class Work:
    """What the reading tasks do. A task is a region, and the numbers of the readings that want it, all of one table."""

    remote: Remote
    readings: tuple[Reading, ...]
    tasks: tuple[tuple[int, tuple[int, ...]], ...]
    fill: bool

    @classmethod
    def of(cls, remote: Remote, readings: Readings, *, fill: bool) -> Work:
        tasks: dict[tuple[str, int], list[int]] = {}
        for number, (reading, regions) in enumerate(readings):
            for region in regions:
                tasks.setdefault((reading.spec.name, region), []).append(number)
        listed = tuple((region, tuple(wanted)) for (_, region), wanted in tasks.items())
        return cls(remote, tuple(reading for reading, _ in readings), listed, fill)


@dataclass(frozen=True)
class Followed:
    """What became of a block: how many part rows there were and what they did to its table, or why it failed."""

    rows: int = 0
    applied: Applied = NOTHING
    error: ViewkeeperError | None = None

    def result(self) -> tuple[int, Applied]:
        if self.error is not None:
            raise self.error
        return self.rows, self.applied


def follow(step: Step, spark: Spark, plans: Sequence[BlockPlan], indexes: Sequence[Indexing] = ()) -> list[Followed]:
    """The epoch of blocks, and of indexes, that need nothing of each other, from their inputs' logs."""
    try:
        return _run(step, spark, plans, indexes, fill=False)
    except (QueryFailed, Corrupt) as failure:
        if len(plans) == 1 and not indexes:
            return [Followed(error=failure)]
    follow_indexes(step, spark, indexes)
    return [one for plan in plans for one in follow(step, spark, [plan])]


def fill(step: Step, spark: Spark, plan: BlockPlan, indexes: Sequence[Indexing] = ()) -> Followed:
    """A block's first epoch, into empty tables: each part from the rows of its first source, the others probed."""
    return _run(step, spark, [plan], indexes, fill=True)[0]


def follow_indexes(step: Step, spark: Spark, indexes: Sequence[Indexing]) -> None:
    """The epoch of indexes from their tables' logs."""
    _run(step, spark, [], indexes, fill=False)


def fill_indexes(step: Step, spark: Spark, indexes: Sequence[Indexing]) -> None:
    """New indexes from their tables' rows."""
    _run(step, spark, [], indexes, fill=True)


def _run(
    step: Step, spark: Spark, plans: Sequence[BlockPlan], indexes: Sequence[Indexing], *, fill: bool
) -> list[Followed]:
    remote = Remote.of(step)
    targets: list[Target] = [*map(BlockTarget, plans), *(IndexTarget(index) for index, _ in indexes)]
    addresses = _addresses(targets)
    frames: list[DataFrame] = []
    readings: list[tuple[Reading, Regions]] = []
    for plan, to in zip(plans, addresses, strict=False):
        for number in range(len(plan.block.parts)):
            wanted = _wanted(step, plan, number, to, fill=fill)
            plain = _plain(step, spark, wanted, fill=fill)
            if plain is not None:
                readings += plain
            else:
                frames.append(_evaluated(spark, remote, wanted, fill=fill))
    for (index, spec), to in zip(indexes, addresses[len(plans) :], strict=True):
        regions = _regions(step, spec, fill=fill)
        readings += [(IndexReading(index, spec, to), regions)] if regions else []
    if readings:
        frames.append(_read_by(spark, Work.of(remote, readings, fill=fill), ddl(PARCEL)))
    if not frames:
        return [Followed()] * len(plans)
    together = reduce(lambda one, other: one.unionAll(other), frames)
    places = max(to.first + target.spec.regions for target, to in zip(targets, addresses, strict=True))
    owned = together.repartitionById(places, PLACE)
    done = spark.collect(owned.mapInArrow(partial(_apply, remote, tuple(targets), fill), ddl(DONE)))
    for target in targets:
        step.forget(target.spec.name)
    answers = [_followed(done, number) for number in range(len(targets))]
    for answer in answers[len(plans) :]:
        answer.result()  # an index belongs to many views, and none of them can go on without it
    return answers[: len(plans)]


def _addresses(targets: Sequence[Target]) -> list[Address]:
    """Where each target's regions are written: by tasks of its own, unless little comes for it."""
    found, free, shared = [], 0, 0
    first, width = 0, 0
    for number, target in enumerate(targets):
        regions = target.spec.regions
        if not target.is_small:
            found.append(Address(number, free))
            free += regions
            continue
        if shared % TOGETHER == 0 or regions > width:
            first, width, shared = free, regions, 0
            free += regions
        found.append(Address(number, first))
        shared += 1
    return found


def _regions(step: Step, spec: TableSpec, *, fill: bool) -> Regions:
    """Those of a table that there is something to read from."""
    if fill:
        return range(spec.regions)
    moved = zip(step.at_start(spec), step.at_end(spec), strict=True)
    return [region for region, (start, end) in enumerate(moved) if start < end]


Wanted = Sequence[tuple[BlockReading, Regions]]


def _wanted(step: Step, plan: BlockPlan, number: int, to: Address, *, fill: bool) -> Wanted:
    """What a part wants: for a fill, all of its first source; else what has changed of each."""
    sources = plan.block.parts[number].sources
    found = []
    for place, source in enumerate(sources[:1] if fill else sources):
        regions = _regions(step, plan.inputs[source.table].spec, fill=fill)
        if regions:
            found.append((BlockReading(plan, number, place, to), regions))
    return found


def _plain(step: Step, spark: Spark, wanted: Wanted, *, fill: bool) -> Wanted | None:
    """The readings of a part that is folded where it is read, as it is or with its expressions evaluated before; else None."""
    if not wanted or is_plain(wanted[0][0].part):
        return wanted
    one = wanted[0][0]
    starts = {reading.source.alias for reading, _ in wanted}
    early = evaluate_early(step, spark, one.plan, one.part, starts, fill=fill)
    if early is None:
        return None
    return [(replace(reading, plan=early.plan, given=early.rows), regions) for reading, regions in wanted]


def _read_by(spark: Spark, work: Work, answer: str) -> DataFrame:
    numbers = spark.session(large=True).range(0, len(work.tasks), 1, len(work.tasks))
    return numbers.mapInArrow(partial(_read, work), answer)


def _evaluated(spark: Spark, remote: Remote, wanted: Wanted, *, fill: bool) -> DataFrame:
    """A part whose expressions Spark evaluates between reading and folding."""
    one = wanted[0][0]
    work = Work.of(remote, [(replace(reading, evaluated=True), regions) for reading, regions in wanted], fill=fill)
    # The next epoch's takes its place: names do not pile up in Spark.
    view = f"{names.RESERVED_PREFIX}part{one.to.block}_{one.number}"
    _read_by(spark, work, ddl(joined_schema(one.part, one.plan.inputs))).createOrReplaceTempView(view)
    rows = spark.session(large=True).sql(joined_sql(one.part, one.plan.inputs, view))
    return rows.mapInArrow(partial(_fold, one.plan, one.to), ddl(PARCEL))


def _followed(done: pa.Table, block: int) -> Followed:
    mine = done.filter(pc.equal(done["block"], block))
    problems = mine["error"].drop_null().to_pylist()
    if problems:
        return Followed(error=error_of(problems[0]))
    sums = [int(np.sum(mine[name].to_numpy())) for name in ("rows", "inserted", "updated", "deleted")]
    return Followed(sums[0], Applied(*sums[1:]))


# In the workers


def _read(work: Work, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    step = work.remote.step()
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            region, wanted = work.tasks[number]
            readings = [work.readings[one] for one in wanted]
            for made in (_state if work.fill else _change)(step, readings, region):
                yield from sent(made)


def _change(step: Step, readings: Sequence[Reading], region: int) -> Iterator[pa.RecordBatch]:
    images = step.region_images(readings[0].spec, region)
    for reading in readings:
        yield from reading.begin(step).change(*images)


def _state(step: Step, readings: Sequence[Reading], region: int) -> Iterator[pa.RecordBatch]:
    """Some rows at a time, in columns that all want together."""
    readers = [reading.begin(step) for reading in readings]
    columns = list(dict.fromkeys(name for reading in readings for name in reading.columns))
    spec = readings[0].spec
    for rows in _some(step.store.read(spec.name, region, columns=columns, at=step.at_end(spec)[region])):
        for reader in readers:
            yield from reader.state(rows)


def _some(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    chunk: list[pa.RecordBatch] = []
    for batch in batches:
        chunk.append(batch)
        if sum(part.num_rows for part in chunk) >= FILL_ROWS:
            yield pa.Table.from_batches(chunk)
            chunk = []
    if chunk:
        yield pa.Table.from_batches(chunk)


def _fold(plan: BlockPlan, to: Address, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for rows in _some(batches):
        yield from sent(folded(plan, to, rows))


def _apply(
    remote: Remote, targets: Sequence[Target], fill: bool, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """All that there is for one region of a target."""
    step = remote.step()
    for number, region, share in opened(batches):
        try:
            if isinstance(share, ViewkeeperError):
                raise share
            yield _done(number, share.num_rows, targets[number].apply(step, region, share, fill=fill))
        except (QueryFailed, Corrupt) as failure:
            yield _done(number, 0, NOTHING, error_text(failure))


def _done(block: int, rows: int, applied: Applied, error: str | None = None) -> pa.RecordBatch:
    values = (block, rows, applied.inserted, applied.updated, applied.deleted, error)
    return pa.record_batch([[value] for value in values], schema=DONE)
