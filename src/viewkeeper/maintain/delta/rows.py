"""Changes as weighted rows: adding them up, and turning them into what a table is to become.

Rows are compared as they are stored (`store.encoding`): there NaN equals itself, and nested values have a text.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper import names
from viewkeeper.store.encoding import codec


def stored_keys(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Columns in their stored form, numbered: what Arrow can group and join."""
    arrays = [codec(table[name].type).encode(_chunk(table[name])) for name in columns]
    return pa.table(arrays, names=[f"k{i}" for i in range(len(columns))])


def _chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def consolidate(change: pa.Table) -> pa.Table:
    """Equal rows added up, and gone where nothing is left.

    >>> change = pa.table({"x": [1, 1, 2], "_vk_weight": [1, -1, 1]})
    >>> consolidate(change).to_pylist()
    [{'x': 2, '_vk_weight': 1}]
    """
    columns = [name for name in change.column_names if name != names.WEIGHT]
    if change.num_rows == 0:
        return change
    first, totals = sum_by(change, columns, {names.WEIGHT: change[names.WEIGHT]})
    rows = change.select(columns).take(first).append_column(names.WEIGHT, totals[names.WEIGHT])
    return rows.filter(pc.not_equal(rows[names.WEIGHT], 0))


def one_zero(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Rows in whose columns -0.0 is 0.0: to Spark they are one value where it groups, also inside nested values.

    >>> one_zero(pa.table({"x": [-0.0, 1.5]}), ["x"]).to_pylist()
    [{'x': 0.0}, {'x': 1.5}]
    """
    for name in columns:
        if has_floats(rows[name].type):
            rows = rows.set_column(rows.column_names.index(name), name, _with_one_zero(rows[name].combine_chunks()))
    return rows


def has_floats(kind: pa.DataType) -> bool:
    """Whether a type is one of floating numbers, or holds some."""
    if pa.types.is_nested(kind):
        return any(has_floats(kind.field(i).type) for i in range(kind.num_fields))
    return pa.types.is_floating(kind)


def _with_one_zero(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_floating(kind):
        return pc.if_else(pc.equal(column, 0.0), pa.scalar(0.0, kind), column)
    if pa.types.is_struct(kind):
        fields = [_with_one_zero(child) for child in column.flatten()]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=column.is_null())
    if pa.types.is_list(kind):
        values = _with_one_zero(column.flatten())
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
        return pa.ListArray.from_arrays(offsets, values, type=kind, mask=column.is_null())
    return column


def numbered(table: pa.Table, columns: Sequence[str]) -> npt.NDArray[np.int64]:
    """The number of each row's distinct values in `columns`, counted from 0 in no order that matters.

    >>> numbered(pa.table({"x": ["a", None, "a"], "y": [1, 1, 1]}), ["x", "y"]).tolist()
    [0, 1, 0]
    """
    codes = [
        _chunk(column).dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)
        for column in stored_keys(table, columns).columns
    ]
    found = codes[0].astype(np.int64)
    for more in codes[1:]:
        found = np.unique(found * (table.num_rows + 1) + more, return_inverse=True)[1]
    return found


def sum_by(
    table: pa.Table, columns: Sequence[str], values: dict[str, pa.Array | pa.ChunkedArray]
) -> tuple[pa.Array, dict[str, pa.ChunkedArray]]:
    """For each distinct row of `columns`: the number of its first occurrence, and the sums of `values`."""
    keys = stored_keys(table, columns)
    numbered = keys.append_column("n", pa.array(np.arange(table.num_rows)))
    for name, column in values.items():
        numbered = numbered.append_column(f"v_{name}", column)
    folded = numbered.group_by(keys.column_names, use_threads=False).aggregate(
        [("n", "min"), *((f"v_{name}", "sum") for name in values)]
    )
    return _chunk(folded["n_min"]), {name: folded[f"v_{name}_sum"] for name in values}


def without(table: pa.Table, others: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The rows of `table` whose `columns` no row of `others` has. NULL equals NULL here."""
    if others.num_rows == 0 or table.num_rows == 0:
        return table
    left, right = _null_safe(stored_keys(table, columns), stored_keys(others, columns))
    keys = left.column_names
    numbered = left.append_column("n", pa.array(np.arange(table.num_rows)))
    return table.take(numbered.join(right, keys, join_type="left anti", use_threads=False)["n"])


def _null_safe(left: pa.Table, right: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Arrow's join says that NULL equals nothing: so a column with NULLs becomes a flag and a value."""
    for name in left.column_names:
        if left[name].null_count or right[name].null_count:
            left, right = _flagged(left, name), _flagged(right, name)
    return left, right


def _flagged(table: pa.Table, name: str) -> pa.Table:
    column = table[name]
    filled = pc.fill_null(
        column, 0 if pa.types.is_integer(column.type) else pa.scalar("", pa.string()).cast(column.type)
    )
    place = table.column_names.index(name)
    return table.set_column(place, name, filled).append_column(f"{name}_null", column.is_null())


def as_desired(rows: pa.Table, gone: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows to be there and rows whose keys are to be gone, in the form that `Store.apply` takes."""
    full = pa.schema([field.with_nullable(True) for field in schema])
    parts = []
    for table, has in ((rows, True), (gone, False)):
        columns = [
            table[field.name].cast(field.type)
            if field.name in table.column_names
            else pa.nulls(table.num_rows, field.type)
            for field in full
        ]
        parts.append(pa.table([*columns, pa.repeat(pa.scalar(has), table.num_rows)], names=[*full.names, names.HAS]))
    return pa.concat_tables(parts)


def desired_rows(change: pa.Table, schema: pa.Schema, key: Sequence[str]) -> pa.Table:
    """A consolidated change of a table without duplicates: rows that came are put, keys that only left are deleted.

    An update is a row that left and a row that came under one key; the put replaces the row.
    """
    came = change.filter(pc.greater(change[names.WEIGHT], 0))
    left = change.filter(pc.less(change[names.WEIGHT], 0))
    return as_desired(came, without(left, came, key), schema)
