"""Dates and instants as text, in the proleptic Gregorian calendar, for any year that the types can hold."""

from __future__ import annotations

import re
import zoneinfo
from datetime import UTC, datetime, timedelta

import numpy as np

_DATE = re.compile(r"(-?\d{1,6})([-/])(\d{1,2})\2(\d{1,2})(?:\s*\((BC)\))?", re.ASCII)
_TIME = re.compile(r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?", re.ASCII)
_OFFSET = re.compile(r"([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?", re.ASCII)
_SPACE = " \t\n\v\f\r"

TICKS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
SECONDS_PER_DAY = 86_400


def days_of(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 of a date. Raises ValueError if there is no such date."""
    if not 1 <= month <= 12:
        raise ValueError(f"month {month}")
    first = np.datetime64(12 * (year - 1970) + month - 1, "M")
    start = int(first.astype("datetime64[D]").astype(np.int64))
    length = int((first + 1).astype("datetime64[D]").astype(np.int64)) - start
    if not 1 <= day <= length:
        raise ValueError(f"day {day}")
    return start + day - 1


def civil(days: int) -> tuple[int, int, int]:
    """Year, month and day of a count of days since 1970-01-01."""
    date = np.datetime64(days, "D")
    months = int(date.astype("datetime64[M]").astype(np.int64))
    start = int(np.datetime64(months, "M").astype("datetime64[D]").astype(np.int64))
    return 1970 + months // 12, months % 12 + 1, days - start + 1


def date_text(days: int) -> str:
    """A date as DuckDB prints it; years before 1 with ``(BC)``."""
    year, month, day = civil(days)
    return f"{year:04d}-{month:02d}-{day:02d}" if year > 0 else f"{1 - year:04d}-{month:02d}-{day:02d} (BC)"


def instant_text(ticks: int, unit: str, *, zoned: bool) -> str:
    """A timestamp as DuckDB prints it: no zeros at the end of the fraction, ``+00`` behind those with a zone."""
    per_second = TICKS_PER_SECOND[unit]
    seconds, fraction = divmod(ticks, per_second)
    days, time = divmod(seconds, SECONDS_PER_DAY)
    digits = f".{fraction:0{len(str(per_second)) - 1}d}".rstrip("0").rstrip(".") if fraction else ""
    date, _, era = date_text(days).partition(" ")
    clock = f"{time // 3600:02d}:{time // 60 % 60:02d}:{time % 60:02d}{digits}"
    return f"{date}{' ' + era if era else ''} {clock}{'+00' if zoned else ''}"


def read_date(text: str) -> int:
    """Days since 1970-01-01 from ``YYYY-MM-DD``; a time of day may follow. Raises ValueError."""
    days, rest = _read_date(text.strip(_SPACE))
    if rest and not re.fullmatch(r"[ T]\d{1,2}:.*", rest):
        raise ValueError(text)
    if rest:
        read_instant(text, "us", zoned=False)
    return days


def _read_date(text: str) -> tuple[int, str]:
    if text == "epoch":
        return 0, ""
    found = _DATE.match(text)
    if found is None:
        raise ValueError(text)
    year = int(found[1])
    if found[5]:
        year = 1 - year
    return days_of(year, int(found[3]), int(found[4])), text[found.end() :]


def read_instant(text: str, unit: str, *, zoned: bool) -> int:
    """A timestamp in ticks of ``unit`` since 1970: a date, a time, a zone, of which the date is needed.

    An offset or a zone's name moves the instant to UTC if ``zoned``, and is left out otherwise. Raises ValueError.
    """
    days, rest = _read_date(text.strip(_SPACE))
    seconds, fraction, digits = 0, 0, 0
    if rest and rest[0] in " T":
        found = _TIME.match(rest.lstrip(" T"))
        if found is None:
            raise ValueError(text)
        hour, minute, second = int(found[1]), int(found[2]), int(found[3] or 0)
        seconds = 3600 * hour + 60 * minute + second
        if minute > 59 or second > 59 or seconds > SECONDS_PER_DAY:
            raise ValueError(text)
        behind = (found[4] or "")[:9]
        fraction, digits = int(behind or 0), len(behind)
        rest = rest.lstrip(" T")[found.end() :]
    ticks_per_second = TICKS_PER_SECOND[unit]
    wanted = len(str(ticks_per_second)) - 1
    if wanted < 6 < digits or (wanted == 6 and digits > 6):
        fraction, digits = fraction // 10 ** (digits - 6), 6  # DuckDB reads microseconds, and rounds those
    shift = digits - wanted
    ticks: int = fraction * 10**-shift if shift <= 0 else (fraction + 10**shift // 2) // 10**shift
    local = (days * SECONDS_PER_DAY + seconds) * ticks_per_second + ticks
    offset = _offset(rest.strip(_SPACE), days * SECONDS_PER_DAY + seconds)
    result: int = local - offset * ticks_per_second if zoned else local
    if not -(2**63) < result < 2**63:
        raise ValueError(text)
    return result


def _offset(text: str, local_seconds: int) -> int:
    """Seconds east of UTC that a zone or an offset says."""
    if text in ("", "Z"):
        return 0
    found = _OFFSET.fullmatch(text)
    if found is not None:
        amount = 3600 * int(found[2]) + 60 * int(found[3] or 0) + int(found[4] or 0)
        return amount if found[1] == "+" else -amount
    try:
        zone = zoneinfo.ZoneInfo(text)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"unknown zone {text!r}") from None
    moment = datetime.fromtimestamp(local_seconds, UTC).replace(tzinfo=zone)
    return int((moment.utcoffset() or timedelta()).total_seconds())
