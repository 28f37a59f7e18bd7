"""FROM and WHERE: what is joined with what, on which equalities, and which conditions are left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sqlglot import exp

from viewkeeper.names import RESERVED_PREFIX
from viewkeeper.sql.algebra import (
    Block,
    Column,
    Edge,
    NotIncremental,
    Outer,
    Output,
    Part,
    Select,
    Side,
    Source,
)
from viewkeeper.sql.refusals import own_nodes, refuse_clauses
from viewkeeper.sql.syntax import DIALECT

MERGED = "merged"
"""The mark of an equality that USING or NATURAL makes."""


class Blocks(Protocol):
    """What a FROM needs of the query that it is in: the tables there are, and a place for blocks of its own."""

    @property
    def known(self) -> Mapping[str, Sequence[str]]: ...
    @property
    def ctes(self) -> Mapping[str, str]: ...
    @property
    def columns(self) -> Mapping[str, Sequence[str]]: ...
    @property
    def blocks(self) -> Sequence[Block]: ...
    def inner(self, tree: exp.Expression, names: list[str]) -> str: ...
    def add(self, block: Block, names: Sequence[str]) -> str: ...


@dataclass
class From:
    """The FROM and WHERE of a SELECT, folded into at most one outer join or one row of inner ones.

    An outer join in the middle becomes a block of its own, and the columns that come from it are renamed
    `alias__column`, or nearly so; `renamed` says how.
    """

    compiler: Blocks
    tree: exp.Select
    sources: list[Source] = field(default_factory=list)
    conditions: list[exp.Expression] = field(default_factory=list)
    renamed: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    outer: Outer | None = None

    def read(self) -> From:
        from_ = self.tree.args.get("from_") or self.tree.args.get("from")
        if from_ is None:
            raise NotIncremental("a SELECT without FROM", "has nothing to follow")
        self.sources.append(self._source(from_.this))
        for join in self.tree.args.get("joins") or ():
            self._join(join)
        where = self.tree.args.get("where")
        if where is not None:
            self.conditions += conjuncts_of(where.this)
        return self

    def _source(self, node: exp.Expression) -> Source:
        alias = node.alias_or_name.lower()
        if isinstance(node, exp.Subquery):
            refuse_clauses(node)
            return Source(alias, self.compiler.inner(node.this, names_of(node.this)))
        if (
            not isinstance(node, exp.Table)
            or isinstance(node.this, exp.Func)
            or node.args.get("joins")
            or node.args.get("pivots")
        ):
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
                self.conditions += conjuncts_of(on)
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
        conjuncts = [] if on is None else conjuncts_of(on)
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
        outputs: list[Output] = []
        moves: dict[tuple[str, str], tuple[str, str]] = {}
        alias = f"{RESERVED_PREFIX}j{len(self.compiler.blocks)}"
        for place in wanted:
            name = _not_among({output.name for output in outputs}, "__".join(place))
            outputs.append(self.output(name, exp.column(place[1], place[0])))
            moves[place] = (alias, name)
        block = Block("", (part(tuple(outputs)),))
        name = self.compiler.add(block, [output.name for output in outputs])
        self.renamed |= moves
        self.conditions = []
        return Source(alias, name)

    def _places(self, aliases: set[str]) -> set[tuple[str, str]]:
        return {(s.alias, column.lower()) for s in self.sources if s.alias in aliases for column in self.columns(s)}

    def _columns(self) -> Iterator[exp.Column]:
        for node in own_nodes(self.tree):
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
                    found.append(Edge(left, right, self.sql(conjunct), bool(conjunct.meta.get(MERGED))))
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


def _not_among(taken: set[str], name: str) -> str:
    """A name that is not taken: of an alias `a__b` with a column k and `a` with `b__k`, both would be `a__b__k`."""
    return name if name not in taken else _not_among(taken, f"{name}_")


def conjuncts_of(node: exp.Expression) -> list[exp.Expression]:
    inner: exp.Expression = node.this if isinstance(node, exp.Paren) else node
    if isinstance(inner, exp.And):
        return [*conjuncts_of(inner.this), *conjuncts_of(inner.expression)]
    return conjuncts_of(inner) if inner is not node else [node]


def names_of(tree: exp.Expression) -> list[str]:
    return [str(name) for name in tree.named_selects] if isinstance(tree, exp.Query) else []
