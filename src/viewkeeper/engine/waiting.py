"""What views and groups have not seen yet: how many changes, and for how long the oldest of them has waited."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from viewkeeper.engine.catalog import ViewCatalog
from viewkeeper.maintain.definitions import Definition
from viewkeeper.store.contract import Cut, Store


@dataclass(frozen=True)
class Waiting:
    """The changes of base tables after a cut. Of those that a stopped view has missed, the trimmed ones are not counted."""

    store: Store
    unseen: Cut

    @classmethod
    def for_view(cls, store: Store, catalog: ViewCatalog, view: Definition) -> Waiting:
        """For one view: in the tables under it, after its group's cut, or after the one where it stopped."""
        committed = store.group(view.group).committed
        stop = catalog.stop(view.name)
        cut = committed.cut if stop is None or stop.is_over_at(committed.epoch) else stop.cut
        return cls._after(store, cut, catalog.lineage().base_tables(view))

    @classmethod
    def for_group(cls, store: Store, catalog: ViewCatalog, group: str) -> Waiting:
        """For all views of a group."""
        return cls._after(store, store.group(group).committed.cut, catalog.lineage().tables_under([group]))

    @classmethod
    def _after(cls, store: Store, cut: Cut, tables: Iterable[str]) -> Waiting:
        return cls(store, {table: cut[table] for table in tables if table in cut})

    @property
    def changes(self) -> int:
        newest = self.store.positions
        return sum(self.store.backlog(table, at, newest(table), whole=False) for table, at in self.unseen.items())

    @property
    def seconds(self) -> float:
        """0 if nothing waits."""
        times = [self.store.oldest(table, at) for table, at in self.unseen.items()]
        return max((time.time() - written for written in times if written is not None), default=0.0)
