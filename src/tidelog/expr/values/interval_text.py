"""INTERVAL as text: ``1 year 2 months 3 days 04:05:06.7``."""

from __future__ import annotations

import re
from fractions import Fraction

_MICROS = {"microsecond": 1, "millisecond": 1_000, "second": 1_000_000, "minute": 60_000_000, "hour": 3_600_000_000}
_DAYS = {"day": 1, "week": 7}
_MONTHS = {"month": 1, "quarter": 3, "year": 12, "decade": 120, "century": 1_200, "millennium": 12_000}

_NAMES: dict[str, tuple[str, ...]] = {
    "microsecond": ("us", "usec", "usecs", "usecond", "useconds", "microseconds"),
    "millisecond": ("ms", "msec", "msecs", "msecond", "mseconds", "milliseconds"),
    "second": ("s", "sec", "secs", "seconds"),
    "minute": ("m", "min", "mins", "minutes"),
    "hour": ("h", "hr", "hrs", "hours"),
    "day": ("d", "days", "dayofmonth"),
    "week": ("w", "weeks", "weekofyear"),
    "month": ("mon", "mons", "months"),
    "quarter": ("quarters",),
    "year": ("y", "yr", "yrs", "years"),
    "decade": ("dec", "decs", "decades"),
    "century": ("cent", "c", "centuries"),
    "millennium": ("mil", "millenniums", "millennia", "mils"),
}

UNITS = {alias: unit for unit, aliases in _NAMES.items() for alias in (unit, *aliases)}
"""Units of time by all their names."""

_PART = re.compile(r"\s*([+-]?)(\d+)(\.\d*)?\s*([a-zA-Z]+)", re.ASCII)
_CLOCK = re.compile(r"\s*([+-]?)(\d+):(\d{1,2})(?::(\d{1,2})(\.\d*)?)?(?=\s|$)", re.ASCII)
_SECONDS = re.compile(r"\s*([+-]?)(\d+)(\.\d*)?\s*", re.ASCII)
_MICROS_PER_DAY = 86_400_000_000


def read_interval(text: str) -> tuple[int, int, int]:
    """Months, days and nanoseconds of an interval. Raises ValueError for other text."""
    stripped = text.strip().removeprefix("@").strip()
    alone = _SECONDS.fullmatch(stripped)
    if alone is not None:
        stripped += " seconds"
    months, days, micros = Fraction(0), Fraction(0), Fraction(0)
    place, found_any = 0, False
    while place < len(stripped):
        clock = _CLOCK.match(stripped, place)
        if clock is not None:
            seconds = (
                3600 * int(clock[2])
                + 60 * int(clock[3])
                + int(clock[4] or 0)
                + Fraction("0" + (clock[5] or ".").ljust(2, "0"))
            )
            micros += (-1 if clock[1] == "-" else 1) * 1_000_000 * seconds
            place, found_any = clock.end(), True
            continue
        if found_any and stripped[place:].strip().lower() == "ago":
            months, days, micros = -months, -days, -micros
            break
        part = _PART.match(stripped, place)
        unit = UNITS.get(part[4].lower()) if part else None
        if part is None or unit is None:
            raise ValueError(text)
        amount = (-1 if part[1] == "-" else 1) * (int(part[2]) + Fraction("0" + (part[3] or ".").ljust(2, "0")))
        if unit in _MONTHS:
            months += amount * _MONTHS[unit]
        elif unit in _DAYS:
            days += amount * _DAYS[unit]
        else:
            micros += amount * _MICROS[unit]
        place, found_any = part.end(), True
    if not found_any:
        raise ValueError(text)
    whole_months = int(months)
    days += (months - whole_months) * 30
    whole_days = int(days)
    micros += (days - whole_days) * _MICROS_PER_DAY
    nanos = int(micros) * 1000
    if abs(whole_months) >= 2**31 or abs(whole_days) >= 2**31 or abs(nanos) >= 2**63:
        raise ValueError(text)
    return whole_months, whole_days, nanos


def interval_text(months: int, days: int, micros: int) -> str:
    """An interval as DuckDB prints it."""
    parts = []
    years, rest = _truncated(months, 12)
    for amount, name in ((years, "year"), (rest, "month"), (days, "day")):
        if amount:
            parts.append(f"{amount} {name}{'' if amount in (1, -1) else 's'}")
    if micros or not parts:
        sign, magnitude = "-" if micros < 0 else "", abs(micros)
        seconds, fraction = divmod(magnitude, 1_000_000)
        digits = f".{fraction:06d}".rstrip("0") if fraction else ""
        parts.append(f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{digits}")
    return " ".join(parts)


def _truncated(value: int, divisor: int) -> tuple[int, int]:
    quotient = abs(value) // divisor * (1 if value >= 0 else -1)
    return quotient, value - quotient * divisor
