"""Queries that could answer differently over the same rows: a view of one would never be true.

What can be seen in the text alone is refused by `refuse_unrepeatable`. What depends on the tables' columns and their types is
refused by `refuse_current_names` and `refuse_moments`: `user` is a function where there is no column of that name, and
`'today'` is a date where a date is wanted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sqlglot import Token, TokenType, exp

from viewkeeper.errors import StatementError
from viewkeeper.sql.refusals import function_name
from viewkeeper.sql.scopes import Columns, visible_names
from viewkeeper.sql.syntax import DIALECT, parse_one, tokens

UNREPEATABLE = {
    "CURRENT_CATALOG", "CURRENT_DATABASE", "CURRENT_DATE", "CURRENT_PATH", "CURRENT_SCHEMA", "CURRENT_TIME",
    "CURRENT_TIMESTAMP", "CURRENT_TIMEZONE", "CURRENT_USER", "CURDATE", "INPUT_FILE_BLOCK_LENGTH", "INPUT_FILE_BLOCK_START",
    "INPUT_FILE_NAME", "JAVA_METHOD", "LOCALTIME", "LOCALTIMESTAMP", "MONOTONICALLY_INCREASING_ID", "NOW", "RAND", "RANDN",
    "RANDOM", "RANDSTR", "REFLECT", "SESSION_USER", "SHUFFLE", "SPARK_PARTITION_ID", "TRY_REFLECT", "UNIFORM", "USER", "UUID",
}  # fmt: skip
"""Functions whose answer is not set by their arguments, or that call what nobody here knows."""

SOMETIMES = {"AES_ENCRYPT", "UNIX_TIMESTAMP"}
"""Those of which some calls are repeatable; see `_is_unrepeatable`."""

_BARE = {"CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "CURRENT_USER", "LOCALTIME", "SESSION_USER", "USER"}
"""Functions that Spark takes a name for, without parentheses, where no column has it."""

_MOMENT = re.compile(r"\s*(now|today|yesterday|tomorrow)(\s+\S+)?\s*", re.IGNORECASE)
"""Strings that Spark casts to the time of the evaluation, with or without a time zone. 'epoch' is always the same."""

_TIME_OF_DAY = re.compile(r"\s*(\d{1,2}:|T\d).*", re.DOTALL)
"""Strings without a date, as '10:30' and 'T10': Spark gives such a timestamp the date of the evaluation."""

_TIMES = {"DATE", "TIMESTAMP", "TO_DATE", "TO_TIMESTAMP", "TO_TIMESTAMP_LTZ", "TO_TIMESTAMP_NTZ", "TRY_TO_DATE",
          "TRY_TO_TIMESTAMP"}  # fmt: skip
"""Functions that cast a string to a date or a time."""

_WITH_FORMAT = {*_TIMES, "TO_UNIX_TIMESTAMP", "UNIX_TIMESTAMP"}
"""Functions that read a string by a format, if one is given: `to_timestamp('10:30', 'HH:mm')` is always of 1970."""


def refuse_unrepeatable(query: str) -> None:
    """`StatementError` for a query that could answer differently over the same rows; the expression is named.

    >>> refuse_unrepeatable("SELECT DATE'epoch', 'today' AS word FROM t")
    >>> refuse_unrepeatable("SELECT DATE'today' FROM t")
    Traceback (most recent call last):
    ...
    viewkeeper.errors.StatementError: the query is not deterministic: CAST('today' AS DATE) has another value at every evaluation
      hint: store the value in a column when the row is written
    """
    for node in parse_one(query).walk():
        if isinstance(node, exp.TableSample):
            raise StatementError(
                "the query is not deterministic: it samples its rows", hint="filter by a column instead"
            )
        if isinstance(node, exp.Func) and function_name(node) == "IDENTIFIER":  # of `IDENTIFIER('rand')()`, for one
            raise StatementError(
                f"{node.sql(DIALECT)} hides what the query names", hint="write the name itself, without IDENTIFIER"
            )
        if (isinstance(node, exp.Func) and _is_unrepeatable(node)) or _is_moment(node):
            raise _not_deterministic(node.sql(DIALECT))


def refuse_current_names(query: str, known: Columns) -> None:
    """`StatementError` for `user`, `current_time` and their like where there is no column of that name to be seen.

    In `SELECT x AS user FROM r WHERE x <> user` the second is Spark's function: WHERE does not see what SELECT names.
    """
    for column in parse_one(query).find_all(exp.Column):
        bare = not column.table and column.name.upper() in _BARE
        if bare and column.name.lower() not in visible_names(column, known):
            raise _not_deterministic(
                column.name,
                hint="store the value in a column when the row is written; if you mean a column, write table.column",
            )


def refuse_moments(query: str, is_valid: Callable[[str], bool]) -> None:
    """`StatementError` for a string such as 'today' or '10:30' that Spark itself casts to a time, as in `day > 'today'`.

    Only Spark knows where it does. So it is asked about the query with something else for the string: where a date is wanted
    a date will do and a truth value will not, and where text is wanted it is not so.
    """
    words = tokens(query)
    for place, token in enumerate(words):
        if token.token_type is TokenType.STRING and _is_now(token.text) and not _has_format(words, place):
            as_truth, as_date = (_with(query, token, text) for text in ("true", "DATE'1970-01-01'"))
            if not is_valid(as_truth) and is_valid(as_date):
                raise _not_deterministic(query[token.start : token.end + 1])


def _is_now(text: str) -> bool:
    return bool(_MOMENT.fullmatch(text) or _TIME_OF_DAY.fullmatch(text))


def _has_format(words: Sequence[Token], place: int) -> bool:
    """Whether a string is what a function reads by a format: its first argument of several."""
    around = [word.text.upper() for word in words[max(place - 2, 0) : place + 2]]
    return len(around) == 4 and around[0] in _WITH_FORMAT and around[1] == "(" and around[3] == ","


def _with(query: str, token: Token, text: str) -> str:
    return f"{query[: token.start]} {text} {query[token.end + 1 :]}"


def _is_unrepeatable(node: exp.Func) -> bool:
    name = function_name(node)
    if name == "UNIX_TIMESTAMP":
        return not node.expressions
    if name == "AES_ENCRYPT":
        return not _has_own_vector(node.expressions)
    return name in UNREPEATABLE


def _has_own_vector(arguments: list[exp.Expression]) -> bool:
    """Whether an encryption starts from what it is given: the fifth argument; mode ECB, the third, needs nothing."""
    if len(arguments) > 4:
        return True
    return len(arguments) > 2 and arguments[2].is_string and arguments[2].name.upper() == "ECB"


_DATED = exp.DataType.TEMPORAL_TYPES - {exp.DataType.Type.TIME, exp.DataType.Type.TIMETZ}
"""Types of which every value has a date. TIME'10:30' is always the same."""


def _is_moment(node: exp.Expr) -> bool:
    """A constant of which a string such as 'today' is a part, or a string such as '10:30', cast to a date or a time."""
    if isinstance(node, exp.Cast):
        is_time, arguments = node.to.is_type(*_DATED), [node.this]
    else:
        is_time, arguments = isinstance(node, exp.Func) and function_name(node) in _TIMES, node.expressions
    if not is_time or node.find(exp.Column):
        return False
    if len(arguments) == 1 and arguments[0].unnest().is_string and _is_now(arguments[0].unnest().name):
        return True
    return any(literal.is_string and _MOMENT.fullmatch(literal.name) for literal in node.find_all(exp.Literal))


def _not_deterministic(
    expression: str, hint: str = "store the value in a column when the row is written"
) -> StatementError:
    return StatementError(
        f"the query is not deterministic: {expression} has another value at every evaluation",
        hint=hint,
        expression=expression,
    )
