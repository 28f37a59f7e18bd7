"""The run's events as lines of the log; `docs/running.md` has the table of them.

A view that stopped is told once, and again only when its error is another one: it is tried anew in every epoch.
"""

from __future__ import annotations

import logging
import threading

from viewkeeper.engine.reports import ViewReport
from viewkeeper.errors import ViewkeeperError
from viewkeeper.service.events import Appears, Event, Fails, Goes, Leads, Loses, Resigns, Retries, Turn, Waits
from viewkeeper.service.logs import tell


class Journal:
    """Writes the log."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._errors: dict[str, str] = {}

    def __call__(self, event: Event) -> None:
        match event:
            case Waits():
                tell(logging.INFO, "waiting", message="another process maintains this database; standing by")
            case Leads(term):
                tell(logging.INFO, "leading", term=term)
            case Loses(term):
                tell(
                    logging.WARNING,
                    "lost",
                    term=term,
                    message="another process took over; this one applies nothing more",
                )
            case Resigns(term):
                tell(logging.INFO, "resigned", term=term)
            case Appears(group):
                tell(logging.INFO, "following", group=group)
            case Goes(group):
                tell(logging.INFO, "left", group=group)
            case Turn():
                _tell_turn(event)
                for view in event.report.views:
                    self._tell_state(event.group, view)
            case Fails():
                _tell_failure(event)
            case Retries(group):
                tell(logging.DEBUG, "retrying", group=group)

    def _tell_state(self, group: str, view: ViewReport) -> None:
        with self._lock:
            before = self._errors.pop(view.view, None)
            if view.error is not None:
                self._errors[view.view] = view.error
        if view.error is not None and view.error != before:
            tell(logging.ERROR, "stopped", group=group, view=view.view, error=view.error)
        if view.error is None and before is not None:
            tell(logging.INFO, "recovered", group=group, view=view.view)


def _tell_turn(turn: Turn) -> None:
    tell(
        logging.INFO,
        "epoch",
        group=turn.group,
        epoch=turn.report.epoch,
        mode=turn.report.mode,
        changes=turn.changes,
        rows=turn.rows,
        seconds=turn.report.seconds,
        waiting=turn.waiting,
        lag=turn.lag,
    )


def _tell_failure(failure: Fails) -> None:
    """An error of ours says all there is to say. Any other is one that nobody foresaw, and its traceback is wanted."""
    error = failure.error
    foreseen = isinstance(error, ViewkeeperError)
    tell(
        logging.WARNING if foreseen else logging.ERROR,
        "failed",
        trace=None if foreseen else error,
        group=failure.group,
        error=error_code(error),
        message=error.message if isinstance(error, ViewkeeperError) else str(error),
        retry_in=failure.pause,
    )


def error_code(error: Exception) -> str:
    """An error in one word, for programs.

    >>> from viewkeeper.errors import Busy
    >>> error_code(Busy("not now")), error_code(KeyError("x"))
    ('busy', 'KeyError')
    """
    return error.code if isinstance(error, ViewkeeperError) else type(error).__name__
