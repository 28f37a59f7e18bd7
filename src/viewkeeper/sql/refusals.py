"""What has no delta rule, in the clauses and expressions of a SELECT."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from viewkeeper.sql.algebra import NotIncremental
from viewkeeper.sql.syntax import DIALECT

_ROW_MAKERS = {
    "EXPLODE", "EXPLODE_OUTER", "POSEXPLODE", "POSEXPLODE_OUTER", "INLINE", "INLINE_OUTER", "STACK", "JSON_TUPLE",
    "VARIANT_EXPLODE", "VARIANT_EXPLODE_OUTER",
}  # fmt: skip

TABLE_FUNCTIONS = {*_ROW_MAKERS, "RANGE"}
"""Functions of Spark's that make a table of their arguments."""


def function_name_of(node: exp.Expression) -> str:
    return function_name(node) if isinstance(node, exp.Func) else ""


def function_name(node: exp.Func) -> str:
    return (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).upper()


def refuse_clauses(tree: exp.Expression) -> None:
    """Clauses that make a row's place depend on all others."""
    for clause in (
        "limit",
        "offset",
        "order",
        "sort",
        "cluster",
        "distribute",
        "windows",
        "qualify",
        "laterals",
        "pivots",
    ):
        if tree.args.get(clause):
            raise NotIncremental(clause.upper().replace("ORDER", "ORDER BY"), "has no delta rule")
    if isinstance(tree, exp.Select):
        for node in own_nodes(tree):
            _refuse_node(node)


def _refuse_node(node: exp.Expression) -> None:
    if isinstance(node, exp.Window):
        raise NotIncremental("a window function", f"has no delta rule: {node.sql(DIALECT)}")
    if isinstance(node, exp.Query):
        raise NotIncremental("a subquery in an expression", "has no delta rule")
    if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
        raise NotIncremental("a star in an expression", "has no delta rule: name the columns")
    if isinstance(node, exp.UDTF | exp.Lateral) or function_name_of(node) in _ROW_MAKERS:
        raise NotIncremental("a function that makes rows", f"has no delta rule: {node.sql(DIALECT)}")
    _refuse_time_window(node)
    _refuse_unnamed_fields(node)


def _refuse_unnamed_fields(node: exp.Expression) -> None:
    """Spark names a struct's fields after what they are made of, and `to_json` shows the names; here columns have other names.

    In `SELECT to_json((x, COUNT(*))) ... GROUP BY x` the fields would be g0 and a0. Tuples that are only compared may stay, and
    of STRUCT's fields those that are named, are columns, or are expressions that have no name in Spark either.
    """
    if isinstance(node, exp.Tuple) and not isinstance(node.parent, exp.Predicate | exp.Group):
        raise NotIncremental(f"the tuple {node.sql(DIALECT)}", "has no delta rule: write struct(x AS x, ...)")
    if function_name_of(node) == "ARRAYS_ZIP":
        raise NotIncremental("ARRAYS_ZIP", "names its fields after columns, so it has no delta rule")
    for place, field in enumerate(node.expressions if isinstance(node, exp.Struct) else (), start=1):
        if isinstance(field, exp.PropertyEQ) and field.name == f"col{place}" and _has_a_name(field.expression):
            text = field.expression.sql(DIALECT)
            raise NotIncremental(f"{text} in STRUCT", "is named by Spark, so it has no delta rule: write AS")


def _has_a_name(value: exp.Expression) -> bool:
    """What Spark has another name for in a struct than its place: `(x)`, `items[0].y`, `m['y']`, the variable of a lambda."""
    return isinstance(value, exp.Paren | exp.Dot | exp.Bracket | exp.Identifier)


def _refuse_time_window(node: exp.Expression) -> None:
    """A sliding window makes several rows of one, and a session's bounds depend on all rows of its group.

    A tumbling one is an expression like any other: a row is in one window, and that is set by its time alone.
    """
    name = function_name_of(node)
    if name == "SESSION_WINDOW" or (name == "WINDOW" and len(node.expressions) > 2):
        raise NotIncremental("a sliding or session window", f"has no delta rule: {node.sql(DIALECT)}")


def own_nodes(tree: exp.Select) -> Iterator[exp.Expression]:
    """The expressions of this SELECT, not those of the queries in its FROM."""
    roots = [*tree.expressions, tree.args.get("where"), tree.args.get("having"), tree.args.get("group")]
    roots += [join.args.get("on") for join in tree.args.get("joins") or ()]
    for root in roots:
        if root is not None:
            yield from root.walk()
