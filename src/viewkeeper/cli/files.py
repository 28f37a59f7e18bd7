"""import and export: rows from files and into files."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from viewkeeper.cli.options import Db, Name, TableName, counted, examples, reading, say, writing
from viewkeeper.cli.sources import ENDINGS, Kind, files_of, kind_of
from viewkeeper.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...", help="Files, folders of files, or patterns such as 'data/*.csv'.", show_default=False
    ),
]
As = Annotated[
    Kind | None,
    typer.Option(
        "--as",
        metavar="csv|json|parquet",
        help="What is in the files, if their endings do not say.",
        show_default=False,
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option("--delimiter", metavar="CHARACTER", help="Between the fields of CSV. [a comma; .tsv: a tab]"),
]
SkipBad = Annotated[
    Path | None,
    typer.Option("--skip-bad", metavar="FILE", help="Set rows that do not fit aside here, and write the others."),
]
Target = Annotated[Path, typer.Argument(metavar="FILE", help="Where to; the ending says how.", show_default=False)]
Force = Annotated[bool, typer.Option("--force", help="Write over a file that is there.")]


def add_to(app: typer.Typer) -> None:
    """The commands of this module."""
    app.command(
        name="import",
        epilog=examples(
            "viewkeeper import sales sales.csv --db shop.vk",
            "viewkeeper import sales 'data/*.parquet' --skip-bad bad.jsonl",
        ),
    )(import_)
    app.command(
        epilog=examples("viewkeeper export revenue revenue.parquet --db shop.vk", "viewkeeper export sales sales.csv")
    )(export)


def import_(
    table: TableName, file: Sources, db: Db, as_: As = None, delimiter: Delimiter = None, skip_bad: SkipBad = None
) -> None:
    """Write the rows of files into a table. CSV with a header, JSON lines, Parquet; .gz too: all of them, or none.

    A row that does not fit is named by its file and line, and nothing is written. The rows are kept in memory
    until all are judged, and written in one transaction.
    """
    files = files_of(file, as_)
    with writing(db) as database:
        from viewkeeper.cli.loading import Wanted, load

        target = database.table(table)
        with _bar(files) as progress:
            done = load(target, Wanted(files, as_, delimiter), progress, skip_bad)
    say(f"imported {counted(done.rows, 'row')} into {target.name}")
    if done.set_aside:
        say(f"set {counted(done.set_aside, 'row')} aside in {skip_bad}")


@contextmanager
def _bar(files: Sequence[Path]) -> Iterator[Callable[[Path, int], None]]:
    """A bar on standard error, where that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda file, read: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    sizes = {file: file.stat().st_size for file in files}
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    read: dict[Path, int] = {}
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("importing", total=sum(sizes.values()))

        def show(file: Path, so_far: int) -> None:
            read[file] = max(so_far, read.get(file, 0))
            bar.update(task, completed=sum(read.values()), description=f"importing {file.name}")

        yield show


def export(name: Name, file: Target, db: Db, force: Force = False) -> None:
    """Write the rows of a table or view into a file. CSV, JSON lines or Parquet: it is there whole, or not at all."""
    kind = kind_of(file)
    if kind is None or file.suffix == ".gz":
        raise InputError(
            f'"{file}" has no ending that says what to write', hint=f"the endings are {', '.join(ENDINGS)}"
        )
    if file.exists() and not force:
        raise InputError(f'"{file}" is there already', hint="choose another name, or write over it: --force")
    with reading(db) as database:
        from viewkeeper.cli.rows import named

        rows = named(database, name).scan()
    with _whole_file(file) as to:
        _writer(kind)(rows, to)
    say(f"exported {counted(rows.num_rows, 'row')} into {file}")


def _writer(kind: Kind) -> Callable[[pa.Table, IO[bytes]], None]:
    from viewkeeper.cli.show import write_csv, write_json

    return {Kind.CSV: write_csv, Kind.JSON: write_json, Kind.PARQUET: _write_parquet}[kind]


def _write_parquet(rows: pa.Table, to: IO[bytes]) -> None:
    from pyarrow import parquet

    parquet.write_table(rows, to)


@contextmanager
def _whole_file(file: Path) -> Iterator[IO[bytes]]:
    """A file beside the one that is meant, which takes its place when it is whole."""
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with beside.open("wb") as to:
            yield to
        beside.replace(file)
    except OSError as error:
        raise InputError(f'"{file}" cannot be written: {error.strerror}', hint="look at the folder") from error
    finally:
        with suppress(OSError):
            beside.unlink()
