"""A process of its own that puts the rows of an Arrow file and says how much memory that took beyond them.

`python -m viewkeeper.bench.memory ROWS.arrow DATABASE` prints a number of megabytes.
"""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from pathlib import Path

import pyarrow as pa

import viewkeeper as vk
from viewkeeper.bench.data import DDL
from viewkeeper.bench.runner import Wrong


def megabytes_of_a_put(rows: pa.Table, folder: Path) -> float:
    """Measured in a child. `Wrong` if the child does not find its rows again."""
    folder.mkdir(exist_ok=True)
    path = folder / "rows.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)
    command = [sys.executable, "-m", "viewkeeper.bench.memory", str(path), str(folder / "memory.vk")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Wrong((done.stderr.strip().splitlines() or ["the process that was to put the rows failed"])[-1])
    return float(done.stdout)


def main(path: str, database: str) -> None:
    """Reading the file whole into memory takes no more than the rows, so the peak before the put is the rows."""
    with pa.OSFile(path) as source:
        rows = pa.ipc.open_file(source).read_all()
    with vk.open(database) as db:
        db.execute(f"CREATE TABLE t ({DDL})")
        before = megabytes("VmRSS")
        db.table("t").put(rows)
        after = megabytes("VmHWM")
        if not db.table("t").scan().equals(rows):
            sys.exit("the rows that were put are not the rows that are there")
    print(after - before)


def megabytes(field: str) -> float:
    """Linux counts the parent's memory into `ru_maxrss` of a child that it has started; its own status does not."""
    try:
        found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    except OSError:
        found = None
    if found:
        return int(found[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 1024


if __name__ == "__main__":
    main(*sys.argv[1:])
