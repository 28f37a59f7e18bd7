"""The process that dies in an epoch. Run as `epoch_child.py <folder> <operation>`; the types that it may need on stdin.

With types at hand it starts no Spark, so many can be killed in little time. Without them (an empty stdin) it does, as
users' processes do.
"""

from __future__ import annotations

import json
import sys
from unittest.mock import patch

from epoch_scenes import LATE, Recorded

import viewkeeper as vk
from viewkeeper.engine import leadership


def refresh(db: vk.Database) -> None:
    db.refresh()


def create(db: vk.Database) -> None:
    db.create_view("late", LATE)


def create_in_vain(db: vk.Database) -> None:
    """All goes well until the commit."""
    with patch.object(db._store, "commit", side_effect=vk.ViewkeeperError("no")):
        db.create_view("late", LATE)


def drop(db: vk.Database) -> None:
    db.drop("joined")


def main(folder: str, operation: str) -> None:
    leadership.SECONDS = 0.5
    types = sys.stdin.read()
    with vk.open(folder, durability="off") as db:
        if types:
            db._maintainer.spark = Recorded(json.loads(types))
        {"refresh": refresh, "create": create, "create_in_vain": create_in_vain, "drop": drop}[operation](db)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
