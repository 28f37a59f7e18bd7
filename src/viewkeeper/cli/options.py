"""What commands share: the database they work on, how rows are printed, and how a command says something.

Every command that works on a database takes `--db FOLDER`, or the folder that VIEWKEEPER_DB names.
"""

from __future__ import annotations

import enum
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from viewkeeper.cli.start import quick_start
from viewkeeper.engine.quiet import quiet_spark

if TYPE_CHECKING:
    from viewkeeper.database import Database

DEBUG = "VIEWKEEPER_DEBUG"


class Format(enum.StrEnum):
    """How rows are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    ARROW = "arrow"


Db = Annotated[
    Path,
    typer.Option("--db", metavar="FOLDER", envvar="VIEWKEEPER_DB", help="The database's folder.", show_default=False),
]
Shown = Annotated[
    Format,
    typer.Option(
        "--format",
        "-f",
        metavar="table|json|csv|arrow",
        help="table for people; json (an object per line), csv or arrow (a stream) for programs.",
    ),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="A table or a view.", show_default=False)]
TableName = Annotated[str, typer.Argument(metavar="TABLE", help="A table.", show_default=False)]
ViewName = Annotated[str, typer.Argument(metavar="VIEW", help="A view.", show_default=False)]
SomeViews = Annotated[
    list[str] | None, typer.Argument(metavar="[VIEW]...", help="Views; all of them if left out.", show_default=False)
]
Key = Annotated[
    list[str],
    typer.Argument(
        metavar="KEY...",
        help="The key's values, in its order. Those that begin with - go after --.",
        show_default=False,
    ),
]


def examples(*lines: str) -> str:
    """The end of a command's help: what to type. (The first character keeps the lines from being filled.)"""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)


def counted(number: int, noun: str) -> str:
    """
    >>> counted(1, "row"), counted(2_000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"


def say(text: str) -> None:
    """A message for people: never on standard output, which is for data."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def reading(folder: Path) -> Iterator[Database]:
    """The database, for a command that starts no Spark."""
    quick_start()
    with _opened(folder) as db:
        yield db


@contextmanager
def writing(folder: Path) -> Iterator[Database]:
    """The database, for a command that writes rows: Spark is needed only where immediate views are brought along."""
    quick_start()
    with working(folder) as db:
        yield db


@contextmanager
def working(folder: Path) -> Iterator[Database]:
    """The database, for a command that may start Spark, whose own words stay out of sight unless asked for."""
    if os.environ.get(DEBUG):
        with _opened(folder) as db:
            yield db
        return
    with quiet_spark(), _opened(folder) as db:
        yield db


@contextmanager
def _opened(folder: Path) -> Iterator[Database]:
    from viewkeeper.database import open as open_database
    from viewkeeper.errors import NotFound

    gc.enable()
    try:
        db = open_database(folder, create=False)
    except NotFound as error:
        raise NotFound(error.message, hint=f"look at the name, or make one: viewkeeper init --db {folder}") from None
    with db:
        yield db
