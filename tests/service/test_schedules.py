from __future__ import annotations

import pytest

from viewkeeper.errors import InputError
from viewkeeper.service.schedules import FIRST_PAUSE, LONGEST_PAUSE, goes_on, interval, pause_after, until_due


@pytest.mark.parametrize(
    ("group", "seconds"), [("every 0.5 seconds", 0.5), ("every 1 second", 1.0), ("every 2 minutes", 120.0)]
)
def test_a_group_is_named_for_its_interval(group: str, seconds: float) -> None:
    assert interval(group) == seconds


def test_a_group_on_demand_has_no_interval() -> None:
    assert interval("on demand") is None


def test_what_is_no_schedule_is_refused() -> None:
    with pytest.raises(InputError, match="'sometimes' does not exist"):
        interval("sometimes")


@pytest.mark.parametrize("now", [0.0, 99.0, 100.0, 100.5, 109.9, 110.0, 1e9])
def test_nobody_waits_longer_than_the_interval(now: float) -> None:
    assert 0.0 <= until_due(10.0, 100.0, now) <= 10.0


def test_the_interval_is_counted_from_the_cut_and_not_from_the_end_of_the_epoch() -> None:
    began, ended = 100.0, 107.0
    assert until_due(10.0, began, ended) == 3.0


def test_pauses_grow_to_a_limit() -> None:
    pauses = [pause_after(failures) for failures in range(1, 40)]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (FIRST_PAUSE, LONGEST_PAUSE)


@pytest.mark.parametrize(
    ("before", "after", "on"),
    [(100, 0, False), (100, 100, False), (101, 1, True), (101, 0, False), (0, 101, True), (5_000, 4_900, True)],
)
def test_the_next_epoch_begins_at_once_only_where_the_last_one_was_full(before: int, after: int, on: bool) -> None:
    assert goes_on(before, after, most=100) is on
