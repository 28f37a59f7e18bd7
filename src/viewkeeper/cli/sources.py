"""Files of rows, read in batches: CSV, JSON lines, Parquet; a file, a folder or a pattern.

A batch carries its rows in the form that the library judges, and knows where each of them stands in its file. Memory is
bounded by a batch. Reading judges nothing but the form: broken JSON, a line of CSV with too many fields.
"""

from __future__ import annotations

import csv as plain_csv
import enum
import glob
import gzip
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from viewkeeper.cli.text_values import json_row, loads, text_value, types_of
from viewkeeper.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

BATCH = 20_000
"""Rows that are judged at a time."""

BLOCK = 4 << 20
"""Bytes of CSV that are parsed at a time."""


class Kind(enum.StrEnum):
    """What is in a file."""

    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


ENDINGS = {
    ".csv": Kind.CSV, ".tsv": Kind.CSV, ".json": Kind.JSON, ".jsonl": Kind.JSON, ".ndjson": Kind.JSON,
    ".parquet": Kind.PARQUET, ".pq": Kind.PARQUET,
}  # fmt: skip


@dataclass(frozen=True)
class Batch:
    """Some rows of a file, or a single thing in it that is no row (`broken` says why)."""

    file: Path
    given: Any
    """What the library takes: an Arrow table, or a list of dicts."""
    count: int
    word: str
    """What people call a row's place in this kind of file."""
    place: Callable[[int], int]
    """The place of a row, given its number in the batch, from 0."""
    raw: Callable[[int], Any]
    """A row as it stands in the file, for setting it aside."""
    read: int = 0
    """Bytes of the file that have been read, about."""
    broken: str | None = None


def kind_of(file: Path) -> Kind | None:
    """By the name's ending; .gz may come after it."""
    name = file.with_suffix("") if file.suffix == ".gz" else file
    return ENDINGS.get(name.suffix.lower())


def files_of(given: Sequence[str], kind: Kind | None) -> list[Path]:
    """Every file that is meant, each once. A folder means the files in it that have a known ending."""
    found: dict[Path, None] = {}
    for text in given:
        matches = [Path(text)] if Path(text).exists() else sorted(map(Path, glob.glob(text, recursive=True)))
        if not matches:
            raise InputError(f'"{text}" is not there', hint="give a file, a folder, or a pattern such as 'data/*.csv'")
        for match in matches:
            found |= dict.fromkeys(_inside(match) if match.is_dir() else [match])
    if not found:
        raise InputError(
            f"there is no file of rows in {', '.join(given)}", hint=f"the endings are {', '.join(ENDINGS)}"
        )
    for file in found:
        if kind is None and kind_of(file) is None:
            raise InputError(f'"{file}" has no ending that says what it is', hint="say it: --as csv, json or parquet")
    return list(found)


def _inside(folder: Path) -> list[Path]:
    """Hidden files and those with a leading underscore are notes that programs leave, such as Spark's _SUCCESS."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and kind_of(path) is not None)
    return [path for path in files if not path.name.startswith((".", "_"))]


def batches(file: Path, kind: Kind | None, schema: pa.Schema, delimiter: str | None) -> Iterator[Batch]:
    """A file's rows, batch by batch."""
    import pyarrow as pa

    try:
        match kind or kind_of(file):
            case Kind.CSV:
                yield from _csv(file, schema, delimiter or ("\t" if ".tsv" in file.suffixes else ","))
            case Kind.PARQUET:
                yield from _parquet(file)
            case _:
                yield from _json(file, schema)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        first = next(iter(str(error).splitlines()), type(error).__name__)
        raise InputError(f'file "{file}" cannot be read: {first}', hint="look at the file") from error


@contextmanager
def _bytes_of(file: Path) -> Iterator[tuple[IO[bytes], Any]]:
    """The bytes on disk, whose position tells how far we are, and what they hold."""
    with file.open("rb") as raw:
        yield raw, gzip.GzipFile(fileobj=raw) if file.suffix == ".gz" else raw


# CSV


def _csv(file: Path, schema: pa.Schema, delimiter: str) -> Iterator[Batch]:
    """Every field is read as text: what a text means is the column's to say. An empty field without quotes is NULL."""
    import pyarrow as pa
    from pyarrow import csv

    lines = _Lines(file, delimiter)
    odd: list[Any] = []
    """Rows with too many or too few fields, which the parser leaves out. It reads ahead of the batches."""

    def set_aside(row: Any) -> str:
        odd.append(row)
        return "skip"

    with _bytes_of(file) as (raw, stream):
        reader = csv.open_csv(
            stream,
            read_options=csv.ReadOptions(block_size=BLOCK, use_threads=False),
            parse_options=csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=set_aside),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(lines.header(), pa.string()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        seen = 0
        for block in reader:
            for start in range(0, block.num_rows, BATCH):
                texts = pa.Table.from_batches([block.slice(start, BATCH)])
                yield _csv_batch(file, texts, schema, lines.places(seen, odd), raw.tell())
                seen += texts.num_rows
    for row in odd:
        why = f"it has {row.actual_columns} fields, and the header has {row.expected_columns}"
        yield _broken(file, "line", lines.start_of(row.number), row.text, why)


def _csv_batch(file: Path, texts: pa.Table, schema: pa.Schema, place: Callable[[int], int], read: int) -> Batch:
    types = types_of(schema)
    given = _cast(texts, types)
    if given is None:
        given = [
            {
                name: text_value(types[name], text) if text is not None and name in types else text
                for name, text in row.items()
            }
            for row in texts.to_pylist()
        ]
    return Batch(file, given, texts.num_rows, "line", place, lambda row: texts.slice(row, 1).to_pylist()[0], read)


def _cast(texts: pa.Table, types: dict[str, pa.DataType]) -> pa.Table | None:
    """All texts as their types by Arrow, at its speed; None where that cannot be, and each value is looked at by itself."""
    import pyarrow as pa

    columns = []
    for name in texts.column_names:
        kind = types.get(name, pa.string())
        if pa.types.is_nested(kind) or pa.types.is_binary(kind):
            return None
        try:
            columns.append(texts.column(name).cast(kind))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None
    return pa.Table.from_arrays(columns, names=texts.column_names)


class _Lines:
    """Where the rows of a CSV file stand. Looked up only when something is wrong: a row may have many lines."""

    def __init__(self, file: Path, delimiter: str) -> None:
        self._file = file
        self._delimiter = delimiter

    def header(self) -> list[str]:
        return next(self._rows(), (0, []))[1]

    def start_of(self, row: int) -> int:
        """The line where a row begins. Rows are counted from 1, which is the header, and empty lines are none."""
        return next(itertools.islice(self._rows(), row - 1, None), (0, []))[0]

    def places(self, seen: int, odd: Sequence[Any]) -> Callable[[int], int]:
        """The lines of the good rows after the first `seen` ones: between them stand the odd ones."""

        def place(row: int) -> int:
            number = seen + row + 2
            for other in odd:
                number += other.number <= number
            return self.start_of(number)

        return place

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        opened = gzip.open if self._file.suffix == ".gz" else open
        with opened(self._file, "rt", newline="", encoding="utf-8-sig") as lines:
            reader = plain_csv.reader(lines, delimiter=self._delimiter)
            start = 1
            for fields in reader:
                if fields:
                    yield start, fields
                start = reader.line_num + 1


# JSON lines


def _json(file: Path, schema: pa.Schema) -> Iterator[Batch]:
    types = types_of(schema)
    with _bytes_of(file) as (raw, stream):
        numbered = ((number, line) for number, line in enumerate(stream, 1) if line.strip())
        while lines := list(itertools.islice(numbered, BATCH)):
            yield from _json_batches(file, lines, types, raw.tell())


def _json_batches(
    file: Path, lines: list[tuple[int, bytes]], types: dict[str, pa.DataType], read: int
) -> Iterator[Batch]:
    rows, numbers, texts = [], [], []
    for number, line in lines:
        try:
            row = loads(line)
            if not isinstance(row, dict):
                raise ValueError("it is not an object")
        except ValueError as error:
            yield _broken(
                file, "line", number, line.decode(errors="replace").strip(), f"it is not a row of JSON: {error}"
            )
            continue
        rows.append(json_row(types, row))
        numbers.append(number)
        texts.append(line)
    yield Batch(file, rows, len(rows), "line", numbers.__getitem__, lambda row: loads(texts[row]), read)


def _broken(file: Path, word: str, place: int, text: str, why: str) -> Batch:
    return Batch(file, [], 1, word, lambda _: place, lambda _: text, broken=why)


# Parquet


def _parquet(file: Path) -> Iterator[Batch]:
    import pyarrow as pa
    from pyarrow import parquet

    with parquet.ParquetFile(file) as opened:
        seen, total, size = 0, max(1, opened.metadata.num_rows), file.stat().st_size
        for batch in opened.iter_batches(batch_size=BATCH):
            yield _parquet_batch(file, pa.Table.from_batches([batch]), seen, size * (seen + batch.num_rows) // total)
            seen += batch.num_rows


def _parquet_batch(file: Path, table: pa.Table, seen: int, read: int) -> Batch:
    return Batch(
        file,
        table,
        table.num_rows,
        "row",
        lambda row: seen + row + 1,
        lambda row: table.slice(row, 1).to_pylist()[0],
        read,
    )
