"""The story: open a database, load it, define views, let changes stream, and check every view at the end."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import viewkeeper as vk
from viewkeeper.demo.screen import Figures, Screen
from viewkeeper.demo.shop import VIEWS, load
from viewkeeper.demo.traffic import Traffic
from viewkeeper.engine.quiet import quiet_spark

STEPS = 6
ANY_SHOP = 7

NEXT = """
Try next:
  make demo ARGS="--events 1000000"   an epoch costs the change, not the table
  .venv/bin/viewkeeper --help         the command line; docs/cli.md
  README.md, docs/tutorial.md         your own tables and views
  docs/limitations.md                 what follows from changes and what does not
  make test                           the tests
"""


@dataclass(frozen=True)
class Size:
    events: int
    seconds: float


LONG = Size(200_000, 20.0)
SHORT = Size(20_000, 6.0)
MOST_SECONDS = 90.0
"""By then the traffic has taken away all the events that a short run begins with."""


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; 0 if every view is what its query says."""
    chosen = _parser().parse_args(arguments)
    size = SHORT if chosen.short or os.environ.get("CI", "").lower() in ("1", "true") else LONG
    size = Size(chosen.events or size.events, chosen.seconds or size.seconds)
    screen = Screen(STEPS)
    try:
        with tempfile.TemporaryDirectory(prefix="viewkeeper-demo-") as folder:
            return _run(Path(folder), size, screen, verbose=chosen.verbose)
    except KeyboardInterrupt:
        screen.say("stopped")
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="viewkeeper demo", description="Views that follow their tables, and the proof of it."
    )
    parser.add_argument("--short", action="store_true", help="fewer events, less time; also with CI=true")
    parser.add_argument("--events", type=_many, help=f"rows to begin with (default {LONG.events:,})")
    parser.add_argument("--seconds", type=_some, help=f"how long changes stream (default {LONG.seconds:.0f})")
    parser.add_argument("--verbose", action="store_true", help="show what Spark says")
    return parser


def _many(text: str) -> int:
    """Enough events for the traffic to take some away."""
    if int(text) < SHORT.events:
        raise argparse.ArgumentTypeError(f"give {SHORT.events:,} or more")
    return int(text)


def _some(text: str) -> float:
    if not 0 < float(text) <= MOST_SECONDS:
        raise argparse.ArgumentTypeError(f"give more than 0 and at most {MOST_SECONDS:.0f}")
    return float(text)


def _run(folder: Path, size: Size, screen: Screen, *, verbose: bool) -> int:
    os.environ.setdefault("SPARK_LOCAL_DIRS", str(folder / "spark"))
    with vk.open(folder / "shop.vk") as db:
        with screen.step("starting Spark"), nullcontext() if verbose else quiet_spark():
            session = db.sql("SELECT 1").sparkSession
        try:
            return _story(db, size, screen)
        finally:
            session.stop()


def _story(db: vk.Database, size: Size, screen: Screen) -> int:
    with screen.step(f"writing {size.events:,} events, and products, categories and shops"):
        load(db, size.events)
    with screen.step("defining views"):
        _define(db, screen)
    figures = _follow(db, size, screen)
    recomputed = _recompute(db, screen)
    wrong = _verify(db, screen)
    _conclude(screen, figures, recomputed, wrong)
    return 1 if wrong else 0


def _define(db: vk.Database, screen: Screen) -> None:
    for wanted in VIEWS:
        view = db.create_view(wanted.name, wanted.query, cluster_by=wanted.cluster_by)
        screen.note(f"{wanted.name:15}{view.status().strategy:13}{wanted.shows}")


def _follow(db: vk.Database, size: Size, screen: Screen) -> Figures:
    """Epoch after epoch while changes stream; one more when they have ended."""
    started = time.perf_counter()
    epochs: list[float] = []
    with screen.stream("changes stream in, and the views follow", size.seconds) as stream:
        with Traffic(db, size.events) as traffic:
            while time.perf_counter() - started < size.seconds:
                epochs += _refresh(db)
                stream.show(_figures(db, time.perf_counter() - started, traffic.written, epochs))
        epochs += _refresh(db)
        figures = _figures(db, time.perf_counter() - started, traffic.written, epochs)
        stream.show(figures)
    changes = figures.written / max(1, figures.epochs)
    screen.note(
        f"{figures.written:,} changes in {figures.epochs} epochs: {changes:,.0f} changes in {figures.average:.2f} s"
    )
    started = time.perf_counter()
    found = db.view("events_by_shop").find(ANY_SHOP).num_rows
    milliseconds = 1_000 * (time.perf_counter() - started)
    screen.note(f"looked up through the index: {found:,} events of shop {ANY_SHOP} in {milliseconds:.0f} ms, no Spark")
    return figures


def _refresh(db: vk.Database) -> list[float]:
    """The seconds of the epoch, if there was one."""
    report = db.refresh()
    for view, error in report.failed.items():
        raise RuntimeError(f"view {view} stopped: {error}")
    return [epoch.seconds for epoch in report.epochs if epoch.epoch is not None]


def _figures(db: vk.Database, seconds: float, written: int, epochs: list[float]) -> Figures:
    with db.snapshot() as at:
        revenues = [(row["category"], row["revenue"]) for row in at.view("by_category").scan().to_pylist()]
        quiet = at.view("quiet_shops").scan().num_rows
    waiting = min(written, db.view("revenue").status().waiting)
    return Figures(seconds, written, waiting, len(epochs), sum(epochs), quiet, revenues)


def _recompute(db: vk.Database, screen: Screen) -> float:
    """Seconds for what incremental maintenance saves: every query once more, over whole tables. Nothing is stored."""
    with screen.step("for comparison, evaluating every query over the whole tables with Spark"):
        started = time.perf_counter()
        for wanted in VIEWS:
            db.sql(wanted.query).toArrow()
        return time.perf_counter() - started


def _verify(db: vk.Database, screen: Screen) -> list[str]:
    """The views that differ from their queries."""
    wrong = []
    with screen.step("verifying every view against its query, row by row, both ways"):
        for wanted in VIEWS:
            found = db.verify(wanted.name)
            verdict = "verified" if found.equal else f"DIFFERS: {found.missing} missing, {found.extra} too many"
            screen.note(f"{wanted.name:15}{found.rows:>9,} rows  {verdict}")
            if not found.equal:
                wrong.append(wanted.name)
    return wrong


def _conclude(screen: Screen, figures: Figures, recomputed: float, wrong: list[str]) -> None:
    screen.say()
    screen.say(f"an epoch of all {len(VIEWS)} views took  {figures.average:6.2f} s on average, stored and committed")
    screen.say(f"evaluating them again takes {recomputed:6.2f} s, and stores nothing")
    if wrong:
        screen.say(f"NOT verified: {', '.join(wrong)}")
    else:
        screen.say(f"all {len(VIEWS)} views verified: they are what their queries say")
        screen.say(NEXT.rstrip())


if __name__ == "__main__":
    sys.exit(main())
