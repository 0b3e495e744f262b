"""Lengths of time as Spark's SQL writes them: ``'1 hour 30 minutes'``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Final

from sqlglot import exp

from tidelog.model.errors import TimeError, did_you_mean
from tidelog.spark.pipeline.description.relations import is_time, type_text
from tidelog.spark.pipeline.description.steps import Fault
from tidelog.spark.pipeline.sql.parsing import near

_MICROSECONDS: Final[Mapping[str, int]] = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_MONTHS: Final[Mapping[str, int]] = {"month": 1, "year": 12}
_UNITS: Final = {f"{unit}{end}": unit for unit in (*_MICROSECONDS, *_MONTHS) for end in ("", "s")}
_PART: Final = re.compile(r"([+-]?)\s*(\d+(?:\.\d*)?|\.\d+)\s+([A-Za-z]+)(?:\s+|$)")
_NUMBER: Final = re.compile(r"\s*[+-]?(\d+(\.\d*)?|\.\d+)\s*")
_EXPECTED: Final = "expected numbers and units such as '10 minutes' or '1 hour 30 minutes'"

WINDOWS: Final[Mapping[str, tuple[str, ...]]] = {
    "window": ("length", "slide", "start"),
    "session_window": ("gap",),
}
"""Functions that divide time, and what their lengths of time are."""


def read_interval(text: str) -> tuple[int, Fraction]:
    """Months and microseconds of an interval. Raises :class:`TimeError` for what Spark takes for none."""
    rest = re.sub(r"(?i)^\s*interval\s+", "", text).strip()
    if not rest:
        raise TimeError(f"found {text!r}, which is no interval; {_EXPECTED}")
    months, micros, at = 0, Fraction(0), 0
    while at < len(rest):
        part = _PART.match(rest, at)
        if part is None:
            raise TimeError(f"found {text!r}, which is no interval; {_EXPECTED}")
        unit = _UNITS.get(part[3].lower())
        if unit is None:
            raise TimeError(f"found {text!r}, and there is no unit {part[3]!r}; {did_you_mean(part[3], _UNITS)}")
        if "." in part[2] and unit != "second":
            raise TimeError(f"found {text!r}; only seconds have fractions")
        number = Fraction(part[2].rstrip(".")) * (-1 if part[1] == "-" else 1)
        if unit in _MONTHS:
            months += int(number) * _MONTHS[unit]
        else:
            micros += int(number * _MICROSECONDS[unit])
        at = part.end()
    return months, micros


def misread_intervals(query: exp.Query) -> Iterator[Fault]:
    """What is wrong with the intervals of a query, ``INTERVAL ...`` and those that divide time into windows."""
    for interval in query.find_all(exp.Interval):
        message = _literal_fault(interval)
        if message is not None:
            yield Fault("sql", message, near(interval) or near(interval.parent))
    told = set()
    for call in query.find_all(exp.Anonymous):
        if call.name.lower() in WINDOWS:
            message = _window_fault(call)
            if message is not None and message not in told:  # once behind SELECT, once behind GROUP BY
                told.add(message)
                yield Fault("sql", message, near(call))


def misplaced_windows(typed: exp.Query) -> Iterator[Fault]:
    """Windows over columns that are no times, in a query whose types are known."""
    for call in typed.find_all(exp.Anonymous):
        if call.name.lower() not in WINDOWS or not call.expressions:
            continue
        column = call.expressions[0]
        type_ = column.type if isinstance(column, exp.Column) else None
        is_known = type_ is not None and type_.this in exp.DataType.NUMERIC_TYPES | {exp.DataType.Type.BOOLEAN}
        if is_known and type_ is not None and not is_time(type_):
            message = f"{call.name.lower()} divides time, and column {column.name!r} is {type_text(type_)}"
            yield Fault("sql", f"{message}; expected a timestamp", near(call))
            return


def _literal_fault(interval: exp.Interval) -> str | None:
    value, unit = interval.this, interval.args.get("unit")
    if not isinstance(value, exp.Literal) or (unit is not None and not isinstance(unit, exp.Var)):
        return None
    try:
        if unit is None:
            read_interval(value.name)
        elif not _NUMBER.fullmatch(value.name):
            return f"found INTERVAL {value.name!r} {unit.name}; expected a number"
        else:
            read_interval(f"{value.name.strip()} {unit.name}")
    except TimeError as error:
        return str(error)
    return None


def _window_fault(call: exp.Anonymous) -> str | None:
    lengths: dict[str, Fraction] = {}
    name = call.name.lower()
    for what, given in zip(WINDOWS[name], call.expressions[1:], strict=False):
        if isinstance(given, exp.Interval):
            return (
                f"the {what} of {name} is an interval; expected it as text, such as '1 hour'"
                if name == "window"
                else None
            )
        if not isinstance(given, exp.Literal) or not given.is_string:
            return None  # a number of microseconds, or what rows say
        try:
            months, micros = read_interval(given.name)
        except TimeError as error:
            return str(error)
        if months:
            return f"found {given.name!r}: months and years differ in length; expected days, weeks, or less"
        if micros <= 0 and what != "start":
            return f"the {what} of {name} is {given.name!r}; expected more than nothing"
        lengths[what] = micros
    length = lengths.get("length")
    slide = lengths.get("slide", length)
    if length is not None and slide is not None:
        if slide > length:
            return (
                "the slide of a window, its third argument, is longer than its length, so that rows would be left out"
            )
        if abs(lengths.get("start", Fraction(0))) >= slide:
            return "the start of windows, the fourth argument, is not shorter than their slide"
    return None
