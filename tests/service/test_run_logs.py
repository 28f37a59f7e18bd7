from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from viewkeeper.service.logs import LOGGER, JsonFormatter, tell


class Lines(logging.Handler):
    """What a formatter makes of each record."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.setFormatter(JsonFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def lines() -> Iterator[list[str]]:
    handler, logger = Lines(), logging.getLogger(LOGGER)
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler.lines
    logger.removeHandler(handler)
    logger.setLevel(before)


def test_a_line_is_one_object_of_the_facts(lines: list[str]) -> None:
    tell(logging.INFO, "epoch", group="every 2 seconds", epoch=7, seconds=0.25, error=None)
    found = json.loads(lines[0])
    assert found.pop("time").endswith("Z")
    assert found == {"level": "info", "event": "epoch", "group": "every 2 seconds", "epoch": 7, "seconds": 0.25}


def test_an_event_without_facts_is_an_event(lines: list[str]) -> None:
    tell(logging.WARNING, "lost")
    found = json.loads(lines[0])
    assert (found["event"], found["level"], set(found)) == ("lost", "warning", {"time", "level", "event"})


def test_what_json_has_no_word_for(lines: list[str]) -> None:
    tell(logging.INFO, "epoch", lag=float("nan"), text='two\nlines and a "quote"')
    assert "\n" not in lines[0]
    found = json.loads(lines[0])
    assert (found["lag"], found["text"]) == (None, 'two\nlines and a "quote"')


def test_an_unforeseen_error_brings_its_traceback(lines: list[str]) -> None:
    try:
        raise ZeroDivisionError("by nothing")
    except ZeroDivisionError as error:
        tell(logging.ERROR, "failed", trace=error)
    assert "ZeroDivisionError: by nothing" in json.loads(lines[0])["trace"]


def test_the_text_is_the_same_facts(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, LOGGER):
        tell(logging.INFO, "following", group="every 2 seconds")
    assert caplog.messages == ['following group="every 2 seconds"']


def test_the_formatter_takes_anyones_records() -> None:
    record = logging.LogRecord("other", logging.INFO, "f.py", 1, "%s sentences", (2,), None)
    found = json.loads(JsonFormatter().format(record))
    assert (found["event"], found["logger"], found["message"]) == ("log", "other", "2 sentences")


def test_below_its_level_nothing_is_said(lines: list[str]) -> None:
    tell(logging.DEBUG, "retrying", group="g")
    assert lines == []
