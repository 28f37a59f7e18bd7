"""Query text -> what it reads, and its blocks.

sqlglot parses and resolves names; what comes out is `sql.algebra`. A construct that has no delta rule ends in
`NotIncremental`, which names it: whoever asked decides whether to refuse the view or to re-evaluate it. FROM and WHERE are
read in `joins`, GROUP BY and the aggregate functions in `aggregates`, and what has no rule is found in `refusals`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify

from viewkeeper.errors import NotFound, StatementError
from viewkeeper.names import RESERVED_PREFIX, quoted
from viewkeeper.sql.aggregates import Aggregation, groups_of, has_aggregates
from viewkeeper.sql.algebra import Aggregate, Block, Column, NotIncremental, Output, Part, Select, Source, Top
from viewkeeper.sql.joins import MERGED, From, names_of
from viewkeeper.sql.misread import refuse_misread
from viewkeeper.sql.refusals import TABLE_FUNCTIONS, function_name, refuse_clauses
from viewkeeper.sql.scopes import Columns, ctes_needed, tables_read
from viewkeeper.sql.syntax import DIALECT, parse_one, with_room


def tables_of(query: str, known: Columns) -> list[str]:
    """The tables that a query reads, by their declared names. `NotFound` names one that is not there."""
    tree = parse_one(query)
    _refuse_bare_table(tree)
    declared = {name.lower(): name for name in known}
    found: dict[str, None] = {}
    for table in tables_read(tree):
        if isinstance(table.this, exp.Func):
            _check_function(table.this, table.db)
            continue
        _refuse_database(table)
        if table.name.lower() not in declared:
            raise NotFound(
                f'table or view "{table.name}" does not exist',
                hint=f"there are {', '.join(sorted(known)) or 'none yet'}",
                table=table.name,
            )
        found[declared[table.name.lower()]] = None
    return list(found)


def _refuse_database(table: exp.Table) -> None:
    """`shop.t` is a table of Spark's catalog, or nothing: never ours of the name t, whose changes are the only ones we see."""
    if table.db:
        text = ".".join(part.name for part in table.parts)
        raise StatementError(
            f"{text} has a database in front, and tables and views here have none",
            hint=f"write {table.name}, or create a table and put the rows of {text} into it",
            table=text,
        )


def _check_function(function: exp.Func, database: str) -> None:
    """A function in FROM must be one that reads nothing but its arguments: of tables that others read no change would be seen."""
    name = function_name(function)
    if name == "IDENTIFIER":
        raise StatementError(f"{function.sql(DIALECT)} in FROM is not supported", hint="write the table's name itself")
    if database or name not in TABLE_FUNCTIONS:
        known = ", ".join(sorted(TABLE_FUNCTIONS)).lower()
        raise StatementError(f"{name.lower()}(...) in FROM is not supported", hint=f"there are {known}", function=name)


def _refuse_bare_table(tree: exp.Expression) -> None:
    """`TABLE t` is a column TABLE under the name t to the parser: it would be a query that reads nothing, and never follow."""
    for alias in tree.find_all(exp.Alias):
        if alias.this.name.upper() == "TABLE" and not isinstance(alias.parent, exp.Select):
            raise StatementError(f"TABLE {alias.alias} is not supported", hint=f"write SELECT * FROM {alias.alias}")


def compile_query(name: str, query: str, output_names: Sequence[str], known: Columns) -> tuple[Block, ...]:
    """The blocks of a query, the last one under `name` with the columns `output_names` (Spark's, by position)."""
    try:
        return with_room(lambda: _compile(name, query, output_names, known))
    except RecursionError:
        raise NotIncremental("a query that is nested this deep", "has no delta rule: divide it into views") from None


def _compile(name: str, query: str, output_names: Sequence[str], known: Columns) -> tuple[Block, ...]:
    tree = parse_one(query)
    refuse_misread(query, tree)
    schema: dict[str, object] = {table: dict.fromkeys(columns, "unknown") for table, columns in known.items()}
    _keep_field_names(tree)
    merging = [join for join in tree.find_all(exp.Join) if join.args.get("using") or join.method]
    try:
        tree = qualify(tree, schema=schema, dialect=DIALECT, quote_identifiers=False, identify=False)
    except SqlglotError as error:
        raise NotIncremental("a name", f"could not be resolved ({error})") from error
    _mark_merged(merging)
    compiler = Compiler(name, known)
    compiler.finish(tree, list(output_names))
    return tuple(compiler.blocks)


def _mark_merged(joins: Sequence[exp.Join]) -> None:
    """Joins by USING or NATURAL, now by ON: their equalities make one column of two, which must be of one type."""
    for join in joins:
        on = join.args.get("on")
        for equality in on.find_all(exp.EQ) if on is not None else ():
            equality.meta[MERGED] = True


def _keep_field_names(tree: exp.Expression) -> None:
    """Names are resolved in lower case, but those of a struct's fields are part of its values: `to_json` shows them."""
    for node in tree.find_all(exp.PropertyEQ, exp.ColumnDef):
        name = node.this.copy()  # the parser may have used one object for the field's name and for its value
        name.meta["case_sensitive"] = True
        node.set("this", name)


@dataclass
class Compiler:
    """Collects blocks. Inner ones are named after the view and numbered."""

    view: str
    known: Columns
    blocks: list[Block] = field(default_factory=list)
    ctes: dict[str, str] = field(default_factory=dict)
    columns: dict[str, list[str]] = field(default_factory=dict)

    def finish(self, tree: exp.Expression, names: list[str]) -> None:
        self.blocks.append(replace(self.query(tree, names), name=self.view))

    def inner(self, tree: exp.Expression, names: list[str]) -> str:
        """A block of its own for a part of the query; its name."""
        if len({name.lower() for name in names}) < len(names):
            raise NotIncremental("a subquery with two columns of one name", "has no delta rule")
        return self.add(self.query(tree, names), names)

    def add(self, block: Block, names: Sequence[str]) -> str:
        name = f"{RESERVED_PREFIX}{self.view}_{len(self.blocks)}"
        self.blocks.append(replace(block, name=name))
        self.columns[name] = list(names)
        return name

    # Queries

    def query(self, tree: exp.Expression, names: list[str]) -> Block:
        """A query as a block without a name. The names that its WITH gives end with it."""
        outside = dict(self.ctes)
        try:
            self._take_ctes(tree)
            return self._query(tree, names)
        finally:
            self.ctes = outside

    def _query(self, tree: exp.Expression, names: list[str]) -> Block:
        refuse_clauses(tree)
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
        for cte in ctes_needed(tree):
            self.ctes[cte.alias.lower()] = self.inner(cte.this, names_of(cte.this))

    def _union(self, tree: exp.Union, names: list[str]) -> Block:
        if type(tree) is not exp.Union:
            raise NotIncremental(tree.key.upper(), "has no delta rule")
        if tree.args.get("by_name"):
            raise NotIncremental("UNION BY NAME", "has no delta rule")
        parts: list[Part] = []
        unions: list[tuple[int, int]] = []
        for side in (tree.this, tree.expression):
            own = self.query(side, names)
            if own.top is not Top.ROWS:
                source = Source("u", self.add(own, names))
                own = Block("", (Select((source,), (), (), tuple(_same_column("u", name) for name in names)),))
            inner = [*own.unions, (0, len(own.parts))] if len(own.parts) > 1 else []
            unions += [(len(parts) + first, len(parts) + end) for first, end in inner]
            parts += own.parts
        return Block("", tuple(parts), Top.DISTINCT if tree.args.get("distinct") else Top.ROWS, tuple(unions))

    def _select(self, tree: exp.Select, names: list[str]) -> Block:
        sources = From(self, tree).read()
        items = [item.unalias() for item in tree.expressions]
        if has_aggregates(tree):
            return self._aggregate(tree, sources, items, names)
        outputs = tuple(sources.output(name, item) for name, item in zip(names, items, strict=True))
        top = Top.DISTINCT if tree.args.get("distinct") else Top.ROWS
        return Block("", (sources.part(outputs),), top)

    def _aggregate(self, tree: exp.Select, sources: From, items: list[exp.Expression], names: list[str]) -> Block:
        groups = groups_of(tree, items)
        having = tree.args.get("having")
        aggregate = Aggregation(groups, sources)
        outputs = [aggregate.output(name, item) for name, item in zip(names, items, strict=True)]
        if having is not None:
            outputs.append(aggregate.output(_HAVING, having.this))
        part = sources.part(tuple(aggregate.part_outputs))
        top = Aggregate(tuple(f"g{i}" for i in range(len(groups))), tuple(aggregate.calls), tuple(outputs))
        block = Block("", (part,), top)
        if having is None and not tree.args.get("distinct"):
            return block
        inner = Source("h", self.add(block, [output.name for output in outputs]))
        conditions = (f"h.{_HAVING}",) if having is not None else ()
        select = Select((inner,), (), conditions, tuple(_same_column("h", name) for name in names))
        return Block("", (select,), Top.DISTINCT if tree.args.get("distinct") else Top.ROWS)


_HAVING = f"{RESERVED_PREFIX}having"


def _same_column(alias: str, name: str) -> Output:
    return Output(name, f"{alias}.{quoted(name)}", Column(alias, name))
