"""The worked examples of the papers behind this project, as data: the tables before, the change, the tables after.

From "Materialized views with Apache Spark": four kinds of change (a row comes, a value changes, a key changes, a row
goes) under an aggregation, a join with an aggregation, and a join with a selection. From "Dynamic Scalable View
Maintenance in KV-stores": one put that travels through a whole composition of views. From "Aggregate Queries in NoSQL
Cloud Data Stores": the change table of a sum over a join, and the group that disappears with its last row.

Expected tables are written out; beside that each view must equal its query evaluated from scratch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import viewkeeper as vk
from viewkeeper.store.contract import Kind

Rows = set[tuple[Any, ...]]
Change = Callable[[vk.Database], None]


def rows_of(db: vk.Database, view: str) -> Rows:
    """A view without duplicates as a set of tuples; the oracle agrees."""
    verified = db.verify(view)
    assert verified.equal, verified
    found = [tuple(row.values()) for row in db.view(view).scan().to_pylist()]
    assert len(set(found)) == len(found)
    return set(found)


def changes_of(db: vk.Database, view: str, since: int) -> set[tuple[Any, ...]]:
    """What left (-1) and came (1) after an epoch."""
    table = db.view(view).changes(since=since).drop_columns(["epoch"])
    return {tuple(row.values()) for row in table.to_pylist()}


def put(table: str, *rows: dict[str, Any]) -> Change:
    return lambda db: db.table(table).put(list(rows))


def delete(table: str, key: Any) -> Change:
    return lambda db: db.table(table).delete(key)


# Aggregation: the value's sum, count, least and greatest by key


PAIRS = [(1, "A", 10), (2, "A", 20), (3, "B", 20), (4, "B", 40), (5, "C", 60)]
SUMMARY = {("A", 30, 2, 10, 20), ("B", 60, 2, 20, 40), ("C", 60, 1, 60, 60)}


@pytest.mark.parametrize(
    ("change", "expected", "did"),
    [
        pytest.param(
            put("pairs", {"id": 6, "k": "D", "v": 30}), SUMMARY | {("D", 30, 1, 30, 30)}, (1, 0, 0), id="row comes"
        ),
        pytest.param(
            put("pairs", {"id": 2, "k": "A", "v": 50}),
            {("A", 60, 2, 10, 50), ("B", 60, 2, 20, 40), ("C", 60, 1, 60, 60)},
            (0, 1, 0),
            id="value changes",
        ),
        pytest.param(
            put("pairs", {"id": 2, "k": "B", "v": 20}),
            {("A", 10, 1, 10, 10), ("B", 80, 3, 20, 40), ("C", 60, 1, 60, 60)},
            (0, 2, 0),
            id="key changes",
        ),
        pytest.param(delete("pairs", 5), {("A", 30, 2, 10, 20), ("B", 60, 2, 20, 40)}, (0, 0, 1), id="row goes"),
    ],
)
def test_aggregation(db: vk.Database, change: Change, expected: Rows, did: tuple[int, int, int]) -> None:
    db.execute("CREATE TABLE pairs (id BIGINT PRIMARY KEY, k STRING, v BIGINT)")
    put("pairs", *({"id": i, "k": k, "v": v} for i, k, v in PAIRS))(db)
    db.create_view("summary", "SELECT k, SUM(v) s, COUNT(v) c, MIN(v) lo, MAX(v) hi FROM pairs GROUP BY k")
    assert rows_of(db, "summary") == SUMMARY
    change(db)
    report = db.refresh().views["summary"]
    assert rows_of(db, "summary") == expected
    assert (report.inserted, report.updated, report.deleted) == did


# Joins: two tables by a key that several rows of each may have


LEFT = [("a1", "A", 10), ("a2", "B", 20), ("a3", "C", 30), ("a4", "D", 40)]
RIGHT = [("b1", "A", 10), ("b2", "A", 20), ("b3", "B", 30), ("b4", "B", 40), ("b5", "E", 50)]
JOINED = {("a1", "b1", 10, 10), ("a1", "b2", 10, 20), ("a2", "b3", 20, 30), ("a2", "b4", 20, 40)}

JOIN_CHANGES = [
    pytest.param(
        put("a", {"id": "a5", "k": "E", "v": 30}),
        JOINED | {("a5", "b5", 30, 50)},
        {("A", 50), ("B", 110), ("E", 80)},
        id="row comes",
    ),
    pytest.param(
        put("a", {"id": "a1", "k": "A", "v": 15}),
        {("a1", "b1", 15, 10), ("a1", "b2", 15, 20), ("a2", "b3", 20, 30), ("a2", "b4", 20, 40)},
        {("A", 60), ("B", 110)},
        id="value changes",
    ),
    pytest.param(
        put("a", {"id": "a2", "k": "E", "v": 20}),
        {("a1", "b1", 10, 10), ("a1", "b2", 10, 20), ("a2", "b5", 20, 50)},
        {("A", 50), ("E", 70)},
        id="key changes",
    ),
    pytest.param(
        delete("b", "b4"),
        {("a1", "b1", 10, 10), ("a1", "b2", 10, 20), ("a2", "b3", 20, 30)},
        {("A", 50), ("B", 50)},
        id="row goes",
    ),
]
"""The first is drawn in the thesis; for the other three it refers to the tables of the aggregation."""


def two_tables(db: vk.Database) -> None:
    for name, rows in (("a", LEFT), ("b", RIGHT)):
        db.execute(f"CREATE TABLE {name} (id STRING PRIMARY KEY, k STRING, v BIGINT)")
        put(name, *({"id": i, "k": k, "v": v} for i, k, v in rows))(db)


@pytest.mark.parametrize(("change", "joined", "by_key"), JOIN_CHANGES)
def test_join_and_aggregation(db: vk.Database, change: Change, joined: Rows, by_key: Rows) -> None:
    """The thesis adds the two values of each pair; the same sum by key has more than one pair in a group."""
    two_tables(db)
    joined_sum = "SUM(a.v + b.v) AS total FROM a JOIN b ON a.k = b.k"
    db.create_view("by_pair", f"SELECT a.id AS a, b.id AS b, {joined_sum} GROUP BY a.id, b.id")
    db.create_view("by_key", f"SELECT a.k, {joined_sum} GROUP BY a.k")
    assert rows_of(db, "by_pair") == {("a1", "b1", 20), ("a1", "b2", 30), ("a2", "b3", 50), ("a2", "b4", 60)}
    assert rows_of(db, "by_key") == {("A", 50), ("B", 110)}
    change(db)
    db.refresh()
    assert rows_of(db, "by_pair") == {(a, b, v + w) for a, b, v, w in joined}
    assert rows_of(db, "by_key") == by_key


@pytest.mark.parametrize(("change", "joined", "by_key"), JOIN_CHANGES)
def test_join_and_selection(db: vk.Database, change: Change, joined: Rows, by_key: Rows) -> None:
    two_tables(db)
    db.create_view("pairs", "SELECT a.id AS a, b.id AS b, a.v, b.v AS w FROM a JOIN b ON a.k = b.k")
    assert rows_of(db, "pairs") == JOINED
    change(db)
    db.refresh()
    assert rows_of(db, "pairs") == joined


# One put through a composition


COMPOSED = {
    "selection": "SELECT rk, c1, c2 FROM a WHERE c2 >= 30",
    "projection": "SELECT rk, c2 FROM a",
    "by_c1": "SELECT c1, rk, c2 FROM a",
    "counted": "SELECT c1, COUNT(*) AS n FROM a GROUP BY c1",
    "summed": "SELECT c1, SUM(c2) AS s FROM a GROUP BY c1",
    "least": "SELECT c1, MIN(c2) AS lo FROM a GROUP BY c1",
    "greatest": "SELECT c1, MAX(c2) AS hi FROM a GROUP BY c1",
    "joined": "SELECT a.rk AS a, b.rk AS b, a.c2 AS x, b.c2 AS y FROM a JOIN b ON a.c1 = b.c1",
    "of_the_join": "SELECT b, SUM(x) AS s FROM joined GROUP BY b",
}

BEFORE: dict[str, Rows] = {
    "selection": {("k3", "x2", 50), ("k4", "x2", 30)},
    "projection": {("k1", 20), ("k2", 15), ("k3", 50), ("k4", 30)},
    "by_c1": {("x1", "k1", 20), ("x1", "k2", 15), ("x2", "k3", 50), ("x2", "k4", 30)},
    "counted": {("x1", 2), ("x2", 2)},
    "summed": {("x1", 35), ("x2", 80)},
    "least": {("x1", 15), ("x2", 30)},
    "greatest": {("x1", 20), ("x2", 50)},
    "joined": {
        ("k1", "l1", 20, 7),
        ("k2", "l1", 15, 7),
        ("k3", "l2", 50, 8),
        ("k4", "l2", 30, 8),
        ("k3", "l3", 50, 9),
        ("k4", "l3", 30, 9),
    },
    "of_the_join": {("l1", 35), ("l2", 80), ("l3", 80)},
}

DELTAS: dict[str, Rows] = {
    "selection": {(-1, "k3", "x2", 50)},
    "projection": {(-1, "k3", 50), (1, "k3", 10)},
    "by_c1": {(-1, "x2", "k3", 50), (1, "x2", "k3", 10)},
    "counted": set(),
    "summed": {(-1, "x2", 80), (1, "x2", 40)},
    "least": {(-1, "x2", 30), (1, "x2", 10)},
    "greatest": {(-1, "x2", 50), (1, "x2", 30)},
    "joined": {
        (-1, "k3", "l2", 50, 8),
        (1, "k3", "l2", 10, 8),
        (-1, "k3", "l3", 50, 9),
        (1, "k3", "l3", 10, 9),
    },
    "of_the_join": {(-1, "l2", 80), (1, "l2", 40), (-1, "l3", 80), (1, "l3", 40)},
}


def test_a_put_travels_through_every_view(db: vk.Database) -> None:
    """A.k3 goes from 50 to 10 in group x2. Each view changes in the rows that it must, and in no others.

    The paper's auxiliary views are hidden here: DELTA is the log, PRE-AGGREGATION the value index of MIN and MAX,
    REVERSE-JOIN the index by the join column, and INDEX a view in clustered order.
    """
    for name in ("a", "b"):
        db.execute(f"CREATE TABLE {name} (rk STRING PRIMARY KEY, c1 STRING, c2 BIGINT)")
    for table, rows in (
        ("a", [("k1", "x1", 20), ("k2", "x1", 15), ("k3", "x2", 50), ("k4", "x2", 30)]),
        ("b", [("l1", "x1", 7), ("l2", "x2", 8), ("l3", "x2", 9)]),
    ):
        put(table, *({"rk": rk, "c1": c1, "c2": c2} for rk, c1, c2 in rows))(db)
    for name, query in COMPOSED.items():
        db.create_view(name, query, cluster_by="c1" if name == "by_c1" else ())
    assert {name: rows_of(db, name) for name in COMPOSED} == BEFORE
    since = db.view("joined").status().epoch

    put("a", {"rk": "k3", "c1": "x2", "c2": 10})(db)
    db.refresh()

    assert {name: changes_of(db, name, since) for name in COMPOSED} == DELTAS
    for name, before in BEFORE.items():
        left = {row[1:] for row in DELTAS[name] if row[0] < 0}
        came = {row[1:] for row in DELTAS[name] if row[0] > 0}
        assert rows_of(db, name) == (before - left) | came, name
    assert db.view("by_c1").find("x2").to_pydict() == {"c1": ["x2", "x2"], "rk": ["k3", "k4"], "c2": [10, 30]}


# Change tables


def test_the_change_table_of_a_sum_over_a_join(db: vk.Database) -> None:
    """Cost by category: three events in category 5, one each in 8 and 17; then three events come and one goes.

    The change of the view is the change of its groups: one grows, one appears, and 17 goes with its only event.
    """
    db.execute("CREATE TABLE events (id BIGINT PRIMARY KEY, prod BIGINT, cost BIGINT)")
    db.execute("CREATE TABLE products (prod BIGINT PRIMARY KEY, cat BIGINT)")
    put("products", *({"prod": p, "cat": c} for p, c in [(1, 5), (2, 5), (3, 8), (4, 17), (5, 21)]))(db)
    put("events", *_events((1, 1, 10), (2, 2, 20), (3, 1, 30), (4, 3, 40), (5, 4, 50)))(db)
    db.create_view(
        "cost_cat", "SELECT SUM(cost) AS cost, cat FROM events e, products p WHERE e.prod = p.prod GROUP BY cat"
    )
    assert rows_of(db, "cost_cat") == {(60, 5), (40, 8), (50, 17)}
    assert _counts(db, "cost_cat") == {5: 3, 8: 1, 17: 1}
    since = db.view("cost_cat").status().epoch

    with db.transaction() as tx:
        tx.table("events").put(_events((6, 2, 5), (7, 2, 6), (8, 5, 7)))
        tx.table("events").delete(5)
    report = db.refresh().views["cost_cat"]

    assert rows_of(db, "cost_cat") == {(71, 5), (40, 8), (7, 21)}
    assert _counts(db, "cost_cat") == {5: 5, 8: 1, 21: 1}
    assert changes_of(db, "cost_cat", since) == {(-1, 60, 5), (1, 71, 5), (-1, 50, 17), (1, 7, 21)}
    assert (report.changes, report.inserted, report.updated, report.deleted) == (4, 1, 1, 1)


def _events(*events: tuple[int, int, int]) -> list[dict[str, int]]:
    return [{"id": i, "prod": prod, "cost": cost} for i, prod, cost in events]


def _counts(db: vk.Database, view: str) -> dict[int, int]:
    """The hidden number of rows behind each group: the thesis' `_count`."""
    found = db._store.scan(view, columns=["cat", "_vk_count"])
    return dict(zip(found["cat"].to_pylist(), found["_vk_count"].to_pylist(), strict=True))


def test_a_group_without_rows_disappears(db: vk.Database) -> None:
    """Three sales in two categories; one comes and two go in one transaction. Category A has nothing left.

    A sum of zero is not a group of nothing: B's prices cancel out, and its row stays.
    """
    db.execute("CREATE TABLE sales (product STRING PRIMARY KEY, category STRING, price BIGINT)")
    put("sales", *_sales(("apple", "A", 20), ("bread", "B", 5), ("beans", "B", 15)))(db)
    db.create_view("v", "SELECT category, SUM(price) AS price FROM sales GROUP BY category")
    assert rows_of(db, "v") == {("A", 20), ("B", 20)}

    with db.transaction() as tx:
        tx.table("sales").put(_sales(("refund", "B", -5)))
        tx.table("sales").delete(["apple", "beans"])
    db.refresh()
    assert rows_of(db, "v") == {("B", 0)}

    db.table("sales").delete(["bread", "refund"])
    db.refresh()
    assert rows_of(db, "v") == set()
    put("sales", *_sales(("pear", "A", 3)))(db)
    db.refresh()
    assert rows_of(db, "v") == {("A", 3)}


def _sales(*sales: tuple[str, str, int]) -> list[dict[str, Any]]:
    return [{"product": product, "category": category, "price": price} for product, category, price in sales]


def test_one_index_feeds_join_and_reverse_join(db: vk.Database) -> None:
    """What the paper calls a reverse join: each table arranged by the join column, once for all views that need it."""
    two_tables(db)
    db.create_view("pairs", "SELECT a.id AS a, b.id AS b FROM a JOIN b ON a.k = b.k")
    db.create_view("left_pairs", "SELECT a.id AS a, b.id AS b FROM a LEFT JOIN b ON a.k = b.k")
    hidden = [spec for spec in db._store.tables() if spec.kind is Kind.INDEX]
    assert sorted(spec.key for spec in hidden) == [("k", "id"), ("k", "id")]
    put("b", {"id": "b6", "k": "C", "v": 1})(db)
    db.refresh()
    assert rows_of(db, "pairs") == {(a, b) for a, b, _, _ in JOINED} | {("a3", "b6")}
    assert rows_of(db, "left_pairs") == {(a, b) for a, b, _, _ in JOINED} | {("a3", "b6"), ("a4", None)}
