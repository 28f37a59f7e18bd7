"""Synchronous against asynchronous maintenance, refresh intervals, and the order mix of a web shop.

After figures 6.2, 6.3 and 6.4 of "Aggregate Queries in NoSQL Cloud Data Stores" (CloudTPS over HBase on up to 20 of 85 nodes
with two cores of 2.4 GHz and 4 GB each): synchronous maintenance had considerably fewer transactions a second than
asynchronous, an interval of 50 ms was as slow as synchronous, one of 500 ms much faster, and one of 5,000 ms nearly as fast as
no view. The asynchronous sides are followed by a process of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from time import perf_counter

from viewkeeper.bench.child import Child
from viewkeeper.bench.experiment import Experiment, Kind, Plot
from viewkeeper.bench.outcomes import Finding, Mark, Outcome, Sample, floor
from viewkeeper.bench.runner import Measured, in_turn, proved, speed, verified
from viewkeeper.bench.settings import Settings
from viewkeeper.bench.shops import Dashboard, Orders, Shop

VIEW = "revenue"
ROWS = (1, 10, 100)
"""Rows of a transaction on the dashboard."""

INTERVALS = (0.05, 0.5, 5.0)
ONE_INTERVAL = 0.5
EPOCHS = 1.5
"""A window holds so many intervals at least, or the view would not be maintained within it."""

MAINTAINED = floor(1)
"""Epochs of a window: without one, nothing was measured. On a machine that is busy a short window may have none."""

WARM_UP = 0.4
"""Seconds."""

NONE = "not maintained"
SYNCHRONOUS = "synchronous: immediate view"


def sizes(settings: Settings) -> dict[str, int]:
    return {
        "events": Dashboard.EVENTS,
        "events_updated": Dashboard.HOT,
        "items": Orders.ITEMS,
        "customers": Orders.CUSTOMERS,
        "window_milliseconds": settings.size(800, 200),
        "interval_window_milliseconds": settings.size(1_500, 300),
        "repetitions": 1 if settings.quick else 2,
    }


def measure(settings: Settings) -> Iterator[Finding]:
    size = sizes(settings)
    yield from _dashboard(settings, size)
    if not settings.quick:  # the same once more, over other tables
        yield from _orders(settings, size)


def _dashboard(settings: Settings, size: dict[str, int]) -> Iterator[Finding]:
    followed = Dashboard(settings.folder / "followed.vk", settings.seed)
    together = Dashboard(settings.folder / "together.vk", settings.seed)
    with closing(followed), closing(together):
        pair = Pair(followed, together)
        with closing(Child(settings.folder / "followed.vk")) as child:
            child.ask(do="catch_up", view=VIEW)
            pair.warm_up(child)
            for rows in ROWS[:1] if settings.quick else ROWS:
                followed.rows = together.rows = rows
                sides = pair.sides(child, size["window_milliseconds"] / 1e3, (ONE_INTERVAL,))
                found = in_turn(sides, size["repetitions"], warmups=0)
                for name, measured in found.items():
                    raw = None if name == NONE else found[NONE]
                    what = f"dashboard, {rows} rows a transaction, {name}" + (f" (raw: {NONE})" if raw else "")
                    yield speed(what, 1, measured, raw, mark=Mark(name, rows, plot="size"), unit="transactions/s")
            followed.rows = together.rows = ROWS[1]
            yield from _by_interval(pair, child, size, INTERVALS[:2] if settings.quick else INTERVALS)
            yield pair.fewest_epochs("dashboard")
            yield proved("dashboard, followed, rows verified", partial(verified, followed.db, [VIEW]))
        yield proved("dashboard, synchronous, rows verified", partial(verified, together.db, [VIEW]))


def _by_interval(pair: Pair, child: Child, size: dict[str, int], intervals: tuple[float, ...]) -> Iterator[Finding]:
    """Longer intervals net more: what maintenance took until it had followed them, for each thousand rows written."""
    pair.work.clear()
    sides = pair.sides(child, size["interval_window_milliseconds"] / 1e3, intervals)
    found = in_turn(sides, size["repetitions"], warmups=0)
    for name, measured in found.items():
        raw = None if name == NONE else found[NONE]
        what = f"dashboard, {ROWS[1]} of the same {Dashboard.HOT} rows, {name}" + (f" (raw: {NONE})" if raw else "")
        yield speed(what, 1, measured, raw, mark=Mark("dashboard", name, plot="interval"), unit="transactions/s")
    for name, work in pair.work.items():
        what = f"maintenance for 1,000 rows written, {name}"
        yield Outcome(what, "s", Sample(tuple(work)), mark=Mark("maintenance", name, plot="work"))


def _orders(settings: Settings, size: dict[str, int]) -> Iterator[Finding]:
    followed = Orders(settings.folder / "orders.vk", settings.seed)
    together = Orders(settings.folder / "orders-together.vk", settings.seed)
    with closing(followed), closing(together):
        pair = Pair(followed, together)
        with closing(Child(settings.folder / "orders.vk")) as child:
            child.ask(do="catch_up", view=VIEW)
            pair.warm_up(child)
            sides = pair.sides(child, size["window_milliseconds"] / 1e3, (ONE_INTERVAL,))
            found: dict[str, Measured] = in_turn(sides, size["repetitions"], warmups=0)
            for name, measured in found.items():
                raw = None if name == NONE else found[NONE]
                what = f"orders, {name}" + (f" (raw: {NONE})" if raw else "")
                yield speed(what, 1, measured, raw, mark=Mark("orders", name, plot="orders"), unit="transactions/s")
            yield pair.fewest_epochs("orders")
            yield proved("orders, followed, rows verified", partial(verified, followed.db, [VIEW]))
        yield proved("orders, synchronous, rows verified", partial(verified, together.db, [VIEW]))


class Pair:
    """One shop whose view is followed by another process, and one whose view is true when a transaction returns."""

    def __init__(self, followed: Shop, together: Shop) -> None:
        self._followed = followed
        self._together = together
        self.work: dict[str, list[float]] = {}
        self._epochs: list[int] = []
        followed.db.create_view(VIEW, followed.query)
        together.db.create_view(VIEW, together.query, refresh="immediate")
        together.transact()

    def warm_up(self, child: Child) -> None:
        """Every side for a moment, so that nothing is timed cold."""
        for run in self.sides(child, WARM_UP, INTERVALS[:1]).values():
            run()
        self._epochs.clear()

    def fewest_epochs(self, shop: str) -> Outcome:
        """Of all windows in which the view was to be maintained."""
        fewest = Sample((float(min(self._epochs)),))
        return Outcome(f"{shop}, fewest epochs of a window", "epochs", fewest, limit=MAINTAINED)

    def sides(self, child: Child, seconds: float, intervals: tuple[float, ...]) -> dict[str, Callable[[], float]]:
        found: dict[str, Callable[[], float]] = {
            NONE: partial(self._alone, child, seconds),
            SYNCHRONOUS: partial(self._window, self._together, seconds),
        }
        for interval in intervals:
            found[f"every {interval * 1e3:g} ms"] = partial(self._in_intervals, child, seconds, interval)
        return found

    def _alone(self, child: Child, seconds: float) -> float:
        """What was written is followed afterwards, so that the others begin with nothing to follow."""
        found = self._window(self._followed, seconds)
        child.ask(do="catch_up", view=VIEW)
        return found

    def _in_intervals(self, child: Child, seconds: float, interval: float) -> float:
        """What the last interval left is followed afterwards: it is no part of the window, but of the maintenance."""
        child.ask(do="start", view=VIEW, every=interval)
        found = self._window(self._followed, max(seconds, EPOCHS * interval))
        epochs = child.ask(do="stop")["epochs"]
        rest = child.ask(do="catch_up", view=VIEW)["seconds"]
        self._epochs.append(len(epochs))
        spent = rest + sum(epoch["seconds"] for epoch in epochs)
        self.work.setdefault(f"every {interval * 1e3:g} ms", []).append(spent / self._rows * 1_000)
        return found

    def _window(self, shop: Shop, seconds: float) -> float:
        """Seconds per transaction, over a window of so many."""
        count, self._rows = 0, 0
        started = now = perf_counter()
        while now - started < seconds:
            self._rows += shop.transact()
            count += 1
            now = perf_counter()
        return (now - started) / count


EXPERIMENT = Experiment(
    name="intervals",
    title="Synchronous against asynchronous, and refresh intervals",
    source="thesis on aggregate queries, figures 6.2, 6.3 and 6.4",
    seen=(
        "CloudTPS over HBase on 20 nodes (two cores of 2.4 GHz and 4 GB each): synchronous maintenance had considerably "
        "fewer transactions a second; an interval of 50 ms was as slow, 500 ms much faster, 5,000 ms nearly as fast as "
        "without a view. With TPC-W's orders the rate grew with the number of nodes."
    ),
    limits=(
        "By construction a synchronous transaction waits for its views, whose fixed costs do not shrink with the "
        "transaction; an asynchronous one waits for nothing but its own commit. The interval sets how much "
        "maintenance is spent: rows that change again before the next epoch are netted. The process that follows "
        "shares the cores with the client."
    ),
    measure=measure,
    sizes=sizes,
    plots=(
        Plot(
            "How many transactions a second, synchronous and not?",
            "rows updated by a transaction (log)",
            "transactions a second (log)",
            log_x=True,
            log_y=True,
            name="size",
        ),
        Plot(
            "How many transactions of ten rows a second, by refresh interval?",
            "",
            "transactions a second",
            Kind.BARS,
            name="interval",
        ),
        Plot(
            "How much maintenance does a longer interval save?",
            "",
            "seconds of epochs for 1,000 rows written",
            Kind.BARS,
            name="work",
        ),
        Plot("How many orders a second?", "", "transactions a second", Kind.BARS, name="orders"),
    ),
)
