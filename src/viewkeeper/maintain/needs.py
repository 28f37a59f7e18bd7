"""The columns of a block's inputs that the block uses: what its changes carry along, and what its indexes keep.

A column is used if an output, a condition or an edge names it. Of each input at least the key is kept, so that rows never
lose their identity. Where a name cannot be told (a column without its source's name, as in a lambda's body), everything is
kept: too much is a waste, too little would be wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from viewkeeper.sql.algebra import Block, Outer, Part

if TYPE_CHECKING:
    from viewkeeper.maintain.plan import Shape

Named = tuple[str, str]


def narrowed(block: Block, inputs: Mapping[str, Shape]) -> dict[str, Shape]:
    """The inputs with the columns that the block uses and no others."""
    return {table: _narrowed(block, table, shape) for table, shape in inputs.items()}


def _narrowed(block: Block, table: str, shape: Shape) -> Shape:
    used: set[str] = set()
    for part in block.parts:
        names = _named(part)
        for source in part.sources:
            if source.table == table:
                used |= _of_source(source.alias.lower(), names, shape)
    kept = [name for name in shape.columns if name.lower() in used or name in shape.spec.key]
    return replace(shape, columns=tuple(kept) or shape.columns)


def _of_source(alias: str, names: Iterable[Named] | None, shape: Shape) -> set[str]:
    everything = {column.lower() for column in shape.columns}
    if names is None:
        return everything
    found = {column for source, column in names if source == alias}
    return everything if "*" in found else found


def _named(part: Part) -> set[Named] | None:
    """Every `source.column` that a part names, in lower case; None if some column has no source."""
    from viewkeeper.sql.syntax import columns_named

    texts = [output.sql for output in part.outputs if output.column is None]
    texts += [*part.conditions, *([part.on] if isinstance(part, Outer) else [])]
    found = {(o.column.alias.lower(), o.column.name.lower()) for o in part.outputs if o.column is not None}
    found |= {(end.alias.lower(), end.name.lower()) for edge in part.edges for end in (edge.left, edge.right)}
    for text in texts:
        named = columns_named(text)
        if named is None:
            return None
        found |= named
    return found
