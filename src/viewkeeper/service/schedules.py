"""When a group is due: pure functions of its name, its last cut and the time.

A group is named for its schedule, so its name says how often it is refreshed. The time to the next refresh is counted from
the last cut, not from the end of the last epoch: views of "every 10 seconds" are at most that far behind plus one epoch.
The last cut is on record in the history, so a run that is started again goes on where the last one was.

Nothing here reads a clock or a store.
"""

from __future__ import annotations

from viewkeeper.engine.reports import EpochReport
from viewkeeper.sql.refresh import Every, Immediate, OnDemand, parse_refresh

CATCH_UP = 1.0
"""Seconds between looks at the immediate group. Its writers maintain it; there is only something to do after a crash."""

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds to wait after the first failure, and after many."""


def interval(group: str) -> float | None:
    """Seconds from one cut of a group to the next, or None if it is refreshed only when someone asks.

    >>> interval("every 2 seconds"), interval("on demand"), interval("immediate")
    (2.0, None, 1.0)
    """
    match parse_refresh(group):
        case Every(seconds):
            return seconds
        case Immediate():
            return CATCH_UP
        case OnDemand():
            return None


def maintained_by_writers(group: str) -> bool:
    """Whether a group is refreshed here only when its writers left something behind.

    >>> maintained_by_writers("immediate"), maintained_by_writers("every 1 second")
    (True, False)
    """
    return isinstance(parse_refresh(group), Immediate)


def cut_time(report: EpochReport) -> float:
    """When an epoch took its cut, in seconds since 1970: it is the first thing that an epoch does.

    >>> cut_time(EpochReport("every 2 seconds", 7, {}, "inline", seconds=0.5, jobs=0, finished=100.0))
    99.5
    """
    return report.finished - report.seconds


def until_due(every: float, cut: float | None, now: float) -> float:
    """Seconds until a group is due, given when its last cut was.

    >>> until_due(10.0, cut=100.0, now=104.0)
    6.0

    A group whose cut is older than its interval is due now, and so is one that has none on record.

    >>> until_due(10.0, cut=100.0, now=115.0), until_due(10.0, cut=None, now=115.0)
    (0.0, 0.0)

    A cut that lies in the future (the machine's clock was set back) delays no longer than one from this moment would.

    >>> until_due(10.0, cut=9_000.0, now=104.0)
    10.0
    """
    return 0.0 if cut is None else min(every, max(0.0, cut + every - now))


def pause_after(failures: int) -> float:
    """Seconds to wait after so many failures in a row, before the next try.

    >>> [pause_after(failures) for failures in (1, 2, 3, 6, 7, 1_000)]
    [0.1, 0.2, 0.4, 3.2, 5.0, 5.0]
    """
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(failures - 1, 10))


def goes_on(waiting_before: int, waiting_after: int, most: int) -> bool:
    """Whether the next epoch of a group begins at once, since the last one could not take all that was waiting.

    >>> goes_on(waiting_before=250, waiting_after=150, most=100)
    True

    What came while an epoch ran waits for the group's time, unless it would fill another epoch.

    >>> goes_on(80, 30, most=100), goes_on(80, 130, most=100)
    (False, True)
    >>> goes_on(250, 0, most=100)
    False
    """
    return waiting_after > 0 and max(waiting_before, waiting_after) > most
