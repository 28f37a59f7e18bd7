"""An hour of epochs, with the logs trimmed as they grow: they hold what the retention asks for, and the disk use is flat.

An epoch stands for thirty seconds of that hour. Time is the epochs' own: `trim` is told the moment at which an older one ended.

Disk use is measured in a closed database: an open one has up to four megabytes of SQLite's write-ahead log beside each file,
whatever the file holds, which go when the last process lets go of it.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from support import _column, store_of

import viewkeeper as vk
from viewkeeper.engine import maintainer
from viewkeeper.engine.spark import Spark
from viewkeeper.store.embedded import transactions

EPOCHS = 120
SETTLED = 80
"""Epochs after which every file has been as large as it ever is: pages that are free are used again, not given back."""

KEPT = 10
"""Epochs that the logs are to reach back: five minutes of the hour."""

ROWS = 60
CHANGED = 20
VIEWS = {
    "sums": "SELECT k, SUM(v) AS s, COUNT(*) AS n FROM t GROUP BY k",
    "joined": "SELECT t.id, u.w FROM t JOIN u ON t.k = u.k",
    "least": "SELECT k, MIN(v) AS lo FROM t GROUP BY k",
}


@pytest.fixture(autouse=True)
def short_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept by number (reports of epochs) or by the clock (decisions, ten minutes), as in an hour that is so short."""
    monkeypatch.setattr(maintainer, "KEPT_HISTORY", KEPT)
    monkeypatch.setattr(transactions, "KEEP_NANOSECONDS", 10**9)


def opened(folder: Path) -> vk.Database:
    return vk.open(folder, spark=Spark().session(large=False), durability="off")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with opened(tmp_path / "db.vk") as db:
        db.create_table("t", "id BIGINT, k STRING, v BIGINT", primary_key="id", regions=2)
        db.create_table("u", "k STRING, w BIGINT", primary_key="k", regions=2)
        db.table("t").put([{"id": n, "k": "abcd"[n % 4], "v": n} for n in range(ROWS)])
        for name, query in VIEWS.items():
            db.create_view(name, query, regions=2)
    return tmp_path / "db.vk"


def change(db: vk.Database, turn: int) -> None:
    """The same number of rows change each time, and there are as many after it as before."""
    with db.transaction() as tx:
        keys = [(turn * 7 + n) % ROWS for n in range(CHANGED)]
        tx.table("t").put([{"id": key, "k": "abcd"[(key + turn) % 4], "v": (key * turn) % 50} for key in keys])
        tx.table("u").put([{"k": k, "w": turn % 5} for k in "abc"])


def log_sizes(db: vk.Database) -> dict[str, int]:
    """Changes in the log of each table, hidden ones and views too."""
    files = store_of(db)._files
    return {
        handle.spec.name: sum(_column(path, "SELECT coalesce(sum(changes), 0) FROM log")[0] for path in handle.paths)
        for handle in files.handles()
    }


def disk_use(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def run(folder: Path, turns: range, ended: list[float], *, keep: int | None) -> int:
    """Epochs, after those that have ended before, trimmed to the last so many; the disk use after them."""
    with opened(folder) as db:
        for turn in turns:
            change(db, turn)
            db.refresh()
            ended.append(time.time())
            if keep is not None and len(ended) > keep:
                store_of(db).trim(ended[-1 - keep])
    return disk_use(folder)


@pytest.mark.slow
def test_logs_and_disk_stay_small_for_an_hour(folder: Path) -> None:
    ended: list[float] = []
    early = run(folder, range(1, SETTLED), ended, keep=KEPT)
    late = run(folder, range(SETTLED, EPOCHS), ended, keep=KEPT)
    assert late <= 1.05 * early, (early, late)
    with opened(folder) as db:
        kept = log_sizes(db)
        assert CHANGED * KEPT <= kept["t"] <= CHANGED * (KEPT + 1)
        assert 3 * KEPT <= kept["u"] <= 3 * (KEPT + 1)
        assert max(kept.values()) <= 2 * ROWS * (KEPT + 1), kept
        assert [name for name in VIEWS if not db.verify(name).equal] == []


def test_without_a_trim_both_grow(folder: Path) -> None:
    """Else the test above shows nothing."""
    early = run(folder, range(1, SETTLED // 2), [], keep=None)
    late = run(folder, range(SETTLED // 2, SETTLED), [], keep=None)
    assert late > 1.05 * early, (early, late)
    with opened(folder) as db:
        assert log_sizes(db)["t"] > 2 * CHANGED * (KEPT + 1)
