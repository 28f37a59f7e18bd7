"""`run`: keep views fresh by their schedules until stopped. What happens is told line by line on standard error."""

from __future__ import annotations

import enum
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from viewkeeper.cli.options import Db, examples, working


class LogFormat(enum.StrEnum):
    """How a line is written."""

    TEXT = "text"
    JSON = "json"


Seconds = Annotated[
    float | None,
    typer.Option(
        "--seconds", metavar="SECONDS", min=0.0, help="Stop after so long; else at Ctrl-C.", show_default=False
    ),
]
MetricsPort = Annotated[
    int | None,
    typer.Option(
        "--metrics-port",
        metavar="PORT",
        min=0,
        max=65_535,
        help="Serve metrics for Prometheus here; 0 is any free port.",
        show_default=False,
    ),
]
Log = Annotated[LogFormat, typer.Option("--log-format", metavar="text|json", help="How each line is written.")]


def add_to(app: typer.Typer) -> None:
    """The commands of this module."""
    app.command(
        epilog=examples(
            "viewkeeper run --db shop.vk",
            "viewkeeper run --seconds 60 --metrics-port 9108 --log-format json --db shop.vk",
        )
    )(run)


def run(db: Db, seconds: Seconds = None, metrics_port: MetricsPort = None, log_format: Log = LogFormat.TEXT) -> None:
    """Keep views fresh by their schedules. Until Ctrl-C; each epoch is a line on standard error.

    Epochs under way are finished first. Several processes may run one database: one maintains it, the others
    stand by and take over if it dies.
    """
    with working(db) as database, _told(log_format):
        database.run(seconds, metrics_port=metrics_port)


@contextmanager
def _told(form: LogFormat) -> Iterator[None]:
    """What a run logs, on standard error."""
    from viewkeeper.service.logs import LOGGER, JsonFormatter

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form is LogFormat.JSON else logging.Formatter("%(asctime)s %(message)s"))
    logger = logging.getLogger(LOGGER)
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
