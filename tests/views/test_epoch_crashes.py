"""A process dies inside an epoch. Readers see the epoch before or the one after, in all views; the next refresh goes on.

Every step that leaves something on disk is tried: in a refresh, in the creation of a view, in a creation that is taken
back, and in a drop. What the views show must be, row by row, what they show where nobody died; there the oracle is asked.
"""

from __future__ import annotations

import json
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from epoch_scenes import LATE, VIEWS, Recorded, State, change, change_again, fill, seen
from pyspark.sql import SparkSession
from support import TIMEOUT, check_files, start, store_of

import viewkeeper as vk
from viewkeeper.store.embedded.faults import VARIABLE

pytestmark = pytest.mark.slow

APPLIES = ["apply.locked:4", "apply.staged:2", "apply.committed:1", "apply.committed:3", "apply.committed:7"]
EPOCH = ["begin.recorded", *APPLIES, "commit.before", "commit.recorded"]
MAKING = ["create.files_made:2", "create.recorded:3", "undo.region_restored:3", "undo.recorded"]
DROPPING = ["drop.recorded", "drop.files_gone:1", "begin.recorded", "commit.recorded"]


@dataclass(frozen=True)
class Scene:
    """A folder whose tables have changed since its views were refreshed, and what its views show where nobody dies.

    `after` is with the new view, refreshed; `later` is that after one more change.
    """

    folder: Path
    tables: set[str]
    before: State
    after: State
    later: State
    types: dict[str, str]

    def copied(self, to: Path) -> Path:
        shutil.copytree(self.folder, to)
        return to


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Scene:
    folder = tmp_path_factory.mktemp("epochs") / "before"
    with vk.open(folder, spark=spark, durability="off") as db:
        fill(db)
        change(db)
        before, tables = seen(db), _tables(db)
    shutil.copytree(folder, folder.with_name("after"))
    with vk.open(folder.with_name("after"), spark=spark, durability="off") as db:
        db.create_view("late", LATE)
        after = _proven(db)
        types = {sql: found for plan in db._catalog.definitions() for sql, found in plan.types.items()}
        change_again(db)
        db.refresh()
        later = _proven(db)
    assert all(before[name] != after[name] != later[name] for name in VIEWS)
    return Scene(folder, tables, before, after, later, types)


def _proven(db: vk.Database) -> State:
    assert all(db.verify(view.name).equal for view in db.views())
    return seen(db)


def _tables(db: vk.Database) -> set[str]:
    return {spec.name for spec in store_of(db).tables()}


def killed(folder: Path, operation: str, fault: str, types: dict[str, str]) -> None:
    """Let a process do something until it dies at a fault point."""
    child = start(Path(__file__).with_name("epoch_child.py"), folder, operation, **{VARIABLE: fault})
    hangs = threading.Timer(TIMEOUT, child.kill)
    hangs.start()
    _, complaint = child.communicate(json.dumps(types) if types else "")
    assert child.returncode == -signal.SIGKILL, complaint
    assert hangs.is_alive(), complaint
    hangs.cancel()


@contextmanager
def reopened(folder: Path, scene: Scene) -> Iterator[vk.Database]:
    with vk.open(folder, durability="off") as db:
        db._maintainer.spark = Recorded(scene.types)
        yield db
    check_files(folder)


def without(state: State, name: str) -> State:
    return {view: rows for view, rows in state.items() if view != name}


def goes_on(db: vk.Database, scene: Scene) -> bool:
    """With all views there: they show what they should, and go on to do so."""
    assert {spec.group for spec in store_of(db).tables()} == {None, "on demand"}
    assert store_of(db).group("on demand").running is None
    assert seen(db) == scene.after
    change_again(db)
    assert db.refresh().failed == {}
    return seen(db) == scene.later


@pytest.mark.parametrize("fault", EPOCH)
def test_a_refresh_that_dies_is_finished(fault: str, scene: Scene, tmp_path: Path) -> None:
    folder = scene.copied(tmp_path / "shop.vk")
    killed(folder, "refresh", fault, scene.types)
    with reopened(folder, scene) as db:
        committed = fault == "commit.recorded"
        assert seen(db) == (without(scene.after, "late") if committed else scene.before)
        epoch = db.status()[0].epoch
        db.refresh()
        assert seen(db) == without(scene.after, "late")
        assert db.status()[0].epoch == epoch + (not committed)
        db.create_view("late", LATE)
        assert goes_on(db, scene)


def test_an_epoch_goes_on_with_its_own_cut(scene: Scene, tmp_path: Path) -> None:
    """What was written after the crash is no part of it: it comes with the epoch after, in the same refresh."""
    folder = scene.copied(tmp_path / "shop.vk")
    killed(folder, "refresh", "apply.committed:3", scene.types)
    with reopened(folder, scene) as db:
        running = store_of(db).group("on demand").running
        assert running is not None
        change_again(db)
        db.refresh()
        assert seen(db) == without(scene.later, "late")
        finished, newest = db.history()[-2:]
        assert (finished.epoch, dict(finished.cut)) == (running.epoch, dict(running.cut))
        assert newest.epoch == running.epoch + 1
        assert {status.waiting for status in db.status()} == {0}


@pytest.mark.parametrize("fault", [*EPOCH, *MAKING])
def test_a_creation_that_dies_leaves_nothing(fault: str, scene: Scene, tmp_path: Path) -> None:
    """The next one to maintain the group clears what is left, whether it refreshes or makes the view again at once."""
    left = scene.copied(tmp_path / "left.vk")
    killed(left, "create_in_vain" if fault.startswith("undo") else "create", fault, scene.types)
    for refresh_first in (True, False):
        folder = Path(shutil.copytree(left, tmp_path / f"{refresh_first}.vk"))
        with reopened(folder, scene) as db:
            committed = fault == "commit.recorded"
            assert seen(db) == (scene.after if committed else scene.before)
            if refresh_first:
                db.refresh()
            if refresh_first and not committed:
                assert seen(db) == without(scene.after, "late")
                assert _tables(db) == scene.tables
                assert store_of(db).records("view/late") == {}
            if not committed:
                db.create_view("late", LATE)
            assert goes_on(db, scene)
            assert len(_tables(db) - scene.tables) == 4, "the view, two indexes and the values of MIN"
            db.drop("late")
            assert _tables(db) == scene.tables


@pytest.mark.parametrize("fault", DROPPING)
def test_a_drop_that_dies_is_a_drop(fault: str, scene: Scene, tmp_path: Path) -> None:
    """`begin` and `commit` are reached when the group's cut lets go of a table that no view reads any more."""
    folder = scene.copied(tmp_path / "shop.vk")
    killed(folder, "drop", fault, scene.types)
    with reopened(folder, scene) as db:
        assert seen(db) == without(scene.before, "joined")
        db.create_view("joined", VIEWS["joined"], regions=2)
        assert _tables(db) == scene.tables
        db.create_view("late", LATE)
        assert goes_on(db, scene)


def test_a_process_with_spark_dies_like_any_other(scene: Scene, tmp_path: Path) -> None:
    folder = scene.copied(tmp_path / "shop.vk")
    killed(folder, "create", "commit.before", types={})
    with reopened(folder, scene) as db:
        assert seen(db) == scene.before
        db.create_view("late", LATE)
        assert goes_on(db, scene)
