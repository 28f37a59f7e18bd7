"""A view's plan as a stable text tree: blocks, strategy and reason, indexes and who else uses them, each change's way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from viewkeeper.maintain.plan import BlockPlan, Hop, Strategy, ViewPlan
from viewkeeper.sql.algebra import Aggregate, Outer, Part, Top


def explain(plan: ViewPlan, group: str, others: Sequence[ViewPlan]) -> str:
    """The text. `others` are the plans of the same group, to tell which indexes are shared."""
    return "\n".join(_lines(plan, group, others))


def _lines(plan: ViewPlan, group: str, others: Sequence[ViewPlan]) -> Iterator[str]:
    reason = f" ({plan.reason})" if plan.reason else ""
    yield f"view {plan.name}: {plan.strategy.value}{reason}, refreshed {group}"
    yield f"  key: {', '.join(plan.shape.spec.key)}{', with a count of copies' if plan.shape.counted else ''}"
    if plan.strategy is Strategy.FULL:
        yield f"  reads: {', '.join(plan.tables)}"
        return
    for block in plan.blocks:
        yield from _block(block)
    for access in plan.indexes:
        users = [other.name for other in others if any(a.place == access.place for a in other.indexes)]
        shared = [name for name in users if name != plan.name]
        suffix = f", shared with {', '.join(shared)}" if shared else ""
        yield f"  index of {access.table} by {', '.join(access.columns)}{suffix}"


def _block(plan: BlockPlan) -> Iterator[str]:
    yield f"  block {plan.block.name}: {_top(plan.block.top)}"
    for number, part in enumerate(plan.block.parts):
        yield f"    {_part(part)}"
        for source in part.sources:
            yield f"      change of {source.table}{_way(plan.ways[number, source.alias])}"
    if plan.accumulators is not None:
        for argument, index in plan.accumulators.value_indexes.items():
            functions = sorted(function.value for function in plan.accumulators.functions(argument))
            yield f"    values of {argument} in {index.name} for {', '.join(functions)}"


def _top(top: Top | Aggregate) -> str:
    match top:
        case Aggregate(groups, calls):
            made = ", ".join(call.sql for call in calls) or "nothing"
            return f"aggregate {made} by {', '.join(groups)}" if groups else f"aggregate {made} over everything"
        case Top():
            return top.value


def _part(part: Part) -> str:
    outputs = ", ".join(f"{o.sql} AS {o.name}" for o in part.outputs)
    conditions = " AND ".join(part.conditions)
    where = f" where {conditions}" if conditions else ""
    match part:
        case Outer(side, left, right, _, on):
            joined = f"{side.value} join of {left.table} {left.alias} and {right.table} {right.alias} on {on}"
        case _:
            kind = "join of " if len(part.sources) > 1 else "select from "
            joined = kind + ", ".join(f"{source.table} {source.alias}" for source in part.sources)
    return f"{joined}{where}: {outputs}"


def _way(hops: Sequence[Hop]) -> str:
    return "".join(_hop(hop) for hop in hops)


def _hop(hop: Hop) -> str:
    if hop.access is None:
        return f" -> all of {hop.source.table}"
    columns = ", ".join(own for _, own in hop.pairs)
    where = "its key" if hop.access.index is None else "index"
    return f" -> {hop.source.table} by {columns} ({where})"
