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
from tidelog.index.layout import Layout
from tidelog.index.states import States
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.index.tabtree.searching import RowChoice, Test
from tidelog.index.tabtree.subtrees import Subtree
from tidelog.model.arrays import integers
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.model.times.interval import Interval
from tidelog.store.manifest.manifest import Deletion
from tidelog.store.read.parts.part import Part
from tidelog.store.rows.stored import Ints


@final
class MaskedPart(Part):
    """The rows of a part without those that are deleted."""

    def __init__(self, part: Part, deletions: Sequence[Deletion]) -> None:
        """``deletions`` are those that may apply to rows of the part."""
        self._part = part
        self._deletions = tuple(deletions)
        bounds = {each for deletion in deletions for each in (deletion.interval.start, deletion.interval.end)}
        self._bounds = sorted(bound for bound in bounds if bound is not None)
        self.base, self.info, self.opened = part.base, part.info, part.opened
        self.has_rows, self.in_memory = part.has_rows, part.in_memory
        self.first, self.last, self.rows = part.first, part.last, part.rows

    @property
    def layout(self) -> Layout:
        """The layout of the part."""
        return self._part.layout

    @property
    def numbers(self) -> tuple[int, int]:
        """The smallest and the greatest sequence number, deleted ones included."""
        return self._part.numbers

    @property
    def original(self) -> Part:
        """The part as it was written, deleted rows included."""
        return self._part.original

    def require_rows(self) -> None:
        """Raise :class:`GrainError` if its rows are not there to be read."""
        self._part.require_rows()

    def shape(self) -> dict[str, int] | None:
        """What the file of the part consists of."""
        return self._part.shape()

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
