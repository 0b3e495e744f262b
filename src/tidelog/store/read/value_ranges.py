"""Conditions that are nothing but a range of values of one column, as storage can look for them."""

from __future__ import annotations

import math

import pyarrow as pa

from tidelog.expr import Predicate
from tidelog.expr.conditions.intervals import Interval
from tidelog.expr.conditions.pruning import as_stored
from tidelog.storage.format.value_range import ValueRange, can_have_range

_SIGNED = -(2**63), 2**63 - 1
_UNSIGNED = 0, 2**64 - 1


def value_range(where: Predicate, stored: pa.Schema) -> ValueRange | None:
    """The range of values of a column that a condition is true for, and nowhere else; None if it is no such thing."""
    found = where.exact_range
    if found is None or len(found.intervals) > 1:
        return None
    type = stored.field(found.column).type
    if not can_have_range(type):
        return None
    if not found.intervals:
        return ValueRange(found.column, 1, 0, found.nans)
    interval = as_stored(found.intervals[0], found.type, type)
    if pa.types.is_floating(type):
        return ValueRange(found.column, *_floats(interval), found.nans)
    return ValueRange(found.column, *_integers(interval, *(_UNSIGNED if _is_unsigned(type) else _SIGNED)))


def _is_unsigned(type: pa.DataType) -> bool:
    return bool(pa.types.is_unsigned_integer(type))


def _floats(interval: Interval) -> tuple[float, float]:
    low = -math.inf if interval.low is None else float(interval.low)
    high = math.inf if interval.high is None else float(interval.high)
    # Beside an infinity there is nothing: a bound that is one and does not count leaves no number.
    if not interval.low_inclusive:
        low = math.nextafter(low, math.inf)
        if low == interval.low:
            return math.inf, -math.inf
    if not interval.high_inclusive:
        high = math.nextafter(high, -math.inf)
        if high == interval.high:
            return math.inf, -math.inf
    return low, high


def _integers(interval: Interval, lowest: int, highest: int) -> tuple[int, int]:
    low = lowest if interval.low is None else interval.low + (not interval.low_inclusive)
    high = highest if interval.high is None else interval.high - (not interval.high_inclusive)
    if low > highest or high < lowest:
        return 1, 0
    return max(low, lowest), min(high, highest)
