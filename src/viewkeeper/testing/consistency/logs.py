"""A base history from a store's logs: for tables that many processes wrote to at once.

The logs order the writes of each region, and say nothing about writes of different regions. A cut says which of them were
taken together. If cuts come one after the other (those of one group's epochs do), there is an order of all transactions that
goes through every one of them: first those of the first cut, then those that the second adds, and so on, each time in an
order that the regions agree with. Every state that a view was meant to be at is then a state of the history.

Between two cuts the order is one of several, and nothing in the logs says which one it was. So a look at a state that no cut
stands for, which no reader of views should ever see, is judged by the order that was chosen: most such looks are found out,
and those that happen to lie on it are not.

A log does not say which writes of different regions were one transaction. Where that matters, a column of the rows says it, and
`name` reads it from a row that was written. What a transaction deletes has no row that could say it: such a write is a
transaction of its own, unless a named write shares its place in the log.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

from viewkeeper import names
from viewkeeper.errors import InputError
from viewkeeper.store.contract import Cut, Positions, Store, TableSpec
from viewkeeper.testing.consistency.base import Change
from viewkeeper.testing.consistency.history import History
from viewkeeper.testing.consistency.states import Query

Name = Callable[[str, Mapping[str, Any]], Hashable]
"""From a table's name and a row that was written to the transaction that wrote it."""

Place = tuple[str, int]
"""A region of a table."""


@dataclass(frozen=True)
class _Write:
    """One entry of one region's log: atomic, and so a part of one transaction."""

    place: Place
    position: int
    changes: tuple[Change, ...]
    names: frozenset[Hashable]


@dataclass
class _Whole:
    """A transaction: all writes that belong together. `first` is the first cut that has all of it."""

    writes: list[_Write] = field(default_factory=list)
    first: int = 0

    @property
    def name(self) -> str:
        known = sorted({str(name) for write in self.writes for name in write.names})
        return ", ".join(known) or " and ".join(f"{w.place[0]}[{w.place[1]}] {w.position}" for w in self.writes)


def logged_history(
    store: Store,
    queries: Mapping[str, Query],
    tables: Sequence[str],
    cuts: Iterable[Cut] = (),
    *,
    since: Cut | None = None,
    name: Name | None = None,
) -> History:
    """The history of some tables, from the cut `since` (the empty tables) until now, through every one of the cuts.

    Give every cut that views may have been seen at: those of `db.history()`, and where processes died, which may cost an
    epoch its report, also those that `store.groups()` showed on the way. Without a cut its state may be in no order.
    """
    specs = [store.table(table) for table in tables]
    end = store.cut([spec.name for spec in specs])
    begin = since or {spec.name: (0,) * spec.regions for spec in specs}
    writes = [write for spec in specs for write in _writes(store, spec, begin[spec.name], end[spec.name], name)]
    chain = _chain([cut for cut in cuts if all(spec.name in cut for spec in specs)], specs)
    transactions = _together(writes)
    for transaction in transactions:
        transaction.first = max(_first_cut(write, chain) for write in transaction.writes)
    history = History(queries, {spec.name: store.scan(spec.name, at=begin[spec.name]) for spec in specs})
    for transaction in _ordered(transactions):
        history.transaction(*(write.changes for write in transaction.writes), name=transaction.name)
    firsts = sorted(transaction.first for transaction in transactions)
    for cut in range(len(chain)):
        history.try_first(bisect_right(firsts, cut))
    return history


# Writes


def _writes(store: Store, spec: TableSpec, after: Positions, upto: Positions, name: Name | None) -> Iterator[_Write]:
    for region in range(spec.regions):
        batches = store.log(spec.name, region, after[region], upto[region])
        entries = (entry for batch in batches for entry in batch.to_pylist())
        for position, group in groupby(entries, itemgetter(names.POSITION)):
            yield _write(spec, region, position, list(group), name)


def _write(spec: TableSpec, region: int, position: int, entries: list[dict[str, Any]], name: Name | None) -> _Write:
    gone = [_image(spec, entry, names.BEFORE) for entry in entries if entry[names.HAD]]
    came = [_image(spec, entry, names.AFTER) for entry in entries if entry[names.HAS]]
    changes = [*(Change(spec.name, row, -1) for row in gone), *(Change(spec.name, row, 1) for row in came)]
    named = frozenset() if name is None else frozenset(name(spec.name, row) for row in came)
    return _Write((spec.name, region), position, tuple(changes), named)


def _image(spec: TableSpec, entry: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name: entry[name if name in spec.key else prefix + name] for name in spec.schema.names}


# Transactions


def _together(writes: Iterable[_Write]) -> list[_Whole]:
    """Writes that share a name, also by way of others, are one transaction."""
    by_name: dict[Hashable, _Whole] = {}
    found: dict[int, _Whole] = {}
    for write in writes:
        parts = {id(part): part for part in (by_name[name] for name in write.names if name in by_name)}
        whole = _Whole([*(part_write for part in parts.values() for part_write in part.writes), write])
        for number in parts:
            del found[number]
        found[id(whole)] = whole
        by_name |= dict.fromkeys((name for part in whole.writes for name in part.names), whole)
    return list(found.values())


def _chain(cuts: Iterable[Cut], specs: Sequence[TableSpec]) -> list[dict[Place, int]]:
    """The cuts from the oldest to the newest, by region."""
    flat = [
        {(spec.name, region): position for spec in specs for region, position in enumerate(cut[spec.name])}
        for cut in cuts
    ]
    chain = sorted(flat, key=lambda cut: sum(cut.values()))
    for older, newer in pairwise(chain):
        crossed = next((place for place, position in older.items() if position > newer[place]), None)
        if crossed is not None:
            raise InputError(
                f'two cuts cross in table "{crossed[0]}": each has writes that the other has not',
                hint="give the cuts of one group",
            )
    return chain


def _first_cut(write: _Write, chain: Sequence[dict[Place, int]]) -> int:
    return bisect_left(chain, write.position, key=lambda cut: cut[write.place])


def _ordered(transactions: Sequence[_Whole]) -> Iterator[_Whole]:
    """By cut, and within a cut as the regions have it.

    A cut that no transaction is half inside of has, with each transaction, all that precede it in some region. So of those
    that belong to the first such cut that is left, one is always ready, and taking the least ready one takes these cuts in
    order. Through a cut that has half of a transaction no order can go: it is no state.
    """
    followers, waits = _region_order(transactions)
    ready = [(transaction.first, number) for number, transaction in enumerate(transactions) if not waits[number]]
    heapq.heapify(ready)
    taken = 0
    while ready:
        _, number = heapq.heappop(ready)
        yield transactions[number]
        taken += 1
        for follower in followers[number]:
            waits[follower] -= 1
            if not waits[follower]:
                heapq.heappush(ready, (transactions[follower].first, follower))
    if taken < len(transactions):
        left = next(transactions[number].name for number in range(len(transactions)) if waits[number])
        raise InputError(
            f'transaction "{left}" comes both before and after another in the logs',
            hint="give every transaction a name of its own",
        )


def _region_order(transactions: Sequence[_Whole]) -> tuple[defaultdict[int, list[int]], list[int]]:
    """Which transactions come right after each in some region, and for how many each has to wait."""
    regions: defaultdict[Place, list[tuple[int, int]]] = defaultdict(list)
    for number, transaction in enumerate(transactions):
        for write in transaction.writes:
            regions[write.place].append((write.position, number))
    followers: defaultdict[int, list[int]] = defaultdict(list)
    waits = [0] * len(transactions)
    for entries in regions.values():
        for (_, before), (_, after) in pairwise(sorted(entries)):
            if before != after:
                followers[before].append(after)
                waits[after] += 1
    return followers, waits
