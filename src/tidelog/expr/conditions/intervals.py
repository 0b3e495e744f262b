"""Sets of values as sorted disjoint intervals, and the algebra of them.

Values are of one of three domains, which between them cover all column types in the order DuckDB gives them:
integers (also counts of dates and timestamps, unscaled decimals, booleans), floats without NaN, and bytes (text too,
since UTF-8 sorts by code point).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Interval:
    """The values between two bounds; a bound of None is no bound."""

    low: Any = None
    low_inclusive: bool = True
    high: Any = None
    high_inclusive: bool = True

    def contains(self, value: Any) -> bool:
        """Whether a value lies inside."""
        if self.low is not None and (value < self.low or (value == self.low and not self.low_inclusive)):
            return False
        return self.high is None or value < self.high or (value == self.high and self.high_inclusive)

    @property
    def is_empty(self) -> bool:
        """Whether no value of a dense domain lies inside."""
        if self.low is None or self.high is None:
            return False
        return bool(
            self.low > self.high or (self.low == self.high and not (self.low_inclusive and self.high_inclusive))
        )

    def __str__(self) -> str:
        low = "(-inf" if self.low is None else f"{'[' if self.low_inclusive else '('}{self.low!r}"
        high = "inf)" if self.high is None else f"{self.high!r}{']' if self.high_inclusive else ')'}"
        return f"{low}, {high}"


Intervals = tuple[Interval, ...]
"""Sorted, disjoint, none empty."""

EVERYTHING: Intervals = (Interval(),)
NOTHING: Intervals = ()


def _starts_before(a: Interval, b: Interval) -> bool:
    """Whether ``a`` reaches at least as far down as ``b``."""
    if a.low is None or b.low is None:
        return a.low is None
    return bool(a.low < b.low or (a.low == b.low and (a.low_inclusive or not b.low_inclusive)))


def _ends_before(a: Interval, b: Interval) -> bool:
    """Whether ``b`` reaches at least as far up as ``a``."""
    if a.high is None or b.high is None:
        return b.high is None
    return bool(a.high < b.high or (a.high == b.high and (b.high_inclusive or not a.high_inclusive)))


def _touch(a: Interval, b: Interval) -> bool:
    """Whether ``b``, which does not start below ``a``, starts inside ``a`` or right behind it."""
    if a.high is None or b.low is None:
        return True
    return bool(b.low < a.high or (b.low == a.high and (a.high_inclusive or b.low_inclusive)))


def intersect(left: Intervals, right: Intervals) -> Intervals:
    """The values in both."""
    found = []
    for a in left:
        for b in right:
            low, high = (b if _starts_before(a, b) else a), (a if _ends_before(a, b) else b)
            both = Interval(low.low, low.low_inclusive, high.high, high.high_inclusive)
            if not both.is_empty:
                found.append(both)
    return tuple(found)


def unite(parts: Iterable[Interval]) -> Intervals:
    """The values in any of the intervals, in any order."""
    waiting = [part for part in parts if not part.is_empty]
    if any(part.low is None for part in waiting):
        below = [part for part in waiting if part.low is None]
        first = below[0]
        for part in below[1:]:
            first = part if _ends_before(first, part) else first
        rest = [part for part in waiting if part.low is not None]
        ordered = [first, *sorted(rest, key=lambda part: (part.low, not part.low_inclusive))]
    else:
        ordered = sorted(waiting, key=lambda part: (part.low, not part.low_inclusive))
    found: list[Interval] = []
    for part in ordered:
        if found and _touch(found[-1], part):
            last = found[-1]
            end = part if _ends_before(last, part) else last
            found[-1] = Interval(last.low, last.low_inclusive, end.high, end.high_inclusive)
        else:
            found.append(part)
    return tuple(found)


def complement(intervals: Intervals) -> Intervals:
    """The values in none of them."""
    found: list[Interval] = []
    low, low_inclusive, open_end = None, True, True
    for part in intervals:
        if part.low is not None:
            found.append(Interval(low, low_inclusive, part.low, not part.low_inclusive))
        low, low_inclusive = part.high, not part.high_inclusive
        open_end = part.high is not None
    if open_end:
        found.append(Interval(low, low_inclusive, None, True))
    return tuple(part for part in found if not part.is_empty)


def closed(intervals: Intervals) -> Intervals:
    """The same integers by bounds that belong to their intervals; neighbours become one."""
    found = []
    for part in intervals:
        low = part.low if part.low is None or part.low_inclusive else part.low + 1
        high = part.high if part.high is None or part.high_inclusive else part.high - 1
        if low is None or high is None or low <= high:
            found.append((low, high))
    joined: list[Interval] = []
    for low, high in found:
        if joined and joined[-1].high is not None and low is not None and low <= joined[-1].high + 1:
            joined[-1] = Interval(joined[-1].low, True, high, True)
        else:
            joined.append(Interval(low, True, high, True))
    return tuple(joined)


def at_most(intervals: Intervals, count: int) -> Intervals:
    """A set that contains this one, of at most ``count`` intervals: those in the middle are run together."""
    if len(intervals) <= count:
        return intervals
    keep = count - 1
    first, last = intervals[keep], intervals[-1]
    return (*intervals[:keep], Interval(first.low, first.low_inclusive, last.high, last.high_inclusive))
