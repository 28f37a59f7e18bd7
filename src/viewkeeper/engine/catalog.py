"""Views as the catalog has them: definitions, plans, and which of them a reader may see."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from viewkeeper.errors import NotFound
from viewkeeper.maintain.definitions import PREFIX, Definition, RecordedTypes, plan_view
from viewkeeper.maintain.plan import Shape, ViewPlan
from viewkeeper.store.contract import Kind, Store

FAILURE = "failure/"
HISTORY = "history/"


@dataclass
class ViewCatalog:
    """Reads definitions and makes plans of them, each once."""

    store: Store
    _plans: dict[str, tuple[str, ViewPlan]] = field(default_factory=dict)

    def definitions(self) -> list[Definition]:
        """Every view whose first epoch is committed, in the order of creation."""
        found = [Definition.of_text(text) for text in self.store.records(PREFIX).values()]
        committed = {state.name: state.committed.epoch for state in self.store.groups()}
        seen = [definition for definition in found if definition.epoch <= committed.get(definition.group, -1)]
        return sorted(seen, key=lambda definition: definition.number)

    def unborn(self, group: str) -> list[Definition]:
        """Views whose creation did not get to its commit."""
        found = [Definition.of_text(text) for text in self.store.records(PREFIX).values()]
        state = self.store.group(group)
        return [d for d in found if d.group == group and d.epoch > state.committed.epoch]

    def names(self) -> set[str]:
        return {definition.name for definition in self.definitions()}

    def definition(self, name: str) -> Definition:
        found = self.definitions()
        for definition in found:
            if definition.name.lower() == name.lower():
                return definition
        known = ", ".join(f'"{definition.name}"' for definition in found)
        raise NotFound(
            f'view "{name}" does not exist', hint=f"there are {known}" if known else "there are no views yet", view=name
        )

    def shapes(self) -> dict[str, Shape]:
        """Every table and view as queries see it."""
        base = [spec for spec in self.store.tables() if spec.kind is Kind.BASE]
        shapes = {spec.name: Shape(spec, tuple(spec.schema.names)) for spec in base}
        for definition in self.definitions():
            shapes[definition.name] = self.plan(definition, shapes).shape
        return shapes

    def plan(self, definition: Definition, shapes: dict[str, Shape] | None = None) -> ViewPlan:
        text = definition.text()
        known = self._plans.get(definition.name)
        if known is None or known[0] != text:
            typer = RecordedTypes(dict(definition.types))
            known = (text, plan_view(definition, self.shapes() if shapes is None else shapes, typer))
            self._plans[definition.name] = known
        return known[1]

    def plans(self, group: str) -> list[ViewPlan]:
        """The plans of a group, in an order in which each comes after what it stands on."""
        shapes = self.shapes()
        return [self.plan(d, shapes) for d in self.definitions() if d.group == group]

    def dependents(self, name: str) -> list[str]:
        """The views that read a table or view."""
        return [d.name for d in self.definitions() if name in self.plan(d).tables]

    def base_tables(self, plan: ViewPlan) -> list[str]:
        """The tables under a view, also those under the views that it stands on."""
        views = {definition.name: definition for definition in self.definitions()}
        found: dict[str, None] = {}
        for table in plan.tables:
            below = self.base_tables(self.plan(views[table])) if table in views else [table]
            found |= dict.fromkeys(below)
        return list(found)

    # Failures

    def failures(self) -> dict[str, dict[str, Any]]:
        """Why views stopped, by name; `epoch` is the one in which they did."""
        found = self.store.records(FAILURE)
        return {name.removeprefix(FAILURE): json.loads(text) for name, text in found.items()}

    def set_failure(self, view: str, failure: dict[str, Any] | None) -> None:
        self.store.put_record(FAILURE + view, None if failure is None else json.dumps(failure))
