"""Which windows of time there are: numbered, so that their starts and ends rise with their numbers.

Between two starts or ends of any windows lies a *slice*: rows of one slice are in the same windows. Only slices that
have rows, and windows that have slices, are ever looked at.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.model.arrays import distinct, integers
from tidelog.model.errors import TimeError
from tidelog.model.times.clock import INT64_MAX, INT64_MIN, Clock
from tidelog.operators.base import Ints
from tidelog.operators.window import kernels


class Frames(ABC):
    """Windows of time. Times and numbers are 64-bit integers."""

    @abstractmethod
    def slices(self, times: Ints) -> tuple[Ints, Ints]:
        """Where slices begin among some rows in the order of time, with the number of rows at the end; their starts.

        Raises :class:`TimeError` if windows of these times would reach out of the range of the clock.
        """

    @abstractmethod
    def numbers(self, starts: Ints) -> tuple[Ints, Ints]:
        """The numbers of the first and the last window that slices with some starts are part of.

        The last is less than the first for those that are part of none.
        """

    @abstractmethod
    def starts(self, numbers: Ints) -> Ints:
        """The first times of windows."""

    @abstractmethod
    def ends(self, numbers: Ints) -> Ints:
        """The first times behind windows."""

    @property
    def revisions(self) -> int:
        """How many windows, one behind the other, are revisions of the same one; 0 if that does not occur."""
        return 0

    def closed(self, watermark: int) -> int:
        """The number of the first window that ends behind a watermark."""
        return int(self.numbers(np.array([watermark], np.int64))[0][0])

    @property
    @abstractmethod
    def has_gaps(self) -> bool:
        """Whether there may be times between windows."""

    @property
    @abstractmethod
    def reach(self) -> int:
        """The length of the longest window in ticks."""


@dataclass(frozen=True)
class FixedFrames(Frames):
    """Windows of ``size`` ticks that begin every ``slide`` ticks, one of them at ``origin``."""

    size: int
    slide: int
    origin: int = 0

    def slices(self, times: Ints) -> tuple[Ints, Ints]:
        """By arithmetic, once for each slice."""
        self._check(int(times[0]), int(times[-1]))
        most = min(len(times), 2 * ((int(times[-1]) - int(times[0])) // self.slide + 2))
        cuts, starts = np.empty(most + 1, np.int64), np.empty(most, np.int64)
        count = kernels.cut_slices(times, self.origin, self.slide, self.size % self.slide, cuts, starts)
        cuts[count] = len(times)
        return cuts[: count + 1], starts[:count]

    def _check(self, first: int, last: int) -> None:
        margin = self.size + self.slide
        low, high = min(first, self.origin) - margin, max(last, self.origin) + margin
        if low < INT64_MIN or high > INT64_MAX or high - low > INT64_MAX:
            raise TimeError(
                f"windows of {self.size} ticks, from {self.origin} on, around the times {first} to {last} reach out of "
                "the range of the clock; expected times, sizes and an origin that are nearer to each other"
            )

    def numbers(self, starts: Ints) -> tuple[Ints, Ints]:
        """By arithmetic."""
        return (starts - (self.origin + self.size)) // self.slide + 1, (starts - self.origin) // self.slide

    def starts(self, numbers: Ints) -> Ints:
        """By arithmetic."""
        return self.origin + numbers * self.slide

    def ends(self, numbers: Ints) -> Ints:
        """By arithmetic."""
        return self.origin + numbers * self.slide + self.size

    def closed(self, watermark: int) -> int:
        """By arithmetic, beyond 64 bits if need be."""
        return (watermark - self.origin - self.size) // self.slide + 1

    @property
    def has_gaps(self) -> bool:
        """Whether the slide is longer than the size."""
        return self.slide > self.size

    @property
    def reach(self) -> int:
        """The size."""
        return self.size


@dataclass(frozen=True)
class GrowingFrames(Frames):
    """Windows of ``size`` ticks, one behind the other, each of them told early: after every ``step`` ticks of it.

    So a window is a few, of the same start, of which the last one is all of it. Steps of time, not batches, decide what
    is told, and so it is the same in every runtime.
    """

    size: int
    step: int
    origin: int = 0

    def __post_init__(self) -> None:
        if self.size < 1 or self.step < 1 or self.size % self.step:
            raise TimeError(f"found steps of {self.step} in windows of {self.size}; expected them to fit in exactly")

    @property
    def revisions(self) -> int:
        """How many steps a window has."""
        return self.size // self.step

    def slices(self, times: Ints) -> tuple[Ints, Ints]:
        """Steps."""
        return FixedFrames(self.step, self.step, self.origin).slices(times)

    def numbers(self, starts: Ints) -> tuple[Ints, Ints]:
        """From the step of a slice to the last one of its window."""
        firsts = (starts - self.origin) // self.step
        return firsts, firsts // self.revisions * self.revisions + self.revisions - 1

    def starts(self, numbers: Ints) -> Ints:
        """By arithmetic."""
        return self.origin + numbers // self.revisions * self.size

    def ends(self, numbers: Ints) -> Ints:
        """By arithmetic."""
        return self.origin + (numbers + 1) * self.step

    @property
    def has_gaps(self) -> bool:
        """There are none."""
        return False

    @property
    def reach(self) -> int:
        """The size."""
        return self.size


@dataclass(frozen=True)
class Period:
    """A length of time in a calendar: months, or days; one of them is zero."""

    months: int = 0
    days: int = 0

    def __post_init__(self) -> None:
        if (self.months > 0) == (self.days > 0) or self.months < 0 or self.days < 0:
            raise TimeError(f"found {self.months} months and {self.days} days; expected either, and more than zero")

    @property
    def least_days(self) -> int:
        """How many days it has at least."""
        return self.days or self.months * 28

    @property
    def most_days(self) -> int:
        """How many days it has at the most."""
        return self.days or self.months * 31


@dataclass(frozen=True)
class CalendarFrames(Frames):
    """Windows of days or months of a zone's calendar, one of which begins with 1970-01-01 there, or with ``origin``.

    They begin and end at midnight; where a day has none, when it begins. So a day has 23 to 25 hours.
    """

    clock: Clock
    size: Period
    slide: Period
    zone: str = "UTC"
    origin: int = 0
    """Days since 1970-01-01, the first of a month for slides of months."""

    def __post_init__(self) -> None:
        if self.clock.unit is None:
            raise TimeError("a clock of plain integers has no days and months; give sizes in ticks")
        try:
            self._days(np.zeros(1, np.int64))
        except pa.ArrowInvalid:
            raise TimeError(
                f"there is no time zone {self.zone!r}; expected a name such as 'Europe/Berlin', or 'UTC'"
            ) from None

    def slices(self, times: Ints) -> tuple[Ints, Ints]:
        """Between all starts and ends near the rows, of which there are at most two a day."""
        first, last = (int(each[0]) for each in self.numbers(times[[0]])), self.numbers(times[[-1]])
        low, high = next(first), int(last[1][0])
        numbers = np.arange(low - 1, high + 2, dtype=np.int64)
        edges = distinct(np.concatenate([self.starts(numbers), self.ends(numbers)]))
        places = np.searchsorted(edges, times, side="right") - 1
        cuts = np.flatnonzero(np.diff(places, prepend=-1)).astype(np.int64)
        return np.append(cuts, len(times)), edges[places[cuts]]

    def numbers(self, starts: Ints) -> tuple[Ints, Ints]:
        """By days of the zone; where windows end is looked up, since days and months have different lengths."""
        days = self._days(starts)
        if self.slide.days:
            lasts = (days - self.origin) // self.slide.days
        else:
            lasts = (_month_of(days) - _month_of(np.array([self.origin]))[0]) // self.slide.months
        if not len(starts):
            return lasts, lasts
        overlap = self.size.most_days // self.slide.least_days + 2
        known = np.arange(int(lasts.min()) - overlap, int(lasts.max()) + 2, dtype=np.int64)
        return known[np.searchsorted(self.ends(known), starts, side="right")], lasts

    def starts(self, numbers: Ints) -> Ints:
        """When their first days begin."""
        return self._midnights(self._first_days(numbers))

    def ends(self, numbers: Ints) -> Ints:
        """When the days behind their last ones begin."""
        days = self._first_days(numbers)
        return self._midnights(days + self.size.days if self.size.days else _months_later(days, self.size.months))

    @property
    def has_gaps(self) -> bool:
        """Whether a slide may be longer than the size."""
        if self.size.days and self.slide.days:
            return self.slide.days > self.size.days
        if self.size.months and self.slide.months:
            return self.slide.months > self.size.months
        return self.slide.most_days > self.size.least_days

    @property
    def reach(self) -> int:
        """Days, and an hour or two for the clock being put forward."""
        return (self.size.most_days + 1) * 86_400 * self._ticks

    @property
    def _ticks(self) -> int:
        return self.clock.duration("1s")

    def _first_days(self, numbers: Ints) -> Ints:
        if self.slide.days:
            return self.origin + numbers * self.slide.days
        return _first_of(_month_of(np.array([self.origin]))[0] + numbers * self.slide.months)

    def _days(self, times: Ints) -> Ints:
        """The days of the zone that instants are in."""
        seconds = np.floor_divide(times, self._ticks)
        local = pc.local_timestamp(pa.array(seconds, pa.timestamp("s", self.zone)))
        return np.floor_divide(integers(local.cast(pa.int64())), 86_400)

    def _midnights(self, days: Ints) -> Ints:
        """When days of the zone begin."""
        local = pa.array(days * 86_400, pa.timestamp("s"))
        # A midnight that is there twice is the first one; one that is left out is when the day begins without it.
        found = pc.assume_timezone(local, self.zone, ambiguous="earliest", nonexistent="latest")
        return integers(found.cast(pa.int64())) * self._ticks


def _month_of(days: Ints) -> Ints:
    """Months since 1970 of days since 1970."""
    return days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)


def _first_of(months: Ints) -> Ints:
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def _months_later(days: Ints, months: int) -> Ints:
    """The same days of later months, or the last of these."""
    month = _month_of(days)
    in_month = days - _first_of(month)
    later = _first_of(month + months)
    return np.minimum(later + in_month, _first_of(month + months + 1) - 1)
