"""Where every view is, at a glance: its schedule, its last epoch, how far it is behind, and why it stopped if it did."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from viewkeeper.cli.options import Db, Format, Shown, examples, reading, say

if TYPE_CHECKING:
    from rich.console import RenderableType

    from viewkeeper.database import Database, ViewStatus
    from viewkeeper.service.stopping import Stop

COLUMNS = {
    "group": str, "view": str, "strategy": str, "epoch": int, "refreshed": datetime, "waiting": int, "lag": float,
    "rows": int, "changes": int, "seconds": float, "reason": str, "failure": str,
}  # fmt: skip

Watch = Annotated[bool, typer.Option("--watch", "-w", help="Draw it again and again, until Ctrl-C.")]
Every = Annotated[float, typer.Option("--every", min=0.1, metavar="SECONDS", help="With --watch: how often.")]


def add_to(app: typer.Typer) -> None:
    """The commands of this module."""
    app.command(
        epilog=examples(
            "viewkeeper status --db shop.vk", "viewkeeper status --watch --db shop.vk", "viewkeeper status -f json"
        )
    )(status)


def status(db: Db, watch: Watch = False, every: Every = 1.0, format: Shown = Format.TABLE) -> None:
    """Say where every view is. Schedule, last epoch, lag, rows, strategy, why it stopped; starts no Spark.

    waiting: changes of the tables that the view has not seen; lag: for how many seconds the oldest of them has waited;
    changes, seconds: what the view's last epoch took in, and how long it took.
    """
    with reading(db) as database:
        if watch:
            _watch(database, every, format)
        else:
            _once(database, format)


def _once(database: Database, form: Format) -> None:
    from viewkeeper.cli.show import print_rich, show
    from viewkeeper.cli.views import table_of

    found = database.status()
    if form is not Format.TABLE:
        show(table_of([_facts(one) for one in found], COLUMNS), form)
    elif not found:
        say("there are no views")
    else:
        print_rich(_picture(found, time.time()))


def _watch(database: Database, every: float, form: Format) -> None:
    """In place on a terminal; elsewhere, and for programs, one picture after the other.

    A KeyboardInterrupt can get lost in a driver that has no way to pass it on, so Ctrl-C is heard of in another way.
    """
    from viewkeeper.service.stopping import stopping

    with stopping(None) as stop:
        if form is Format.TABLE and sys.stdout.isatty():
            _live(database, every, stop)
        while stop.reason is None:
            _once(database, form)
            sys.stdout.flush()
            stop.wait(every)


def _live(database: Database, every: float, stop: Stop) -> None:
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(highlight=False), auto_refresh=False, vertical_overflow="visible") as live:
        while stop.reason is None:
            live.update(_picture(database.status(), time.time()), refresh=True)
            stop.wait(every)


def _facts(found: ViewStatus) -> dict[str, Any]:
    return {
        "group": found.group,
        "view": found.name,
        "strategy": found.strategy,
        "epoch": found.epoch,
        "refreshed": None if found.refreshed is None else datetime.fromtimestamp(round(found.refreshed, 3), UTC),
        "waiting": found.waiting,
        "lag": round(found.lag, 3),
        "rows": found.rows,
        "changes": None if found.last is None else found.last.changes,
        "seconds": None if found.last is None else round(found.last.seconds, 4),
        "reason": found.reason or None,
        "failure": found.failure,
    }


# For people


def _picture(found: list[ViewStatus], now: float) -> RenderableType:
    from rich.console import Group

    groups: dict[str, list[ViewStatus]] = {}
    for one in found:
        groups.setdefault(one.group, []).append(one)
    parts = [part for group, views in groups.items() for part in ("", *_group(group, views, now))]
    return Group(*parts[1:])


def _group(group: str, views: list[ViewStatus], now: float) -> list[Any]:
    from rich.text import Text

    from viewkeeper.cli.show import grid_of

    newest = max((view.refreshed for view in views if view.refreshed is not None), default=None)
    when = "" if newest is None else f", {_age(now - newest)} ago"
    title = Text(f"refreshed {group}: epoch {views[0].epoch}{when}", style="bold")
    columns = ("view", "rows", "waiting", "lag", "last epoch", "strategy", "state")
    grid = grid_of(columns, [_row(view) for view in views], ("rows", "waiting", "lag"))
    return [title, grid, *(_failure(view) for view in views if view.failure is not None)]


def _row(view: ViewStatus) -> dict[str, str]:
    last = view.last
    return {
        "view": view.name,
        "rows": f"{view.rows:,}",
        "waiting": f"{view.waiting:,}",
        "lag": f"{view.lag:.1f} s" if view.waiting else "",
        "last epoch": "" if last is None else f"{last.changes:,} changes in {last.seconds:.2f} s",
        "strategy": view.strategy,
        "state": "stopped" if view.failure is not None else "behind" if view.waiting else "current",
    }


def _failure(view: ViewStatus) -> Any:
    from rich.text import Text

    fact = str(view.failure).partition("\n")[0]
    hint = f"mend the row or the query, then: viewkeeper refresh {view.name}"
    return Text(f'view "{view.name}" stopped: {fact}\n  hint: {hint}', style="red")


def _age(seconds: float) -> str:
    """About how long.

    >>> _age(0.4), _age(75), _age(7_300)
    ('0 s', '1 min', '2 h')
    """
    if seconds < 60:
        return f"{max(0.0, seconds):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3_600 else f"{seconds / 3_600:.0f} h"
