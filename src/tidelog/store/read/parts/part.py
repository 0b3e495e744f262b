"""The contract of the parts of a snapshot: whatever holds some of its rows, asked by all readers in the same way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from tidelog.index.aggregate import Aggregate
from tidelog.index.entries import Entries, Words, blank, entry_dtype
from tidelog.index.layout import Layout
from tidelog.index.states import States
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.index.tabtree.numbering import Numbered
from tidelog.index.tabtree.searching import RowChoice, Test
from tidelog.index.tabtree.subtrees import Subtree
from tidelog.model.arrays import integers
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.store.manifest.manifest import Deletion
from tidelog.store.manifest.split_info import SplitInfo
from tidelog.store.read.parts.stretches import Stretches
from tidelog.store.rows.stored import Ints

Opened = tuple[str, tuple[int, int]]
"""A split that the tail is writing, at a commit: its name, number and position of the commit."""


class Part(ABC):
    """Some rows of a snapshot, in the order of (time, ``_seq``). Never changes; may be asked by several threads.

    A kind has to tell what it is and to :meth:`scan`. All else is told here from its rows, and kinds that have an index
    answer from that instead. Whatever is asked for rows of a part that has none left raises :class:`GrainError`, as do
    questions of it that would cut what it has in their place; answers are never widened.

    Time ranges are half-open, ``start <= time < end``, in ticks of the stream's clock; None is unbounded. Columns are
    stored ones of the layout, ``_seq`` among them; those of aggregates are given by position, and a part with a
    ``base`` has none of ``_seq``. A ``test`` is of entries; what it rejects may be left out. What was read is added to
    ``counters``.
    """

    first: int
    """The time of the first row; this and all other bounds may be those of deleted rows."""
    last: int
    rows: int
    """How many there are, at the most."""
    base: int = 0
    """What is added to the sequence numbers that entries, and so tests of them, tell of."""
    info: SplitInfo | None = None
    """Of a closed split, what the manifest says of it."""
    opened: Opened | None = None
    """Of a split that the tail is writing, what others need to read it."""
    manifest_entry: bytes = b""
    """The entry of all rows under its layout as the manifest has it, which may be shorter; empty if it has none."""
    has_rows: bool = True
    """Whether its rows are there to be read; else there are only aggregates of some of them together."""
    in_memory: bool = False
    """Whether its rows are in no split."""

    # -- what a kind has to tell ------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def layout(self) -> Layout:
        """Its columns, and the states that its entries keep."""

    @property
    @abstractmethod
    def numbers(self) -> tuple[int, int]:
        """The smallest and the greatest sequence number."""

    @abstractmethod
    def scan(
        self, start: int | None, end: int | None, columns: Sequence[str], test: Test | None, counters: ReadCounters
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a time range, in order, lazily."""

    # -- what is known of it ----------------------------------------------------------------------------------------

    @property
    def original(self) -> Part:
        """The part as it was written, but for the names of its columns."""
        return self

    @property
    def coded(self) -> Part:
        """The same rows; where that is how strings are stored, scans and selections give them as dictionaries."""
        return self

    def require_rows(self) -> None:
        """Raise :class:`GrainError` if its rows are not there to be read."""
        assert self.has_rows  # kinds without rows say why

    def shape(self) -> dict[str, int] | None:
        """What its file consists of; None if it has none."""
        return None

    def newest(self, counters: ReadCounters) -> int | None:
        """The time of the last row that is not deleted; None if there is none."""
        return self.last

    def known_aggregate(self) -> Aggregate | None:
        """The aggregates of all rows, if they are known without a look at the file."""
        layout = self.layout
        dtype = entry_dtype(len(layout.kinds))
        entry = self.manifest_entry
        return Aggregate(layout, entry=np.frombuffer(entry, dtype, 1)) if len(entry) >= dtype.itemsize else None

    def known_states(self, wanted: States) -> Words | None:
        """The states of all rows, a table of one row, if they are known without a look at the file."""
        return None

    # -- rows -------------------------------------------------------------------------------------------------------

    def select(
        self, start: int | None, end: int | None, columns: Sequence[str], choice: RowChoice, counters: ReadCounters
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a time range that are wanted, in order, lazily."""
        names, tested, wanted = list(dict.fromkeys((*columns, *choice.tested))), list(choice.tested), list(columns)
        for batch in self.scan(start, end, names, choice.may_hold, counters):
            kept = choice.keeps(batch.select(tested) if tested != names else batch)
            yield batch.filter(pa.array(kept)).select(wanted)

    def count(
        self, start: int | None, end: int | None, choice: RowChoice, holds_all: Test, counters: ReadCounters
    ) -> int:
        """How many rows of a time range are wanted.

        The choice says both where such rows may be and which values they have; ``holds_all`` tells of entries whether
        all rows below have one.
        """
        batches = self.scan(start, end, choice.tested, choice.may_hold, counters)
        return sum(int(choice.keeps(batch).sum()) for batch in batches)

    # -- places -----------------------------------------------------------------------------------------------------

    def rank(self, time: int, counters: ReadCounters) -> int:
        """How many rows are before a time."""
        return self.aggregate(None, time, np.empty(0, np.int64), counters).rows

    def times_near(self, index: int, counters: ReadCounters) -> tuple[int, int]:
        """Times around that of row number ``index``, in the order of time, both included: as near as is known."""
        self.require_rows()
        return self.first, self.last

    def subtrees(
        self, most_rows: int, start: int | None, end: int | None, choice: RowChoice, counters: ReadCounters
    ) -> list[Subtree]:
        """What the rows of a time range that are wanted are in: subtrees, in order, with so many rows at the most.

        Each has a first and a last time, which may be outside of the range, and a number of rows, that may be greater
        where nothing smaller is known. Reads no events.
        """
        self.require_rows()
        reaches = (start is None or self.last >= start) and (end is None or self.first < end)
        is_empty = start is not None and end is not None and end <= start
        return [(self.first, self.last, self.rows)] if reaches and not is_empty else []

    def numbered(self, node: int | None, counters: ReadCounters) -> Numbered:
        """The children of an inner node, the topmost ones for None, with the sequence numbers of each."""
        at, numbers = self.numbers_of_leaf(0, counters)
        if not len(at):
            return Numbered([], [], [], [], at, at, at)
        lows, highs, rows = (np.array([each], np.int64) for each in (numbers.min(), numbers.max(), len(at)))
        return Numbered([0], [0], [int(at[0])], [int(at[-1])], lows, highs, rows)

    def numbers_of_leaf(self, id: int, counters: ReadCounters) -> tuple[Ints, Ints]:
        """The times and the sequence numbers of the rows of a leaf, by the id that :meth:`numbered` has for it."""
        names = [self.layout.schema.time, SEQUENCE_COLUMN]
        batches = list(self.scan(None, None, names, None, counters))
        at, numbers = (
            np.concatenate([np.empty(0, np.int64), *(integers(batch.column(index)) for batch in batches)])
            for index in (0, 1)
        )
        return at, numbers

    def stretches(self, start: int | None, end: int | None, counters: ReadCounters) -> Stretches:
        """The rows of a time range in stretches, in order; what is told of leaves is of the columns that entries know.

        Reads no events unless rows have to be counted that are deleted in part.
        """
        width = entry_dtype(len(self.layout.kinds), self.layout.states.words).itemsize // 8
        low = self.first if start is None else max(self.first, start)
        high = self.last if end is None else min(self.last, end - 1)
        rows = self.aggregate(start, end, np.empty(0, np.int64), counters).rows if low <= high else 0
        if not rows:
            return Stretches.none(width)
        return Stretches.one_unread(low, high, rows, width)

    def leaf_rows(self, leaves: Ints, columns: Sequence[str], counters: ReadCounters) -> Iterator[pa.RecordBatch]:
        """The rows of leaves that :meth:`stretches` has named, given in their order, lazily."""
        raise NotImplementedError  # of kinds that name none

    # -- aggregates -------------------------------------------------------------------------------------------------

    def aggregate(self, start: int | None, end: int | None, columns: Ints, counters: ReadCounters) -> Aggregate:
        """The aggregates of some columns of the rows of a time range; it is not to be added to."""
        layout = self.layout
        names = [layout.stored.names[column] for column in columns.tolist()] or [layout.schema.time]
        total = Aggregate(layout, columns)
        for batch in self.scan(start, end, names, None, counters):
            total.merge(Aggregate.of(layout, batch, columns))
        return total

    def aggregates(self, starts: Ints, ends: Ints, columns: Ints, counters: ReadCounters) -> Entries:
        """The aggregates of some columns of the rows of many time ranges, an entry for each."""
        found = blank(self.layout, len(starts))
        for place, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            if start < end:
                found[place : place + 1] = self.aggregate(start, end, columns, counters).entry
        return found

    def states(self, start: int | None, end: int | None, wanted: States, counters: ReadCounters) -> Words:
        """The states of user-defined aggregates of the rows of a time range, a table of one row.

        All that is ``wanted`` must be among those of the layout.
        """
        return self.states_of_rows(start, end, wanted, counters)

    def states_of_rows(self, start: int | None, end: int | None, wanted: States, counters: ReadCounters) -> Words:
        """The states of user-defined aggregates, whichever they are, computed from the rows of a time range."""
        total = np.zeros((1, wanted.words), np.uint64)
        for batch in self.scan(start, end, wanted.columns, None, counters):
            more = wanted.of_rows(batch, np.array([0, batch.num_rows], np.int64))
            total = wanted.merge(np.concatenate([total, more]), np.array([0, 2], np.int64))
        return total


def may_delete(deletion: Deletion, part: Part) -> bool:
    """Whether a deletion may apply to some rows of a part, by what is known of it without a look at them."""
    if part.info is not None:
        return deletion.concerns(part.info)
    return deletion.touches(part.first, part.last, *part.numbers)
