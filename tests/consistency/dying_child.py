"""A process that refreshes a database and is killed on the way. Run as `dying_child.py <folder>`."""

from __future__ import annotations

import sys

import viewkeeper as vk
from viewkeeper.engine import leadership


def main(folder: str) -> None:
    leadership.SECONDS = 0.5
    with vk.open(folder, durability="off") as db:
        db.refresh()


if __name__ == "__main__":
    main(sys.argv[1])
