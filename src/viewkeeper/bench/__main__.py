"""The command: `python -m viewkeeper.bench [NAME ...] [--quick] [--scale X] [--json FOLDER] [--folder FOLDER] [--seed N]`.

Each experiment prints its table and writes its results and pictures before the next one begins; one that fails is recorded
as failed, and the others go on. Ends with 1 if any result was wrong, and in a full run also if a floor or ceiling was missed;
a quick run, or one of smaller scale, judges no floor, and keeps its results beside those of a full one.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from viewkeeper.bench import machine, plots
from viewkeeper.bench.experiment import Experiment
from viewkeeper.bench.outcomes import Breakdown, Finding, Outcome, Trace, Verdict, withheld
from viewkeeper.bench.registry import EXPERIMENTS
from viewkeeper.bench.report import Report, as_json, breakdown_table, table, write
from viewkeeper.bench.revival import revive
from viewkeeper.bench.runner import Wrong, failed
from viewkeeper.bench.settings import SEED, SMALL, Settings
from viewkeeper.bench.shared import Shared
from viewkeeper.engine.quiet import quiet_spark

RESULTS = Path("bench") / "results"
"""Below the folder where the command is called: the repository, for whoever works on it."""

WIDTH = 120


def main(argv: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(argv)
    unknown = [name for name in given.names if name not in EXPERIMENTS]
    if unknown:
        print(f'experiment "{unknown[0]}" does not exist: there are {", ".join(EXPERIMENTS)}', file=sys.stderr)
        return 2
    names = list(given.names or EXPERIMENTS)
    console = _console()
    started = time.perf_counter()
    with quiet_spark(), _settings(given) as settings:
        reports = [_run(EXPERIMENTS[name], settings, given.json, console) for name in names]
    if len(reports) > 1:
        _sum_up(console, reports, time.perf_counter() - started)
    return max(_code(report) for report in reports)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="viewkeeper bench", description="Measure, beside the same work done in other ways."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(EXPERIMENTS)}; all of them if left out")
    parser.add_argument("--quick", action="store_true", help="a short run; a missed floor does not fail it")
    parser.add_argument("--scale", type=_scale, default=1.0, metavar="X", help="multiply all sizes by X, or small")
    parser.add_argument("--json", type=Path, default=RESULTS, metavar="FOLDER", help="where results and plots go")
    parser.add_argument("--folder", type=Path, default=Path(), help="the file system that is measured (this one)")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument(
        "--peers-python",
        action="append",
        default=[],
        metavar="PYTHON",
        help="an interpreter that has other systems installed, for peers; can be given more than once",
    )
    return parser


def _scale(text: str) -> float:
    scale = SMALL if text == "small" else float(text)
    if scale <= 0:
        raise ValueError
    return scale


@contextmanager
def _settings(given: argparse.Namespace) -> Iterator[Settings]:
    """With a folder that is gone at the end."""
    folder = Path(tempfile.mkdtemp(prefix="bench-", suffix=".vk", dir=given.folder)).resolve()
    try:
        with closing(Shared(folder, given.seed)) as shared:
            yield Settings(folder, shared, given.quick, given.scale, given.seed, tuple(given.peers_python))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(experiment: Experiment, settings: Settings, results: Path, console: Console) -> Report:
    started, clock, load = datetime.now(UTC).isoformat(timespec="seconds"), time.perf_counter(), machine.load()
    folder = settings.folder / experiment.name
    folder.mkdir()
    mine = replace(settings, folder=folder)
    console.print(f"{experiment.name} ...", highlight=False)
    found = _found(experiment, mine, console)
    if revive(settings.shared):
        found.append(_broken("Spark", Wrong("its Java process ended during the experiment")))
    found = withheld(found, unproved="no view was compared with its query" if experiment.views else None)
    shutil.rmtree(folder, ignore_errors=True)
    report = Report(
        experiment.name,
        mine,
        started,
        time.perf_counter() - clock,
        load,
        [one for one in found if isinstance(one, Outcome)],
        [one for one in found if isinstance(one, Breakdown)],
        [one for one in found if isinstance(one, Trace)],
        experiment.sizes(mine),
    )
    written = as_json(report)
    path = write(report, written, results)
    _show(console, report, written, [path, *plots.drawn(experiment, written, results, path.stem)])
    return report


def _found(experiment: Experiment, settings: Settings, console: Console) -> list[Finding]:
    """Everything up to an error, and the error as one more line: what was not looked at any more counts for nothing."""
    found: list[Finding] = []
    try:
        with console.status(f"{experiment.name} ...") as status:
            for one in experiment.measure(settings):
                found.append(one)
                status.update(f"{experiment.name}: after {escape(one.what)} ...")
    except Exception as error:
        found.append(_broken("the experiment as a whole", error))
    return found


def _broken(what: str, error: Exception) -> Outcome:
    return replace(failed(what, error), proof=True)


def _console() -> Console:
    """A file or a pipe has no width of its own: give the table the room that it needs."""
    console = Console()
    return console if console.is_terminal else Console(width=WIDTH)


def _show(console: Console, report: Report, written: Mapping[str, Any], files: Sequence[Path]) -> None:
    console.print(table(report.name, written))
    if report.breakdowns:
        console.print(breakdown_table(written["breakdowns"]))
    for outcome in report.outcomes:
        if outcome.problem is not None:
            console.print(f"[bold red]failed[/] {escape(outcome.what)}: {escape(outcome.problem)}")
    names = ", ".join(map(str, files))
    console.print(f"every repetition: {names}\n", soft_wrap=True, markup=False, highlight=False)
    if not plots.installed():
        console.print("no plots: pip install 'viewkeeper[bench]'", markup=False, highlight=False)


def _sum_up(console: Console, reports: Sequence[Report], seconds: float) -> None:
    for report in reports:
        verdicts = [outcome.verdict for outcome in report.outcomes]
        shown = ", ".join(f"{verdicts.count(one)} {one.value}" for one in Verdict if one in verdicts)
        console.print(f"{report.name:<20}{report.seconds:6.0f} s  {shown or 'nothing'}", highlight=False)
    console.print(f"{'in all':<20}{seconds:6.0f} s", highlight=False)


def _code(report: Report) -> int:
    failing = {Verdict.FAILED} if report.settings.short else {Verdict.FAILED, Verdict.BELOW, Verdict.ABOVE}
    return 1 if report.verdicts & failing or not report.outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
