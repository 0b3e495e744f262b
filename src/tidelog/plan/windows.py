"""Windows of time of a stream from the entries of its trees: one question for each slice, and none of the events.

Slices between the starts and ends of windows do not overlap, so nothing is asked twice, and windows are merged from
them as they are from slices of rows (:mod:`tidelog.operators.window.sliding`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import pyarrow as pa

from tidelog.aggregates.base import Cuts, States
from tidelog.aggregates.contract import UNKNOWN, Fold, Value
from tidelog.index.entries import blank, from_batch
from tidelog.index.layout import Layout
from tidelog.index.ranges import merge_all
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.model.arrays import integer_column
from tidelog.model.times.interval import Interval
from tidelog.operators.base import Ints
from tidelog.operators.window.frames import FixedFrames, Frames
from tidelog.operators.window.sliding import Sliding
from tidelog.store.read.aggregation import Question
from tidelog.store.read.snapshot import Snapshot

_AT_ONCE: Final = 4096
"""Windows that are asked for at once."""


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """Windows of the events in an interval, the first and the last of which are at some times."""

    snapshot: Snapshot
    question: Question
    interval: Interval
    frames: Frames
    first: int
    last: int
    rows: int
    empty: bool = False
    complete_only: bool = False

    @property
    def count(self) -> int:
        """How many windows there are at the most."""
        return self._numbers[1] - self._numbers[0]

    @property
    def slices(self) -> int:
        """How many slices there are at the most."""
        has_two = not isinstance(self.frames, FixedFrames) or bool(self.frames.size % self.frames.slide)
        return (2 if has_two else 1) * self.count

    @property
    def _numbers(self) -> tuple[int, int]:
        numbers = self.frames.numbers(np.array([self.first, self.last], np.int64))
        return int(numbers[0][0]), int(numbers[1][1]) + 1

    def batches(self, schema: pa.Schema, counters: ReadCounters) -> Iterator[pa.RecordBatch]:
        """The windows: start, end, and the values of all calls of the question but the last, which counts rows.

        Raises :class:`Unknown` where entries do not tell a value; what has been given until then is right.
        """
        columns = self.question.of_entries.columns
        sliding = Sliding([_Entries(self.snapshot.layout, columns)])
        edges = np.empty(0, np.int64)
        base = 0
        low, high = self._numbers
        reached: int | None = None
        for begin in range(low, high, _AT_ONCE):
            numbers = np.arange(begin, min(begin + _AT_ONCE, high), dtype=np.int64)
            starts, ends = self.frames.starts(numbers), self.frames.ends(numbers)
            fresh = self._edges(reached, int(starts[0]), int(ends[-1]), high)
            known = np.concatenate([edges, fresh])
            if len(known) - max(len(edges), 1) > 0:
                cuts = known[max(len(edges) - 1, 0) :]
                sliding.append([self._entries(cuts[:-1], cuts[1:], columns, counters)])
            edges, reached = known, int(known[-1])
            firsts, lasts = np.searchsorted(edges, starts) + base, np.searchsorted(edges, ends) + base
            (states,) = sliding.merged(firsts, lasts)
            batch = self._batch(schema, starts, ends, states)
            if batch.num_rows:
                yield batch
            gone = int(np.searchsorted(edges, self.frames.starts(numbers[-1:] + 1)[0], side="right")) - 1
            if gone > 0:
                edges, base = edges[gone:], base + gone
                sliding.drop(base)

    def _edges(self, reached: int | None, start: int, end: int, high: int) -> Ints:
        """The starts and ends of windows behind what is reached, or from a start on, up to an end."""
        begin = start if reached is None else reached
        bounds = self.frames.numbers(np.array([begin, end], np.int64))
        numbers = np.arange(int(bounds[0][0]) - 1, min(int(bounds[1][1]) + 1, high), dtype=np.int64)
        both = np.unique(np.concatenate([self.frames.starts(numbers), self.frames.ends(numbers)]))
        return both[(both > begin if reached is not None else both >= begin) & (both <= end)]

    def _entries(self, starts: Ints, ends: Ints, columns: Ints, counters: ReadCounters) -> States:
        low, high = self.interval.start, self.interval.end
        living = self.snapshot.living
        deleted = living.manifest.deleted_before
        for least in (low, deleted):
            if least is not None:
                starts = np.maximum(starts, least)
        if high is not None:
            ends = np.minimum(ends, high)
        return living.index.aggregates(starts, np.maximum(starts, ends), columns, counters)

    def _batch(self, schema: pa.Schema, starts: Ints, ends: Ints, states: States) -> pa.RecordBatch:
        chosen = np.ones(len(starts), np.bool_) if self.empty else states["rows"] > 0
        if self.complete_only:
            chosen &= (starts >= self.first) & (ends - 1 <= self.last)
        if not chosen.all():
            starts, ends, states = starts[chosen], ends[chosen], states[chosen]
        kind = schema.field(0).type
        times = [integer_column(each) for each in (starts, ends)]
        columns = [each if kind == pa.int64() else each.view(kind) for each in times]
        for reading in self.question.readings[:-1]:
            values = reading.fold.lower(states)
            if UNKNOWN in values:
                raise Unknown(int(starts[0]))
            columns.append(pa.array(values, schema.field(len(columns)).type))
        return pa.RecordBatch.from_arrays(columns, schema=schema)


class Unknown(Exception):
    """Entries do not tell values of windows that begin at some time or later."""

    def __init__(self, start: int) -> None:
        super().__init__(start)
        self.start = start


@final
class _Entries(Fold):
    """Entries in which several columns are filled, merged at once; other folds take their values from them."""

    def __init__(self, layout: Layout, places: Ints) -> None:
        self._layout = layout
        self._places = places

    @property
    def columns(self) -> tuple[str, ...]:
        """Those at the places."""
        return tuple(self._layout.stored.names[each] for each in self._places.tolist())

    @property
    def type(self) -> pa.DataType | None:
        """There is no value."""
        return None

    def start(self) -> States:
        """An entry of no rows."""
        return blank(self._layout, 1)

    def lift(self, rows: pa.RecordBatch, cuts: Cuts) -> States:
        """The entries of runs of rows."""
        return from_batch(self._layout, rows.select(self.columns), cuts, self._places)

    def merge(self, states: States, cuts: Cuts) -> States:
        """The entries of runs of entries."""
        merged = blank(self._layout, len(cuts) - 1)
        merge_all(self._layout, self._places, np.ascontiguousarray(states), cuts[:-1], cuts[1:], merged)
        return merged

    def lower(self, states: States) -> list[Value]:
        """Entries alone tell no value."""
        return [UNKNOWN] * len(states)
