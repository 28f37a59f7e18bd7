"""Transactions: any number of tables, all or nothing, and as if nobody else had been there.

Writes are collected and done at the end of the `with` block, in one step. Reads inside see the collected writes over
what is committed, and are remembered: if another writer has changed a row that was read, the block ends in `Conflict`
and nothing is written. So what a transaction decided on is what it changes.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import pyarrow as pa

from viewkeeper import rows
from viewkeeper.errors import Conflict, InputError, NotFound
from viewkeeper.service.immediate import Writer
from viewkeeper.store.contract import Action, Expectation, Kind, Mutation, Row, Store, TableSpec
from viewkeeper.store.encoding import to_python

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Pending:
    """The newest thing that a transaction wants of one key: a row of a collected table."""

    action: Action
    table: pa.Table
    row: int

    def one(self) -> pa.Table:
        return self.table.slice(self.row, 1)


@dataclass
class Collected:
    """What a transaction has done to one table. A single bulk write is never taken apart.

    It is `over` when its block has ended: what is added to it then would never be written.
    """

    spec: TableSpec
    whole: Mutation | None = None
    by_key: dict[Key, Pending] = field(default_factory=dict)
    reads: dict[Key, Row | None] = field(default_factory=dict)
    over: bool = False

    def add(self, action: Action, *tables: pa.Table) -> None:
        """The rows of one call, in which no key comes twice: all of them, or none if one cannot be."""
        given = [table for table in tables if table.num_rows]
        if len(given) == 1 and self.whole is None and not self.by_key:
            self.whole = Mutation(self.spec.name, action, given[0])
            return
        if given:
            self.take_apart()
        wishes = {
            key: Pending(action, table, number) for table in given for number, key in enumerate(_keys(self.spec, table))
        }
        self.by_key |= {key: self._on_top(key, wish) for key, wish in wishes.items()}

    def take_apart(self) -> None:
        """From one bulk write to what is wanted of each key."""
        if self.whole is None:
            return
        action, table = self.whole.action, self.whole.rows
        self.by_key = {key: Pending(action, table, n) for n, key in enumerate(_keys(self.spec, table))}
        self.whole = None

    def _on_top(self, key: Key, new: Pending) -> Pending:
        """The new wish on top of an older one. Only an update looks at what it changes."""
        old = self.by_key.get(key)
        if old is None or new.action is not Action.UPDATE:
            return new
        if old.action is Action.DELETE:
            raise NotFound(
                f'table "{self.spec.name}" has no row {key} to update: this transaction deleted it',
                hint="put the whole row",
            )
        merged = {**_columns(old.one()), **_columns(new.one())}
        schema = pa.schema([self.spec.schema.field(name) for name in merged])
        return Pending(old.action, pa.table(merged, schema=schema), 0)

    def mutations(self) -> list[Mutation]:
        if self.whole is not None:
            return [self.whole]
        kinds: dict[tuple[Action, frozenset[str]], list[pa.Table]] = {}
        for pending in self.by_key.values():
            one = pending.one()
            kinds.setdefault((pending.action, frozenset(one.column_names)), []).append(one)
        return [
            Mutation(self.spec.name, action, pa.concat_tables([t.select(tables[0].column_names) for t in tables]))
            for (action, _), tables in kinds.items()
        ]

    def expectations(self) -> list[Expectation]:
        found = []
        for key, row in self.reads.items():
            if row is None:
                found.append(Expectation(self.spec.name, absent=rows.keys_table(self.spec, [key])))
            else:
                found.append(Expectation(self.spec.name, rows=rows.rows_table(self.spec, row)))
        return found


class TransactionTable:
    """A table inside a transaction. Its writes happen when the transaction ends."""

    def __init__(self, store: Store, collected: Collected) -> None:
        self._store = store
        self._block = collected
        self._spec = collected.spec

    @property
    def _collected(self) -> Collected:
        if self._block.over:
            raise _not_open()
        return self._block

    def put(self, given: Any) -> None:
        """See `Table.put`."""
        self._collected.add(Action.PUT, rows.rows_table(self._spec, given))

    def update(self, given: Any) -> None:
        """See `Table.update`."""
        self._collected.add(Action.UPDATE, *rows.update_tables(self._spec, given))

    def delete(self, keys: Any) -> None:
        """See `Table.delete`."""
        self._collected.add(Action.DELETE, rows.keys_table(self._spec, keys))

    def get(self, key: Any) -> Row | None:
        """The row as this transaction would leave it. What it read of others' rows must still hold when it ends."""
        values = rows.key_values(self._spec, key)
        self._collected.take_apart()
        pending = self._collected.by_key.get(values)
        if pending is None:
            return self._read(values)
        if pending.action is Action.DELETE:
            return None
        own = {name: to_python(column)[0] for name, column in _columns(pending.one()).items()}
        if pending.action is Action.PUT:
            return {name: own[name] for name in self._spec.schema.names}
        below = self._read(values)
        return None if below is None else {**below, **own}

    def _read(self, key: Key) -> Row | None:
        """A copy, lists and maps in it too: what was read must still hold at the end, whatever the caller makes of it.

        Without: `row["n"] += 1` would change what is expected, and end in a conflict with nobody, or find what another
        writer put there meanwhile as expected, and write over it.
        """
        reads = self._collected.reads
        if key not in reads:
            reads[key] = self._store.get(self._spec.name, key)
        return copy.deepcopy(reads[key])

    def put_if(self, row: Mapping[str, Any], expected: Mapping[str, Any] | None) -> bool:
        """See `Table.put_if`; the answer is about the row as this transaction sees it."""
        put = rows.rows_table(self._spec, row)
        key = _keys(self._spec, put)[0]
        current = self.get(key)
        if not _as_expected(self._spec, key, current, expected):
            return False
        self._collected.add(Action.PUT, put)
        return True


class Transaction:
    """See the module. Made by `Database.transaction`, used in a `with` block; an error inside it drops everything."""

    def __init__(self, store: Store, writer: Writer) -> None:
        self._store = store
        self._writer = writer
        self._tables: dict[str, Collected] = {}
        self._open = False

    def table(self, name: str) -> TransactionTable:
        if not self._open:
            raise _not_open()
        spec = self._store.table(name)
        if spec.kind is not Kind.BASE:
            raise InputError(f'"{name}" is a view: it follows its tables', hint="write to the tables under it")
        return TransactionTable(self._store, self._tables.setdefault(spec.name, Collected(spec)))

    def __enter__(self) -> Transaction:
        """It begins with nothing: what an earlier block collected was written then, or dropped by its error."""
        if self._open:
            raise InputError("the transaction is open already", hint="db.transaction() gives another one")
        self._tables = {}
        self._open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False
        for collected in self._tables.values():
            collected.over = True
        if kind is None:
            self._commit()

    def _commit(self) -> None:
        tables = self._tables.values()
        mutations = [mutation for collected in tables for mutation in collected.mutations()]
        expected = [expectation for collected in tables for expectation in collected.expectations()]
        if not self._writer.write(mutations, expected):
            names = ", ".join(f'"{collected.spec.name}"' for collected in tables if collected.reads)
            raise Conflict(
                f"another writer changed rows of {names} that this transaction had read", hint="run it again"
            )


def _not_open() -> InputError:
    return InputError("the transaction is not open", hint="use it inside its with block")


def _keys(spec: TableSpec, table: pa.Table) -> list[Key]:
    return list(zip(*(to_python(table[name]) for name in spec.key), strict=True))


def _columns(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    return dict(zip(table.column_names, table.columns, strict=True))


def _as_expected(spec: TableSpec, key: Key, current: Row | None, expected: Mapping[str, Any] | None) -> bool:
    """Compared as Arrow values of the column's type, where NaN equals itself."""
    if expected is None or current is None:
        return expected is None and current is None
    wanted = rows.partial_row_table(spec, {**dict(zip(spec.key, key, strict=True)), **expected})
    actual = rows.rows_table(spec, current).select(wanted.column_names)
    encoded = (
        (repr(to_python(one)), repr(to_python(two))) for one, two in zip(wanted.columns, actual.columns, strict=True)
    )
    return all(one == two for one, two in encoded)
