"""Lengths of time as people write them, read without any loss: ``"1h30m"``, timedeltas, NumPy, Arrow."""

from __future__ import annotations

import re
from datetime import timedelta
from fractions import Fraction

import numpy as np
import pyarrow as pa

from tidelog.model.errors import TimeError
from tidelog.model.times.instants import SECONDS_PER_UNIT, TICKS_PER_SECOND, is_missing, shown

_UNITS: dict[str, Fraction] = {
    "w": Fraction(604_800),
    "d": Fraction(86_400),
    "h": Fraction(3_600),
    "m": Fraction(60),
    "min": Fraction(60),
    "s": Fraction(1),
    "ms": Fraction(1, 10**3),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),  # the micro sign
    "μs": Fraction(1, 10**6),  # the Greek letter, which looks the same
    "ns": Fraction(1, 10**9),
}

# Longer names first, so that "ms" is not read as "m" followed by rubbish.
_ANY_UNIT = "|".join(sorted(_UNITS, key=len, reverse=True))
_PART = re.compile(rf"([0-9]{{1,30}}(?:\.[0-9]{{1,30}})?) ?({_ANY_UNIT})(?![a-zµμ])")


def read_duration(value: object) -> Fraction:
    """The exact length in seconds of a text such as ``"1h30m"``, a timedelta or a ``numpy.timedelta64``.

    Text is a sequence of numbers with units, biggest first or not: w, d, h, m (or min), s, ms, us, ns. Months and
    years have no fixed length and are refused. Negative lengths are read; whoever asks decides about them.
    Raises :class:`TimeError` for anything else, numbers included: they mean nothing without a unit.
    """
    if is_missing(value):
        raise TimeError(f"found {shown(value)}, which is no duration")
    if isinstance(value, str):
        return _from_text(value)
    if isinstance(value, timedelta):
        microseconds = (value.days * 86_400 + value.seconds) * 10**6 + value.microseconds
        nanoseconds = getattr(value, "nanoseconds", 0)  # a pandas Timedelta
        return Fraction(microseconds, 10**6) + Fraction(nanoseconds, 10**9)
    if isinstance(value, np.timedelta64):
        return _from_numpy(value)
    if isinstance(value, pa.DurationScalar):
        return Fraction(value.value, TICKS_PER_SECOND[value.type.unit])
    raise TimeError(
        f"found {shown(value)} ({type(value).__name__}), which is no duration; "
        "expected a text such as '5m' or '1h30m', a timedelta or a numpy.timedelta64"
    )


def _from_numpy(value: np.timedelta64) -> Fraction:
    unit, count = np.datetime_data(value.dtype)
    if unit not in SECONDS_PER_UNIT:
        raise TimeError(f"found {shown(value)}, whose unit has no fixed length; use weeks, days or smaller units")
    numerator, denominator = SECONDS_PER_UNIT[unit]
    return Fraction(int(value.astype(np.int64)) * count * numerator, denominator)


def _from_text(text: str) -> Fraction:
    rest = text.strip()
    sign = -1 if rest.startswith("-") else 1
    rest = rest.removeprefix("-").removeprefix("+")
    seconds = Fraction(0)
    position = 0
    while match := _PART.match(rest, position):
        seconds += Fraction(match[1]) * _UNITS[match[2]]
        position = match.end()
        while rest[position : position + 1] == " ":
            position += 1
    if position == 0 or position < len(rest):
        raise TimeError(
            f"found {shown(text)}, which is no duration; expected numbers with units, such as '250ms', '5m', "
            "'1h30m' or '2w' (units: w, d, h, m, s, ms, us, ns; months and years have no fixed length)"
        )
    return sign * seconds
