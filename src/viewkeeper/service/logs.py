"""What a run says, through the standard `logging`: one line per event, under the logger "viewkeeper.run".

An event is a word and named facts. A record's text is `event key=value ...`, for people; `JsonFormatter` makes one JSON
object per line of the same facts, for programs. They are on the record too: `record.event` and `record.facts`.

Nothing is configured here: no handler, no level. By Python's own rule warnings and errors then go to standard error.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

LOGGER = "viewkeeper.run"

_logger = logging.getLogger(LOGGER)


def tell(level: int, event: str, *, trace: BaseException | None = None, **facts: Any) -> None:
    """Log an event. `trace` is an error that nobody foresaw, whose traceback belongs in the log."""
    if _logger.isEnabledFor(level):
        _logger.log(level, "%s", text_form(event, facts), exc_info=trace, extra={"event": event, "facts": facts})


def text_form(event: str, facts: Mapping[str, Any]) -> str:
    """The line for people. A fact that is None is left out; one with spaces in it is quoted.

    >>> text_form("epoch", {"group": "every 2 seconds", "epoch": 7, "seconds": 0.12345, "error": None})
    'epoch group="every 2 seconds" epoch=7 seconds=0.123'
    """
    known = (f"{name}={_shown(value)}" for name, value in facts.items() if value is not None)
    return " ".join([event, *known])


def _shown(value: Any) -> str:
    """A value without blanks or quotes as it is, any other as JSON writes it: on one line, and readable back.

    >>> _shown("inline"), _shown(""), _shown("two\\nlines"), _shown(0.5)
    ('inline', '""', '"two\\\\nlines"', '0.500')
    """
    if isinstance(value, float):
        return f"{value:.3f}"
    text = str(value)
    plain = text.isprintable() and text and not any(sign in text for sign in ' "=')
    return text if plain else json.dumps(text, ensure_ascii=False)


class JsonFormatter(logging.Formatter):
    """One JSON object per record: time, level, event, and the event's facts. Any logger's records will do."""

    def format(self, record: logging.LogRecord) -> str:
        """The object, on one line."""
        about = {
            "time": _moment(record.created),
            "level": record.levelname.lower(),
            "event": getattr(record, "event", "log"),
        }
        trace = {"trace": self.formatException(record.exc_info)} if record.exc_info and record.exc_info[0] else {}
        known = {name: _plain(value) for name, value in _facts(record).items() if value is not None}
        return json.dumps({**about, **known, **trace}, default=str)


def _facts(record: logging.LogRecord) -> dict[str, Any]:
    """What an event of ours says, or the sentence that anyone else logged."""
    facts: dict[str, Any] | None = getattr(record, "facts", None)
    return {"logger": record.name, "message": record.getMessage()} if facts is None else facts


def _moment(seconds: float) -> str:
    """
    >>> _moment(0.25)
    '1970-01-01T00:00:00.250Z'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _plain(value: Any) -> Any:
    """JSON has no NaN and no infinity, and microseconds are enough."""
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    return value
