"""The tables that several experiments of one run look at: built once, filled with views when somebody needs them.

Ten million rows take half a minute to write, and a view over them as long to fill. Whoever changes these tables leaves
their views behind; whoever looks at a view brings it up to date first.
"""

from __future__ import annotations

from pathlib import Path

from viewkeeper.bench.workload import Query, Tables


class Shared:
    """Tables by their size at first. `close` lets go of the files; the folder is the caller's to remove."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self._seed = seed
        self._tables: dict[tuple[int, int], Tables] = {}
        self._exported: set[Path] = set()

    def tables(self, rows: int, partners: int) -> Tables:
        """R with so many rows and S with so many partners, made now if this is the first call."""
        size = rows, partners
        if size not in self._tables:
            folder = self._folder / f"shared-{rows}-{partners}.vk"
            self._tables[size] = Tables(folder, rows, partners, self._seed + rows)
        return self._tables[size]

    def have(self, tables: Tables, query: Query) -> None:
        """Make the view if it is not there, and bring it up to date."""
        if query.name not in {view.name for view in tables.db.views()}:
            tables.db.create_view(query.name, query.sql, refresh=query.refresh)
        tables.db.refresh(query.name)

    def exported(self, tables: Tables) -> Path:
        """The folder with both tables as Parquet, as they were when somebody first asked: for those who time reading it."""
        folder = self._folder / f"{tables.folder.stem}.parquet"
        if folder not in self._exported:
            tables.export(folder)
            self._exported.add(folder)
        return folder

    def reopen(self) -> None:
        """Every database anew, with nothing that it had in memory."""
        for tables in self._tables.values():
            tables.close()
            tables.open()

    def close(self) -> None:
        for tables in self._tables.values():
            tables.close()
