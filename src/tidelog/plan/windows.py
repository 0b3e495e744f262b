"""Windows of a stream from the entries of its trees: one question for each slice, and few of the events.

Slices between the starts and ends of windows do not overlap, so nothing is asked twice, and windows are merged from
them as they are from slices of rows (:mod:`tidelog.operators.window.sliding`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from tidelog.aggregates.base import States
from tidelog.model.arrays import distinct, integer_column
from tidelog.operators.base import Ints
from tidelog.operators.window.frames import FixedFrames, Frames
from tidelog.operators.window.sliding import Sliding
from tidelog.plan.slices import EntrySlices, Slices, StretchSlices

AT_ONCE: Final = 4096
"""Windows that are asked for at once."""
_MOST_SLICES: Final = 1.5
"""Slices for each window, from which on windows are asked for by themselves. One of either takes about as long."""

Naive = Callable[[Ints, Ints], list[States]]


@dataclass(frozen=True, slots=True)
class Bounds:
    """The times of the first and of the last row, and how many rows there are."""

    first: int
    last: int
    rows: int


@dataclass(frozen=True, slots=True)
class TimeWindowPlan:
    """Windows of time."""

    slices: Slices
    frames: Frames
    bounds: Bounds
    empty: bool = False
    complete_only: bool = False
    naive: bool = False
    """Whether every window is asked for by itself, not made of slices."""

    @property
    def numbers(self) -> tuple[int, int]:
        """The first window, and the first one behind the last."""
        numbers = self.frames.numbers(np.array([self.bounds.first, self.bounds.last], np.int64))
        return int(numbers[0][0]), int(numbers[1][1]) + 1

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The windows in order: start, end, revision if they have any, and the values of all calls but the last.

        Raises :class:`Unknown` where entries do not tell a value; what has been given until then is right.
        """
        if self.naive:
            assert isinstance(self.slices, EntrySlices)
            found = asked(self.frames, self.numbers, self.slices.of)
        else:
            found = slid(self.frames, self.numbers, self.slices)
        for numbers, states in found:
            starts, ends = self.frames.starts(numbers), self.frames.ends(numbers)
            chosen = np.ones(len(starts), np.bool_) if self.empty else self.slices.rows(states) > 0
            if self.complete_only:
                chosen &= (starts >= self.bounds.first) & (ends - 1 <= self.bounds.last)
            if chosen.any():
                own = states if chosen.all() else [each[chosen] for each in states]
                told = [numbers[chosen] % self.frames.revisions] if self.frames.revisions else []
                yield _batch(schema, starts[chosen], ends[chosen], told, self.slices.values(own))

    @property
    def count(self) -> int:
        """How many windows there are, at the most."""
        return self.numbers[1] - self.numbers[0]


@dataclass(frozen=True, slots=True)
class RankWindowPlan:
    """Windows of so many rows, in the order of (time, ``_seq``); all are full."""

    slices: StretchSlices
    frames: FixedFrames

    @property
    def numbers(self) -> tuple[int, int]:
        """The first window, and the first one behind the last."""
        return 0, max(0, (self.slices.count - self.frames.size) // self.frames.slide + 1)

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The windows in order: the times of their first and last rows, and values; see :class:`TimeWindowPlan`."""
        for _, states in slid(self.frames, self.numbers, self.slices):
            yield _batch(schema, *self.slices.entries.narrow.times(states[0]), [], self.slices.values(states))

    @property
    def count(self) -> int:
        """How many windows there are."""
        return self.numbers[1]


WindowPlan = TimeWindowPlan | RankWindowPlan


def asked(frames: Frames, numbers: tuple[int, int], ask: Naive) -> Iterator[tuple[Ints, list[States]]]:
    """Windows by their numbers, many at once, each asked for by itself."""
    for begin in range(*numbers, AT_ONCE):
        chosen = np.arange(begin, min(begin + AT_ONCE, numbers[1]), dtype=np.int64)
        yield chosen, ask(frames.starts(chosen), frames.ends(chosen))


def slid(frames: Frames, numbers: tuple[int, int], slices: Slices) -> Iterator[tuple[Ints, list[States]]]:
    """Windows by their numbers, many at once, made of slices, which are asked for once.

    Where windows are much fewer than slices, as few of them begin where others end, they are asked for themselves.
    """
    if isinstance(slices, EntrySlices) and _has_few(frames, numbers):
        yield from asked(frames, numbers, slices.of)
        return
    sliding = Sliding(slices.folds)
    edges = np.empty(0, np.int64)
    base = 0
    reached: int | None = None
    for begin in range(*numbers, AT_ONCE):
        chosen = np.arange(begin, min(begin + AT_ONCE, numbers[1]), dtype=np.int64)
        starts, ends = frames.starts(chosen), frames.ends(chosen)
        known = np.concatenate([edges, _edges(frames, reached, int(starts[0]), int(ends[-1]), numbers)])
        if len(known) - max(len(edges), 1) > 0:
            sliding.append(slices.between(known[max(len(edges) - 1, 0) :]))
        edges, reached = known, int(known[-1])
        firsts, lasts = np.searchsorted(edges, starts) + base, np.searchsorted(edges, ends) + base
        yield chosen, sliding.merged(firsts, lasts)
        gone = int(np.searchsorted(edges, frames.starts(chosen[-1:] + 1)[0], side="right")) - 1
        if gone > 0:
            edges, base = edges[gone:], base + gone
            sliding.drop(base)


def _edges(frames: Frames, reached: int | None, start: int, end: int, within: tuple[int, int]) -> Ints:
    """The starts and ends of windows behind what is reached, or from a start on, up to an end."""
    begin = start if reached is None else reached
    (first, first_end), (last, last_end) = (each.tolist() for each in frames.numbers(np.array([begin, end], np.int64)))
    # Windows that begin in between, and those that end there; a day of windows that do neither may lie between these.
    starts = frames.starts(_clipped(last, last_end, within))
    ends = frames.ends(_clipped(first - 1, first_end, within))
    both = distinct(np.concatenate([starts, ends]))
    return both[(both > begin if reached is not None else both >= begin) & (both <= end)]


def _clipped(first: int, last: int, within: tuple[int, int]) -> Ints:
    """Numbers from the first to the last one, as far as they are within others."""
    return np.arange(max(first, within[0]), min(last + 1, within[1]), dtype=np.int64)


def _has_few(frames: Frames, numbers: tuple[int, int]) -> bool:
    """Whether there are many more slices than windows."""
    if not isinstance(frames, FixedFrames):
        return False
    windows = numbers[1] - numbers[0]
    shared = 0 if frames.size % frames.slide else max(windows - frames.size // frames.slide, 0)
    return 2 * windows - shared > _MOST_SLICES * windows


def _batch(
    schema: pa.Schema, starts: Ints, ends: Ints, revisions: Sequence[Ints], values: Sequence[pa.Array]
) -> pa.RecordBatch:
    kind = schema.field(0).type
    times = [integer_column(each) for each in (starts, ends)]
    columns = [each if kind == pa.int64() else each.view(kind) for each in times]
    return pa.RecordBatch.from_arrays([*columns, *map(integer_column, revisions), *values], schema=schema)
