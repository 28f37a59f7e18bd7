"""A view's blocks read back as one query: what maintenance takes the view to be, in words that Spark can answer.

The user's query and this one must have the same answer over any rows. They are put together from the very texts that
maintenance evaluates, names included, so a slip of the parser or of the compiler is in it too (`engine.rehearsal`).
"""

from __future__ import annotations

from collections.abc import Sequence

from viewkeeper.maintain.delta.select import conditions_of, from_sql, where_sql
from viewkeeper.names import quoted
from viewkeeper.sql.algebra import Aggregate, Block, Output, Part, Top


def as_query(blocks: Sequence[Block]) -> str:
    """The last block, with those before it in WITH.

    >>> from viewkeeper.sql.algebra import Column, Select, Source
    >>> rows = Select((Source("r", "r"),), (), ("`r`.`y` > 1",), (Output("x", "`r`.`x`", Column("r", "x")),))
    >>> print(as_query([Block("v", (rows,), Top.DISTINCT)]))
    SELECT DISTINCT * FROM (SELECT `r`.`x` AS `x` FROM `r` AS `r` WHERE (`r`.`y` > 1))
    """
    *inner, last = blocks
    with_ = ", ".join(f"{quoted(block.name)} AS ({_block(block)})" for block in inner)
    return f"WITH {with_} {_block(last)}" if inner else _block(last)


def _block(block: Block) -> str:
    rows = " UNION ALL ".join(_part(part) for part in block.parts)
    match block.top:
        case Top.ROWS:
            return rows
        case Top.DISTINCT:
            return f"SELECT DISTINCT * FROM ({rows})"
        case Aggregate(groups, calls, outputs):
            results = [f"{call.sql} AS a{number}" for number, call in enumerate(calls)]
            by = f" GROUP BY {', '.join(groups)}" if groups else ""
            state = f"SELECT {', '.join([*groups, *results, 'count(*) AS n'])} FROM ({rows}) AS part{by}"
            return f"SELECT {_items(outputs)} FROM ({state}) AS state"


def _part(part: Part) -> str:
    items = _items(part.outputs) or "1 AS _vk_one"
    sources = from_sql(part, lambda source: quoted(source.table))
    return f"SELECT {items} FROM {sources}{where_sql(conditions_of(part))}"


def _items(outputs: Sequence[Output]) -> str:
    return ", ".join(f"{output.sql} AS {quoted(output.name)}" for output in outputs)
