"""What a creation or a drop leaves when it fails or its process dies: definitions of views that were never born, and tables
that no view needs. Removing them again is safe at any time, since they are told from what is needed by what is on record."""

from __future__ import annotations

from dataclasses import dataclass

from viewkeeper.engine.catalog import ViewCatalog
from viewkeeper.engine.epoch import block_tables
from viewkeeper.maintain.definitions import Definition
from viewkeeper.store.contract import Lease, Store


@dataclass(frozen=True)
class Leftovers:
    """Removes what no view needs. Only whoever leads a group may ask for it."""

    store: Store
    catalog: ViewCatalog

    def clear_unborn(self, group: str, lease: Lease) -> None:
        """Undo the creations that ended with their process."""
        for definition in self.catalog.unborn(group):
            self.undo_creation(definition, lease)

    def undo_creation(self, definition: Definition, lease: Lease) -> None:
        """Nothing of a view that could not be created stays. One of that name that somebody else has made since does."""
        self.store.undo(definition.group, definition.epoch, lease.term)
        self.catalog.remove(definition)
        self.drop_unneeded(definition.group, lease)

    def drop_unneeded(self, group: str, lease: Lease) -> None:
        """Drop the tables of a group that none of its views has. `Fenced` if another process leads the group now: what
        looks unneeded to us may be what it is making. So it is looked for again behind the fence, which is a durable write
        to each region of the group and not put up for nothing."""
        if self._unneeded(group):
            self.store.fence(group, lease.term)
            for name in self._unneeded(group):
                self.store.drop(name)

    def _unneeded(self, group: str) -> list[str]:
        plans = self.catalog.plans(group)
        needed = {plan.name for plan in plans} | set(block_tables(plans))
        return [spec.name for spec in self.store.tables() if spec.group == group and spec.name not in needed]
