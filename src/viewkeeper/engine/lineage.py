"""Which views stand on which, and so which groups: read off the definitions of one moment, without plans."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from viewkeeper.maintain.definitions import Definition


@dataclass(frozen=True)
class Lineage:
    """The views that there are, in the order of creation."""

    definitions: Sequence[Definition]

    @cached_property
    def _by_name(self) -> dict[str, Definition]:
        return {definition.name: definition for definition in self.definitions}

    @cached_property
    def _below(self) -> dict[str, str | None]:
        return {group: self._group_below(group) for group in dict.fromkeys(d.group for d in self.definitions)}

    def inputs(self, definition: Definition) -> tuple[str, ...]:
        """The tables and views that a view reads."""
        assert definition.summary is not None, "a definition is kept with it"
        return definition.summary.tables

    def standing_on(self, name: str) -> list[Definition]:
        """The views that read a table or view."""
        return [definition for definition in self.definitions if name in self.inputs(definition)]

    def above(self, name: str) -> list[Definition]:
        """The views that stand on one, and those that stand on them: each after what it reads, as they were created."""
        found = {name}
        for definition in self.definitions:
            if found.intersection(self.inputs(definition)):
                found.add(definition.name)
        return [definition for definition in self.definitions if definition.name in found - {name}]

    def base_tables(self, definition: Definition) -> list[str]:
        """The tables under a view, also those under the views that it stands on."""
        found: dict[str, None] = {}
        for table in self.inputs(definition):
            view = self._by_name.get(table)
            found |= dict.fromkeys([table] if view is None else self.base_tables(view))
        return list(found)

    def tables_under(self, groups: Iterable[str]) -> list[str]:
        """The base tables under all views of some groups."""
        wanted = set(groups)
        mine = [definition for definition in self.definitions if definition.group in wanted]
        return list(dict.fromkeys(table for definition in mine for table in self.base_tables(definition)))

    def group_below(self, group: str) -> str | None:
        """The other group whose views a group's views stand on. There is at most one, for a group has one cut."""
        return self._below.get(group)

    def _group_below(self, group: str) -> str | None:
        mine = [definition for definition in self.definitions if definition.group == group]
        read = [self._by_name[name] for d in mine for name in self.inputs(d) if name in self._by_name]
        return next((view.group for view in read if view.group != group), None)

    def groups_above(self, group: str) -> list[str]:
        """The groups that stand on a group, and those that stand on them."""
        found = [group]
        for lower in found:
            found += [name for name, below in self._below.items() if below == lower and name not in found]
        return found[1:]

    def in_order(self, groups: Iterable[str]) -> list[str]:
        """Each group after the one that it stands on."""
        wanted = list(groups)
        above = {name: self.groups_above(name) for name in wanted}
        return sorted(wanted, key=lambda name: sum(name in above[other] for other in wanted))
