"""A process that does to an existing database with views everything that needs no Spark, and says so if none came."""

from __future__ import annotations

import sys

import viewkeeper as vk


def main(folder: str) -> None:
    with vk.open(folder, durability="off") as db:
        for view in db.views():
            assert db.explain(view.name)
            assert view.status().name == view.name
            view.scan()
            view.changes(since=0)
        assert db.view("sum_count").get("book") == {"product": "book", "total": _price(db), "n": 1, "mean": 2.0}
        assert db.view("clustered").find("Rome").num_rows == 0
        assert len(db.status()) == len(db.views())
        assert db.history("sum_count")
        db.table("orders").put({"id": 2, "customer": 7, "product": "pen", "amount": 1, "price": "1.00"})
        assert db.view("sum_count").status().waiting == 1
        db.table("orders").delete(2)
        with db.transaction() as tx:
            tx.table("cities").put({"city": "Rome", "country": "Italy"})
        with db.snapshot() as at:
            assert at.view("sum_count").scan().num_rows == 1
            assert at.table("orders").get(2) is None
    assert "pyspark" not in sys.modules
    assert "py4j" not in sys.modules
    print("quiet")


def _price(db: vk.Database) -> object:
    row = db.table("orders").get(1)
    assert row is not None
    return row["price"]


if __name__ == "__main__":
    main(sys.argv[1])
