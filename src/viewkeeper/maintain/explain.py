"""A view's plan as a stable text tree: blocks, strategy and reason, each change's way, indexes and who else uses them.

The text is for people, and held by tests: the same definitions give the same text in every process.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from viewkeeper import names
from viewkeeper.maintain.accumulators import Accumulators
from viewkeeper.maintain.plan import BlockPlan, Hop, Strategy, ViewPlan
from viewkeeper.sql.algebra import Aggregate, Outer, Output, Part, Select, Source, Top


def explain(plan: ViewPlan, group: str, others: Sequence[ViewPlan]) -> str:
    """The text. `others` are the plans of the same group, to tell which indexes are shared."""
    return "\n".join(_lines(plan, group, others))


def _lines(plan: ViewPlan, group: str, others: Sequence[ViewPlan]) -> Iterator[str]:
    yield f"view {plan.name}: {plan.strategy.value}, refreshed {group}"
    if plan.reason:
        yield f"  because {_plain(plan.reason)}"
    yield f"  {_kept(plan)}"
    if plan.strategy is Strategy.FULL:
        yield f"  reads {', '.join(plan.tables)}"
    for block in plan.blocks:
        yield from _block(block)
    for access in plan.indexes:
        users = [other.name for other in others if any(a.place == access.place for a in other.indexes)]
        shared = [name for name in users if name != plan.name]
        suffix = f", shared with {', '.join(shared)}" if shared else ""
        yield f"  index of {access.table} by {', '.join(access.columns)}{suffix}"


def _kept(plan: ViewPlan) -> str:
    """What tells the view's rows apart."""
    key = plan.shape.spec.key
    if key == (names.WHOLE,):
        return "one row"
    copies = ", equal rows counted" if plan.shape.counted else ""
    return f"rows by {', '.join('a hidden group' if k.startswith(names.GROUP) else k for k in key)}{copies}"


# Blocks


def _block(plan: BlockPlan) -> Iterator[str]:
    yield f"  block {plan.block.name}: {_top(plan)}"
    for number, part in enumerate(plan.block.parts):
        yield from (f"    {line}" for line in _part(part, aggregated=plan.accumulators is not None))
        for source in part.sources:
            way = " -> ".join([_source(source), *map(_hop, plan.ways[number, source.alias])])
            yield f"      change of {way}"
    if plan.accumulators is not None:
        yield from (f"    {line}" for line in _value_indexes(plan, plan.accumulators))


def _top(plan: BlockPlan) -> str:
    match plan.block.top:
        case Aggregate(groups, calls, outputs):
            words = _words(plan)
            made = {f"a{number}": _reworded(call.sql, words) for number, call in enumerate(calls)}
            shown = ", ".join(_output(output, {**words, **made}) for output in outputs)
            by = f" by {', '.join(_plain(words[group]) for group in groups)}" if groups else " over everything"
            return f"aggregate {shown}{by}"
        case Top.DISTINCT:
            return "distinct rows"
        case Top.ROWS:
            return "rows"


def _words(plan: BlockPlan) -> dict[str, str]:
    """The columns of an aggregate's part (`g0`, `x1`) as the query has them."""
    return {output.name: output.sql for output in plan.block.parts[0].outputs}


def _reworded(sql: str, words: Mapping[str, str]) -> str:
    return re.sub(r"\b[agx]\d+\b", lambda found: words.get(found[0], found[0]), sql)


def _value_indexes(plan: BlockPlan, kept: Accumulators) -> Iterator[str]:
    words = _words(plan)
    for values in kept.value_indexes:
        functions = ", ".join(sorted(function.value for function in kept.functions(values)))
        ordered = " and ".join(_plain(words[value]) for value in values)
        yield f"ordered values of {ordered} for {functions}"


# Parts


def _part(part: Part, *, aggregated: bool) -> Iterator[str]:
    match part:
        case Outer(side, left, right, _, on):
            yield f"{side.value} join of {_source(left)} and {_source(right)} on {_plain(on)}"
        case Select(sources, edges) if len(sources) > 1:
            on = " AND ".join(_plain(edge.sql) for edge in edges)
            yield f"join of {', '.join(map(_source, sources))}{f' on {on}' if on else ''}"
        case Select(sources):
            yield f"from {_source(sources[0])}"
    if part.conditions:
        yield f"  where {_plain(' AND '.join(part.conditions))}"
    if not aggregated:
        yield f"  select {', '.join(_output(output, {}) for output in part.outputs)}"


def _output(output: Output, words: Mapping[str, str]) -> str:
    sql = _plain(_reworded(output.sql, words))
    return sql if sql.rpartition(".")[2] == output.name else f"{sql} AS {output.name}"


def _source(source: Source) -> str:
    return source.table if source.alias == source.table.lower() else f"{source.table} {source.alias}"


def _hop(hop: Hop) -> str:
    if hop.access is None:
        return f"all of {_source(hop.source)}"
    columns = ", ".join(own for _, own in hop.pairs)
    return f"{_source(hop.source)} by {columns} ({'key' if hop.access.index is None else 'index'})"


def _plain(sql: str) -> str:
    """Without the quotes that names do not need."""
    return re.sub(r"`([A-Za-z_]\w*)`", r"\1", sql)
