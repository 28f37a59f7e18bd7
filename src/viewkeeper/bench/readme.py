"""The tables of figures in README: read from the results, written between two comments that name them.

They are the few figures that a newcomer looks for; `page` writes all of them. A test writes them again and compares.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from viewkeeper.bench.cells import quantity

README = Path("README.md")

STORE = {
    "put, new rows": "put, new rows",
    "put, changed rows": "put, changed rows",
    "read the log of the changed rows": "log, all entries",
    "scan": "scan, all rows",
    "probe 100,000 keys": "probe, 100,000 keys",
    "get one row": "get",
    "put one row": "put, 1 row",
    "apply an epoch to a view, changed rows": "apply, changed rows",
}
"""What a line of the table is called, and what it is called among the results."""

VIEWS = {
    "v1": "sum and count by group",
    "v2": "min and max by group",
    "v3": "join",
    "v4": "sum over the join, by an expression",
}

Results = Mapping[str, Mapping[str, Any]]
"""By what each says, without what stands behind it in brackets; of several the first."""


def main(results: Path, readme: Path = README) -> None:
    if readme.exists():
        readme.write_text(updated(readme.read_text(encoding="utf-8"), results), encoding="utf-8")


def updated(text: str, results: Path) -> str:
    """The text with its tables as the results say; where there are none of the full size, as they were."""
    for name, table in TABLES.items():
        path = results / f"{name}.json"
        written = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
        if written is not None and written["scale"] == 1:
            text = _replaced(text, name, table(_by_what(written["results"])))
    return text


def _replaced(text: str, name: str, lines: Iterable[str]) -> str:
    block = re.compile(rf"(?<=<!-- figures of {name} -->\n).*?(?=\n<!-- end -->)", re.DOTALL)
    return block.sub("\n".join(lines), text)


def _by_what(results: Sequence[Mapping[str, Any]]) -> Results:
    found: dict[str, Mapping[str, Any]] = {}
    for result in results:
        found.setdefault(result["what"].partition(" (raw")[0], result)
    return found


def _store(results: Results) -> Iterator[str]:
    yield "| store | viewkeeper | by hand |"
    yield "|---|---|---|"
    for label, what in STORE.items():
        raw = "(no log)" if what.startswith("log") else _median(results[what], "raw")
        yield f"| {label} | {_median(results[what], 'ours')} | {raw} |"


def _views(results: Results) -> Iterator[str]:
    yield "| view | epoch of 1,000 changes | recompute | a million changes | first fill |"
    yield "|---|---|---|---|---|"
    for name, label in VIEWS.items():
        small = results[f"{name}, 1,000 changes at 10,000,000 rows"]
        large, fill = results[f"{name}, 1,000,000 changes"], results[f"fill {name}, 10,000,000 rows"]
        figures = (_median(small, "ours"), _median(small, "raw"), _median(large, "ours"), _median(fill, "ours"))
        yield f"| {label} | {' | '.join(figures)} |"


def _median(result: Mapping[str, Any], side: str) -> str:
    return "failed" if result[side] is None else quantity(result[side]["median"], result["unit"])


TABLES: Mapping[str, Callable[[Results], Iterator[str]]] = {"store": _store, "views": _views}
