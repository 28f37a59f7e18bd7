"""Key order by numbers is the order that Arrow gives, whatever the columns hold."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewkeeper.store.embedded import ordering
from viewkeeper.store.embedded.ordering import sort_indices

INTEGERS = st.one_of(
    st.none(), st.integers(-3, 3), st.sampled_from([-(2**63), 2**63 - 1, 2**62, -(2**62)]), st.integers(-(2**40), 2**40)
)
TEXTS = st.one_of(st.none(), st.sampled_from(["", "a", "ab", "b", "ä", "\0", "a\0", "Z"]))
COLUMNS = st.sampled_from([(INTEGERS, pa.int64()), (TEXTS, pa.string()), (TEXTS, pa.binary())])


@st.composite
def keys(draw: st.DrawFn) -> list[pa.Array]:
    count = draw(st.integers(0, 30))
    columns = draw(st.lists(COLUMNS, min_size=2, max_size=3))
    texts = [(draw(st.lists(values, min_size=count, max_size=count)), kind) for values, kind in columns]
    return [pa.array([_bytes(v) if kind == pa.binary() else v for v in found], kind) for found, kind in texts]


def _bytes(value: str | None) -> bytes | None:
    return None if value is None else value.encode()


def _by_arrow(columns: list[pa.Array]) -> list[int]:
    """Rows of equal keys in the order given."""
    named = {f"c{number}": column for number, column in enumerate(columns)}
    table = pa.table({**named, "n": np.arange(len(columns[0]))})
    order = [(name, "ascending", "at_start") for name in table.column_names]
    return pc.sort_indices(table, sort_keys=order).to_pylist()


@given(columns=keys())
def test_numbers_order_as_keys_do(columns: list[pa.Array]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ordering, "MANY", 0)
        assert sort_indices(columns).to_pylist() == _by_arrow(columns)


@pytest.mark.parametrize("different", [50, 30_000])
def test_many_keys(different: int) -> None:
    rng = np.random.default_rng(1)
    texts = pa.array([f"x{number}" for number in range(different)]).take(pa.array(rng.integers(0, different, 30_000)))
    numbers = pa.array(rng.permutation(30_000) - 15_000)
    assert sort_indices([texts, numbers]).to_pylist() == _by_arrow([texts, numbers])


def test_numbering_is_tried_where_it_pays() -> None:
    """Else the tests above would say nothing of it."""
    repeated, distinct = pa.array(["b", None, "a"] * 3_000), pa.array([str(number) for number in range(9_000)])
    small, wide = pa.array(range(9_000)), pa.array([-(2**63), 0, 2**63 - 1] * 3_000)
    assert ordering._numbers([repeated, small]) is not None
    assert ordering._numbers([distinct, small]) is None
    assert ordering._numbers([repeated, wide]) is None
