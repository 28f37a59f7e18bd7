"""Selection, projection and inner join, which are one rule: their result is linear in each of their inputs.

For sources A, B, C and a change of each,

    Δ(A ⋈ B ⋈ C) = ΔA ⋈ B₀ ⋈ C₀  +  A₁ ⋈ ΔB ⋈ C₀  +  A₁ ⋈ B₁ ⋈ ΔC

where ₀ is the state before this epoch and ₁ the one after it: the sources before the changed one are seen after their
change, those after it before theirs, so no pair of changes counts twice. A self-join is two sources over one table.

Why it is sound: a row of the result has the product of its rows' weights as weight, and filters and projections look at
one row at a time, so every term above is a sum over rows. Duplicates and deletes are weights. Rows are joined on columns of
one exact type, where equality of values is Spark's equality and NULL equals nothing; every other condition and every
expression is the query's own, evaluated by Spark.

Cost: the rows of B that can meet ΔA are found by probing B by its join columns, so a term reads what it joins. What is
read may be more than what matches (a further condition decides), never less.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from viewkeeper import names
from viewkeeper.sql.algebra import Outer, Part, Select, Side, Source

if TYPE_CHECKING:
    from viewkeeper.maintain.plan import Shape

Table = Callable[[Source], str]
"""The name under which Spark knows the rows that stand for a source."""


def part_sql(part: Part, table: Table, sign: int = 1) -> str:
    """A part over the given tables, each of which has its columns and `names.WEIGHT`; so has the result, times `sign`."""
    outputs = ", ".join(f"{output.sql} AS {names.quoted(output.name)}" for output in part.outputs)
    weight = f"{_weight(part)} * {sign}L AS {names.WEIGHT}"
    items = f"{outputs}, {weight}" if outputs else weight
    return f"SELECT {items} FROM {from_sql(part, table)}{where_sql(conditions_of(part))}"


def conditions_of(part: Part) -> Sequence[str]:
    """What WHERE must say: of an inner join the equalities too, which an outer join has in ON."""
    return [*(edge.sql for edge in part.edges), *part.conditions] if isinstance(part, Select) else part.conditions


def where_sql(conditions: Sequence[str]) -> str:
    """WHERE with all of these, or nothing."""
    return f" WHERE {' AND '.join(f'({condition})' for condition in conditions)}" if conditions else ""


def joined_sql(part: Select, inputs: Mapping[str, Shape], table: str) -> str:
    """A part over rows that are already joined on its edges, with columns `alias.column`.

    Each source's columns become one struct of the source's name, so that the query's own `alias.column` finds them.
    The inner query has a name because Spark would take `WHERE (false)` for one.
    """
    structs = []
    for source in part.sources:
        fields = ", ".join(
            f"{names.quoted(names.qualified(source.alias, c))} AS {names.quoted(c)}"
            for c in inputs[source.table].columns
        )
        structs.append(f"struct({fields}) AS {names.quoted(source.alias)}")
    outputs = [f"{output.sql} AS {names.quoted(output.name)}" for output in part.outputs]
    inner = f"SELECT {', '.join(structs)}, {names.WEIGHT} FROM {table}"
    return f"SELECT {', '.join([*outputs, names.WEIGHT])} FROM ({inner}) AS _vk_joined{where_sql(part.conditions)}"


def _weight(part: Part) -> str:
    match part:
        case Select(sources):
            return " * ".join(f"{names.quoted(source.alias)}.{names.WEIGHT}" for source in sources)
        case Outer(_, left, right):
            return " * ".join(f"coalesce({names.quoted(source.alias)}.{names.WEIGHT}, 1L)" for source in (left, right))


def from_sql(part: Part, table: Table) -> str:
    """What follows FROM: the sources under the names that the part's SQL has for them."""
    match part:
        case Select(sources):
            return " CROSS JOIN ".join(f"{table(source)} AS {names.quoted(source.alias)}" for source in sources)
        case Outer(side, left, right, _, on):
            word = "LEFT" if side is Side.LEFT else "FULL"
            one, two = (f"{table(source)} AS {names.quoted(source.alias)}" for source in (left, right))
            return f"{one} {word} JOIN {two} ON {on}"


def empty_inputs(inputs: Mapping[str, Shape]) -> dict[str, pa.Schema]:
    """What a part's inputs look like to Spark."""
    return {table: shape.schema.append(pa.field(names.WEIGHT, pa.int64())) for table, shape in inputs.items()}


def is_plain(part: Part) -> bool:
    """Whether the part only joins on its edges and picks columns: nothing for Spark to evaluate."""
    return (
        isinstance(part, Select) and not part.conditions and all(output.column is not None for output in part.outputs)
    )


def pick_columns(part: Part, joined: pa.Table) -> pa.Table:
    """A plain part of joined rows."""
    picked = [output.column for output in part.outputs if output.column is not None]
    columns = [joined[names.qualified(column.alias, column.name)] for column in picked]
    return pa.table([*columns, joined[names.WEIGHT]], names=[*(o.name for o in part.outputs), names.WEIGHT])
