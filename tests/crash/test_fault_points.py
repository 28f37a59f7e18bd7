"""A process dies at every named fault point; what is left is whole, whoever looks at it next.

Each case is one death. The folder is then looked at twice: a copy of it is opened anew, and the folder itself is used by
a process that had it open all the time (this one), which must finish or undo what the dead one left.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest
from scenes import (
    GROUP,
    KEYS,
    LEFT,
    RIGHT,
    TOTALS,
    VIEWS,
    after_epoch,
    after_transaction,
    epoch_rows,
    key_in,
)
from support import check_consistent, check_cut_is_whole, ended, inside, opened, start, state, unfinished, writes_of

from viewkeeper.errors import Fenced, NotFound, SnapshotTooOld
from viewkeeper.store.contract import Applied, TableSpec
from viewkeeper.store.embedded import EmbeddedStore
from viewkeeper.store.embedded.faults import FAULT_POINTS, VARIABLE
from viewkeeper.store.embedded.files import Files
from viewkeeper.testing.contract.support import apply_all, changes, created, put

CHILD = Path(__file__).parent / "child.py"
PER_TRANSACTION = 4
"""Regions of two tables of two."""
PER_EPOCH = 3
"""Regions of the group's tables."""
TERM = 1


@dataclass(frozen=True)
class Case:
    """A fault, the operation that reaches it, and how many of the child's two writes are there afterwards."""

    operation: str
    fault: str
    there: int = 1

    @property
    def point(self) -> str:
        return self.fault.partition(":")[0]


WRITES = [
    Case("put_one", "write.locked:2", 1),
    Case("put_one", "write.staged:2", 1),
    Case("put_one", "write.committed:2", 2),
    Case("put_many", "transaction.staged:2", 1),
    Case("put_many", "transaction.decided:2", 2),
    Case("put_many", "transaction.region_committed:3", 2),
    Case("transaction", "transaction.locked:2", 1),
    Case("transaction", "transaction.staged:2", 1),
    Case("transaction", "transaction.decided:2", 2),
    *(Case("transaction", f"transaction.region_committed:{PER_TRANSACTION + n}", 2) for n in (1, 2, 3, 4)),
    Case("transaction", "transaction.finished:2", 2),
]
CREATES = [Case("create", "create.files_made:2", 1), Case("create", "create.recorded:2", 2)]
DROPS = [
    Case("drop", "drop.recorded:2"),
    Case("drop", "drop.region_closed:3"),
    Case("drop", "drop.region_closed:4"),
    Case("drop", "drop.files_gone:2"),
]
EPOCHS = [
    Case("epoch", "begin.recorded:2", 1),
    *(Case("epoch", f"apply.{step}:{PER_EPOCH + 2}", 1) for step in ("locked", "staged", "committed")),
    Case("epoch", f"apply.committed:{PER_EPOCH + 1}", 1),
    Case("epoch", "commit.before:2", 1),
    Case("epoch", "commit.recorded:2", 2),
    Case("undo", "undo.begun", 1),
    *(Case("undo", f"undo.region_restored:{n}", 1) for n in (1, 2, 3)),
    Case("undo", "undo.recorded", 1),
    *(Case("withdraw", f"withdraw.region_restored:{n}", 1) for n in (1, 2)),
]
TOGETHER = [
    Case("together", "prepare.staged:2", 1),
    Case("together", "prepare.recorded:2", 1),
    Case("together", "prepare.decided:2", 2),
    *(Case("together", f"prepare.region_committed:{PER_TRANSACTION + n}", 2) for n in (1, 2, 3, 4)),
    Case("together", "prepare.finished:2", 2),
]
TRIMS = [Case("trim", f"trim.region_trimmed:{n}") for n in (1, 2)]


def test_every_fault_point_has_a_case() -> None:
    assert {case.point for case in WRITES + CREATES + DROPS + EPOCHS + TOGETHER + TRIMS} == set(FAULT_POINTS)


def test_a_fault_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """Otherwise a misspelled one would be a crash test without a crash."""
    code, _, complaint = ended(start(CHILD, tmp_path / "shop.vk", "put_one", **{VARIABLE: "write.lockd"}))
    assert code == 1
    assert "no fault point 'write.lockd'" in complaint


def cases(listed: list[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", listed, ids=lambda case: f"{case.operation}-{case.fault}")


@dataclass
class Crash:
    """What a death left: the folder with a process (this one) that has had it open all the time, and a copy."""

    survivor: EmbeddedStore
    folder: Path
    copies: Path
    acknowledged: list[str]

    @contextmanager
    def reopened(self) -> Iterator[tuple[EmbeddedStore, Path]]:
        """A copy of what was left, opened anew. Each call takes another copy, so look before the survivor acts."""
        folder = self.copies / f"copy-{len(list(self.copies.iterdir()))}"
        shutil.copytree(self.folder, folder)
        with opened(folder) as store:
            yield store, folder


@contextmanager
def crash(tmp_path: Path, case: Case, *, writes: int = 0) -> Iterator[Crash]:
    folder, copies = tmp_path / "shop.vk", tmp_path / "copies"
    copies.mkdir()
    with opened(folder) as survivor:
        created(survivor, LEFT, RIGHT, *(VIEWS if case in EPOCHS + TOGETHER else ()))
        for version in range(1, writes + 1):
            survivor.write([put(LEFT, *((key, version) for key in KEYS))])
        for spec in survivor.tables():
            survivor.scan(spec.name)
        code, said, complaint = ended(start(CHILD, folder, case.operation, **{VARIABLE: case.fault}))
        assert code == -signal.SIGKILL, (code, said, complaint)
        assert "end" not in said
        yield Crash(survivor, folder, copies, said)


# Writes


def expected_tables(operation: str, versions: int) -> tuple[dict[int, int], dict[int, int]]:
    if operation == "put_one":
        return {1: versions}, {}
    if operation == "put_many":
        return dict.fromkeys(KEYS, versions), {}
    return after_transaction(versions), after_transaction(versions)


@cases(WRITES)
def test_a_write_is_wholly_there_or_not_at_all(case: Case, tmp_path: Path) -> None:
    wanted = expected_tables(case.operation, case.there)
    with crash(tmp_path, case) as left:
        assert left.acknowledged == ["1"]
        with left.reopened() as (store, folder):
            assert unfinished(folder) == 0
            assert (state(store, "left"), state(store, "right")) == wanted
            check_cut_is_whole(store, store.cut(["left", "right"]))
            check_consistent(store, folder)
        _survivor_cuts(left, case, wanted)
        check_consistent(left.survivor, left.folder)


def _survivor_cuts(left: Crash, case: Case, wanted: tuple[dict[int, int], dict[int, int]]) -> None:
    """A cut finds what was decided, whole, without opening anew."""
    cut = left.survivor.cut(["left", "right"])
    seen = tuple(state(left.survivor, name, at=cut[name]) for name in ("left", "right"))
    assert seen == wanted
    check_cut_is_whole(left.survivor, cut)
    assert all(inside(cut, places) == [True] * len(places) for places in writes_of(left.survivor).values())
    assert set(writes_of(left.survivor)) == set(range(1, case.there + 1))


@cases([case for case in WRITES if case.operation == "transaction"])
@pytest.mark.parametrize(("table", "region"), [(LEFT, 0), (RIGHT, 1)], ids=["first", "last"])
def test_a_survivor_writes_on_where_the_dead_one_left_off(
    case: Case, table: TableSpec, region: int, tmp_path: Path, shared_crashes: Path
) -> None:
    """It must not write before the decision has been carried out there: the log would lose its order."""
    folder = tmp_path / "shop.vk"
    with survivor_of(case, shared_crashes, folder) as store:
        key = key_in(table, region)
        before = unfinished(folder)
        store.write([put(table, (key, 3))])
        wanted = {spec.name: after_transaction(case.there) for spec in (LEFT, RIGHT)}
        wanted[table.name] |= {key: 3}
        places = writes_of(store)
        assert places[3] == {(table.name, region, case.there + 1)}
        cut = store.cut(["left", "right"])
        assert {name: state(store, name, at=cut[name]) for name in ("left", "right")} == wanted
        check_cut_is_whole(store, cut)
        check_consistent(store, folder)
        assert before == (1 if case.there == 2 and case.point != "transaction.finished" else 0)
    with opened(folder) as store:
        assert unfinished(folder) == 0
        assert {name: state(store, name) for name in ("left", "right")} == wanted


@pytest.fixture(scope="module")
def shared_crashes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What each death of a transaction left, made once and copied for each test."""
    return tmp_path_factory.mktemp("crashes")


@contextmanager
def survivor_of(case: Case, shared: Path, folder: Path) -> Iterator[EmbeddedStore]:
    """A store on a copy of what was left, that has not looked for decisions as `open` does."""
    made = shared / case.fault.replace(":", "-")
    if not made.exists():
        made.mkdir()
        with crash(made, case):
            shutil.copytree(made / "shop.vk", made / "left")
    shutil.copytree(made / "left", folder)
    store = EmbeddedStore(Files(folder, synchronous="FULL", timeout=30.0))
    try:
        yield store
    finally:
        store.close()


# Tables


@cases(CREATES)
def test_a_table_is_made_whole_or_not_at_all(case: Case, tmp_path: Path) -> None:
    with crash(tmp_path, case) as left:
        assert left.acknowledged == ["first"]
        with left.reopened() as (store, folder):
            _check_created(store, folder, case.there)
        _check_created(left.survivor, left.folder, case.there)


def _check_created(store: EmbeddedStore, folder: Path, there: int) -> None:
    second = TableSpec("second", LEFT.schema, ("id",), ("id",), 2)
    assert [spec.name for spec in store.tables()] == ["first", "left", "right", "second"][: 2 + there]
    if there == 1:
        store.create(second)
    store.write([put(second, *((key, 7) for key in KEYS))])
    assert state(store, "second") == dict.fromkeys(KEYS, 7)
    check_consistent(store, folder)


@cases(DROPS)
def test_a_dropped_table_is_gone_and_its_name_is_free(case: Case, tmp_path: Path) -> None:
    with crash(tmp_path, case, writes=2) as left:
        assert left.acknowledged == ["right"]
        with left.reopened() as (store, folder):
            check_consistent(store, folder)
            _check_dropped(store, folder)
        _check_dropped(left.survivor, left.folder)


def _check_dropped(store: EmbeddedStore, folder: Path) -> None:
    assert store.tables() == []
    with pytest.raises(NotFound, match='table "left" does not exist'):
        store.drop("left")
    store.create(LEFT)
    store.write([put(LEFT, (1, 9))])
    assert state(store, "left") == {1: 9}
    assert store.positions("left") in ((0, 1), (1, 0))
    check_consistent(store, folder)


@cases(DROPS)
def test_nobody_writes_into_a_table_whose_drop_began(case: Case, tmp_path: Path) -> None:
    """A survivor that knew the table writes to the new one of that name, or nowhere."""
    with crash(tmp_path, case, writes=1) as left:
        code, said, complaint = ended(start(CHILD.with_name("creator.py"), left.folder))
        assert (code, said) == (0, ["made"]), complaint
        left.survivor.write([put(LEFT, (5, 5))])
        with opened(left.folder) as store:
            assert state(store, "left") == {5: 5}
            check_consistent(store, left.folder)


# Epochs


def answers(store: EmbeddedStore, epoch: int) -> list[list[Applied]]:
    return [apply_all(store, spec, changes(spec, *epoch_rows(spec, epoch)), epoch, TERM) for spec in VIEWS]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[list[Applied]]:
    """What applying epoch 2 answers when nothing happens."""
    with opened(tmp_path_factory.mktemp("undisturbed") / "shop.vk") as store:
        created(store, LEFT, RIGHT, *VIEWS)
        for epoch in (1, 2):
            assert store.begin(GROUP, {}, TERM).epoch == epoch
            found = answers(store, epoch)
            store.commit(GROUP, epoch, TERM)
        return found


@cases(EPOCHS)
def test_an_epoch_goes_on_or_is_undone(case: Case, tmp_path: Path, undisturbed: list[list[Applied]]) -> None:
    with crash(tmp_path, case) as left:
        assert left.acknowledged == ["1"]
        running = case.there == 1 and case.point != "undo.recorded"
        next_one = {"undo": _only_take_back, "withdraw": _withdraw_the_rest}.get(case.operation, _go_on)
        with left.reopened() as (store, folder):
            _check_epoch(store, case.there, running)
            if running:
                next_one(store, undisturbed)
            check_consistent(store, folder)
        with left.reopened() as (store, folder):
            if running:
                _take_back(store, undisturbed)
            check_consistent(store, folder)
        _check_epoch(left.survivor, case.there, running)
        if running:
            next_one(left.survivor, undisturbed)
        check_consistent(left.survivor, left.folder)


def _seen(store: EmbeddedStore) -> list[dict[int, int]]:
    return [state(store, spec.name) for spec in VIEWS]


def _check_epoch(store: EmbeddedStore, committed: int, running: bool) -> None:
    """Readers see the committed epoch, in all tables, whatever was applied."""
    group = store.group(GROUP)
    assert (group.committed.epoch, group.committed.cut) == (committed, {"left": (committed, committed)})
    assert (group.running is not None) == running
    assert _seen(store) == [after_epoch(committed)] * len(VIEWS)


def _go_on(store: EmbeddedStore, undisturbed: list[list[Applied]]) -> None:
    """The same epoch with the same cut, whatever the new maintainer would have chosen; the same answers."""
    record = store.begin(GROUP, {"left": (99, 99)}, TERM)
    assert (record.epoch, record.cut) == (2, {"left": (2, 2)})
    assert answers(store, 2) == undisturbed
    assert answers(store, 2) == undisturbed
    assert _seen(store) == [after_epoch(1)] * len(VIEWS)
    store.commit(GROUP, 2, TERM)
    assert _seen(store) == [after_epoch(2)] * len(VIEWS)
    assert store.group(GROUP).committed.cut == {"left": (2, 2)}


def _only_take_back(store: EmbeddedStore, undisturbed: list[list[Applied]]) -> None:
    """An undo that has begun is finished: nothing of the epoch is applied any more."""
    assert store.group(GROUP).undoing
    with pytest.raises(Fenced):
        store.begin(GROUP, {"left": (99, 99)}, TERM)
    with pytest.raises(Fenced):
        store.commit(GROUP, 2, TERM)
    _take_back(store, undisturbed)


def _withdraw_the_rest(store: EmbeddedStore, undisturbed: list[list[Applied]]) -> None:
    """One table as before the epoch, however far the dead process had come with it; the others go on."""
    store.withdraw(TOTALS.name, 2, TERM)
    answers(store, 2)
    store.commit(GROUP, 2, TERM)
    assert _seen(store) == [after_epoch(1 if spec is TOTALS else 2) for spec in VIEWS]


def _take_back(store: EmbeddedStore, undisturbed: list[list[Applied]]) -> None:
    """As if it had never begun; then another epoch can do the same."""
    store.undo(GROUP, 2, TERM)
    _check_epoch(store, 1, running=False)
    assert all(set(store.positions(spec.name)) == {1} for spec in VIEWS)
    record = store.begin(GROUP, {"left": (3, 3)}, TERM)
    assert record.epoch == 3
    found = [apply_all(store, spec, changes(spec, *epoch_rows(spec, 2)), 3, TERM) for spec in VIEWS]
    assert found == undisturbed
    store.commit(GROUP, 3, TERM)
    assert _seen(store) == [after_epoch(2)] * len(VIEWS)


# Rows and views together


@cases(TOGETHER)
@pytest.mark.parametrize("first", ["undo", "cut", "write"])
def test_rows_and_their_epoch_are_both_there_or_neither(case: Case, first: str, tmp_path: Path) -> None:
    """Whatever the next one does first: lead the group, take a cut, or write."""
    with crash(tmp_path, case) as left:
        assert left.acknowledged == ["1"]
        for reopen in (True, False):
            with left.reopened() if reopen else nullcontext((left.survivor, left.folder)) as (store, folder):
                _next_one(store, first)
                _check_together(store, case.there)
                assert not reopen or unfinished(folder) == 0
                check_consistent(store, folder)


def _next_one(store: EmbeddedStore, first: str) -> None:
    if first == "write":
        assert store.write([put(RIGHT, (key_in(RIGHT, 0), 9))])
    if first == "cut":
        store.cut(["left", "right"])
    store.fence(GROUP, TERM + 1)
    running = store.group(GROUP).running
    if running is not None:
        store.undo(GROUP, running.epoch, TERM + 1)
    store.cut(["left", "right"])


def _check_together(store: EmbeddedStore, there: int) -> None:
    group = store.group(GROUP)
    assert group.running is None
    assert group.committed.epoch == there
    assert _seen(store) == [after_epoch(there)] * len(VIEWS)
    for name in ("left", "right"):
        at = group.committed.cut[name]
        assert state(store, name, at=at) == dict.fromkeys(KEYS, there)
        assert {k: v for k, v in state(store, name).items() if k in KEYS} == dict.fromkeys(KEYS, there)
    with pytest.raises(Fenced):
        store.begin(GROUP, {}, TERM)


# Retention


@cases(TRIMS)
def test_a_trim_takes_log_entries_and_nothing_else(case: Case, tmp_path: Path) -> None:
    trimmed = int(case.fault.partition(":")[2])
    with crash(tmp_path, case, writes=3) as left:
        with left.reopened() as (store, _):
            _check_trimmed(store, trimmed)
        _check_trimmed(left.survivor, trimmed)


def _check_trimmed(store: EmbeddedStore, trimmed: int) -> None:
    """The regions that were trimmed say so; the others still remember. The rows are all there."""
    assert state(store, "left") == dict.fromkeys(KEYS, 3)
    for region in range(LEFT.regions):
        if region < trimmed:
            with pytest.raises(SnapshotTooOld, match='table "left" cannot be read at position 1'):
                list(store.read("left", region, at=1))
            with pytest.raises(SnapshotTooOld, match="its log begins after 3"):
                list(store.log("left", region, 1, 3))
        else:
            assert set(column_of(store, region, at=1)) == {1}
            assert len(list(store.log("left", region, 0, 3))) == 3
    store.write([put(LEFT, *((key, 4) for key in KEYS))])
    for region in range(LEFT.regions):
        assert set(column_of(store, region, at=3)) == {3}
        assert set(column_of(store, region, at=4)) == {4}


def column_of(store: EmbeddedStore, region: int, at: int) -> list[int]:
    return [value for batch in store.read("left", region, at=at) for value in batch.column(1).to_pylist()]
