"""A trial of what was understood: the user's query and the plan's, read back, over the same made-up rows.

Two readings of a query that differ do so in what they make of rows, and mostly of any rows. So a few of each table are made
up, NULLs, negative numbers and repeated values among them, and Spark answers both texts. Answers that differ are a proof
that the query was misread. Answers that agree are none that it was not, but each way of misreading that is known shows in them
(tests/views/test_rehearsal.py). Nothing of the database is read, and rows are always the same.

Rows that a query fails on (a cast, a division by zero) say nothing about it: then others are tried, more docile ones.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from viewkeeper.engine.oracle import compare
from viewkeeper.engine.spark import Spark
from viewkeeper.errors import QueryFailed, StatementError
from viewkeeper.sql.ties import with_ties_broken

ROWS = 40
"""Of each table: enough for groups of one row and of several, few enough for a join of three tables."""

SEED = 7
NULLS = 0.15
DAY = date(2024, 2, 27)


@dataclass(frozen=True)
class Manner:
    """How values are made up: the words that strings are, each half as often as the one before, and the numbers."""

    words: Sequence[str]
    numbers: Sequence[int]


MANNERS = (
    Manner(("a", "b", "c", "ab", "A", "", " a"), (-2, -1, 0, 1, 2, 3, 4, 5, 7)),
    Manner(("1", "2", "3", "10"), (1, 2, 3, 4, 5, 6)),
    Manner(("2024-02-27", "2024-02-28", "2024-03-01"), (1, 2, 3)),
    Manner(("2024-02-27 10:30:00", "2024-02-28 23:59:59"), (1, 2, 3)),
    Manner(('{"a": 1, "b": "x"}', '{"a": 2, "b": "y"}'), (1, 2, 3)),
)


@dataclass(frozen=True)
class Rehearsal:
    """Tries queries out."""

    spark: Spark

    def agree(self, query: str, other: str, schemas: Mapping[str, pa.Schema]) -> bool:
        """Whether two queries give the same rows of the same types, for all that can be seen."""
        for manner in MANNERS:
            tables = {name: made_up(schema, manner) for name, schema in schemas.items()}
            try:
                expected = self.spark.run(with_ties_broken(query), tables)
            except QueryFailed:
                continue
            return self._gives(other, tables, expected)
        return True

    def _gives(self, query: str, tables: Mapping[str, pa.Table], expected: pa.Table) -> bool:
        try:
            found = self.spark.run(with_ties_broken(query), tables)
        except (QueryFailed, StatementError):
            return False
        if not all(map(_same_fields, found.schema.types, expected.schema.types)):
            return False
        return compare("", 0, found.rename_columns(expected.column_names), expected).equal


def _same_fields(one: pa.DataType, two: pa.DataType) -> bool:
    """Whether fields inside have the same names. How wide a number is, and what may be NULL, the plan's own types say."""
    names, others = ([kind.field(place).name for place in range(kind.num_fields)] for kind in (one, two))
    if pa.types.is_struct(one) and names != others:
        return False
    inner = zip(_inner(one), _inner(two), strict=False)
    return len(names) == len(others) and all(_same_fields(mine, theirs) for mine, theirs in inner)


def _inner(kind: pa.DataType) -> list[pa.DataType]:
    return [kind.field(place).type for place in range(kind.num_fields)]


# Rows


def made_up(schema: pa.Schema, manner: Manner) -> pa.Table:
    """Rows of these types.

    >>> made_up(pa.schema([("k", pa.int64())]), MANNERS[1]).num_rows
    40
    """
    rng = random.Random(SEED)
    return pa.table([pa.array(_column(field, manner, rng), field.type) for field in schema], schema=schema)


def _column(field: pa.Field, manner: Manner, rng: random.Random) -> list[Any]:
    one = _maker(field.type, manner, rng)
    return [None if field.nullable and rng.random() < NULLS else one() for _ in range(ROWS)]


def _maker(kind: pa.DataType, manner: Manner, rng: random.Random) -> Callable[[], Any]:
    """What makes one value of a type."""
    if pa.types.is_struct(kind):
        fields = {kind.field(place).name: _maker(inner, manner, rng) for place, inner in enumerate(_inner(kind))}
        return lambda: {name: make() for name, make in fields.items()}
    if pa.types.is_map(kind):
        key, item = _maker(kind.key_type, manner, rng), _maker(kind.item_type, manner, rng)
        return lambda: list({key(): item() for _ in range(2)}.items())
    if pa.types.is_list(kind):
        value = _maker(kind.value_type, manner, rng)
        return lambda: [value() for _ in range(rng.randrange(1, 4))]
    return lambda: _scalar(kind, manner, rng)


def _scalar(kind: pa.DataType, manner: Manner, rng: random.Random) -> Any:
    number = rng.choice(manner.numbers)
    if pa.types.is_boolean(kind):
        return rng.random() < 0.5
    if pa.types.is_integer(kind):
        return number
    if pa.types.is_floating(kind):
        return number + rng.choice((0.0, 0.25, 0.5))
    if pa.types.is_decimal(kind):
        return Decimal(number).scaleb(-kind.scale)
    if pa.types.is_date(kind):
        return DAY + timedelta(days=number)
    if pa.types.is_timestamp(kind):
        moment = datetime(DAY.year, DAY.month, DAY.day, tzinfo=UTC) + timedelta(
            hours=7 * number, minutes=rng.randrange(60)
        )
        return moment if kind.tz else moment.replace(tzinfo=None)
    (word,) = rng.choices(manner.words, [2.0**-place for place in range(len(manner.words))])
    return word.encode() if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) else word
