"""What the parts of the suite share: the fixtures to give, a few tables, and short ways to write and to read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from viewkeeper import names
from viewkeeper.store.contract import (
    Action,
    Applied,
    Cut,
    Expectation,
    Kind,
    Mutation,
    Positions,
    Store,
    TableSpec,
)
from viewkeeper.store.regions import regions_of
from viewkeeper.testing.memory_values import Plain, Rank, ranks, rows_of, table_of

Reopen = Callable[[], Store]

PAIRS = TableSpec(
    "pairs",
    pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())]),
    key=("k",),
    distribution=("k",),
    regions=2,
)
STOCK = TableSpec(
    "stock",
    pa.schema(
        [
            pa.field("quantity", pa.int32()),
            pa.field("shop", pa.string(), nullable=False),
            pa.field("item", pa.int64(), nullable=False),
            pa.field("price", pa.float64()),
        ]
    ),
    key=("shop", "item"),
    distribution=("shop",),
    regions=3,
)
GROUP = "group"
TOTALS = TableSpec(
    "totals",
    pa.schema([pa.field("g", pa.string()), pa.field("x", pa.float64()), pa.field("n", pa.int64())]),
    key=("g", "x"),
    distribution=("g",),
    regions=3,
    kind=Kind.VIEW,
    group=GROUP,
)
BY_PAIR = TableSpec(
    "by_pair",
    pa.schema([pa.field("a", pa.int64()), pa.field("b", pa.string()), pa.field("c", pa.int64())]),
    key=("a", "b", "c"),
    distribution=("a", "b"),
    regions=3,
    kind=Kind.INDEX,
    group=GROUP,
)


class StoreFixtures:
    """What a store gives to be tested."""

    @pytest.fixture
    def store(self) -> Store:
        """An empty store."""
        raise NotImplementedError("give a fixture `store`: an empty store")

    @pytest.fixture
    def reopen(self, store: Store) -> Reopen:
        """A call that closes `store` and opens its data again; a store that keeps nothing gives itself."""
        raise NotImplementedError("give a fixture `reopen`: a call that closes and opens the store")

    @pytest.fixture
    def other(self, store: Store) -> Store:
        """A second handle on the same data, as another process would have; or `store` itself."""
        raise NotImplementedError("give a fixture `other`: a second handle on the data of `store`")


def through_a_restart(store: Store, reopen: Reopen) -> Iterator[Store]:
    """The store as it is, and then as it is when it has been closed and opened."""
    yield store
    yield reopen()


def arrow(spec: TableSpec, rows: Iterable[Plain], columns: Sequence[str] | None = None) -> pa.Table:
    """Plain rows (see `memory_values`) as an Arrow table of the spec's columns, or of some of them."""
    fields = [spec.schema.field(name) for name in (columns or spec.schema.names)]
    return table_of(list(rows), pa.schema(fields))


def tuples(spec: TableSpec, rows: Iterable[Sequence[Any]]) -> pa.Table:
    """Rows given as tuples in schema order."""
    return arrow(spec, [dict(zip(spec.schema.names, row, strict=True)) for row in rows])


def keys_of(spec: TableSpec, keys: Iterable[Sequence[Any]]) -> pa.Table:
    """Keys, or beginnings of keys, given as tuples."""
    listed = list(keys)
    columns = spec.key[: len(listed[0])] if listed else spec.key
    return arrow(spec, [dict(zip(columns, key, strict=True)) for key in listed], columns)


def put(spec: TableSpec, *rows: Sequence[Any]) -> Mutation:
    return Mutation(spec.name, Action.PUT, tuples(spec, rows))


def delete(spec: TableSpec, *keys: Sequence[Any]) -> Mutation:
    return Mutation(spec.name, Action.DELETE, keys_of(spec, keys))


def update(spec: TableSpec, *rows: Plain) -> Mutation:
    return Mutation(spec.name, Action.UPDATE, arrow(spec, rows, list(rows[0])))


def expect(spec: TableSpec, *rows: Plain) -> Expectation:
    return Expectation(spec.name, rows=arrow(spec, rows, list(rows[0])))


def expect_absent(spec: TableSpec, *keys: Sequence[Any]) -> Expectation:
    return Expectation(spec.name, absent=keys_of(spec, keys))


def created(store: Store, *specs: TableSpec) -> Store:
    """The store with these tables, and with the groups that they belong to."""
    for spec in specs:
        if spec.group is not None:
            store.create_group(spec.group)
        store.create(spec)
    return store


def listed(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows of a table as tuples of plain values, in the table's order."""
    return [tuple(row.values()) for row in rows_of(table)]


def exact(table: pa.Table) -> list[tuple[Rank, ...]]:
    """The rows of a table so that equal means the same: NaN is NaN, and -0.0 is not 0.0."""
    return [ranks(row, row) for row in rows_of(table)]


def everything(store: Store, table: str, at: Positions | None = None) -> list[tuple[Any, ...]]:
    return listed(store.scan(table, at=at))


def region_rows(store: Store, spec: TableSpec, region: int, at: int | None = None) -> pa.Table:
    return pa.Table.from_batches(store.read(spec.name, region, at=at), schema=spec.schema)


def region_of(spec: TableSpec, *key: Any) -> int:
    """The region of a key, or of a beginning of it that holds the distribution columns."""
    return int(regions_of(spec, keys_of(spec, [key]))[0])


def same_region(spec: TableSpec, region: int, how_many: int) -> list[int]:
    """Integer keys that live in one region."""
    found = (key for key in range(1, 1_000_000) if region_of(spec, key) == region)
    return [next(found) for _ in range(how_many)]


def log_of(store: Store, spec: TableSpec, region: int, after: int = 0, upto: int | None = None) -> list[Plain]:
    """A region's log as plain rows, up to its newest position if no other is given."""
    end = store.positions(spec.name)[region] if upto is None else upto
    return [change for batch in store.log(spec.name, region, after, end) for change in rows_of(pa.table(batch))]


def replayed(spec: TableSpec, log: Iterable[Plain], begin: Iterable[Plain] = ()) -> list[tuple[Rank, ...]]:
    """The rows, in key order, that a log makes of those at its beginning. Every before-image must be what is there."""
    rows = {ranks(row, spec.key): row for row in begin}
    for change in log:
        key = ranks(change, spec.key)
        before = _image(spec, change, names.HAD, names.BEFORE)
        after = _image(spec, change, names.HAS, names.AFTER)
        there = rows.pop(key, None)
        assert (there is None) == (before is None)
        assert there is None or before is None or ranks(there, spec.schema.names) == ranks(before, spec.schema.names)
        if after is not None:
            rows[key] = after
    return [ranks(rows[key], spec.schema.names) for key in sorted(rows)]


def _image(spec: TableSpec, change: Plain, flag: str, prefix: str) -> Plain | None:
    if not change[flag]:
        return None
    return {name: change[name if name in spec.key else prefix + name] for name in spec.schema.names}


# Epochs


def changes(spec: TableSpec, puts: Iterable[Sequence[Any]] = (), deletes: Iterable[Sequence[Any]] = ()) -> pa.Table:
    """An epoch's changes: rows to put in schema order, and keys to delete."""
    rows = [dict(zip(spec.schema.names, row, strict=True)) | {names.HAS: True} for row in puts]
    blank = dict.fromkeys(spec.schema.names)
    rows += [blank | dict(zip(spec.key, key, strict=True)) | {names.HAS: False} for key in deletes]
    return table_of(rows, spec.schema.append(pa.field(names.HAS, pa.bool_())))


def apply_all(store: Store, spec: TableSpec, all_changes: pa.Table, epoch: int, term: int = 1) -> list[Applied]:
    """Apply each region's part of the changes, as an epoch's tasks do; regions without changes are left alone."""
    regions = regions_of(spec, all_changes)
    return [
        store.apply(spec.name, region, all_changes.filter(pa.array(regions == region)), epoch, term)
        for region in range(spec.regions)
        if (regions == region).any()
    ]


def run_epoch(store: Store, spec: TableSpec, all_changes: pa.Table, cut: Cut | None = None, term: int = 1) -> int:
    """Begin, apply and commit; the epoch's number."""
    assert spec.group is not None
    epoch = store.begin(spec.group, cut or {}, term).epoch
    apply_all(store, spec, all_changes, epoch, term)
    store.commit(spec.group, epoch, term)
    return epoch
