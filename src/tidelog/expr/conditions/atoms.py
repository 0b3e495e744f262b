"""Comparisons of a column with a constant, as the set of column values for which they are true.

Looks through the conversions that comparisons insert, where these keep order: ``volume > 1.5`` on an integer column
is ``volume >= 2``; ``CAST(ts AS DATE) = '2026-01-01'`` is a day's worth of ticks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pyarrow as pa

from tidelog.expr.conditions.intervals import EVERYTHING, NOTHING, Interval, Intervals, closed, complement, intersect
from tidelog.expr.errors import ExpressionError
from tidelog.expr.evaluate import constant_value
from tidelog.expr.tree import Call, Cast, Column, Node
from tidelog.expr.values.casts import SECONDS_PER_DAY, TICKS_PER_SECOND
from tidelog.expr.values.types import (
    BLOB,
    DATE,
    DOUBLE,
    FLOAT,
    HUGEINT,
    INTERVAL,
    VARCHAR,
    common_type,
    decimal_shape,
    is_decimal,
    is_float,
    is_instant,
    is_integer,
)
from tidelog.expr.values.vectors import numbers


@dataclass(frozen=True, slots=True)
class ValueSet:
    """Values of a column that is not NULL: some intervals, and NaN or not."""

    intervals: Intervals
    nans: bool = False


def point_of(scalar: pa.Scalar) -> Any:
    """A valid scalar in its domain: an integer or a float, or bytes for text. None for intervals."""
    type_ = scalar.type
    if type_ == INTERVAL:
        return None
    if type_ == VARCHAR:
        return scalar.as_py().encode()
    if type_ == BLOB:
        return scalar.as_py()
    if is_decimal(type_):
        digits = scalar.as_py().as_tuple()
        whole = int("".join(map(str, digits.digits))) * 10 ** (type_.scale + int(digits.exponent))
        return -whole if digits.sign else whole
    value = numbers(scalar)[0]
    return float(value) if is_float(type_) else int(value)


def compared(operator: str, point: Any, type_: pa.DataType) -> ValueSet:
    """The values ``v`` of a column of ``type_`` with ``v operator point``; ``point`` may lie between two integers."""
    if isinstance(point, float) and math.isnan(point):
        above = operator in ("=", ">=", "<=")
        below = operator in ("<", "<=", "<>")
        return ValueSet(EVERYTHING if below else NOTHING, above)
    intervals: Intervals = {
        "=": (Interval(point, True, point, True),),
        "<>": (Interval(None, True, point, False), Interval(point, False, None, True)),
        "<": (Interval(None, True, point, False),),
        "<=": (Interval(None, True, point, True),),
        ">": (Interval(point, False, None, True),),
        ">=": (Interval(point, True, None, True),),
    }[operator]
    if is_float(type_):
        return ValueSet(intervals, operator in (">", ">=", "<>"))
    if isinstance(point, int | Fraction):
        intervals = _whole(intervals)
    return ValueSet(intervals)


def _whole(intervals: Intervals) -> Intervals:
    """The integers in intervals whose bounds may be fractions."""
    found = []
    for part in intervals:
        low, high = part.low, part.high
        if low is not None and low != math.floor(low):
            part = Interval(math.ceil(low), True, part.high, part.high_inclusive)
        if high is not None and high != math.floor(high):
            part = Interval(part.low, part.low_inclusive, math.floor(high), True)
        found.append(part)
    return closed(
        tuple(
            Interval(
                None if p.low is None else int(p.low),
                p.low_inclusive,
                None if p.high is None else int(p.high),
                p.high_inclusive,
            )
            for p in found
        )
    )


@dataclass(frozen=True, slots=True)
class Monotone:
    """A column under conversions that keep order, and what the result's values are back in the column."""

    column: Column
    back: Callable[[str, Any], ValueSet | None]
    """From a comparison of the result with a point to the column values for which it is true; None: not known."""
    direct: bool
    """Whether no arithmetic is in between, which might overflow where the comparison alone does not."""


def monotone(node: Node) -> Monotone | None:
    """A node as a column under conversions that keep order, if it is that."""
    if isinstance(node, Column):
        return Monotone(node, lambda operator, point: compared(operator, point, node.type), True)
    if isinstance(node, Cast) and not node.lenient:
        inner = monotone(node.operand)
        convert = _conversion(node.operand.type, node.type)
        if inner is None or convert is None:
            return None
        return Monotone(inner.column, lambda op, point: convert(inner, op, point), inner.direct)
    if isinstance(node, Call) and node.name in ("+", "-") and len(node.arguments) == 2:
        return _shifted(node)
    return None


def _conversion(source: pa.DataType, target: pa.DataType) -> Callable[[Monotone, str, Any], ValueSet | None] | None:
    """How to turn a comparison of a converted value with a point into one of the value itself."""
    if source == target:
        return lambda inner, op, point: inner.back(op, point)
    if is_integer(source) and is_integer(target):
        return (lambda inner, op, point: inner.back(op, point)) if common_type(source, target) == target else None
    if is_float(target):
        return _float_conversion(source, target)
    if is_decimal(target):
        shape = decimal_shape(source)
        if shape is None or shape[0] - shape[1] > target.precision - target.scale or shape[1] > target.scale:
            return None
        factor = 10 ** (target.scale - shape[1])
        return lambda inner, op, point: inner.back(op, _exact(Fraction(point, factor)))
    if is_instant(source) and is_instant(target):
        return _instant_conversion(source, target)
    return None


def _float_conversion(
    source: pa.DataType, target: pa.DataType
) -> Callable[[Monotone, str, Any], ValueSet | None] | None:
    if source == FLOAT and target == DOUBLE:
        return lambda inner, op, point: inner.back(op, point)
    if not is_integer(source) or source == HUGEINT:
        return None
    limit = 2**53 if target == DOUBLE else 2**24

    def convert(inner: Monotone, operator: str, point: float) -> ValueSet | None:
        if math.isnan(point) or math.isinf(point):
            below = point < 0
            holds = operator in ((">", ">=", "<>") if below else ("<", "<=", "<>"))
            return ValueSet(EVERYTHING if holds else NOTHING)
        # Below the limit integers are exact, and those above it do not round to below.
        return inner.back(operator, _exact(Fraction(point))) if abs(point) < limit else None

    return convert


def _instant_conversion(
    source: pa.DataType, target: pa.DataType
) -> Callable[[Monotone, str, Any], ValueSet | None] | None:
    own, wanted = _ticks_per_day(source), _ticks_per_day(target)
    if wanted >= own:
        factor = wanted // own
        return lambda inner, op, point: inner.back(op, _exact(Fraction(point, factor)))
    if target != DATE:
        return None  # rounds to the nearest
    size = own // wanted

    def to_day(inner: Monotone, operator: str, day: int) -> ValueSet | None:
        start, end = day * size, (day + 1) * size
        if operator in ("=", "<>"):
            return None if not isinstance(day, int) else _between(inner, start, end, operator == "=")
        mapped = {"<": ("<", start), "<=": ("<", end), ">": (">=", end), ">=": (">=", start)}[operator]
        return inner.back(*mapped) if isinstance(day, int) else None

    return to_day


def _between(inner: Monotone, start: int, end: int, inside: bool) -> ValueSet | None:
    low, high = inner.back(">=", start), inner.back("<", end)
    if low is None or high is None:
        return None
    both = intersect(low.intervals, high.intervals)
    return ValueSet(both if inside else closed(complement(both)))


def _ticks_per_day(type_: pa.DataType) -> int:
    return 1 if type_ == DATE else SECONDS_PER_DAY * TICKS_PER_SECOND[type_.unit]


def _exact(value: Fraction) -> int | Fraction:
    return value.numerator if value.denominator == 1 else value


_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _shifted(node: Call) -> Monotone | None:
    """A column plus or minus a constant: integers, days, or ticks."""
    left, right = node.arguments
    swapped = left.is_constant
    moved, constant = (right, left) if swapped else (left, right)
    inner = monotone(moved)
    if inner is None or not constant.is_constant:
        return None
    amount = _amount(constant, moved.type, node.type)
    if amount is None:
        return None
    if node.name == "+":
        return Monotone(inner.column, lambda op, point: inner.back(op, point - amount), False)
    if not swapped:
        return Monotone(inner.column, lambda op, point: inner.back(op, point + amount), False)
    if not is_integer(node.type) or not is_integer(moved.type):
        return None
    return Monotone(inner.column, lambda op, point: inner.back(_MIRRORED[op], amount - point), False)


def _amount(constant: Node, moved: pa.DataType, result: pa.DataType) -> int | None:
    """By how many units of ``result`` a constant moves a value, if the unit of ``moved`` is the same."""
    value = constant_or_none(constant)
    if value is None or moved != result:
        return None
    if is_integer(result) and is_integer(constant.type):
        return int(point_of(value))
    if result == DATE and is_integer(constant.type):
        return int(point_of(value))
    if is_instant(result) and result != DATE and result.unit == "us" and constant.type == INTERVAL:
        months, days, nanos = value.as_py()
        return None if months else int(days * SECONDS_PER_DAY * 1_000_000 + nanos // 1000)
    return None


def constant_or_none(node: Node) -> pa.Scalar | None:
    """The value of a constant, or None if it is NULL or cannot be computed."""
    try:
        value = constant_value(node)
    except ExpressionError:
        return None
    return value if value.is_valid else None
