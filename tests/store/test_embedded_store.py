"""The embedded store keeps the contract, through closing and opening, and with two handles on one folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from viewkeeper.store.contract import Store
from viewkeeper.store.embedded import EmbeddedStore
from viewkeeper.testing.contract import StoreContract
from viewkeeper.testing.contract.support import Reopen


class TestEmbeddedStore(StoreContract):
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        return tmp_path / "database.vk"

    @pytest.fixture
    def store(self, folder: Path) -> Iterator[Store]:
        store = EmbeddedStore.open(folder)
        yield store
        store.close()

    @pytest.fixture
    def reopen(self, store: Store, folder: Path) -> Iterator[Reopen]:
        with ExitStack() as opened:

            def again() -> Store:
                store.close()
                fresh = EmbeddedStore.open(folder)
                opened.callback(fresh.close)
                return fresh

            yield again

    @pytest.fixture
    def other(self, store: Store, folder: Path) -> Iterator[Store]:
        other = EmbeddedStore.open(folder)
        yield other
        other.close()
