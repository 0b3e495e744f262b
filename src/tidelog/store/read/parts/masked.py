"""A part of a snapshot some of whose rows are deleted: it answers as if they had never been there.

Only where deletions apply its events are read; of the time before, between and behind them its entries are asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import final

import numpy as np
import pyarrow as pa

from tidelog.index.aggregate import Aggregate
from tidelog.index.entries import Words
from tidelog.index.states import States
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.index.tabtree.searching import RowChoice, Test
from tidelog.index.tabtree.subtrees import Subtree
from tidelog.model.arrays import integers
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.model.times.interval import Interval
from tidelog.store.manifest.manifest import Deletion
from tidelog.store.read.parts.part import Part
from tidelog.store.read.parts.stretches import Stretches
from tidelog.store.read.parts.wrapped import WrappedPart
from tidelog.store.rows.stored import Ints


@final
class MaskedPart(WrappedPart):
    """The rows of a part without those that are deleted."""

    def __init__(self, part: Part, deletions: Sequence[Deletion]) -> None:
        """``deletions`` are those that may apply to rows of the part."""
        super().__init__(part)
        self._deletions = tuple(deletions)
        bounds = {each for deletion in deletions for each in (deletion.interval.start, deletion.interval.end)}
        self._bounds = sorted(bound for bound in bounds if bound is not None)

    def _pieces(self, start: int | None, end: int | None) -> Iterator[tuple[int | None, int | None, list[Deletion]]]:
        """A time range in pieces, each with the deletions that apply in it."""
        inside = [each for each in self._bounds if (start is None or each > start) and (end is None or each < end)]
        for low, high in pairwise((start, *inside, end)):
            interval = Interval(low, high)
            yield low, high, [deletion for deletion in self._deletions if deletion.interval.overlaps(interval)]

    def scan(
        self, start: int | None, end: int | None, columns: Sequence[str], test: Test | None, counters: ReadCounters
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a time range that are not deleted, in order."""
        time = self.layout.schema.time
        names = list(dict.fromkeys((*columns, time, SEQUENCE_COLUMN)))
        for low, high, deletions in self._pieces(start, end):
            if not deletions:
                yield from self._part.scan(low, high, columns, test, counters)
                continue
            for batch in self._part.scan(low, high, names, test, counters):
                at, numbers = integers(batch.column(time)), integers(batch.column(SEQUENCE_COLUMN))
                deleted = np.logical_or.reduce([deletion.mask(at, numbers) for deletion in deletions])
                yield batch.filter(pa.array(~deleted)).select(list(columns))

    def subtrees(
        self, most_rows: int, start: int | None, end: int | None, choice: RowChoice, counters: ReadCounters
    ) -> list[Subtree]:
        """What the rows of a time range are in, as if none were deleted."""
        return self._part.subtrees(most_rows, start, end, choice, counters)

    def stretches(self, start: int | None, end: int | None, counters: ReadCounters) -> Stretches:
        """The part's own where nothing is deleted; elsewhere rows have to be read."""
        found, unread = [], super().stretches
        for low, high, deletions in self._pieces(start, end):
            found.append((unread if deletions else self._part.stretches)(low, high, counters))
        return Stretches.joined(found)

    def leaf_rows(self, leaves: Ints, columns: Sequence[str], counters: ReadCounters) -> Iterator[pa.RecordBatch]:
        """The rows of leaves in which nothing is deleted."""
        return self._part.leaf_rows(leaves, columns, counters)

    def aggregate(self, start: int | None, end: int | None, columns: Ints, counters: ReadCounters) -> Aggregate:
        """The aggregates of some columns of the rows of a time range that are not deleted."""
        total, of_rows = Aggregate(self.layout, columns), super().aggregate
        for low, high, deletions in self._pieces(start, end):
            total.merge((of_rows if deletions else self._part.aggregate)(low, high, columns, counters))
        return total

    def newest(self, counters: ReadCounters) -> int | None:
        """The time of the last row that is not deleted; None if all are."""
        time, numbers = self.layout.index(self.layout.schema.time), self.numbers
        for low, high, deletions in reversed(list(self._pieces(None, None))):
            if any(deletion.numbers.covers(*numbers) for deletion in deletions):
                continue  # all of it is deleted, as is known without a look at it
            found = self.aggregate(low, high, np.array([time], np.int64), counters)
            if found.rows:
                return int(found.at(time).maximum())
        return None

    def states(self, start: int | None, end: int | None, wanted: States, counters: ReadCounters) -> Words:
        """The states of user-defined aggregates of the rows of a time range that are not deleted, as one row."""
        total = np.zeros((1, wanted.words), np.uint64)
        for low, high, deletions in self._pieces(start, end):
            row = (self.states_of_rows if deletions else self._part.states)(low, high, wanted, counters)
            total = wanted.merge(np.concatenate([total, row]), np.array([0, 2], np.int64))
        return total
