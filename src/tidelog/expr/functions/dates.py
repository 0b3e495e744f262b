"""Parts of dates and instants, truncation, differences and buckets. Instants with a zone are taken in UTC."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.expr.errors import EvaluationError, ExpressionError
from tidelog.expr.functions.signatures import Function, choose, register, same
from tidelog.expr.functions.signatures import signatures as read_signatures
from tidelog.expr.tree import Literal, Node, Value
from tidelog.expr.values import durations
from tidelog.expr.values.durations import MICROS_PER_DAY
from tidelog.expr.values.interval_text import UNITS
from tidelog.expr.values.types import BIGINT, DATE, DOUBLE, INTERVAL, VARCHAR, kind
from tidelog.expr.values.vectors import all_valid, as_array, length_of, made, numbers
from tidelog.model.errors import did_you_mean

Longs = npt.NDArray[np.int64]

THEME = "date and time"
POINTS = ("DATE", "TIMESTAMP", "TIMESTAMPTZ")


def day_and_time(value: Value) -> tuple[Longs, Longs]:
    """Days since 1970-01-01 and microseconds of the day."""
    ticks = numbers(value).astype(np.int64)
    if value.type == DATE:
        return ticks, np.zeros_like(ticks)
    days, time = np.divmod(ticks, MICROS_PER_DAY)
    return days, time


def months_since_1970(days: Longs) -> Longs:
    """Whole months from 1970-01 to the month of each day."""
    return days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)


def first_of_month(months: Longs) -> Longs:
    """The first day of months since 1970-01."""
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def _year(days: Longs) -> Longs:
    years: Longs = 1970 + np.floor_divide(months_since_1970(days), 12)
    return years


def _iso_thursday(days: Longs) -> Longs:
    """The Thursday of the ISO week of each day: it lies in the week's year."""
    return days - np.mod(days + 3, 7) + 3


def _iso_year(days: Longs) -> Longs:
    return _year(_iso_thursday(days))


def _day_of_year(days: Longs) -> Longs:
    return days - first_of_month(12 * (_year(days) - 1970)) + 1


def _iso_week(days: Longs) -> Longs:
    return (_day_of_year(_iso_thursday(days)) - 1) // 7 + 1


def _truncated(values: Longs, divisor: int) -> Longs:
    """Division towards zero."""
    quotients: Longs = np.sign(values) * (np.abs(values) // divisor)
    return quotients


def _counted(years: Longs, size: int) -> Longs:
    """Centuries and millennia, which start with a year 1."""
    return np.where(years > 0, (years - 1) // size + 1, -((-years) // size + 1))


_OF_DAYS: dict[str, Callable[[Longs], Any]] = {
    "year": _year,
    "month": lambda days: np.mod(months_since_1970(days), 12) + 1,
    "day": lambda days: days - first_of_month(months_since_1970(days)) + 1,
    "quarter": lambda days: np.mod(months_since_1970(days), 12) // 3 + 1,
    "decade": lambda days: _truncated(_year(days), 10),
    "century": lambda days: _counted(_year(days), 100),
    "millennium": lambda days: _counted(_year(days), 1000),
    "dayofweek": lambda days: np.mod(days + 4, 7),
    "isodow": lambda days: np.mod(days + 3, 7) + 1,
    "dayofyear": _day_of_year,
    "week": _iso_week,
    "isoyear": _iso_year,
    "yearweek": lambda days: _iso_year(days) * 100 + np.where(_iso_year(days) > 0, 1, -1) * _iso_week(days),
    "era": lambda days: (_year(days) > 0).astype(np.int64),
}

_OF_TIME: dict[str, Callable[[Longs], Any]] = {
    "hour": lambda time: time // 3_600_000_000,
    "minute": lambda time: time // 60_000_000 % 60,
    "second": lambda time: time // 1_000_000 % 60,
    "millisecond": lambda time: time // 1_000 % 60_000,
    "microsecond": lambda time: time % 60_000_000,
}

_ALIASES = {
    "day": ("dayofmonth",),
    "dayofweek": ("weekday",),
    "week": ("weekofyear",),
}

_PART_NAMES = {
    **{name: name for name in (*_OF_DAYS, *_OF_TIME, "epoch", "julian", "timezone")},
    **{alias: unit for alias, unit in UNITS.items() if unit in _OF_DAYS or unit in _OF_TIME},
    "dow": "dayofweek",
    "weekday": "dayofweek",
    "doy": "dayofyear",
    "dayofmonth": "day",
    "weekofyear": "week",
}
"""Parts that can be asked for, by all their names."""


def _part_of_interval(name: str, value: Value) -> Longs:
    months, days, micros = durations.parts(value)
    years = _truncated(months, 12)
    if name in _OF_TIME:
        magnitude = np.abs(micros)
        shown = magnitude // 3_600_000_000 if name == "hour" else _OF_TIME[name](magnitude)
        signed: Longs = np.sign(micros) * shown
        return signed
    found: Callable[[], Longs] | None = {
        "year": lambda: years,
        "month": lambda: months - 12 * years,
        "day": lambda: days,
        "quarter": lambda: _truncated(months - 12 * years, 3) + 1,
        "decade": lambda: _truncated(years, 10),
        "century": lambda: _truncated(years, 100),
        "millennium": lambda: _truncated(years, 1000),
    }.get(name)
    if found is None:
        raise EvaluationError(f"an INTERVAL has no {name}")
    return found()


def part(name: str, value: Value) -> npt.NDArray[Any]:
    """A part of each date, instant or interval, by its name in :data:`_PART_NAMES`."""
    if name == "epoch":
        return _epoch(value)
    if name == "julian" and kind(value.type) != "INTERVAL":
        days, time = day_and_time(value)
        return days + 2_440_588.0 + time / float(MICROS_PER_DAY)
    if kind(value.type) == "INTERVAL":
        return _part_of_interval(name, value)
    if name == "timezone":
        return np.zeros(len(numbers(value)), np.int64)
    days, time = day_and_time(value)
    found: npt.NDArray[Any] = _OF_DAYS[name](days) if name in _OF_DAYS else _OF_TIME[name](time)
    return found


def _epoch(value: Value) -> npt.NDArray[np.float64]:
    if kind(value.type) == "INTERVAL":
        months, days, micros = durations.parts(value)
        years = _truncated(months, 12)
        in_days = years * 365.25 + (months - 12 * years) * 30 + days
        return in_days * 86_400.0 + micros / 1e6
    days, time = day_and_time(value)
    return (days * MICROS_PER_DAY + time) / 1e6


def _register_part(name: str) -> None:
    kinds = POINTS if name in ("era", "julian") else (*POINTS, "INTERVAL")
    result = "DOUBLE" if name in ("epoch", "julian") else "BIGINT"

    @register(name, THEME, same(kinds, 1, result), aliases=_ALIASES.get(name, ()))
    def run(values: Sequence[Value], type_: pa.DataType) -> Value:
        return made(part(name, values[0]), all_valid(values), type_)


for _name in (*_OF_DAYS, *_OF_TIME, "epoch", "julian"):
    _register_part(_name)


def specifier(argument: Node, known: dict[str, str], what: str) -> str:
    """The part or unit that a literal names. Raises :class:`ExpressionError`, without a place."""
    text = argument.value if isinstance(argument, Literal) else None
    if not isinstance(text, str):
        raise ExpressionError(f"expected the {what} as a string literal, e.g. 'day'")
    name = known.get(text.lower())
    if name is None:
        raise ExpressionError(f"there is no {what} {text!r}; {did_you_mean(text, known)}")
    return name


def _nothing(values: Sequence[Value], result: pa.DataType) -> Value:
    """Of a function that stands for signatures alone and is never evaluated."""
    raise NotImplementedError


def _with_specifier(name: str, signature: str, known: dict[str, str], what: str, result: Any = None) -> Any:
    """The shape of a function whose first argument names a part, the others being bound as ``signature`` says."""
    rest = Function(name, THEME, read_signatures(signature), _nothing)

    def shape(arguments: Sequence[Node]) -> tuple[list[pa.DataType | None], pa.DataType]:
        if len(arguments) < 2:
            raise ExpressionError(f"{name} takes a {what} and what to take it of")
        found = specifier(arguments[0], known, what)
        casts, type_ = choose(rest, arguments[1:])
        return [VARCHAR, *casts], type_ if result is None else result(found)

    return shape


@register(
    "date_part",
    THEME,
    shape=_with_specifier(
        "date_part",
        same((*POINTS, "INTERVAL"), 1, "BIGINT"),
        _PART_NAMES,
        "part",
        lambda name: DOUBLE if name in ("epoch", "julian") else BIGINT,
    ),
    aliases=("datepart",),
    constants=(0,),
)
def _date_part(values: Sequence[Value], result: pa.DataType) -> Value:
    return made(part(_PART_NAMES[values[0].as_py().lower()], _array(values, 1)), all_valid(values), result)


def _array(values: Sequence[Value], index: int) -> Value:
    """An argument, repeated if all of the others were constants too."""
    return as_array(values[index], length_of(values))


_TRUNCATABLE = {
    **UNITS,
    "isoyear": "isoyear",
    "dow": "day",
    "isodow": "day",
    "doy": "day",
    "dayofyear": "day",
    "yearweek": "week",
}

_MONTHS = {"month": 1, "quarter": 3, "year": 12, "decade": 120, "century": 1200, "millennium": 12000}
_MICROS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": MICROS_PER_DAY,
}


def truncated_days(unit: str, days: Longs) -> Longs:
    """The first day of the week, month, ... that each day lies in."""
    if unit in _MONTHS:
        size = _MONTHS[unit]
        months = months_since_1970(days) + 1970 * 12  # from year 0 on, where decades and centuries start
        return first_of_month(np.sign(months) * (np.abs(months) // size) * size - 1970 * 12)
    if unit == "week":
        return days - np.mod(days + 3, 7)
    if unit == "isoyear":
        first = first_of_month(12 * (_iso_year(days) - 1970))
        return _iso_thursday(first + 3) - 3  # the Monday of the week with January 4th
    return days


@register(
    "date_trunc",
    THEME,
    shape=_with_specifier(
        "date_trunc",
        "DATE -> TIMESTAMP; TIMESTAMP -> TIMESTAMP; TIMESTAMPTZ -> TIMESTAMPTZ; INTERVAL -> INTERVAL",
        _TRUNCATABLE,
        "unit",
    ),
    aliases=("datetrunc",),
    constants=(0,),
)
def _date_trunc(values: Sequence[Value], result: pa.DataType) -> Value:
    unit = _TRUNCATABLE[values[0].as_py().lower()]
    value, valid = _array(values, 1), all_valid(values)
    if result == INTERVAL:
        return _interval_trunc(unit, value)
    days, time = day_and_time(value)
    if unit in _MICROS and unit != "day":
        return made(days * MICROS_PER_DAY + time - time % _MICROS[unit], valid, result)
    return made(truncated_days(unit, days) * MICROS_PER_DAY, valid, result)


def _interval_trunc(unit: str, value: Value) -> Value:
    months, days, micros = durations.parts(value)
    none = np.zeros_like(months)
    valid = all_valid([value])
    if unit == "isoyear":
        unit = "year"
    if unit in _MONTHS:
        return durations.from_parts(_truncated(months, _MONTHS[unit]) * _MONTHS[unit], none, none, valid)
    if unit == "week":
        return durations.from_parts(months, _truncated(days, 7) * 7, none, valid)
    if unit in _MICROS and unit != "day":
        return durations.from_parts(months, days, _truncated(micros, _MICROS[unit]) * _MICROS[unit], valid)
    if unit == "day":
        return durations.from_parts(months, days, none, valid)
    raise EvaluationError(f"an INTERVAL cannot be truncated to {unit}")


_DIFFERENCES = {
    **UNITS,
    "isoyear": "isoyear",
    "dow": "day",
    "isodow": "day",
    "doy": "day",
    "dayofyear": "day",
    "yearweek": "week",
}


@register(
    "date_diff",
    THEME,
    shape=_with_specifier("date_diff", same(POINTS, 2, "BIGINT"), _DIFFERENCES, "unit"),
    aliases=("datediff",),
    constants=(0,),
)
def _date_diff(values: Sequence[Value], result: pa.DataType) -> Value:
    unit = _DIFFERENCES[values[0].as_py().lower()]
    (days, time), (later_days, later_time) = (day_and_time(_array(values, index)) for index in (1, 2))
    if unit == "week":
        difference = _truncated(later_days - days, 7)
    elif unit in _MONTHS:
        size = _MONTHS[unit]
        difference = _boundaries(later_days, size) - _boundaries(days, size)
    elif unit == "isoyear":
        difference = _iso_year(later_days) - _iso_year(days)
    elif unit == "day":
        difference = later_days - days
    else:
        size = _MICROS[unit]
        per_day = MICROS_PER_DAY // size
        difference = (later_days - days) * per_day + later_time // size - time // size
    return made(difference, all_valid(values), result)


def _boundaries(days: Longs, size: int) -> Longs:
    """Starts of months, years, ... up to each day, counted from year 0."""
    return np.floor_divide(months_since_1970(days) + 1970 * 12, size)


@register(
    "date_sub",
    THEME,
    shape=_with_specifier("date_sub", same(POINTS, 2, "BIGINT"), _DIFFERENCES, "unit"),
    aliases=("datesub",),
    constants=(0,),
)
def _date_sub(values: Sequence[Value], result: pa.DataType) -> Value:
    unit = _DIFFERENCES[values[0].as_py().lower()]
    (days, time), (later_days, later_time) = (day_and_time(_array(values, index)) for index in (1, 2))
    if unit in _MONTHS:
        difference = _truncated(_full_months(days, time, later_days, later_time), _MONTHS[unit])
    elif unit == "isoyear":
        raise EvaluationError("date_sub does not count ISO years; use date_diff")
    else:
        size = 7 * MICROS_PER_DAY if unit == "week" else _MICROS[unit]
        difference = _truncated((later_days - days) * MICROS_PER_DAY + later_time - time, size)
    return made(difference, all_valid(values), result)


def _full_months(days: Longs, time: Longs, later_days: Longs, later_time: Longs) -> Longs:
    """Whole months from one instant to another; the last day of a month counts as all days that it lacks."""
    swap = (later_days < days) | ((later_days == days) & (later_time < time))
    start, end = np.where(swap, later_days, days), np.where(swap, days, later_days)
    start_time, end_time = np.where(swap, later_time, time), np.where(swap, time, later_time)
    months = months_since_1970(end) - months_since_1970(start)
    end_day = end - first_of_month(months_since_1970(end)) + 1
    start_day = start - first_of_month(months_since_1970(start)) + 1
    length = first_of_month(months_since_1970(end) + 1) - first_of_month(months_since_1970(end))
    start_day = np.where(end_day == length, np.minimum(start_day, length), start_day)
    months -= (end_day < start_day) | ((end_day == start_day) & (end_time < start_time))
    return np.where(swap, -months, months)


@register("last_day", THEME, same(POINTS, 1, "DATE"))
def _last_day(values: Sequence[Value], result: pa.DataType) -> Value:
    days, _ = day_and_time(values[0])
    return made(first_of_month(months_since_1970(days) + 1) - 1, all_valid(values), result)
