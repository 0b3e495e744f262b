"""Points in time as the command line says them."""

from __future__ import annotations

import re
from datetime import date
from typing import Final

from tidelog.model.errors import TimeError
from tidelog.model.times.clock import Clock
from tidelog.model.times.instants import TICKS_PER_SECOND

_INTEGER = re.compile(r"[+-]?[0-9]{1,30}")
_COUNTED = re.compile(r"([+-]?[0-9]{1,30}) ?(s|ms|us|ns)")
_YEAR = re.compile(r"[12][0-9]{3}")
_DAY = re.compile(r"([12][0-9]{3})([0-9]{2})([0-9]{2})")
_USUAL: Final = (631_152_000, 4_102_444_800)
"""Seconds from 1970 to the years 1990 and 2100."""
_EARLY: Final = 30 * 86_400
"""A month: where a number ends up that counts a coarser unit than the stream does."""


def point_in_time(text: str | None, clock: Clock) -> int | str | None:
    """A bound of a range: ISO 8601, ``1700000000s`` in any unit since 1970, or an integer in the stream's own.

    Raises :class:`TimeError` for integers that hardly count what they would: years, days, and seconds where the stream
    counts something finer.
    """
    if text is None:
        return None
    text = text.strip()
    if clock.unit is None:
        return int(text) if _INTEGER.fullmatch(text) else text
    if counted := _COUNTED.fullmatch(text):
        return _ticks(int(counted[1]), counted[2], clock)
    if not _INTEGER.fullmatch(text):
        return text
    number = int(text)
    meant = _meant(text, number, clock.unit)
    if meant is not None:
        raise TimeError(
            f"found the time {text!r}, which counts the stream's unit and is {clock.format(number)}; expected {meant}, "
            f"or if you mean that, '{number}{clock.unit}'"
        )
    return number


def _meant(text: str, number: int, unit: str) -> str | None:
    """What somebody who gives an integer as a time probably means, if it is not what it says."""
    if _YEAR.fullmatch(text):
        return f"'{text}-01-01' for the year"
    if (day := _DAY.fullmatch(text)) and _is_day(*map(int, day.groups())):
        return f"'{'-'.join(day.groups())}' for the day"
    if abs(number) < _EARLY * TICKS_PER_SECOND[unit]:
        for other in ("s", "ms", "us"):
            if _USUAL[0] <= number // TICKS_PER_SECOND[other] < _USUAL[1]:
                return f"'{number}{other}' for a number of {_NAMES[other]} since 1970"
    return None


_NAMES: Final = {"s": "seconds", "ms": "milliseconds", "us": "microseconds"}


def _is_day(year: int, month: int, day: int) -> bool:
    try:
        date(year, month, day)
    except ValueError:
        return False
    return True


def _ticks(number: int, unit: str, clock: Clock) -> int:
    """So many of a unit since 1970, as a bound on a clock: the first tick at or after it."""
    assert clock.unit is not None
    return -(-number * TICKS_PER_SECOND[clock.unit] // TICKS_PER_SECOND[unit])
