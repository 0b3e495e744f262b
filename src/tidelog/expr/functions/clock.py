"""Instants from and to numbers and text, and lengths of time."""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.expr.errors import EvaluationError
from tidelog.expr.functions.dates import Longs, day_and_time, part
from tidelog.expr.functions.signatures import register, same
from tidelog.expr.tree import Value
from tidelog.expr.values import durations
from tidelog.expr.values.calendar import civil, days_of
from tidelog.expr.values.durations import MICROS_PER_DAY
from tidelog.expr.values.types import DATE, TIMESTAMP, TIMESTAMP_NS, kind
from tidelog.expr.values.vectors import (
    Mask,
    all_valid,
    as_array,
    is_scalar,
    length_of,
    made,
    numbers,
    per_distinct,
    refuse,
)

_THEME = "date and time"
_POINTS = ("DATE", "TIMESTAMP", "TIMESTAMPTZ")

_DAY_NAMES = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTH_NAMES = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)


def _register_epoch(name: str, per_tick: int, multiplied: int, kinds: Sequence[str], more: str = "") -> None:
    @register(name, _THEME, same(kinds, 1, "BIGINT") + more)
    def run(values: Sequence[Value], result: pa.DataType) -> Value:
        value = values[0]
        if result == TIMESTAMP:
            return _scaled(value, 1000, result)
        if value.type == TIMESTAMP_NS:
            return made(numbers(value), all_valid(values), result)
        if kind(value.type) == "INTERVAL":
            months, days, micros = durations.parts(value)
            ticks = (months * durations.DAYS_PER_MONTH + days) * MICROS_PER_DAY + micros
        else:
            days, time = day_and_time(value)
            ticks = days * MICROS_PER_DAY + time
            ticks = ticks + np.sign(ticks) * (per_tick // 2)  # to the nearest, halves away from zero
        ticks = np.sign(ticks) * (np.abs(ticks) // per_tick)
        return _scaled(made(ticks, all_valid(values), pa.int64()), multiplied, result)


def _scaled(value: Value, factor: int, result: pa.DataType) -> pa.Array:
    ticks, valid = numbers(value), all_valid([value])
    refuse(durations.beyond(ticks, (2**63 - 1) // factor), valid, "the result is out of range")
    with np.errstate(over="ignore"):
        return made(ticks * factor, valid, result)


_register_epoch("epoch_ms", 1000, 1, (*_POINTS, "INTERVAL"), "; BIGINT -> TIMESTAMP")
_register_epoch("epoch_us", 1, 1, (*_POINTS, "INTERVAL"))
_register_epoch("epoch_ns", 1, 1000, (*_POINTS, "INTERVAL", "TIMESTAMP_NS"))


@register("nanosecond", _THEME, same((*_POINTS, "INTERVAL", "TIMESTAMP_NS"), 1, "BIGINT"))
def _nanosecond(values: Sequence[Value], result: pa.DataType) -> Value:
    value = values[0]
    if value.type == TIMESTAMP_NS:
        return made(np.mod(numbers(value), 60_000_000_000), all_valid(values), result)
    return made(part("microsecond", value) * 1000, all_valid(values), result)


@register("make_date", _THEME, "INTEGER -> DATE; BIGINT, BIGINT, BIGINT -> DATE")
def _make_date(values: Sequence[Value], result: pa.DataType) -> Value:
    if len(values) == 1:
        return made(numbers(values[0]), all_valid(values), result)
    return per_distinct(values, _days, pa.int32()).view(DATE)


def _days(year: int, month: int, day: int) -> int:
    try:
        if not -290_000 < year < 5_881_000:
            raise ValueError(f"year {year}")
        return days_of(year, month, day)
    except ValueError:
        raise EvaluationError(f"there is no date {year}-{month}-{day}") from None


@register("make_timestamp", _THEME, "BIGINT -> TIMESTAMP; BIGINT, BIGINT, BIGINT, BIGINT, BIGINT, DOUBLE -> TIMESTAMP")
def _make_timestamp(values: Sequence[Value], result: pa.DataType) -> Value:
    if len(values) == 1:
        return _scaled(values[0], 1, result)
    return per_distinct(values, _ticks, pa.int64()).view(result)


def _ticks(year: int, month: int, day: int, hour: int, minute: int, second: float) -> int:
    days = _days(year, month, day)
    if not (0 <= second < 60 or (second == 60)):
        raise EvaluationError(f"there is no time of {second} seconds")
    micros = 3_600_000_000 * hour + 60_000_000 * minute + round(second * 1e6)
    if not (0 <= hour <= 24 and 0 <= minute < 60 and micros <= MICROS_PER_DAY):
        raise EvaluationError(f"there is no time {hour}:{minute}:{second}")
    ticks = days * MICROS_PER_DAY + micros
    if abs(ticks) >= 2**63:
        raise EvaluationError(f"the year {year} is out of the range of TIMESTAMP")
    return ticks


@register("make_timestamp_ms", _THEME, "BIGINT -> TIMESTAMP")
def _make_timestamp_ms(values: Sequence[Value], result: pa.DataType) -> Value:
    return _scaled(values[0], 1000, result)


@register("make_timestamp_ns", _THEME, "BIGINT -> TIMESTAMP_NS")
def _make_timestamp_ns(values: Sequence[Value], result: pa.DataType) -> Value:
    return _scaled(values[0], 1, result)


@register("to_timestamp", _THEME, "DOUBLE -> TIMESTAMPTZ")
def _to_timestamp(values: Sequence[Value], result: pa.DataType) -> Value:
    seconds, valid = numbers(values[0]), all_valid(values)
    with np.errstate(over="ignore", invalid="ignore"):
        micros = np.rint(seconds * 1e6)
        good = np.abs(micros) < 2.0**63
    refuse(~good, valid, "the seconds are out of the range of TIMESTAMPTZ")
    return made(np.where(good, micros, 0).astype(np.int64), valid, result)


def _register_length(name: str, months: int, days: int, micros: int, kinds: Sequence[str]) -> None:
    @register(name, _THEME, same(kinds, 1, "INTERVAL"))
    def run(values: Sequence[Value], _result: pa.DataType) -> Value:
        amount, valid = numbers(values[0]), all_valid(values)
        none = np.zeros(len(amount), np.int64)
        if amount.dtype.kind == "f":
            with np.errstate(over="ignore", invalid="ignore"):
                exact = np.rint(amount * micros)
                good = np.abs(exact) < 9e15
            refuse(~good, valid, "the result is out of the range of INTERVAL")
            return durations.from_parts(none, none, np.where(good, exact, 0).astype(np.int64), valid)
        amount = amount.astype(np.int64)
        largest = max(months, days, micros)
        limit = (2**63 - 1) // (1000 * largest)
        refuse(durations.beyond(amount, limit), valid, "the result is out of the range of INTERVAL")
        with np.errstate(over="ignore"):
            return durations.from_parts(amount * months, amount * days, amount * micros, valid)


for _name, _months, _days_, _micros, _kinds in [
    ("to_years", 12, 0, 0, ("INTEGER", "BIGINT")),
    ("to_months", 1, 0, 0, ("INTEGER", "BIGINT")),
    ("to_quarters", 3, 0, 0, ("INTEGER", "BIGINT")),
    ("to_decades", 120, 0, 0, ("INTEGER", "BIGINT")),
    ("to_centuries", 1200, 0, 0, ("INTEGER", "BIGINT")),
    ("to_millennia", 12000, 0, 0, ("INTEGER", "BIGINT")),
    ("to_weeks", 0, 7, 0, ("INTEGER", "BIGINT")),
    ("to_days", 0, 1, 0, ("INTEGER", "BIGINT")),
    ("to_hours", 0, 0, 3_600_000_000, ("BIGINT",)),
    ("to_minutes", 0, 0, 60_000_000, ("BIGINT",)),
    ("to_seconds", 0, 0, 1_000_000, ("DOUBLE",)),
    ("to_milliseconds", 0, 0, 1_000, ("DOUBLE",)),
    ("to_microseconds", 0, 0, 1, ("BIGINT",)),
]:
    _register_length(_name, _months, _days_, _micros, _kinds)


def _register_name(name: str, names: Sequence[str], which: str, first: int) -> None:
    @register(name, _THEME, same(_POINTS, 1, "VARCHAR"), total=True)
    def run(values: Sequence[Value], result: pa.DataType) -> Value:
        numbered = made(part(which, values[0]) - first, all_valid(values), pa.int64())
        return pc.take(pa.array(names, result), numbered)


_register_name("dayname", _DAY_NAMES, "dayofweek", 0)
_register_name("monthname", _MONTH_NAMES, "month", 1)


@register(
    "timezone",
    _THEME,
    "VARCHAR, TIMESTAMP -> TIMESTAMPTZ; VARCHAR, TIMESTAMPTZ -> TIMESTAMP;"
    "VARCHAR, TIMESTAMP_NS -> TIMESTAMPTZ_NS; VARCHAR, TIMESTAMPTZ_NS -> TIMESTAMP_NS",
    constants=(0,),
)
def _timezone(values: Sequence[Value], result: pa.DataType) -> Value:
    name = values[0].as_py()
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise EvaluationError(f"there is no time zone {name!r}; expected a name such as 'Europe/Berlin'") from None
    value = as_array(values[1], length_of(values))
    if result.tz is None:
        return pc.local_timestamp(value.cast(pa.timestamp(result.unit, name)))
    # A time that clocks skip is moved on by what they skip; of two times of one name the later one is meant.
    placed = pc.assume_timezone(value, name, ambiguous="latest", nonexistent="latest")
    earlier = pc.assume_timezone(value, name, ambiguous="latest", nonexistent="earliest").cast(pa.int64())
    ticks = placed.cast(pa.int64())
    skipped = numbers(pc.not_equal(ticks, earlier).fill_null(False))
    if skipped.any():
        moved = _after_gap(numbers(value), numbers(ticks), skipped, name, 10**9 if result.unit == "ns" else 10**6)
        ticks = made(moved, all_valid([value]), pa.int64())
    return ticks.view(result)


def _after_gap(local: Longs, ticks: Longs, skipped: Mask, name: str, per_second: int) -> Longs:
    zone = zoneinfo.ZoneInfo(name)
    moved = ticks.copy()
    for row in np.flatnonzero(skipped):  # times inside the hour that clocks skip once a year
        seconds = int(local[row]) // per_second
        before = datetime.fromtimestamp(seconds, UTC).replace(tzinfo=zone).utcoffset()
        assert before is not None
        moved[row] = int(local[row]) - int(before.total_seconds()) * per_second
    return moved


_DIRECTIVES: dict[str, Callable[[int, int, int], str]] = {}
"""What stands for a letter behind ``%``, from days, microseconds of the day, and the nanosecond."""


def _directive(letters: str) -> Callable[[Callable[[int, int, int], str]], Callable[[int, int, int], str]]:
    def add(function: Callable[[int, int, int], str]) -> Callable[[int, int, int], str]:
        for letter in letters.split():
            _DIRECTIVES[letter] = function
        return function

    return add


def _seconds(time: int) -> int:
    return time // 1_000_000


def _week_of_year(days: int, first_weekday: int) -> int:
    """Weeks that start on a weekday (0 is Sunday), the days before the first of them being in week 0."""
    year = civil(days)[0]
    day_of_year = days - days_of(year, 1, 1)
    weekday = (days + 4 - first_weekday) % 7
    return (day_of_year + 7 - weekday) // 7


def _iso(days: int) -> tuple[int, int]:
    thursday = days - (days + 3) % 7 + 3
    year = civil(thursday)[0]
    return year, (thursday - days_of(year, 1, 1)) // 7 + 1


_DIRECTIVES.update(
    {
        "Y": lambda d, _t, _n: f"{civil(d)[0]:04d}",
        "y": lambda d, _t, _n: f"{civil(d)[0] % 100:02d}",
        "-y": lambda d, _t, _n: f"{civil(d)[0] % 100}",
        "m": lambda d, _t, _n: f"{civil(d)[1]:02d}",
        "-m": lambda d, _t, _n: f"{civil(d)[1]}",
        "d": lambda d, _t, _n: f"{civil(d)[2]:02d}",
        "-d": lambda d, _t, _n: f"{civil(d)[2]}",
        "H": lambda _d, t, _n: f"{_seconds(t) // 3600:02d}",
        "-H": lambda _d, t, _n: f"{_seconds(t) // 3600}",
        "I": lambda _d, t, _n: f"{(_seconds(t) // 3600 + 11) % 12 + 1:02d}",
        "-I": lambda _d, t, _n: f"{(_seconds(t) // 3600 + 11) % 12 + 1}",
        "M": lambda _d, t, _n: f"{_seconds(t) // 60 % 60:02d}",
        "-M": lambda _d, t, _n: f"{_seconds(t) // 60 % 60}",
        "S": lambda _d, t, _n: f"{_seconds(t) % 60:02d}",
        "-S": lambda _d, t, _n: f"{_seconds(t) % 60}",
        "f": lambda _d, t, _n: f"{t % 1_000_000:06d}",
        "g": lambda _d, t, _n: f"{t % 1_000_000 // 1000:03d}",
        "j": lambda d, _t, _n: f"{d - days_of(civil(d)[0], 1, 1) + 1:03d}",
        "-j": lambda d, _t, _n: f"{d - days_of(civil(d)[0], 1, 1) + 1}",
        "a": lambda d, _t, _n: _DAY_NAMES[(d + 4) % 7][:3],
        "A": lambda d, _t, _n: _DAY_NAMES[(d + 4) % 7],
        "b": lambda d, _t, _n: _MONTH_NAMES[civil(d)[1] - 1][:3],
        "B": lambda d, _t, _n: _MONTH_NAMES[civil(d)[1] - 1],
        "p": lambda _d, t, _n: "AM" if _seconds(t) < 43_200 else "PM",
        "w": lambda d, _t, _n: str((d + 4) % 7),
        "u": lambda d, _t, _n: str((d + 3) % 7 + 1),
        "U": lambda d, _t, _n: f"{_week_of_year(d, 0):02d}",
        "W": lambda d, _t, _n: f"{_week_of_year(d, 1):02d}",
        "V": lambda d, _t, _n: f"{_iso(d)[1]:02d}",
        "G": lambda d, _t, _n: f"{_iso(d)[0]:04d}",
        "z": lambda _d, _t, _n: "+00",
        "%": lambda _d, _t, _n: "%",
    }
)
_COMPOUND = {"c": "%Y-%m-%d %H:%M:%S", "x": "%Y-%m-%d", "X": "%H:%M:%S"}


def _format_parts(text: str) -> list[str | Callable[[int, int, int], str]]:
    """A format as texts and directives. Raises EvaluationError for one that is not known."""
    if not text:
        raise EvaluationError("the format of strftime is empty; expected e.g. '%Y-%m-%d'")
    parts: list[str | Callable[[int, int, int], str]] = []
    place = 0
    while place < len(text):
        if text[place] != "%":
            parts.append(text[place])
            place += 1
            continue
        letter = text[place + 1 : place + 2]
        if letter == "-":
            letter = text[place + 1 : place + 3]
        if letter in _COMPOUND:
            parts.extend(_format_parts(_COMPOUND[letter]))
        elif letter in _DIRECTIVES:
            parts.append(_DIRECTIVES[letter])
        else:
            known = " ".join(f"%{each}" for each in (*_DIRECTIVES, *_COMPOUND))
            raise EvaluationError(f"strftime does not know %{letter}; expected one of {known}")
        place += 1 + len(letter)
    return parts


_MOST_PARTS = 1000
"""Directives, and characters between them, of a format."""


@register(
    "strftime",
    _THEME,
    ";".join(f"{each}, VARCHAR -> VARCHAR; VARCHAR, {each} -> VARCHAR" for each in _POINTS),
)
def _strftime(values: Sequence[Value], result: pa.DataType) -> Value:
    first, second = values
    form, value = (first, second) if kind(first.type) == "VARCHAR" else (second, first)
    value = as_array(value, length_of(values))
    if not is_scalar(form):
        if len(set(form.to_pylist()) - {None}) > 1:
            raise EvaluationError("strftime takes one format for all rows")
        form = pa.scalar(next((each for each in form.to_pylist() if each is not None), None), form.type)
        if not form.is_valid:
            return pa.nulls(len(value), result)
    parts = _format_parts(form.as_py())
    if len(parts) > _MOST_PARTS:
        raise EvaluationError(f"found a format of {len(parts):,} parts for strftime; expected {_MOST_PARTS:,} or fewer")
    days, time = day_and_time(value)

    def text(tick: int) -> str:
        day, micros = divmod(tick, MICROS_PER_DAY)
        return "".join(each if isinstance(each, str) else each(day, micros, 0) for each in parts)

    ticks = made(days * MICROS_PER_DAY + time, all_valid([value]), pa.int64())
    return per_distinct([ticks], text, result)
