"""Rows on standard output: a table for people; JSON lines, CSV or an Arrow stream for programs.

What JSON and CSV print, `import` and `put` read back to the same values: a DECIMAL is text in JSON, a time is ISO 8601,
BINARY is base64, a MAP is a list of pairs, and in CSV a nested value is its JSON. NULL is null, and in CSV an empty field
(an empty string is a pair of quotes).
"""

from __future__ import annotations

import base64
import io
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import IO, TYPE_CHECKING, Any

from viewkeeper.cli.options import Format
from viewkeeper.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.table import Table

BATCH = 10_000
"""Rows that are turned into text at a time."""

Writer = Callable[["pa.Table", IO[bytes]], None]


def show(table: pa.Table, form: Format) -> None:
    """Print a table's rows on standard output."""
    if form is Format.TABLE:
        print_table(table)
        return
    if form is Format.ARROW and sys.stdout.isatty():
        raise InputError(
            "an Arrow stream is not for a terminal", hint="send it into a file or a pipe, or use --format table"
        )
    writers = {Format.JSON: write_json, Format.CSV: write_csv, Format.ARROW: write_arrow}
    sys.stdout.flush()
    writers[form](table, sys.stdout.buffer)
    sys.stdout.buffer.flush()


def show_row(row: Mapping[str, Any], schema: pa.Schema, form: Format) -> None:
    """Print one row."""
    import pyarrow as pa

    show(pa.Table.from_pylist([dict(row)], schema=schema), form)


# For programs


def plain(value: Any) -> Any:
    """A value of Arrow's as JSON has it.

    >>> plain({"price": Decimal("9.90"), "day": date(2026, 1, 31), "data": b"ab", "tags": [("a", 1)]})
    {'price': '9.90', 'day': '2026-01-31', 'data': 'YWI=', 'tags': [['a', 1]]}
    """
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    return value


def write_json(table: pa.Table, to: IO[bytes]) -> None:
    """An object per line."""
    for batch in table.to_batches(max_chunksize=BATCH):
        for row in batch.to_pylist():
            to.write(json.dumps(plain(row), ensure_ascii=False).encode() + b"\n")


def write_csv(table: pa.Table, to: IO[bytes]) -> None:
    """With a header."""
    from pyarrow import csv

    csv.write_csv(_flat(table), to, csv.WriteOptions(quoting_style="needed"))


def _flat(table: pa.Table) -> pa.Table:
    """Columns that CSV has no word for become text: nested values, bytes, and times, which Arrow writes with a blank."""
    import pyarrow as pa

    columns = [
        _texts(table.column(name)) if _needs_text(table.schema.field(name).type) else table.column(name)
        for name in table.column_names
    ]
    return pa.Table.from_arrays(columns, names=table.column_names)


def _needs_text(kind: pa.DataType) -> bool:
    from pyarrow import types

    return bool(types.is_nested(kind) or types.is_binary(kind) or types.is_timestamp(kind))


def _texts(column: pa.ChunkedArray) -> pa.Array:
    import pyarrow as pa

    values = (plain(value) for value in column.to_pylist())
    return pa.array(
        [v if v is None or isinstance(v, str) else json.dumps(v, ensure_ascii=False) for v in values], pa.string()
    )


def write_arrow(table: pa.Table, to: IO[bytes]) -> None:
    """Arrow's stream format."""
    import pyarrow as pa

    with pa.ipc.new_stream(to, table.schema) as writer:
        writer.write_table(table)


# For people


def print_table(table: pa.Table) -> None:
    """A table, as wide as it needs to be where nobody's terminal sets a width."""
    grid = grid_of(table.column_names, table.to_pylist(), _numeric(table))
    print_rich(grid)


def print_rich(content: Any) -> None:
    """On standard output, with colours and the terminal's width only where that is one."""
    from rich.console import Console

    if sys.stdout.isatty():
        Console(highlight=False).print(content)
        return
    text = io.StringIO()
    Console(file=text, highlight=False, no_color=True, force_terminal=False, width=_wide(content)).print(content)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines()))


def _wide(content: Any) -> int:
    """The width at which nothing is cut."""
    from rich.console import Console
    from rich.measure import Measurement

    console = Console(width=1_000_000)
    return max(1, Measurement.get(console, console.options, content).maximum)


def grid_of(columns: Iterable[str], rows: Iterable[Mapping[str, Any]], numeric: Iterable[str] = ()) -> Table:
    """Rows as a rich table: numbers to the right, NULL told apart from text."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    names, right = list(columns), set(numeric)
    grid = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for name in names:
        grid.add_column(Text(name), justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        grid.add_row(*(_cell(row[name]) for name in names))
    return grid


def _cell(value: Any) -> Any:
    from rich.text import Text

    if value is None:
        return Text("NULL", style="dim")
    if isinstance(value, datetime):
        return Text(value.isoformat(sep=" ", timespec="auto" if value.microsecond % 1_000 else "milliseconds"))
    value = plain(value)
    return Text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _numeric(table: pa.Table) -> list[str]:
    from pyarrow import types

    return [
        field.name
        for field in table.schema
        if types.is_integer(field.type) or types.is_decimal(field.type) or types.is_floating(field.type)
    ]
