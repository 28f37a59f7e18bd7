"""The types of a block's outputs, and one type for each of them where several parts are put together.

Spark gives a union's columns one type each, and casts what comes in to it. A change is often of one part alone, which Spark
then sees without the others: so each part says itself which type its outputs are cast to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from viewkeeper import names
from viewkeeper.maintain.delta.select import empty_inputs, part_sql
from viewkeeper.sql.algebra import Block, Output, Part
from viewkeeper.sql.types import sql_type

if TYPE_CHECKING:
    from viewkeeper.maintain.plan import Shape, Typer

Kinds = tuple[pa.DataType | None, ...]
"""The types of a part's outputs; None is not known."""


def with_one_type(block: Block, inputs: Mapping[str, Shape], typer: Typer) -> tuple[Block, pa.Schema]:
    """Several parts' outputs are cast to the types that Spark gives their union, since a change may be of one part alone.

    Unions inside it come first, each with its own types: of dates, strings and timestamps in this order, Spark reads the
    strings as dates, and what they say of the hour is lost.
    """
    parts = list(block.parts)
    kinds = [tuple(_column_type(part, output, inputs) for output in part.outputs) for part in parts]
    for first, end in block.unions:
        if len(set(kinds[first:end])) > 1 or None in kinds[first]:
            _cast_parts(parts, kinds, range(first, end), _part_schema(parts[first:end], inputs, typer))
    schema = _part_schema(parts, inputs, typer)
    if len(parts) > 1:
        _cast_parts(parts, kinds, range(len(parts)), schema)
    return replace(block, parts=tuple(parts)), schema


def _part_schema(parts: Sequence[Part], inputs: Mapping[str, Shape], typer: Typer) -> pa.Schema:
    """The columns of some parts. The weight is among them: a part that hides an aggregate cannot have one, and fails here."""
    texts = [part_sql(part, lambda source: f"empty_{source.table}") for part in parts]
    tables = {f"empty_{table}": shape for table, shape in empty_inputs(inputs).items()}
    schema = typer(" UNION ALL ".join(texts), tables)
    return pa.schema([field for field in schema if field.name != names.WEIGHT])


def _cast_parts(parts: list[Part], kinds: list[Kinds], places: Iterable[int], schema: pa.Schema) -> None:
    for place in places:
        outputs = zip(parts[place].outputs, kinds[place], schema.types, strict=True)
        parts[place] = replace(parts[place], outputs=tuple(_cast(*output) for output in outputs))
        kinds[place] = tuple(schema.types)


def _column_type(part: Part, output: Output, inputs: Mapping[str, Shape]) -> pa.DataType | None:
    """The type of an output that is a column as it is: it is known without asking."""
    if output.column is None:
        return None
    tables = {source.alias: source.table for source in part.sources}
    found: pa.DataType = inputs[tables[output.column.alias]].spec.schema.field(output.column.name).type
    return found


def _cast(output: Output, known: pa.DataType | None, kind: pa.DataType) -> Output:
    return output if known == kind else Output(output.name, f"CAST({output.sql} AS {sql_type(kind)})")
