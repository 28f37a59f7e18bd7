"""The form of a log: one row per change, with the row before and the row after.

For a table with key `k` and value `v` a log has the columns

| `k` | `_vk_had` | `_vk_has` | `_vk_before_v` | `_vk_after_v` |
|---|---|---|---|---|
| 1 | false | true | NULL | 10 | (an insert)
| 1 | true | true | 10 | 11 | (an update)
| 1 | true | false | 11 | NULL | (a delete)

`had` and `has` tell an absent row from a row of NULLs. Law: applying the changes of a log in order to the rows at its
beginning gives the rows at its end, and undoing them in reverse gives the beginning back.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper import names
from viewkeeper.store.contract import Applied, TableSpec


def log_schema(spec: TableSpec) -> pa.Schema:
    """The columns of one change, without its position."""
    fields = [spec.schema.field(name).with_nullable(True) for name in spec.key]
    fields += [pa.field(names.HAD, pa.bool_()), pa.field(names.HAS, pa.bool_())]
    for prefix in (names.BEFORE, names.AFTER):
        fields += [pa.field(prefix + name, spec.schema.field(name).type) for name in spec.values]
    return pa.schema(fields)


def positioned_log_schema(spec: TableSpec) -> pa.Schema:
    """The columns of one change as `Store.log` gives it."""
    return pa.schema([pa.field(names.POSITION, pa.int64()), *log_schema(spec)])


def rows_before(spec: TableSpec, log: pa.Table) -> pa.Table:
    """The rows that the changes took away: the befores of updates and deletes."""
    return _side(spec, log, names.HAD, names.BEFORE)


def rows_after(spec: TableSpec, log: pa.Table) -> pa.Table:
    """The rows that the changes brought: the afters of inserts and updates."""
    return _side(spec, log, names.HAS, names.AFTER)


def _side(spec: TableSpec, log: pa.Table, flag: str, prefix: str) -> pa.Table:
    chosen = log.filter(pc.field(flag))
    columns = [chosen[name if name in spec.key else prefix + name] for name in spec.schema.names]
    return pa.table(columns, schema=spec.schema)


def tally(log: pa.Table) -> Applied:
    """How many inserts, updates and deletes there are.

    >>> tally(pa.table({"_vk_had": [False, True, True], "_vk_has": [True, True, False]}))
    Applied(inserted=1, updated=1, deleted=1)
    """
    had, has = log[names.HAD], log[names.HAS]
    deleted = _count(pc.and_not(had, has))
    inserted = _count(pc.and_not(has, had))
    return Applied(inserted, log.num_rows - inserted - deleted, deleted)


def _count(flags: pa.ChunkedArray) -> int:
    return int(pc.sum(flags, min_count=0).as_py())
