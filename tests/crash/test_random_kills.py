"""A process that writes as fast as it can is killed, again and again, at whatever it was doing."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from scenes import LEFT, RIGHT
from support import check_consistent, check_cut_is_whole, opened, start, state, unfinished

from viewkeeper.testing.contract.support import created

ROUNDS = 8
State = dict[str, dict[int, int]]


def test_what_was_acknowledged_is_there_and_nothing_else(tmp_path: Path) -> None:
    """Of each process the last write may have happened or not, wholly; every other one has."""
    chance = random.Random(20)
    folder = tmp_path / "shop.vk"
    with opened(folder) as store:
        created(store, LEFT, RIGHT)
    known: State = {"left": {}, "right": {}}
    for seed in range(1, ROUNDS + 1):
        acknowledged, under_way = _killed(folder, seed, after=chance.randint(1, 40))
        for wishes in acknowledged:
            known = _after(known, wishes)
        with opened(folder) as store:
            assert unfinished(folder) == 0
            found = {name: state(store, name) for name in known}
            assert found in (known, _after(known, under_way)), (seed, under_way)
            check_cut_is_whole(store, store.cut(["left", "right"]))
            known = found
    with opened(folder) as store:
        check_consistent(store, folder)


def _killed(folder: Path, seed: int, after: int) -> tuple[list[Any], Any]:
    """The writes that a process was told are done, and the one that it was at when it was killed."""
    child = start(Path(__file__).with_name("child.py"), folder, "random_writes", seed)
    assert child.stdout is not None
    assert child.stderr is not None
    said = [child.stdout.readline() for _ in range(2 * after)]
    child.kill()
    with child:  # `communicate` would miss what was read ahead with the lines
        rest, complaint = child.stdout.read(), child.stderr.read()
    assert all(said), complaint
    lines = [line for line in "".join([*said, rest]).splitlines(keepends=True) if line.endswith("\n")]
    lines = [line.strip() for line in lines]
    announced = [json.loads(line) for line in lines if line != "done"]
    done = lines.count("done")
    assert done >= after
    return announced[:done], announced[done] if len(announced) > done else []


def _after(known: State, wishes: list[Any]) -> State:
    tables = {name: dict(rows) for name, rows in known.items()}
    for table, action, what in wishes:
        if action == "delete":
            for key in what:
                del tables[table][key]
        else:
            tables[table] |= {row["id"]: row["version"] for row in what}
    return tables
