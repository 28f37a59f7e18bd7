"""How a row that does not fit is described: one place for the wording, so that dicts and Arrow say the same.

`Unfit` is what the rules for values raise: they know neither table nor row. The callers, who do, make it a `RowError`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from viewkeeper.errors import RowError
from viewkeeper.store.contract import TableSpec

_LONGEST = 80


class Unfit(Exception):
    """A value that a type cannot hold: the reason, if the value alone does not show it, and the way out."""

    def __init__(self, reason: str | None = None, *, hint: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


def shown(value: object) -> str:
    """The value for a message: short, and never an error itself (Python refuses to print integers of 5,000 digits)."""
    try:
        text = repr(value)
    except Exception:
        text = f"a {type(value).__name__}"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def place(spec: TableSpec, row: int | None) -> str:
    """Where: the table, and the row if there is one."""
    return f'table "{spec.name}"' if row is None else f'table "{spec.name}", row {row}'


def unfit_value(spec: TableSpec, row: int | None, column: str, type_text: str, value: object, why: Unfit) -> RowError:
    """A value that its column cannot hold."""
    reason = "" if why.reason is None else f": {why.reason}"
    return RowError(
        f'{place(spec, row)}: column "{column}" ({type_text}) cannot hold {shown(value)}{reason}',
        hint=why.hint,
        table=spec.name,
        column=column,
        row=row,
        value=value,
    )


def null_value(spec: TableSpec, row: int | None, column: str, type_text: str) -> RowError:
    """NULL where none may be."""
    in_key = column in spec.key
    return RowError(
        f'{place(spec, row)}: column "{column}" ({type_text}) cannot be NULL',
        hint="it is in the primary key: give each row a value"
        if in_key
        else "it is declared NOT NULL: give it a value",
        table=spec.name,
        column=column,
        row=row,
        value=None,
    )


def unknown_column(spec: TableSpec, row: int | None, column: object, allowed: Iterable[str]) -> RowError:
    """A column that is not there, or that has no business in this call."""
    columns = list(allowed)
    if column in spec.schema.names:
        fact, hint = "has no place here", f"give {', '.join(columns)}"
    else:
        close = get_close_matches(str(column).lower(), [name.lower() for name in columns], n=1)
        meant = [name for name in columns if close and name.lower() == close[0]]
        fact = "does not exist"
        hint = f'did you mean "{meant[0]}"?' if meant else f"the columns are {', '.join(columns)}"
    return RowError(
        f"{place(spec, row)}: column {_quoted(column)} {fact}", hint=hint, table=spec.name, column=column, row=row
    )


def _quoted(column: object) -> str:
    return f'"{column}"' if isinstance(column, str) else shown(column)


def missing_column(spec: TableSpec, row: int | None, column: str) -> RowError:
    """A column that the call needs."""
    if column in spec.key:
        hint = f"every row needs its primary key ({', '.join(spec.key)})"
    else:
        hint = "put replaces whole rows: give None for NULL, or use update to change some columns"
    return RowError(
        f'{place(spec, row)}: column "{column}" is missing', hint=hint, table=spec.name, column=column, row=row
    )


def twice(spec: TableSpec, columns: Iterable[str]) -> RowError:
    """An Arrow or pandas table that has two columns of one name."""
    column = Counter(columns).most_common(1)[0][0]
    return RowError(
        f'{place(spec, None)}: column "{column}" is given twice', hint="name it once", table=spec.name, column=column
    )


def duplicate_key(spec: TableSpec, key: tuple[Any, ...], first: int, second: int) -> RowError:
    """Two rows of one batch that are the same row of the table."""
    named = ", ".join(f"{name} = {shown(value)}" for name, value in zip(spec.key, key, strict=True))
    return RowError(
        f"{place(spec, second)}: key ({named}) is in row {first} too",
        hint="a batch has each key once: keep the row that should win",
        table=spec.name,
        row=second,
        first_row=first,
        value=key,
    )


def wrong_form(spec: TableSpec, row: int | None, given: object, hint: str) -> RowError:
    """Something that is neither a row nor a key."""
    return RowError(f"{place(spec, row)}: cannot use {shown(given)}", hint=hint, table=spec.name, row=row, value=given)
