"""The embedded store beside the raw driver: what regions, a log, checks and snapshots cost.

A floor is the least share of the raw speed that we may have. The raw side keeps no log and looks at no row before it
replaces it, so a ratio of 1 would mean that history is free.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import pyarrow as pa

from viewkeeper import names
from viewkeeper.bench.data import editions
from viewkeeper.bench.experiment import Experiment, Kind, Plot
from viewkeeper.bench.memory import megabytes_of_a_put
from viewkeeper.bench.outcomes import Finding, Mark, Outcome, ceiling, floor
from viewkeeper.bench.runner import Comparison, Way, compare, single
from viewkeeper.bench.settings import Settings
from viewkeeper.bench.sides import REGIONS, Applying, Putting, Side, Upserting, difference
from viewkeeper.store.changes import rows_after, rows_before

SOME_ROWS = 1_000
"""Rows of the put that is neither bulk nor single."""


BULK_REPETITIONS = 2
"""Each of them writes a million rows in two ways, and reads all of them to compare."""


def measure(settings: Settings) -> Iterator[Finding]:
    made = editions(settings.rows, settings.seed)
    with closing(Putting(settings.folder, made)) as ours, closing(Upserting(settings.folder / "put", made)) as raw:
        yield from _put(settings, ours, raw)
        yield from _log(settings, ours, raw)
        yield from _scan(settings, ours, raw)
        yield from _probe(settings, ours, raw)
        yield from _get(settings, ours, raw)
        yield from _put_one(settings, ours, raw)
        yield from _put_some(settings, ours, raw)
    with closing(Applying(settings.folder, made)) as view, closing(Upserting(settings.folder / "apply", made)) as raw:
        yield from _apply(settings, view, raw)
    yield single(
        "memory of the bulk put above its rows",
        "MB",
        lambda: megabytes_of_a_put(made.rows[0], settings.folder / "memory"),
        ceiling(600),
    )


def _bar(what: str) -> Mark:
    return Mark("viewkeeper", what, raw="one SQLite table by hand")


# Writing much


def _put(settings: Settings, ours: Putting, raw: Upserting) -> Iterator[Outcome]:
    yield from _write_new(settings, "put, new rows", ours, raw, 0.25)
    yield from _write_over(settings, "put, changed rows", ours, raw, 0.25)


def _apply(settings: Settings, ours: Applying, raw: Upserting) -> Iterator[Outcome]:
    yield from _write_new(settings, "apply, new rows", ours, raw, 0.35)
    yield from _write_over(settings, "apply, changed rows", ours, raw, 0.35)


def _write_new(settings: Settings, what: str, ours: Side, raw: Side, least: float) -> Iterator[Outcome]:
    mine, plain = (Way(side.write, side.check, side.begin_empty) for side in (ours, raw))
    yield from compare(Comparison(what, mine, plain, floor(least), BULK_REPETITIONS, mark=_bar(what)))


def _write_over(settings: Settings, what: str, ours: Side, raw: Side, least: float) -> Iterator[Outcome]:
    """After `_write_new`, which leaves the table full and everything warm."""
    mine, plain = (Way(side.write, side.check, side.turn) for side in (ours, raw))
    yield from compare(Comparison(what, mine, plain, floor(least), BULK_REPETITIONS, warmups=0, mark=_bar(what)))


# Reading


def _log(settings: Settings, ours: Putting, raw: Upserting) -> Iterator[Outcome]:
    """The newest write changed every row, so the log of its position has them all."""
    upto = ours.store.positions("t")
    spec = ours.store.table("t")

    def read(number: int) -> pa.Table:
        parts = [ours.store.log("t", region, upto[region] - 1, upto[region]) for region in range(REGIONS)]
        return pa.Table.from_batches([batch for part in parts for batch in part])

    def check(answers: Sequence[pa.Table]) -> str | None:
        log = answers[0].sort_by("id")
        gone = ours.editions[1 - ours.edition]
        return difference(rows_after(spec, log), ours.held) or difference(rows_before(spec, log), gone)

    plain = Way(lambda _: raw.raw.scan(), lambda got: difference(got[0], raw.held))
    what = "log, all entries (raw: scan)"
    mark = _bar("read the log (by hand: scan)")
    yield from compare(Comparison(what, Way(read, check), plain, floor(0.4), settings.repetitions, mark=mark))


def _scan(settings: Settings, ours: Putting, raw: Upserting) -> Iterator[Outcome]:
    mine = Way(lambda _: ours.table.scan(), lambda got: difference(got[0], ours.held))
    plain = Way(lambda _: raw.raw.scan(), lambda got: difference(got[0], raw.held))
    yield from compare(
        Comparison("scan, all rows", mine, plain, repetitions=settings.repetitions, mark=_bar("scan all"))
    )


def _probe(settings: Settings, ours: Putting, raw: Upserting) -> Iterator[Outcome]:
    chosen = _chosen(settings, settings.probes).sort()
    numbers = pa.array(np.arange(len(chosen)))
    keys = ours.held.select(["id"]).take(chosen)
    numbered = keys.add_column(0, "n", numbers)

    def wanted(held: pa.Table) -> pa.Table:
        return held.take(chosen).add_column(0, "n", numbers)

    mine = Way(
        lambda _: ours.store.probe("t", keys),
        lambda got: difference(got[0].sort_by(names.PROBE), wanted(ours.held)),
    )
    plain = Way(lambda _: raw.raw.probe(numbered), lambda got: difference(got[0].sort_by("n"), wanted(raw.held)))
    what = f"probe, {len(chosen):,} keys"
    yield from compare(Comparison(what, mine, plain, floor(0.5), settings.repetitions, mark=_bar("probe")))


def _get(settings: Settings, ours: Putting, raw: Upserting) -> Iterator[Outcome]:
    """The raw side in the faster of its two ways, whichever that is here."""
    chosen = _chosen(settings, settings.reads)
    keys = ours.held["id"].take(chosen).to_pylist()
    rows, plain = (side.held.take(chosen).to_pylist() for side in (ours, raw))

    def key(number: int) -> int:
        return int(keys[number % len(keys)])

    mine = Way(lambda number: ours.table.get(key(number)), lambda got: _unequal(got, rows))
    arrow = Way(
        lambda number: raw.raw.get_arrow(key(number)),
        lambda got: _unequal([table.to_pylist()[0] for table in got], plain),
    )
    tuples = Way(
        lambda number: raw.raw.get_tuple(key(number)), lambda got: _unequal(got, [tuple(row.values()) for row in plain])
    )
    faster = min((arrow, tuples), key=lambda way: _seconds(way.run, min(200, len(keys))))
    limits = (ceiling(3), ceiling(0.0005))
    yield from compare(Comparison("get", mine, faster, limits[0], settings.repetitions, calls=len(keys), p99=limits[1]))


def _unequal(got: Sequence[Any], expected: Sequence[Any]) -> str | None:
    wrong = [number for number, (one, two) in enumerate(zip(got, expected, strict=True)) if one != two]
    return f"{len(wrong)} of {len(got)} rows differ, the first: {got[wrong[0]]}" if wrong else None


def _seconds(run: Callable[[int], Any], calls: int) -> float:
    times = []
    for number in range(calls):
        start = time.perf_counter()
        run(number)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


# Writing little. Repetitions bring the two editions in turn: a row that is there already would be no write at all.


def _put_one(settings: Settings, ours: Putting, raw: Upserting) -> Iterator[Outcome]:
    chosen = _chosen(settings, settings.writes)
    rows = [edition.take(chosen).to_pylist() for edition in _editions_in_turn(ours)]
    plain = [[tuple(row.values()) for row in edition.take(chosen).to_pylist()] for edition in _editions_in_turn(raw)]
    count = len(chosen)

    def put(number: int) -> None:
        ours.table.put(rows[number // count % 2][number % count])

    def upsert(number: int) -> None:
        raw.raw.upsert_one(plain[number // count % 2][number % count])

    ways = _checked_in_turn(ours, raw, chosen, put, upsert)
    yield from compare(Comparison("put, 1 row", *ways, repetitions=_even(settings), warmups=2, calls=count))


def _put_some(settings: Settings, ours: Putting, raw: Upserting) -> Iterator[Outcome]:
    calls = 5
    count = min(SOME_ROWS, settings.rows // calls)
    chosen = _chosen(settings, calls * count)
    shares = [chosen.slice(call * count, count) for call in range(calls)]
    rows, plain = (
        [[edition.take(share) for share in shares] for edition in _editions_in_turn(side)] for side in (ours, raw)
    )

    def put(number: int) -> None:
        ours.table.put(rows[number // calls % 2][number % calls])

    def upsert(number: int) -> None:
        raw.raw.upsert(plain[number // calls % 2][number % calls])

    ways = _checked_in_turn(ours, raw, chosen, put, upsert)
    what = f"put, {count:,} rows"
    yield from compare(Comparison(what, *ways, repetitions=_even(settings), warmups=2, calls=calls))


def _editions_in_turn(side: Putting | Upserting) -> tuple[pa.Table, pa.Table]:
    """First the edition that the table does not hold."""
    return side.editions[1 - side.edition], side.held


def _even(settings: Settings) -> int:
    """With an even number of repetitions the table ends as it began."""
    return settings.repetitions // 2 * 2


def _checked_in_turn(
    ours: Putting, raw: Upserting, chosen: pa.Array, put: Callable[[int], None], upsert: Callable[[int], None]
) -> tuple[Way, Way]:
    """Ways that check all rows after each repetition: those chosen have turned, the others have not."""
    return (
        Way(put, _turned(ours, chosen, ours.table.scan)),
        Way(upsert, _turned(raw, chosen, raw.raw.scan)),
    )


def _turned(
    side: Putting | Upserting, chosen: pa.Array, scan: Callable[[], pa.Table]
) -> Callable[[Sequence[Any]], str | None]:
    mask = np.zeros(side.held.num_rows, dtype=bool)
    mask[chosen.to_numpy()] = True
    touched, rest = pa.array(mask), pa.array(~mask)
    expected = list(_editions_in_turn(side))

    def check(answers: Sequence[Any]) -> str | None:
        found = scan()
        written = expected[0].filter(touched)
        expected.reverse()
        return difference(found.filter(touched), written) or difference(found.filter(rest), side.held.filter(rest))

    return check


def _chosen(settings: Settings, count: int) -> pa.Array:
    """Different rows, at random."""
    return pa.array(np.random.default_rng(settings.seed).choice(settings.rows, count, replace=False))


EXPERIMENT = Experiment(
    name="store",
    title="The store",
    source="no figure of the papers: what everything else stands on",
    seen=(
        "The papers take HBase as it is. In the thesis on scalable maintenance (40 virtual nodes on one server "
        "with 4 Xeon 4650 (32 cores, 512 GB, two SSDs)), reading its log and distributing the updates ran at "
        "about 50,000 updates a second, and a view manager applied 600 to 700."
    ),
    views=False,
    limits=(
        "By construction a put writes each row twice, to its table and to the log, and first reads what was "
        "there; the raw side does neither. Regions are written side by side, one core each."
    ),
    measure=measure,
    sizes=lambda settings: {**settings.sizes(), "bulk_repetitions": BULK_REPETITIONS},
    plots=(
        Plot(
            "What do regions, a log and snapshots of {rows:,} rows cost beside plain SQLite?",
            "",
            "seconds (less is better)",
            Kind.BARS,
        ),
    ),
)
