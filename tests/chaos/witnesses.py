"""What the readers saw, before the checker."""

from __future__ import annotations

import json
from collections.abc import Iterator

import _neighbours  # noqa: F401  # puts the folders beside this one on the path
from grounds import READERS, Site
from processes import Broken
from scene import QUERIES, Look, look

from viewkeeper.store.contract import Cut
from viewkeeper.testing.consistency import History, Level, logged_history


def testify(site: Site) -> Iterator[str]:
    """A sentence for each group of views. `Broken` if it was less than strongly consistent, with the counter-example."""
    readers = [[json.loads(line) for line in site.looks(number).open()] for number in range(READERS)]
    last = look(site.db)
    for group, (queries, tables) in QUERIES.items():
        history = logged_history(
            site.db._store,
            queries,
            tables,
            _cuts(site, [*(one for looks in readers for one in looks), last], tables),
            name=lambda table, row: row["made_by"],
        )
        for number, looks in enumerate(readers):
            for one in looks:
                _record(history, one, list(queries), f"reader {number}")
        _record(history, last, list(queries), "end", final=True)
        verdict = history.verdict()
        if verdict.level < Level.STRONG:
            raise Broken(f"the history of {group} is {verdict}")
        seen = sum(map(len, readers))
        yield f"{group}: {history.base.last} transactions, {seen} looks, history {verdict.level}"


def _record(history: History, one: Look, views: list[str], reader: str, final: bool = False) -> None:
    seen = {name: one["seen"][name] for name in views}
    history.look(seen, reader=reader, began=one["began"], ended=one["ended"], final=final)


def _cuts(site: Site, looks: list[Look], tables: tuple[str, ...]) -> list[Cut]:
    """Those on record, and those that readers were at: an epoch's report is written after its commit, and may be missing."""
    reported = [report.cut for report in site.db.history() if all(table in report.cut for table in tables)]
    met = [{table: tuple(one["cut"][table]) for table in tables} for one in looks]
    unique = {tuple(tuple(cut[table]) for table in tables): cut for cut in [*reported, *met]}
    return [{table: tuple(cut[table]) for table in tables} for cut in unique.values()]
