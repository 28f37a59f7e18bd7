"""Outcomes as a table for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from viewkeeper.bench import machine
from viewkeeper.bench.outcomes import Breakdown, Direction, Limit, Outcome, Sample, Trace, Verdict
from viewkeeper.bench.settings import Settings

_STYLES = {
    Verdict.OK: "green",
    Verdict.BELOW: "yellow",
    Verdict.ABOVE: "yellow",
    Verdict.INFORMATION: "dim",
    Verdict.SKIPPED: "dim",
    Verdict.FAILED: "bold red",
}


@dataclass(frozen=True)
class Report:
    """One benchmark's run."""

    name: str
    settings: Settings
    started: str
    seconds: float
    outcomes: Sequence[Outcome]
    breakdowns: Sequence[Breakdown] = ()
    traces: Sequence[Trace] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def verdicts(self) -> set[Verdict]:
        return {outcome.verdict for outcome in self.outcomes}


# For people


def table(report: Report) -> Table:
    title = f"{report.name}: {report.seconds:.0f} s; medians ± half the spread"
    sizes = ", ".join(f"{name.replace('_', ' ')} {size:,}" for name, size in report.sizes.items())
    shown = Table(title=title, title_justify="left", caption=f"{sizes}\nload {machine.load()}", caption_justify="left")
    for heading in ("what", "ours", "raw", "ratio", "floor/ceiling", "verdict"):
        shown.add_column(
            heading, justify="left" if heading in ("what", "verdict") else "right", no_wrap=heading != "what"
        )
    for outcome in report.outcomes:
        verdict = outcome.verdict
        shown.add_row(*map(escape, _cells(outcome)), f"[{_STYLES[verdict]}]{verdict.value}[/]")
    return shown


def breakdown_table(breakdowns: Sequence[Breakdown]) -> Table:
    """A line per thing that was measured, a column per part of its time."""
    shown = Table(title="where the time goes, in milliseconds", title_justify="left", padding=(0, 0), pad_edge=False)
    shown.add_column("what", no_wrap=True)
    parts = list(dict.fromkeys(part for breakdown in breakdowns for part in breakdown.seconds))
    counts = list(dict.fromkeys(count for breakdown in breakdowns for count in breakdown.counts))
    for heading in (*parts, *counts):
        shown.add_column(heading, justify="right")
    for breakdown in breakdowns:
        times = [breakdown.seconds.get(part, 0.0) for part in parts]
        shown.add_row(
            breakdown.what,
            *(_milliseconds(time) for time in times),
            *(f"{breakdown.counts.get(count, 0)}" for count in counts),
        )
    return shown


def _milliseconds(seconds: float) -> str:
    if not seconds:
        return ""
    return f"{seconds * 1e3:.1f}" if seconds < 0.01 else f"{seconds * 1e3:,.0f}"


def _cells(outcome: Outcome) -> tuple[str, str, str, str, str]:
    if outcome.verdict in (Verdict.FAILED, Verdict.SKIPPED):
        return f"{outcome.what}: {outcome.skipped}" if outcome.skipped else outcome.what, "", "", "", ""
    return (
        outcome.what,
        _sample(outcome.ours, outcome.unit),
        _sample(outcome.raw, outcome.unit),
        f"{outcome.ratio.median:.2f}" if outcome.ratio else "",
        _limit(outcome),
    )


def _sample(sample: Sample | None, unit: str) -> str:
    if sample is None:
        return ""
    if len(sample.repetitions) == 1:
        return quantity(sample.median, unit)
    spread = (sample.high - sample.low) / 2 / abs(sample.median) if sample.median else 0.0
    return f"{quantity(sample.median, unit)} ±{spread:.0%}"


def _limit(outcome: Outcome) -> str:
    limit = outcome.limit
    if limit is None:
        return ""
    sign = ">=" if limit.direction is Direction.FLOOR else "<="
    return f"{sign} {limit.value:g}" if outcome.ratio else f"{sign} {quantity(limit.value, outcome.unit)}"


def quantity(value: float, unit: str) -> str:
    """A figure with its unit, times in the unit that suits them.

    >>> quantity(0.00025, "s"), quantity(1.5, "s"), quantity(312.4, "MB"), quantity(1234567.0, "changes/s")
    ('250 µs', '1.50 s', '312 MB', '1,234,567 changes/s')
    >>> quantity(0.123456, "of the first")
    '0.123 of the first'
    """
    if unit != "s":
        return f"{value:,.0f} {unit}" if abs(value) >= 10 else f"{value:.3g} {unit}"
    if value < 0.001:
        return f"{value * 1e6:.0f} µs"
    return f"{value * 1e3:.3g} ms" if value < 1 else f"{value:.2f} s"


# For programs


def write(report: Report, folder: Path) -> Path:
    """A short run never replaces the figures of a full one."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{report.name}{'.quick' if report.settings.short else ''}.json"
    path.write_text(json.dumps(as_json(report), indent=2) + "\n", encoding="utf-8")
    return path


def as_json(report: Report) -> dict[str, Any]:
    return {
        "benchmark": report.name,
        "started": report.started,
        "seconds": round(report.seconds, 1),
        "quick": report.settings.quick,
        "scale": report.settings.scale,
        "seed": report.settings.seed,
        "sizes": dict(report.sizes),
        "machine": machine.facts(),
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
