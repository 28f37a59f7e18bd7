"""Text -> sqlglot's tree, one statement at a time, and what to say when the text is not SQL.

Nothing here knows what a statement means. What it adds to sqlglot: errors with the line, the column and the text they
are about, and no guessing. sqlglot reads some text that it does not understand as an opaque command, with a warning
in the log, and reads one type as another (`TIMESTAMP WITHOUT TIME ZONE`); here both are errors.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError

from viewkeeper.errors import StatementError

Result = TypeVar("Result")

_READ_FUNCTIONS = {
    *(name for function in exp.ALL_FUNCTIONS if issubclass(function, exp.AggFunc) for name in function.sql_names()),
    "STRUCT", "DATEADD", "DATE_ADD", "DATEDIFF", "DATE_DIFF", "TIMESTAMPADD", "TIMESTAMPDIFF",
}  # fmt: skip
"""Aggregates, and functions whose arguments are not all expressions."""


class Spark4(Spark):
    """Spark's SQL, with expressions left as they were written.

    sqlglot reads functions into a form for all dialects and writes some of them back as others: `to_date(x, 'yyyy-MM-dd')`
    without its format, `to_char` as a cast. Here a function is its name and its arguments. A quote in a string may be
    doubled, as in `'it''s'`, which sqlglot takes for two strings. Brackets are for looking inside: `array(a, b)[1]` is b, and
    not the array of 1, which other dialects write ARRAY[1]. A minus before a number is part of it, so `-1::STRING` is '-1';
    and a plus is a function, which makes a number of a string.
    """

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES: ClassVar = ["'", '"', "\\"]

    class Parser(Spark.Parser):  # type: ignore[misc, valid-type]  # sqlglot makes the attribute when it makes the class
        FUNCTIONS: ClassVar = {
            **{name: build for name, build in Spark.Parser.FUNCTIONS.items() if name in _READ_FUNCTIONS},
            "EVERY": exp.LogicalAnd.from_arg_list,
            "SOME": exp.LogicalOr.from_arg_list,
        }
        ARRAY_CONSTRUCTORS: ClassVar[dict[str, type[exp.Expression]]] = {}
        UNARY_PARSERS: ClassVar = {
            **Spark.Parser.UNARY_PARSERS,
            TokenType.DASH: lambda self: _negative(self._curr, self._parse_unary()),
            TokenType.PLUS: lambda self: _positive(self._parse_unary()),
        }


Spark4.ESCAPED_SEQUENCES["\0"] = "\\000"  # as `\0` it would begin another character, where digits follow


def _negative(first: Token, operand: exp.Expression) -> exp.Expression:
    """The opposite of an operand that begins with a word; of a number with `::` behind it, the number's own, which is cast then.

    In a number with a suffix, too, which the parser reads as a cast, and in `1.5BD` as that of a string.
    """
    number = operand
    while first.token_type is TokenType.NUMBER and isinstance(number, exp.Cast) and not number.this.is_string:
        number = number.this
    if number is operand:
        return exp.Neg(this=operand)
    number.replace(exp.Neg(this=number.copy()))
    return operand


def _positive(operand: exp.Expression) -> exp.Expression:
    """What Spark's plus makes of an operand: of a string a DOUBLE."""
    return operand if operand.is_number else exp.Anonymous(this="positive", expressions=[operand])


DIALECT = "spark4"


def parse_one(text: str) -> exp.Expression:
    """The tree of the only statement in `text`.

    >>> parse_one("DROP TABLE events").key
    'drop'
    >>> parse_one("DROP TABLE events events")
    Traceback (most recent call last):
    ...
    viewkeeper.errors.StatementError: syntax error at line 1, column 19, near "events": unexpected token
    """
    statements = [tree for tree in _trees(text) if tree is not None and not isinstance(tree, exp.Semicolon)]
    if not statements:
        raise StatementError("there is no statement in the text", text=text)
    if len(statements) > 1:
        raise StatementError(
            f"the text has {len(statements)} statements", hint="give one statement per call", text=text
        )
    return statements[0]


def columns_named(expression: str) -> set[tuple[str, str]] | None:
    """The columns of an expression with the names before them, in lower case; None if one has no such name.

    >>> sorted(columns_named("`R`.`a` + s.b.field") or ())
    [('r', 'a'), ('s', 'b')]
    >>> columns_named("r.a + b") is None
    True
    """
    found = set()
    for column in parse_one(f"SELECT {expression}").find_all(exp.Column):
        parts = [part.name.lower() or "*" for part in column.parts]
        if len(parts) < 2:
            return None
        found.add((parts[0], parts[1]))
    return found


def _trees(text: str) -> Sequence[exp.Expression | None]:
    words = tokens(text)
    _refuse_without_time_zone(words)
    try:
        with _without_warnings():
            trees: Sequence[Any] = with_room(lambda: Dialect.get_or_raise(DIALECT).parser().parse(words, text))
            return trees
    except ParseError as error:
        raise _of_parse_error(error) from None
    except RecursionError:
        raise StatementError(
            "the text is nested too deep to be read", hint="put its inner parts into subqueries or views of their own"
        ) from None


def with_room(work: Callable[[], Result]) -> Result:
    """What `work` returns, from an empty stack if there is not enough left of the caller's.

    The parser calls itself twenty times for every parenthesis. So the caller's place must not decide what can be read: a view
    that was made at the top of a program is planned again at its refresh, which may be called from anywhere. `RecursionError`
    is for what an empty stack has no room for either. `work` is begun twice, so it must leave nothing behind.
    """
    try:
        return work()
    except RecursionError:
        with ThreadPoolExecutor(1) as apart:
            return apart.submit(work).result()


def tokens(text: str) -> list[Token]:
    """The words and signs of the text, without its comments."""
    if not isinstance(text, str):
        raise StatementError(f"a statement is text, and this is a {type(text).__name__}", text=text)
    try:
        words = Dialect.get_or_raise(DIALECT).tokenize(text)
    except TokenError:
        raise StatementError(
            "the text cannot be read: a quote or a comment is not closed", hint="close it", text=text
        ) from None
    _refuse_long_comments(words)
    return _with_windows(words)


def _refuse_long_comments(words: Iterable[Token]) -> None:
    """To Spark a backslash at the end of a line takes the next line into a comment, and to the parser it does not."""
    for word in words:
        if any(comment.endswith("\\") for comment in word.comments):
            raise StatementError(
                f"a comment at line {word.line} ends in a backslash, which takes the next line into it",
                hint="take the backslash away",
                line=word.line,
            )


def _with_windows(words: list[Token]) -> list[Token]:
    """The words with WINDOW a name where no `WINDOW name AS` follows: the parser takes any after GROUP BY for that clause."""
    for place, word in enumerate(words):
        after = words[place + 2 : place + 3]
        if word.token_type is TokenType.WINDOW and not (after and after[0].token_type is TokenType.ALIAS):
            word.token_type = TokenType.VAR
    return words


def syntax_error(line: int, column: int, near: str, fact: str, *, hint: str | None = None) -> StatementError:
    return StatementError(
        f'syntax error at line {line}, column {column}, near "{near}": {fact}',
        hint=hint,
        line=line,
        column=column,
        text=near,
    )


def _of_parse_error(error: ParseError) -> StatementError:
    """sqlglot counts columns at a token's end; people look for its beginning."""
    first = error.errors[0]
    near, line = str(first["highlight"] or ""), int(first["line"] or 1)
    column = max(int(first["col"] or 1) - len(near) + 1, 1)
    fact = str(first["description"]).removeprefix("Invalid expression / ").split(" but got <Token")[0]
    return syntax_error(line, column, near, fact[:1].lower() + fact[1:])


def _refuse_without_time_zone(words: Iterable[Token]) -> None:
    """sqlglot drops these words after TIMESTAMP in Spark's dialect, and the type would become its opposite."""
    before = ""
    for word in words:
        if before == "WITHOUT" and word.text.upper() == "TIME":
            raise StatementError(
                f"WITHOUT TIME ZONE at line {word.line} is not supported",
                hint="write TIMESTAMP_NTZ",
                line=word.line,
                text="WITHOUT TIME ZONE",
            )
        before = word.text.upper()


@contextmanager
def _without_warnings() -> Iterator[None]:
    """sqlglot logs when it falls back to an opaque command. The caller gets an error instead of a line in a log."""
    logger = logging.getLogger("sqlglot")
    logger.addFilter(_is_no_fallback)
    try:
        yield
    finally:
        logger.removeFilter(_is_no_fallback)


def _is_no_fallback(record: logging.LogRecord) -> bool:
    return "Falling back to parsing as a 'Command'" not in str(record.msg)
