"""One index for all views of a group that need a table arranged by the same columns: it carries the union of what they use.

Which indexes there are is a fact of the store, and which of them a plan uses follows from that and from what the group's
plans need: of those that carry enough for all, the one that carries least. So a view that needs a column more gets an
index of its own at first, with the union of all that is needed, filled while the others still follow the old one; from the
next epoch on the old one carries too little for somebody, all use the new one, and the old one is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from viewkeeper import names
from viewkeeper.maintain.plan import Access, BlockPlan, Hop, ViewPlan, family_of, index_name
from viewkeeper.store.contract import Kind, TableSpec

Family = tuple[str, tuple[str, ...]]
Indexes = Mapping[Family, TableSpec]


def with_shared_indexes(plans: Sequence[ViewPlan], tables: Iterable[TableSpec]) -> list[ViewPlan]:
    """The plans of one group, each index of theirs one that is there and enough for all, or else one to be made."""
    there = [spec for spec in tables if spec.kind is Kind.INDEX]
    wanted: dict[Family, list[TableSpec]] = {}
    for access in (access for plan in plans for access in plan.indexes):
        assert access.index is not None
        wanted.setdefault(access.family, []).append(access.index)
    chosen = {family: _chosen(specs, there) for family, specs in wanted.items()}
    return [_using(plan, chosen) for plan in plans]


def _chosen(wanted: Sequence[TableSpec], there: Iterable[TableSpec]) -> TableSpec:
    union = _union(wanted)
    mine = [spec for spec in there if spec.group == union.group and _family_name(spec) == _family_name(union)]
    enough = [spec for spec in mine if _carries(spec, union)]
    return min(enough, key=lambda spec: (len(spec.schema), spec.name), default=union)


def _carries(spec: TableSpec, wanted: TableSpec) -> bool:
    return set(wanted.schema.names) <= set(spec.schema.names)


def _family_name(spec: TableSpec) -> str:
    return family_of(spec.name, spec.group or "")


def _union(specs: Sequence[TableSpec]) -> TableSpec:
    """An index with the columns of all of them, in one order whoever asks."""
    fields = {field.name: field for spec in specs for field in spec.schema}
    first = specs[0]
    carried = sorted(name for name in fields if name not in first.key)
    carried = [*(name for name in carried if name != names.COUNT), *(name for name in carried if name == names.COUNT)]
    schema = pa.schema([fields[name] for name in (*first.key, *carried)])
    return replace(first, name=index_name(_family_name(first), first.group or "", carried), schema=schema)


def _using(plan: ViewPlan, chosen: Indexes) -> ViewPlan:
    return replace(plan, blocks=tuple(_block_using(block, chosen) for block in plan.blocks))


def _block_using(block: BlockPlan, chosen: Indexes) -> BlockPlan:
    return replace(
        block, ways={place: tuple(_hop_using(hop, chosen) for hop in way) for place, way in block.ways.items()}
    )


def _hop_using(hop: Hop, chosen: Indexes) -> Hop:
    access = hop.access
    if access is None or access.index is None:
        return hop
    return replace(hop, access=Access(access.table, access.columns, chosen[access.family]))
