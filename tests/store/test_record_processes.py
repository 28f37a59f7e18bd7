"""Records of the embedded store among processes: test-and-set loses no writer."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

from support import TIMEOUT

from viewkeeper.store.embedded import EmbeddedStore

PROCESSES, ADDITIONS = 3, 20


def _add(folder: Path) -> None:
    store = EmbeddedStore.open(folder)
    done = 0
    while done < ADDITIONS:
        there = store.record("count")
        done += store.put_record("count", str(int(there or 0) + 1), expected=there)
    store.close()


def test_no_process_is_lost(tmp_path: Path) -> None:
    folder = tmp_path / "database.vk"
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_add, args=(folder,)) for _ in range(PROCESSES)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(TIMEOUT)
    assert [process.exitcode for process in processes] == [0] * PROCESSES
    store = EmbeddedStore.open(folder)
    assert store.record("count") == str(PROCESSES * ADDITIONS)
    store.close()
