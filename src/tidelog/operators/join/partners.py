"""Which rows of a stream an arriving row of another one is joined with: those of the window that is active then.

All rows of both streams are in one order: by time, and at one time those of the left input first. When a row arrives,
the active window of the other stream is the last one that is complete by then (spec/offline-queries.md 1.2.3).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from tidelog.model.errors import InputError
from tidelog.model.times.clock import INT64_MIN
from tidelog.operators.base import Ints


@dataclass(frozen=True)
class JoinWindow(ABC):
    """A window over one stream: its size, and by how much it moves at a time."""

    size: int
    slide: int = 1

    def __post_init__(self) -> None:
        if self.size < 1 or self.slide < 1:
            raise InputError(f"found a window of {self.size} that moves by {self.slide}; expected at least 1 of both")

    @abstractmethod
    def ranges(self, arrivals: Ints, before: Ints, times: Ints, base: int) -> tuple[Ints, Ints]:
        """For rows that arrive at some times the ranks of the rows that are in the active window.

        ``before`` is how many rows of the windowed stream came before each; ``times`` are those of its rows from rank
        ``base`` on. Rows that are not there any more are in no window.
        """

    @abstractmethod
    def needed_from(self, watermark: int, count: int, times: Ints, base: int) -> int:
        """The least rank that is in a window for rows from a watermark on; ``count`` rows came before it."""

    @abstractmethod
    def is_complete(self, arrivals: Ints, before: Ints, first_time: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Whether a window that begins with the first row of the stream, or later, was complete when rows arrived."""


@dataclass(frozen=True)
class TimeWindow(JoinWindow):
    """The rows of so many ticks; windows are aligned to the epoch. With a slide of 1 those up to the arriving row."""

    def _ends(self, arrivals: Ints) -> Ints:
        """The ends of active windows: the last ones that are not behind the next tick."""
        return (arrivals + 1 - self.size) // self.slide * self.slide + self.size

    def ranges(self, arrivals: Ints, before: Ints, times: Ints, base: int) -> tuple[Ints, Ints]:
        """By the times of rows."""
        ends = self._ends(arrivals)
        firsts = np.searchsorted(times, ends - self.size) + base
        return firsts, np.maximum(np.minimum(np.searchsorted(times, ends) + base, before), firsts)

    def needed_from(self, watermark: int, count: int, times: Ints, base: int) -> int:
        """The first row in the window that is active at the watermark."""
        start = (
            int(self._ends(np.array([watermark]))[0]) - self.size if watermark > INT64_MIN + self.size else INT64_MIN
        )
        return int(np.searchsorted(times, start)) + base

    def is_complete(self, arrivals: Ints, before: Ints, first_time: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Whether the active window does not begin before the first row."""
        found: np.ndarray[tuple[int], np.dtype[np.bool_]] = self._ends(arrivals) - self.size >= first_time
        return found


@dataclass(frozen=True)
class RowWindow(JoinWindow):
    """The last so many rows."""

    def ranges(self, arrivals: Ints, before: Ints, times: Ints, base: int) -> tuple[Ints, Ints]:
        """By the ranks of rows."""
        firsts = (before - self.size) // self.slide * self.slide
        lasts = np.maximum(firsts + self.size, base)
        return np.maximum(firsts, base), lasts

    def needed_from(self, watermark: int, count: int, times: Ints, base: int) -> int:
        """The first row in the window that is active now."""
        return max((count - self.size) // self.slide * self.slide, base)

    def is_complete(self, arrivals: Ints, before: Ints, first_time: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Whether there have been enough rows."""
        return before >= self.size
