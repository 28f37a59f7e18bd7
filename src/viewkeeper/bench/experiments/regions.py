"""Number of regions of the view: what splitting it gains.

After experiment 6 of the thesis "Dynamic Scalable View Maintenance" (view tables of one to ten regions on a server of 32 cores:
best at about the number of view managers or a multiple, by at most 50 view records a second) and figure 5.1c of "Materialized
views with Apache Spark" (one laptop), where more regions took less time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial

from viewkeeper.bench.experiment import Experiment, Plot
from viewkeeper.bench.outcomes import Finding, Mark
from viewkeeper.bench.runner import in_turn, proved, refreshed, speed, verified
from viewkeeper.bench.settings import Settings
from viewkeeper.bench.streams import SUM
from viewkeeper.bench.truth import same_sums
from viewkeeper.bench.workload import Tables

REGIONS = (1, 2, 4, 6, 10)


def sizes(settings: Settings) -> dict[str, int]:
    return {
        "rows": settings.size(500_000, 10_000),
        "groups": settings.size(100_000, 2_000),
        "operations": settings.size(250_000, 5_000),
        "repetitions": settings.bulk_repetitions,
    }


def measure(settings: Settings) -> Iterator[Finding]:
    """Every view follows the same operations of one table: 60 % inserts, 30 % updates, 10 % deletes."""
    size = sizes(settings)
    with closing(Tables(settings.folder / "one.vk", size["rows"], size["groups"], settings.seed)) as tables:
        views = {regions: f"v{regions}" for regions in REGIONS}
        for regions, name in views.items():
            tables.db.create_view(name, SUM, refresh=f"every {100 + regions} seconds", regions=regions)
        sides = {regions: partial(refreshed, tables.db, name) for regions, name in views.items()}
        found = in_turn(sides, size["repetitions"], before=partial(tables.change, size["operations"]))
        for regions, measured in found.items():
            raw = None if regions == 1 else found[1]
            what = f"{regions} regions (raw: 1)" if raw else "1 region"
            yield speed(what, size["operations"], measured, raw, mark=Mark("sum by group", regions))
        yield proved("1 region, rows verified", partial(verified, tables.db, [views[1]]))
        for regions, name in list(views.items())[1:]:
            yield proved(f"{regions} regions, rows compared", partial(same_sums, tables.db, name))


EXPERIMENT = Experiment(
    name="regions",
    title="Number of regions of the view",
    source="thesis on scalable maintenance, experiment 6 (figures 10.6a, 10.6b); thesis on Spark, figure 5.1c",
    seen=(
        "Thesis on scalable maintenance, 40 virtual nodes on one server with 4 Xeon 4650 (32 cores, 512 GB, two "
        "SSDs), two region servers: the best split was about the number of view managers, four or eight, or a "
        "multiple of it; splitting changed the throughput by at most 50 view records a second. Thesis on Spark, "
        "one laptop (Core i5-3230M, 3.9 GB): more regions took less time."
    ),
    limits=(
        "By construction a region is written by one task, so one region keeps one core busy; each further region "
        "is one more file to commit."
    ),
    measure=measure,
    sizes=sizes,
    plots=(Plot("What does splitting a view gain?", "regions of the view", "changes followed a second"),),
)
