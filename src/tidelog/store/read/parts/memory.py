"""Sorted rows in memory: what the tail has flushed to its journal, or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, final

import numpy as np
import pyarrow as pa

from tidelog.index.aggregate import Aggregate
from tidelog.index.entries import Entries, Words, blank, entry_dtype, from_batch
from tidelog.index.layout import Layout
from tidelog.index.ranges import merge_all
from tidelog.index.states import States
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.index.tabtree.searching import RowChoice, Test
from tidelog.index.tabtree.subtrees import Subtree
from tidelog.model.arrays import distinct
from tidelog.store.read.parts.part import Part
from tidelog.store.read.parts.stretches import Stretches
from tidelog.store.rows.run_summaries import RunSummaries
from tidelog.store.rows.stored import Ints, seqs, times

_CHUNK_ROWS: Final = 1 << 18
_MOST_STRETCHES: Final = 1 << 12


@final
class MemoryPart(Part):
    """Sorted rows in memory, at least one."""

    in_memory = True

    def __init__(self, layout: Layout, rows: pa.RecordBatch) -> None:
        self._layout = layout
        self._rows = rows
        self._times = times(rows, layout.schema)
        self.first, self.last = int(self._times[0]), int(self._times[-1])
        self.rows = rows.num_rows
        self._whole: Aggregate | None = None
        self._runs = RunSummaries(layout, rows)

    @property
    def layout(self) -> Layout:
        """The layout of the snapshot."""
        return self._layout

    @property
    def numbers(self) -> tuple[int, int]:
        """The smallest and the greatest sequence number."""
        numbers = seqs(self._rows)
        return int(numbers.min()), int(numbers.max())

    def _range(self, start: int | None, end: int | None) -> pa.RecordBatch:
        first, last = self._bounds(start, end)
        return self._rows.slice(first, last - first)

    def _bounds(self, start: int | None, end: int | None) -> tuple[int, int]:
        first = 0 if start is None else int(self._times.searchsorted(start))
        last = self.rows if end is None or end > self.last else int(self._times.searchsorted(end))
        return first, max(first, last)

    def scan(
        self, start: int | None, end: int | None, columns: Sequence[str], test: Test | None, counters: ReadCounters
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a time range, in order, whatever a test says."""
        rows = self._range(start, end).select(list(columns))
        for first in range(0, rows.num_rows, _CHUNK_ROWS):
            yield rows.slice(first, _CHUNK_ROWS)

    def rank(self, time: int, counters: ReadCounters) -> int:
        """How many rows are before a time."""
        return int(np.searchsorted(self._times, time))

    def times_near(self, index: int, counters: ReadCounters) -> tuple[int, int]:
        """The time of row number ``index``, in the order of time, twice."""
        return int(self._times[index]), int(self._times[index])

    def subtrees(
        self, most_rows: int, start: int | None, end: int | None, choice: RowChoice, counters: ReadCounters
    ) -> list[Subtree]:
        """Runs of rows that are wanted, all but the last with ``most_rows``."""
        first, last = self._bounds(start, end)
        kept = choice.keeps(self._rows.slice(first, last - first).select(list(choice.tested)))
        at = self._times[first:last][kept]
        firsts = np.arange(0, len(at), most_rows)
        lasts = np.minimum(firsts + most_rows, len(at))
        found = at[firsts].tolist(), at[lasts - 1].tolist(), (lasts - firsts).tolist()
        return list(zip(*found, strict=True))

    def stretches(self, start: int | None, end: int | None, counters: ReadCounters) -> Stretches:
        """Runs of a few rows: late ones that are waiting may be far from each other."""
        first, last = self._bounds(start, end)
        step = max(1, -(-(last - first) // _MOST_STRETCHES))
        begins = np.arange(first, last, step, dtype=np.int64)
        if len(begins):  # rows of one time are in one run
            begins = distinct(np.maximum(self._times.searchsorted(self._times[begins]), first))
        ends = np.append(begins[1:], last)
        width = entry_dtype(len(self._layout.kinds), self._layout.states.words).itemsize // 8
        return Stretches.unread(self._times[begins], self._times[ends - 1], ends - begins, width=width)

    def numbers_of_leaf(self, id: int, counters: ReadCounters) -> tuple[Ints, Ints]:
        """The times and the sequence numbers of all rows."""
        return self._times, seqs(self._rows)

    def aggregate(self, start: int | None, end: int | None, columns: Ints, counters: ReadCounters) -> Aggregate:
        """The aggregates of some columns of the rows of a time range."""
        if (start is not None and start > self.first) or (end is not None and end <= self.last):
            return self._runs.aggregate(*self._bounds(start, end), columns)
        if self._whole is None:  # asked for again and again, while the rows stay the same
            self._whole = Aggregate.of(self._layout, self._rows)
        return self._whole

    def aggregates(self, starts: Ints, ends: Ints, columns: Ints, counters: ReadCounters) -> Entries:
        """The aggregates of some columns of the rows of many time ranges, an entry for each."""
        layout = self._layout
        entries = blank(layout, len(starts))
        firsts, lasts = self._times.searchsorted(starts), self._times.searchsorted(ends)
        cuts = distinct(np.concatenate([firsts, lasts]))
        if len(cuts) > 1:
            chosen = self._rows.select([layout.stored.names[column] for column in columns.tolist()])
            runs = from_batch(layout, chosen, cuts, columns)
            firsts, lasts = cuts.searchsorted(firsts), cuts.searchsorted(lasts)
            merge_all(layout, columns, runs, firsts, np.maximum(firsts, lasts), entries)
        return entries

    def states_of_rows(self, start: int | None, end: int | None, wanted: States, counters: ReadCounters) -> Words:
        """The states of user-defined aggregates of the rows of a time range."""
        rows = self._range(start, end)
        return wanted.of_rows(rows, np.array([0, rows.num_rows], np.int64))
