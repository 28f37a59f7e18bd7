"""The rows that are written: five columns, in key order, in two editions of the same keys that differ in every value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

DDL = "id BIGINT PRIMARY KEY, customer STRING, quantity BIGINT, price DOUBLE, amount DECIMAL(10, 2)"

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("customer", pa.string()),
        pa.field("quantity", pa.int64()),
        pa.field("price", pa.float64()),
        pa.field("amount", pa.decimal128(10, 2)),
    ]
)

CUSTOMERS = 20_000


@dataclass(frozen=True)
class Editions:
    """`rows` are for us; `plain` has the same rows as SQLite can hold them, decimals as integers of hundredths."""

    rows: tuple[pa.Table, pa.Table]
    plain: tuple[pa.Table, pa.Table]


def editions(count: int, seed: int) -> Editions:
    rng = np.random.default_rng(seed)
    keys = np.arange(count, dtype=np.int64) * 3 + 1
    customers = rng.integers(0, CUSTOMERS, count)
    quantities = rng.integers(1, 1_000, count)
    prices = rng.random(count) * 100
    hundredths = rng.integers(-(10**9), 10**9, count)
    made = [
        (keys, _names("customer", customers), quantities, prices, hundredths),
        (keys, _names("client", customers), quantities + 1_000, prices + 200, hundredths + 5 * 10**9),
    ]
    plain = tuple(pa.table([pa.array(column) for column in columns], names=SCHEMA.names) for columns in made)
    return Editions((_typed(plain[0]), _typed(plain[1])), (plain[0], plain[1]))


def _names(word: str, numbers: npt.NDArray[np.int64]) -> pa.Array:
    distinct = pa.array([f"{word} {number:06}" for number in range(CUSTOMERS)])
    return distinct.take(pa.array(numbers))


def _typed(plain: pa.Table) -> pa.Table:
    """Hundredths become decimals by their bits: 128 of them, the sign in the upper half."""
    low = plain["amount"].to_numpy()
    words = np.ascontiguousarray(np.stack([low, low >> 63], axis=1))
    amounts = pa.Array.from_buffers(SCHEMA.field("amount").type, len(low), [None, pa.py_buffer(words.tobytes())])
    return pa.table([*plain.columns[:4], amounts], schema=SCHEMA)
