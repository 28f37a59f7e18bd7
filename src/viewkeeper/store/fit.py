"""Whether rows fit the table that they go to. They are made for a table's schema, and another may have its name by now."""

from __future__ import annotations

import pyarrow as pa

from viewkeeper.errors import InputError
from viewkeeper.store.contract import Action, TableSpec


def misfit(spec: TableSpec, action: Action, rows: pa.Table) -> str | None:
    """What is wrong with the columns of rows to be put, updated or deleted; None if they fit.

    Names, types and nullability are the declared ones, exactly: what were cast, left out or filled up here would be stored as
    something that nobody gave. The order of columns says nothing.

    >>> schema = pa.schema([pa.field("k", pa.int32(), nullable=False), pa.field("v", pa.string())])
    >>> spec = TableSpec("pairs", schema, key=("k",), distribution=("k",), regions=1)
    >>> misfit(spec, Action.PUT, schema.empty_table())
    >>> misfit(spec, Action.PUT, schema.remove(1).empty_table())
    'the table has a column "v"'
    >>> misfit(spec, Action.UPDATE, schema.set(1, pa.field("v", pa.int64())).empty_table())
    'column "v" is string, not int64'
    """
    if action is not Action.DELETE and rows.schema.equals(spec.schema):
        return None
    needed = spec.schema.names if action is Action.PUT else spec.key
    allowed = spec.key if action is Action.DELETE else spec.schema.names
    for name in needed:
        if name not in rows.column_names:
            return f'the table has {"a key" if name in spec.key else "a"} column "{name}"'
    for given in rows.schema:
        if given.name not in allowed:
            return f'the table has no {"key " if action is Action.DELETE else ""}column "{given.name}"'
        if not given.equals(spec.schema.field(given.name)):
            return f'column "{given.name}" is {_said(spec.schema.field(given.name))}, not {_said(given)}'
    return None


def made_again(spec: TableSpec, wrong: str) -> InputError:
    """The error of rows that do not fit."""
    return InputError(
        f'table "{spec.name}" was made again meanwhile, and the rows do not fit it: {wrong}',
        hint=f'get it again with db.table("{spec.name}")',
        table=spec.name,
    )


def _said(column: pa.Field) -> str:
    return str(column.type) if column.nullable else f"{column.type} NOT NULL"
