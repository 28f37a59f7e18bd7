"""The two zeros of floating numbers: one value to Spark, two places in the order of a view's key."""

from __future__ import annotations

from itertools import product
from typing import Any

Values = tuple[Any, ...]


def with_both_zeros(key: Values) -> list[Values]:
    """A key, or the beginning of one, in every way in which its zeros can be stored, in the order of keys.

    >>> with_both_zeros(("a", 0.0, 1.5))
    [('a', -0.0, 1.5), ('a', 0.0, 1.5)]
    """
    return list(product(*((-0.0, 0.0) if _is_zero(value) else (value,) for value in key)))


def from_the_first_zero(bound: Values) -> Values:
    """A bound that ends in a zero, as the one that comes first: both are there from it on, and neither up to it.

    >>> from_the_first_zero((2, 0.0)), from_the_first_zero((0.0, 2))
    ((2, -0.0), (0.0, 2))
    """
    return (*bound[:-1], -0.0) if bound and _is_zero(bound[-1]) else bound


def _is_zero(value: Any) -> bool:
    return isinstance(value, float) and value == 0.0
