"""Commands on views: without Spark, with it, and on a terminal. How quickly those answer that need none."""

from __future__ import annotations

import json
import math
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from commands import COMMAND, TIMEOUT, Shell, on_terminal
from support import connect

import viewkeeper as vk
from viewkeeper.maintain.definitions import Summary

TABLES = """
CREATE TABLE sales (id BIGINT PRIMARY KEY, shop STRING, price DECIMAL(10,2), pieces INT);
CREATE TABLE shops (name STRING PRIMARY KEY, city STRING); -- ; is no end in here
"""
VIEWS = """
CREATE MATERIALIZED VIEW revenue AS SELECT shop, SUM(price) AS revenue, COUNT(*) AS n FROM sales GROUP BY shop;
CREATE MATERIALIZED VIEW each AS SELECT id, price / pieces AS piece FROM sales;
CREATE MATERIALIZED VIEW cities REFRESH EVERY 1 SECOND CLUSTER BY (city)
    AS SELECT s.city, s.name, e.id FROM shops s JOIN sales e ON e.shop = s.name;
CREATE MATERIALIZED VIEW bag REFRESH EVERY 1 SECOND AS SELECT shop FROM sales;
"""
SALES = "\n".join(f'{{"id": {n}, "shop": "shop {n % 2}", "price": {n}.5, "pieces": 1}}' for n in range(4))


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    shell = Shell(folder, folder / "shop.vk")
    shell.ok("init")
    (folder / "tables.sql").write_text(TABLES)
    shell.ok("sql", "tables.sql")
    shell.ok("put", "shops", '{"name": "shop 0", "city": "Rome"}', '{"name": "shop 1", "city": "Oslo"}')
    shell.ok("put", "sales", "-", stdin=SALES)
    done = shell.ok("sql", "-", stdin=VIEWS)
    assert (done.out, done.err) == ("", "done\n" * 4), "Spark's own words are nowhere"
    return folder / "shop.vk"


@pytest.fixture
def shop(made: Path, tmp_path: Path) -> Shell:
    """Its own copy."""
    shutil.copytree(made, tmp_path / "shop.vk")
    return Shell(tmp_path, tmp_path / "shop.vk")


def test_what_needs_no_spark(shop: Shell) -> None:
    assert shop.ok("get", "revenue", "shop 1", "-f", "json").rows == [{"shop": "shop 1", "revenue": "5.00", "n": 2}]
    assert (
        shop.ok("find", "cities", "Rome", "-f", "csv").out
        == '"city","name","id"\n"Rome","shop 0",0\n"Rome","shop 0",2\n'
    )
    assert shop.ok("scan", "each", "--limit", 1, "-c", "id", "-f", "json").rows == [{"id": 0}]
    assert shop.ok("explain", "revenue").out.startswith("view revenue: incremental, refreshed on demand\n")
    status = {row["view"]: row for row in shop.ok("status", "-f", "json").rows}
    assert {name: (row["group"], row["rows"], row["waiting"], row["lag"]) for name, row in status.items()} == {
        "revenue": ("on demand", 2, 0, 0), "each": ("on demand", 4, 0, 0), "cities": ("every 1 second", 4, 0, 0),
        "bag": ("every 1 second", 4, 0, 0),
    }  # fmt: skip
    history = shop.ok("history", "revenue", "-f", "json").rows
    assert [(row["view"], row["inserted"]) for row in history] == [("revenue", 2), ("revenue", 0)]
    changes = shop.ok("changes", "revenue", "--since", 0, "-f", "json").rows
    assert sorted((row["weight"], row["shop"]) for row in changes) == [(1, "shop 0"), (1, "shop 1")]
    assert 'error: view "nosuch" does not exist' in shop.fails("explain", "nosuch")
    assert '"revenue" is a view' in shop.fails("put", "revenue", "shop=x")


def test_what_is_kept_of_a_plan_is_what_the_plan_says(shop: Shell) -> None:
    """Readers and `status` go by what is kept with the definition; planning the query again must say the same."""
    with vk.open(shop.db) as db:
        catalog = db._catalog
        assert {catalog.shape(definition).counted for definition in catalog.definitions()} == {True, False}
        for definition in catalog.definitions():
            plan = catalog.plan(definition)
            assert catalog.shape(definition) == plan.shape
            assert catalog.summary(definition) == Summary.of(plan)
        for view in db.views():
            assert view.status().rows == view.scan().num_rows


def test_status_at_a_glance(shop: Shell) -> None:
    shop.ok("put", "sales", "id=9", "shop=shop 1", "price=1", "pieces=1")
    shown = shop.ok("status").out
    assert re.search(r"^refreshed on demand: epoch \d+, \d+ (s|min) ago$", shown, re.MULTILINE)
    assert re.search(r"^refreshed every 1 second: epoch \d+, ", shown, re.MULTILINE)
    assert re.search(
        r"^revenue +2 +1 +\d+\.\d s +\d+ changes in \d+\.\d\d s +incremental +behind$", shown, re.MULTILINE
    )


@pytest.mark.slow
def test_refresh_a_view_that_stops_verify_and_repair(shop: Shell) -> None:
    shop.ok("put", "sales", "id=9", "shop=shop 1", "price=1", "pieces=0")
    failed = shop("refresh", "revenue", "-f", "json")
    assert failed.code == 1
    assert {row["view"]: row["changes"] for row in failed.rows} == {"revenue": 1, "each": 0}, failed
    assert re.fullmatch(r'view "each" stopped: .*DIVIDE_BY_ZERO.* 9.*\n  hint: mend the row or the query\n', failed.err)
    shown = shop.ok("status").out
    assert re.search(r"^each .* stopped$", shown, re.MULTILINE)
    assert 'view "each" stopped: ' in shown
    assert "\n  hint: mend the row or the query, then: viewkeeper refresh each\n" in shown

    _spoil(shop.db, "revenue")
    verified = shop("verify", "revenue", "cities", "-f", "json")
    assert verified.code == 3, verified
    assert [(row["view"], row["verdict"], row["missing"], row["extra"]) for row in verified.rows] == [
        ("revenue", "differs", 2, 2), ("cities", "verified", 0, 0),
    ]  # fmt: skip
    assert 'view "revenue" differs from its query: 2 missing, 2 too many\n' in verified.err
    assert "hint: viewkeeper repair revenue applies the difference" in verified.err
    assert shop.ok("repair", "revenue").err == "repaired revenue: 0 rows in, 2 changed, 0 out\n"
    assert shop.ok("get", "revenue", "shop 1", "-f", "json").rows == [{"shop": "shop 1", "revenue": "6.00", "n": 3}]


def _spoil(db: Path, view: str) -> None:
    """What no command does: other numbers in a view's files."""
    catalog = connect(db / "catalog.db")
    numbers = catalog.query(f"SELECT id FROM tables WHERE name = '{view}'").column(0).to_pylist()
    catalog.close()
    for path in (db / "tables" / str(numbers[0])).glob("region-*.db"):
        region = connect(path)
        columns = region.query("SELECT name FROM pragma_table_info('rows')").column(0).to_pylist()
        region.execute(f"UPDATE rows SET {columns[2]} = {columns[2]} + 1")
        region.close()


def test_refresh_with_nothing_new_starts_no_spark(shop: Shell) -> None:
    without_java = Shell(shop.folder, shop.db, {"JAVA_HOME": str(shop.folder)})
    assert without_java.ok("refresh").err == "nothing had changed\n"
    without_java.ok("put", "shops", "name=new", "city=Rome")
    complaint = without_java.fails("sql", "-c", "SELECT 1")
    assert "Spark said:" in complaint
    assert "java" in complaint


def test_status_is_drawn_again_until_it_is_stopped(shop: Shell) -> None:
    with on_terminal(shop, "status", "--watch", "--every", "0.2") as terminal:
        terminal.wait_for(r"revenue +2 +0 ")
        shop.ok("put", "sales", "id=9", "shop=shop 1", "price=1", "pieces=1")
        terminal.wait_for(r"revenue +2 +1 +\d+\.\d s")
        terminal.interrupt()
        assert terminal.end() == 0, terminal.text
    assert "\x1b[1A" in terminal.raw, "it is drawn in place"


@pytest.mark.slow
def test_the_prompt(shop: Shell) -> None:
    with on_terminal(shop, "sql") as terminal:
        end = terminal.wait_for("sql> ")
        terminal.type("SELECT shop, n\nFROM revenue WHERE shop <> ';' ORDER BY 1;\n")
        end = terminal.wait_for(r"shop 0 +2\s+shop 1 +2\s+sql> ", end)
        terminal.type("SELECT nosuch FROM revenue;\n")
        end = terminal.wait_for(r"error: .*nosuch.*", end)
        end = terminal.wait_for("sql> ", end)
        terminal.type("SELECT 1 / 0;\n")
        end = terminal.wait_for(r"error: the query fails: \[DIVIDE_BY_ZERO\]", end)
        end = terminal.wait_for("sql> ", end)
        terminal.type("CREATE TABLE more (id INT PRIMARY KEY);\n")
        end = terminal.wait_for(r"done\s+sql> ", end)
        terminal.type("\x1b[A\n")
        end = terminal.wait_for(r'error: .*"more"', end)
        end = terminal.wait_for("sql> ", end)
        terminal.type(
            "CREATE MATERIALIZED VIEW loud REFRESH IMMEDIATE AS SELECT name, upper(city) AS city FROM shops;\n"
        )
        terminal.wait_for(r"done\s+sql> ", end)
        terminal.type("exit\n")
        assert terminal.end() == 0, terminal.text
    assert "WARN" not in terminal.text
    assert "CREATE TABLE more" in (shop.folder / ".viewkeeper_history").read_text()
    shop.ok("put", "shops", "name=new", "city=Bonn")
    assert shop.ok("get", "loud", "new", "-f", "json").rows == [{"name": "new", "city": "BONN"}], (
        "a write took it along"
    )


@pytest.mark.slow
def test_run_keeps_views_fresh_and_stops_cleanly(shop: Shell) -> None:
    shop.ok("put", "sales", "id=9", "shop=shop 1", "price=1", "pieces=1")
    command = [*COMMAND, "run", "--log-format", "json"]
    child = subprocess.Popen(command, env=shop.environment(), cwd=shop.folder, stderr=subprocess.PIPE, text=True)
    try:
        assert child.stderr is not None
        events = (json.loads(line) for line in child.stderr)
        epoch = next(event for event in events if event["event"] == "epoch")
        assert epoch["group"] == "every 1 second"
        child.send_signal(signal.SIGINT)
        assert [event["event"] for event in events][-1] == "ended"
        assert child.wait(timeout=TIMEOUT) == 0
    finally:
        child.kill()
        child.communicate()
    assert shop.ok("find", "cities", "Oslo", "-f", "json").rows[-1]["id"] == 9


# How quickly


QUICK = [
    ["init"],
    ["put", "shops", "name=x", "city=Rome"],
    ["get", "sales", "1"],
    ["get", "revenue", "shop 1"],
    ["find", "cities", "Rome"],
    ["scan", "sales"],
    ["delete", "shops", "x"],
    ["status"],
    ["history"],
    ["changes", "revenue", "--since", "0"],
]


def _imported(shell: Shell, arguments: Sequence[str]) -> set[str]:
    """The packages of which a command imports modules, as Python itself tells. (It also tells of those it did not find.)"""
    command = [sys.executable, "-X", "importtime", "-m", "viewkeeper", *arguments]
    done = subprocess.run(
        command, env=shell.environment(), cwd=shell.folder, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(re.findall(r"^import time:.*\| +(\w+)\.\S+$", done.stderr, re.MULTILINE))


@pytest.mark.parametrize("arguments", [*QUICK, ["explain", "revenue"], ["get", "--help"]], ids=" ".join)
def test_a_command_does_not_wait_for_what_it_does_not_need(shop: Shell, arguments: list[str]) -> None:
    imported = _imported(shop, arguments)
    assert {"viewkeeper", "typer"} <= imported, "what is looked at is what was imported"
    assert imported.isdisjoint({"pyspark", "py4j", "pandas"})
    if arguments[0] != "explain":
        assert "sqlglot" not in imported
    if arguments[-1] == "--help":
        assert imported.isdisjoint({"pyarrow", "numpy", "rich"})


def test_a_quick_command_costs_little_more_than_its_libraries(shop: Shell) -> None:
    """Processor time beside that of the imports nobody can avoid, in turns, the least of three or, on a busy machine, of more."""
    libraries = "import pyarrow.compute, typer, rich.table, adbc_driver_manager, adbc_driver_sqlite"
    commands = {
        "libraries": [sys.executable, "-c", libraries],
        **{
            " ".join(quick): [*COMMAND, *quick]
            for quick in (["get", "sales", "1"], ["find", "cities", "Rome"], ["status"])
        },
    }
    least = dict.fromkeys(commands, math.inf)
    for turn in range(15):
        least = {name: min(least[name], _seconds(shop, command)) for name, command in commands.items()}
        if turn >= 2 and max(least.values()) < 2.5 * least["libraries"]:
            return
    pytest.fail(f"processor seconds: {least}")


def _seconds(shell: Shell, command: list[str]) -> float:
    """Of the processor. What Python compiles is kept for the next time."""
    environment = {
        **shell.environment(),
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONPYCACHEPREFIX": str(shell.folder / "cache"),
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, cwd=shell.folder, capture_output=True, timeout=TIMEOUT, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
