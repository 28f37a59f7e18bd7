"""Expressions over one small source, evaluated before the join instead of after it.

Take `SUM(r.y) ... GROUP BY s.z % 1000` over ten million rows of r, each joined with one of a hundred thousand of s. After
the join, ten million rows would cross into Spark for the sake of `s.z % 1000`, and back. Before it, a hundred thousand
do; the tasks then join and fold in Arrow, and Spark sees nothing but sums.

Why it is sound: an expression over s is a function of s's columns, and a joined row has them from one row of s; a condition
over s keeps a joined row exactly if it keeps that row of s. One thing would differ: a row of s that meets nothing may make
the expression fail, and must not make the view fail. So a failure here is no error: the part then runs the ordinary way,
where only joined rows are evaluated.

It is for sources that the epoch's tasks do not start from, that a task would read whole anyway, and that all of the part's
expressions and conditions are over, one each. Any other part runs the ordinary way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from viewkeeper import names
from viewkeeper.engine.parts import WHOLE_BYTES
from viewkeeper.engine.point import Step, weighted_rows
from viewkeeper.engine.spark import Spark
from viewkeeper.errors import QueryFailed, StatementError
from viewkeeper.maintain.delta.select import is_plain
from viewkeeper.maintain.plan import BlockPlan, Shape
from viewkeeper.sql.algebra import Column, Output, Select, Source

EARLY = f"{names.RESERVED_PREFIX}early"
"""Columns of a source that hold what an expression over it gives; numbered like the part's outputs."""


@dataclass(frozen=True)
class Early:
    """A part that has become plain, and the rows of the sources that its expressions were over, by alias."""

    plan: BlockPlan
    part: Select
    rows: Mapping[str, pa.Table]


def evaluate_early(
    step: Step, spark: Spark, plan: BlockPlan, part: Select, starts: Iterable[str], *, fill: bool
) -> Early | None:
    """The part with its expressions evaluated on the sources' own rows, if that can be done. `starts` are read by tasks."""
    if is_plain(part):
        return None
    fixed = _fixed(step, plan, part, set(starts), fill=fill)
    owners = _owners(part, fixed)
    if owners is None:
        return None
    try:
        rows = {alias: _evaluated(step, spark, plan, part, fixed[alias], owners) for alias in set(owners.values())}
    except (QueryFailed, StatementError):
        return None
    return _rewritten(plan, part, rows, owners)


def _fixed(step: Step, plan: BlockPlan, part: Select, starts: set[str], *, fill: bool) -> dict[str, Source]:
    """Sources that no task starts from, small enough to be read whole, whose state is one and the same for all terms."""
    tables = [source.table for source in part.sources]
    found = {}
    for source in part.sources:
        spec = plan.inputs[source.table].spec
        still = fill or step.at_start(spec) == step.at_end(spec) or step.size(spec) == 0
        small = step.store.size(spec.name) < WHOLE_BYTES
        if source.alias not in starts and still and small and tables.count(source.table) == 1:
            found[source.alias] = source
    return found


def _owners(part: Select, fixed: Mapping[str, Source]) -> dict[str, str] | None:
    """Which source each expression and each condition is over; None unless each is over one of `fixed`."""
    from viewkeeper.sql.syntax import columns_named

    owners = {}
    for text in (*(output.sql for output in part.outputs if output.column is None), *part.conditions):
        named = {source for source, _ in columns_named(text) or ()}
        if len(named) != 1 or not named <= set(fixed):
            return None
        owners[text] = named.pop()
    return owners


def _evaluated(
    step: Step, spark: Spark, plan: BlockPlan, part: Select, source: Source, owners: Mapping[str, str]
) -> pa.Table:
    """A source's weighted rows after the epoch, those that meet its conditions, with a column for each expression over it."""
    shape = plan.inputs[source.table]
    columns = [*shape.columns, *((names.COUNT,) if shape.counted else ())]
    stored = step.store.scan(shape.spec.name, columns=columns, at=step.at_end(shape.spec))
    fields, items = [*shape.schema], [names.quoted(name) for name in shape.columns]
    for number, output in _expressions(part, source.alias, owners):
        fields.append(plan.part_schema.field(number).with_name(f"{EARLY}{number}"))
        items.append(f"{output.sql} AS {EARLY}{number}")
    kept = [f"({text})" for text in part.conditions if owners[text] == source.alias]
    where = f" WHERE {' AND '.join(kept)}" if kept else ""
    sql = f"SELECT {', '.join(items)}, {names.WEIGHT} FROM _vk_source AS {names.quoted(source.alias)}{where}"
    schema = pa.schema([*fields, pa.field(names.WEIGHT, pa.int64())])
    return spark.run(sql, {"_vk_source": weighted_rows(shape, stored)}, schema)


def _expressions(part: Select, alias: str, owners: Mapping[str, str]) -> list[tuple[int, Output]]:
    return [(n, o) for n, o in enumerate(part.outputs) if o.column is None and owners[o.sql] == alias]


def _rewritten(plan: BlockPlan, part: Select, rows: Mapping[str, pa.Table], owners: Mapping[str, str]) -> Early:
    outputs = tuple(
        replace(output, column=Column(owners[output.sql], f"{EARLY}{number}")) if output.column is None else output
        for number, output in enumerate(part.outputs)
    )
    plain = replace(part, conditions=(), outputs=outputs)
    parts = tuple(plain if one is part else one for one in plan.block.parts)
    tables = {source.table: rows[source.alias] for source in part.sources if source.alias in rows}
    inputs = {table: _widened(shape, tables.get(table)) for table, shape in plan.inputs.items()}
    return Early(replace(plan, block=replace(plan.block, parts=parts), inputs=inputs), plain, rows)


def _widened(shape: Shape, rows: pa.Table | None) -> Shape:
    """A source's shape with the columns that were added to its rows."""
    if rows is None:
        return shape
    added = [field for field in rows.schema if field.name.startswith(EARLY)]
    schema = pa.schema([*shape.spec.schema, *added])
    return replace(shape, spec=replace(shape.spec, schema=schema), columns=(*shape.columns, *(f.name for f in added)))
