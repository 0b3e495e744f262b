"""Times as Spark computes them with DuckDB's meaning.

Texts here are expressions of Spark SQL that are analyzed with UTC as the time zone of the session, so that the cast
between times with and without a zone keeps the count of microseconds. Zones are named wherever they matter.
"""

from __future__ import annotations

import datetime
import re
import zoneinfo
from collections.abc import Callable
from typing import Any, Final

from tidelog.spark.sql.expressions.constants import seconds, text_constant
from tidelog.spark.sql.types import Unwritable

UTC: Final = frozenset({"UTC", "Etc/UTC", "GMT", "Etc/GMT", "Z", "Zulu", "UCT"})
MICROS_PER_DAY: Final = 86_400_000_000

_OTHER_OFFSETS: Final = ("1800", "3600", "7200")
"""By how many seconds clocks are put back."""
_ORIGIN: Final = 946_857_600_000_000
"""2000-01-03, a Monday, from which buckets are counted."""
UNITS: Final = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
}
_LONG_UNITS: Final = frozenset({"day", "week", "month", "quarter", "year"})
_OTHER_NAMES: Final = {
    "us": "microsecond",
    "usec": "microsecond",
    "ms": "millisecond",
    "msec": "millisecond",
    "s": "second",
    "sec": "second",
    "m": "minute",
    "min": "minute",
    "h": "hour",
    "hr": "hour",
    "d": "day",
    "w": "week",
    "mon": "month",
    "y": "year",
    "yr": "year",
}
_FORMATS: Final = {
    "Y": "yyyy",
    "y": "yy",
    "m": "MM",
    "d": "dd",
    "H": "HH",
    "M": "mm",
    "S": "ss",
    "f": "SSSSSS",
    "j": "DDD",
    "b": "MMM",
    "B": "MMMM",
    "a": "EEE",
    "A": "EEEE",
    "I": "hh",
    "p": "a",
}


def is_utc(zone: str) -> bool:
    """Whether clocks of a zone show UTC."""
    return zone in UTC


def micros(text: str, *, zoned: bool = False) -> str:
    """A time as microseconds since 1970."""
    return f"unix_micros({text})" if zoned else f"unix_micros(CAST({text} AS TIMESTAMP))"


def of_micros(text: str, *, zoned: bool = False) -> str:
    """The time of microseconds since 1970."""
    return f"timestamp_micros({text})" if zoned else f"CAST(timestamp_micros({text}) AS TIMESTAMP_NTZ)"


def floored(text: str, divisor: int) -> str:
    """A whole number divided by a constant, rounded down."""
    return f"(({text} - pmod({text}, {divisor}L)) div {divisor}L)"


def rounded_down(text: str, divisor: int) -> str:
    """A whole number less what is over a multiple of a constant."""
    return f"({text} - pmod({text}, {divisor}L))"


def local(text: str, zone: str) -> str:
    """What clocks of a zone show at a time."""
    plain = f"CAST({text} AS TIMESTAMP_NTZ)"
    return plain if is_utc(zone) else f"convert_timezone('UTC', {text_constant(zone)}, {plain})"


def instant(text: str, zone: str) -> str:
    """The time at which clocks of a zone show something; of two, the later one, as DuckDB has it."""
    if is_utc(zone):
        return f"CAST({text} AS TIMESTAMP)"
    first = f"CAST(convert_timezone({text_constant(zone)}, 'UTC', {text}) AS TIMESTAMP)"
    later = [f"{first} + make_dt_interval(0, 0, 0, {each})" for each in reversed(_OTHER_OFFSETS)]
    cases = " ".join(f"WHEN {local(each, zone)} = {text} THEN {each}" for each in later)
    return f"CASE {cases} ELSE {first} END"


def shifted(text: str, interval: Any, sign: int, zone: str | None) -> str:
    """A time an interval later, or earlier; ``zone`` for times that have one, in which days and months are counted."""
    months, days, rest = (sign * int(interval[each]) for each in ("months", "days", "micros"))
    parts = f"make_interval(0, {months}, 0, {days}, 0, 0, {seconds(rest)})"
    if zone is None or is_utc(zone):
        return f"({text} + {parts})"
    if months or days:
        text = instant(f"({local(text, zone)} + make_interval(0, {months}, 0, {days}, 0, 0, 0))", zone)
    return f"({text} + make_dt_interval(0, 0, 0, {seconds(rest)}))" if rest else text


def unit_of(text: str) -> str:
    """The unit that a text names. Raises :class:`Unwritable` for others than the usual ones."""
    name = text.lower()
    name = _OTHER_NAMES.get(name, name.removesuffix("s") if len(name) > 2 else name)
    if name not in UNITS and name not in _LONG_UNITS:
        raise Unwritable(f"the unit {text!r}")
    return name


def number_of(unit: str, text: str) -> str:
    """The number of the hour, day and so on that a time without a zone is in, counted from any of them."""
    if unit in UNITS:
        return floored(micros(text), UNITS[unit])
    if unit == "day":
        return f"datediff({text}, DATE '1970-01-01')"
    months = {"month": 1, "quarter": 3, "year": 12}[unit]
    count = f"(year({text}) * 12 + month({text}) - 1)"
    return f"(({count} - pmod({count}, {months})) div {months})"


def difference(one: str, other: str, zone: str, let: Callable[[str, Callable[[str], str]], str]) -> str:
    """How much later one time is than another: whole days of the calendar of a zone, and the rest as it is."""

    def later(end: str, start: str) -> str:
        guess = f"datediff({local(end, zone)}, {local(start, zone)})"

        def moved(days: str) -> str:
            there = instant(f"({local(start, zone)} + make_interval(0, 0, 0, {days}, 0, 0, 0))", zone)
            return f"CASE WHEN {days} = 0 THEN {start} ELSE {there} END"

        return let(
            guess,
            lambda days: let(
                f"CASE WHEN {moved(days)} <= {end} THEN {days} ELSE {days} - 1 END",
                lambda whole: f"(make_dt_interval({whole}, 0, 0, 0) + ({end} - {moved(whole)}))",
            ),
        )

    return let(
        one,
        lambda x: let(
            other, lambda y: f"CASE WHEN {x} >= {y} THEN {later(x, y)} WHEN {x} < {y} THEN - {later(y, x)} END"
        ),
    )


def truncated(unit: str, text: str, zone: str | None) -> str:
    """The beginning of the hour, day and so on that a time is in; ``zone`` for times that have one."""
    unit = unit_of(unit)
    clocks = text if zone is None else local(text, zone)
    if unit in UNITS:
        count = micros(clocks)
        found = of_micros(rounded_down(count, UNITS[unit]))
        if zone is not None and unit != "hour":  # where clocks were put back, DuckDB stays in the hour it was in
            return of_micros(f"({micros(text, zoned=True)} - pmod({count}, {UNITS[unit]}L))", zoned=True)
    else:
        found = f"CAST(date_trunc('{unit}', CAST({clocks} AS TIMESTAMP)) AS TIMESTAMP_NTZ)"
    return found if zone is None else instant(found, zone)


def bucket(width: Any, text: str, origin: int | None = None) -> str:
    """The bucket of a time without a zone; ``origin`` is a time at which one begins, in microseconds."""
    months, days, rest = (int(width[each]) for each in ("months", "days", "micros"))
    if months:
        if days or rest or months < 0:
            raise Unwritable("buckets of months and days together")
        return _bucket_of_months(months, text, origin)
    length = days * MICROS_PER_DAY + rest
    if length <= 0:
        raise Unwritable("buckets without a length")
    begin = (_ORIGIN if origin is None else origin) % length
    count = micros(text)
    if begin:
        return of_micros(f"({rounded_down(f'({count} - {begin}L)', length)} + {begin}L)")
    return of_micros(rounded_down(count, length))


def _bucket_of_months(months: int, text: str, origin: int | None) -> str:
    begin = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=_ORIGIN if origin is None else origin)
    first = ((begin.year - 1970) * 12 + begin.month - 1) % months
    number = f"((year({text}) - 1970) * 12 + month({text}) - 1 - {first})"
    return f"CAST(add_months(DATE '1970-01-01', {number} - pmod({number}, {months}) + {first}) AS TIMESTAMP_NTZ)"


def zoned_bucket(width: Any, text: str, zone: str) -> str:
    """The bucket of a time with a zone, by the calendar of a zone; hours are counted without a look at clocks."""
    if width["months"] or width["days"]:
        return instant(bucket(width, local(text, zone)), zone)
    begin = datetime.datetime(2000, 1, 3, tzinfo=zoneinfo.ZoneInfo(zone))
    plain = bucket(width, f"CAST({text} AS TIMESTAMP_NTZ)", int(begin.timestamp()) * 1_000_000)
    return f"CAST({plain} AS TIMESTAMP)"


def pattern(form: str) -> str:
    """A format of ``strftime`` as ``date_format`` reads it. Raises :class:`Unwritable` for what it does not have."""
    found = []
    for part in re.finditer(r"%(-?.)|([^%]+)", form, re.DOTALL):
        code, literal = part[1], part[2]
        if literal is not None:
            found.append("'" + literal.replace("'", "''") + "'")
        elif code == "%":
            found.append("'%'")
        elif code in _FORMATS:
            found.append(_FORMATS[code])
        else:
            raise Unwritable(f"%{code} in a format of times")
    if form.endswith("%") and not form.endswith("%%"):
        raise Unwritable("a format of times that ends with %")
    return "".join(found)
