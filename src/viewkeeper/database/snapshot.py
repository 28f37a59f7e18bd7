"""Snapshots: any number of tables at one point, held while writers go on."""

from __future__ import annotations

from types import TracebackType

from viewkeeper.database.table import TableAt
from viewkeeper.errors import NotFound
from viewkeeper.store.contract import Kind, Store


class Snapshot:
    """The database as it was when the snapshot was taken.

    It keeps nothing alive: if the logs are trimmed past its point, its reads end in `SnapshotTooOld`, never in other rows.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._specs = {spec.name: spec for spec in store.tables() if spec.kind is Kind.BASE}
        self._cut = store.cut(list(self._specs))

    def table(self, name: str) -> TableAt:
        """A table at that point, for reading."""
        for known, spec in self._specs.items():
            if known.lower() == name.lower():
                return TableAt(self._store, spec, self._cut[known])
        raise NotFound(f'table "{name}" is not in the snapshot', hint=f"it has {', '.join(self._specs) or 'no tables'}")

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None
