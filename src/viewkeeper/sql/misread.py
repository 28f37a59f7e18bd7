"""What the resolver of names reads otherwise than Spark. It must not see such a query: the blocks would be another query's.

A query that is refused here is evaluated again by Spark, from the user's own text. Each rule names the counter-example that
forced it.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import TokenType, exp

from viewkeeper.sql.algebra import NotIncremental
from viewkeeper.sql.syntax import DIALECT, tokens


def refuse_misread(query: str, tree: exp.Expression) -> None:
    """`NotIncremental` for a query that means something else once its names are resolved."""
    _refuse_pipes(query)
    for table in tree.find_all(exp.Table):
        _refuse_renamed_columns(table)
    for select in tree.find_all(exp.Select):
        _refuse_columns_of_several(select)
        _refuse_hidden_columns(select)


def _refuse_pipes(query: str) -> None:
    """The parser folds the operators into one SELECT: of `SELECT y + 1 AS y FROM r |> WHERE y > 5`, WHERE sees the old y."""
    if any(token.token_type is TokenType.PIPE_GT for token in tokens(query)):
        raise NotIncremental("|>", "has no delta rule: write a subquery")


def _refuse_renamed_columns(table: exp.Table) -> None:
    """In `SELECT one FROM p AS t(k, two, one)` the names are the alias's, by place; the resolver finds the table's own."""
    alias = table.args.get("alias")
    if alias is not None and alias.columns:
        raise NotIncremental(table.sql(DIALECT), "gives a table's columns other names: write AS in a subquery")


def _refuse_columns_of_several(select: exp.Select) -> None:
    """A column that USING or NATURAL makes of both sides' is neither's alone.

    After a RIGHT or FULL JOIN it may be there where the first table's is NULL, and the next USING joins on it; the resolver
    takes the first table's. After the others it is the first table's. And in `t.*` Spark puts the columns of USING first,
    while the resolver leaves them where the table has them.
    """
    joins: list[exp.Join] = select.args.get("joins") or []
    named = [place for place, join in enumerate(joins) if join.args.get("using") or join.method]
    if not named:
        return
    if any((join.side or "").upper() in ("RIGHT", "FULL") for join in joins[: named[-1]]):
        raise NotIncremental("USING or NATURAL after a RIGHT or FULL JOIN", "has no delta rule: write ON")
    if any(isinstance(item, exp.Column) and isinstance(item.this, exp.Star) for item in select.expressions):
        raise NotIncremental("a table's star beside USING or NATURAL", "has no delta rule: name the columns")


def _refuse_hidden_columns(select: exp.Select) -> None:
    """In `SELECT k > 1 AS b ... GROUP BY k HAVING any(b)` the argument is the table's column, as it is in any aggregate's.

    The resolver puts the select list's expression in its place wherever it does not see the aggregate: in ANY and in FILTER.
    """
    having = select.args.get("having")
    if having is None:
        return
    aliases = {item.alias.lower() for item in select.expressions if item.alias}
    for column in _columns_in_calls(having):
        if not column.table and column.name.lower() in aliases:
            raise NotIncremental(f"{column.name} in HAVING", "names a column and a result: qualify it with its table")


def _columns_in_calls(having: exp.Expression) -> Iterator[exp.Column]:
    for call in having.find_all(exp.Any, exp.Filter):
        yield from call.find_all(exp.Column)
