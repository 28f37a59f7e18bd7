"""Removing a view, and letting go of what only it had needed: hidden tables, and logs that its group followed for it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from viewkeeper.engine.cuts import inputs_of
from viewkeeper.engine.leadership import Leadership
from viewkeeper.engine.maintainer import Maintainer
from viewkeeper.errors import Busy, Fenced
from viewkeeper.maintain.definitions import Definition
from viewkeeper.store.contract import Lease


@dataclass(frozen=True)
class Removal:
    """Drops views."""

    maintainer: Maintainer

    def drop(self, name: str) -> None:
        """Remove a view that nothing stands on, and the hidden tables that nobody needs any more."""
        maintainer = self.maintainer
        definition = maintainer.catalog.definition(name)
        self.end_dead_creations(definition.name)
        with maintainer.leadership.of(definition.group) as lease:
            maintainer.finish(definition.group, lease)
            below = maintainer.catalog.lineage().group_below(definition.group)
            with maintainer.catalog.going(definition.name):
                maintainer.store.fence(definition.group, lease.term)
                self._forget(definition)
            maintainer.leftovers.drop_unneeded(definition.group, lease)
            self._let_go(definition.group, lease)
        while below is not None:
            with maintainer.leadership.of(below) as lower:
                maintainer.finish(below, lower)
                self._let_go(below, lower)
            below = maintainer.catalog.lineage().group_below(below)

    def _forget(self, definition: Definition) -> None:
        """The view that was asked for, and not one that has been made under its name since."""
        if not self.maintainer.catalog.remove(definition):
            raise Fenced(f'view "{definition.name}" was changed by another process meanwhile', hint="call again")

    def end_dead_creations(self, name: str) -> None:
        """A view whose making ended with its process does not hold what it would have stood on."""
        catalog = self.maintainer.catalog
        born = catalog.names()
        for definition in catalog.lineage(unborn=True).standing_on(name):
            if definition.name not in born:
                with (
                    suppress(Busy),
                    Leadership(self.maintainer.store, timeout=0.0).of(definition.group) as lease,
                ):
                    self.maintainer.tidy(definition.group, lease)

    def _let_go(self, group: str, lease: Lease) -> None:
        """The cut keeps what the views that are left read, and no more: a log that nobody follows may be trimmed."""
        store = self.maintainer.store
        needed = {*inputs_of(self.maintainer.catalog.plans(group)), *self.maintainer.cuts.tables(group)}
        cut = store.group(group).committed.cut
        kept = {table: positions for table, positions in cut.items() if table in needed}
        if kept != cut:
            record = store.begin(group, kept, lease.term)
            store.commit(group, record.epoch, lease.term)
