"""Snapshots: any number of tables at one point, held while writers go on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import TracebackType

import pyarrow as pa

from viewkeeper.database.table import TableAt
from viewkeeper.database.view import ViewAt
from viewkeeper.engine.catalog import ViewCatalog
from viewkeeper.engine.lineage import Lineage
from viewkeeper.errors import Busy, NotFound
from viewkeeper.maintain.plan import Shape
from viewkeeper.store.contract import GroupState, Kind, Positions, Store, TableSpec

ATTEMPTS = 100
"""How often a snapshot is tried while tables are dropped under it."""


def _looked_at(
    store: Store, catalog: ViewCatalog, only: Collection[str] | None
) -> tuple[dict[str, Shape], Lineage, Sequence[GroupState], dict[str, Positions]]:
    """The tables there are, which views read them, where the groups are, and a cut; a table or view that was dropped or made
    in between asks for another try: what was seen of it before and after might be of two tables of one name.

    In this order: a view that is known has been committed by its group, and what a group has committed is carried out by
    the cut, so that every table has come to where the group's cut says. The views that the snapshot shows are those that
    count as readers of their tables, seen in one look. That is before the groups: a reader's group has its tables in the cut
    that is seen then, and not one from before the view was made, which may be left of a view that was dropped. And the views
    are the same afterwards: the group of one that is being dropped may have let go of its tables, while its rows are there.
    """
    for attempt in range(ATTEMPTS):
        numbers, views = _numbers(store), catalog.definitions()
        shapes, lineage = catalog.shapes_of(views), Lineage(views)
        groups = store.groups()
        try:
            base = [name for name, shape in shapes.items() if shape.spec.kind is Kind.BASE]
            base = base if only is None else [name for name in base if name in only]
            cut = dict(store.cut(base))
        except NotFound:
            if attempt == ATTEMPTS - 1:
                raise
            continue
        if _numbers(store) == numbers and catalog.definitions() == views:
            return shapes, lineage, groups, cut
    raise Busy("tables are being dropped and made again without end", hint="call again")


def _numbers(store: Store) -> dict[str, int]:
    """Which tables and views there are. A table that is gone never comes back with its number."""
    return {spec.name: spec.number for spec in store.tables() if spec.kind is not Kind.INDEX}


def _cuts_of_readers(
    lineage: Lineage, groups: Sequence[GroupState], cut: Mapping[str, Positions]
) -> dict[str, Positions]:
    """Where a group is in the tables that it alone reads, or that it reads and guards.

    A group reads a table if one of its own views names it. That its cut has the table says less: a group that stands on
    another has all of that one's tables in its cut, and after a drop that died with its process a table may be left there
    that no view reads any more, at a point that moves no further.
    """
    found: dict[str, Positions] = {}
    for name, newest in cut.items():
        reading = {view.group for view in lineage.standing_on(name)}
        known = [state for state in groups if len(state.committed.cut.get(name, ())) == len(newest)]
        readers = [state for state in known if state.name in reading]
        guards = [state for state in readers if state.guards]
        if guards or len(readers) == 1:
            found[name] = (guards or readers)[0].committed.cut[name]
    return found


class Snapshot:
    """The database as it was when the snapshot was taken.

    Views are at their group's committed epoch. Tables that a group reads are at that epoch's cut, so that a view and its
    tables agree. A table that several groups read is where the immediate views are that guard it, or else as it was at that
    moment, like tables that none reads.
    It keeps nothing alive: if the logs are trimmed past its point, or a table is dropped and made again, its reads end in
    `SnapshotTooOld`, never in other rows; if a table is gone, in `NotFound`.
    """

    def __init__(self, store: Store, catalog: ViewCatalog, only: Collection[str] | None = None) -> None:
        """With `only`, of no other tables than these; without a view among them there is none to agree with, and they are as
        they were at that moment."""
        self._store = store
        self._shapes, lineage, groups, self._cut = _looked_at(store, catalog, only)
        if only is None or any(self._shapes[name].spec.kind is Kind.VIEW for name in only if name in self._shapes):
            self._cut |= _cuts_of_readers(lineage, groups, self._cut)
        self._epochs = {state.name: state.committed.epoch for state in groups}

    def rows(self, names: Collection[str]) -> dict[str, pa.Table]:
        """All rows of tables and views at that point; `NotFound` if one is no longer there."""
        gone = [name for name in names if name not in self._shapes]
        if gone:
            raise NotFound(f'"{gone[0]}" was dropped meanwhile', hint="call again without it")
        views = [name for name in names if self._shapes[name].spec.kind is Kind.VIEW]
        return {name: (self.view(name) if name in views else self.table(name)).scan() for name in names}

    def _position(self, spec: TableSpec) -> Positions:
        return self._cut[spec.name] if spec.group is None else (self._epochs[spec.group],) * spec.regions

    def table(self, name: str) -> TableAt:
        """A table at that point, for reading."""
        shape = self._shape(name, Kind.BASE)
        return TableAt(self._store, shape, self._position(shape.spec))

    def view(self, name: str) -> ViewAt:
        """A view at that point."""
        shape = self._shape(name, Kind.VIEW)
        return ViewAt(self._store, shape, self._position(shape.spec))

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
