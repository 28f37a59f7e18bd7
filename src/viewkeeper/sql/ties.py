"""MIN_BY and MAX_BY of rows that tie: Spark takes whichever row it meets first, so that the same rows can give two answers.

A view has one. The calls are rewritten where they stand, and all other text stays the user's own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import Token, TokenType

from viewkeeper.sql.syntax import tokens

_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET}


def with_ties_broken(query: str) -> str:
    """The query with MIN_BY and MAX_BY made to choose, among rows that tie, the least or the greatest result.

    A row whose order is NULL does not count, and must not begin to because its result is no NULL.

    >>> print(with_ties_broken("SELECT max_by(a, b) FROM t"))
    SELECT max_by(a, CASE WHEN ( b
    ) IS NOT NULL THEN struct( b
    , a
    ) END) FROM t
    """
    words = tokens(query)
    pieces, done, place = [], 0, 0
    while place + 1 < len(words):
        if words[place].text.upper() in ("MIN_BY", "MAX_BY") and words[place + 1].token_type is TokenType.L_PAREN:
            first, second, *_ = _ends(words, place + 1)
            value = query[words[place + 1].end + 1 : words[first].start]
            order = with_ties_broken(query[words[first].end + 1 : words[second].start])
            pieces += [query[done : words[first].end + 1], _chosen(order, value)]
            done, place = words[second].start, second
        else:
            place += 1
    return "".join([*pieces, query[done:]])


def _chosen(order: str, value: str) -> str:
    """What is ordered by. Each text ends its line, for it may end in a comment."""
    value = re.sub(r"^\s*(DISTINCT|ALL)\b", "", value, flags=re.IGNORECASE)
    return f" CASE WHEN ({order}\n) IS NOT NULL THEN struct({order}\n, {value}\n) END"


def _ends(words: Sequence[Token], opening: int) -> list[int]:
    """Where the arguments of a call end: at its own commas, and at the parenthesis that closes it."""
    found, depth = [], 0
    for place in range(opening, len(words)):
        kind = words[place].token_type
        depth += (kind in _OPENING) - (kind in _CLOSING)
        if depth == 0 or (depth == 1 and kind is TokenType.COMMA):
            found.append(place)
        if depth == 0:
            break
    return found
