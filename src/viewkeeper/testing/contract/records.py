"""Records: small named texts, found by prefix, and put by test-and-set so that of several writers one wins."""

from __future__ import annotations

import threading

import pytest

from viewkeeper.errors import Fenced
from viewkeeper.store.contract import RunningEpoch, Store
from viewkeeper.testing.contract.support import PAIRS, Reopen, StoreFixtures, created

ADDITIONS = 25


def _add_one(store: Store, name: str) -> None:
    """Add to a counter as a caller of test-and-set does: again until nobody came between."""
    while True:
        there = store.record(name)
        if store.put_record(name, str(int(there or 0) + 1), expected=there):
            return


class RecordContract(StoreFixtures):
    def test_a_record_is_kept_replaced_and_removed(self, store: Store, other: Store) -> None:
        assert store.record("view/a") is None
        assert store.put_record("view/a", "first")
        assert other.record("view/a") == "first"
        assert other.put_record("view/a", "second")
        assert store.record("view/a") == "second"
        assert store.put_record("view/a", None)
        assert other.record("view/a") is None
        assert store.put_record("view/a", None), "removing what is not there is done at once"
        assert store.records() == {}

    def test_records_outlive_a_restart(self, store: Store, reopen: Reopen) -> None:
        store.put_record("b", "2")
        store.put_record("a", "1")
        store.put_record("gone", "3")
        store.put_record("gone", None)
        assert reopen().records() == {"a": "1", "b": "2"}

    def test_records_are_listed_by_name(self, store: Store) -> None:
        names = ["view/b", "view/a", "View/c", "view/a/1", "view/é", "view/😀", "view/\uffff", "", "z"]
        for number, name in enumerate(names):
            store.put_record(name, str(number))
        assert list(store.records()) == sorted(names)
        assert list(store.records("view/")) == ["view/a", "view/a/1", "view/b", "view/é", "view/\uffff", "view/😀"]
        assert store.records("view/a") == {"view/a": "1", "view/a/1": "3"}
        assert store.records("nothing") == {}

    @pytest.mark.parametrize(
        "prefix", ["%", "_", "a%", "a_", "[a]", "*", "?", "a\\", "'", '"', "a\U0010ffff", "\ud7ff"]
    )
    def test_every_character_of_a_prefix_stands_for_itself(self, store: Store, prefix: str) -> None:
        for name in ("a", "ab", "abc", "b", "\ue000", prefix, prefix + "x", prefix + "\U0010ffff\U0010ffff"):
            store.put_record(name, name)
        wanted = [prefix, prefix + "x", prefix + "\U0010ffff\U0010ffff"]
        assert store.records(prefix) == {name: name for name in wanted}

    def test_names_have_case(self, store: Store) -> None:
        store.put_record("a", "small")
        store.put_record("A", "large")
        assert store.records() == {"A": "large", "a": "small"}
        assert store.records("A") == {"A": "large"}

    @pytest.mark.parametrize("text", ["", " ", "0", "1e5", "NULL", "SELECT 'it''s'\n\tFROM t -- 😀", "x" * 300_000])
    def test_a_text_comes_back_as_it_was(self, store: Store, reopen: Reopen, text: str) -> None:
        assert store.put_record("a", text, expected=None)
        assert store.record("a") == text
        assert not store.put_record("a", "other", expected=text + " ")
        assert reopen().records() == {"a": text}

    def test_an_expected_text_must_be_there(self, store: Store, other: Store) -> None:
        assert not store.put_record("a", "new", expected="old")
        assert store.record("a") is None
        store.put_record("a", "old")
        assert not other.put_record("a", "new", expected="Old")
        assert not other.put_record("a", None, expected="other")
        assert store.record("a") == "old"
        assert other.put_record("a", "new", expected="old")
        assert not store.put_record("a", "newer", expected="old")
        assert store.record("a") == "new"
        assert store.put_record("a", None, expected="new")
        assert other.record("a") is None

    def test_expecting_none_is_expecting_no_record(self, store: Store, other: Store) -> None:
        assert store.put_record("a", "", expected=None)
        assert not other.put_record("a", "mine", expected=None), "an empty text is a record"
        assert not other.put_record("a", None, expected=None)
        assert store.record("a") == ""
        assert other.put_record("b", None, expected=None)
        assert store.records() == {"a": ""}

    def test_what_belongs_to_an_epoch_is_put_only_while_it_runs(self, store: Store, other: Store) -> None:
        store.create_group("g")
        epoch = store.begin("g", {}, 1).epoch
        assert store.put_record("view/a", "first", during=RunningEpoch("g", epoch, 1))
        assert not store.put_record("view/a", "second", None, during=RunningEpoch("g", epoch, 1))
        for wrong in (RunningEpoch("g", epoch + 1, 1), RunningEpoch("g", epoch - 1, 1)):
            with pytest.raises(Fenced):
                store.put_record("view/a", "second", during=wrong)
        other.fence("g", 2)
        with pytest.raises(Fenced):
            store.put_record("view/a", "second", during=RunningEpoch("g", epoch, 1))
        assert other.put_record("view/a", "second", during=RunningEpoch("g", epoch, 2))
        other.commit("g", epoch, 2)
        with pytest.raises(Fenced):
            other.put_record("view/a", "third", during=RunningEpoch("g", epoch, 2))
        assert store.record("view/a") == "second"

    def test_records_and_tables_do_not_share_names(self, store: Store) -> None:
        created(store, PAIRS)
        assert store.put_record("pairs", "a record", expected=None)
        store.drop("pairs")
        assert store.record("pairs") == "a record"

    def test_no_writer_of_several_is_lost(self, store: Store, other: Store) -> None:
        def add(handle: Store) -> None:
            for _ in range(ADDITIONS):
                _add_one(handle, "count")

        threads = [threading.Thread(target=add, args=(handle,)) for handle in (store, other, store, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert store.record("count") == str(len(threads) * ADDITIONS)
