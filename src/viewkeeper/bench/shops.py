"""Two shops whose transactions are counted: the dashboard of events, and the order mix of a web shop.

Each is a database with an aggregate view over a join, and one kind of transaction that a client repeats. Whoever made the
view decides when it follows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

import viewkeeper as vk


class Shop(Protocol):
    """What an experiment needs of one."""

    db: vk.Database
    query: str

    def transact(self) -> int:
        """One transaction; how many rows it wrote."""

    def close(self) -> None:
        """Let go of the files."""


class Dashboard:
    """Revenue by category and shop over four tables; a transaction changes the cost of some of the same few events."""

    EVENTS, PRODUCTS, CATEGORIES, SHOPS = 5_000, 5_000, 20, 50
    HOT = 150
    query = (
        "SELECT c.name AS category, s.name AS shop, SUM(e.cost) AS revenue, COUNT(*) AS n FROM events e "
        "JOIN products p ON e.product = p.id JOIN categories c ON p.category = c.id JOIN shops s ON e.shop = s.id "
        "GROUP BY c.name, s.name"
    )

    def __init__(self, folder: Path, seed: int, rows: int = 10) -> None:
        self.db = vk.open(folder)
        self.rows = rows
        self._rng = np.random.default_rng(seed)
        self.db.execute("CREATE TABLE categories (id BIGINT PRIMARY KEY, name STRING)")
        self.db.execute("CREATE TABLE shops (id BIGINT PRIMARY KEY, name STRING)")
        self.db.execute("CREATE TABLE products (id BIGINT PRIMARY KEY, category BIGINT)")
        self.db.execute("CREATE TABLE events (id BIGINT PRIMARY KEY, product BIGINT, shop BIGINT, cost BIGINT)")
        for name, count in (("categories", self.CATEGORIES), ("shops", self.SHOPS)):
            self.db.table(name).put([{"id": number, "name": f"{name} {number}"} for number in range(count)])
        products = np.arange(self.PRODUCTS)
        self.db.table("products").put(pa.table({"id": products, "category": products % self.CATEGORIES}))
        self._write(np.arange(self.EVENTS))

    def transact(self) -> int:
        self._write(np.sort(self._rng.choice(self.HOT, self.rows, replace=False)))
        return self.rows

    def _write(self, events: Any) -> None:
        """An event stays where it was sold."""
        costs = self._rng.integers(1, 10_000, len(events))
        shown = {"id": events, "product": events * 7 % self.PRODUCTS, "shop": events % self.SHOPS, "cost": costs}
        with self.db.transaction() as transaction:
            transaction.table("events").put(pa.table(shown))

    def close(self) -> None:
        self.db.close()


class Orders:
    """Items and customers in TPC-W's numbers; a transaction places an order of some lines and takes them from the stock."""

    ITEMS, CUSTOMERS = 12_000, 100_000
    LINES = 3
    query = (
        "SELECT l.customer, SUM(l.quantity * i.cost) AS spent, COUNT(*) AS n FROM order_lines l "
        "JOIN items i ON l.item = i.id GROUP BY l.customer"
    )

    def __init__(self, folder: Path, seed: int) -> None:
        self.db = vk.open(folder)
        self._rng = np.random.default_rng(seed)
        self._orders = 0
        self.db.execute("CREATE TABLE items (id BIGINT PRIMARY KEY, cost BIGINT)")
        self.db.execute("CREATE TABLE stock (item BIGINT PRIMARY KEY, pieces BIGINT)")
        self.db.execute("CREATE TABLE customers (id BIGINT PRIMARY KEY, orders BIGINT)")
        self.db.execute(
            "CREATE TABLE order_lines (id BIGINT, line BIGINT, customer BIGINT, item BIGINT, quantity BIGINT,"
            " PRIMARY KEY (id, line))"
        )
        items, customers = np.arange(self.ITEMS), np.arange(self.CUSTOMERS)
        self.db.table("items").put(pa.table({"id": items, "cost": self._rng.integers(100, 10_000, self.ITEMS)}))
        self.db.table("stock").put(pa.table({"item": items, "pieces": np.full(self.ITEMS, 1_000_000)}))
        self.db.table("customers").put(pa.table({"id": customers, "orders": np.zeros(self.CUSTOMERS, np.int64)}))

    def transact(self) -> int:
        """Reads what it changes, as a shop does."""
        customer = int(self._rng.integers(0, self.CUSTOMERS))
        items = [int(item) for item in self._rng.choice(self.ITEMS, self.LINES, replace=False)]
        self._orders += 1
        with self.db.transaction() as transaction:
            stock, customers = transaction.table("stock"), transaction.table("customers")
            for line, item in enumerate(items):
                quantity = 1 + line
                row = {"id": self._orders, "line": line, "customer": customer, "item": item, "quantity": quantity}
                transaction.table("order_lines").put(row)
                there = stock.get(item)
                assert there is not None
                stock.put({"item": item, "pieces": there["pieces"] - quantity})
            known = customers.get(customer)
            assert known is not None
            customers.put({"id": customer, "orders": known["orders"] + 1})
        return 2 * self.LINES + 1

    def close(self) -> None:
        self.db.close()
