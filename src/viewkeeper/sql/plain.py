"""Queries that are read as Spark reads them, to be seen by looking: nothing in them but what is read in one way everywhere.

The parser is not Spark's. Where it has read something otherwise, the blocks are another query's: `y | 1 << i` as `(y | 1) << i`,
`ts - INTERVAL 1 DAY 2 HOURS` as `ts - INTERVAL 1 DAY + INTERVAL 2 HOURS`. What is not plain is tried out before it is trusted
(`engine.rehearsal`). So what is listed here is what needs no trial, and leaving something out costs a moment, not an answer.
"""

from __future__ import annotations

import re

from sqlglot import exp

from viewkeeper.sql.refusals import function_name
from viewkeeper.sql.syntax import parse_one

_CLAUSES = (
    exp.Select, exp.From, exp.Table, exp.TableAlias, exp.Identifier, exp.Column, exp.Alias, exp.Star, exp.Where, exp.Group,
    exp.Having, exp.Join, exp.Union, exp.Subquery, exp.With, exp.CTE, exp.Distinct, exp.Filter,
)  # fmt: skip
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Is, exp.In, exp.Between, exp.Like)
_EXPRESSIONS = (
    exp.Literal, exp.Null, exp.Boolean, exp.And, exp.Or, exp.Not, exp.Paren, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod,
    exp.Neg, exp.Case, exp.If, exp.Cast, exp.DataType, exp.DataTypeParam,
)  # fmt: skip
_AGGREGATES = (
    exp.Sum, exp.Count, exp.Min, exp.Max, exp.Avg, exp.ArgMin, exp.ArgMax, exp.LogicalAnd, exp.LogicalOr, exp.CountIf,
    exp.VariancePop, exp.Variance, exp.StddevPop, exp.Stddev, exp.StddevSamp,
)  # fmt: skip
_PLAIN = (*_CLAUSES, *_COMPARISONS, *_EXPRESSIONS, *_AGGREGATES, exp.Anonymous)

_SHOWING_NAMES = {"ARRAYS_ZIP", "IDENTIFIER"}
"""Functions to which the name of a column is more than a way to find it."""

_OURS = re.compile(r"n|[agx]\d+", re.IGNORECASE)
"""What the columns of an aggregate's state are called: a result of the same name might be taken for one of them."""

_KINDS = {
    *exp.DataType.NUMERIC_TYPES,
    *exp.DataType.TEXT_TYPES,
    exp.DataType.Type.BOOLEAN,
    exp.DataType.Type.DATE,
    exp.DataType.Type.TIMESTAMP,
    exp.DataType.Type.TIMESTAMPTZ,
}
"""Types to cast to. Spark's TIME is read as a timestamp of today."""


def is_plain(query: str) -> bool:
    """Whether there is nothing in a query that the parser might read otherwise than Spark.

    >>> is_plain("SELECT x, SUM(y) AS total FROM r WHERE y > 1 GROUP BY x")
    True
    >>> is_plain("SELECT y | 1 << i AS o FROM r"), is_plain("SELECT b = c < b AS o FROM r")
    (False, False)
    """
    return all(isinstance(node, _PLAIN) and _looks_plain(node) for node in parse_one(query).walk())


def _looks_plain(node: exp.Expression) -> bool:
    if isinstance(node, _COMPARISONS):
        return not any(isinstance(side, _COMPARISONS) for side in node.iter_expressions())
    if isinstance(node, exp.Union):
        return not any(isinstance(side.unnest(), exp.Union) for side in (node.this, node.expression))
    if isinstance(node, exp.Anonymous):
        return function_name(node) not in _SHOWING_NAMES
    if isinstance(node, exp.Alias):
        return _OURS.fullmatch(node.alias) is None
    if isinstance(node, exp.DataType):
        return node.this in _KINDS
    return True
