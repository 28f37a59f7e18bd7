"""Removing a view, and letting go of what only it had needed: hidden tables, and logs that its group followed for it.

A process that dies in a drop or a creation leaves a group that holds a table's log for a view that is not there. Whoever uses
the group next lets go; if nobody does, whoever trims the logs.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from viewkeeper.engine.leadership import Leadership
from viewkeeper.engine.lineage import Lineage
from viewkeeper.engine.maintainer import Maintainer
from viewkeeper.errors import Busy, Fenced
from viewkeeper.maintain.definitions import Definition
from viewkeeper.store.contract import GroupState, Lease


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
            self.take_out(definition, lease)
        while below is not None:
            with maintainer.leadership.of(below) as lower:
                maintainer.finish(below, lower)
                self._let_go(below, lower)
            below = maintainer.catalog.lineage().group_below(below)

    def take_out(self, definition: Definition, lease: Lease) -> None:
        """Remove a view from its group, for whoever leads it."""
        maintainer = self.maintainer
        with maintainer.catalog.going(definition.name):
            maintainer.store.fence(definition.group, lease.term)
            self._forget(definition)
        maintainer.leftovers.drop_unneeded(definition.group, lease)
        self._let_go(definition.group, lease)

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

    def let_go_for_the_dead(self) -> None:
        """Take out of the groups' cuts what they hold for views whose drop or creation ended with its process.

        A group that somebody leads is left alone: what looks like a dead creation may be one that is under way.
        """
        lineage = self.maintainer.catalog.lineage()
        for state in self.maintainer.store.groups():
            if _held(state) - _needed(lineage, state.name):
                with (
                    suppress(Busy, Fenced),
                    Leadership(self.maintainer.store, timeout=0.0).of(state.name) as lease,
                ):
                    self._clear(state.name, lease)

    def _clear(self, group: str, lease: Lease) -> None:
        """An epoch of views that are there is theirs to finish, and lets go by itself."""
        maintainer = self.maintainer
        maintainer.leftovers.clear_unborn(group, lease)
        views = [view for view in maintainer.catalog.definitions() if view.group == group]
        if not views or maintainer.store.group(group).running is None:
            maintainer.finish(group, lease)
            self._let_go(group, lease)

    def _let_go(self, group: str, lease: Lease) -> None:
        """The cut keeps what the views that are left read, and no more: a log that nobody follows may be trimmed."""
        store = self.maintainer.store
        needed = _needed(self.maintainer.catalog.lineage(), group)
        cut = store.group(group).committed.cut
        kept = {table: positions for table, positions in cut.items() if table in needed}
        if kept != cut:
            record = store.begin(group, kept, lease.term)
            store.commit(group, record.epoch, lease.term)


def _held(state: GroupState) -> set[str]:
    """The tables whose logs a group keeps from being trimmed."""
    return {*state.committed.cut, *(() if state.running is None else state.running.cut)}


def _needed(lineage: Lineage, group: str) -> set[str]:
    """What a group's views read, and every base table under the groups that it shares cuts with: a cut goes from the group
    at the bottom, where it has the tables of all above, up to each of them."""
    bottom = group
    while (below := lineage.group_below(bottom)) is not None:
        bottom = below
    read = [table for view in lineage.definitions if view.group == group for table in lineage.inputs(view)]
    return {*read, *lineage.tables_under([bottom, *lineage.groups_above(bottom)])}
