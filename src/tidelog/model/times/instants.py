"""Points in time as people write them, read without any loss: datetimes, dates, ISO 8601 text, NumPy, Arrow.

What a point means in the unit and zone of a stream is the business of :class:`tidelog.model.times.clock.Clock`.
"""

from __future__ import annotations

import re
import reprlib
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tidelog.model.errors import TimeError


class Instant(NamedTuple):
    """``numerator / denominator`` seconds since 1970-01-01T00:00:00, exactly.

    ``zoned`` says whether that is the epoch in UTC, or midnight in a zone the value does not name.
    """

    numerator: int
    denominator: int
    zoned: bool


TICKS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""What the units of Arrow timestamps and durations count."""

SECONDS_PER_UNIT: dict[str, tuple[int, int]] = {
    "W": (604_800, 1),
    "D": (86_400, 1),
    "h": (3_600, 1),
    "m": (60, 1),
    "s": (1, 1),
    "ms": (1, 10**3),
    "us": (1, 10**6),
    "ns": (1, 10**9),
    "ps": (1, 10**12),
    "fs": (1, 10**15),
    "as": (1, 10**18),
}
"""The fixed-length units of NumPy's datetime64 and timedelta64, as fractions of seconds."""

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_SECONDS_PER_DAY = 86_400
_MICROSECOND = timedelta(microseconds=1)
_MONTHS_OF_DATES = ((date.min.year - 1970) * 12, (date.max.year - 1970) * 12 + 11)

_ISO = re.compile(
    r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
    r"(?:[Tt ](?P<hour>[0-9]{2})(?::(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]{1,18}))?)?)?"
    r" ?(?P<zone>[Zz]|(?P<sign>[+-])(?P<zone_hour>[0-9]{2})(?::?(?P<zone_minute>[0-9]{2}))?)?)?"
)


def shown(value: object) -> str:
    """A value as messages show it: its repr, on one line and cut to a readable length."""
    return _SHORT.repr(value).replace("\n", " ")


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80


def is_missing(value: object) -> bool:
    """Whether a value stands for "nothing here": None, NaT of pandas or NumPy, NA of pandas, a null of Arrow.

    NaN is a number, not a missing one.
    """
    if value is None:
        return True
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    if isinstance(value, pa.Scalar):
        return not value.is_valid
    # By name, so that pandas need not be imported: its NaT even claims to be a datetime.
    return type(value).__name__ in ("NaTType", "NAType") and type(value).__module__.startswith("pandas.")


def read_instant(value: object) -> Instant:
    """Read a datetime, date, ISO string, ``numpy.datetime64`` or Arrow scalar; pandas Timestamps are datetimes.

    Raises :class:`TimeError` for anything else, numbers included: they mean nothing without a unit.
    """
    if is_missing(value):
        raise TimeError(f"found {shown(value)}, which is no point in time")
    if isinstance(value, datetime):
        return _from_datetime(value)
    if isinstance(value, date):
        return Instant((value.toordinal() - _EPOCH_DAY) * _SECONDS_PER_DAY, 1, False)
    if isinstance(value, str):
        return _from_text(value)
    if isinstance(value, np.datetime64):
        return _from_numpy(value)
    if isinstance(value, pa.TimestampScalar):
        return Instant(value.value, TICKS_PER_SECOND[value.type.unit], value.type.tz is not None)
    if isinstance(value, pa.Date32Scalar | pa.Date64Scalar):
        return read_instant(value.as_py())
    raise TimeError(
        f"found {shown(value)} ({type(value).__name__}), which is no point in time; "
        "expected a datetime, a date, an ISO 8601 string or a numpy.datetime64"
    )


def _from_datetime(value: datetime) -> Instant:
    days = value.toordinal() - _EPOCH_DAY
    seconds = days * _SECONDS_PER_DAY + value.hour * 3600 + value.minute * 60 + value.second
    microseconds = seconds * 10**6 + value.microsecond
    offset = value.utcoffset()
    if offset is not None:
        microseconds -= offset // _MICROSECOND
    nanoseconds = getattr(value, "nanosecond", 0)  # a pandas Timestamp
    if nanoseconds:
        return Instant(microseconds * 1000 + nanoseconds, 10**9, offset is not None)
    return Instant(microseconds, 10**6, offset is not None)


def _from_numpy(value: np.datetime64) -> Instant:
    unit, count = np.datetime_data(value.dtype)
    if unit in ("Y", "M"):
        months = int(value.astype(np.int64)) * count * (12 if unit == "Y" else 1)
        if not _MONTHS_OF_DATES[0] <= months <= _MONTHS_OF_DATES[1]:
            raise TimeError(f"found {shown(value)}; expected a year from {date.min.year} to {date.max.year}")
        value, unit, count = value.astype("datetime64[D]"), "D", 1
    numerator, denominator = SECONDS_PER_UNIT[unit]
    return Instant(int(value.astype(np.int64)) * count * numerator, denominator, False)


def _from_text(text: str) -> Instant:
    match = _ISO.fullmatch(text.strip())
    if match is None:
        raise TimeError(
            f"found {shown(text)}, which is no ISO 8601 time; expected a form such as '2024-02-29', "
            "'2024-02-29T12:30:00.25' or '2024-02-29 12:30:00+01:00'"
        )
    part = match.groupdict()
    seconds = _day_seconds(text, part) + _clock_seconds(text, part)
    fraction = part["fraction"] or ""
    scale = 10 ** len(fraction)
    zoned = part["zone"] is not None
    if part["sign"]:
        seconds -= _offset_seconds(text, part)
    return Instant(seconds * scale + int(fraction or "0"), scale, zoned)


def _day_seconds(text: str, part: dict[str, Any]) -> int:
    try:
        day = date(int(part["year"]), int(part["month"]), int(part["day"]))
    except ValueError as error:
        raise TimeError(f"found {shown(text)}, which is no day of the calendar: {error}") from None
    return (day.toordinal() - _EPOCH_DAY) * _SECONDS_PER_DAY


def _clock_seconds(text: str, part: dict[str, Any]) -> int:
    hour, minute, second = (int(part[name] or 0) for name in ("hour", "minute", "second"))
    if hour > 23 or minute > 59 or second > 59:
        raise TimeError(
            f"found {shown(text)}, which is no time of day; expected 00:00:00 to 23:59:59 (leap seconds and "
            "24:00 have no timestamp of their own: write the second that follows)"
        )
    return hour * 3600 + minute * 60 + second


def _offset_seconds(text: str, part: dict[str, Any]) -> int:
    hours, minutes = int(part["zone_hour"]), int(part["zone_minute"] or 0)
    if hours > 23 or minutes > 59:
        raise TimeError(f"found {shown(text)}; expected an offset between -23:59 and +23:59")
    return (hours * 3600 + minutes * 60) * (-1 if part["sign"] == "-" else 1)
