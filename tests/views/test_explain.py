"""`explain` prints what the golden files say; and it starts no Spark, as nothing does that only reads or writes rows.

`VIEWKEEPER_GOLDENS=write` writes the files anew. Read what changed before you keep it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support import ended, start

import viewkeeper as vk

GOLDENS = Path(__file__).with_name("goldens")
WRITE = os.environ.get("VIEWKEEPER_GOLDENS") == "write"

TABLES = (
    "CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT, product STRING, amount BIGINT, price DECIMAL(10,2))",
    "CREATE TABLE customers (id BIGINT PRIMARY KEY, name STRING, city STRING)",
    "CREATE TABLE products (name STRING PRIMARY KEY, category STRING)",
    "CREATE TABLE cities (city STRING PRIMARY KEY, country STRING)",
)

VIEWS = {
    "selection": "SELECT * FROM orders WHERE amount > 10 AND product IS NOT NULL",
    "projection": "SELECT product, upper(product) AS shouted FROM orders",
    "clustered": "SELECT city, id, name FROM customers",
    "sum_count": "SELECT product, SUM(price) AS total, COUNT(*) AS n, AVG(amount) AS mean FROM orders GROUP BY product",
    "min_max": "SELECT product, MIN(price) AS low, MAX(price) AS high, COUNT(DISTINCT customer) AS customers FROM orders "
    "GROUP BY product",
    "whole": "SELECT COUNT(*) AS n, MAX(price) AS most FROM orders",
    "join_by_key": "SELECT o.id, c.name, o.amount FROM orders o JOIN customers c ON o.customer = c.id",
    "join_by_index": "SELECT c.id, o.id AS order_id FROM customers c JOIN orders o ON o.product = c.name",
    "self_join": "SELECT a.id, b.id AS other FROM customers a JOIN customers b ON a.city = b.city AND a.id < b.id",
    "cross_join": "SELECT c.id, t.city FROM customers c CROSS JOIN cities t",
    "left_join": "SELECT c.id, o.id AS order_id FROM customers c LEFT JOIN orders o ON o.customer = c.id",
    "full_join": "SELECT c.id, c.name, t.country FROM customers c FULL JOIN cities t ON c.city = t.city",
    "outer_inside": "SELECT t.country, o.id FROM cities t LEFT JOIN customers c ON c.city = t.city "
    "JOIN orders o ON o.customer = c.id",
    "three_way": "SELECT t.country, SUM(o.price) AS total FROM orders o JOIN customers c ON o.customer = c.id "
    "JOIN cities t ON c.city = t.city WHERE o.amount > 1 GROUP BY t.country",
    "having_sum": "SELECT product, SUM(amount) AS n FROM orders GROUP BY product HAVING SUM(amount) > 100",
    "nested": "SELECT n, COUNT(*) AS products FROM (SELECT product, COUNT(*) AS n FROM orders GROUP BY product) GROUP BY n",
    "computed": "SELECT product, SUM(amount) / COUNT(*) AS share FROM orders GROUP BY product, customer",
    "union_all": "SELECT product AS name FROM orders UNION ALL SELECT name FROM products",
    "distinct_rows": "SELECT DISTINCT city FROM customers",
    "stacked": "SELECT COUNT(*) AS n FROM sum_count WHERE n > 1",
    "windowed": "SELECT id, row_number() OVER (PARTITION BY product ORDER BY id) AS place FROM orders",
}
"""`orders by customer` and `customers by city` are each shared by several of them."""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    folder = tmp_path_factory.mktemp("explain") / "shop.vk"
    with vk.open(folder, spark=spark, durability="off") as db:
        for table in TABLES:
            db.execute(table)
        db.table("orders").put({"id": 1, "customer": 7, "product": "book", "amount": 2, "price": "9.90"})
        for name, query in VIEWS.items():
            db.create_view(name, query, cluster_by="city" if name == "clustered" else ())
        db.create_view("by_policy", VIEWS["selection"], policy="full", refresh="every 2 seconds")
    return folder


def golden(name: str) -> str:
    """The expected text of a view's plan. One that records a failure is refused: nobody asked for it."""
    text = (GOLDENS / f"{name}.txt").read_text()
    found = re.search(r"Traceback|\w*Error\b|\w*Exception\b|\bhint:|cannot ", text)
    assert found is None, f"golden {name} records a failure: {found}"
    return text


@pytest.mark.parametrize("name", [*VIEWS, "by_policy"])
def test_explain_prints_the_golden_text(name: str, shop: Path) -> None:
    with vk.open(shop, durability="off") as db:
        text = db.explain(name) + "\n"
    if WRITE:
        (GOLDENS / f"{name}.txt").write_text(text)
    assert text == golden(name)


def test_every_golden_has_its_view() -> None:
    assert {path.stem for path in GOLDENS.glob("*.txt")} == {*VIEWS, "by_policy"}


@pytest.mark.parametrize("text", ["Traceback (most recent call last):", "NotFound: x\n  hint: y", "AnalysisException"])
def test_a_golden_that_records_a_failure_is_refused(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bad.txt").write_text(text)
    monkeypatch.setattr("test_explain.GOLDENS", tmp_path)
    with pytest.raises(AssertionError, match="records a failure"):
        golden("bad")


PAGES = sorted((Path(__file__).parents[2] / "docs" / "operators").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_plans_in_the_documents_are_golden(page: Path) -> None:
    plans = re.findall(r"```text\n(view .*?)```", page.read_text(), re.DOTALL)
    assert plans, "a page about an operator shows a plan"
    for plan in plans:
        name = plan.partition(":")[0].removeprefix("view ")
        assert plan == golden(name)


def test_every_index_of_a_plan_says_who_shares_it(shop: Path) -> None:
    """What `explain` prints of sharing is symmetric: each of the views that share an index names the others."""
    with vk.open(shop, durability="off") as db:
        lines = {name: [line for line in db.explain(name).splitlines() if "  index of" in line] for name in VIEWS}
    users: dict[str, set[str]] = {}
    named: dict[str, list[set[str]]] = {}
    for name, found in lines.items():
        for line in found:
            index, _, others = line.strip().partition(", shared with ")
            users.setdefault(index, set()).add(name)
            named.setdefault(index, []).append({name, *(others.split(", ") if others else ())})
    assert users["index of orders by customer"] == {"join_by_key", "left_join", "outer_inside", "three_way"}
    assert all(one == users[index] for index, every in named.items() for one in every)


def test_reading_and_writing_start_no_spark(shop: Path) -> None:
    """In a process that only reads, writes and asks, PySpark is not even imported."""
    code, said, complaint = ended(start(Path(__file__).with_name("quiet_child.py"), shop))
    assert (code, said) == (0, ["quiet"]), complaint
