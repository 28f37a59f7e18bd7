"""The page of figures: `python -m viewkeeper.bench.page [RESULTS [PAGE]]` writes it from the results of the last runs.

Every number on it is read from a result file, and the prose comes from the experiments, so the page says nothing that was not
measured. A test writes it again and compares. README's tables are written with it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from viewkeeper.bench import readme
from viewkeeper.bench.__main__ import RESULTS
from viewkeeper.bench.cells import HEADINGS, breakdown_cells, breakdown_headings, cells
from viewkeeper.bench.experiment import Experiment
from viewkeeper.bench.plots import file_stem
from viewkeeper.bench.registry import EXPERIMENTS

PAGE = Path("docs") / "performance.md"

INTRODUCTION = """\
# Performance

This page is written by `python -m viewkeeper.bench.page` from the files in `bench/results`, which hold every repetition.
`make bench` measures all of it again on the machine where it runs; `viewkeeper bench NAME` one experiment.

A figure is the median of n repetitions after a warm-up, ± half the distance between the least and the greatest of them. What is
compared ran in turn on the same machine, and the ratio is the median of the pairs' ratios: "8.00× speed" is eight times as fast
as the other, "1.20× time" takes a fifth longer. After each experiment every view was compared with its query evaluated from
scratch; where one had differed, there would be no figures. "Verified" is by Spark, from the query's own text; "compared" is by
Arrow, where Spark would take longer than all of the rest.
"""


def main(results: Path = RESULTS, page: Path = PAGE) -> None:
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text(results, page.parent), encoding="utf-8")
    readme.main(results)


def text(results: Path, beside: Path) -> str:
    """The page, as it lies in the folder `beside`."""
    written = {name: _read(results / f"{name}.json") for name in EXPERIMENTS if (results / f"{name}.json").exists()}
    parts = [INTRODUCTION]
    if written:
        parts += [
            *_contents(written),
            *(part for name, one in written.items() for part in _section(name, one, results, beside)),
        ]
    else:
        parts.append("No run has left its results yet.\n")
    return "\n".join(parts)


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _contents(written: Mapping[str, Any]) -> Iterator[str]:
    yield "| experiment | lines | within limits | missed | failed | seconds |"
    yield "|---|---|---|---|---|---|"
    for name, one in written.items():
        verdicts = [result["verdict"] for result in one["results"]]
        missed = verdicts.count("below floor") + verdicts.count("above ceiling")
        title = EXPERIMENTS[name].title
        figures = f"{len(verdicts)} | {verdicts.count('ok')} | {missed} | {verdicts.count('failed')}"
        yield f"| [{title}](#{_anchor(title)}) | {figures} | {one['seconds']:.0f} |"
    yield ""


def _anchor(title: str) -> str:
    """
    >>> _anchor("Synchronous against asynchronous, and refresh intervals")
    'synchronous-against-asynchronous-and-refresh-intervals'
    """
    return "".join(letter for letter in title.lower().replace(" ", "-") if letter.isalnum() or letter == "-")


def _section(name: str, one: Mapping[str, Any], results: Path, beside: Path) -> Iterator[str]:
    experiment = EXPERIMENTS[name]
    yield f"## {experiment.title}\n"
    yield f"Source: {experiment.source}.\n"
    if experiment.seen:
        yield f"The papers saw: {experiment.seen}\n"
    yield f"What limits it: {experiment.limits}\n"
    yield from _pictures(experiment, one, results, beside)
    yield from _table(HEADINGS, map(cells, one["results"]))
    if one["breakdowns"]:
        yield "Where the time goes, in milliseconds, and what was used:\n"
        yield from _table(breakdown_headings(one["breakdowns"]), breakdown_cells(one["breakdowns"]))
    yield f"`viewkeeper bench {name}{_options(one)}`, {_machine(one)}. {_sizes(one['sizes'])}\n"


def _pictures(experiment: Experiment, one: Mapping[str, Any], results: Path, beside: Path) -> Iterator[str]:
    for plot in experiment.plots:
        path = results / f"{file_stem(one['benchmark'], plot)}.svg"
        if path.exists():
            yield f"![{plot.asked(one['sizes'])}]({_link(path, beside)})\n"


def _link(path: Path, beside: Path) -> str:
    """
    >>> _link(Path("bench/results/zipf.svg"), Path("docs"))
    '../bench/results/zipf.svg'
    """
    return Path("/".join([".."] * len(beside.parts)), path).as_posix()


def _table(headings: Sequence[str], lines: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(headings)} |"
    yield "|---" * len(headings) + "|"
    for line in lines:
        yield f"| {' | '.join(line)} |"
    yield ""


def _options(one: Mapping[str, Any]) -> str:
    """What it was called with, beside its name."""
    scale = one["scale"]
    words = ["--peers-python PYTHON"] * one["peers"] + ([] if scale == 1.0 else [f"--scale {scale:g}"])
    return f" -- {' '.join(words)}" if words else ""


def _machine(one: Mapping[str, Any]) -> str:
    machine = one["machine"]
    facts = (
        one["started"][:10],
        f"{machine['cores']} cores ({machine['processor']})",
        f"{machine['memory_mb'] / 1024:.0f} GB",
        f"{machine['file_system']} on {machine['system']}",
        f"Python {machine['python']}",
        f"Java {machine['java']}",
        f"Spark {machine['libraries']['pyspark']}",
        f"SQLite {machine['sqlite']}",
        f"load at the beginning {one['load']}",
    )
    return ", ".join(facts)


def _sizes(sizes: Mapping[str, int]) -> str:
    return "Sizes: " + ", ".join(f"{name.replace('_', ' ')} {size:,}" for name, size in sizes.items()) + "."


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:]))
