"""A run in numbers, for Prometheus: served on a port of this machine while it lasts.

Counts only grow, and are added up as epochs commit. How much waits, and for how long, is asked of the store when someone
looks: a group whose epoch hangs shows a lag that grows. `docs/running.md` lists the names.

The registry is the run's own, so that nothing of it appears among a program's other metrics.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from viewkeeper.engine.catalog import ViewCatalog
from viewkeeper.engine.maintainer import Maintainer
from viewkeeper.engine.reports import ViewReport
from viewkeeper.engine.waiting import Waiting
from viewkeeper.errors import InputError, ViewkeeperError
from viewkeeper.service.events import Appears, Event, Fails, Goes, Leads, Loses, Resigns, Retries, Turn, Waits
from viewkeeper.service.journal import error_code

ADDRESS = "127.0.0.1"
BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Seconds of an epoch."""


class Metrics:
    """The numbers of one run."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.port = 0
        self._of_group(registry)
        self._of_view(registry)
        self._leading = Gauge("viewkeeper_leading", "1 while this process maintains the database", registry=registry)

    def _of_group(self, registry: CollectorRegistry) -> None:
        label = ("group",)
        self._epochs = Counter("viewkeeper_epochs", "Epochs committed", label, registry=registry)
        self._changes = Counter("viewkeeper_changes_read", "Changes of tables read", label, registry=registry)
        self._rows = Counter("viewkeeper_rows_applied", "Rows of views changed", label, registry=registry)
        self._failures = Counter(
            "viewkeeper_failures", "Refreshes that failed, by error", ("group", "error"), registry=registry
        )
        self._retries = Counter("viewkeeper_retries", "Refreshes tried again after a failure", label, registry=registry)
        self._seconds = Histogram(
            "viewkeeper_epoch_seconds", "How long epochs took", label, registry=registry, buckets=BUCKETS
        )
        self._change_rate = Gauge(
            "viewkeeper_changes_per_second", "Changes read per second of the last epoch", label, registry=registry
        )
        self._row_rate = Gauge(
            "viewkeeper_rows_per_second", "Rows applied per second of the last epoch", label, registry=registry
        )

    def _of_view(self, registry: CollectorRegistry) -> None:
        label = ("group", "view")
        self._view_changes = Counter(
            "viewkeeper_view_changes_read", "Changes that a view took in", label, registry=registry
        )
        self._view_rows = Counter(
            "viewkeeper_view_rows_applied", "Rows of a view changed, by kind", (*label, "kind"), registry=registry
        )
        self._stopped = Gauge("viewkeeper_view_stopped", "1 while a view's query fails", label, registry=registry)

    def __call__(self, event: Event) -> None:
        match event:
            case Leads():
                self._leading.set(1)
            case Waits() | Loses() | Resigns():
                self._leading.set(0)
            case Appears(group):
                self._begin(group)
            case Turn():
                self._count(event)
            case Fails(group, error):
                self._failures.labels(group or "", error_code(error)).inc()
            case Retries(group):
                self._retries.labels(group).inc()
            case Goes():
                pass  # its counts stay: they are what was done

    def _begin(self, group: str) -> None:
        """A count that is not there yet and one that is 0 are different things to a scraper that takes differences."""
        for metric in (self._epochs, self._changes, self._rows, self._retries, self._seconds):
            metric.labels(group)

    def _count(self, turn: Turn) -> None:
        group, seconds = turn.group, turn.report.seconds
        self._epochs.labels(group).inc()
        self._changes.labels(group).inc(turn.changes)
        self._rows.labels(group).inc(turn.rows)
        self._seconds.labels(group).observe(seconds)
        self._change_rate.labels(group).set(turn.changes / max(seconds, 1e-9))
        self._row_rate.labels(group).set(turn.rows / max(seconds, 1e-9))
        for view in turn.report.views:
            self._count_view(group, view)

    def _count_view(self, group: str, view: ViewReport) -> None:
        self._view_changes.labels(group, view.view).inc(view.changes)
        for kind in ("inserted", "updated", "deleted"):
            self._view_rows.labels(group, view.view, kind).inc(getattr(view, kind))
        self._stopped.labels(group, view.view).set(view.error is not None)


class Unseen(Collector):
    """What the views of a database have not seen yet. On demand or by schedule, led by this process or by another."""

    def __init__(self, maintainer: Maintainer, catalog: ViewCatalog) -> None:
        self._maintainer = maintainer
        self._catalog = catalog

    def collect(self) -> Iterator[Metric]:
        """What cannot be found out now is absent, and the rest is served."""
        changes = GaugeMetricFamily("viewkeeper_changes_waiting", "Changes that a group has not read", labels=["group"])
        lag = GaugeMetricFamily("viewkeeper_lag_seconds", "How long the oldest of them has waited", labels=["group"])
        views = GaugeMetricFamily(
            "viewkeeper_view_changes_waiting", "Changes that a view has not taken in", labels=["group", "view"]
        )
        with suppress(ViewkeeperError):
            definitions = self._catalog.definitions()
            for definition in definitions:
                waiting = Waiting.for_view(self._maintainer.store, self._catalog, definition)
                views.add_metric([definition.group, definition.name], waiting.changes)
            for group in dict.fromkeys(definition.group for definition in definitions):
                waiting = self._maintainer.waiting(group)
                changes.add_metric([group], waiting.changes)
                lag.add_metric([group], waiting.seconds)
        yield from (changes, lag, views)


@contextmanager
def serving(port: int, maintainer: Maintainer, catalog: ViewCatalog) -> Iterator[Metrics]:
    """Metrics, served on a port (0: any that is free) until the block ends."""
    registry = CollectorRegistry()
    registry.register(Unseen(maintainer, catalog))
    metrics = Metrics(registry)
    server, thread = _served(port, registry)
    metrics.port = server.server_port
    try:
        yield metrics
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _served(port: int, registry: CollectorRegistry) -> tuple[WSGIServer, Thread]:
    try:
        return start_http_server(port, addr=ADDRESS, registry=registry)
    except (OSError, OverflowError, TypeError) as error:
        raise InputError(
            f"metrics cannot be served on port {port}: {error}",
            hint="choose another port, or 0 for any that is free",
            port=port,
        ) from error
