"""The market place: its tables, its first rows, and the views of its dashboard."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import viewkeeper as vk

CATEGORIES = ("books", "films", "games", "garden", "kitchen", "music", "shoes", "toys")
WATCHED = "books"
"""The category whose revenue is shown while the changes stream."""

PRODUCTS = 2_000
SHOPS = 40
QUIET_SHOPS = 7
"""The last shops, which sell nothing at first."""

WAKING_SHOPS = 4
"""Those of them that make a first sale while the changes stream, one after the other. The others stay quiet."""

TABLES = (
    "CREATE TABLE categories (id INT PRIMARY KEY, name STRING)",
    "CREATE TABLE shops (id INT PRIMARY KEY, name STRING)",
    "CREATE TABLE products (id INT PRIMARY KEY, category INT, name STRING)",
    "CREATE TABLE events (id BIGINT PRIMARY KEY, product INT, shop INT, kind STRING, amount DECIMAL(10,2))",
)


@dataclass(frozen=True)
class Wanted:
    """A view of the dashboard."""

    name: str
    shows: str
    query: str
    cluster_by: tuple[str, ...] = ()


VIEWS = (
    Wanted(
        "revenue",
        "a sum over a join of four tables",
        "SELECT c.name AS category, s.name AS shop, SUM(e.amount) AS revenue, COUNT(*) AS sales "
        "FROM events e JOIN products p ON e.product = p.id JOIN categories c ON p.category = c.id "
        "JOIN shops s ON e.shop = s.id WHERE e.kind = 'sale' GROUP BY c.name, s.name",
    ),
    Wanted(
        "by_category",
        "a view on that view",
        "SELECT category, SUM(revenue) AS revenue, SUM(sales) AS sales FROM revenue GROUP BY category",
    ),
    Wanted(
        "price_range",
        "cheapest and dearest sale of a product",
        "SELECT product, MIN(amount) AS cheapest, MAX(amount) AS dearest FROM events WHERE kind = 'sale' GROUP BY product",
    ),
    Wanted(
        "events_by_shop",
        "an index: events arranged by shop",
        "SELECT shop, id, product, kind, amount FROM events",
        ("shop",),
    ),
    Wanted(
        "shop_sales",
        "sales of each shop",
        "SELECT shop, COUNT(*) AS sales, SUM(amount) AS revenue FROM events WHERE kind = 'sale' GROUP BY shop",
    ),
    Wanted(
        "quiet_shops",
        "a left join: shops without a sale",
        "SELECT s.id, s.name FROM shops s LEFT JOIN shop_sales t ON t.shop = s.id WHERE t.shop IS NULL",
    ),
    Wanted(
        "ranking",
        "a window function: no delta rule, so evaluated again",
        "SELECT category, revenue, rank() OVER (ORDER BY revenue DESC) AS place FROM by_category",
    ),
)


def load(db: vk.Database, events: int) -> None:
    """Make the tables and fill them, with so many events."""
    for statement in TABLES:
        db.execute(statement)
    rng = np.random.default_rng(1)
    db.table("categories").put([{"id": number, "name": name} for number, name in enumerate(CATEGORIES)])
    db.table("shops").put([{"id": number, "name": f"shop {number}"} for number in range(SHOPS)])
    categories = pa.array(rng.integers(len(CATEGORIES), size=PRODUCTS), pa.int32())
    numbers = pa.array(range(PRODUCTS), pa.int32())
    names = [f"product {number}" for number in range(PRODUCTS)]
    db.table("products").put(pa.table({"id": numbers, "category": categories, "name": names}))
    db.table("events").put(new_events(rng, 0, events, SHOPS - QUIET_SHOPS))


def new_events(rng: np.random.Generator, first: int, count: int, shops: int) -> pa.Table:
    """Events numbered from `first` on, of the first so many shops. Three in ten are sales."""
    return pa.table(
        {
            "id": pa.array(range(first, first + count), pa.int64()),
            "product": pa.array(rng.integers(PRODUCTS, size=count), pa.int32()),
            "shop": pa.array(rng.integers(shops, size=count), pa.int32()),
            "kind": np.where(rng.random(count) < 0.3, "sale", "view"),
            "amount": amounts(rng, count),
        }
    )


def amounts(rng: np.random.Generator, count: int) -> pa.Array:
    """Prices from 1.00 to 99.99."""
    cents = pa.array(rng.integers(100, 10_000, count)).cast(pa.decimal128(19, 0))
    return pc.multiply(cents, pa.scalar(Decimal("0.01"))).cast(pa.decimal128(10, 2))
