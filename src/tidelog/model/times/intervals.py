"""Sets of instants: disjoint intervals of event time, in order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from tidelog.model.times.interval import ALL_TIME, Interval


def _start(interval: Interval) -> float:
    return -inf if interval.start is None else interval.start


def _end(interval: Interval) -> float:
    return inf if interval.end is None else interval.end


@dataclass(frozen=True, slots=True)
class Intervals:
    """A set of instants. However it is given, it is kept in one way, so equal sets are equal.

    ``spans`` are disjoint, in order, neither empty nor touching; given may be any intervals.
    """

    spans: tuple[Interval, ...] = ()

    def __post_init__(self) -> None:
        if len(self.spans) != 1 or self.spans[0].is_empty:
            object.__setattr__(self, "spans", tuple(_joined(self.spans)))

    @classmethod
    def of(cls, start: int | None, end: int | None) -> Intervals:
        """The instants ``t`` with ``start <= t < end``; None is unbounded."""
        return cls((Interval(start, end),))

    def __bool__(self) -> bool:
        """Whether some instant is inside."""
        return bool(self.spans)

    @property
    def bounds(self) -> Interval:
        """The smallest interval that has all of it; an empty one if nothing is inside."""
        spans = self.spans
        if len(spans) == 1:
            return spans[0]
        return Interval(spans[0].start, spans[-1].end) if spans else Interval(0, 0)

    def contains(self, t: int) -> bool:
        """Whether instant ``t``, in ticks, is inside."""
        instant: float = t
        place = bisect_right(self.spans, instant, key=_start)
        return place > 0 and self.spans[place - 1].contains(t)

    def reaching(self, first: int, last: int) -> Intervals:
        """The spans, whole, that have an instant from ``first`` to ``last``, both included."""
        start: float = first
        end: float = last
        low, high = bisect_right(self.spans, start, key=_end), bisect_right(self.spans, end, key=_start)
        return self if high - low == len(self.spans) else Intervals(self.spans[low:high])

    def __and__(self, other: Intervals | Interval) -> Intervals:
        """The instants inside both."""
        if isinstance(other, Interval):
            low = bisect_right(self.spans, _start(other), key=_end)
            high = bisect_left(self.spans, _end(other), key=_start)
            return Intervals(tuple(each.intersect(other) for each in self.spans[low:high]))
        found: list[Interval] = []
        mine, theirs = 0, 0
        while mine < len(self.spans) and theirs < len(other.spans):
            one, two = self.spans[mine], other.spans[theirs]
            found.append(one.intersect(two))
            if _end(one) <= _end(two):
                mine += 1
            else:
                theirs += 1
        return Intervals(tuple(found))

    def __str__(self) -> str:
        return " and ".join(map(str, self.spans)) or "no time"


ALWAYS = Intervals((ALL_TIME,))
"""Every instant."""


def _joined(intervals: Iterable[Interval]) -> list[Interval]:
    """Intervals in order, without empty ones; those that overlap or touch are one."""
    found: list[Interval] = []
    for each in sorted((each for each in intervals if not each.is_empty), key=_start):
        if found and _start(each) <= _end(found[-1]):
            if _end(each) > _end(found[-1]):
                found[-1] = Interval(found[-1].start, each.end)
        else:
            found.append(each)
    return found
