"""Every hidden name in one place, each with its reason; what a user may call a table, and how SQL writes it.

A name that starts with `_vk_` is ours. Users cannot take one, so a hidden column never meets a column of theirs.
"""

from __future__ import annotations

import re

from viewkeeper.errors import InvalidName

RESERVED_PREFIX = "_vk_"

HAD = "_vk_had"
"""In a log: whether the row existed before the change."""

HAS = "_vk_has"
"""In a log and in the changes of an epoch: whether the row exists after the change (false: a delete)."""

BEFORE = "_vk_before_"
"""In a log: prefix of a column's value before the change."""

AFTER = "_vk_after_"
"""In a log: prefix of a column's value after the change."""

POSITION = "_vk_position"
"""In a log that was read: the position of the write that the change belongs to."""

PROBE = "_vk_probe"
"""In the answer to a probe: the number of the probed key, counted from 0, that the row matched."""

WEIGHT = "_vk_weight"
"""In a change: how often the row came (positive) or left (negative)."""

COUNT = "_vk_count"
"""In a maintained table: how many rows stand behind this one (copies in a bag, members of a group)."""

VALUE = "_vk_value"
"""In a value index: the argument of an aggregate, ordered within its group."""

CARRIED = "_vk_carried"
"""In a value index of MIN_BY or MAX_BY: the value that goes with the one that is ordered."""

WHOLE = "_vk_whole"
"""The key of an aggregate without GROUP BY: always 0, since it has one row."""

GROUP = "_vk_group_"
"""In an aggregate's table: prefix of a group column that the query does not show."""

SUM = "_vk_sum_"
"""In an aggregate's table: prefix of an argument's sum."""

SUM_REST = "_vk_rest_"
"""In an aggregate's table: what a sum of doubles lost to rounding, so that it can be given back."""

SPECIALS = "_vk_specials_"
"""In an aggregate's table: prefix of the counts of NaN, infinity and -infinity in an argument."""

SQUARES = "_vk_squares_"
"""In an aggregate's table: prefix of an argument's sum of squares."""

SQUARES_REST = "_vk_squarerest_"
"""In an aggregate's table: what a sum of squares of doubles lost to rounding."""

NON_NULL = "_vk_nonnull_"
"""In an aggregate's table: prefix of the number of non-NULL values of an argument."""

TRUES = "_vk_trues_"
"""In an aggregate's table: prefix of the number of true values of an argument."""

DISTINCTS = "_vk_distincts_"
"""In an aggregate's table: prefix of the number of distinct values of an argument."""

MAX_LENGTH = 128

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_name(name: str, kind: str) -> str:
    """The name, if a `kind` ("table", "view", "column") may have it.

    >>> check_name("events", "table")
    'events'
    >>> check_name("../etc", "table")
    Traceback (most recent call last):
    ...
    viewkeeper.errors.InvalidName: table name '../etc' is not allowed
      hint: use letters, digits and underscores, starting with a letter or an underscore
    """
    if not isinstance(name, str) or not _PLAIN.fullmatch(name):
        raise InvalidName(
            f"{kind} name {name!r} is not allowed",
            hint="use letters, digits and underscores, starting with a letter or an underscore",
            name=name,
        )
    if name.lower().startswith(RESERVED_PREFIX):
        raise InvalidName(
            f'{kind} name "{name}" is reserved', hint=f"names that start with {RESERVED_PREFIX} are ours", name=name
        )
    if len(name) > MAX_LENGTH:
        raise InvalidName(
            f'{kind} name "{name[:20]}..." is too long', hint=f"use at most {MAX_LENGTH} characters", name=name
        )
    return name


def quoted(name: str) -> str:
    """A name as Spark SQL takes it, whatever is in it.

    >>> quoted("sum(cost)")
    '`sum(cost)`'
    """
    return "`" + name.replace("`", "``") + "`"


def qualified(alias: str, column: str) -> str:
    """The name of a source's column among those of what it is joined with: `alias.column`, and no two are alike.

    A dot in the alias is marked, so that the first unmarked one ends it: else column `b.c` of `a` and `c` of `a.b` would meet.

    >>> qualified("t", "sum(t.v)"), qualified("a", "b.c"), qualified("a.b", "c")
    ('t.sum(t.v)', 'a.b.c', 'a\\\\.b.c')
    """
    marked = alias.replace("\\", "\\\\").replace(".", "\\.")
    return f"{marked}.{column}"
