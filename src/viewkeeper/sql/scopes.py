"""What a name can mean at its place in a query: which WITH gives a table's name, and which columns a clause can see.

The parser's own scopes tell `Q` from `q`, and know neither Spark's ranks among names nor how far a join has come.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile

from sqlglot import exp

Columns = Mapping[str, Sequence[str]]
"""Column names by table name."""

_AFTER_THE_RESULT = {"having", "order", "sort", "cluster", "distribute"}
"""Clauses that see the names that the select list gives, before any function of that name."""


def tables_read(tree: exp.Expression) -> Iterator[exp.Table]:
    """The tables of a query that no WITH gives."""
    for table in tree.find_all(exp.Table):
        if cte_of(table) is None:
            yield table


def cte_of(table: exp.Table) -> exp.CTE | None:
    """The query that WITH gives a table's name to, if one does. A name has no database in front, and no case.

    A query of a WITH sees those before it and not itself: in `WITH t AS (SELECT * FROM t)` the inner t is the table.
    """
    if table.db:
        return None
    within: exp.Expr | None = None
    node = table.parent
    while node is not None:
        if isinstance(node, exp.CTE):
            within = node
        with_ = _with(node)
        if with_ is not None:
            given = _seen_from(with_, within)
            named = [cte for cte in given if cte.alias.lower() == table.name.lower()]
            if named:
                return named[-1]
        node = node.parent
    return None


def ctes_needed(query: exp.Expression) -> list[exp.CTE]:
    """The queries of a query's own WITH that it needs, in their order: Spark does not evaluate the others."""
    with_ = _with(query)
    if with_ is None:
        return []
    todo = [table for child in query.iter_expressions() if child is not with_ for table in child.find_all(exp.Table)]
    needed: set[int] = set()
    while todo:
        cte = cte_of(todo.pop())
        if cte is not None and id(cte) not in needed:
            needed.add(id(cte))
            todo += cte.this.find_all(exp.Table)
    return [cte for cte in with_.expressions if id(cte) in needed]


def _with(query: exp.Expr) -> exp.With | None:
    found: exp.With | None = query.args.get("with_") or query.args.get("with")
    return found


def _seen_from(with_: exp.With, within: exp.Expr | None) -> list[exp.CTE]:
    if with_.args.get("recursive"):
        return list(with_.expressions)
    return list(takewhile(lambda cte: cte is not within, with_.expressions))


def visible_names(column: exp.Column, known: Columns) -> set[str]:
    """The names, in lower case, that a name without a table can be a column by; only those that certainly are columns.

    They are the columns of what stands in FROM, as far as it is joined where the name stands, and after the select list the
    names that this gives. Not the columns of a query around this one, nor names given earlier in the same list: a function
    without parentheses comes before those.
    """
    node: exp.Expr = column
    while node.parent is not None and not isinstance(node.parent, exp.Select | exp.SetOperation):
        node = node.parent
    query = node.parent
    if isinstance(query, exp.SetOperation):
        return _result_names(query, known)
    if not isinstance(query, exp.Select):
        return set()
    names = {name for source in _sources(query, node) for name in _names_in(source, known)}
    return names | _given_names(query) if node.arg_key in _AFTER_THE_RESULT else names


def _sources(select: exp.Select, clause: exp.Expr | None = None) -> Iterator[exp.Expression]:
    """What a clause of a SELECT reads: a join's condition does not see the joins after it, nor a generator what it makes.

    The other side of a SEMI or ANTI JOIN is seen by its condition alone.
    """
    from_ = select.args.get("from_") or select.args.get("from")
    if from_ is not None:
        yield from _joined(from_.this)
    for join in select.args.get("joins") or ():
        if join is clause or (join.kind or "").upper() not in ("SEMI", "ANTI"):
            yield from _joined(join.this)
        if join is clause:
            return
    laterals: list[exp.Expression] = select.args.get("laterals") or []
    if not any(lateral is clause for lateral in laterals):
        yield from laterals


def _joined(source: exp.Expression) -> Iterator[exp.Expression]:
    """A source, and what is joined to it inside its parentheses."""
    yield source
    for join in source.args.get("joins") or ():
        yield from _joined(join.this)


def _names_in(source: exp.Expression, known: Columns) -> set[str]:
    """The columns of a source. What PIVOT leaves of a table is not followed up."""
    alias = source.args.get("alias")
    if isinstance(alias, exp.TableAlias) and alias.columns:
        return {name.name.lower() for name in alias.columns}
    if source.args.get("pivots"):
        return set()
    if isinstance(source, exp.Subquery):
        return _result_names(source.this, known)
    if not isinstance(source, exp.Table):
        return set()
    cte = cte_of(source)
    if cte is None:
        return {c.lower() for table, columns in known.items() if table.lower() == source.name.lower() for c in columns}
    named = cte.args["alias"].columns
    return {name.name.lower() for name in named} if named else _result_names(cte.this, known)


def _result_names(query: exp.Expression, known: Columns) -> set[str]:
    while isinstance(query, exp.SetOperation | exp.Subquery):
        query = query.this
    if not isinstance(query, exp.Select):
        return set()
    names = _given_names(query)
    for item in query.expressions:
        names |= _names_of_star(query, item, known)
    return names


def _names_of_star(select: exp.Select, item: exp.Expression, known: Columns) -> set[str]:
    star = item.this if isinstance(item, exp.Column) else item
    if not isinstance(star, exp.Star):
        return set()
    table = item.table.lower() if isinstance(item, exp.Column) else ""
    sources = (source for source in _sources(select) if table in ("", source.alias_or_name.lower()))
    left_out = {name.name.lower() for name in star.args.get("except_") or star.args.get("except") or ()}
    return {name for source in sources for name in _names_in(source, known)} - left_out


def _given_names(select: exp.Select) -> set[str]:
    """The names that a select list gives; what has none is named by Spark after its text."""
    named = (item for item in select.expressions if isinstance(item, exp.Alias | exp.Column))
    return {item.alias_or_name.lower() for item in named}
