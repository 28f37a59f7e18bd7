"""Histories from logs: an order of all transactions that goes through every cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewkeeper.errors import InputError
from viewkeeper.store.contract import Cut
from viewkeeper.testing.consistency import History, Level, logged_history
from viewkeeper.testing.consistency.base import Tables
from viewkeeper.testing.contract.support import PAIRS, created, delete, put, same_region
from viewkeeper.testing.memory_store import MemoryStore

LEFT, RIGHT = same_region(PAIRS, 0, 3), same_region(PAIRS, 1, 3)
"""Keys of the two regions."""


def everything(tables: Tables) -> list[Any]:
    return tables["pairs"]


def written_by(table: str, row: Any) -> Any:
    return row["v"]


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    created(store, PAIRS)
    return store


def written(store: MemoryStore, name: str, *keys: int) -> None:
    store.write([put(PAIRS, *((key, name) for key in keys))])


def history_of(store: MemoryStore, *cuts: Cut, **options: Any) -> History:
    """With a look at the end."""
    history = logged_history(store, {"view": everything}, ["pairs"], cuts, **options)
    history.look({"view": store.scan("pairs")}, reader="end", final=True)
    return history


def at(left: int, right: int) -> Cut:
    return {"pairs": (left, right)}


def looked(history: History, store: MemoryStore, *cuts: Cut) -> Level:
    for cut in cuts:
        history.look({"view": store.scan("pairs", at=cut["pairs"])})
    return history.verdict().level


def test_writes_of_a_region_keep_their_order(store: MemoryStore) -> None:
    for name in ("a", "b", "c"):
        written(store, name, LEFT[0])
    store.write([delete(PAIRS, (LEFT[0],))])
    history = history_of(store)
    assert history.base.last == 4
    assert looked(history, store, at(0, 0), at(1, 0), at(2, 0), at(3, 0)) is Level.COMPLETE
    assert looked(history, store, at(2, 0)) is Level.WEAK


@pytest.mark.parametrize("cut", [at(2, 0), at(0, 2), at(1, 1), at(2, 1)])
def test_the_order_goes_through_the_cut(store: MemoryStore, cut: Cut) -> None:
    for name, key in (("a", LEFT[0]), ("b", RIGHT[0]), ("c", LEFT[1]), ("d", RIGHT[1])):
        written(store, name, key)
    assert looked(history_of(store, cut), store, cut) is Level.STRONG


def test_a_state_that_no_cut_stands_for_is_found_out(store: MemoryStore) -> None:
    for name, key in (("a", LEFT[0]), ("b", RIGHT[0]), ("c", LEFT[1]), ("d", RIGHT[1])):
        written(store, name, key)
    assert looked(history_of(store, at(2, 0)), store, at(0, 2)) is Level.CONVERGENCE


def test_writes_of_one_name_are_one_transaction(store: MemoryStore) -> None:
    written(store, "a", LEFT[0], RIGHT[0])
    written(store, "b", LEFT[1], RIGHT[1])
    assert history_of(store).base.last == 4
    history = history_of(store, name=written_by)
    assert [transaction.name for transaction in history.base.transactions] == ["a", "b"]
    assert looked(history, store, at(1, 1)) is Level.STRONG
    assert looked(history, store, at(1, 0)) is Level.CONVERGENCE


def test_a_cut_through_a_transaction_is_no_state(store: MemoryStore) -> None:
    """No order goes through it; the other cuts keep theirs."""
    written(store, "a", LEFT[0], RIGHT[0])
    written(store, "b", RIGHT[1])
    written(store, "c", LEFT[1])
    torn, whole = at(0, 1), at(2, 1)
    assert looked(history_of(store, torn, whole, name=written_by), store, whole) is Level.STRONG
    assert looked(history_of(store, torn, whole, name=written_by), store, torn, whole) is Level.CONVERGENCE


def test_a_history_may_begin_later(store: MemoryStore) -> None:
    written(store, "a", LEFT[0], RIGHT[0])
    since = store.cut(["pairs"])
    written(store, "b", LEFT[0])
    history = history_of(store, since=since)
    assert history.base.last == 1
    assert looked(history, store, since) is Level.COMPLETE
    assert looked(history, store, at(0, 0)) is Level.CONVERGENCE


def test_cuts_that_cross_have_no_order(store: MemoryStore) -> None:
    written(store, "a", LEFT[0], RIGHT[0])
    with pytest.raises(InputError, match='two cuts cross in table "pairs"'):
        history_of(store, at(1, 0), at(0, 1))


def test_a_name_that_is_used_again_has_no_order(store: MemoryStore) -> None:
    written(store, "a", LEFT[0])
    written(store, "b", LEFT[0], RIGHT[0])
    written(store, "a", RIGHT[0])
    with pytest.raises(InputError, match="comes both before and after another"):
        history_of(store, name=written_by)


def test_cuts_that_lack_a_table_are_left_out(store: MemoryStore) -> None:
    written(store, "a", LEFT[0])
    assert looked(history_of(store, {"another": (1,)}), store, at(0, 0)) is Level.COMPLETE


@given(st.lists(st.sets(st.sampled_from([*LEFT, *RIGHT]), min_size=1, max_size=3), min_size=1, max_size=12), st.data())
def test_any_chain_of_cuts_is_gone_through(batches: list[set[int]], data: st.DataObject) -> None:
    """The cuts are those of another order than the one of writing: transactions without a common region change places."""
    store = MemoryStore()
    created(store, PAIRS)
    for n, keys in enumerate(batches):
        written(store, f"t{n}", *keys)
    regions = [[region for region, some in enumerate((LEFT, RIGHT)) if keys & set(some)] for keys in batches]
    cuts = _another_order(regions, data)
    history = history_of(store, *data.draw(st.permutations(cuts)), name=written_by)
    assert history.base.last == len(batches)
    assert looked(history, store, *cuts) is Level.COMPLETE


def _another_order(regions: list[list[int]], data: st.DataObject) -> list[Cut]:
    """The cuts after each step of some order that both regions agree with."""
    left = list(range(len(regions)))
    positions = [0, 0]
    cuts = [at(*positions)]
    while left:
        ready = [n for n in left if not any(set(regions[n]) & set(regions[m]) for m in left if m < n)]
        taken = data.draw(st.sampled_from(ready))
        left.remove(taken)
        for region in regions[taken]:
            positions[region] += 1
        cuts.append(at(*positions))
    return cuts
