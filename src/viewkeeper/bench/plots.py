"""Pictures of results, drawn from what was written: a PNG and an SVG for each plot of an experiment.

The same results give the same files, byte for byte. A failed line is not drawn. Without matplotlib there are no pictures.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from viewkeeper.bench.experiment import Experiment, Kind, Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE = (9.0, 5.0)
COLOURS = (
    *("#1b6ca8", "#d1495b", "#2e8b57", "#e09f3e", "#6a4c93", "#5f6368"),
    *("#00798c", "#b5651d", "#9c89b8", "#8ab17d", "#f28482", "#c0c0c0"),
)
GAP = 0.055
"""Between two labels at the ends of lines, as a share of the height."""

LEGEND_ROW = 21
"""Points that a row of the legend takes, between the picture and its title."""

LETTERS = 80
"""That have room side by side below the picture: names are broken into lines where they would meet."""

MOST_LABELS = 20
"""With more bars than these, figures above them would lie on one another."""

NAMED = (
    "viewkeeper",
    "Spark recompute",
    "Flink SQL",
    "Pathway",
    "DuckDB recompute",
    "DuckDB increments",
    "SQLite triggers",
)
"""Systems that have the same colour in every picture, whoever is missing from it."""

Point = tuple[float | str, float, float, float]
"""Where along the line, the median, the least and the most."""


def drawn(experiment: Experiment, written: Mapping[str, Any], folder: Path, stem: str) -> list[Path]:
    """The files that were made: none if there is nothing to draw, or nothing to draw with."""
    if not installed():
        return []
    return [path for plot in experiment.plots if _has(plot, written) for path in _save(plot, written, folder, stem)]


def installed() -> bool:
    try:
        import matplotlib  # noqa: F401 (it is looked for, not used)
    except ImportError:
        return False
    return True


def file_stem(stem: str, plot: Plot) -> str:
    return f"{stem}-{plot.name}" if plot.name else stem


def _save(plot: Plot, written: Mapping[str, Any], folder: Path, stem: str) -> list[Path]:
    import matplotlib
    from matplotlib.figure import Figure

    settings: dict[Any, Any] = {
        "svg.hashsalt": "viewkeeper",
        "font.size": 10.5,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=SIZE, layout="constrained")
        axes = figure.add_subplot()
        above = _draw(plot, written, axes) * LEGEND_ROW
        axes.set_title(plot.asked(written["sizes"]), loc="left", fontsize=12.5, fontweight="bold", pad=12 + above)
        axes.set_xlabel(plot.x)
        axes.set_ylabel(plot.y)
        figure.supxlabel(_footnote(plot, written), x=0.995, ha="right", fontsize=7.5, color="#777777")
        paths = [folder / f"{file_stem(stem, plot)}.{kind}" for kind in ("png", "svg")]
        for path in paths:
            stamp = {"Date": None} if path.suffix == ".svg" else {}
            figure.savefig(path, dpi=130, metadata=stamp)
    return paths


def _footnote(plot: Plot, written: Mapping[str, Any]) -> str:
    machine = written["machine"]
    facts = f"{machine['cores']} cores, {machine['memory_mb'] / 1024:.0f} GB, {written['started'][:10]}"
    if plot.kind in (Kind.LINES, Kind.BARS):
        return f"medians; thin lines reach from the least to the greatest repetition; {facts}"
    return f"medians; {facts}" if plot.kind is Kind.STACKS else facts


def _draw(plot: Plot, written: Mapping[str, Any], axes: Axes) -> int:
    """How many rows the legend has above the picture."""
    match plot.kind:
        case Kind.LINES:
            _lines(plot, series_of(plot, written), axes)
            return 0
        case Kind.BARS:
            return _bars(plot, series_of(plot, written), axes)
        case Kind.TRACES:
            _traces(written["traces"], axes)
            return 0
        case Kind.STACKS:
            return _stacks(written["breakdowns"], axes)


def _has(plot: Plot, written: Mapping[str, Any]) -> bool:
    match plot.kind:
        case Kind.TRACES:
            return bool(written.get("traces"))
        case Kind.STACKS:
            return bool(written.get("breakdowns"))
        case _:
            return bool(series_of(plot, written))


def series_of(plot: Plot, written: Mapping[str, Any]) -> dict[str, list[Point]]:
    """The points of each line, from the marked results that have a figure."""
    found: dict[str, list[Point]] = {}
    for result in written["results"]:
        mark = result["mark"]
        if mark is None or mark["plot"] != plot.name or result["ours"] is None:
            continue
        for name, side in ((mark["series"], result["ours"]), (mark["raw"], result["raw"])):
            if name is not None and side is not None:
                found.setdefault(name, []).append((mark["x"], side["median"], side["low"], side["high"]))
    return found


def _lines(plot: Plot, series: Mapping[str, Sequence[Point]], axes: Axes) -> None:
    ends = []
    for (name, points), colour in zip(series.items(), _colours(list(series)), strict=True):
        ordered = sorted(points, key=lambda point: float(point[0]))
        xs = [float(x) for x, *_ in ordered]
        ys = [median for _, median, _, _ in ordered]
        around = [
            [median - low for _, median, low, _ in ordered],
            [high - median for _, median, _, high in ordered],
        ]
        axes.errorbar(xs, ys, yerr=around, color=colour, marker="o", markersize=4.5, capsize=3, linewidth=1.8)
        ends.append((name, xs[-1], ys[-1], colour))
    if plot.reference:
        ends.append((plot.reference, *_proportional(ends[0], axes)))
    _scale(plot, axes, [float(x) for points in series.values() for x, *_ in points])
    _label_ends(ends, axes)


def _proportional(end: tuple[str, float, float, str], axes: Axes) -> tuple[float, float, str]:
    """What a line would be that grows as x does and comes to the same end; its own label stands a little above."""
    _, x, y, _ = end
    least, grey = min(axes.dataLim.intervalx), "#999999"
    axes.plot((least, x), (y * least / x, y), color=grey, linewidth=1, linestyle="--")
    return x, y * 1.01, grey


def _scale(plot: Plot, axes: Axes, xs: Sequence[float]) -> None:
    """Only the places that were measured are named along the axis."""
    from matplotlib.ticker import LogLocator, NullLocator

    if plot.log_x:
        axes.set_xscale("log")
    if xs:
        places = sorted(set(xs))
        axes.set_xticks(places, [_short(x) for x in places])
        axes.xaxis.set_minor_locator(NullLocator())
    if plot.log_y:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(lambda value, _: _short(value))
    axes.grid(axis="y", color="#e5e5e5", linewidth=0.8)
    axes.set_axisbelow(True)


def _short(value: float) -> str:
    """
    >>> _short(10_000_000), _short(250_000), _short(1_500_000), _short(0.01), _short(3)
    ('10 M', '250 k', '1.5 M', '0.01', '3')
    """
    for size, sign in ((1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:g}{sign}"
    return f"{value:g}"


def _rounded(value: float) -> str:
    """
    >>> _rounded(123_456.0), _rounded(0.0712345)
    ('123 k', '0.0712')
    """
    return _short(float(f"{value:.3g}"))


def _label_ends(ends: Sequence[tuple[str, float, float, str]], axes: Axes) -> None:
    """Each line's name beside its end, moved apart where they would lie on one another."""
    to_height = axes.transData + axes.transAxes.inverted()
    placed = -GAP
    for height, (name, _, _, colour) in sorted(
        (to_height.transform((x, y))[1], end) for end in ends for _, x, y, _ in [end]
    ):
        placed = max(height, placed + GAP)
        axes.text(1.01, placed, name, color=colour, va="center", transform=axes.transAxes)


def _bars(plot: Plot, series: Mapping[str, Sequence[Point]], axes: Axes) -> int:
    places = list(dict.fromkeys(str(x) for points in series.values() for x, *_ in points))
    width = 0.8 / len(series)
    for number, ((name, points), colour) in enumerate(zip(series.items(), _colours(list(series)), strict=True)):
        xs = [places.index(str(x)) + (number - (len(series) - 1) / 2) * width for x, *_ in points]
        ys = [median for _, median, _, _ in points]
        around = [[median - low for _, median, low, _ in points], [high - median for _, median, _, high in points]]
        bars = axes.bar(
            xs, ys, width * 0.92, yerr=around, color=colour, label=name, error_kw={"elinewidth": 1, "capsize": 2}
        )
        if len(places) * len(series) <= MOST_LABELS:
            axes.bar_label(bars, [_rounded(y) for y in ys], fontsize=7.5, padding=2)
    room = max(8, LETTERS // len(places))
    axes.set_xticks(range(len(places)), [textwrap.fill(place, room, break_long_words=False) for place in places])
    _scale(plot, axes, [])
    return _legend(axes, len(series), in_a_row=4) if len(series) > 1 else 0


def _traces(traces: Sequence[Mapping[str, Any]], axes: Axes) -> None:
    """A point says what held from its beginning to its end: a level for each, and nothing in between."""
    for trace, colour in zip(traces, _colours([trace["what"] for trace in traces]), strict=True):
        for begin, end, height in trace["points"]:
            axes.plot((begin, end), (height, height), color=colour, linewidth=3, solid_capstyle="butt")
        _, at, height = trace["points"][-1]
        axes.annotate(trace["what"], (at, height), (6, 0), textcoords="offset points", color=colour, va="center")
        for moment, label in trace["events"]:
            axes.axvline(moment, color="#d1495b", linewidth=1, linestyle="--")
            axes.annotate(label, (moment, 1), (4, -2), xycoords=("data", "axes fraction"), textcoords="offset points")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(lambda value, _: _short(value))
    axes.grid(axis="y", color="#e5e5e5", linewidth=0.8)


def _stacks(breakdowns: Sequence[Mapping[str, Any]], axes: Axes) -> int:
    names = [breakdown["what"] for breakdown in breakdowns]
    spent = (part for breakdown in breakdowns for part, seconds in breakdown["seconds"].items() if seconds)
    parts = list(dict.fromkeys(spent))
    left = [0.0] * len(names)
    for part, colour in zip(parts, _colours(parts), strict=True):
        widths = [breakdown["seconds"].get(part, 0.0) * 1e3 for breakdown in breakdowns]
        axes.barh(names, widths, left=left, color=colour, label=part)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.invert_yaxis()
    return _legend(axes, len(parts), in_a_row=len(parts), fontsize=9)


def _legend(axes: Axes, names: int, *, in_a_row: int, **style: Any) -> int:
    """Above the picture, whatever the bars hide; how many rows it takes."""
    axes.legend(
        frameon=False, ncols=min(in_a_row, names), loc="lower left", bbox_to_anchor=(0, 1.02), borderpad=0, **style
    )
    return -(-names // in_a_row)


def _colours(names: Sequence[str]) -> list[str]:
    """By the place of a name among those that have one of their own, or among these."""
    known = NAMED if set(names) <= set(NAMED) else names
    return [COLOURS[known.index(name) % len(COLOURS)] for name in names]
