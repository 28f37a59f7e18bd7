"""Views as the catalog has them: definitions, plans, and which of them a reader may see."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace

from viewkeeper.engine.lineage import Lineage
from viewkeeper.engine.stops import Stop
from viewkeeper.errors import InputError, NotFound
from viewkeeper.maintain.definitions import PREFIX, Definition, RecordedTypes, Summary, plan_view
from viewkeeper.maintain.plan import Shape, ViewPlan
from viewkeeper.maintain.sharing import with_shared_indexes
from viewkeeper.store.contract import Kind, RunningEpoch, Store

STOP = "stop/"
HISTORY = "history/"
GOING = "going/"
GOING_SECONDS = 60.0
"""How long a process may take over a drop."""


@dataclass
class ViewCatalog:
    """Reads definitions and makes plans of them, each once."""

    store: Store
    _plans: dict[str, tuple[Definition, ViewPlan]] = field(default_factory=dict)
    _read: dict[str, Definition] = field(default_factory=dict)
    _seen: dict[str, tuple[Definition, Shape]] = field(default_factory=dict)
    """What was found last under each name that somebody read, and stays true of the table that it was found with."""

    def _recorded(self) -> list[Definition]:
        """Every definition, each text read once."""
        known, texts = self._read, self.store.records(PREFIX).values()
        found = {text: known.get(text) or Definition.of_text(text) for text in texts}
        self._read = found  # other threads look too, and may be behind
        return list(found.values())

    def _on_record(self, name: str) -> Definition | None:
        text = self.store.record(PREFIX + name)
        if text is None:
            return None
        return self._read.get(text) or self._read.setdefault(text, Definition.of_text(text))

    def definitions(self) -> list[Definition]:
        """Every view whose first epoch is committed, in the order of creation."""
        found = self._recorded()
        committed = {state.name: state.committed.epoch for state in self.store.groups()}
        seen = [definition for definition in found if definition.epoch <= committed.get(definition.group, -1)]
        return sorted(seen, key=lambda definition: definition.number)

    def unborn(self, group: str) -> list[Definition]:
        """Views whose creation did not get to its commit."""
        found = self._recorded()
        state = self.store.group(group)
        return [d for d in found if d.group == group and d.epoch > state.committed.epoch]

    def names(self) -> set[str]:
        return {definition.name for definition in self.definitions()}

    def definition(self, name: str) -> Definition:
        """Of the view of that name: by its own record, or, where the name is written otherwise, among all."""
        exact = self._on_record(name)
        if exact is not None and exact.epoch <= self.store.group(exact.group).committed.epoch:
            return exact
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
        return self.shapes_of(self.definitions())

    def shapes_of(self, definitions: Sequence[Definition]) -> dict[str, Shape]:
        """Every table, and these views."""
        there = {spec.name: spec for spec in self.store.tables()}
        base = [spec for spec in there.values() if spec.kind is Kind.BASE]
        shapes = {spec.name: Shape(spec, tuple(spec.schema.names)) for spec in base}
        for definition in definitions:
            shape = self._own_plan(definition, shapes).shape
            spec = there.get(definition.name, shape.spec)
            shapes[definition.name] = replace(shape, spec=spec, made=definition.epoch)
        return shapes

    def summary(self, definition: Definition) -> Summary:
        assert definition.summary is not None, "a definition is kept with it"
        return definition.summary

    def shape(self, definition: Definition) -> Shape:
        """A view as readers see it, without a plan."""
        summary = self.summary(definition)
        return Shape(self.store.table(definition.name), summary.columns, summary.counted, definition.epoch)

    def shape_of(self, name: str) -> Shape:
        """The same, of the view that has this name now: the table that was seen is that of the definition that was there
        before and after, and not of one that took its name in between.

        What was found before holds as long as there is the same definition, and the same table to go with it: that one was
        there when its first epoch had been committed, and none other ever has its number.
        """
        seen = self._seen.get(name)
        if seen is not None and self._on_record(name) == seen[0] and self.store.number(name) == seen[1].spec.number:
            return seen[1]
        while True:
            definition = self.definition(name)
            shape = self.shape(definition)
            if self._on_record(definition.name) == definition:
                self._seen[definition.name] = definition, shape
                return shape

    def plan(self, definition: Definition) -> ViewPlan:
        return next(plan for plan in self.plans(definition.group) if plan.name == definition.name)

    def _own_plan(self, definition: Definition, shapes: dict[str, Shape]) -> ViewPlan:
        """A view's plan as if it were alone in its group."""
        known = self._plans.get(definition.name)
        if known is None or known[0] != definition:
            known = (definition, plan_view(definition, shapes, RecordedTypes(dict(definition.types))))
            self._plans[definition.name] = known
        return known[1]

    def plans(self, group: str) -> list[ViewPlan]:
        """The plans of a group, in an order in which each comes after what it stands on."""
        return self.sharing(self._own_plans(group), group)

    def _own_plans(self, group: str) -> list[ViewPlan]:
        definitions = self.definitions()
        shapes = self.shapes_of(definitions)
        return [self._own_plan(definition, shapes) for definition in definitions if definition.group == group]

    def sharing(self, plans: Sequence[ViewPlan], group: str) -> list[ViewPlan]:
        """Plans of one group, with the indexes that they share."""
        return with_shared_indexes(plans, [spec for spec in self.store.tables() if spec.group == group])

    def widened(self, plan: ViewPlan, group: str) -> ViewPlan:
        """The plan of a new view of a group, whose indexes are enough for the others too."""
        return self.sharing([*self._own_plans(group), plan], group)[-1]

    def lineage(self, *, unborn: bool = False) -> Lineage:
        """Which views stand on which now; with those whose creation is under way, if asked for."""
        if not unborn:
            return Lineage(self.definitions())
        return Lineage(sorted(self._recorded(), key=lambda definition: definition.number))

    # Leaving

    @contextmanager
    def going(self, name: str) -> Iterator[None]:
        """Say that a table or view is about to be dropped, and refuse if a view stands on it, also one that is being made.

        Those who make views look for this after they have said what they make. A process that dies in here is forgotten.
        Each drop says so for itself: of two at once, the first to end would else take back what the other has said.
        """
        self._forget_dead_drops(name)
        said = f"{_going(name)}{uuid.uuid4().hex}"
        try:
            self.store.put_record(said, json.dumps(time.time() + GOING_SECONDS))
            users = [view.name for view in self.lineage(unborn=True).standing_on(name)]
            if users:
                named = ", ".join(f'"{user}"' for user in users)
                raise InputError(
                    f'"{name}" cannot be dropped: {named} stand on it', hint="drop them first", dependents=users
                )
            yield
        finally:
            self.store.put_record(said, None)

    def is_going(self, name: str) -> bool:
        return any(_is_alive(until) for until in self.store.records(_going(name)).values())

    def _forget_dead_drops(self, name: str) -> None:
        for said, until in self.store.records(_going(name)).items():
            if not _is_alive(until):
                self.store.put_record(said, None)

    # Stopped views

    def stops(self) -> dict[str, Stop]:
        """Why views stopped, and where, by name."""
        found = self.store.records(STOP)
        return {name.removeprefix(STOP): Stop.of_record(json.loads(text)) for name, text in found.items()}

    def stopped(self, group: str, epoch: int) -> set[str]:
        """The views of a group that had stopped by an epoch of it, and not come back."""
        stops = self.stops()
        own = {view.name for view in self.definitions() if view.group == group} if stops else set()
        return {name for name in own & stops.keys() if stops[name].stands_at(epoch)}

    def stop(self, view: str) -> Stop | None:
        text = self.store.record(STOP + view)
        return None if text is None else Stop.of_record(json.loads(text))

    def set_stop(
        self, view: str, change: Callable[[Stop | None], Stop | None], during: RunningEpoch | None = None
    ) -> None:
        """Put what `change` makes of the record in its place: again until nobody came between."""
        while True:
            text = self.store.record(STOP + view)
            stop = change(None if text is None else Stop.of_record(json.loads(text)))
            if self.store.put_record(STOP + view, _stop_text(stop), expected=text, during=during):
                return

    def change_stop(self, view: str, known: Stop, stop: Stop | None, during: RunningEpoch | None = None) -> None:
        """Put another in a record's place, unless it is another by now: then whoever made it knows better."""
        self.store.put_record(STOP + view, _stop_text(stop), expected=_stop_text(known), during=during)

    def remove(self, definition: Definition) -> bool:
        """Forget a view, and why it had stopped; False if another has its name by now.

        The record of the stop is the one from before: a view that takes the name has its own.
        """
        stop = self.store.record(STOP + definition.name)
        if not self.store.put_record(PREFIX + definition.name, None, expected=definition.text()):
            return False
        if stop is not None:
            self.store.put_record(STOP + definition.name, None, expected=stop)
        return True


def _going(name: str) -> str:
    """What the records of those who drop something begin with."""
    return f"{GOING}{name.lower()}/"


def _is_alive(until: str) -> bool:
    """What would take longer than a drop may was said before the machine's clock was set back."""
    now = time.time()
    return now < float(json.loads(until)) <= now + GOING_SECONDS


def _stop_text(stop: Stop | None) -> str | None:
    return None if stop is None else json.dumps(asdict(stop))
