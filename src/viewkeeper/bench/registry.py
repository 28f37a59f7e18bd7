"""The experiments by name, in the order in which a whole run makes them. A new one is a module of its own and a line here.

`views` comes first: it fills the views of the shared tables, which others then find.
"""

from __future__ import annotations

from viewkeeper.bench.experiment import Experiment
from viewkeeper.bench.experiments import (
    benefit,
    crash,
    durability,
    group_keys,
    intervals,
    latency,
    many_views,
    operations,
    peers,
    recompute,
    regions,
    store,
    throughput_by_view,
    views,
    writers,
    zipf,
)

MODULES = (
    views,
    latency,
    benefit,
    recompute,
    store,
    throughput_by_view,
    zipf,
    operations,
    group_keys,
    regions,
    durability,
    writers,
    many_views,
    crash,
    intervals,
    peers,
)

EXPERIMENTS: dict[str, Experiment] = {module.EXPERIMENT.name: module.EXPERIMENT for module in MODULES}
