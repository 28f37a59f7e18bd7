"""Outcomes as JSON for programs, and that as a table for people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from viewkeeper.bench import machine
from viewkeeper.bench.cells import HEADINGS, breakdown_cells, breakdown_headings, cells
from viewkeeper.bench.outcomes import Breakdown, Limit, Outcome, Sample, Trace, Verdict
from viewkeeper.bench.settings import Settings

_STYLES = {
    Verdict.OK.value: "green",
    Verdict.BELOW.value: "yellow",
    Verdict.ABOVE.value: "yellow",
    Verdict.INFORMATION.value: "dim",
    Verdict.SKIPPED.value: "dim",
    Verdict.FAILED.value: "bold red",
}


@dataclass(frozen=True)
class Report:
    """One benchmark's run. `load` is what the machine had to do when it began."""

    name: str
    settings: Settings
    started: str
    seconds: float
    load: float
    outcomes: Sequence[Outcome]
    breakdowns: Sequence[Breakdown] = ()
    traces: Sequence[Trace] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def verdicts(self) -> set[Verdict]:
        return {outcome.verdict for outcome in self.outcomes}


# For people


def table(name: str, written: Mapping[str, Any]) -> Table:
    """Of what `as_json` made."""
    title = f"{name}: {written['seconds']:.0f} s; medians ± half the spread of n repetitions"
    sizes = ", ".join(f"{name.replace('_', ' ')} {size:,}" for name, size in written["sizes"].items())
    shown = Table(title=title, title_justify="left", caption=f"{sizes}\nload {written['load']}", caption_justify="left")
    for heading in HEADINGS:
        wide = heading in ("what", "verdict")
        shown.add_column(heading, justify="left" if wide else "right", no_wrap=not wide)
    for result in written["results"]:
        *figures, verdict = map(escape, cells(result))
        shown.add_row(*figures, f"[{_STYLES[result['verdict']]}]{verdict}[/]")
    return shown


def breakdown_table(breakdowns: Sequence[Mapping[str, Any]]) -> Table:
    """A line per thing that was measured, a column per part of its time."""
    shown = Table(title="where the time goes, in milliseconds", title_justify="left", padding=(0, 0), pad_edge=False)
    for number, heading in enumerate(breakdown_headings(breakdowns)):
        shown.add_column(heading, justify="right" if number else "left", no_wrap=not number)
    for line in breakdown_cells(breakdowns):
        shown.add_row(*map(escape, line))
    return shown


# For programs


def write(report: Report, written: Mapping[str, Any], folder: Path) -> Path:
    """A short run never replaces the figures of a full one."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{report.name}{'.quick' if report.settings.short else ''}.json"
    path.write_text(json.dumps(written, indent=2) + "\n", encoding="utf-8")
    return path


def as_json(report: Report) -> dict[str, Any]:
    settings = report.settings
    return {
        "benchmark": report.name,
        "started": report.started,
        "seconds": round(report.seconds, 1),
        "quick": settings.quick,
        "scale": settings.scale,
        "seed": settings.seed,
        "peers": len(settings.peers),
        "sizes": dict(report.sizes),
        "machine": machine.facts(settings.folder.parent),
        "load": report.load,
        "results": [_outcome(outcome) for outcome in report.outcomes],
        "breakdowns": [asdict(breakdown) for breakdown in report.breakdowns],
        "traces": [asdict(trace) for trace in report.traces],
    }


def _outcome(outcome: Outcome) -> dict[str, Any]:
    return {
        "what": outcome.what,
        "unit": outcome.unit,
        "ours": _figures(outcome.ours),
        "raw": _figures(outcome.raw),
        "ratio": _figures(outcome.ratio),
        "ratio_of": outcome.ratio_of.value,
        "limit": _bound(outcome.limit),
        "verdict": outcome.verdict.value,
        "problem": outcome.problem,
        "mark": None if outcome.mark is None else asdict(outcome.mark),
        "proof": outcome.proof,
        "skipped": outcome.skipped,
    }


def _figures(sample: Sample | None) -> dict[str, Any] | None:
    if sample is None:
        return None
    figures = {"median": sample.median, "low": sample.low, "high": sample.high}
    return {**figures, "repetitions": list(sample.repetitions)}


def _bound(limit: Limit | None) -> dict[str, Any] | None:
    return None if limit is None else {"direction": limit.direction.value, "value": limit.value}
