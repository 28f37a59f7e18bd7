"""docs/cli.md, from the commands themselves: `python -m viewkeeper.cli.reference > docs/cli.md`. A test says if it is old."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

import typer

from viewkeeper.cli.app import app

HEAD = """\
# The command line

This page is made from the commands themselves: `python -m viewkeeper.cli.reference > docs/cli.md`.

`viewkeeper` is in the environment's `bin` folder; `python -m viewkeeper` is the same.

**The database.** Every command that works on one takes `--db FOLDER`, or the folder that the environment variable
`VIEWKEEPER_DB` names. `viewkeeper init` makes one; no other command does.

**Output.** Data goes to standard output, messages and progress to standard error. `--format` says how rows are printed:
`table` for people, `json` (an object per line), `csv` (with a header) or `arrow` (a stream) for programs. What `json` and
`csv` print, `put` and `import` read back to the same values: in JSON a DECIMAL is text and a MAP a list of pairs; BINARY is
base64; in CSV nested values are JSON, and an empty field is NULL, where a pair of quotes is an empty string.

**Exit codes.** 0 done, 1 failed, 2 wrong usage, 3 a view differs from its query.

**Errors** are one sentence and the way out. `viewkeeper --debug COMMAND ...` shows where one came from, and what Spark says.

**Spark** is started by `sql` (for a query or a new view), `refresh`, `run`, `verify`, `repair`, `demo` and `bench`, which takes a
few seconds, and by a write to a table that an immediate view stands on. The others start none. `prepare` is called once for an
installation: from then on Spark starts in little more than half the time.

**Completion.** `viewkeeper --install-completion` teaches the shell to complete commands and options.
"""


def reference() -> str:
    """The page."""
    commands: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]  # it is a group
    index = "\n".join(f"- [`{name}`](#{name}): {_first_sentence(command.help)}" for name, command in commands.items())
    return "\n".join([HEAD, index, *(_section(name, command) for name, command in commands.items())])


def _section(name: str, command: Any) -> str:
    parts = [f"\n## {name}\n", _text(command.help), f"\n```text\n{_usage(name, command)}\n```\n"]
    if command.params:
        parts += ["| | |\n|---|---|", *(_row(parameter) for parameter in command.params)]
    return "\n".join([*parts, f"\n```sh\n{_examples(command.epilog)}\n```"])


def _usage(name: str, command: Any) -> str:
    words = [_metavar(parameter) for parameter in command.params if _is_argument(parameter)]
    return " ".join(["viewkeeper", name, *words, "[OPTIONS]"])


def _row(parameter: Any) -> str:
    shown = f"`{_metavar(parameter)}`" if _is_argument(parameter) else _option(parameter)
    return f"| {shown} | {_cell(parameter)} |"


def _cell(parameter: Any) -> str:
    default = parameter.default
    plain = isinstance(default, str | int | float) and not isinstance(default, bool)
    suffix = f" Default: {getattr(default, 'value', default)}." if plain else ""
    return (parameter.help or "").replace("|", "\\|") + suffix


def _option(parameter: Any) -> str:
    names = ", ".join(f"`{name}`" for name in sorted(parameter.opts, key=len, reverse=True))
    return names if getattr(parameter, "is_flag", False) else f"{names} `{_metavar(parameter)}`"


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper()).replace("|", "\\|")


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


def _text(help_text: str) -> str:
    return re.sub(r"[ \t]*\n[ \t]*", "\n", help_text.strip())


def _first_sentence(help_text: str) -> str:
    return help_text.strip().partition("\n")[0].partition(". ")[0].rstrip(".")


def _examples(epilog: str) -> str:
    return "\n".join(_lines(epilog))


def _lines(epilog: str) -> Iterator[str]:
    return (line.strip() for line in epilog.splitlines()[2:])


if __name__ == "__main__":
    sys.stdout.write(reference())
