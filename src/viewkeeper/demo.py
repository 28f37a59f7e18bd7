"""`make demo`: a small shop whose tables remember every change, checked against its own logs."""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
from rich.console import Console
from rich.table import Table as Shown

import viewkeeper as vk

PRODUCTS = ("book", "pen", "lamp", "chair", "desk")


def main() -> int:
    """Run the demo; 0 if everything that it checks holds."""
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory(prefix="viewkeeper-demo-") as folder, vk.open(Path(folder) / "shop.vk") as db:
        _load(db, console)
        return _follow(db, console)


def _load(db: vk.Database, console: Console) -> None:
    db.execute("CREATE TABLE events (id BIGINT PRIMARY KEY, product STRING, cost DECIMAL(10,2))")
    db.execute("CREATE TABLE totals (product STRING PRIMARY KEY, cost DECIMAL(18,2), n BIGINT)")
    count = 200_000
    rng = random.Random(1)
    cents = pa.array([rng.randrange(100, 10_000) for _ in range(count)])
    table = pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "product": [rng.choice(PRODUCTS) for _ in range(count)],
            "cost": pa.array([f"{c.as_py() / 100:.2f}" for c in cents]).cast(pa.decimal128(10, 2)),
        }
    )
    started = time.perf_counter()
    db.table("events").put(table)
    seconds = time.perf_counter() - started
    console.print(f"{count:,} events written, with their log, in {seconds:.2f} s ({count / seconds:,.0f} rows/s)")
    _recompute(db)


def _recompute(db: vk.Database) -> None:
    """Totals from all events: what a view will do from the changes alone."""
    sums = db.table("events").scan().group_by("product").aggregate([("cost", "sum"), ("product", "count")])
    totals = sums.rename_columns(["product", "cost", "n"])
    db.table("totals").put(totals.set_column(1, "cost", totals["cost"].cast(pa.decimal128(18, 2))))


def _follow(db: vk.Database, console: Console) -> int:
    before = db.snapshot()
    started, moved = time.perf_counter(), 0
    rng = random.Random(2)
    while time.perf_counter() - started < 2:
        _sell(db, 1_000_000 + moved, rng.choice(PRODUCTS))
        moved += 1
    console.print(f"{moved} transactions over two tables in {time.perf_counter() - started:.1f} s, each all or nothing")
    shown = Shown("product", "total before", "total now", "events now")
    for row in before.table("totals").scan().to_pylist():
        now = db.table("totals").get(row["product"])
        assert now is not None
        shown.add_row(row["product"], f"{row['cost']:,}", f"{now['cost']:,}", f"{now['n']:,}")
    console.print(shown)
    kept = db.table("totals").scan()
    _recompute(db)
    equal = kept.equals(db.table("totals").scan()) and before.table("events").scan().num_rows == 200_000
    console.print("verified: the totals equal a recomputation, the snapshot is what it was" if equal else "DIFFERENT")
    return 0 if equal else 1


def _sell(db: vk.Database, number: int, product: str) -> None:
    with db.transaction() as tx:
        tx.table("events").put({"id": number, "product": product, "cost": "5.00"})
        total = tx.table("totals").get(product)
        assert total is not None
        tx.table("totals").update({"product": product, "cost": total["cost"] + 5, "n": total["n"] + 1})


if __name__ == "__main__":
    sys.exit(main())
