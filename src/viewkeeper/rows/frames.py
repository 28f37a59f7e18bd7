"""Tables that users bring from elsewhere (Arrow in its forms, pandas, anything that speaks Arrow's C stream) -> Arrow.

Only the container changes here; the values are judged in `arrow_values`. pandas is recognised without importing it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from viewkeeper.errors import RowError
from viewkeeper.rows.problems import Unfit, place, twice, unfit_value
from viewkeeper.rows.python_values import converter
from viewkeeper.sql.types import is_nested, sql_type
from viewkeeper.store.contract import TableSpec


def arrow_table(spec: TableSpec, given: Any) -> pa.Table | None:
    """The Arrow table that `given` is or holds; None if it is no table at all.

    >>> arrow_table(None, [{"id": 1}]) is None
    True
    """
    table = _table(spec, given)
    if table is not None and len(set(table.column_names)) < table.num_columns:
        raise twice(spec, table.column_names)
    return table


def _table(spec: TableSpec, given: Any) -> pa.Table | None:
    if isinstance(given, dict | list | tuple):
        return None
    if isinstance(given, pa.Table):
        return given
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    if isinstance(given, pa.RecordBatchReader):
        return given.read_all()
    if type(given).__module__.startswith("pandas.") and type(given).__name__ == "DataFrame":
        return _of_pandas(spec, given)
    if hasattr(given, "__arrow_c_stream__") and not isinstance(given, pa.ChunkedArray):
        return pa.table(given)
    return None


def _of_pandas(spec: TableSpec, frame: Any) -> pa.Table:
    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        raise twice(spec, names)
    columns = [_of_series(spec, name, series) for name, (_, series) in zip(names, frame.items(), strict=True)]
    return pa.Table.from_arrays(columns, names=names)


def _of_series(spec: TableSpec, name: str, series: Any) -> Any:
    """A float column keeps its NaN: `from_pandas` would make NULL of it. In every other column NaN means NULL."""
    wanted = spec.schema.field(name).type if name in spec.schema.names else pa.null()
    if series.dtype == object and is_nested(wanted):
        return _of_objects(spec, name, series, wanted)
    if isinstance(series.dtype, np.dtype) and series.dtype.kind == "f":
        return pa.array(series.to_numpy(), from_pandas=False)
    try:
        return pa.array(series, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, ValueError) as error:
        raise RowError(
            f'{place(spec, None)}: column "{name}" of the pandas table cannot be read: {_first_line(error)}',
            hint="give all values of a column one type",
            table=spec.name,
            column=name,
        ) from None


def _of_objects(spec: TableSpec, name: str, series: Any, wanted: pa.DataType) -> pa.Array:
    """Nested values by the rules for Python values: Arrow would take the dicts of a MAP for structs."""
    convert = converter(wanted)
    values = []
    for row, (value, missing) in enumerate(zip(series, series.isna(), strict=True)):
        try:
            values.append(None if missing else convert(value))
        except Unfit as why:
            raise unfit_value(spec, row, name, sql_type(wanted), value, why) from None
    return pa.array(values, wanted)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def float_for_integer(given: pa.DataType) -> Unfit:
    """pandas turns integers with missing values into floats, and people meet it here."""
    return Unfit(
        f"it is a column of {given}",
        hint="an integer column of pandas with missing values becomes float64: use its Int64 dtype",
    )
