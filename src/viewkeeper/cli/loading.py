"""Rows of files into a table: all of them or none, or all that fit with the others set aside.

The law: a wrong row is named by its file and its line, and then nothing has been written. Files are read and judged batch
by batch; what is good is kept in memory, as Arrow keeps it, and written at the end in one transaction, so that a crash too
leaves all of it or nothing. An import needs as much memory as its rows take.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa

from viewkeeper import rows
from viewkeeper.cli.show import plain
from viewkeeper.cli.sources import Batch, Kind, batches
from viewkeeper.errors import RowError
from viewkeeper.rows.duplicates import first_duplicate
from viewkeeper.rows.problems import duplicate_key
from viewkeeper.store.contract import TableSpec
from viewkeeper.store.encoding import to_python

if TYPE_CHECKING:
    from viewkeeper.database import Table

Progress = Callable[[Path, int], None]
"""Called with a file, and how many of its bytes have been read."""

Place = Callable[[int], str]
"""Where a row stands, for people, given its number in a batch."""

WAY_OUT = "to set such rows aside and write the others: --skip-bad FILE"


@dataclass(frozen=True)
class Wanted:
    """What to read, and how."""

    files: Sequence[Path]
    kind: Kind | None = None
    delimiter: str | None = None


@dataclass(frozen=True)
class Loaded:
    """What an import did."""

    rows: int
    set_aside: int


def load(table: Table, wanted: Wanted, progress: Progress, skip_bad: Path | None = None) -> Loaded:
    """Put the files' rows into the table in one transaction. With `skip_bad`, rows that do not fit go into that file."""
    spec = TableSpec(table.name, table.schema, table.key, table.key, 1)
    with ExitStack() as stack:
        aside = None if skip_bad is None else Aside(skip_bad, stack)
        kept = _Kept(spec)
        for file in wanted.files:
            for batch in batches(file, wanted.kind, table.schema, wanted.delimiter):
                _judge(spec, batch, kept, aside)
                progress(file, batch.read)
        table.put(kept.whole())
        return Loaded(kept.count, 0 if aside is None else aside.count)


# Good rows and bad ones


class _Kept:
    """The good rows, and where each of them stands."""

    def __init__(self, spec: TableSpec) -> None:
        self._spec = spec
        self._parts: list[pa.Table] = [spec.schema.empty_table()]
        self._places: list[tuple[int, Place]] = []
        self._keys: set[tuple[Any, ...]] = set()
        self.count = 0

    def add(self, part: pa.Table, place: Place) -> None:
        self._places.append((self.count, place))
        self._parts.append(part)
        self.count += part.num_rows

    def add_if_new(self, part: pa.Table, place: Place) -> bool:
        """Keep rows unless one of their keys was there before; whether they were kept."""
        keys = set(zip(*(to_python(part[name]) for name in self._spec.key), strict=True))
        if not self._keys.isdisjoint(keys):
            return False
        self._keys |= keys
        self.add(part, place)
        return True

    def whole(self) -> pa.Table:
        """All of it, in which every key is there once."""
        whole = pa.concat_tables(self._parts).combine_chunks()
        twice = first_duplicate([whole[name] for name in self._spec.key])
        if twice is not None:
            key = tuple(to_python(whole[name].slice(twice[0], 1))[0] for name in self._spec.key)
            raise _located(duplicate_key(self._spec, key, *twice), self._place)
        return whole

    def _place(self, row: int) -> str:
        start, place = next((start, place) for start, place in reversed(self._places) if start <= row)
        return place(row - start)


def _judge(spec: TableSpec, batch: Batch, kept: _Kept, aside: Aside | None) -> None:
    """By the library's own rules: a batch at a time, and row by row where one is bad and has a place to go.

    A column that the whole file lacks, or has too much, is no row's fault: then nothing is set aside.
    """
    place = _placer(batch)
    if batch.broken is not None:
        bad = RowError(f"{place(0)}: {batch.broken}: nothing was written", hint=WAY_OUT)
        _put_aside(aside, batch, 0, batch.broken, bad)
        return
    try:
        good = rows.rows_table(spec, batch.given)
    except RowError as error:
        if aside is None or error.fields.get("row") is None:
            raise _located(error, place) from None
        _row_by_row(spec, batch, kept, aside)
        return
    if aside is None:
        kept.add(good, place)
    elif not kept.add_if_new(good, place):
        _row_by_row(spec, batch, kept, aside)


def _row_by_row(spec: TableSpec, batch: Batch, kept: _Kept, aside: Aside) -> None:
    place = _placer(batch)
    for number in range(batch.count):
        given = batch.given.slice(number, 1) if isinstance(batch.given, pa.Table) else batch.given[number : number + 1]
        try:
            row = rows.rows_table(spec, given)
        except RowError as error:
            aside.add(batch, number, _fact(error))
            continue
        if not kept.add_if_new(row, partial(_shifted, place, number)):
            aside.add(batch, number, "its key was there before")


def _shifted(place: Place, by: int, row: int) -> str:
    return place(row + by)


def _put_aside(aside: Aside | None, batch: Batch, number: int, why: str, error: RowError) -> None:
    if aside is None:
        raise error
    aside.add(batch, number, why)


class Aside:
    """The file of rows that did not fit: an object per line, with the place, the reason and the row. Made when needed."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        self._path = path
        self._stack = stack
        self._file: IO[str] | None = None
        self.count = 0

    def add(self, batch: Batch, number: int, why: str) -> None:
        if self._file is None:
            self._file = self._stack.enter_context(self._path.open("w", encoding="utf-8"))
        facts = {
            "file": str(batch.file),
            batch.word: batch.place(number),
            "error": why,
            "row": plain(batch.raw(number)),
        }
        self._file.write(json.dumps(facts, ensure_ascii=False, default=str) + "\n")
        self.count += 1


# Where and what


def _placer(batch: Batch) -> Place:
    """Without a hold on the batch's rows."""
    file, word, place = batch.file, batch.word, batch.place
    return lambda row: f"{file}, {word} {place(row)}"


def _fact(error: RowError) -> str:
    """The library's sentence without its own account of the place, which counts from 0 and knows of no file."""
    return error.message.partition(": ")[2]


def _located(error: RowError, place: Place) -> RowError:
    row, first = error.fields.get("row"), error.fields.get("first_row")
    fact = _fact(error) if first is None else re.sub(r"is in row \d+ too$", f"is in {place(first)} too", _fact(error))
    where = place(0).rpartition(", ")[0] if row is None else place(row)
    hint = error.hint if row is None else f"{error.hint}; {WAY_OUT}" if error.hint else WAY_OUT
    return RowError(f"{where}: {fact}: nothing was written", hint=hint, **error.fields)
