"""Rows by key: init, put, get, find, scan, delete. None starts Spark, unless a write brings immediate views along."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from viewkeeper.cli.options import Db, Format, Key, Name, Shown, TableName, counted, examples, reading, say, writing
from viewkeeper.cli.start import quick_start
from viewkeeper.errors import NotFound

if TYPE_CHECKING:
    from viewkeeper.database import Database, Table, View

FIRST = 1_000
"""Rows that `scan` prints as a table unless told otherwise: more is nothing that anybody reads."""

Rows = Annotated[
    list[str],
    typer.Argument(
        metavar="ROW...",
        help="name=value for each column (\\N is NULL); or JSON objects; or - for a JSON object per line of standard input.",
        show_default=False,
    ),
]
Limit = Annotated[
    int | None,
    typer.Option("--limit", min=0, metavar="ROWS", help=f"The first so many. [a table: {FIRST:,}]", show_default=False),
]
Columns = Annotated[
    list[str] | None, typer.Option("--column", "-c", metavar="NAME", help="Only this column; can be given again.")
]
Start = Annotated[
    str | None, typer.Option("--start", metavar="KEY", help="From this value of the key's first column on.")
]
Stop = Annotated[str | None, typer.Option("--stop", metavar="KEY", help="Up to this value, and not with it.")]


def add_to(app: typer.Typer) -> None:
    """The commands of this module."""
    app.command(epilog=examples("viewkeeper init --db shop.vk"))(init)
    app.command(
        epilog=examples(
            "viewkeeper put sales id=1 product=book price=9.90 --db shop.vk",
            """viewkeeper put sales '{"id": 2, "product": null, "price": "1.20"}' --db shop.vk""",
            "cat rows.jsonl | viewkeeper put sales - --db shop.vk",
        )
    )(put)
    app.command(epilog=examples("viewkeeper get sales 1 --db shop.vk", "viewkeeper get revenue books Rome -f json"))(
        get
    )
    app.command(epilog=examples("viewkeeper find sales_by_shop Rome --db shop.vk"))(find)
    app.command(
        epilog=examples(
            "viewkeeper scan sales --limit 10 --db shop.vk", "viewkeeper scan sales --start 100 --stop 200 -f csv"
        )
    )(scan)
    app.command(epilog=examples("viewkeeper delete sales 1 --db shop.vk"))(delete)


def init(db: Db) -> None:
    """Make a database, which is a folder. One that is there already stays as it is."""
    quick_start()
    from viewkeeper.database import open as open_database
    from viewkeeper.store.embedded import EmbeddedStore

    there = EmbeddedStore.is_in(db)
    open_database(db).close()
    say(f"{db} is a database already" if there else f"made {db}")


def put(table: TableName, row: Rows, db: Db) -> None:
    """Write rows. They are new, or take the place of those with the same key: all of them, or none."""
    from viewkeeper.cli.text_values import row_arguments

    with writing(db) as database:
        target = database.table(table)
        rows = row_arguments(target.schema, row, sys.stdin)
        target.put(rows)
    say(f"put {counted(len(rows), 'row')}")


def get(name: Name, key: Key, db: Db, format: Shown = Format.TABLE) -> None:
    """Print the row of a key. Fails if there is none."""
    from viewkeeper.cli.show import show_row
    from viewkeeper.cli.text_values import key_argument

    with reading(db) as database:
        source = named(database, name)
        row = source.get(key_argument(source, key))
        if row is None:
            raise NotFound(f'"{source.name}" has no row with {_said(source.key, key)}', hint="scan shows what there is")
        show_row(row, source.schema, format)


def _said(columns: tuple[str, ...], key: list[str]) -> str:
    return ", ".join(f"{column} = {part}" for column, part in zip(columns, key, strict=False))


def find(name: Name, key: Key, db: Db, format: Shown = Format.TABLE) -> None:
    """Print the rows under the first parts of a key. This is what CLUSTER BY arranges a view for."""
    from viewkeeper.cli.show import show
    from viewkeeper.cli.text_values import key_argument

    with reading(db) as database:
        source = named(database, name)
        show(source.scan(prefix=key_argument(source, key)), format)


def scan(
    name: Name,
    db: Db,
    start: Start = None,
    stop: Stop = None,
    limit: Limit = None,
    column: Columns = None,
    format: Shown = Format.TABLE,
) -> None:
    """Print rows in the order of their key."""
    from viewkeeper.cli.show import show
    from viewkeeper.cli.text_values import key_argument

    with reading(db) as database:
        source = named(database, name)
        first, last = (None if bound is None else key_argument(source, [bound]) for bound in (start, stop))
        most = FIRST if limit is None and format is Format.TABLE else limit
        one_more: dict[str, Any] = {"limit": None if most is None else most + 1, "columns": column}
        found = source.scan(first, last, **one_more)
    show(found if most is None else found.slice(0, most), format)
    if most is not None and found.num_rows > most:
        say(f"the first {most:,} rows; there are more: --limit")


def delete(table: TableName, key: Key, db: Db) -> None:
    """Remove the row of a key. One that is not there is no error."""
    from viewkeeper.cli.text_values import key_argument

    with writing(db) as database:
        target = database.table(table)
        target.delete(key_argument(target, key))


def named(database: Database, name: str) -> Table | View:
    """A table or a view."""
    return next((view for view in database.views() if view.name.lower() == name.lower()), None) or database.table(name)
