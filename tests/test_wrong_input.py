"""Every mistake gives its error, says where it is, and leaves the database as it was."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from support import TIMEOUT, check_consistent, connect, ended, start, store_of

import viewkeeper as vk
from viewkeeper.store.embedded.catalog import FORMAT

COLUMNS = "id BIGINT, small TINYINT, cost DECIMAL(5,2), name STRING NOT NULL"
GOOD = {"id": 1, "small": 1, "cost": "9.90", "name": "book"}
STORED = {**GOOD, "cost": Decimal("9.90")}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "shop.vk"


@pytest.fixture
def db(folder: Path) -> Iterator[vk.Database]:
    with vk.open(folder) as database:
        database.create_table("events", COLUMNS, primary_key="id")
        yield database


@pytest.fixture
def events(db: vk.Database) -> vk.Table:
    table = db.table("events")
    table.put(GOOD)
    return table


def without(column: str) -> dict[str, Any]:
    return {name: value for name, value in GOOD.items() if name != column}


# Rows

BAD_ROWS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "unknown column": ({**GOOD, "colour": "red"}, {"column": "colour"}),
    "missing column": (without("small"), {"column": "small"}),
    "missing key": (without("id"), {"column": "id"}),
    "string for a number": ({**GOOD, "id": "2"}, {"column": "id", "value": "2"}),
    "float for a decimal": ({**GOOD, "cost": 9.9}, {"column": "cost", "value": 9.9}),
    "number for a string": ({**GOOD, "name": 7}, {"column": "name", "value": 7}),
    "boolean for a number": ({**GOOD, "small": True}, {"column": "small", "value": True}),
    "NULL key": ({**GOOD, "id": None}, {"column": "id", "value": None}),
    "NULL where it is forbidden": ({**GOOD, "name": None}, {"column": "name", "value": None}),
    "integer out of range": ({**GOOD, "small": 128}, {"column": "small", "value": 128}),
    "key out of range": ({**GOOD, "id": 2**63}, {"column": "id", "value": 2**63}),
    "decimal out of range": ({**GOOD, "cost": "1000.00"}, {"column": "cost", "value": "1000.00"}),
    "decimal too fine": ({**GOOD, "cost": "0.001"}, {"column": "cost", "value": "0.001"}),
    "lone surrogate": ({**GOOD, "name": "\ud800"}, {"column": "name", "value": "\ud800"}),
}


@pytest.mark.parametrize("case", BAD_ROWS)
def test_a_row_that_does_not_fit(events: vk.Table, case: str) -> None:
    row, fields = BAD_ROWS[case]
    fine = [{**GOOD, "id": number} for number in (10, 11)]
    with pytest.raises(vk.RowError, match='table "events", row 2: column') as caught:
        events.put([*fine, row, {**GOOD, "id": 12}])
    assert caught.value.fields == {"table": "events", "row": 2, **fields}
    assert events.scan().to_pylist() == [STORED]


@pytest.mark.parametrize("case", BAD_ROWS)
def test_a_row_that_does_not_fit_in_a_transaction(db: vk.Database, events: vk.Table, case: str) -> None:
    row, fields = BAD_ROWS[case]
    with pytest.raises(vk.RowError) as caught, db.transaction() as tx:  # noqa: PT012
        tx.table("events").put({**GOOD, "id": 10})
        tx.table("events").put([{**GOOD, "id": 11}, row])
    assert caught.value.fields == {"table": "events", "row": 1, **fields}
    assert events.scan().to_pylist() == [STORED]


def bad_column(column: str, values: list[Any], kind: pa.DataType) -> pa.Table:
    good = pa.table({"id": [7, 8, 9], "small": [1, 2, 3], "cost": [Decimal("1.00")] * 3, "name": ["a", "b", "c"]})
    return good.set_column(good.column_names.index(column), column, pa.array(values, kind))


BAD_TABLES: dict[str, tuple[str, list[Any], pa.DataType, dict[str, Any]]] = {
    "wrong type": ("id", ["x", "y", "z"], pa.string(), {"row": 0, "value": "x"}),
    "NULL key": ("id", [7, None, 9], pa.int64(), {"row": 1, "value": None}),
    "integer out of range": ("small", [1, 2, 300], pa.int64(), {"row": 2, "value": 300}),
    "integer too small": ("small", [-300, 2, 3], pa.int64(), {"row": 0, "value": -300}),
    "decimal out of range": (
        "cost",
        [Decimal("1.00"), Decimal("12345.00"), None],
        pa.decimal128(10, 2),
        {"row": 1, "value": Decimal("12345.00")},
    ),
}


@pytest.mark.parametrize("case", BAD_TABLES)
@pytest.mark.parametrize("form", ["arrow", "pandas"])
def test_a_table_that_does_not_fit(events: vk.Table, case: str, form: str) -> None:
    column, values, kind, fields = BAD_TABLES[case]
    table = bad_column(column, values, kind)
    series = {name: pd.Series(table[name].to_pylist(), dtype=object) for name in table.column_names}
    given = table if form == "arrow" else pd.DataFrame(series)
    with pytest.raises(vk.RowError, match='table "events"') as caught:
        events.put(given)
    assert caught.value.fields == {"table": "events", "column": column, **fields}
    assert events.scan().to_pylist() == [STORED]


def test_a_key_twice_in_a_batch(events: vk.Table) -> None:
    batch = [{**GOOD, "id": 5}, {**GOOD, "id": 6}, {**GOOD, "id": 5}]
    for given in (batch, pa.Table.from_pylist([{**row, "cost": Decimal("1.00")} for row in batch])):
        with pytest.raises(vk.RowError, match=r"key \(id = 5\) is in row 0 too") as caught:
            events.put(given)
        assert caught.value.fields == {"table": "events", "row": 2, "first_row": 0, "value": (5,)}
    with pytest.raises(vk.RowError, match="is in row 0 too"):
        events.delete([5, 5])
    with pytest.raises(vk.RowError, match="is in row 0 too"):
        events.update([{"id": 1, "small": 1}, {"id": 1, "cost": 1}])
    assert events.scan().to_pylist() == [STORED]


def test_an_update_that_does_not_fit(events: vk.Table) -> None:
    with pytest.raises(vk.RowError, match='column "small"') as caught:
        events.update([{"id": 1, "name": "x"}, {"id": 1, "small": 1000}])
    assert caught.value.fields == {"table": "events", "column": "small", "row": 1, "value": 1000}
    with pytest.raises(vk.NotFound, match=r"has no row \{'id': 99\} to update") as missing:
        events.update([{"id": 1, "small": 5}, {"id": 99, "small": 5}])
    assert missing.value.fields == {"table": "events", "key": {"id": 99}}
    with pytest.raises(vk.RowError, match="cannot use"):
        events.update({"id": 1})
    assert events.scan().to_pylist() == [STORED]


@pytest.mark.parametrize("key", ["1", 1.0, None, (1, 2), {"name": "book"}, {}, 2**63, True])
def test_a_key_that_does_not_fit(events: vk.Table, key: Any) -> None:
    for call in (events.get, events.delete):
        with pytest.raises(vk.RowError, match='table "events"') as caught:
            call(key)
        assert caught.value.fields["table"] == "events"
    assert events.scan().to_pylist() == [STORED]


@pytest.mark.parametrize("given", ["text", 7, None, [1], [None]])
def test_something_that_is_no_row(events: vk.Table, given: Any) -> None:
    with pytest.raises(vk.RowError, match="cannot use"):
        events.put(given)
    assert events.scan().to_pylist() == [STORED]


def test_wrong_reads(events: vk.Table) -> None:
    with pytest.raises(vk.NotFound, match='no column "colour"') as caught:
        events.scan(columns=["colour"])
    assert caught.value.fields == {"table": "events", "column": "colour"}
    for limit in (-1, True, "3"):
        with pytest.raises(vk.InputError, match="limit"):
            events.scan(limit=limit)  # type: ignore[arg-type]
    for limit in (2**63 - 1, 2**63, 10**30):
        assert events.scan(limit=limit).to_pylist() == [STORED], "it is more than there are, as any large number"
    with pytest.raises(vk.InputError, match="another key"):
        events.put_if(GOOD, expected={"id": 2})
    with pytest.raises(vk.RowError, match="colour"):
        events.put_if(GOOD, expected={"colour": "red"})
    assert events.scan().to_pylist() == [STORED]


@pytest.mark.parametrize("keep", [-1, float("nan"), float("-inf"), None, "x", True])
def test_logs_cannot_be_kept_for_that_long(db: vk.Database, events: vk.Table, keep: Any) -> None:
    with pytest.raises(vk.InputError, match=r"logs cannot be kept for .* seconds\n  hint: give 0 or more"):
        db.trim(keep)
    with db.snapshot() as at:
        events.delete(1)
        assert at.table("events").get(1) == STORED


@pytest.mark.parametrize("keep", [float("inf"), 1e300, 10**400], ids=["infinity", "large", "larger"])
def test_logs_that_are_kept_for_ever(db: vk.Database, events: vk.Table, keep: float) -> None:
    events.put(GOOD | {"small": 2})
    assert db.trim(keep) == 0
    assert db.trim(0) == 2


# Names


def test_a_table_that_is_not_there(db: vk.Database) -> None:
    for call in (db.table, db.drop, db.snapshot().table):
        with pytest.raises(vk.NotFound, match='"orders"') as caught:
            call("orders")
        assert "events" in str(caught.value.hint)
    with pytest.raises(vk.NotFound, match="orders"), db.transaction() as tx:
        tx.table("orders")
    with pytest.raises(vk.NotFound, match="orders"):
        db.execute("DROP TABLE orders")


@pytest.mark.parametrize("name", ["events", "EVENTS"])
def test_a_name_that_is_taken(db: vk.Database, events: vk.Table, name: str) -> None:
    with pytest.raises(vk.NameTaken, match=f'"{name}" exists'):
        db.create_table(name, "other INT", primary_key="other")
    with pytest.raises(vk.NameTaken, match=f'"{name}" exists'):
        db.execute(f"CREATE TABLE {name} (other INT PRIMARY KEY)")
    assert events.scan().to_pylist() == [STORED]
    assert [table.name for table in db.tables()] == ["events"]


@pytest.mark.parametrize(
    "name", ["../etc", "a/b", "a\\b", ".", "", "a b", "it's", 'say "x"', "a`b", "1st", "é", "a;b", "x" * 129]
)
def test_a_name_that_no_table_can_have(db: vk.Database, folder: Path, name: str) -> None:
    before = sorted(folder.rglob("*"))
    with pytest.raises(vk.InvalidName) as caught:
        db.create_table(name, "id INT", primary_key="id")
    assert caught.value.fields == {"name": name}
    assert sorted(folder.rglob("*")) == before
    for call in (db.table, db.drop):
        with pytest.raises(vk.NotFound):
            call(name)


def test_a_name_that_is_reserved(db: vk.Database) -> None:
    for name in ("_vk_events", "_VK_x"):
        with pytest.raises(vk.InvalidName, match="is reserved"):
            db.create_table(name, "id INT", primary_key="id")
    with pytest.raises(vk.InvalidName, match="is reserved"):
        db.create_table("t", "id INT, _vk_had INT", primary_key="id")
    assert [table.name for table in db.tables()] == ["events"]


@pytest.mark.parametrize("regions", [0, -1, True, 1.5, 65_537])
def test_a_number_of_regions_that_no_table_can_have(db: vk.Database, regions: Any) -> None:
    with pytest.raises(vk.SchemaError, match="regions"):
        db.create_table("t", "id INT", primary_key="id", regions=regions)


# Folders


def test_a_folder_that_is_not_a_database(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for path in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(vk.NotADatabase, match="is not a viewkeeper database"):
            vk.open(path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_path_through_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(vk.StorageError, match="file"):
        vk.open(tmp_path / "file" / "shop.vk")


def test_a_catalog_that_is_no_catalog(folder: Path) -> None:
    folder.mkdir()
    (folder / "catalog.db").write_bytes(b"This is not SQLite. " * 100)
    with pytest.raises(vk.Corrupt, match="is damaged"):
        vk.open(folder)


def test_a_region_that_is_missing(db: vk.Database, events: vk.Table, folder: Path) -> None:
    """An error, and not an empty region."""
    db.close()
    for path in folder.glob("tables/1/region-*"):
        path.unlink()
    with vk.open(folder) as again, pytest.raises(vk.StorageError, match="is missing"):
        again.table("events").put(GOOD)
    assert list(folder.glob("tables/1/*")) == []


@pytest.mark.parametrize("timeout", [None, -1, -0.001, float("nan"), "30", True])
def test_a_timeout_that_is_none(folder: Path, timeout: Any) -> None:
    with pytest.raises(
        vk.InputError, match=r"a call cannot wait .* seconds for another writer\n  hint: give 0 or more"
    ):
        vk.open(folder, timeout=timeout)
    assert not folder.exists()


@pytest.mark.parametrize("timeout", [0, 0.5, 10**7, 10**400, float("inf")], ids=["0", "0.5", "1e7", "1e400", "inf"])
def test_a_timeout_of_any_length(folder: Path, timeout: float) -> None:
    with vk.open(folder, timeout=timeout) as db:
        store = store_of(db)
        with store._files.pool.use(folder / "catalog.db") as connection:
            (milliseconds,) = connection.one("PRAGMA busy_timeout") or (None,)
    assert milliseconds == pytest.approx(min(timeout, 2**31 // 1000) * 1000)


@pytest.mark.parametrize("durability", ["x", "FULL", "", None, ["full"]])
def test_a_durability_that_is_none(folder: Path, durability: Any) -> None:
    with pytest.raises(vk.InputError, match=r"there is no durability .*\n  hint: give one of full, normal, off"):
        vk.open(folder, durability=durability)
    assert not folder.exists()


def test_a_database_of_a_newer_format(db: vk.Database, events: vk.Table, folder: Path) -> None:
    db.close()
    connection = connect(folder / "catalog.db")
    connection.execute("PRAGMA user_version = 999")
    connection.close()
    with pytest.raises(vk.NewerFormat, match="has format 999"):
        vk.open(folder)
    connection = connect(folder / "catalog.db")
    connection.execute(f"PRAGMA user_version = {FORMAT}")
    connection.close()
    with vk.open(folder) as again:
        assert again.table("events").scan().to_pylist() == [STORED]


def test_a_database_of_the_format_before_is_brought_up(db: vk.Database, events: vk.Table, folder: Path) -> None:
    db._store.create_group("old")
    db.close()
    connection = connect(folder / "catalog.db")
    connection.execute("ALTER TABLE groups DROP COLUMN guards")
    connection.execute("PRAGMA user_version = 1")
    connection.close()
    for _ in range(2):
        with vk.open(folder) as again:
            assert again.table("events").scan().to_pylist() == [STORED]
            assert not again._store.group("old").guards
            again.table("events").put(STORED)


@pytest.mark.parametrize("mode", [0o555, 0o000])
@pytest.mark.parametrize("inside", [False, True], ids=["the folder", "its parent"])
def test_a_folder_that_cannot_be_written(mode: int, inside: bool) -> None:
    """pytest's folders are closed to other users, and root may write anywhere: so a folder of its own, and another user."""
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        parent = Path(place) / "parent"
        parent.mkdir()
        if not inside:
            with vk.open(parent) as made:
                made.create_table("t", "id INT", primary_key="id")
        parent.chmod(mode)
        try:
            target = parent / "new.vk" if inside else parent
            code, said, complaint = ended(start(Path(__file__).with_name("read_only_child.py"), target))
        finally:
            parent.chmod(0o755)
    assert (code, said[:1]) == (0, ["ReadOnly"]), (said, complaint)


# A full disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk, with room for the write-ahead logs, which SQLite lets grow to four megabytes each."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = shutil.which("mount")
    if mount is None or os.getuid() != 0:
        pytest.skip("mounting a small disk needs root")
    made = subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=40m", "tmpfs", str(place)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip(f"no small disk can be mounted here: {made.stderr.decode().strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


class Filler:
    """A file that leaves just so much room."""

    def __init__(self, place: Path) -> None:
        self.path = place / "filler"

    def leave(self, room: int) -> None:
        """Files may be growing meanwhile, as journals are brought into them: then there is less to fill."""
        until = time.monotonic() + TIMEOUT
        while True:
            self.empty()
            stat = os.statvfs(self.path.parent)
            try:
                self.path.write_bytes(bytes(max(0, stat.f_bavail * stat.f_frsize - room)))
            except OSError:
                if time.monotonic() > until:
                    raise
            else:
                return

    def empty(self) -> None:
        self.path.unlink(missing_ok=True)


def big_rows(first: int, count: int) -> pa.Table:
    texts = [f"{number:08}" * 125 for number in range(first, first + count)]
    return pa.table({"id": range(first, first + count), "v": texts})


@pytest.mark.parametrize("regions", [1, 3])
def test_a_full_disk(small_disk: Path, regions: int) -> None:
    """However little room there is, a write is there or it is not, and all is well when there is room again.

    With three regions the disk gets full before the decision, or after it: then the error says so.
    """
    folder, filler = small_disk / "shop.vk", Filler(small_disk)
    with vk.open(folder) as db:
        table = db.create_table("t", "id BIGINT, v STRING", primary_key="id", regions=regions)
        table.put(big_rows(0, 30))
        there, refused = 30, 0
        for room in range(0, 280_000, 20_000):
            filler.leave(room)
            error = _put(table, big_rows(there, 30))
            filler.empty()
            refused += error is not None
            if error is None or error.fields.get("decided"):
                there += 30
            with db.snapshot() as at:
                assert at.table("t").scan().num_rows == there, room
            table.delete(pa.array(range(30, there)))
            db.trim(0)
            there = 30
        assert refused >= 3
        table.put(big_rows(30, 30))
        assert table.scan().num_rows == 60
    with vk.open(folder) as db:
        assert db.table("t").scan().equals(big_rows(0, 60).cast(table.schema))


def _put(table: vk.Table, rows: pa.Table) -> vk.DiskFull | None:
    try:
        table.put(rows)
    except vk.DiskFull as error:
        return error
    return None


def test_a_full_disk_without_a_trim(small_disk: Path) -> None:
    """Nothing of a batch that never had room; the log still makes the rows."""
    folder, filler = small_disk / "shop.vk", Filler(small_disk)
    with vk.open(folder) as db:
        table = db.create_table("t", "id BIGINT, v STRING", primary_key="id", regions=3)
        table.put(big_rows(0, 5))
        filler.leave(8_192)
        with pytest.raises(vk.DiskFull, match="no room left"):
            table.put(big_rows(5, 100))
        assert table.scan().num_rows == 5
        filler.empty()
        table.put(big_rows(5, 5))
        assert table.scan().equals(big_rows(0, 10).cast(table.schema))
        check_consistent(store_of(db), folder)


def test_a_full_disk_while_a_table_is_made(small_disk: Path) -> None:
    folder, filler = small_disk / "shop.vk", Filler(small_disk)
    with vk.open(folder) as db:
        for room in (0, 4_096, 40_000, 120_000):
            filler.leave(room)
            with pytest.raises(vk.DiskFull, match="no room left"):
                db.create_table("t", "id BIGINT, v STRING", primary_key="id", regions=8)
            assert db.tables() == []
        filler.empty()
        table = db.create_table("t", "id BIGINT, v STRING", primary_key="id", regions=8)
        table.put(big_rows(0, 20))
        assert table.scan().num_rows == 20
        check_consistent(store_of(db), folder)


def test_a_full_disk_at_the_opening(small_disk: Path) -> None:
    filler = Filler(small_disk)
    filler.leave(0)
    with pytest.raises(vk.DiskFull, match="no room left"):
        vk.open(small_disk / "shop" / "shop.vk")
    filler.empty()
    with vk.open(small_disk / "shop" / "shop.vk") as db:
        assert db.tables() == []


def test_a_full_disk_at_the_opening_of_what_is_there(small_disk: Path) -> None:
    """SQLite wants room beside each file that it opens, and calls the lack of it an error of the disk."""
    folder, filler = small_disk / "shop.vk", Filler(small_disk)
    with vk.open(folder) as db:
        db.create_table("t", "id BIGINT, v STRING", primary_key="id").put(big_rows(0, 5))
    for room in (0, 8_192):
        filler.leave(room)
        with pytest.raises(vk.DiskFull, match="no room left"):
            vk.open(folder)
    filler.empty()
    with vk.open(folder) as db:
        assert db.table("t").scan().num_rows == 5


def test_a_closed_database_is_not_written_to(folder: Path, db: vk.Database, events: vk.Table) -> None:
    """Nor is any other file: those that the process opens next get the numbers that the database's files had."""
    events.put(GOOD)
    db.close()
    beside = [vk.open(folder.with_name(f"{number}.vk")) for number in range(3)]
    for use in (lambda: events.put(GOOD), lambda: db.table("events"), lambda: events.get(1), db.views):
        with pytest.raises(vk.InputError, match=r'database ".*shop.vk" is closed\n  hint: open it again'):
            use()
    db.close()
    for other in beside:
        other.create_table("t", "k INT", primary_key="k")
        other.table("t").put({"k": 1})
        other.close()
    with vk.open(folder) as again:
        assert again.table("events").get(1) == STORED
        again.table("events").put({**GOOD, "id": 2})
        check_consistent(store_of(again), folder)
