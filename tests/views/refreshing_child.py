"""A process that opens a database with views, and writes and refreshes in turns. Run as `<folder> <number>`.

The views ask for nothing that Spark must evaluate, so it is quick, and two of them meet often.
"""

from __future__ import annotations

import sys

import viewkeeper as vk

TURNS = 25


def main(folder: str, number: int) -> None:
    with vk.open(folder, durability="off") as db:
        assert len(db.views()) == 3
        for turn in range(TURNS):
            keys = range(1_000 * number + 4 * turn, 1_000 * number + 4 * turn + 4)
            db.table("t").put([{"id": key, "k": "abc"[key % 3], "v": key} for key in keys])
            db.table("u").put({"k": "abc"[turn % 3], "w": number})
            assert db.refresh().failed == {}
    print("done")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
