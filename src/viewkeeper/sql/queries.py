"""Query text -> what it reads, whether it is deterministic, and its blocks.

sqlglot parses and resolves names; what comes out is `sql.algebra`. A construct that has no delta rule ends in
`NotIncremental`, which names it: whoever asked decides whether to refuse the view or to re-evaluate it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import traverse_scope

from viewkeeper.errors import NotFound, StatementError
from viewkeeper.names import RESERVED_PREFIX
from viewkeeper.sql.algebra import (
    Aggregate,
    Block,
    Call,
    Column,
    Edge,
    Function,
    NotIncremental,
    Outer,
    Output,
    Part,
    Select,
    Side,
    Source,
    Top,
)
from viewkeeper.sql.syntax import DIALECT, parse_one

Columns = Mapping[str, Sequence[str]]
"""Column names by table name."""

UNREPEATABLE = {
    "CURRENT_CATALOG", "CURRENT_DATABASE", "CURRENT_DATE", "CURRENT_SCHEMA", "CURRENT_TIME", "CURRENT_TIMESTAMP",
    "CURRENT_TIMEZONE", "CURRENT_USER", "CURDATE", "INPUT_FILE_BLOCK_LENGTH", "INPUT_FILE_BLOCK_START", "INPUT_FILE_NAME",
    "LOCALTIMESTAMP", "MONOTONICALLY_INCREASING_ID", "NOW", "RAND", "RANDN", "RANDOM", "RANDSTR", "SESSION_USER",
    "SHUFFLE", "SPARK_PARTITION_ID", "UNIFORM", "USER", "UUID",
}  # fmt: skip
"""Functions whose answer is not set by their arguments: a view over them would never be true."""

_SIMPLE = {
    exp.Sum: Function.SUM,
    exp.Avg: Function.AVG,
    exp.Min: Function.MIN,
    exp.Max: Function.MAX,
    exp.LogicalAnd: Function.BOOL_AND,
    exp.LogicalOr: Function.BOOL_OR,
    exp.VariancePop: Function.VAR_POP,
    exp.Variance: Function.VAR_SAMP,
    exp.StddevPop: Function.STDDEV_POP,
    exp.Stddev: Function.STDDEV_SAMP,
    exp.StddevSamp: Function.STDDEV_SAMP,
}


_BY_NAME = {"EVERY": Function.BOOL_AND, "SOME": Function.BOOL_OR}
"""Aggregates that the parser takes for functions that it does not know."""

_ROW_MAKERS = {
    "EXPLODE", "EXPLODE_OUTER", "POSEXPLODE", "POSEXPLODE_OUTER", "INLINE", "INLINE_OUTER", "STACK", "JSON_TUPLE",
    "VARIANT_EXPLODE", "VARIANT_EXPLODE_OUTER",
}  # fmt: skip


def tables_of(query: str, known: Columns) -> list[str]:
    """The tables that a query reads, by their declared names. `NotFound` names one that is not there."""
    declared = {name.lower(): name for name in known}
    found: dict[str, None] = {}
    for scope in traverse_scope(parse_one(query)):
        for source in scope.sources.values():
            if isinstance(source, exp.Table):
                name = source.name
                if name.lower() not in declared:
                    raise NotFound(
                        f'table or view "{name}" does not exist',
                        hint=f"there are {', '.join(sorted(known)) or 'none yet'}",
                        table=name,
                    )
                found[declared[name.lower()]] = None
    return list(found)


def refuse_unrepeatable(query: str) -> None:
    """`StatementError` for a query that could answer differently over the same rows; the expression is named."""
    for node in parse_one(query).walk():
        if isinstance(node, exp.Func) and _function_name(node) in UNREPEATABLE:
            raise StatementError(
                f"the query is not deterministic: {node.sql(DIALECT)} has another value at every evaluation",
                hint="store the value in a column when the row is written",
                expression=node.sql(DIALECT),
            )
        if isinstance(node, exp.TableSample):
            raise StatementError(
                "the query is not deterministic: it samples its rows", hint="filter by a column instead"
            )


def _function_name_of(node: exp.Expression) -> str:
    return _function_name(node) if isinstance(node, exp.Func) else ""


def _function_name(node: exp.Func) -> str:
    return (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).upper()


def with_ties_broken(query: str) -> str:
    """The query with MIN_BY and MAX_BY made to choose, among rows that tie, the least or the greatest result.

    Spark takes whichever row it meets first, so that the same rows can give two answers; a view has one.
    """
    tree = parse_one(query)
    calls = list(tree.find_all(exp.ArgMin, exp.ArgMax))
    if not calls:
        return query
    for call in calls:
        value, order = call.this.sql(DIALECT), call.expression.sql(DIALECT)
        chosen = parse_one(f"SELECT CASE WHEN ({order}) IS NOT NULL THEN struct({order}, {value}) END").expressions[0]
        call.set("expression", chosen)
    return tree.sql(DIALECT)


def compile_query(name: str, query: str, output_names: Sequence[str], known: Columns) -> tuple[Block, ...]:
    """The blocks of a query, the last one under `name` with the columns `output_names` (Spark's, by position)."""
    tree = parse_one(query)
    schema: dict[str, object] = {table: dict.fromkeys(columns, "unknown") for table, columns in known.items()}
    _keep_field_names(tree)
    try:
        tree = qualify(tree, schema=schema, dialect=DIALECT, quote_identifiers=False, identify=False)
    except SqlglotError as error:
        raise NotIncremental("a name", f"could not be resolved ({error})") from error
    compiler = _Compiler(name, known)
    compiler.finish(tree, list(output_names))
    return tuple(compiler.blocks)


def _keep_field_names(tree: exp.Expression) -> None:
    """Names are resolved in lower case, but those of a struct's fields are part of its values: `to_json` shows them."""
    for node in tree.find_all(exp.PropertyEQ, exp.ColumnDef):
        name = node.this.copy()  # the parser may have used one object for the field's name and for its value
        name.meta["case_sensitive"] = True
        node.set("this", name)


@dataclass
class _Compiler:
    """Collects blocks. Inner ones are named after the view and numbered."""

    view: str
    known: Columns
    blocks: list[Block] = field(default_factory=list)
    ctes: dict[str, str] = field(default_factory=dict)
    columns: dict[str, list[str]] = field(default_factory=dict)

    def finish(self, tree: exp.Expression, names: list[str]) -> None:
        parts, top = self.query(tree, names)
        self.blocks.append(Block(self.view, parts, top))

    def inner(self, tree: exp.Expression, names: list[str]) -> str:
        """A block of its own for a part of the query; its name."""
        parts, top = self.query(tree, names)
        return self.add(parts, top, names)

    def add(self, parts: tuple[Part, ...], top: Top | Aggregate, names: Sequence[str]) -> str:
        name = f"{RESERVED_PREFIX}{self.view}_{len(self.blocks)}"
        self.blocks.append(Block(name, parts, top))
        self.columns[name] = list(names)
        return name

    # Queries

    def query(self, tree: exp.Expression, names: list[str]) -> tuple[tuple[Part, ...], Top | Aggregate]:
        """What a query is made of. The names that its WITH gives end with it."""
        outside = dict(self.ctes)
        try:
            self._take_ctes(tree)
            return self._query(tree, names)
        finally:
            self.ctes = outside

    def _query(self, tree: exp.Expression, names: list[str]) -> tuple[tuple[Part, ...], Top | Aggregate]:
        _refuse_clauses(tree)
        if isinstance(tree, exp.Subquery):
            return self.query(tree.this, names)
        if isinstance(tree, exp.Union):
            return self._union(tree, names)
        if isinstance(tree, exp.Select):
            return self._select(tree, names)
        raise NotIncremental(tree.key.upper(), "has no delta rule")

    def _take_ctes(self, tree: exp.Expression) -> None:
        with_ = tree.args.get("with_") or tree.args.get("with")
        if with_ is None:
            return
        if with_.args.get("recursive"):
            raise NotIncremental("WITH RECURSIVE", "has no delta rule")
        for cte in with_.expressions:
            self.ctes[cte.alias.lower()] = self.inner(cte.this, _names_of(cte.this))

    def _union(self, tree: exp.Union, names: list[str]) -> tuple[tuple[Part, ...], Top | Aggregate]:
        if type(tree) is not exp.Union:
            raise NotIncremental(tree.key.upper(), "has no delta rule")
        if tree.args.get("by_name"):
            raise NotIncremental("UNION BY NAME", "has no delta rule")
        parts: list[Part] = []
        for side in (tree.this, tree.expression):
            own, top = self.query(side, names)
            if top is not Top.ROWS:
                source = Source("u", self.add(own, top, names))
                own = (Select((source,), (), (), tuple(_same_column("u", name) for name in names)),)
            parts += own
        return tuple(parts), Top.DISTINCT if tree.args.get("distinct") else Top.ROWS

    def _select(self, tree: exp.Select, names: list[str]) -> tuple[tuple[Part, ...], Top | Aggregate]:
        sources = _From(self, tree).read()
        items = [item.unalias() for item in tree.expressions]
        if _aggregates(tree):
            return self._aggregate(tree, sources, items, names)
        outputs = tuple(sources.output(name, item) for name, item in zip(names, items, strict=True))
        top = Top.DISTINCT if tree.args.get("distinct") else Top.ROWS
        return (sources.part(outputs),), top

    def _aggregate(
        self, tree: exp.Select, sources: _From, items: list[exp.Expression], names: list[str]
    ) -> tuple[tuple[Part, ...], Top | Aggregate]:
        groups = _groups(tree, items)
        having = tree.args.get("having")
        aggregate = _Aggregation(groups, sources)
        outputs = [aggregate.output(name, item) for name, item in zip(names, items, strict=True)]
        if having is not None:
            outputs.append(aggregate.output(_HAVING, having.this))
        part = sources.part(tuple(aggregate.part_outputs))
        top = Aggregate(tuple(f"g{i}" for i in range(len(groups))), tuple(aggregate.calls), tuple(outputs))
        if having is None and not tree.args.get("distinct"):
            return (part,), top
        inner = Source("h", self.add((part,), top, [output.name for output in outputs]))
        conditions = (f"h.{_HAVING}",) if having is not None else ()
        select = Select((inner,), (), conditions, tuple(_same_column("h", name) for name in names))
        return (select,), Top.DISTINCT if tree.args.get("distinct") else Top.ROWS


_HAVING = f"{RESERVED_PREFIX}having"


def quoted(name: str) -> str:
    """A name as Spark SQL takes it, whatever is in it.

    >>> quoted("sum(cost)")
    '`sum(cost)`'
    """
    return "`" + name.replace("`", "``") + "`"


def _same_column(alias: str, name: str) -> Output:
    return Output(name, f"{alias}.{quoted(name)}", Column(alias, name))


def _names_of(tree: exp.Expression) -> list[str]:
    return [str(name) for name in tree.named_selects] if isinstance(tree, exp.Query) else []


def _refuse_clauses(tree: exp.Expression) -> None:
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
        for node in _own_nodes(tree):
            _refuse_node(node)


def _refuse_node(node: exp.Expression) -> None:
    if isinstance(node, exp.Window):
        raise NotIncremental("a window function", f"has no delta rule: {node.sql(DIALECT)}")
    if isinstance(node, exp.Query):
        raise NotIncremental("a subquery in an expression", "has no delta rule")
    if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
        raise NotIncremental("a star in an expression", "has no delta rule: name the columns")
    if isinstance(node, exp.UDTF | exp.Lateral) or _function_name_of(node) in _ROW_MAKERS:
        raise NotIncremental("a function that makes rows", f"has no delta rule: {node.sql(DIALECT)}")


def _own_nodes(tree: exp.Select) -> Iterator[exp.Expression]:
    """The expressions of this SELECT, not those of the queries in its FROM."""
    roots = [*tree.expressions, tree.args.get("where"), tree.args.get("having"), tree.args.get("group")]
    roots += [join.args.get("on") for join in tree.args.get("joins") or ()]
    for root in roots:
        if root is not None:
            yield from root.walk()


# Joins


@dataclass
class _From:
    """The FROM and WHERE of a SELECT, folded into at most one outer join or one row of inner ones.

    An outer join in the middle becomes a block of its own, and the columns that come from it are renamed
    `alias__column`; `renamed` says how.
    """

    compiler: _Compiler
    tree: exp.Select
    sources: list[Source] = field(default_factory=list)
    conditions: list[exp.Expression] = field(default_factory=list)
    renamed: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    outer: Outer | None = None

    def read(self) -> _From:
        from_ = self.tree.args.get("from_") or self.tree.args.get("from")
        if from_ is None:
            raise NotIncremental("a SELECT without FROM", "has nothing to follow")
        self.sources.append(self._source(from_.this))
        for join in self.tree.args.get("joins") or ():
            self._join(join)
        where = self.tree.args.get("where")
        if where is not None:
            self.conditions += _conjuncts(where.this)
        return self

    def _source(self, node: exp.Expression) -> Source:
        alias = node.alias_or_name.lower()
        if isinstance(node, exp.Subquery):
            return Source(alias, self.compiler.inner(node.this, _names_of(node.this)))
        if not isinstance(node, exp.Table) or node.args.get("joins") or node.args.get("pivots"):
            raise NotIncremental(node.sql(DIALECT), "in FROM has no delta rule")
        inner = self.compiler.ctes.get(node.name.lower())
        return Source(alias, inner if inner is not None else self._declared(node.name))

    def _declared(self, name: str) -> str:
        return next(table for table in self.compiler.known if table.lower() == name.lower())

    def _join(self, join: exp.Join) -> None:
        kind = (join.side or join.kind or "INNER").upper()
        if join.args.get("using") or join.method or (join.kind or "").upper() in ("SEMI", "ANTI"):
            raise NotIncremental(f"{join.method or join.kind} JOIN", "has no delta rule")
        right = self._source(join.this)
        on = join.args.get("on")
        if kind in ("INNER", "CROSS"):
            self._end_outer()
            self.sources.append(right)
            if on is not None:
                self.conditions += _conjuncts(on)
        elif kind in ("LEFT", "RIGHT", "FULL"):
            self._outer_join(kind, right, on)
        else:
            raise NotIncremental(f"{kind} JOIN", "has no delta rule")

    def _outer_join(self, kind: str, right: Source, on: exp.Expression | None) -> None:
        self._end_outer()
        left = self._one_source()
        if kind == "RIGHT":
            left, right = right, left
        side = Side.FULL if kind == "FULL" else Side.LEFT
        self.sources = [left, right]
        conjuncts = [] if on is None else _conjuncts(on)
        edges = self.edges((left, right), conjuncts)
        if not edges:
            raise NotIncremental(f"{kind} JOIN", "without an equality between its sides has no delta rule")
        text = " AND ".join(f"({self.sql(conjunct)})" for conjunct in conjuncts)
        self.outer = Outer(side, left, right, edges, text, (), ())

    def _one_source(self) -> Source:
        """What has been joined so far, as one source: a block of its own if it is more than a table."""
        if len(self.sources) == 1 and not self.conditions:
            return self.sources[0]
        return self._as_block(self.part)

    def _end_outer(self) -> None:
        """Something follows an outer join: the outer join becomes a block."""
        if self.outer is not None:
            self.sources = [self._as_block(self.part)]
            self.outer = None

    def _as_block(self, part: Callable[[tuple[Output, ...]], Part]) -> Source:
        aliases = {source.alias for source in self.sources}
        here = {place for place, now in self.renamed.items() if now[0] in aliases}
        wanted = sorted({(c.table.lower(), c.name.lower()) for c in self._columns()} & (here | self._places(aliases)))
        outputs, moves = [], {}
        alias = f"{RESERVED_PREFIX}j{len(self.compiler.blocks)}"
        for place in wanted:
            name = "__".join(place)
            outputs.append(self.output(name, exp.column(place[1], place[0])))
            moves[place] = (alias, name)
        name = self.compiler.add((part(tuple(outputs)),), Top.ROWS, [output.name for output in outputs])
        self.renamed |= moves
        self.conditions = []
        return Source(alias, name)

    def _places(self, aliases: set[str]) -> set[tuple[str, str]]:
        return {(s.alias, column.lower()) for s in self.sources if s.alias in aliases for column in self.columns(s)}

    def _columns(self) -> Iterator[exp.Column]:
        for node in _own_nodes(self.tree):
            if isinstance(node, exp.Column):
                yield node

    def columns(self, source: Source) -> Sequence[str]:
        return self.compiler.columns.get(source.table) or self.compiler.known[source.table]

    def place(self, column: exp.Column) -> Column:
        """Where a column of the query is now, by its declared name."""
        alias, name = self.renamed.get((column.table.lower(), column.name.lower()), (column.table.lower(), column.name))
        source = next((s for s in self.sources if s.alias == alias), None)
        if source is None:
            raise NotIncremental(column.sql(DIALECT), "is not a column of what is joined so far")
        declared = next((c for c in self.columns(source) if c.lower() == name.lower()), None)
        if declared is None:
            raise NotIncremental(column.sql(DIALECT), "is not a plain column")
        return Column(alias, declared)

    def sql(self, node: exp.Expression) -> str:
        """An expression of the query over the sources as they are now."""

        def move(inner: exp.Expression) -> exp.Expression:
            if isinstance(inner, exp.Column):
                place = self.place(inner)
                return exp.column(
                    exp.to_identifier(place.name, quoted=True), exp.to_identifier(place.alias, quoted=True)
                )
            return inner

        return node.copy().transform(move).sql(DIALECT)

    def output(self, name: str, node: exp.Expression) -> Output:
        return Output(name, self.sql(node), self.place(node) if isinstance(node, exp.Column) else None)

    def part(self, outputs: tuple[Output, ...]) -> Part:
        if self.outer is not None:
            conditions = tuple(self.sql(condition) for condition in self.conditions)
            outer = self.outer
            return Outer(outer.side, outer.left, outer.right, outer.edges, outer.on, conditions, outputs)
        sources = tuple(self.sources)
        edges = self.edges(sources, self.conditions)
        self._refuse_unlinked(sources, edges)
        equalities = {edge.sql for edge in edges}
        further = tuple(text for text in map(self.sql, self.conditions) if text not in equalities)
        return Select(sources, edges, further, outputs)

    def edges(self, sources: Sequence[Source], conjuncts: Sequence[exp.Expression]) -> tuple[Edge, ...]:
        aliases = {source.alias for source in sources}
        found = []
        for conjunct in conjuncts:
            sides = (conjunct.this, conjunct.expression) if isinstance(conjunct, exp.EQ) else ()
            columns = [side for side in sides if isinstance(side, exp.Column)]
            if len(columns) == 2:
                left, right = self.place(columns[0]), self.place(columns[1])
                if left.alias != right.alias and {left.alias, right.alias} <= aliases:
                    found.append(Edge(left, right, self.sql(conjunct)))
        return tuple(found)

    def _refuse_unlinked(self, sources: Sequence[Source], edges: Sequence[Edge]) -> None:
        """A join on conditions without an equality would read all of the other side for every change."""
        if len(sources) < 2:
            return
        linked = {end.alias for edge in edges for end in (edge.left, edge.right)}
        for condition in self.conditions:
            aliases = {self.place(column).alias for column in condition.find_all(exp.Column)}
            if len(aliases) > 1 and aliases - linked:
                text = condition.sql(DIALECT)
                raise NotIncremental(f"a join on {text}", "without an equality has no delta rule")


def _conjuncts(node: exp.Expression) -> list[exp.Expression]:
    inner: exp.Expression = node.this if isinstance(node, exp.Paren) else node
    if isinstance(inner, exp.And):
        return [*_conjuncts(inner.this), *_conjuncts(inner.expression)]
    return _conjuncts(inner) if inner is not node else [node]


# Aggregates


def _aggregates(tree: exp.Select) -> bool:
    return bool(tree.args.get("group") or tree.args.get("having")) or any(
        _is_aggregate(node) for item in tree.expressions for node in item.walk()
    )


def _is_aggregate(node: object) -> bool:
    return isinstance(node, exp.AggFunc | exp.Any) or (isinstance(node, exp.Func) and _function_name(node) in _BY_NAME)


def _groups(tree: exp.Select, items: Sequence[exp.Expression]) -> list[exp.Expression]:
    group = tree.args.get("group")
    if group is None:
        return []
    several = [extension for extension in ("rollup", "cube", "grouping_sets", "totals") if group.args.get(extension)]
    several += [node.key for node in group.expressions if isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets)]
    if several:
        raise NotIncremental(several[0].upper().replace("_", " "), "has no delta rule")
    if group.args.get("all"):
        return [item for item in items if not any(_is_aggregate(node) for node in item.walk())]
    return [expression.unnest() for expression in group.expressions]


@dataclass
class _Aggregation:
    """Takes the aggregate calls and the group expressions out of the select list."""

    groups: list[exp.Expression]
    sources: _From
    calls: list[Call] = field(default_factory=list)
    part_outputs: list[Output] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.part_outputs += [self.sources.output(f"g{i}", group) for i, group in enumerate(self.groups)]

    def output(self, name: str, node: exp.Expression) -> Output:
        moved = self._moved(node.copy())
        loose = next((column for column in moved.find_all(exp.Column) if column.table), None)
        if loose is not None:
            raise NotIncremental(node.sql(DIALECT), "has no delta rule")
        plain = moved.name if isinstance(moved, exp.Column) and not moved.table else None
        return Output(name, moved.sql(DIALECT), None if plain is None else Column("", plain))

    def _moved(self, node: exp.Expression) -> exp.Expression:
        for number, group in enumerate(self.groups):
            if node == group:
                return exp.column(f"g{number}")
        if isinstance(node, exp.Filter | exp.AggFunc | exp.Any) or _function_name_of(node) in _BY_NAME:
            return exp.column(f"a{self._call(node)}")
        for key, value in list(node.args.items()):
            if isinstance(value, exp.Expression):
                node.set(key, self._moved(value))
            elif isinstance(value, list):
                node.set(key, [self._moved(v) if isinstance(v, exp.Expression) else v for v in value])
        return node

    def _call(self, node: exp.Expression) -> int:
        call = self._read_call(node)
        if call not in self.calls:
            self.calls.append(call)
        return self.calls.index(call)

    def _read_call(self, node: exp.Expression) -> Call:
        condition = None
        if isinstance(node, exp.Filter):
            condition, node = node.expression.this, node.this
        if isinstance(node, exp.ArgMin | exp.ArgMax):
            return self._by_call(node, condition)
        function, argument = _function(node)
        if condition is not None:
            argument = exp.case().when(condition.copy(), exp.Literal.number(1) if argument is None else argument)
        if argument is None:
            return Call(function, None, "count(*)")
        column = self._argument(argument)
        template = {Function.COUNT: "count({})", Function.COUNT_DISTINCT: "count(DISTINCT {})"}
        return Call(function, column, template.get(function, f"{function.value}({{}})").format(column))

    def _by_call(self, node: exp.ArgMin | exp.ArgMax, condition: exp.Expression | None) -> Call:
        """Rows whose order is NULL do not count, so what a FILTER leaves out is given none."""
        if node.args.get("count"):
            raise NotIncremental(node.sql(DIALECT), "has no delta rule")
        function = Function.MIN_BY if isinstance(node, exp.ArgMin) else Function.MAX_BY
        order: exp.Expression = node.expression
        if condition is not None:
            order = exp.case().when(condition.copy(), order)
        argument, carried = self._argument(order), self._argument(node.this)
        return Call(function, argument, f"{function.value}({carried}, {argument})", carried)

    def _argument(self, node: exp.Expression) -> str:
        """The part's column that holds an argument; equal arguments share one."""
        output = self.sources.output("", node)
        for known in self.part_outputs:
            if known.sql == output.sql:
                return known.name
        name = f"x{len(self.part_outputs)}"
        self.part_outputs.append(Output(name, output.sql, output.column))
        return name


def _function(node: exp.Expression) -> tuple[Function, exp.Expression | None]:
    """The function and its argument; None for `COUNT(*)`."""
    inner = node.this
    if isinstance(node, exp.CountIf):
        return Function.COUNT, exp.case().when(inner.copy(), exp.Literal.number(1))
    if isinstance(node, exp.Count):
        if node.expressions or isinstance(inner, exp.Star | exp.Literal):
            if isinstance(inner, exp.Star) or (isinstance(inner, exp.Literal) and not node.expressions):
                return Function.COUNT, None
            raise NotIncremental(node.sql(DIALECT), "has no delta rule")
        if isinstance(inner, exp.Distinct):
            if len(inner.expressions) != 1:
                raise NotIncremental(node.sql(DIALECT), "has no delta rule")
            return Function.COUNT_DISTINCT, inner.expressions[0]
        return Function.COUNT, inner
    function = _SIMPLE.get(cast("type[exp.AggFunc]", type(node)))
    if function is None and _function_name_of(node) in _BY_NAME and len(node.expressions) == 1:
        return _BY_NAME[_function_name_of(node)], node.expressions[0]
    if isinstance(node, exp.Any):
        return Function.BOOL_OR, inner.unnest()
    if function is None or node.expressions:
        raise NotIncremental(node.sql(DIALECT), "has no delta rule")
    if isinstance(inner, exp.Distinct):
        if function in (Function.MIN, Function.MAX) and len(inner.expressions) == 1:
            return function, inner.expressions[0]
        raise NotIncremental(node.sql(DIALECT), "has no delta rule")
    return function, inner
