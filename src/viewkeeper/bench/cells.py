"""A written result as the cells of a table: the same in the terminal, on the page and in README."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

HEADINGS = ("what", "ours", "raw", "ratio", "n", "limit", "verdict")

Figures = Mapping[str, Any]


def cells(result: Mapping[str, Any]) -> tuple[str, ...]:
    """Under `HEADINGS`. `n` is how many repetitions there were."""
    if result["skipped"] is not None:
        return (result["what"], "", "", "", "", "", f"skipped: {result['skipped']}")
    if result["verdict"] == "failed":
        return (result["what"], "", "", "", "", "", f"failed: {result['problem']}")
    ours, raw = (figure(result[side], result["unit"]) for side in ("ours", "raw"))
    verdict = "" if result["verdict"] == "for information" else result["verdict"]
    return (result["what"], ours, raw, _ratio(result), str(len(result["ours"]["repetitions"])), _limit(result), verdict)


def figure(sample: Figures | None, unit: str) -> str:
    """The median, and how far the repetitions were apart."""
    return "" if sample is None else f"{quantity(float(sample['median']), unit)}{_spread(sample)}"


def _spread(sample: Figures) -> str:
    median = float(sample["median"])
    if len(sample["repetitions"]) < 2 or not median:
        return ""
    return f" ±{(sample['high'] - sample['low']) / 2 / abs(median):.0%}"


def _ratio(result: Mapping[str, Any]) -> str:
    ratio = result["ratio"]
    return "" if ratio is None else f"{ratio['median']:.2f}× {result['ratio_of']}{_spread(ratio)}"


def _limit(result: Mapping[str, Any]) -> str:
    limit = result["limit"]
    if limit is None:
        return ""
    sign = "≥" if limit["direction"] == "floor" else "≤"
    return f"{sign} {limit['value']:g}" if result["ratio"] else f"{sign} {quantity(limit['value'], result['unit'])}"


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


# Where time went


def breakdown_headings(breakdowns: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    return ("what", *_keys(breakdowns, "seconds"), *_keys(breakdowns, "counts"))


def breakdown_cells(breakdowns: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """A line for each thing that was measured: milliseconds of its parts, then counts."""
    parts, counts = (_keys(breakdowns, kind) for kind in ("seconds", "counts"))
    return [
        (
            one["what"],
            *(_milliseconds(one["seconds"].get(part, 0.0)) for part in parts),
            *(str(one["counts"].get(count, 0)) for count in counts),
        )
        for one in breakdowns
    ]


def _keys(breakdowns: Sequence[Mapping[str, Any]], kind: str) -> list[str]:
    return list(dict.fromkeys(key for one in breakdowns for key in one[kind]))


def _milliseconds(seconds: float) -> str:
    if not seconds:
        return ""
    return f"{seconds * 1e3:.1f}" if seconds < 0.01 else f"{seconds * 1e3:,.0f}"
