"""GROUP BY, HAVING and the select list of an aggregate: groups and calls, and the expressions over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from sqlglot import exp

from viewkeeper.sql.algebra import Call, Column, Function, NotIncremental, Output
from viewkeeper.sql.joins import From
from viewkeeper.sql.syntax import DIALECT

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


def has_aggregates(tree: exp.Select) -> bool:
    return bool(tree.args.get("group") or tree.args.get("having")) or any(
        _is_aggregate(node) for item in tree.expressions for node in item.walk()
    )


def _is_aggregate(node: object) -> bool:
    """The ANY of `x LIKE ANY ('a%', 'b%')` is no call, though the parser has one word for both."""
    if isinstance(node, exp.Any) and isinstance(node.parent, exp.Like | exp.ILike):
        return node.arg_key != "expression"
    return isinstance(node, exp.AggFunc | exp.Any)


def groups_of(tree: exp.Select, items: Sequence[exp.Expression]) -> list[exp.Expression]:
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
class Aggregation:
    """Takes the aggregate calls and the group expressions out of the select list."""

    groups: list[exp.Expression]
    sources: From
    calls: list[Call] = field(default_factory=list)
    part_outputs: list[Output] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.part_outputs += [self.sources.output(f"g{i}", group) for i, group in enumerate(self.groups)]

    def output(self, name: str, node: exp.Expression) -> Output:
        """Every column in it is a group or a call by then.

        `2 AS n ... HAVING COUNT(*) >= n` leaves a name that is neither, and the state has a column n too.
        """
        moved = self._moved(node.copy())
        loose = next((column for column in moved.find_all(exp.Column) if not column.meta.get(_OWN)), None)
        if loose is not None:
            raise NotIncremental(node.sql(DIALECT), "has no delta rule")
        plain = moved.name if isinstance(moved, exp.Column) else None
        return Output(name, moved.sql(DIALECT), None if plain is None else Column("", plain))

    def _moved(self, node: exp.Expression) -> exp.Expression:
        for number, group in enumerate(self.groups):
            if node == group and group.find(exp.Column):  # a constant stays itself: in ROUND(x, 1) it must be one
                _refuse_unclear(node)
                return _own(f"g{number}")
        if isinstance(node, exp.Filter) or _is_aggregate(node):
            return _own(f"a{self._call(node)}")
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


_OWN = "own"
"""The mark of a column of an aggregate's state."""


def _own(name: str) -> exp.Column:
    column = exp.column(name)
    column.meta[_OWN] = True
    return column


_LOOSE = exp.BitwiseAnd | exp.BitwiseOr | exp.BitwiseXor | exp.BitwiseLeftShift | exp.BitwiseRightShift | exp.DPipe


def _refuse_unclear(group: exp.Expression) -> None:
    """To Spark `y | k & 3` is `y | (k & 3)`, and to the parser, which has one rank for all such signs, `(y | k) & 3`.

    As text it stays what it is. But where the query groups by `y | k`, the parser finds that group in it, and Spark does not.
    """
    around = group.parent
    if not isinstance(group, exp.Binary) or not isinstance(around, exp.Binary):
        return
    if isinstance(group, _LOOSE) or isinstance(around, _LOOSE):
        raise NotIncremental(around.sql(DIALECT), "is not clear about its group: put that in parentheses")


def _function(node: exp.Expression) -> tuple[Function, exp.Expression | None]:
    """The function and its argument; None for `COUNT(*)`."""
    inner = node.this
    if isinstance(node, exp.CountIf):
        return Function.COUNT, exp.case().when(inner.copy(), exp.Literal.number(1))
    if isinstance(node, exp.Count):
        if node.expressions or (isinstance(inner, exp.Star) and any(inner.args.values())):
            raise NotIncremental(node.sql(DIALECT), "has no delta rule")
        if isinstance(inner, exp.Star | exp.Literal):
            return Function.COUNT, None
        if isinstance(inner, exp.Distinct):
            if len(inner.expressions) != 1:
                raise NotIncremental(node.sql(DIALECT), "has no delta rule")
            return Function.COUNT_DISTINCT, inner.expressions[0]
        return Function.COUNT, inner
    function = _SIMPLE.get(cast("type[exp.AggFunc]", type(node)))
    if isinstance(node, exp.Any):
        return Function.BOOL_OR, inner.unnest()
    if function is None or node.expressions:
        raise NotIncremental(node.sql(DIALECT), "has no delta rule")
    if isinstance(inner, exp.Distinct):
        if function in (Function.MIN, Function.MAX) and len(inner.expressions) == 1:
            return function, inner.expressions[0]
        raise NotIncremental(node.sql(DIALECT), "has no delta rule")
    return function, inner
