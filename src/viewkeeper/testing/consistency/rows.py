"""Rows, bags of rows and their digests: when two states are the same state.

A row is a mapping (columns by name, in any order) or a sequence (by place). A bag is rows in no order, where equal rows
count. Two bags are the same if they hold equal rows equally often, as Python has it (1 equals 1.0 and Decimal("1")),
except that NaN equals itself.

A bag's digest is the sum of its rows' digests: what came and went changes it at the cost of the change. Digests have 128 bits
of a cryptographic hash, so different bags with one digest do not happen; Python's own `hash` would not do, where −1
and −2 are the same.

Nothing here knows of tables, views or time.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa

Row = Mapping[str, Any] | Sequence[Any]
Rows = Any
"""What a query returns and a reader sees: an iterable of rows, or an Arrow table (which has no types, so neither has this)."""

MODULUS = 1 << 128


def listed(rows: Rows) -> list[Row]:
    return list(rows.to_pylist() if isinstance(rows, pa.Table) else rows)


def canonical(value: Any) -> str:
    """One text for all equal values, and another one for every other value.

    >>> canonical((1, None)) == canonical([1.0, None]), canonical({"b": 2, "a": "x"}), canonical("1") == canonical(1)
    (True, '{"a":"x","b":2}', False)
    """
    match value:
        case str():
            return json.dumps(value)
        case bool() | int():
            return str(int(value))
        case float() | Decimal():
            return str(Fraction(value)) if math.isfinite(value) else str(float(value))
        case Mapping():
            pairs = sorted((canonical(key), canonical(entry)) for key, entry in value.items())
            return "{" + ",".join(f"{key}:{entry}" for key, entry in pairs) + "}"
        case list() | tuple():
            return "[" + ",".join(map(canonical, value)) + "]"
        case _:
            return repr(value)


def row_digest(row: Row) -> int:
    return int.from_bytes(hashlib.blake2b(canonical(row).encode(), digest_size=16).digest(), "big")


def digest(rows: Iterable[Row]) -> int:
    """The digest of a bag.

    >>> digest([{"a": 1}, {"a": 2}]) == digest([{"a": 2}, {"a": 1}]), digest([(-1,)]) == digest([(-2,)])
    (True, False)
    """
    return sum(map(row_digest, rows)) % MODULUS


@dataclass(frozen=True)
class Difference:
    """Two bags that are not the same: what is in the one that was seen and should not be, and what is missing there."""

    unexpected: tuple[Row, ...]
    missing: tuple[Row, ...]

    def __len__(self) -> int:
        return len(self.unexpected) + len(self.missing)

    def __str__(self) -> str:
        parts = (("unexpected", self.unexpected), ("missing", self.missing))
        return "; ".join(f"{word} {_shown(rows)}" for word, rows in parts if rows)


def difference(seen: Sequence[Row], right: Sequence[Row]) -> Difference:
    """How a bag that was seen differs from the right one.

    >>> print(difference([("a", 1), ("b", 2)], [("b", 2), ("b", 2)]))
    unexpected ('a', 1); missing ('b', 2)
    """
    rows = {canonical(row): row for row in (*right, *seen)}
    weights = Counter(map(canonical, seen))
    weights.subtract(map(canonical, right))
    return Difference(
        tuple(rows[text] for text, weight in weights.items() for _ in range(weight)),
        tuple(rows[text] for text, weight in weights.items() for _ in range(-weight)),
    )


SHOWN = 3
"""Rows of a difference that a sentence names."""


def _shown(rows: Sequence[Row]) -> str:
    named = ", ".join(str(row) for row in rows[:SHOWN])
    return named if len(rows) <= SHOWN else f"{named} and {len(rows) - SHOWN} more"
