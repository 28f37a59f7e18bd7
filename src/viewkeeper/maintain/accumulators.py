"""What an aggregate keeps beside its visible columns, so that it can go backwards; and how its results follow from it.

| function | kept per argument | result |
|---|---|---|
| COUNT(*) | `names.COUNT`, the rows of the group | itself |
| COUNT(x) | the non-NULL values | itself |
| SUM, AVG of integers and decimals | their exact sum, and the non-NULL values | NULL for none, else the sum; the quotient |
| SUM, AVG of doubles | the sum, what it lost to rounding, and counts of NaN, infinity, -infinity | as above |
| BOOL_AND, BOOL_OR | the non-NULL and the true values | none false; one true |
| VARIANCE, STDDEV of integers and decimals | exact sum and sum of squares | their formula |
| VARIANCE, STDDEV of doubles | the same, each as a sum and what it lost to rounding | their formula, in exact arithmetic |
| MIN, MAX | a value index ordered by (group, value) | its first, its last row |
| MIN_BY, MAX_BY | one ordered by (group, order, result) | that of its first, its last row; of ties the least, the greatest |
| COUNT(DISTINCT x) | the same index as MIN, and how many rows of it the group has | that number |

Every entry is a sum over the group's rows, so a change adds to it with its weight: that is why a deletion needs nothing
but its row. The value index is a bag of (group, value): the least value of a group is found after the change, by a seek.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from viewkeeper import names
from viewkeeper.sql.algebra import Aggregate, Call, Function, NotIncremental
from viewkeeper.store.contract import Kind, TableSpec

Typer = Callable[[str, Mapping[str, pa.Schema]], pa.Schema]

FIRSTS = (Function.MIN, Function.MIN_BY)
EXTREMES = (*FIRSTS, Function.MAX, Function.MAX_BY)
INDEXED = (*EXTREMES, Function.COUNT_DISTINCT)
VARIANCES = (Function.VAR_POP, Function.VAR_SAMP, Function.STDDEV_POP, Function.STDDEV_SAMP)
SPECIAL_VALUES = ("nan", "infinity", "negative")


@dataclass(frozen=True)
class Accumulators:
    """An aggregate block's hidden state. `value_indexes` are by the columns that they are over."""

    top: Aggregate
    part_schema: pa.Schema
    state_schema: pa.Schema
    call_schema: pa.Schema
    output_schema: pa.Schema
    value_indexes: Mapping[tuple[str, ...], TableSpec]

    @property
    def group_fields(self) -> list[pa.Field]:
        """The groups' columns, or the one of an aggregate without groups."""
        fields = [self.part_schema.field(group) for group in self.top.groups]
        return fields or [pa.field(names.WHOLE, pa.int8())]

    @property
    def group_names(self) -> list[str]:
        return [field.name for field in self.group_fields]

    @property
    def arguments(self) -> list[str]:
        return list(dict.fromkeys(call.argument for call in self.top.calls if call.argument is not None))

    def functions(self, values: tuple[str, ...]) -> set[Function]:
        """The functions that read a value index."""
        return {call.function for call in self.top.calls if call.values == values and call.function in INDEXED}

    @property
    def plain_outputs(self) -> bool:
        """Whether every visible column is a group or a call as it is: nothing for Spark to evaluate."""
        return all(output.column is not None for output in self.top.outputs)


def accumulators(
    block: str,
    top: Aggregate,
    order: Sequence[str],
    part_schema: pa.Schema,
    group: str,
    regions: int,
    spread: int,
    typer: Typer,
) -> Accumulators:
    """The state that an aggregate needs, with the types that Spark gives its calls and outputs.

    `order` is the groups in the order of the table's key, and `spread` how many of them say which region a row is in (0: all).
    Value indexes have both too, so that a group's values are in the region of the same number as its row, and one task owns
    both.
    """
    for call in top.calls:
        _refuse_inexact(call, part_schema)
    call_schema = _call_schema(top, part_schema, typer)
    fields = [pa.field(names.COUNT, pa.int64())]
    indexes: dict[tuple[str, ...], TableSpec] = {}
    for argument in dict.fromkeys(call.argument for call in top.calls if call.argument is not None):
        functions = {call.function for call in top.calls if call.argument == argument}
        fields += _argument_fields(argument, functions, part_schema.field(argument).type)
    for call in top.calls:
        if call.function in INDEXED:
            indexes[call.values] = _value_index(block, order, call.values, part_schema, group, regions, spread)
    output_schema = _output_schema(top, part_schema, call_schema, typer)
    return Accumulators(top, part_schema, pa.schema(fields), call_schema, output_schema, indexes)


def _refuse_inexact(call: Call, part_schema: pa.Schema) -> None:
    if call.argument is None:
        return
    kind = part_schema.field(call.argument).type
    if call.function in VARIANCES and pa.types.is_decimal(kind) and kind.precision > 15:
        raise NotIncremental(call.function.value.upper(), f"of {kind} has no exact sum of squares, so no delta rule")
    if call.function in (Function.BOOL_AND, Function.BOOL_OR) and not pa.types.is_boolean(kind):
        raise NotIncremental(call.function.value.upper(), f"of {kind} has no delta rule: CAST it to BOOLEAN")
    if call.function in INDEXED and any(pa.types.is_nested(part_schema.field(name).type) for name in call.values):
        raise NotIncremental(call.function.value.upper(), "of nested values has no delta rule")


def _argument_fields(argument: str, functions: set[Function], kind: pa.DataType) -> list[pa.Field]:
    fields = []
    if functions - set(INDEXED):
        fields.append(pa.field(names.NON_NULL + argument, pa.int64()))
    if functions & {Function.SUM, Function.AVG, *VARIANCES}:
        fields += _sum_fields(argument, kind, wide=bool(functions & {Function.AVG, *VARIANCES}))
    if functions & set(VARIANCES):
        fields += _square_fields(argument, kind)
    if functions & {Function.BOOL_AND, Function.BOOL_OR}:
        fields.append(pa.field(names.TRUES + argument, pa.int64()))
    if Function.COUNT_DISTINCT in functions:
        fields.append(pa.field(names.DISTINCTS + argument, pa.int64()))
    return fields


def _square_fields(argument: str, kind: pa.DataType) -> list[pa.Field]:
    if pa.types.is_floating(kind):
        return [pa.field(prefix + argument, pa.float64()) for prefix in (names.SQUARES, names.SQUARES_REST)]
    scale = 2 * kind.scale if pa.types.is_decimal(kind) else 0
    return [pa.field(names.SQUARES + argument, pa.decimal128(38, scale))]


def _sum_fields(argument: str, kind: pa.DataType, *, wide: bool) -> list[pa.Field]:
    """An average of integers has no overflow in Spark, for it sums doubles: so its sum is a `wide` one here."""
    if not pa.types.is_floating(kind):
        widened = wide and pa.types.is_integer(kind)
        return [pa.field(names.SUM + argument, pa.decimal128(38, 0) if widened else sum_type(kind))]
    specials = [pa.field(f"{names.SPECIALS}{argument}_{value}", pa.int64()) for value in SPECIAL_VALUES]
    return [
        pa.field(names.SUM + argument, pa.float64()),
        pa.field(names.SUM_REST + argument, pa.float64()),
        *specials,
    ]


def sum_type(kind: pa.DataType) -> pa.DataType:
    """The exact sum's type: Spark's own, so that what does not fit is what Spark could not sum either."""
    if pa.types.is_decimal(kind):
        return pa.decimal128(min(38, kind.precision + 10), kind.scale)
    if pa.types.is_integer(kind):
        return pa.int64()
    raise NotIncremental("SUM or AVG", f"of {kind} has no delta rule")


def _value_index(
    block: str,
    order: Sequence[str],
    values: tuple[str, ...],
    part_schema: pa.Schema,
    group: str,
    regions: int,
    spread: int,
) -> TableSpec:
    groups = [part_schema.field(name) for name in order] or [pa.field(names.WHOLE, pa.int8())]
    ordered = value_columns(values)
    fields = [pa.field(name, part_schema.field(value).type) for name, value in ordered.items()]
    schema = pa.schema([*(field.with_nullable(True) for field in groups), *fields, pa.field(names.COUNT, pa.int64())])
    by = tuple(field.name for field in groups)
    name = f"{names.RESERVED_PREFIX}values_{block}({','.join(values)})"
    return TableSpec(name, schema, (*by, *ordered), by[:spread] or by, regions, Kind.INDEX, group)


def value_columns(values: tuple[str, ...]) -> dict[str, str]:
    """A value index's columns after its groups, and the part's columns that they hold."""
    return dict(zip((names.VALUE, names.CARRIED), values, strict=False))


def _call_schema(top: Aggregate, part_schema: pa.Schema, typer: Typer) -> pa.Schema:
    items = [f"{call.sql} AS a{number}" for number, call in enumerate(top.calls)]
    by = f" GROUP BY {', '.join(top.groups)}" if top.groups else ""
    return typer(f"SELECT {', '.join([*items, 'count(*) AS n'])} FROM part{by}", {"part": part_schema})


def _output_schema(top: Aggregate, part_schema: pa.Schema, call_schema: pa.Schema, typer: Typer) -> pa.Schema:
    """Typed over one state row, with a column beside the outputs: an aggregate hidden in an output fails here."""
    state = pa.schema([*(part_schema.field(name) for name in top.groups), *call_schema])
    items = [f"{output.sql} AS {names.quoted(output.name)}" for output in top.outputs]
    schema = typer(f"SELECT {', '.join([*items, 'n'])} FROM state", {"state": state})
    return pa.schema(list(schema)[:-1])
