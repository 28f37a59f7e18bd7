"""`sql`: one statement, a file of them, or a prompt. CREATE and DROP are ours; everything else is a query, and Spark's."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from viewkeeper.cli.options import Db, Format, Shown, examples, say, working
from viewkeeper.errors import QueryFailed, StatementError, ViewkeeperError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from viewkeeper.database import Database

OURS = ("CREATE", "DROP")
WRITES = ("INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "ALTER")
LEAVE = ("exit", "quit", "\\q")
HISTORY = Path("~/.viewkeeper_history")
KEPT = 1_000
"""Lines of the prompt's history that are kept."""

Command = Annotated[
    list[str] | None, typer.Option("--command", "-c", metavar="STATEMENT", help="A statement; can be given again.")
]
Script = Annotated[
    Path | None,
    typer.Argument(metavar="[FILE]", help="Statements, each ended by ;. - is standard input.", show_default=False),
]


def add_to(app: typer.Typer) -> None:
    """The commands of this module."""
    app.command(
        epilog=examples(
            "viewkeeper sql -c 'SELECT product, sum(price) FROM sales GROUP BY product' --db shop.vk",
            "viewkeeper sql setup.sql --db shop.vk",
            "viewkeeper sql --db shop.vk",
        )
    )(sql)


def sql(db: Db, file: Script = None, command: Command = None, format: Shown = Format.TABLE) -> None:
    """Run SQL: a statement, a file, or a prompt. The prompt has a history.

    CREATE and DROP a TABLE or a MATERIALIZED VIEW, and any query of Spark's over tables and views.
    A file stops at the first statement that fails.
    """
    if file is not None and command:
        raise typer.BadParameter("give a file or --command, not both")
    with working(db) as database:
        if command:
            _run_all(database, command, format)
        elif file is not None or not sys.stdin.isatty():
            _run_all(database, [_text(file)], format)
        else:
            _prompt(database, format)


def _text(file: Path | None) -> str:
    if file is None or str(file) == "-":
        return sys.stdin.read()
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StatementError(
            f'file "{file}" cannot be read: {error}', hint="give a text file of SQL statements"
        ) from None


def _run_all(database: Database, texts: list[str], form: Format) -> None:
    for text in texts:
        for statement in statements(text):
            run_statement(database, statement, form)


def statements(text: str) -> Iterator[str]:
    """The statements of a text, told apart by the semicolons that are neither in quotes nor in comments.

    >>> list(statements("SELECT ';'; -- none; here\\nDROP TABLE t"))
    ["SELECT ';'", '-- none; here\\nDROP TABLE t']
    """
    from viewkeeper.sql.syntax import tokens

    start, words = 0, 0
    for token in tokens(text):
        if token.text != ";" or text[token.start] != ";":
            words += 1
            continue
        if words:
            yield text[start : token.start].strip()
        start, words = token.end + 1, 0
    if words:
        yield text[start:].strip()


def run_statement(database: Database, statement: str, form: Format) -> None:
    """One statement; a query's rows go to standard output."""
    from viewkeeper.cli.show import show

    word = _first_word(statement)
    if word in WRITES:
        raise StatementError(
            f"{word} is not a statement of viewkeeper's", hint="write rows with: viewkeeper put, delete, import"
        )
    if word in OURS:
        database.execute(statement)
        say("done")
    else:
        show(_collected(database.sql(statement)), form)


def _collected(frame: DataFrame) -> pa.Table:
    """A query's rows. That it fails on one of them is the query's or the row's fault, and said in one sentence."""
    try:
        return frame.toArrow()
    except Exception as error:
        if not type(error).__module__.startswith("pyspark."):
            raise
        raise QueryFailed(f"the query fails: {_first_line(error)}", hint="mend the row or the query") from error


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _first_word(statement: str) -> str:
    from viewkeeper.sql.syntax import tokens

    return next((token.text.upper() for token in tokens(statement)), "")


# The prompt


def _prompt(database: Database, form: Format) -> None:
    say("SQL over tables and views; a statement ends with ;. Leave with exit or Ctrl-D.")
    with suppress(EOFError):
        for statement in _typed():
            try:
                run_statement(database, statement, form)
            except ViewkeeperError as error:
                say(f"error: {error}")
            except KeyboardInterrupt:
                say("stopped")
            except Exception as error:
                say(f"error: {_first_line(error)}")
    say("")


def _typed() -> Iterator[str]:
    """What is typed, statement by statement, until the end."""
    _remember()
    lines: list[str] = []
    while True:
        try:
            line = input("....> " if lines else "sql> ")
        except KeyboardInterrupt:
            say("")
            lines = []
            continue
        if not lines and line.strip().rstrip(";").lower() in LEAVE:
            return
        lines.append(line)
        if _is_whole("\n".join(lines)):
            yield from statements("\n".join(lines))
            lines = []


def _is_whole(text: str) -> bool:
    """A quote that is not closed yet wants another line, whatever the line ends with."""
    from viewkeeper.sql.syntax import tokens

    if not text.strip():
        return True
    with suppress(StatementError):
        tokens(text)
        return text.rstrip().endswith(";")
    return False


def _remember() -> None:
    """The arrow keys bring back what was typed, also by earlier prompts. Without readline there is just no history."""
    with suppress(ImportError):
        import atexit
        import readline

        path = HISTORY.expanduser()
        with suppress(OSError):
            readline.read_history_file(path)
        readline.set_history_length(KEPT)
        atexit.register(_keep, path)


def _keep(path: Path) -> None:
    import readline

    with suppress(OSError):
        readline.write_history_file(path)
