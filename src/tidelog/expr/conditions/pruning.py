"""Which blocks may hold, or hold nothing but, rows that satisfy a predicate, told from their summaries.

Summaries are those of :mod:`tidelog.storage.summary`: one record for each block and column.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.expr.conditions.condition import AllOf, AnyOf, ColumnRange, Condition, InPoints, InRange
from tidelog.expr.conditions.intervals import Interval
from tidelog.expr.values.types import BLOB, VARCHAR, is_float
from tidelog.expr.values.vectors import Mask
from tidelog.model.conversion.families import value_type

Summaries = npt.NDArray[np.void]
"""Records of :data:`tidelog.storage.summary.SUMMARY`, one for each block."""

_PREFIX = 8
_MILLISECONDS_PER_DAY = 86_400_000
_TICKS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def may_hold(
    condition: Condition, summaries: Mapping[str, Summaries], rows: npt.NDArray[np.integer[Any]], schema: pa.Schema
) -> Mask:
    """For each block whether it may hold a row for which ``condition`` holds; false only if it certainly does not.

    ``summaries`` has an array of records for each column that is known, ``rows`` the number of rows of each block,
    and ``schema`` the types the columns are stored as. Columns without summaries exclude nothing.
    """
    if isinstance(condition, InRange):
        known = summaries.get(condition.range.column)
        if known is None:
            return rows > 0
        return _overlaps(condition.range, known, rows, schema.field(condition.range.column).type)
    if isinstance(condition, InPoints):
        known = summaries.get(condition.column)
        if known is None:
            return rows > 0
        return _reaches(condition, known, rows, schema.field(condition.column).type)
    if isinstance(condition, AllOf):
        result = rows > 0
        for part in condition.parts:
            result &= may_hold(part, summaries, rows, schema)
        return result
    assert isinstance(condition, AnyOf)
    result = np.zeros(len(rows), np.bool_)
    for part in condition.parts:
        result |= may_hold(part, summaries, rows, schema)
    return result


def _overlaps(wanted: ColumnRange, known: Summaries, rows: npt.NDArray[np.integer[Any]], stored: pa.DataType) -> Mask:
    from tidelog.storage.summary import HAS_BOUNDS  # whoever has summaries has loaded it already

    nulls, nans = known["nulls"].astype(np.int64), known["nans"].astype(np.int64)
    result = np.zeros(len(known), np.bool_)
    if wanted.nulls:
        result |= nulls > 0
    if wanted.nans:
        result |= nans > 0
    if not wanted.intervals:
        return result
    inside = np.zeros(len(known), np.bool_)
    if wanted.type in (VARCHAR, BLOB):
        test = _TextBounds(known)
        for interval in wanted.intervals:
            inside |= test.overlaps(interval)
    else:
        minima, maxima = _bounds(known, wanted.type, stored)
        for interval in wanted.intervals:
            inside |= _number_overlaps(as_stored(interval, wanted.type, stored), minima, maxima)
    without_bounds = (known["flags"] & HAS_BOUNDS) == 0
    result |= (inside | without_bounds) & (rows - nulls - nans > 0)
    return result


def _reaches(wanted: InPoints, known: Summaries, rows: npt.NDArray[np.integer[Any]], stored: pa.DataType) -> Mask:
    """Whether a point lies between the bounds of a block, by bisection."""
    from tidelog.storage.summary import HAS_BOUNDS

    if _per_second(value_type(stored)) != _per_second(wanted.type):
        return rows > 0  # bounds are in another unit
    if wanted.type in (VARCHAR, BLOB):
        minima, maxima = (np.ascontiguousarray(known[end]).byteswap() for end in ("min", "max"))
    else:
        minima, maxima = _bounds(known, wanted.type, stored)
    points = _like(wanted.points, minima.dtype)
    inside = points.searchsorted(minima, "left") < points.searchsorted(maxima, "right")
    nulls, nans = known["nulls"].astype(np.int64), known["nans"].astype(np.int64)
    without_bounds = (known["flags"] & HAS_BOUNDS) == 0
    result: Mask = (inside | without_bounds) & (rows - nulls - nans > 0)
    if wanted.nulls:
        result |= nulls > 0
    if wanted.nans:
        result |= nans > 0
    return result


def _like(points: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Sorted points as numbers of another kind; integers that it does not have are left out."""
    if dtype.kind in "iu" and points.dtype.kind in "iu":
        limits, own = np.iinfo(dtype), np.iinfo(points.dtype)
        if own.min < limits.min:
            points = points[points.searchsorted(limits.min) :]
        if own.max > limits.max:
            points = points[: points.searchsorted(limits.max, "right")]
    return points.astype(dtype)


def _bounds(known: Summaries, type_: pa.DataType, stored: pa.DataType) -> tuple[Any, Any]:
    low, high = np.ascontiguousarray(known["min"]), np.ascontiguousarray(known["max"])
    if is_float(type_):
        return low.view(np.float64), high.view(np.float64)
    if pa.types.is_uint64(value_type(stored)):
        return low, high
    return low.view(np.int64), high.view(np.int64)


def as_stored(interval: Interval, type_: pa.DataType, stored: pa.DataType) -> Interval:
    """An interval of SQL values as one of the counts that are stored, where their unit is coarser or finer."""
    own, wanted = _per_second(value_type(stored)), _per_second(type_)
    if own is None or wanted is None or own == wanted:
        return interval
    low = None if interval.low is None else -(-interval.low * own // wanted)
    high = None if interval.high is None else interval.high * own // wanted
    return Interval(low, True, high, True)  # counts are integers, so bounds are inclusive


def _per_second(type_: pa.DataType) -> int | None:
    """Units in a second, times the seconds of a day so that days count as one."""
    if pa.types.is_timestamp(type_):
        return 86_400 * _TICKS_PER_SECOND[type_.unit]
    if pa.types.is_date32(type_):
        return 1
    return _MILLISECONDS_PER_DAY if pa.types.is_date64(type_) else None


def _number_overlaps(interval: Interval, minima: Any, maxima: Any) -> Mask:
    """Where ``[minimum, maximum]`` meets an interval; integer bounds may be beyond what the arrays can hold."""
    result = np.ones(len(minima), np.bool_)
    if interval.low is not None:
        result &= _compare(maxima, interval.low, above=True, inclusive=interval.low_inclusive)
    if interval.high is not None:
        result &= _compare(minima, interval.high, above=False, inclusive=interval.high_inclusive)
    return result


def _compare(values: Any, bound: Any, *, above: bool, inclusive: bool) -> Mask:
    if values.dtype.kind != "f":
        limits = np.iinfo(values.dtype)
        if not limits.min <= bound <= limits.max:
            return np.full(len(values), (bound < limits.min) == above)
        bound = values.dtype.type(bound)
    elif math.isnan(bound):
        return np.ones(len(values), np.bool_)
    if above:
        return np.asarray(values >= bound if inclusive else values > bound)
    return np.asarray(values <= bound if inclusive else values < bound)


class _TextBounds:
    """Bounds of text, of which the first eight bytes are known; see :mod:`tidelog.storage.summary`.

    A value is *cut* if those bytes do not determine it: it is longer, or ends in a zero byte. Of two values of the
    same eight bytes, one that is cut is above one that is not.
    """

    def __init__(self, known: Summaries) -> None:
        from tidelog.storage.summary import MAX_TRUNCATED, MIN_TRUNCATED

        self._low = np.ascontiguousarray(known["min"]).byteswap()
        self._high = np.ascontiguousarray(known["max"]).byteswap()
        self._low_cut = (known["flags"] & MIN_TRUNCATED) != 0
        self._high_cut = (known["flags"] & MAX_TRUNCATED) != 0

    def overlaps(self, interval: Interval) -> Mask:
        """Where the bounds of a block meet an interval of bytes."""
        result = np.ones(len(self._low), np.bool_)
        if interval.low is not None:
            word, cut = _word(interval.low)
            # At equal words the largest value reaches the bound if it is cut, or equal to a bound that counts.
            level = self._high_cut | (not cut and interval.low_inclusive)
            result &= (self._high > word) | ((self._high == word) & level)
        if interval.high is not None:
            word, cut = _word(interval.high)
            # At equal words the smallest value stays below a bound that is cut; a cut one is above any other.
            level = np.full(len(result), True) if cut else ~self._low_cut & interval.high_inclusive
            result &= (self._low < word) | ((self._low == word) & level)
        return result


def _word(value: bytes) -> tuple[np.uint64, bool]:
    """The first eight bytes as a word that sorts like them, and whether the value is cut."""
    prefix = value[:_PREFIX].ljust(_PREFIX, b"\0")
    return np.uint64(int.from_bytes(prefix, "big")), len(value) > _PREFIX or value.endswith(b"\0")
