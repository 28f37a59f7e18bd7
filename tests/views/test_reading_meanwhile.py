"""Others commit, drop and make anew while somebody reads: whoever reads sees one state. Each was once a wrong answer."""

from __future__ import annotations

from typing import Any

import pytest
from takeovers import SUMS, Pair, keys

import viewkeeper as vk


def test_a_snapshot_of_immediate_views_is_whole_while_others_write(two: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that two groups read is where the views are that guard it."""
    one, other = two
    one.create_view("sums", SUMS, refresh="immediate")
    one.create_view("counts", "SELECT COUNT(*) AS n FROM t")
    groups = other._store.groups

    def then_a_write() -> Any:
        found = groups()
        one.table("t").put({"k": 3, "x": "a", "y": 100})
        return found

    monkeypatch.setattr(other._store, "groups", then_a_write)
    with other.snapshot() as snapshot:
        rows = sum(snapshot.table("t").scan(columns=["y"])["y"].to_pylist())
        assert rows == sum(snapshot.view("sums").scan(columns=["s"])["s"].to_pylist())


@pytest.mark.parametrize(
    "query",
    [
        "SELECT (SELECT n FROM one) - (SELECT n FROM two) AS d",
        "SELECT (SELECT n FROM one) - (SELECT COUNT(*) FROM t) AS d",
        "SELECT (SELECT MAX(k) FROM t) - (SELECT MAX(z) FROM u) AS d",
    ],
    ids=["views", "a view and its table", "tables"],
)
def test_a_query_sees_one_state_whatever_is_committed_meanwhile(
    two: Pair, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    one, other = two
    one.create_view("one", "SELECT COUNT(*) AS n FROM t")
    one.create_view("two", "SELECT COUNT(*) AS n FROM t")
    scan, between = one._store.scan, iter(range(10, 13))

    def write(number: int) -> None:
        with other.transaction() as transaction:
            transaction.table("t").put({"k": number, "x": "a", "y": 1})
            transaction.table("u").put({"x": "a", "z": number})
        other.refresh()

    def scanning(*args: Any, **options: Any) -> Any:
        found = scan(*args, **options)
        for number in between:
            write(number)
            break
        return found

    write(9)
    monkeypatch.setattr(one._store, "scan", scanning)
    assert [row["d"] for row in one.sql(query).collect()] == [0]
    assert keys(other)[-1] > 9


def test_a_query_over_tables_alone_sees_what_was_just_written(two: Pair) -> None:
    one, _ = two
    one.create_view("sums", SUMS)
    one.table("t").put({"k": 3, "x": "a", "y": 5})
    assert one.sql("SELECT COUNT(*) AS n FROM t").collect()[0]["n"] == 3
    both = "SELECT (SELECT COUNT(*) FROM t) AS n, (SELECT SUM(n) FROM sums) AS m"
    assert tuple(one.sql(both).collect()[0]) == (2, 2)
    one.refresh()
    assert tuple(one.sql(both).collect()[0]) == (3, 3)


ANEW = [
    pytest.param("t", "k INT, x STRING, y INT", id="table"),
    pytest.param("sums", "SELECT x, SUM(y + 1) AS s FROM t GROUP BY x", id="view"),
]


def make_anew(db: vk.Database, name: str, text: str) -> None:
    db.drop("sums")
    if name == "t":
        db.drop("t")
        db.create_table("t", text, primary_key="k").put([{"k": key, "x": "a", "y": 100} for key in range(9)])
    db.create_view("sums", text if name == "sums" else SUMS)


@pytest.mark.parametrize(("name", "text"), ANEW)
def test_a_query_reads_no_table_that_took_the_name_of_another_meanwhile(
    two: Pair, monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    """Positions of the one before would show some rows of the new one, or none."""
    one, other = two
    one.create_view("sums", SUMS)
    cut = one._store.cut
    snapshot = one.snapshot

    def then_anew(*args: Any, **options: Any) -> Any:
        monkeypatch.undo()
        found = cut(*args, **options)
        make_anew(other, name, text)
        return found

    monkeypatch.setattr(one._store, "cut", then_anew)
    with snapshot() as seen:
        assert seen.view("sums").scan() == other.view("sums").scan(), "what was seen before is looked at again"
        assert seen.table("t").scan() == other.table("t").scan()
    before = {"t": seen.table("t"), "sums": seen.view("sums")}[name]
    make_anew(other, name, text)
    with pytest.raises(vk.SnapshotTooOld, match=f'"{name}" cannot be read: it was dropped and made again'):
        before.scan()
    scan = one._store.scan

    def anew_first(*args: Any, **options: Any) -> Any:
        monkeypatch.undo()
        make_anew(other, name, text)
        return scan(*args, **options)

    monkeypatch.setattr(one._store, "scan", anew_first)
    with pytest.raises(vk.SnapshotTooOld, match="dropped and made again"):
        one.sql(f"SELECT * FROM {name}")


def test_a_view_is_read_as_whoever_made_it_again_made_it(two: Pair) -> None:
    one, other = two
    one.create_view("sums", SUMS)
    view, held = other.view("sums"), other.snapshot().view("sums")
    assert view.get("a") == {"x": "a", "s": 1, "n": 1}
    one.drop("sums")
    one.create_view("sums", "SELECT 1 AS one, k, x FROM t", cluster_by="k")
    assert view.scan().to_pylist() == one.view("sums").scan().to_pylist()
    assert view.get(9) is None
    assert view.find(2).to_pylist() == [{"one": 1, "k": 2, "x": "b"}]
    assert view.schema.names == ["one", "k", "x"]
    assert view.changes(0).num_rows == view.status().rows == 2
    for read in (held.scan, lambda: held.get("a"), lambda: held.changes(0)):
        with pytest.raises(vk.SnapshotTooOld, match='"sums" cannot be read: it was dropped and made again'):
            read()
    one.drop("sums")
    one.create_view("sums", "SELECT x FROM t")
    assert view.scan(limit=1).to_pylist() == [{"x": "a"}]
    one.drop("sums")
    with pytest.raises(vk.NotFound, match='"sums" does not exist'):
        view.scan()


def test_a_view_that_is_made_again_alike_is_another(two: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process remembers of the one before is not taken for the new one, nor before that is committed."""
    one, other = two
    one.create_view("sums", SUMS)
    assert other.view("sums").get("a") == {"x": "a", "s": 1, "n": 1}
    one.drop("sums")
    one.table("t").put({"k": 9, "x": "a", "y": 100})
    commit = one._store.commit
    looked: list[str] = []

    def not_yet(*args: Any) -> None:
        with pytest.raises(vk.NotFound, match='"sums" does not exist'):
            other.view("sums")
        looked.append("sums")
        commit(*args)

    monkeypatch.setattr(one._store, "commit", not_yet)
    one.create_view("sums", SUMS)
    assert looked == ["sums"]
    assert other.view("sums").get("a") == {"x": "a", "s": 101, "n": 2}
    one.drop("sums")
    with pytest.raises(vk.NotFound, match='"sums" does not exist'):
        other.view("sums")


def test_a_snapshot_shows_no_view_that_is_being_dropped_beside_newer_rows(two: Pair) -> None:
    """Found: the view was shown as it was, and its table as it is, since nobody was known to read it any more."""
    one, other = two
    other.create_view("counts", "SELECT COUNT(*) AS n FROM t")
    look = one._catalog.shapes_of

    def meanwhile(definitions: Any) -> Any:
        one._catalog.shapes_of = look  # type: ignore[method-assign]
        shapes = look(definitions)
        other.table("t").put({"k": 9, "x": "z", "y": 9})
        assert other._catalog.remove(other._catalog.definition("counts")), "the drop has begun, and the table is there"
        return shapes

    one._catalog.shapes_of = meanwhile  # type: ignore[method-assign]
    with one.snapshot() as at:
        assert at.table("t").scan().num_rows == 3
        with pytest.raises(vk.NotFound):
            at.view("counts")
