"""A process that forks while it has a database open. Both use it; the parent closes it first, the child goes on.

Every write asks for a checkpoint, so that some are on their way when it forks.
"""

from __future__ import annotations

import os
import sys

import viewkeeper as vk
from viewkeeper.store.embedded import checkpoints


def write(table: vk.Table, first: int) -> None:
    for n in range(10):
        table.put([{"id": first + 2 * n, "v": first}, {"id": first + 2 * n + 1, "v": first}])


def child(db: vk.Database, done: int, go: int) -> None:
    table = db.table("t")
    write(table, 100)
    os.write(done, b".")
    os.read(go, 1)
    write(table, 200)
    with db.snapshot() as at:
        assert at.table("t").scan().num_rows == 80


def main(folder: str) -> None:
    checkpoints.AFTER = 1
    db = vk.open(folder)
    table = db.create_table("t", "id BIGINT, v BIGINT", primary_key="id", regions=2)
    write(table, 0)
    child_done, done = os.pipe()
    go, parent_done = os.pipe()
    process = os.fork()
    if process == 0:
        code = 1
        try:
            child(db, done, go)
            code = 0
        finally:
            os._exit(code)
    write(table, 300)
    os.read(child_done, 1)
    assert table.scan().num_rows == 60
    db.close()
    os.write(parent_done, b".")
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0


if __name__ == "__main__":
    main(sys.argv[1])
    print("end", flush=True)
