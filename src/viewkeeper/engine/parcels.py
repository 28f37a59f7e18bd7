"""What travels between two tasks of ours: Arrow rows as bytes, addressed to a region of a block's table.

Spark moves a parcel without looking inside, where it would turn each row into its own form and back; that took two thirds
of a fill's time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from viewkeeper import errors
from viewkeeper.errors import ViewkeeperError

PLACE = "_vk_place"
"""Of a parcel: the task that it goes to."""

PARCEL = pa.schema(
    [
        (PLACE, pa.int32()),
        ("block", pa.int32()),
        ("region", pa.int32()),
        ("data", pa.binary()),
        ("error", pa.string()),
    ]
)


@dataclass(frozen=True)
class Address:
    """A block of a job, and the task that has the first region of its table; the next region is the next task's."""

    block: int = 0
    first: int = 0


HERE = Address()


def parcels(table: pa.Table, regions: npt.NDArray[np.int64], to: Address = HERE) -> pa.RecordBatch:
    """A parcel for each region that some of the rows are for. No rows, no parcels: an empty batch, which `sent` drops.

    >>> batch = parcels(pa.table({"x": [1, 2, 3]}), np.array([1, 0, 1]))
    >>> [(region, share["x"].to_pylist()) for _, region, share in opened(iter([batch]))]
    [(0, [2]), (1, [1, 3])]
    """
    order = np.argsort(regions, kind="stable")
    sorted_rows = table.take(pa.array(order))
    found, starts, counts = np.unique(regions[order], return_index=True, return_counts=True)
    data = [_packed(sorted_rows.slice(start, count)) for start, count in zip(starts, counts, strict=True)]
    return _batch(to, found.tolist(), data, [None] * len(data))


def complaint(error: ViewkeeperError, to: Address) -> pa.RecordBatch:
    """In place of rows: why there are none."""
    return _batch(to, [0], [b""], [error_text(error)])


def _batch(to: Address, regions: list[int], data: list[bytes], problems: list[str | None]) -> pa.RecordBatch:
    places, blocks = [to.first + region for region in regions], [to.block] * len(regions)
    return pa.record_batch([places, blocks, regions, data, problems], schema=PARCEL)


def sent(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Never an empty one: Spark takes it for the end."""
    if batch.num_rows:
        yield batch


def opened(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, int, pa.Table | ViewkeeperError]]:
    """Block, region, and the rows for it of all the parcels that came; or a complaint, if one did."""
    shares: dict[tuple[int, int], list[pa.Table]] = {}
    complaints: dict[tuple[int, int], ViewkeeperError] = {}
    for batch in batches:
        _, blocks, regions, data, problems = (batch.column(name) for name in PARCEL.names)
        for block, region, one, problem in zip(
            blocks.to_pylist(), regions.to_pylist(), data, problems.to_pylist(), strict=True
        ):
            if problem is not None:
                complaints[block, region] = error_of(problem)
            else:
                shares.setdefault((block, region), []).append(pa.ipc.open_stream(one.as_buffer()).read_all())
    for place in sorted({*shares, *complaints}):
        share = shares.pop(place, None)
        if place in complaints:
            yield *place, complaints[place]
        elif share is not None:
            yield *place, pa.concat_tables(share)


def error_text(error: ViewkeeperError) -> str:
    return json.dumps([type(error).__name__, error.message, error.hint])


def error_of(text: str) -> ViewkeeperError:
    """
    >>> error_of(error_text(errors.QueryFailed("no", hint="mend it"))).hint
    'mend it'
    """
    kind, message, hint = json.loads(text)
    found: ViewkeeperError = getattr(errors, kind)(message, hint=hint)
    return found


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()
