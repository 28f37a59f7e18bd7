"""Aggregates: fold the change per group, add it to what the group has, and read the results off the sum.

    state₁(g) = state₀(g) + Σ weight · contribution(row)        over the changed rows of group g

Why it is sound: every accumulator is a sum over the group's rows (see `accumulators`), and a change's rows carry their
weights, so what a deleted row once added is taken away exactly: integers and decimals are exact, and overflow is an
error. A group is there while its count is not zero; an aggregate without GROUP BY always is. NULL groups are a group.

For sums of doubles the rounding error of each addition is kept beside the sum and added to it when it is read: with
1e20 and 0.1 in a group, the sum is 0.1 again when the 1e20 goes. The two together have twice the digits of a double; of
values that are further apart than that, the small ones are lost. NaN and infinities are counted, not added: they go
when their rows go.

Cost: the change, and one row per touched group.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper import names
from viewkeeper.errors import Corrupt, QueryFailed
from viewkeeper.maintain.accumulators import EXTREMES, SPECIAL_VALUES, Accumulators
from viewkeeper.maintain.delta.rows import numbered, sum_by
from viewkeeper.sql.algebra import Call, Function

_SAFE = 2.0**62

Doubles = npt.NDArray[np.float64]

Edges = Mapping[tuple[tuple[str, ...], Function], pa.Array]
"""The least or greatest value of each group, by value index and function."""


# Folding


def fold(kept: Accumulators, rows: pa.Table) -> pa.Table:
    """The parts' weighted rows as one row per group: the groups' columns, and what to add to each accumulator."""
    rows = with_groups(kept, rows)
    weights = rows[names.WEIGHT].combine_chunks()
    values: dict[str, pa.Array] = {names.COUNT: weights}
    groups = _group_numbers(kept, rows)
    for field in kept.state_schema:
        if field.name != names.COUNT and not field.name.startswith(names.DISTINCTS):
            values[field.name] = _contribution(field, rows, weights, groups)
    first, sums = sum_by(rows, kept.group_names, values)
    folded = rows.select(kept.group_names).take(first)
    for name, column in sums.items():
        folded = folded.append_column(name, column)
    return folded


def refold(kept: Accumulators, parts: pa.Table) -> pa.Table:
    """Folds of parts of a change as one: a sum of sums is the sum. What a sum of doubles would lose joins the rest."""
    values = {name: parts[name] for name in parts.column_names if name not in kept.group_names}
    groups = _group_numbers(kept, parts)
    for total, rest in _pairs(kept):
        if rest in values:
            once = pa.array(np.ones(parts.num_rows, dtype=np.int64))
            column = values[total].combine_chunks()
            values[total] = _weighted_doubles(column, once, groups, rest=False)
            values[rest] = pc.add(values[rest].combine_chunks(), _weighted_doubles(column, once, groups, rest=True))
    first, sums = sum_by(parts, kept.group_names, values)
    folded = parts.select(kept.group_names).take(first)
    for name, column in sums.items():
        folded = folded.append_column(name, column)
    return folded


def with_groups(kept: Accumulators, rows: pa.Table) -> pa.Table:
    """An aggregate without GROUP BY has one group."""
    if kept.top.groups:
        return rows
    return rows.append_column(names.WHOLE, pa.repeat(pa.scalar(0, pa.int8()), rows.num_rows))


Groups = npt.NDArray[np.int64]
"""The number of each row's group."""


def _group_numbers(kept: Accumulators, rows: pa.Table) -> Groups:
    """Only sums of doubles ask for them; without any, all rows are of one group."""
    if not any(pa.types.is_floating(field.type) for field in kept.state_schema):
        return np.zeros(rows.num_rows, dtype=np.int64)
    return numbered(rows, kept.group_names)


def _contribution(field: pa.Field, rows: pa.Table, weights: pa.Array, groups: Groups) -> pa.Array:
    prefix, argument = _split(field.name)
    column = rows[argument].combine_chunks()
    if prefix == names.NON_NULL:
        return _counted(column.is_valid(), weights)
    if prefix == names.TRUES:
        return _counted(pc.fill_null(column, False), weights)
    if prefix in (names.SQUARES, names.SQUARES_REST):
        if pa.types.is_floating(column.type):
            return _weighted_squares(column, weights, groups, rest=prefix == names.SQUARES_REST)
        return _weighted_exact(_squares(column), weights)
    if prefix.startswith(names.SPECIALS):
        return _counted(_is_special(column, prefix[len(names.SPECIALS) :]), weights)
    if pa.types.is_floating(column.type):
        return _weighted_doubles(column, weights, groups, rest=prefix == names.SUM_REST)
    return _weighted_exact(column, weights)


def _split(name: str) -> tuple[str, str]:
    """A state column's prefix and argument."""
    for prefix in (names.NON_NULL, names.TRUES, names.SQUARES, names.DISTINCTS, names.SUM, *_RESTS.values()):
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    argument, _, value = name[len(names.SPECIALS) :].rpartition("_")
    return names.SPECIALS + value, argument


def _counted(flags: pa.Array, weights: pa.Array) -> pa.Array:
    return pc.if_else(flags, weights, 0)


def _is_special(column: pa.Array, value: str) -> pa.Array:
    column = column.cast(pa.float64())
    if value == "nan":
        return pc.fill_null(pc.is_nan(column), False)
    return pc.fill_null(pc.equal(column, math.inf if value == "infinity" else -math.inf), False)


def _weighted_exact(column: pa.Array, weights: pa.Array) -> pa.Array:
    """weight · value, in a type in which the sum over the change cannot overflow."""
    if pa.types.is_integer(column.type):
        numbers = column.cast(pa.int64())
        if _magnitude(numbers) * _magnitude(weights) * max(1, len(column)) < _SAFE:
            return pc.multiply(numbers, weights)
        column = numbers.cast(pa.decimal128(19, 0))
    wide = column.cast(pa.decimal256(column.type.precision, column.type.scale))
    return pc.multiply(wide, weights.cast(pa.decimal256(19, 0)))


def _weighted_doubles(column: pa.Array, weights: pa.Array, groups: Groups, *, rest: bool) -> pa.Array:
    """weight · value, without its last digits or nothing but them: of so few first digits that their sum is exact.

    They are the multiples of a power of two, each group's own, of which the change's values add up to no more than 2⁵³. The
    digits are cut off, not rounded: the greatest double would become infinite.
    """
    finite = pc.and_(column.is_valid(), pc.fill_null(pc.is_finite(column), False))
    values = pc.if_else(finite, column.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)
    factors = weights.to_numpy(zero_copy_only=False)
    if not len(values):
        return pa.array(values)
    unit = _units(values, factors, groups)[groups]
    first = np.ldexp(np.trunc(np.ldexp(values, -unit)), unit)
    with np.errstate(over="ignore"):
        return pa.array((values - first if rest else first) * factors)


def _units(values: Doubles, factors: Groups, groups: Groups) -> npt.NDArray[np.int32]:
    """The exponent of each group's power of two: from its greatest value, its greatest weight, and how many rows it has.

    Each group's own: with one for all, 1e30 in one group would leave the others nothing but last digits.
    """
    count = int(groups.max()) + 1
    greatest, heaviest = np.zeros(count), np.ones(count, dtype=np.int64)
    np.maximum.at(greatest, groups, np.abs(values))
    np.maximum.at(heaviest, groups, np.abs(factors))
    bits = [np.frexp(sizes - 1)[1] for sizes in (heaviest, np.maximum(np.bincount(groups, minlength=count), 1))]
    return np.asarray(np.frexp(greatest)[1] + bits[0] + bits[1] - 53, dtype=np.int32)


def _weighted_squares(column: pa.Array, weights: pa.Array, groups: Groups, *, rest: bool) -> pa.Array:
    """weight · value², split like a value; the rest has what the multiplication itself rounds off, too (Dekker)."""
    finite = pc.and_(column.is_valid(), pc.fill_null(pc.is_finite(column), False))
    values = pc.if_else(finite, column.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)
    if len(values) and np.abs(values).max() > _LARGEST_ROOT:
        raise QueryFailed("the square of a value does not fit into a double", hint="scale the values down")
    squares = values * values
    first = _weighted_doubles(pa.array(squares), weights, groups, rest=rest)
    if not rest:
        return first
    shifted = 134_217_729.0 * values
    high = shifted - (shifted - values)
    low = values - high
    lost = ((high * high - squares) + 2.0 * high * low) + low * low
    return pc.add(first, pa.array(lost * weights.to_numpy(zero_copy_only=False)))


_LARGEST_ROOT = 1e150

_RESTS = {names.SUM: names.SUM_REST, names.SQUARES: names.SQUARES_REST}
"""Where what a sum of doubles loses to rounding is kept."""


def _pairs(kept: Accumulators) -> list[tuple[str, str]]:
    """The sums of doubles that an aggregate may have, each with its rest."""
    return [(total + argument, rest + argument) for argument in kept.arguments for total, rest in _RESTS.items()]


def _magnitude(column: pa.Array) -> float:
    if len(column) == column.null_count:
        return 0.0
    edges = pc.min_max(column).as_py()
    return float(max(abs(edges["min"]), abs(edges["max"])))


def _squares(column: pa.Array) -> pa.Array:
    if pa.types.is_integer(column.type):
        column = column.cast(pa.int64()).cast(pa.decimal128(19, 0))
    wide = column.cast(pa.decimal256(column.type.precision, column.type.scale))
    return pc.multiply(wide, wide)


# Adding


def merge(kept: Accumulators, folded: pa.Table, current: pa.Table, distincts: Mapping[str, pa.Array]) -> pa.Table:
    """The touched groups' new state: groups and accumulators. `current` has the old state, numbered by `names.PROBE`.

    `distincts` is what the value indexes say about the numbers of distinct values, in the order of `folded`.
    """
    slots = np.full(folded.num_rows, -1, dtype=np.int64)
    slots[current[names.PROBE].to_numpy()] = np.arange(current.num_rows)
    index = pa.array(slots, mask=slots < 0)
    columns = {name: folded[name].combine_chunks() for name in kept.group_names}
    old = {f.name: current[f.name].combine_chunks().take(index) for f in kept.state_schema}
    for field in kept.state_schema:
        prefix, argument = _split(field.name) if field.name != names.COUNT else ("", "")
        if prefix in _RESTS.values():
            continue
        added = distincts[argument] if prefix == names.DISTINCTS else folded[field.name].combine_chunks()
        if pa.types.is_floating(field.type):
            rest = _RESTS[prefix] + argument
            more = folded[rest].combine_chunks()
            columns[field.name], columns[rest] = _add_doubles(old[field.name], old[rest], added, more)
        else:
            columns[field.name] = _add_exact(old[field.name], added, field)
    for argument in kept.arguments:
        if names.SUM_REST + argument in columns:
            _forget_rounding(columns, argument)
    if pc.any(pc.less(columns[names.COUNT], 0)).as_py():
        raise Corrupt("a group has fewer than no rows", hint="verify and repair the view")
    return pa.table({name: columns[name] for name in [*kept.group_names, *kept.state_schema.names]})


def _add_exact(old: pa.Array, added: pa.Array, field: pa.Field) -> pa.Array:
    added = pc.fill_null(added, 0) if pa.types.is_integer(added.type) else _no_null(added)
    try:
        if field.type == pa.int64() and pa.types.is_integer(added.type):
            return pc.add_checked(pc.fill_null(old, 0), added.cast(pa.int64()))
        wide = pa.decimal256(75, field.type.scale if pa.types.is_decimal(field.type) else 0)
        start = _no_null(old if pa.types.is_decimal(field.type) else old.cast(pa.decimal128(19, 0)))
        total = pc.add(start.cast(wide), added.cast(wide)).cast(wide)
        return total.cast(field.type)
    except pa.ArrowInvalid as error:
        raise QueryFailed(
            f"a sum does not fit into {field.type}: {error}", hint="sum into a wider type: CAST"
        ) from error


def _no_null(column: pa.Array) -> pa.Array:
    return pc.fill_null(column, pa.scalar(Decimal(0)).cast(column.type)) if column.null_count else column


def _add_doubles(old: pa.Array, rest: pa.Array, added: pa.Array, more: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Knuth's two-sum: what the addition rounds off joins the rest, as does what the change has `more`."""
    a, b, c, d = (pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False) for column in (old, added, rest, more))
    with np.errstate(over="ignore", invalid="ignore"):
        b, d = _two_sum(b, d)
        total, error = _two_sum(a, b)
        total, last = _two_sum(total, c + d + error)
    if not np.isfinite(total).all():
        raise QueryFailed("a sum of doubles does not fit into a double", hint="sum smaller numbers")
    return pa.array(total), pa.array(last)


def _two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """A sum, and what it lost to rounding."""
    total = a + b
    shadow = total - a
    return total, (a - (total - shadow)) + (b - shadow)


def _forget_rounding(columns: dict[str, pa.Array], argument: str) -> None:
    """A sum of no finite values is exactly zero, whatever was rounded while there were some."""
    specials = [columns[f"{names.SPECIALS}{argument}_{value}"] for value in SPECIAL_VALUES]
    finite = columns[names.NON_NULL + argument]
    for count in specials:
        finite = pc.subtract(finite, count)
    for prefix in (*_RESTS, *_RESTS.values()):
        if prefix + argument in columns:
            columns[prefix + argument] = pc.if_else(pc.equal(finite, 0), 0.0, columns[prefix + argument])


# Results


def results(kept: Accumulators, state: pa.Table, edges: Edges) -> pa.Table:
    """The calls' values `a0`, `a1` ... for each row of a state. `edges` are the least and greatest values by argument."""
    columns = []
    for number, call in enumerate(kept.top.calls):
        wanted = kept.call_schema.field(f"a{number}").type
        try:
            columns.append(_result(call, state, edges, wanted).cast(wanted))
        except pa.ArrowInvalid as error:
            raise QueryFailed(
                f"{call.function.value} does not fit into {wanted}: {error}", hint="use a wider type: CAST"
            ) from error
    return pa.table(columns, names=[f"a{number}" for number in range(len(columns))])


def _result(call: Call, state: pa.Table, edges: Edges, wanted: pa.DataType) -> pa.Array:
    function, argument = call.function, call.argument
    if argument is None:
        return state[names.COUNT].combine_chunks()
    if function in EXTREMES:
        return edges[call.values, function]
    if function is Function.COUNT_DISTINCT:
        return state[names.DISTINCTS + argument].combine_chunks()
    counts = state[names.NON_NULL + argument].combine_chunks()
    if function is Function.COUNT:
        return counts
    if function in (Function.BOOL_AND, Function.BOOL_OR):
        return _boolean(function, counts, state[names.TRUES + argument].combine_chunks())
    if function is Function.SUM:
        return _or_null(_sum(state, argument), counts)
    if function is Function.AVG:
        return _average(_sum(state, argument), counts, wanted)
    return _variance(function, state, argument, counts)


def _or_null(column: pa.Array, counts: pa.Array) -> pa.Array:
    return pc.if_else(pc.greater(counts, 0), column, pa.scalar(None, column.type))


def _boolean(function: Function, counts: pa.Array, trues: pa.Array) -> pa.Array:
    answer = pc.equal(trues, counts) if function is Function.BOOL_AND else pc.greater(trues, 0)
    return _or_null(answer, counts)


def _sum(state: pa.Table, argument: str) -> pa.Array:
    total = state[names.SUM + argument].combine_chunks()
    if not pa.types.is_floating(total.type):
        return total
    total = pc.add(total, state[names.SUM_REST + argument].combine_chunks())
    nan, infinity, negative = (
        pc.greater(state[f"{names.SPECIALS}{argument}_{value}"].combine_chunks(), 0) for value in SPECIAL_VALUES
    )
    total = pc.if_else(infinity, math.inf, total)
    total = pc.if_else(negative, -math.inf, total)
    return pc.if_else(pc.or_(nan, pc.and_(infinity, negative)), math.nan, total)


def _average(total: pa.Array, counts: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(wanted):
        pairs = zip(total.to_pylist(), counts.to_pylist(), strict=True)
        return pa.array([_quotient(s, n, wanted.scale) for s, n in pairs], wanted)
    divisor = pc.if_else(pc.greater(counts, 0), counts, pa.scalar(None, pa.int64())).cast(pa.float64())
    return pc.divide(total.cast(pa.float64(), safe=False), divisor)


def _quotient(total: Decimal, count: int, scale: int) -> Decimal | None:
    """Rounded once, half up, as Spark does."""
    if not count:
        return None
    with localcontext(Context(prec=80)):
        return (total / count).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)


def _variance(function: Function, state: pa.Table, argument: str, counts: pa.Array) -> pa.Array:
    sums = _exact_sums(state, names.SUM, argument)
    squares = _exact_sums(state, names.SQUARES, argument)
    found = [_spread(function, *row) for row in zip(counts.to_pylist(), sums, squares, strict=True)]
    return pa.array(found, pa.float64())


def _exact_sums(state: pa.Table, prefix: str, argument: str) -> list[Fraction | None]:
    """Sums as fractions: of doubles, the sum and its rest; None where NaN or an infinity is among the values."""
    sums = state[prefix + argument].to_pylist()
    if _RESTS[prefix] + argument not in state.column_names:
        return [Fraction(value) for value in sums]
    specials = [state[f"{names.SPECIALS}{argument}_{value}"].to_pylist() for value in SPECIAL_VALUES]
    rests = state[_RESTS[prefix] + argument].to_pylist()
    return [
        None if any(special) else Fraction(total) + Fraction(rest)
        for total, rest, *special in zip(sums, rests, *specials, strict=True)
    ]


def _spread(function: Function, count: int, total: Fraction | None, squares: Fraction | None) -> float | None:
    """n·Σx² − (Σx)² in exact arithmetic: nothing cancels before the one division. One row has no sample variance: NULL."""
    divisor = count if function in (Function.VAR_POP, Function.STDDEV_POP) else count - 1
    if count == 0 or divisor == 0:
        return None
    if total is None or squares is None:
        return math.nan
    variance = max(0.0, float((squares * count - total**2) / (count * divisor)))
    return math.sqrt(variance) if function in (Function.STDDEV_POP, Function.STDDEV_SAMP) else variance
