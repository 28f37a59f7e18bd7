"""MIN, MAX, MIN_BY, MAX_BY and COUNT(DISTINCT): a bag of (group, value), ordered, with a count for each.

The change is folded per (group, value) and added to the counts; a value whose count reaches zero goes. Then the least
value of a group is the first row under it, and the greatest the last: a seek, however large the group. A value is
distinct while its count is not zero, so the number of distinct values moves when a row of the index comes or goes.
NULLs are not values. Why it is sound: the index is the exact bag of the group's values after the change, and nothing is
remembered of what the extreme was, so its deletion needs no special care.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper import names
from viewkeeper.errors import Corrupt
from viewkeeper.maintain.accumulators import Accumulators, value_columns
from viewkeeper.maintain.delta.aggregate import with_groups
from viewkeeper.maintain.delta.rows import as_desired, one_zero, stored_keys, sum_by
from viewkeeper.store.contract import TableSpec


def fold_values(kept: Accumulators, values: tuple[str, ...], rows: pa.Table) -> pa.Table:
    """The parts' rows as the change of a value index: groups, value, and what to add to its count."""
    rows = with_groups(kept, rows)
    rows = rows.filter(rows[values[0]].is_valid())
    rows = one_zero(rows, values[:1])  # what is ordered; what is carried is shown as it is
    table = rows.select(kept.group_names)
    for name, value in value_columns(values).items():
        table = table.append_column(name, rows[value])
    first, sums = sum_by(table, table.column_names, {names.WEIGHT: rows[names.WEIGHT]})
    folded = table.take(first).append_column(names.WEIGHT, sums[names.WEIGHT])
    return folded.filter(pc.not_equal(folded[names.WEIGHT], 0))


def merge_values(spec: TableSpec, folded: pa.Table, current: pa.Table) -> tuple[pa.Table, pa.Array]:
    """What the index is to become, and for each row of `folded` whether a distinct value came (1) or went (-1).

    `current` has the index's rows for the keys of `folded`, numbered by `names.PROBE`.
    """
    before = np.zeros(folded.num_rows, dtype=np.int64)
    before[current[names.PROBE].to_numpy()] = current[names.COUNT].to_numpy()
    after = before + folded[names.WEIGHT].to_numpy()
    if (after < 0).any():
        raise Corrupt(f'index "{spec.name}" has fewer than no copies of a value', hint="verify and repair the view")
    rows = folded.drop_columns([names.WEIGHT]).append_column(names.COUNT, pa.array(after))
    there = pa.array(after > 0)
    moved = pa.array((after > 0).astype(np.int64) - (before > 0).astype(np.int64))
    return as_desired(rows.filter(there), rows.filter(pc.invert(there)), spec.schema), moved


def distinct_changes(kept: Accumulators, folded: pa.Table, values: pa.Table, moved: pa.Array) -> pa.Array:
    """How the number of distinct values of each group of `folded` moves."""
    groups = kept.group_names
    both = pa.concat_tables([folded.select(groups), values.select(groups)])
    keys = stored_keys(both, groups)
    position = np.full(both.num_rows, -1, dtype=np.int64)
    position[: folded.num_rows] = np.arange(folded.num_rows)
    numbers = np.concatenate([np.zeros(folded.num_rows, dtype=np.int64), moved.to_numpy()])
    table = keys.append_column("p", pa.array(position)).append_column("m", pa.array(numbers))
    sums = table.group_by(keys.column_names, use_threads=False).aggregate([("p", "max"), ("m", "sum")])
    found = np.zeros(folded.num_rows, dtype=np.int64)
    found[sums["p_max"].to_numpy()] = sums["m_sum"].to_numpy()
    return pa.array(found)
