"""The commands by name, and what becomes of an error: one sentence and the way out, an exit code, no traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from viewkeeper.cli import files, programs, prompt, rows, running, status, views
from viewkeeper.cli.options import DEBUG, examples, say
from viewkeeper.errors import ViewkeeperError

FAILED = 1

app = typer.Typer(
    name="viewkeeper",
    # Plain help: it costs nothing to import, and reads the same in a terminal, a pipe and a page of documentation.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "viewkeeper init --db shop.vk",
        "viewkeeper sql --db shop.vk -c 'CREATE TABLE sales (id BIGINT PRIMARY KEY, price DECIMAL(10,2))'",
        "viewkeeper put sales id=1 price=9.90 --db shop.vk",
        "viewkeeper get sales 1 --db shop.vk",
    ),
)


@app.callback()
def viewkeeper(
    debug: Annotated[bool, typer.Option("--debug", help="Show an error's traceback, and what Spark says.")] = False,
) -> None:
    """Keeps materialized views true while the tables under them change.

    Every command that works on a database takes --db FOLDER, or the folder that VIEWKEEPER_DB names.
    Data goes to standard output, messages to standard error.
    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 a view differs from its query.
    """
    if debug:
        os.environ[DEBUG] = "1"


for group in (rows, prompt, files, views, status, running, programs):
    group.add_to(app)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code. Wrong usage is told, and ended with 2, by the parser."""
    try:
        app(args=None if arguments is None else list(arguments), prog_name="viewkeeper")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else FAILED
    except BrokenPipeError:
        # Whoever read our output has had enough (`| head`). Python would complain once more when it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        if os.environ.get(DEBUG):
            raise
        say(f"error: {_told(error)}")
        return FAILED
    return 0


def _told(error: Exception) -> str:
    """Our errors are written to be read. Of others the first line says most, and their kind the rest."""
    if isinstance(error, ViewkeeperError):
        return str(error)
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    kind = type(error).__name__
    return f"{first or kind}\n  hint: viewkeeper --debug ... shows where it happened ({kind})"
