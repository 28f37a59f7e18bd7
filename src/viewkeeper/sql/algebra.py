"""A query as maintenance sees it: blocks of a few frozen forms. Expressions stay SQL text, for Spark to evaluate.

A query is a sequence of blocks; each reads tables and earlier blocks, and the last one is the view. A block is

    parts                       what rows there are: joins, filters, expressions; the parts' rows are added up
    top                         what becomes of them: nothing (ROWS), duplicates removed (DISTINCT), or an Aggregate

Inside a part, columns are written `alias.column`. Names are as declared, except in SQL text, where Spark does not mind.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """A table, a view or an earlier block, under the name that the part's SQL has for it."""

    alias: str
    table: str


@dataclass(frozen=True)
class Column:
    alias: str
    name: str


@dataclass(frozen=True)
class Edge:
    """Two columns of different sources that must be equal; `sql` says so. With `merged` they are one column, by USING."""

    left: Column
    right: Column
    sql: str = ""
    merged: bool = False

    def at(self, alias: str) -> Column | None:
        """This edge's end at a source."""
        return next((end for end in (self.left, self.right) if end.alias == alias), None)

    def across(self, alias: str) -> Column:
        """The other end."""
        return self.right if self.left.alias == alias else self.left


@dataclass(frozen=True)
class Output:
    """A column of a part or of an aggregate: its name, its SQL, and the column it is, if it is nothing else."""

    name: str
    sql: str
    column: Column | None = None


@dataclass(frozen=True)
class Select:
    """Sources joined by equalities, then filtered by further conditions, then projected."""

    sources: tuple[Source, ...]
    edges: tuple[Edge, ...]
    conditions: tuple[str, ...]
    outputs: tuple[Output, ...]


class Side(enum.Enum):
    """Whose rows an outer join keeps when nothing matches. A right join is a left join, turned around."""

    LEFT = "left"
    FULL = "full"


@dataclass(frozen=True)
class Outer:
    """An outer join of two sources on `on` (the equalities included), then filtered, then projected."""

    side: Side
    left: Source
    right: Source
    edges: tuple[Edge, ...]
    on: str
    conditions: tuple[str, ...]
    outputs: tuple[Output, ...]

    @property
    def sources(self) -> tuple[Source, ...]:
        return (self.left, self.right)


Part = Select | Outer


class Function(enum.Enum):
    """Aggregate functions with a delta rule."""

    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"
    COUNT_DISTINCT = "count distinct"
    MIN_BY = "min_by"
    MAX_BY = "max_by"
    BOOL_AND = "bool_and"
    BOOL_OR = "bool_or"
    VAR_POP = "var_pop"
    VAR_SAMP = "var_samp"
    STDDEV_POP = "stddev_pop"
    STDDEV_SAMP = "stddev_samp"


@dataclass(frozen=True)
class Call:
    """An aggregate function over a column of the parts (None: every row counts). `sql` is the call over that column.

    For MIN_BY and MAX_BY the argument is what is ordered, and `carried` the column that is the result.
    """

    function: Function
    argument: str | None
    sql: str
    carried: str | None = None

    @property
    def values(self) -> tuple[str, ...]:
        """The columns that a value index of this call is over."""
        return tuple(name for name in (self.argument, self.carried) if name is not None)


@dataclass(frozen=True)
class Aggregate:
    """Rows by group. `groups` are columns of the parts; `outputs` are SQL over groups and `a0`, `a1` ..., the calls."""

    groups: tuple[str, ...]
    calls: tuple[Call, ...]
    outputs: tuple[Output, ...]


class Top(enum.Enum):
    """What a block without an aggregate does with its rows."""

    ROWS = "rows"
    DISTINCT = "distinct"


@dataclass(frozen=True)
class Block:
    """One step of a query. `name` is the view's own for the last block.

    `unions` are the UNION ALLs inside that of all parts, inner ones first: the first part of each, and the first after it. They
    make no difference to the rows, but to types: each has one of its own, to which Spark casts on the way to the last.
    """

    name: str
    parts: tuple[Part, ...]
    top: Top | Aggregate = Top.ROWS
    unions: tuple[tuple[int, int], ...] = ()

    @property
    def tables(self) -> tuple[str, ...]:
        """What it reads, each once."""
        return tuple(dict.fromkeys(source.table for part in self.parts for source in part.sources))


class NotIncremental(Exception):
    """A construct without a delta rule, and why."""

    def __init__(self, construct: str, reason: str) -> None:
        super().__init__(f"{construct} {reason}")
        self.construct = construct
        self.reason = reason
