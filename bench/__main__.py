"""The command: `python -m bench [NAME ...] [--quick] [--scale X] [--json FOLDER] [--folder FOLDER] [--seed N]`.

Ends with 1 if any result was wrong, and in a full run also if a floor or ceiling was missed.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from bench.registry import BENCHMARKS
from bench.report import Report, breakdown_table, table, write
from bench.runner import Breakdown, Outcome, Verdict
from bench.settings import SEED, SMALL, Settings

ROOT = Path(__file__).parent.parent
WIDTH = 120


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    unknown = [name for name in given.names if name not in BENCHMARKS]
    if unknown:
        print(f'benchmark "{unknown[0]}" does not exist: there are {", ".join(BENCHMARKS)}', file=sys.stderr)
        return 2
    reports = [_run(name, given) for name in given.names or BENCHMARKS]
    return max(_code(report) for report in reports)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure, beside the same work done by hand.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(BENCHMARKS)}; all of them if left out")
    parser.add_argument("--quick", action="store_true", help="a short run; a missed floor does not fail it")
    parser.add_argument("--scale", type=_scale, default=1.0, metavar="X", help="multiply all sizes by X, or small")
    parser.add_argument(
        "--json", type=Path, default=ROOT / "bench" / "results", metavar="FOLDER", help="where results go"
    )
    parser.add_argument("--folder", type=Path, default=ROOT, help="the file system that is measured (this one)")
    parser.add_argument("--seed", type=int, default=SEED)
    return parser


def _scale(text: str) -> float:
    scale = SMALL if text == "small" else float(text)
    if scale <= 0:
        raise ValueError
    return scale


def _run(name: str, given: argparse.Namespace) -> Report:
    console = _console()
    folder = Path(tempfile.mkdtemp(prefix=f"bench-{name}-", suffix=".vk", dir=given.folder))
    settings = Settings(folder, given.quick, given.scale, given.seed)
    started, clock = datetime.now(UTC).isoformat(timespec="seconds"), time.perf_counter()
    outcomes: list[Outcome] = []
    breakdowns: list[Breakdown] = []
    try:
        with console.status(f"{name} ...") as status:
            for found in BENCHMARKS[name].measure(settings):
                breakdowns.append(found) if isinstance(found, Breakdown) else outcomes.append(found)
                status.update(f"{name}: after {escape(found.what)} ...")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    sizes = BENCHMARKS[name].sizes(settings)
    report = Report(name, settings, started, time.perf_counter() - clock, outcomes, breakdowns, sizes)
    _show(console, report, write(report, given.json))
    return report


def _console() -> Console:
    """A file or a pipe has no width of its own: give the table the room that it needs."""
    console = Console()
    return console if console.is_terminal else Console(width=WIDTH)


def _show(console: Console, report: Report, path: Path) -> None:
    console.print(table(report))
    if report.breakdowns:
        console.print(breakdown_table(report.breakdowns))
    for outcome in report.outcomes:
        if outcome.problem is not None:
            console.print(f"[bold red]failed[/] {escape(outcome.what)}: {escape(outcome.problem)}")
    console.print(f"every repetition: {path}", soft_wrap=True, markup=False, highlight=False)


def _code(report: Report) -> int:
    failing = {Verdict.FAILED} if report.settings.quick else {Verdict.FAILED, Verdict.BELOW, Verdict.ABOVE}
    return 1 if report.verdicts & failing or not report.outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
