"""Rows for put, update and put_if."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from viewkeeper.errors import RowError
from viewkeeper.rows import arrow_values
from viewkeeper.rows.columns import Column, columns_of
from viewkeeper.rows.duplicates import first_duplicate
from viewkeeper.rows.frames import arrow_table, float_for_integer
from viewkeeper.rows.problems import (
    Unfit,
    duplicate_key,
    missing_column,
    null_value,
    place,
    unfit_value,
    unknown_column,
    wrong_form,
)
from viewkeeper.store.contract import TableSpec

ROWS_HINT = "give a dict, a list of dicts, a pyarrow table or a pandas DataFrame"


# Put


def rows_table(spec: TableSpec, rows: Any) -> pa.Table:
    """Whole rows, with exactly the table's schema and each key once, or a `RowError`."""
    given = arrow_table(spec, rows)
    columns = columns_of(spec)
    if given is not None:
        return table_of_arrow(spec, given, columns)
    values = [row_values(spec, columns, row, number) for number, row in enumerate(_dicts(spec, rows))]
    if len(values) > 1:
        _check_keys_distinct(spec, columns, values)
    return table_of_values(columns, values, spec.schema)


# Update


def update_tables(spec: TableSpec, rows: Any) -> list[pa.Table]:
    """The key and some other columns: one table for each set of columns that the rows have.

    Rows that leave a column out keep its value, which no table can say in one cell; hence the grouping.
    """
    given = arrow_table(spec, rows)
    if given is not None:
        return [table_of_arrow(spec, given, _updated_columns(spec, given.column_names, None))]
    groups: dict[frozenset[str], tuple[tuple[Column, ...], list[list[Any]]]] = {}
    seen: dict[tuple[Any, ...], int] = {}
    for number, row in enumerate(_dicts(spec, rows)):
        names = frozenset(row)
        if names not in groups:
            groups[names] = (_updated_columns(spec, row, number), [])
        columns, group = groups[names]
        group.append(row_values(spec, columns, row, number))
        _note_key(spec, seen, _key_reader(spec, columns)(group[-1]), number)
    return [table_of_values(columns, group) for columns, group in groups.values()]


def _updated_columns(spec: TableSpec, given: Iterable[str], row: int | None) -> tuple[Column, ...]:
    columns = _some_columns(spec, given, row)
    if len(columns) == len(spec.key):
        others = f"at least one of {', '.join(spec.values)}" if spec.values else "other columns, and the table has none"
        raise wrong_form(spec, row, list(given), f"an update has the key and {others}")
    return columns


def _some_columns(spec: TableSpec, given: Iterable[str], row: int | None) -> tuple[Column, ...]:
    """The columns that are given, in schema order; the key must be among them."""
    names = set(given)
    for name in spec.key:
        if name not in names:
            raise missing_column(spec, row, name)
    for name in given:
        if name not in spec.schema.names:
            raise unknown_column(spec, row, name, spec.schema.names)
    return tuple(column for column in columns_of(spec) if column.name in names)


# Put if


def partial_row_table(spec: TableSpec, row: Any) -> pa.Table:
    """One row of the key and any other columns: what a writer expects to find."""
    if not isinstance(row, Mapping):
        raise wrong_form(spec, None, row, "give a dict of the key and any other columns")
    columns = _some_columns(spec, row, None)
    return table_of_values(columns, [row_values(spec, columns, row, None)])


# Python rows


def _dicts(spec: TableSpec, rows: Any) -> Sequence[Mapping[str, Any]]:
    if isinstance(rows, Mapping):
        return [rows]
    if isinstance(rows, str | bytes) or not isinstance(rows, Iterable):
        raise wrong_form(spec, None, rows, ROWS_HINT)
    dicts = list(rows)
    for number, row in enumerate(dicts):
        if not isinstance(row, Mapping):
            raise wrong_form(spec, number, row, ROWS_HINT)
    return dicts


def row_values(spec: TableSpec, columns: Sequence[Column], row: Mapping[str, Any], number: int | None) -> list[Any]:
    """The values of exactly these columns, in their normal form."""
    values = []
    for column in columns:
        try:
            value = row[column.name]
        except KeyError:
            raise _unmatched(spec, columns, row, number) from None
        values.append(column_value(spec, column, value, number))
    if len(row) != len(columns):
        raise _unmatched(spec, columns, row, number)
    return values


def column_value(spec: TableSpec, column: Column, value: Any, number: int | None) -> Any:
    """One value in its normal form, or the `RowError` that names it."""
    if value is None:
        if column.nullable:
            return None
        raise null_value(spec, number, column.name, column.type_text)
    try:
        return column.convert(value)
    except Unfit as why:
        raise unfit_value(spec, number, column.name, column.type_text, value, why) from None


def _unmatched(spec: TableSpec, columns: Sequence[Column], given: Iterable[Any], row: int | None) -> RowError:
    """An unknown column first: a misspelled one is also a missing one, and the misspelling is the cause."""
    names = [column.name for column in columns]
    present = list(given)
    for name in present:
        if name not in names:
            return unknown_column(spec, row, name, names)
    return missing_column(spec, row, next(name for name in names if name not in present))


def table_of_values(
    columns: Sequence[Column], rows: Sequence[Sequence[Any]], schema: pa.Schema | None = None
) -> pa.Table:
    """Rows in their normal form as an Arrow table of these columns."""
    if schema is None:
        schema = pa.schema([pa.field(column.name, column.data_type, nullable=column.nullable) for column in columns])
    cells = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
    arrays = [pa.array(values, column.data_type) for column, values in zip(columns, cells, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _check_keys_distinct(spec: TableSpec, columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> None:
    key_of = _key_reader(spec, columns)
    seen: dict[tuple[Any, ...], int] = {}
    for number, values in enumerate(rows):
        _note_key(spec, seen, key_of(values), number)


def _key_reader(spec: TableSpec, columns: Sequence[Column]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    names = [column.name for column in columns]
    places = [names.index(name) for name in spec.key]
    return lambda values: tuple(values[number] for number in places)


def _note_key(spec: TableSpec, seen: dict[tuple[Any, ...], int], key: tuple[Any, ...], number: int) -> None:
    """Normal forms are equal where the keys are, so a dict finds the first of two."""
    first = seen.setdefault(key, number)
    if first != number:
        raise duplicate_key(spec, key, first, number)


# Arrow tables


def table_of_arrow(spec: TableSpec, given: pa.Table, columns: Sequence[Column]) -> pa.Table:
    """The given table with exactly these columns and their types; what is right already is not copied."""
    if set(given.column_names) != {column.name for column in columns}:
        raise _unmatched(spec, columns, given.column_names, None)
    arrays = {column.name: _arrow_column(spec, column, given.column(column.name)) for column in columns}
    duplicate = first_duplicate([arrays[name] for name in spec.key])
    if duplicate is not None:
        key = tuple(arrays[name][duplicate[0]].as_py() for name in spec.key)
        raise duplicate_key(spec, key, *duplicate)
    schema = pa.schema([pa.field(column.name, column.data_type, nullable=column.nullable) for column in columns])
    return pa.Table.from_arrays(list(arrays.values()), schema=schema)


def _arrow_column(spec: TableSpec, column: Column, values: pa.ChunkedArray) -> pa.ChunkedArray:
    if not arrow_values.same_family(values.type, column.data_type):
        raise _wrong_family(spec, column, values)
    try:
        values = arrow_values.fitted(values, column.data_type)
    except Unfit:
        row = arrow_values.first_unfit(values, column.data_type)
        value, why = arrow_values.reason(values, row, column.data_type)
        raise unfit_value(spec, row, column.name, column.type_text, value, why) from None
    if values.null_count and not column.nullable:
        row = pc.index(pc.is_null(values), True).as_py()
        raise null_value(spec, row, column.name, column.type_text)
    return values


def _wrong_family(spec: TableSpec, column: Column, values: pa.ChunkedArray) -> RowError:
    """By the first value if there is one: people look for it in their data."""
    if kinds.is_floating(values.type) and kinds.is_integer(column.data_type):
        why = float_for_integer(values.type)
    else:
        why = Unfit(f"it is a column of {values.type}", hint="convert the column first")
    row = pc.index(pc.is_valid(values), True).as_py()
    if row >= 0:
        value, own = arrow_values.reason(values, row, column.data_type)
        return unfit_value(spec, row, column.name, column.type_text, value, own if own.reason else why)
    return RowError(
        f'{place(spec, None)}: column "{column.name}" ({column.type_text}) cannot hold {values.type}',
        hint=why.hint,
        table=spec.name,
        column=column.name,
    )
