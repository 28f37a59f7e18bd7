"""CREATE MATERIALIZED VIEW and DROP MATERIALIZED VIEW: text -> frozen values that say what to do.

sqlglot does not know the clauses, so what stands before AS is read here word by word, and each word that has no place is
an error. The query after AS is kept as it was written; that it is one query is all that is checked of it here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from viewkeeper.errors import InputError, StatementError
from viewkeeper.names import check_name
from viewkeeper.sql.refresh import UNITS, Every, Immediate, OnDemand, Policy, Refresh, every, parse_policy
from viewkeeper.sql.schemas import not_supported
from viewkeeper.sql.syntax import parse_one
from viewkeeper.sql.words import Words

CREATE_VIEW = (
    "CREATE MATERIALIZED VIEW [IF NOT EXISTS] name [CLUSTER BY (column, ...)] "
    "[REFRESH ON DEMAND | REFRESH EVERY 2 SECONDS | REFRESH IMMEDIATE] [POLICY AUTO | INCREMENTAL | FULL] AS SELECT ..."
)
DROP_VIEW = "DROP MATERIALIZED VIEW [IF EXISTS] name"


@dataclass(frozen=True)
class CreateView:
    """`query` is the text after AS as it was written, comments and all. An empty `cluster` leaves the choice to us."""

    name: str
    query: str
    cluster: tuple[str, ...] = ()
    refresh: Refresh = field(default_factory=OnDemand)
    policy: Policy = Policy.AUTO
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropView:
    name: str
    if_exists: bool = False


def parse_view_statement(text: str) -> CreateView | DropView | None:
    """What a statement about a view asks for; None if the text begins like another statement.

    >>> parse_view_statement("CREATE MATERIALIZED VIEW v REFRESH EVERY 2 SECONDS AS SELECT a FROM t;")
    CreateView(name='v', query='SELECT a FROM t', cluster=(), refresh=Every(seconds=2.0), ...)
    >>> parse_view_statement("DROP MATERIALIZED VIEW v")
    DropView(name='v', if_exists=False)
    """
    words = Words.of(text)
    if words.accept("CREATE", "OR", "REPLACE", "MATERIALIZED", "VIEW"):
        raise not_supported("CREATE MATERIALIZED VIEW", "OR REPLACE")
    if words.accept("CREATE", "MATERIALIZED", "VIEW"):
        words.refuse_others()
        return _create_view(words)
    if words.accept("DROP", "MATERIALIZED", "VIEW"):
        words.refuse_others()
        return _drop_view(words)
    return None


def _create_view(words: Words) -> CreateView:
    if_not_exists = words.accept("IF", "NOT", "EXISTS")
    name = _view_name(words)
    clauses = _clauses(words)
    return CreateView(name=name, query=_query(words), if_not_exists=if_not_exists, **clauses)


def _drop_view(words: Words) -> DropView:
    if_exists = words.accept("IF", "EXISTS")
    name = _view_name(words)
    if not words.ended:
        raise words.error("expected the end of the statement", hint=f"write: {DROP_VIEW}")
    return DropView(name=name, if_exists=if_exists)


def _view_name(words: Words) -> str:
    start = words.place
    name = words.accept_name()
    if name is None:
        raise words.error("expected the view's name")
    if words.accept("."):
        raise words.error("the name has more than one part", since=start, hint="a view's name is one word")
    return check_name(name, "view")


# The clauses between the name and AS


def _clauses(words: Words) -> dict[str, Any]:
    """Each clause at most once, in any order, by the name of its field; goes past AS."""
    found: dict[str, Any] = {}
    while True:
        start = words.place
        if words.accept("AS"):
            return found
        clause = next((clause for clause in _CLAUSES if words.accept(*clause.split())), None)
        if clause is None:
            raise _no_clause(words)
        part, read = _CLAUSES[clause]
        if part in found:
            raise words.error(f"{clause} is given twice", since=start)
        found[part] = read(words)


def _no_clause(words: Words) -> StatementError:
    if words.accept("("):
        words.place -= 1
        return words.error("a list of columns is not supported", hint="name the columns in the query: SELECT x AS name")
    return words.error("expected CLUSTER BY, REFRESH, POLICY or AS", hint=f"write: {CREATE_VIEW}")


def _cluster(words: Words) -> tuple[str, ...]:
    if not words.accept("("):
        raise words.error("expected (", hint="write: CLUSTER BY (column, ...)")
    columns = [_column(words, ())]
    while not words.accept(")"):
        if not words.accept(","):
            raise words.error("expected , or )", hint="write: CLUSTER BY (column, ...)")
        columns.append(_column(words, columns))
    return tuple(columns)


def _column(words: Words, before: list[str] | tuple[()]) -> str:
    start = words.place
    name = words.accept_name()
    if name is None:
        raise words.error("expected a column's name")
    if name.lower() in (column.lower() for column in before):
        raise words.error(f'CLUSTER BY names column "{name}" twice', since=start)
    return name


def _refresh(words: Words) -> Refresh:
    if words.accept("ON", "DEMAND"):
        return OnDemand()
    if words.accept("IMMEDIATE"):
        return Immediate()
    if words.accept("EVERY"):
        return _every(words)
    raise words.error("expected ON DEMAND, EVERY n SECONDS or IMMEDIATE")


def _every(words: Words) -> Every:
    start = words.place
    number = words.accept_number()
    if number is None:
        raise words.error("expected a number", hint="write: REFRESH EVERY 2 SECONDS")
    unit = words.accept_one(*(unit.upper() for unit in UNITS))
    if unit is None:
        raise words.error("expected SECONDS or MINUTES", hint="write: REFRESH EVERY 2 SECONDS")
    try:
        return every(number, unit)
    except InputError as error:
        raise words.error(error.message, since=start, hint=error.hint) from None


def _policy(words: Words) -> Policy:
    found = words.accept_one("AUTO", "INCREMENTAL", "FULL")
    if found is None:
        raise words.error("expected AUTO, INCREMENTAL or FULL")
    return parse_policy(found)


_CLAUSES = {"CLUSTER BY": ("cluster", _cluster), "REFRESH": ("refresh", _refresh), "POLICY": ("policy", _policy)}
"""Clause -> the field it gives, and what reads it."""


# The query


def _query(words: Words) -> str:
    """From the first word after AS to the end of the statement, as written."""
    if words.ended:
        raise words.error("expected a query")
    start = words.words[words.place].start
    if not isinstance(_tree(words.text, start), exp.Query):
        raise words.error("expected a query", hint="a view's query begins with SELECT or WITH")
    return words.text[start : words.end].rstrip()


def _tree(text: str, start: int) -> exp.Expression:
    """The statement is blank up to the query, so that lines and columns of errors are those of the user's text."""
    return parse_one(re.sub(r"[^\r\n]", " ", text[:start]) + text[start:])
