"""Snapshots: any number of tables at one point, held while writers go on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType

from viewkeeper.database.table import TableAt
from viewkeeper.database.view import ViewAt
from viewkeeper.engine.catalog import ViewCatalog
from viewkeeper.errors import NotFound
from viewkeeper.maintain.plan import Shape
from viewkeeper.store.contract import GroupState, Kind, Positions, Store

ATTEMPTS = 100
"""How often a snapshot is tried while tables are dropped under it."""


def _shapes_and_cut(store: Store, catalog: ViewCatalog) -> tuple[dict[str, Shape], dict[str, Positions]]:
    """The tables there are and a cut of them. A table that was dropped between the two asks for another try."""
    for attempt in range(ATTEMPTS):
        shapes = catalog.shapes()
        try:
            return shapes, dict(store.cut([name for name, shape in shapes.items() if shape.spec.kind is Kind.BASE]))
        except NotFound:
            if attempt == ATTEMPTS - 1:
                raise
    raise AssertionError("the last attempt returns or raises")


def _cuts_of_one_reader(groups: Sequence[GroupState], tables: Iterable[str]) -> dict[str, Positions]:
    """Where a group is in the tables that it alone reads."""
    found: dict[str, Positions] = {}
    for name in tables:
        cuts = [state.committed.cut[name] for state in groups if name in state.committed.cut]
        if len(cuts) == 1:
            found[name] = cuts[0]
    return found


class Snapshot:
    """The database as it was when the snapshot was taken.

    Views are at their group's committed epoch. Tables that a group reads are at that epoch's cut, so that a view and its
    tables agree; where several groups read a table, and for tables that none reads, it is as it was at that moment.
    It keeps nothing alive: if the logs are trimmed past its point, its reads end in `SnapshotTooOld`, never in other rows.
    """

    def __init__(self, store: Store, catalog: ViewCatalog) -> None:
        self._store = store
        self._shapes, self._cut = _shapes_and_cut(store, catalog)
        groups = store.groups()
        self._cut |= _cuts_of_one_reader(groups, self._cut)
        self._epochs = {state.name: state.committed.epoch for state in groups}

    def table(self, name: str) -> TableAt:
        """A table at that point, for reading."""
        shape = self._shape(name, Kind.BASE)
        return TableAt(self._store, shape.spec, self._cut[shape.spec.name])

    def view(self, name: str) -> ViewAt:
        """A view at that point."""
        shape = self._shape(name, Kind.VIEW)
        assert shape.spec.group is not None
        return ViewAt(self._store, shape, (self._epochs[shape.spec.group],) * shape.spec.regions)

    def _shape(self, name: str, kind: Kind) -> Shape:
        known = {shape.spec.name: shape for shape in self._shapes.values() if shape.spec.kind is kind}
        word = "table" if kind is Kind.BASE else "view"
        for shape in known.values():
            if shape.spec.name.lower() == name.lower():
                return shape
        raise NotFound(f'{word} "{name}" is not in the snapshot', hint=f"it has {', '.join(known) or 'none'}")

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None
