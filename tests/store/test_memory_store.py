"""The store in memory keeps the contract."""

from __future__ import annotations

import pytest

from viewkeeper.store.contract import Store
from viewkeeper.testing.contract import StoreContract
from viewkeeper.testing.contract.support import Reopen
from viewkeeper.testing.memory_store import MemoryStore


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return MemoryStore()

    @pytest.fixture
    def reopen(self, store: Store) -> Reopen:
        return lambda: store

    @pytest.fixture
    def other(self, store: Store) -> Store:
        return store
