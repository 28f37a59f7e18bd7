"""A decision that was struck while somebody slept with it in his hand takes nobody's place."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from viewkeeper.store.contract import Action, Mutation, Request, TableSpec
from viewkeeper.store.embedded import EmbeddedStore, writes
from viewkeeper.store.embedded.files import Files
from viewkeeper.store.embedded.transactions import Decision

GROUP = "immediate"
SCHEMA = pa.schema([pa.field("id", pa.int64(), False), pa.field("v", pa.int64())])


def edition(value: int) -> Mutation:
    return Mutation("t", Action.PUT, pa.table([pa.array(range(8)), pa.array([value] * 8, pa.int64())], schema=SCHEMA))


def write_with_an_epoch(path: str, value: int) -> None:
    """As whoever maintains a group that guards its tables does it, who first undoes what another one left."""
    store = EmbeddedStore.open(Path(path), durability="off")
    lease = store.lead(f"group/{GROUP}", f"holder {value}", 0.01)
    assert lease is not None
    store.fence(GROUP, lease.term)
    running = store.group(GROUP).running
    if running is not None:
        store.undo(GROUP, running.epoch, lease.term)
    prepared = store.prepare([Request([edition(value)], [])])
    prepared.commit(GROUP, store.begin(GROUP, prepared.store.cut(["t"]), lease.term).epoch, lease.term)


def dies(path: Path, value: int, point: str) -> None:
    environment = {**os.environ, "VIEWKEEPER_FAULT": point}
    done = subprocess.run([sys.executable, __file__, str(path), str(value)], env=environment, check=False)
    assert done.returncode == -9


def test_a_sleeper_brings_no_region_to_where_another_decision_belongs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found: a region was moved on without the rows of the epoch that was committed there, which were then lost."""
    path = tmp_path / "db.vk"
    store, sleeper = (EmbeddedStore.open(path, durability="off") for _ in range(2))
    store.create(TableSpec("t", SCHEMA, ("id",), ("id",), 4))
    store.create_group(GROUP, guards=True)
    store.write([edition(0)])
    dies(path, 1, "prepare.recorded")

    stands, asleep, awake = writes.stands, threading.Event(), threading.Event()

    def slowly(files: Files, decision: Decision) -> bool:
        if threading.current_thread().name == "sleeper" and not awake.is_set():
            asleep.set()
            awake.wait()
        return stands(files, decision)

    monkeypatch.setattr(writes, "stands", slowly)
    thread = threading.Thread(target=lambda: sleeper.cut(["t"]), name="sleeper")
    thread.start()
    assert asleep.wait(30)
    dies(path, 2, "prepare.decided")
    awake.set()
    thread.join()
    store.cut(["t"])
    assert store.scan("t")["v"].to_pylist() == [2] * 8, "the second epoch is committed"
    for one in (store, sleeper):
        one.close()


if __name__ == "__main__":
    write_with_an_epoch(sys.argv[1], int(sys.argv[2]))
