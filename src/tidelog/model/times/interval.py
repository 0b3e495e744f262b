"""Half-open intervals of event time."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.model.arguments import instance, integer


@dataclass(frozen=True, slots=True)
class Interval:
    """The instants ``t`` with ``start <= t < end``, in ticks of the stream's clock; None is unbounded.

    An interval whose end is not behind its start is empty, and all empty intervals answer alike, but they
    compare equal only when their ends do.
    """

    start: int | None = None
    end: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no instant is inside."""
        return self.start is not None and self.end is not None and self.end <= self.start

    def contains(self, t: int) -> bool:
        """Whether instant ``t``, in ticks, is inside."""
        t = integer("an instant", t)
        return (self.start is None or self.start <= t) and (self.end is None or t < self.end)

    def intersect(self, other: Interval) -> Interval:
        """The instants inside both."""
        instance("an interval", other, Interval, "a tidelog.Interval")
        starts = [each for each in (self.start, other.start) if each is not None]
        ends = [each for each in (self.end, other.end) if each is not None]
        return Interval(max(starts, default=None), min(ends, default=None))

    def overlaps(self, other: Interval) -> bool:
        """Whether some instant is inside both."""
        instance("an interval", other, Interval, "a tidelog.Interval")
        return not (self.is_empty or other.is_empty or self.intersect(other).is_empty)

    def __str__(self) -> str:
        start = "-inf" if self.start is None else self.start
        end = "inf" if self.end is None else self.end
        return f"[{start}, {end})"


ALL_TIME = Interval()
"""Every instant."""
