"""Peers: the four views kept by other systems, from the same data and the same changes.

View by view, ours and then each of the others, in a process of its own (`viewkeeper.bench.peers`). All of them are compared
with Spark's answer over the tables as they are at the end before any of their figures counts. What is not installed is skipped.
No figure of the papers: they had no peers.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import viewkeeper as vk
from viewkeeper.bench import peers
from viewkeeper.bench.experiment import Experiment, Kind, Plot
from viewkeeper.bench.outcomes import Finding, Mark, Outcome, Sample
from viewkeeper.bench.recompute import Recompute
from viewkeeper.bench.runner import Wrong, failed, paired, proved, refreshed
from viewkeeper.bench.settings import Settings
from viewkeeper.bench.sides import difference
from viewkeeper.bench.truth import in_order
from viewkeeper.bench.workload import QUERIES, TABLES, Query, Tables
from viewkeeper.engine.spark import Spark

SECONDS = 120
"""A peer that takes longer has failed."""

BULK, SMALL = "bulk", "small"


@dataclass(frozen=True)
class Peer:
    """A program of `viewkeeper.bench.peers`, the modules that it needs, and how its figure is not like ours."""

    name: str
    program: str
    modules: tuple[str, ...]
    unlike: str
    install: str


PEERS = (
    Peer(
        "Flink SQL",
        "flink",
        ("pyflink", "pyarrow"),
        "in memory, lost in a crash; no result to read; parses JSON; the difference of two jobs, a view each",
        "pip install apache-flink, in an environment of its own (--peers-python)",
    ),
    Peer(
        "Pathway",
        "pathway",
        ("pathway", "pandas"),
        "in memory, lost in a crash; no result to read; rows are handed over one by one; a view each",
        "pip install 'viewkeeper[peers]'",
    ),
    Peer(
        "DuckDB recompute",
        "duckdb_recompute",
        ("duckdb",),
        "durable; one process at a time; a view each",
        "pip install 'viewkeeper[peers]'",
    ),
    Peer(
        "DuckDB increments",
        "duckdb_increments",
        ("duckdb",),
        "durable; written by hand; one process at a time; a view each",
        "pip install 'viewkeeper[peers]'",
    ),
    Peer(
        "SQLite triggers",
        "sqlite_triggers",
        ("adbc_driver_sqlite", "pyarrow"),
        "durable; written by hand; one writer; includes writing the base rows; all views at one point",
        "",
    ),
)
SPARK = "Spark recompute"
SPARK_UNLIKE = "Parquet to Parquet, not synced, no keys; the same whatever changed; a view each"


def sizes(settings: Settings) -> dict[str, int]:
    return {
        "rows": settings.size(50_000, 4_000),
        "partners": settings.size(5_000, 400),
        "changes": settings.size(50_000, 2_000),
        "small_changes": settings.size(1_000, 100),
        "bulk_batches": 3 if not settings.quick else 2,
        "small_batches": 6 if not settings.quick else 2,
    }


def measure(settings: Settings) -> Iterator[Finding]:
    """View by view: ours first, then everybody else's, so that what is compared ran within the same minute."""
    size = sizes(settings)
    folder = settings.folder / "data"
    _write_data(settings, folder, size)
    truth = Recompute(Spark().session(), folder / "after")
    for query in QUERIES[:: 3 if settings.quick else 1]:  # in short: the sum, and the sum over the join
        truth.run(query)
        ours = _follow(settings.folder / f"{query.name}.vk", folder, query, len(_counts(size)))
        yield proved(f"{query.name}, viewkeeper, rows compared", partial(_check, ours.rows, truth.result(query), query))
        yield from _spark(query, truth, ours.seconds, size)
        for peer in PEERS:
            yield from _peer(query, peer, folder, truth, ours.seconds, size, settings)


def _write_data(settings: Settings, folder: Path, size: dict[str, int]) -> None:
    """The tables at first, the batches, and the tables `after` them.

    What a join saw is a batch: each row of R has one partner, so that is what left R and what came.
    """
    folder.mkdir()
    join = QUERIES[2]
    with closing(Tables(settings.folder / "data.vk", size["rows"], size["partners"], settings.seed)) as tables:
        tables.export(folder)
        tables.db.create_view(join.name, join.sql)
        for number, count in enumerate(_counts(size)):
            since = tables.db.view(join.name).status().epoch
            tables.change(count)
            tables.db.refresh(join.name)
            changes = tables.db.view(join.name).changes(since=since)
            batch = pa.table({"w": changes["weight"], "k": changes["k"], "x": changes["x"], "y": changes["y"]})
            pq.write_table(batch, folder / f"batch-{number}.parquet")
        tables.export(folder / "after")


def _counts(size: dict[str, int]) -> list[int]:
    """Large batches first, then small ones."""
    return [size["changes"]] * size["bulk_batches"] + [size["small_changes"]] * size["small_batches"]


# Ours


@dataclass(frozen=True)
class Followed:
    """Seconds of each batch, and the view's rows after the last."""

    seconds: list[float]
    rows: pa.Table


def _follow(database: Path, folder: Path, query: Query, batches: int) -> Followed:
    """The same as the others do: load the tables, follow the batches. Only following is timed."""
    with vk.open(database) as db:
        for statement, name in zip(TABLES, ("r", "s"), strict=True):
            db.execute(statement)
            db.table(name).put(pq.read_table(folder / f"{name}.parquet"))
        db.create_view(query.name, query.sql)
        seconds = []
        for number in range(batches):
            _write(db, pq.read_table(folder / f"batch-{number}.parquet"))
            seconds.append(refreshed(db, query.name))
        return Followed(seconds, db.view(query.name).scan())


def _write(db: vk.Database, batch: pa.Table) -> None:
    came, left = (batch.filter(sign(batch["w"], 0)) for sign in (pc.greater, pc.less))
    gone = left.filter(pc.invert(pc.is_in(left["k"], value_set=came["k"].combine_chunks())))
    with db.transaction() as transaction:
        transaction.table("r").delete(gone.select(["k"]))
        transaction.table("r").put(came.drop_columns(["w"]))


# Theirs


def _spark(query: Query, truth: Recompute, ours: Sequence[float], size: dict[str, int]) -> Iterator[Outcome]:
    """After a run that was the warm-up, and has left the answer that the peers are compared with."""
    times = [truth.run(query) for _ in range(size["bulk_batches"] - 1)]
    for kind in (BULK, SMALL):
        yield _outcome(query, SPARK, SPARK_UNLIKE, kind, _warm(ours, kind, size), tuple(times), size)


def _peer(
    query: Query,
    peer: Peer,
    folder: Path,
    truth: Recompute,
    ours: Sequence[float],
    size: dict[str, int],
    settings: Settings,
) -> Iterator[Outcome]:
    what = f"{query.name}, {peer.name}"
    interpreter = _interpreter(peer, (sys.executable, *settings.peers))
    if interpreter is None:
        yield Outcome(what, skipped=f"not installed ({peer.install})")
        return
    try:
        times = _run(interpreter, peer, folder, query)
        _check(pq.read_table(folder / f"{peer.program}-{query.name}.parquet"), truth.result(query), query)
    except Exception as error:
        yield failed(what, error)
        return
    for kind in (BULK, SMALL):
        mine, theirs = (_warm(side, kind, size) for side in (ours, times))
        yield _outcome(query, peer.name, peer.unlike, kind, mine, theirs, size)


def _interpreter(peer: Peer, candidates: Sequence[str]) -> str | None:
    """The first that has what the peer needs."""
    look = "import sys, importlib.util as u; sys.exit(any(u.find_spec(m) is None for m in sys.argv[1:]))"
    for candidate in candidates:
        try:
            found = subprocess.run([candidate, "-c", look, *peer.modules], capture_output=True, check=False)
        except OSError:
            continue
        if found.returncode == 0:
            return candidate
    return None


def _run(interpreter: str, peer: Peer, folder: Path, query: Query) -> list[float | None]:
    program = Path(peers.__file__).with_name(f"run_{peer.program}.py")
    command = [interpreter, str(program), str(folder), query.name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    answers = [line for line in done.stdout.splitlines() if line.startswith('{"seconds"')]
    if done.returncode or not answers:
        raise Wrong((done.stderr.strip().splitlines() or ["it ended without a word"])[-1])
    times: list[float | None] = json.loads(answers[-1])["seconds"]
    return times


def _check(found: pa.Table, expected: pa.Table, query: Query) -> int:
    """How many rows: the same as Spark has, whatever their order and the width of their integers."""
    rows = in_order(found.select(expected.column_names).cast(expected.schema), query.key)
    problem = difference(rows, in_order(expected, query.key))
    if problem is not None:
        raise Wrong(f"its rows are not Spark's: {problem}")
    return int(rows.num_rows)


# Both


def _outcome(
    query: Query,
    name: str,
    unlike: str,
    kind: str,
    mine: tuple[float, ...],
    theirs: tuple[float, ...],
    size: dict[str, int],
) -> Outcome:
    """As many pairs as both have."""
    count = size["changes"] if kind == BULK else size["small_changes"]
    what = f"{query.name}, {count:,} changes (raw: {name}: {unlike})"
    if not theirs:
        return Outcome(f"{query.name}, {count:,} changes, {name}", skipped="it cannot tell the time of a batch")
    pairs = min(len(mine), len(theirs))
    mark = Mark("viewkeeper" if name == SPARK else None, f"{query.name}: {query.title}", raw=name, plot=kind)
    return paired(what, Sample(mine[:pairs]), Sample(theirs[:pairs]), None, mark)


def _warm(times: Sequence[float | None], kind: str, size: dict[str, int]) -> tuple[float, ...]:
    """The batches of a kind without the first, which is a warm-up, unless it is the only one that was timed."""
    bulk = size["bulk_batches"]
    known = times[:bulk] if kind == BULK else times[bulk:]
    later = tuple(time for time in known[1:] if time is not None)
    return later or tuple(time for time in known[:1] if time is not None)


EXPERIMENT = Experiment(
    name="peers",
    title="Peers",
    source="no figure of the papers, which had no peers",
    seen="",
    limits=(
        "Not alike: Flink and Pathway hold their state in memory and throw the result away, so nothing can be read and a "
        "crash loses all; their time includes reading the changes. DuckDB and SQLite are durable and can be read, by one "
        "process at a time for DuckDB, and each view is a program written by hand; SQLite's time includes writing the base "
        "rows, for triggers are part of that. Spark's recomputation writes Parquet that has no keys. viewkeeper's views are "
        "durable, can be read by key while they are followed, and views of a group are at one cut. Each system has two cores, "
        "and two workers where it has workers. Systems ran one after the other, view by view, so that what is compared ran "
        "within the same minutes and not in turn. Flink's figure is of a job with the changes less one without; where the "
        "two were too alike to tell, it has none."
    ),
    measure=measure,
    sizes=sizes,
    plots=(
        Plot(
            "How long do {changes:,} changes of a table of {rows:,} rows take?",
            "",
            "seconds (log, less is better)",
            Kind.BARS,
            log_y=True,
            name=BULK,
        ),
        Plot(
            "How long do {small_changes:,} changes of a table of {rows:,} rows take?",
            "",
            "seconds (log, less is better)",
            Kind.BARS,
            log_y=True,
            name=SMALL,
        ),
    ),
)
