"""Commands on rows: what a user types, and what comes out on which side."""

from __future__ import annotations

import io
import json
import shlex
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest
from commands import COMMAND, Shell

import viewkeeper as vk

ALL_TYPES = (
    "CREATE TABLE things (a STRING, b INT, flag BOOLEAN, small TINYINT, price DECIMAL(10,2), ratio DOUBLE, day DATE, "
    "at TIMESTAMP, plain TIMESTAMP_NTZ, data BINARY, tags ARRAY<INT>, facts MAP<INT, STRING>, "
    "place STRUCT<city: STRING, zip: INT>, PRIMARY KEY (a, b))"
)
ROW = {
    "a": "x", "b": -1, "flag": True, "small": 7, "price": "9.90", "ratio": 0.1, "day": "2026-01-31",
    "at": "2026-01-31T12:00:00.000001+00:00", "plain": "2026-01-31T12:00:00", "data": "AP8=", "tags": [1, None],
    "facts": [[1, "one"]], "place": {"city": "Rome", "zip": None},
}  # fmt: skip


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A folder with a database that has one table."""
    found = Shell(tmp_path, tmp_path / "shop.vk")
    with vk.open(found.db, durability="off") as db:
        db.execute("CREATE TABLE sales (id BIGINT PRIMARY KEY, product STRING, price DECIMAL(10,2))")
    return found


def test_a_first_hour(tmp_path: Path) -> None:
    shell = Shell(tmp_path, tmp_path / "shop.vk")
    assert shell.ok("init").err == f"made {shell.db}\n"
    assert shell.ok("init").err == f"{shell.db} is a database already\n"
    create = "CREATE TABLE sales (id BIGINT PRIMARY KEY, product STRING, price DECIMAL(10,2));"
    assert shell.ok("sql", stdin=create).err == "done\n"
    assert shell.ok("put", "sales", "id=1", "product=book", "price=9.90").err == "put 1 row\n"
    shell.ok("put", "sales", '{"id": 2, "product": null, "price": 1.2}', '{"id": 3, "product": "=", "price": "0"}')
    assert shell.ok("put", "sales", "-", stdin='{"id": -4, "product": "pen", "price": null}\n\n').err == "put 1 row\n"
    assert shell.ok("get", "sales", 2, "-f", "json").rows == [{"id": 2, "product": None, "price": "1.20"}]
    assert shell.ok("scan", "sales", "--start", 2, "-f", "csv").out == ('"id","product","price"\n2,,1.20\n3,"=",0.00\n')
    assert shell.ok("find", "sales", "--", -4).out.splitlines()[2].split() == ["-4", "pen", "NULL"]
    shell.ok("delete", "sales", "--", "-4")
    shell.ok("delete", "sales", 77)
    shown = shell.ok("scan", "sales", "--limit", 2)
    assert [line.split() for line in shown.out.splitlines()] == [
        ["id", "product", "price"], ["─" * 20], ["1", "book", "9.90"], ["2", "NULL", "1.20"],
    ]  # fmt: skip
    assert shown.err == "the first 2 rows; there are more: --limit\n"


def test_every_type_goes_in_and_comes_out_again_in_every_format(shell: Shell) -> None:
    with vk.open(shell.db, durability="off") as db:
        db.execute(ALL_TYPES)
    shell.ok("put", "things", json.dumps(ROW))
    assert shell.ok("get", "things", "-f", "json", "--", "x", "-1").rows == [ROW]
    stream = shell.run("scan", "things", "-f", "arrow").stdout
    with vk.open(shell.db, durability="off") as db:
        stored = db.table("things").scan()
        assert pa.ipc.open_stream(io.BytesIO(stream)).read_all().equals(stored)
    (shell.folder / "things.csv").write_text(shell.ok("scan", "things", "-f", "csv").out)
    (shell.folder / "things.jsonl").write_text(shell.ok("scan", "things", "-f", "json").out)
    for name in ("things.csv", "things.jsonl"):
        shell.ok("delete", "things", "--", "x", "-1")
        shell.ok("import", "things", name)
        with vk.open(shell.db, durability="off") as db:
            assert db.table("things").scan().equals(stored), name


def test_errors_are_a_sentence_and_the_way_out(shell: Shell) -> None:
    assert shell.fails("put", "sales", "id=1", "product=x", "price=cheap") == (
        'error: table "sales", row 0: column "price" (DECIMAL(10,2)) cannot hold \'cheap\'\n'
        "  hint: give a Decimal, an int, or a string such as '9.90'\n"
    )
    assert shell.fails("get", "sales", 5).startswith('error: "sales" has no row with id = 5\n')
    assert shell.fails("get", "nosuch", 5).startswith('error: table "nosuch" does not exist\n  hint: ')
    assert "is not a value of a column" in shell.fails("put", "sales", "book")
    assert "this is not JSON" in shell.fails("put", "sales", "{book")
    missing = shell.folder / "nothing.vk"
    assert shell.fails("status", "--db", missing) == (
        f'error: there is no database in "{missing}"\n  hint: look at the name, or make one: viewkeeper init --db {missing}\n'
    )
    assert not missing.exists(), "looking makes nothing"
    assert "INSERT is not a statement" in shell.fails("sql", "-c", "INSERT INTO sales VALUES (1)")


def test_wrong_usage_ends_with_2_and_debug_shows_where(shell: Shell) -> None:
    assert "No such command 'gett'. Did you mean 'get'" in shell.fails("gett", "sales", code=2)
    assert "No such option" in shell.fails("get", "sales", 1, "--formt", "json", code=2)
    unset = Shell(shell.folder, shell.db, {"VIEWKEEPER_DB": ""})
    assert "--db" in unset.fails("status", code=2)
    debugged = shell("--debug", "get", "nosuch", 1)
    assert debugged.code == 1
    assert "Traceback" in debugged.err
    assert 'NotFound: table "nosuch" does not exist' in debugged.err


def test_a_reader_that_leaves_early_is_no_error_to_read_about(shell: Shell) -> None:
    with vk.open(shell.db, durability="off") as db:
        db.table("sales").put([{"id": n, "product": "x" * 200, "price": None} for n in range(5_000)])
    command = f"{shlex.join([*COMMAND, 'scan', 'sales', '-f', 'json'])} | head -1"
    done = subprocess.run(
        ["bash", "-c", command], env=shell.environment(), cwd=shell.folder, capture_output=True, text=True, check=False
    )
    assert json.loads(done.stdout)["id"] == 0
    assert done.stderr == ""
