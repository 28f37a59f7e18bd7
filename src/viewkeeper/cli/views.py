"""Views: refresh, explain, verify, repair, history, changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from viewkeeper.cli.options import Db, Format, Shown, SomeViews, ViewName, counted, examples, reading, say, working

if TYPE_CHECKING:
    import pyarrow as pa

    from viewkeeper.database import Database
    from viewkeeper.engine.reports import EpochReport, Verification

DIFFERS = 3
FAILED = 1

Since = Annotated[int, typer.Option("--since", min=0, metavar="EPOCH", help="The changes after this epoch.")]
Last = Annotated[int, typer.Option("--last", min=1, metavar="EPOCHS", help="The newest so many.")]


def add_to(app: typer.Typer) -> None:
    """The commands of this module."""
    app.command(epilog=examples("viewkeeper refresh --db shop.vk", "viewkeeper refresh revenue --db shop.vk"))(refresh)
    app.command(epilog=examples("viewkeeper explain revenue --db shop.vk"))(explain)
    app.command(epilog=examples("viewkeeper verify --db shop.vk", "viewkeeper verify revenue -f json --db shop.vk"))(
        verify
    )
    app.command(epilog=examples("viewkeeper repair revenue --db shop.vk"))(repair)
    app.command(epilog=examples("viewkeeper history --last 5 --db shop.vk", "viewkeeper history revenue -f csv"))(
        history
    )
    app.command(epilog=examples("viewkeeper changes revenue --since 7 -f json --db shop.vk"))(changes)


def refresh(db: Db, view: SomeViews = None, format: Shown = Format.TABLE) -> None:
    """Bring views up to date. A view brings along those of the same schedule.

    Fails if a view's query fails on some row: that view stops, and the others go on.
    """
    with working(db) as database:
        reports = [database.refresh(name) for name in view] if view else [database.refresh()]
    epochs = [epoch for report in reports for epoch in report.epochs if epoch.epoch is not None]
    if not epochs:
        say("nothing had changed")
    else:
        # When it finished is now, in the eyes of people.
        _show(_epoch_rows(epochs), _EPOCHS, format, hidden=("finished",))
    failed = {name: error for report in reports for name, error in report.failed.items()}
    for name, error in failed.items():
        say(f'view "{name}" stopped: {error}')
    if failed:
        raise typer.Exit(FAILED)


def explain(view: ViewName, db: Db) -> None:
    """Say how a view is maintained. Strategy and reason, blocks, indexes, the way of each change; starts no Spark."""
    with reading(db) as database:
        print(database.explain(view))


def verify(db: Db, view: SomeViews = None, format: Shown = Format.TABLE) -> None:
    """Compare views with their queries. Spark evaluates these from scratch, at the views' own point in history.

    Ends with 3 if one differs, after the first rows that do.
    """
    with working(db) as database:
        found = [database.verify(name) for name in view or _names(database)]
    if not found:
        say("there are no views")
        return
    _show([_verdict(one) for one in found], _VERDICTS, format)
    different = [one for one in found if not one.equal]
    for one in different:
        _tell_difference(one)
    if different:
        raise typer.Exit(DIFFERS)


def _tell_difference(found: Verification) -> None:
    say(f'view "{found.view}" differs from its query: {found.missing:,} missing, {found.extra:,} too many')
    for example in found.examples:
        say(f"  {example['side']}: {example['row']}")
    say(f"  hint: viewkeeper repair {found.view} applies the difference")


def repair(view: ViewName, db: Db) -> None:
    """Make a view what its query says. Exactly the difference is applied."""
    with working(db) as database:
        done = database.repair(view)
    if done.error is not None:
        say(f'view "{done.view}" cannot be repaired: {done.error}')
        raise typer.Exit(FAILED)
    say(f"repaired {done.view}: {counted(done.inserted, 'row')} in, {done.updated:,} changed, {done.deleted:,} out")


def history(db: Db, view: SomeViews = None, last: Last = 20, format: Shown = Format.TABLE) -> None:
    """Print what past epochs did. Oldest first, of all views or of some; starts no Spark."""
    with reading(db) as database:
        epochs = database.history() if not view else list(_histories(database, view))
    wanted = None if not view else {name.lower() for name in view}
    newest = sorted(epochs, key=lambda epoch: epoch.finished)[-last:]
    _show(_epoch_rows(newest, wanted), _EPOCHS, format)


def _histories(database: Database, views: Iterable[str]) -> Iterator[EpochReport]:
    """Each epoch once, also where several of the views are of one group."""
    seen: set[tuple[str, int | None]] = set()
    for name in views:
        for epoch in database.history(name):
            if (epoch.group, epoch.epoch) not in seen:
                seen.add((epoch.group, epoch.epoch))
                yield epoch


def changes(view: ViewName, db: Db, since: Since, format: Shown = Format.TABLE) -> None:
    """Print what left and came after an epoch. Starts no Spark.

    The weight says how often: negative for what left. Since 0 is everything from the beginning.
    """
    from viewkeeper.cli.show import show

    with reading(db) as database:
        found = database.view(view).changes(since=since)
    show(found, format)


# As tables


def _names(database: Database) -> list[str]:
    return [view.name for view in database.views()]


_VERDICTS = {"view": str, "epoch": int, "rows": int, "missing": int, "extra": int, "verdict": str}
_EPOCHS = {
    "finished": datetime, "group": str, "epoch": int, "view": str, "strategy": str, "changes": int, "inserted": int,
    "updated": int, "deleted": int, "seconds": float, "error": str,
}  # fmt: skip


def _verdict(found: Verification) -> dict[str, Any]:
    verdict = "verified" if found.equal else "differs"
    return {
        "view": found.view, "epoch": found.epoch, "rows": found.rows, "missing": found.missing, "extra": found.extra,
        "verdict": verdict,
    }  # fmt: skip


def _epoch_rows(epochs: Iterable[EpochReport], wanted: set[str] | None = None) -> list[dict[str, Any]]:
    return [
        {
            "finished": datetime.fromtimestamp(round(epoch.finished, 3), UTC),
            "group": epoch.group,
            "epoch": epoch.epoch,
            "view": view.view,
            "strategy": view.strategy,
            "changes": view.changes,
            "inserted": view.inserted,
            "updated": view.updated,
            "deleted": view.deleted,
            "seconds": round(view.seconds, 4),
            "error": view.error,
        }
        for epoch in epochs
        for view in epoch.views
        if wanted is None or view.view.lower() in wanted
    ]


def _show(rows: list[dict[str, Any]], columns: dict[str, type], form: Format, hidden: Sequence[str] = ()) -> None:
    """People are spared the columns that say nothing."""
    from viewkeeper.cli.show import show

    found = table_of(rows, columns)
    empty = [name for name in found.column_names if found.num_rows and found[name].null_count == found.num_rows]
    show(found.drop_columns(list({*empty, *hidden})) if form is Format.TABLE else found, form)


def table_of(rows: list[dict[str, Any]], columns: dict[str, type]) -> pa.Table:
    """Our own facts as an Arrow table, so that they are printed as rows are."""
    import pyarrow as pa

    types = {str: pa.string(), int: pa.int64(), float: pa.float64(), datetime: pa.timestamp("us", tz="UTC")}
    return pa.Table.from_pylist(rows, schema=pa.schema([(name, types[kind]) for name, kind in columns.items()]))
