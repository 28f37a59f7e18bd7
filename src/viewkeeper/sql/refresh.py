"""When a view is refreshed, and by which means: `Refresh` and `Policy`, and the words that users write for them.

`parse_refresh(str(refresh)) == refresh` for every `Refresh`: its text is what is kept, and read again.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from viewkeeper.errors import InputError

LONGEST = 365 * 24 * 3600.0
"""The longest time between refreshes, in seconds: longer ones are slips, and some waits of the system end at 292 years."""

UNITS = {"second": 1.0, "seconds": 1.0, "minute": 60.0, "minutes": 60.0}

_NUMBER = re.compile(r"(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_HINT = 'write "on demand", "immediate" or "every 2 seconds"'


@dataclass(frozen=True)
class OnDemand:
    """When someone asks for it."""

    def __str__(self) -> str:
        return "on demand"


@dataclass(frozen=True)
class Every:
    """Again and again, `seconds` after the time before.

    >>> str(Every(2.0)), str(Every(0.5)), str(Every(1.0))
    ('every 2 seconds', 'every 0.5 seconds', 'every 1 second')
    """

    seconds: float

    def __post_init__(self) -> None:
        if not 0 < self.seconds <= LONGEST:
            raise InputError(
                f"a view cannot be refreshed {self}",
                hint=f"give more than 0 seconds, and at most {LONGEST:.0f} (a year)",
                seconds=self.seconds,
            )

    def __str__(self) -> str:
        number = repr(float(self.seconds)).removesuffix(".0")
        return f"every {number} {'second' if self.seconds == 1 else 'seconds'}"


@dataclass(frozen=True)
class Immediate:
    """As soon as a table under the view changes."""

    def __str__(self) -> str:
        return "immediate"


Refresh = OnDemand | Every | Immediate


class Policy(enum.Enum):
    """By which means: whichever is cheaper, only by changes (or an error that says why not), only from scratch."""

    AUTO = "auto"
    INCREMENTAL = "incremental"
    FULL = "full"


def parse_refresh(text: str) -> Refresh:
    """The refresh that the words name, whatever their case.

    >>> parse_refresh("every 2 minutes")
    Every(seconds=120.0)
    >>> parse_refresh("sometimes")
    Traceback (most recent call last):
    ...
    viewkeeper.errors.InputError: refresh 'sometimes' does not exist
      hint: write "on demand", "immediate" or "every 2 seconds"
    """
    match text.lower().split() if isinstance(text, str) else []:
        case ["on", "demand"]:
            return OnDemand()
        case ["immediate"]:
            return Immediate()
        case ["every", number, unit] if unit in UNITS and _NUMBER.fullmatch(number.removeprefix("-")):
            return every(number, unit)
        case _:
            raise InputError(f"refresh {text!r} does not exist", hint=_HINT, refresh=text)


def every(number: str, unit: str) -> Every:
    """`Every` from a number as SQL writes it and a word of `UNITS`.

    >>> every("1.5", "MINUTES")
    Every(seconds=90.0)
    """
    return Every(float(number) * UNITS[unit.lower()])


def parse_policy(text: str) -> Policy:
    """The policy of that name, whatever its case.

    >>> parse_policy("full")
    <Policy.FULL: 'full'>
    >>> parse_policy("half")
    Traceback (most recent call last):
    ...
    viewkeeper.errors.InputError: policy 'half' does not exist
      hint: there are "auto", "incremental" and "full"
    """
    for policy in Policy:
        if isinstance(text, str) and text.strip().lower() == policy.value:
            return policy
    raise InputError(f"policy {text!r} does not exist", hint='there are "auto", "incremental" and "full"', policy=text)
