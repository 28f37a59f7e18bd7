"""demo, bench and prepare: about the installation as a whole, and no database of yours."""

from __future__ import annotations

from typing import Annotated

import typer

from viewkeeper.cli.options import examples, say


def add_to(app: typer.Typer) -> None:
    """The commands of this module."""
    app.command(epilog=examples("viewkeeper demo", "viewkeeper demo --short --seconds 5"))(demo)
    app.command(
        epilog=examples("viewkeeper bench --quick", "viewkeeper bench store -- --seed 2", "viewkeeper bench -- --help"),
    )(bench)
    app.command(epilog=examples("viewkeeper prepare"))(prepare)


def demo(
    short: Annotated[bool, typer.Option("--short", help="Fewer events and less time.")] = False,
    events: Annotated[int | None, typer.Option("--events", metavar="ROWS", help="Rows to begin with.")] = None,
    seconds: Annotated[float | None, typer.Option("--seconds", help="How long changes stream.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show what Spark says.")] = False,
) -> None:
    """Show views at work. They follow their tables while changes stream, and are verified at the end."""
    from viewkeeper.demo.__main__ import main

    given = {"--short": short, "--verbose": verbose}
    arguments = [name for name, wanted in given.items() if wanted]
    for name, value in (("--events", events), ("--seconds", seconds)):
        arguments += [] if value is None else [name, str(value)]
    raise typer.Exit(main(arguments))


def bench(
    name: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...", help="Experiments, all if left out; after --, options of theirs.", show_default=False
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A short run.")] = False,
) -> None:
    """Measure viewkeeper beside the same work done in other ways."""
    from viewkeeper.bench.__main__ import main

    raise typer.Exit(main([*(["--quick"] if quick else []), *(name or [])]))


def prepare() -> None:
    """Let Spark start faster from now on. Takes half a minute and 200 MB, once for an installation.

    Java's classes are written to one file in the Python environment, which later commands and programs find by
    themselves. Call it again after another Java or PySpark was installed.
    """
    from viewkeeper.engine.archive import make_archive

    say("starting Spark once, to write down what it loads ...")
    path = make_archive()
    say(f"made {path} ({path.stat().st_size >> 20} MB): Spark starts faster from now on")
