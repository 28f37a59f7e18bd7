"""Random schemas, rows, changes and queries, all from one seed: few keys, few values, many NULLs.

Queries are drawn from a grammar of what views may say. They are typed while they are drawn, so that Spark takes nearly
all of them; doubles are small multiples of a power of two, so that a sum of them is exact in any order.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import viewkeeper as vk

BIGINT, INT, STRING, DECIMAL, DOUBLE, BOOLEAN, DATE = (
    "BIGINT", "INT", "STRING", "DECIMAL(10,2)", "DOUBLE", "BOOLEAN", "DATE",
)  # fmt: skip
KINDS = (BIGINT, INT, STRING, DECIMAL, DOUBLE, BOOLEAN, DATE)
NUMBERS = (BIGINT, INT, DECIMAL, DOUBLE)
OTHER = "whatever Spark says"
"""The type of a column that further expressions had better leave alone."""

VALUES: dict[str, list[Any]] = {
    BIGINT: [None, 0, 1, 2, 3, -5],
    INT: [None, 0, 1, 2, 3],
    STRING: [None, "", "a", "b", "B"],
    DECIMAL: [None, Decimal("0.00"), Decimal("1.25"), Decimal("-3.10"), Decimal("7.05")],
    DOUBLE: [None, 0.0, -0.0, 1.5, -2.25, float("nan"), float("inf")],
    BOOLEAN: [None, True, False],
    DATE: [None, dt.date(2024, 2, 29), dt.date(2024, 3, 1), dt.date(1999, 12, 31)],
}
LITERALS = {
    BIGINT: ["1L", "2L", "0L"],
    INT: ["1", "2", "0"],
    STRING: ["'a'", "'b'", "''"],
    DECIMAL: ["CAST(1.25 AS DECIMAL(10,2))"],
    DOUBLE: ["1.5D", "0.0D"],
    BOOLEAN: ["true", "false"],
    DATE: ["DATE'2024-03-01'"],
}


@dataclass(frozen=True)
class BaseTable:
    name: str
    columns: dict[str, str]
    key: tuple[str, ...]

    @property
    def ddl(self) -> str:
        columns = ", ".join(f"{name} {kind}" for name, kind in self.columns.items())
        return f"CREATE TABLE {self.name} ({columns}, PRIMARY KEY ({', '.join(self.key)}))"


@dataclass(frozen=True)
class Relation:
    """Something in FROM: its text with alias, and its columns by the text that names them."""

    sql: str
    columns: dict[str, str]


@dataclass(frozen=True)
class Query:
    """A query, the types of its columns, and whether every construct in it has a delta rule."""

    sql: str
    columns: dict[str, str]
    incremental: bool = True


POISONED = (50, 51, 52)
"""Keys of rows that make queries fail."""

Change = tuple[str, str, Any]
"""Table, what to do ("put" or "delete"), and with which row or key."""


@dataclass
class Scenario:
    """Everything that one seed gives."""

    seed: int
    tables: list[BaseTable] = field(default_factory=list)
    views: dict[str, Query] = field(default_factory=dict)
    dice: random.Random = field(default_factory=random.Random)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.tables = [self._table(number) for number in range(self.dice.choice([2, 2, 3]))]

    # Tables and rows

    def _table(self, number: int) -> BaseTable:
        kinds = [STRING, BIGINT, *self.dice.sample(KINDS, 3)]
        columns = {"k": self.dice.choice([BIGINT, INT])}
        if self.dice.random() < 0.3:
            columns["j"] = STRING
        key = tuple(columns)
        columns |= {f"c{place}": kind for place, kind in enumerate(kinds)}
        return BaseTable(f"t{number}", columns, key)

    def key(self, table: BaseTable) -> dict[str, Any]:
        return {name: self.dice.randrange(12) if name == "k" else self.dice.choice("pq") for name in table.key}

    def row(self, table: BaseTable) -> dict[str, Any]:
        values = {name: self.dice.choice(VALUES[kind]) for name, kind in table.columns.items()}
        return {**values, **self.key(table)}

    def batch(self) -> list[Change]:
        """Changes of one epoch: rows that come, go, move, and come back as they were."""
        touched = self.dice.sample(self.tables, self.dice.randint(1, len(self.tables)))
        return [change for table in touched for change in self._changes(table)]

    def poison(self) -> list[Change]:
        """Rows that no batch touches, with numbers so large that adding to them, or two of them, is an error."""
        most = {BIGINT: 2**63 - 1, INT: 2**31 - 1}
        return [
            (table.name, "put", {**self.row(table), **_greatest(table, most), **_poisoned(table, number)})
            for table in self.tables
            for number in POISONED
        ]

    def antidote(self) -> list[Change]:
        return [(table.name, "delete", _poisoned(table, number)) for table in self.tables for number in POISONED]

    def _changes(self, table: BaseTable) -> list[Change]:
        found: list[Change] = []
        for _ in range(self.dice.randint(1, 5)):
            what = self.dice.random()
            if what < 0.6:
                found.append((table.name, "put", self.row(table)))
            elif what < 0.9:
                found.append((table.name, "delete", self.key(table)))
            else:
                row = self.row(table)
                key = {name: row[name] for name in table.key}
                found += [(table.name, "put", row), (table.name, "delete", key), (table.name, "put", row)]
        return found

    # Queries

    def query(self) -> Query:
        """A view's query over tables and the views so far."""
        forms: list[tuple[int, Callable[[], Query]]] = [
            (3, self._rows), (3, self._aggregate), (2, self._distinct), (2, self._union), (2, self._nested),
            (1, self._with), (1, self._not_incremental),
        ]  # fmt: skip
        form = self.dice.choices([form for _, form in forms], [weight for weight, _ in forms])[0]
        return form()

    def _rows(self) -> Query:
        relation = self._from()
        items = [self.expression(relation) for _ in range(self.dice.randint(1, 3))]
        keys = [(name, kind) for name, kind in relation.columns.items() if self.dice.random() < 0.5]
        return self._select([*keys, *items], relation, self._where(relation))

    def _distinct(self) -> Query:
        relation = self._from()
        items = [self.expression(relation) for _ in range(self.dice.randint(1, 2))]
        return self._select(items, relation, self._where(relation), word="DISTINCT ")

    def _aggregate(self, relation: Relation | None = None) -> Query:
        relation = relation or self._from()
        groups = [self.expression(relation) for _ in range(self.dice.choice([0, 1, 1, 1, 2]))]
        calls = [self.call(relation) for _ in range(self.dice.randint(1, 4))]
        shown = [group for group in groups if self.dice.random() < 0.8]
        by = f" GROUP BY {', '.join(sql for sql, _ in groups)}" if groups else ""
        having = f" HAVING {self.call_condition(relation)}" if self.dice.random() < 0.25 else ""
        distinct = "DISTINCT " if self.dice.random() < 0.1 else ""
        return self._select([*shown, *calls], relation, self._where(relation) + by + having, word=distinct)

    def _select(self, items: Sequence[tuple[str, str]], relation: Relation, rest: str, word: str = "") -> Query:
        columns = {f"o{number}": kind for number, (_, kind) in enumerate(items)}
        shown = ", ".join(f"{sql} AS {name}" for (sql, _), name in zip(items, columns, strict=True))
        return Query(f"SELECT {word}{shown} FROM {relation.sql}{rest}", columns)

    def _union(self) -> Query:
        word = self.dice.choice(["UNION ALL", "UNION ALL", "UNION"])
        kinds = [self.dice.choice(KINDS) for _ in range(self.dice.randint(1, 2))]
        sides = []
        for _ in range(self.dice.choice([2, 2, 3])):
            relation = self._from(joins=1)
            items = [self.of_kind(relation, kind) for kind in kinds]
            sides.append(self._select([(sql, OTHER) for sql in items], relation, self._where(relation)).sql)
        return Query(f" {word} ".join(sides), {f"o{number}": kind for number, kind in enumerate(kinds)})

    def _nested(self) -> Query:
        """An aggregate over a query in FROM, which is often an aggregate itself."""
        inner = self.dice.choice([self._aggregate, self._rows, self._distinct, self._union])()
        relation = Relation(f"({inner.sql}) q", {f"q.{name}": kind for name, kind in inner.columns.items()})
        return self._aggregate(relation)

    def _with(self) -> Query:
        one, two = self._aggregate(), self._rows()
        columns = {f"p.{name}": kind for name, kind in one.columns.items()}
        columns |= {f"q.{name}": kind for name, kind in two.columns.items()}
        left, right = self._join_columns(one.columns, two.columns)
        relation = (
            Relation(f"p JOIN q ON p.{left} = q.{right}", columns) if left else Relation("p CROSS JOIN q", columns)
        )
        query = self._rows_over(relation)
        return Query(f"WITH p AS ({one.sql}), q AS ({two.sql}) {query.sql}", query.columns, incremental=False)

    def _rows_over(self, relation: Relation) -> Query:
        items = [self.expression(relation) for _ in range(self.dice.randint(1, 3))]
        return self._select(items, relation, self._where(relation))

    def _not_incremental(self) -> Query:
        table = self.dice.choice(self.tables)
        key = ", ".join(table.key)
        first = table.key[0]
        texts = [
            f"SELECT {key}, row_number() OVER (PARTITION BY c0 ORDER BY {key}) AS o9 FROM {table.name}",
            f"SELECT {key}, c0 FROM {table.name} ORDER BY {key} LIMIT 3",
            f"SELECT {key}, c0 FROM {table.name} WHERE {first} IN (SELECT k FROM {self.tables[0].name})",
            f"SELECT c0, SUM(DISTINCT c1) AS o9 FROM {table.name} GROUP BY c0",
            f"SELECT c0 FROM {table.name} INTERSECT SELECT c0 FROM {self.tables[0].name}",
        ]
        return Query(self.dice.choice(texts), {}, incremental=False)

    # FROM

    def _from(self, joins: int = 3) -> Relation:
        """A table or view, or two to four of them joined."""
        relation = self._source("a")
        for alias in "bcd"[: self.dice.choice([0, 0, 1, 1, 1, 2, 3][: joins * 2 + 1])]:
            relation = self._joined(relation, self._source(alias), alias)
        return relation

    def _source(self, alias: str) -> Relation:
        views = [(name, view.columns) for name, view in self.views.items() if view.columns]
        if views and self.dice.random() < 0.25:
            name, columns = self.dice.choice(views)
        else:
            table = self.dice.choice(self.tables)
            name, columns = table.name, table.columns
        if self.dice.random() < 0.1:
            kept = {column: kind for column, kind in columns.items() if self.dice.random() < 0.9} or columns
            text = f"(SELECT {', '.join(kept)} FROM {name})"
            return Relation(f"{text} {alias}", {f"{alias}.{column}": kind for column, kind in kept.items()})
        return Relation(f"{name} {alias}", {f"{alias}.{column}": kind for column, kind in columns.items()})

    def _joined(self, left: Relation, right: Relation, alias: str) -> Relation:
        columns = {**left.columns, **right.columns}
        one, two = self._join_columns(left.columns, right.columns)
        if not one or self.dice.random() < 0.05:
            return Relation(f"{left.sql} CROSS JOIN {right.sql}", columns)
        on = [f"{one} = {two}"]
        if self.dice.random() < 0.2:
            again = self._join_columns(left.columns, right.columns)
            on.append(f"{again[0]} = {again[1]}")
        if self.dice.random() < 0.3:
            on.append(self.condition(self.dice.choice([left, right, Relation("", columns)])))
        word = self.dice.choice(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        return Relation(f"{left.sql} {word} {right.sql} ON {' AND '.join(on)}", columns)

    def _join_columns(self, left: dict[str, str], right: dict[str, str]) -> tuple[str, str]:
        """Two columns that may well be equal; mostly of one type, sometimes INT beside BIGINT."""
        whole = (BIGINT, INT)
        pairs = [
            (one, two)
            for one, kind in left.items()
            for two, other in right.items()
            if kind in (BIGINT, INT, STRING, DATE) and (kind == other or (kind in whole and other in whole))
        ]
        return self.dice.choice(pairs) if pairs else ("", "")

    def _where(self, relation: Relation) -> str:
        return f" WHERE {self.condition(relation)}" if self.dice.random() < 0.35 else ""

    # Expressions

    def column(self, relation: Relation, kinds: Sequence[str]) -> str | None:
        found = [name for name, kind in relation.columns.items() if kind in kinds]
        return self.dice.choice(found) if found else None

    def of_kind(self, relation: Relation, kind: str) -> str:
        return self.column(relation, (kind,)) or self.dice.choice(LITERALS[kind])

    def expression(self, relation: Relation) -> tuple[str, str]:
        """An expression and its type, or `OTHER`."""
        column = self.column(relation, KINDS)
        if column is None:
            return self.dice.choice(["1", "'a'"]), OTHER
        kind = relation.columns[column]
        if self.dice.random() < 0.55:
            return column, kind
        made: dict[str, list[tuple[str, str]]] = {
            BIGINT: [(f"{column} % 2", BIGINT), (f"{column} + 1", BIGINT), (f"coalesce({column}, 7L)", BIGINT)],
            INT: [(f"{column} * 2", INT), (f"CAST({column} AS BIGINT)", BIGINT), (f"{column} / 2", DOUBLE)],
            STRING: [(f"upper({column})", STRING), (f"{column} || 'x'", STRING), (f"length({column})", INT)],
            DECIMAL: [(f"{column} * 2", OTHER), (f"CAST({column} AS INT)", INT), (f"-{column}", DECIMAL)],
            DOUBLE: [(f"{column} * 2D", DOUBLE), (f"abs({column})", DOUBLE), (f"isnan({column})", BOOLEAN)],
            BOOLEAN: [(f"NOT {column}", BOOLEAN), (f"if({column}, 1, 0)", INT), (f"{column} IS NULL", BOOLEAN)],
            DATE: [(f"year({column})", INT), (f"date_add({column}, 1)", DATE), (f"month({column}) % 2", INT)],
        }
        other = self.of_kind(relation, kind)
        return self.dice.choice([*made[kind], (f"CASE WHEN {column} = {other} THEN 1 ELSE 2 END", INT)])

    def condition(self, relation: Relation) -> str:
        column = self.column(relation, KINDS)
        if column is None:
            return "true"
        other = self.of_kind(relation, relation.columns[column])
        literal = self.dice.choice(LITERALS[relation.columns[column]])
        return self.dice.choice(
            [
                f"{column} IS NOT NULL",
                f"{column} IS NULL",
                f"{column} < {literal}",
                f"{column} >= {other}",
                f"{column} <=> {literal}",
                f"({column} = {other} OR {column} IS NULL)",
                f"{column} IN ({literal}, {literal})",
                f"NOT {column} = {literal}",
            ]
        )

    def call(self, relation: Relation) -> tuple[str, str]:
        """An aggregate, with what is made of it, and its type."""
        sql, kind = self._plain_call(relation)
        if self.dice.random() < 0.2:
            sql = f"{sql} FILTER (WHERE {self.condition(relation)})"
        if self.dice.random() < 0.15:
            return f"coalesce({sql}, {sql})", kind
        return sql, kind

    def _plain_call(self, relation: Relation) -> tuple[str, str]:
        number, any_ = self.column(relation, NUMBERS), self.column(relation, KINDS)
        exact, flag = self.column(relation, (BIGINT, INT, DECIMAL)), self.column(relation, (BOOLEAN,))
        found = [("count(*)", BIGINT)]
        if any_ is not None:
            kind = relation.columns[any_]
            found += [(f"{word}({any_})", kind) for word in ("min", "max")] * 2
            found += [(f"count({any_})", BIGINT), (f"count(DISTINCT {any_})", BIGINT)]
        if number is not None:
            whole = relation.columns[number] in (BIGINT, INT)
            total = BIGINT if whole else DOUBLE if relation.columns[number] == DOUBLE else OTHER
            found += [(f"sum({number})", total), (f"avg({number})", OTHER)] * 2
        if exact is not None:
            found += [(f"{word}({exact})", OTHER) for word in ("stddev", "variance", "var_pop", "stddev_pop")]
        if flag is not None:
            found += [(f"bool_and({flag})", BOOLEAN), (f"bool_or({flag})", BOOLEAN)]
        return self.dice.choice(found)

    def call_condition(self, relation: Relation) -> str:
        exact = self.column(relation, (BIGINT, INT))
        tests = ["count(*) > 1", "count(*) % 2 = 0"]
        return self.dice.choice([*tests, f"max({exact}) > 1", f"sum({exact}) IS NULL"] if exact else tests)


def _greatest(table: BaseTable, most: dict[str, int]) -> dict[str, int]:
    return {name: most[kind] for name, kind in table.columns.items() if kind in most and name not in table.key}


def _poisoned(table: BaseTable, number: int) -> dict[str, Any]:
    return {name: number if name == "k" else "p" for name in table.key}


def write(db: vk.Database, changes: Sequence[Change]) -> None:
    """The changes in order, each in a write of its own or all in one transaction where no key comes twice."""
    for table, what, given in changes:
        if what == "put":
            db.table(table).put(given)
        else:
            db.table(table).delete(given)


def write_at_once(db: vk.Database, changes: Sequence[Change]) -> None:
    with db.transaction() as tx:
        for table, what, given in changes:
            if what == "put":
                tx.table(table).put(given)
            else:
                tx.table(table).delete(given)
