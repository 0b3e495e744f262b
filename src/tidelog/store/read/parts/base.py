"""The parts of a snapshot: trees on disk and sorted rows in memory, each answering for its own rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.index.aggregate import Aggregate
from tidelog.index.entries import Entries, Words, blank, entry_dtype, from_batch
from tidelog.index.layout import Layout
from tidelog.index.ranges import merge_all
from tidelog.index.states import States
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.index.tabtree.numbering import Numbered
from tidelog.index.tabtree.reader import TreeReader
from tidelog.index.tabtree.searching import Test
from tidelog.index.tabtree.subtrees import Subtree
from tidelog.model.arrays import boolean_column
from tidelog.storage.format.value_range import ValueRange
from tidelog.storage.read.source import RowTest
from tidelog.store.manifest.manifest import Deletion
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.manifest.split_info import SplitInfo
from tidelog.store.rows.run_summaries import RunSummaries
from tidelog.store.rows.stored import Ints, seqs, shifted, times
from tidelog.store.split.entry_tests import tree_numbers

_CHUNK_ROWS: Final = 1 << 18

Opened = tuple[str, tuple[int, int]]
"""A split that the tail is writing, at a commit: its name, number and position of the commit."""


@dataclass(frozen=True, slots=True)
class RowChoice:
    """Which rows are wanted, for those who can leave others out before they make rows of them."""

    tested: Sequence[str]
    """The columns that decide."""
    keeps: RowTest
    """Tells of a batch of these columns which rows are."""
    may_hold: Test | None
    """Tells by entries, with sequence numbers as they are in the tree, where such rows may be; None: anywhere."""
    values: ValueRange | None = None
    """The range of values that decides, if that is all that does."""


class TreePart:
    """The rows of a tree."""

    info: SplitInfo | None = None
    """Of a closed split, what the manifest says of it."""
    base = 0
    """What is added to the sequence numbers in the tree."""

    def __init__(self, tree: TreeReader, opened: Opened | None = None) -> None:
        """Of a split at a commit, or of what only its writer has."""
        self._known = tree
        self.opened = opened
        bounds = tree.time_bounds
        assert bounds is not None  # trees without rows are no parts
        self.first, self.last = bounds
        self.rows = tree.rows

    @property
    def original(self) -> TreePart:
        """The part as it was written, but for the names of its columns."""
        return self

    @property
    def _tree(self) -> TreeReader:
        return self._known

    @property
    def layout(self) -> Layout:
        """The layout of the tree."""
        return self._tree.layout

    @property
    def numbers(self) -> tuple[int, int]:
        """The smallest and the greatest sequence number."""
        return tree_numbers(self._tree)

    def shape(self) -> dict[str, int]:
        """Rows, leaves and height of the tree."""
        fanout, leaves, height = self.layout.fanout, self._tree.leaves, 1
        while leaves > 1:
            leaves = -(-leaves // fanout)
            height += 1
        return {"rows": self.rows, "leaves": self._tree.leaves, "height": height}

    def scan(
        self, start: int | None, end: int | None, columns: Sequence[str], test: Test | None, counters: ReadCounters
    ) -> Iterator[pa.RecordBatch]:
        """Rows of a time range, in order; without leaves that a test, of numbers as in the tree, rejects."""
        batches = self._tree.scan(start, end, columns, test, counters)
        return (shifted(batch, self.base) for batch in batches) if self.base else batches

    def select(
        self, start: int | None, end: int | None, columns: Sequence[str], choice: RowChoice, counters: ReadCounters
    ) -> Iterator[pa.RecordBatch]:
        """Rows of a time range that are wanted, in order."""
        tested, keeps, base = choice.tested, choice.keeps, self.base
        if not base:
            return self._tree.select(start, end, columns, tested, keeps, choice.may_hold, counters, choice.values)

        def keeps_shifted(batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
            return keeps(shifted(batch, base))

        batches = self._tree.select(
            start, end, columns, tested, keeps_shifted, choice.may_hold, counters, choice.values
        )
        return (shifted(batch, base) for batch in batches)

    def count(
        self, start: int | None, end: int | None, choice: RowChoice, holds_all: Test, counters: ReadCounters
    ) -> int:
        """How many rows of a time range have a value in a range, see :meth:`TreeReader.count`.

        The range is that of the choice, which must say both where such rows may be and which values they have.
        """
        assert choice.values is not None
        assert choice.may_hold is not None
        return self._tree.count(start, end, choice.values, choice.keeps, choice.may_hold, holds_all, counters)

    def subtrees(
        self, most_rows: int, start: int | None, end: int | None, test: Test | None, counters: ReadCounters
    ) -> list[Subtree]:
        """What a time range consists of, see :meth:`TreeReader.subtrees`."""
        return self._tree.subtrees(most_rows, start, end, test, counters)

    def numbered(self, node: int | None, counters: ReadCounters) -> Numbered:
        """The children of an inner node, the topmost ones for None, with the sequence numbers of each."""
        found = self._tree.numbered(node, counters)
        return found._replace(lows=found.lows + self.base, highs=found.highs + self.base) if self.base else found

    def numbers_of_leaf(self, id: int, counters: ReadCounters) -> tuple[Ints, Ints]:
        """The times and the sequence numbers of the rows of a leaf."""
        at, numbers = self._tree.numbers_of_leaf(id, counters)
        return at, numbers + self.base if self.base else numbers

    def aggregate(self, start: int | None, end: int | None, columns: Ints, counters: ReadCounters) -> Aggregate:
        """The aggregates of some columns of the rows of a time range; of sequence numbers, as they are in the tree."""
        return self._tree.aggregate(start, end, columns, counters)

    def aggregates(self, starts: Ints, ends: Ints, columns: Ints, counters: ReadCounters) -> Entries:
        """The aggregates of some columns of the rows of many time ranges, an entry for each."""
        return self._tree.aggregates(starts, ends, columns, counters)

    def states(self, start: int | None, end: int | None, wanted: States, counters: ReadCounters) -> Words:
        """The states of user-defined aggregates of the rows of a time range, a table of one row.

        The tree must keep all that is ``wanted``.
        """
        found = self._tree.states(start, end, wanted, counters)
        return wanted.shifted(found, self.base) if self.base else found

    def rank(self, time: int, counters: ReadCounters) -> int:
        """How many rows are before a time."""
        return self._tree.rank(time, counters)

    def times_near(self, index: int, counters: ReadCounters) -> tuple[int, int]:
        """Times around that of row number ``index``, in the order of time: those of its leaf."""
        return self._tree.times_near(index, counters)


class SplitPart(TreePart):
    """The rows of a closed split, whose file is opened when more is asked for than the manifest knows."""

    opened = None

    def __init__(
        self,
        info: SplitInfo,
        open: Callable[[SplitInfo], TreeReader],
        layout: Layout | None,
        layouts: MutableMapping[str, Layout] | None = None,
    ) -> None:
        """``open`` gives the tree whenever it is needed; ``layout`` is that of the tree, if it is known.

        ``layouts`` has those of other splits of the same schema, by the digest of their states.
        """
        self.info: SplitInfo = info
        self.base = info.seq_base
        self.first, self.last = info.time_min, info.time_max
        self.rows = info.rows
        self._open = open
        self._layout = layout
        self._layouts = layouts

    @property
    def _tree(self) -> TreeReader:
        return self._open(self.info)

    @property
    def layout(self) -> Layout:
        """The layout of the tree."""
        layout = self._known_layout()
        if layout is None:
            layout = self._layout = self._tree.layout
            if self._layouts is not None:
                self._layouts[self.info.states] = layout
        return layout

    def _known_layout(self) -> Layout | None:
        """The layout of the tree, if it is known without a look at its file."""
        if self._layout is None and self._layouts is not None:
            self._layout = self._layouts.get(self.info.states)
        return self._layout

    @property
    def numbers(self) -> tuple[int, int]:
        """The smallest and the greatest sequence number."""
        return self.info.seq_min, self.info.seq_max

    def whole(self) -> Aggregate | None:
        """The aggregates of all rows, as the manifest knows them: of sequence numbers, those in the file."""
        dtype = entry_dtype(len(self.layout.kinds))
        entry = self.info.entry
        return Aggregate(self.layout, entry=np.frombuffer(entry, dtype, 1)) if len(entry) >= dtype.itemsize else None

    def manifest_states(self, wanted: States) -> Words | None:
        """The states of all rows, a table of one row, if the manifest knows them; opens no file."""
        layout, entry = self._known_layout(), self.info.entry
        if layout is None or not layout.states.has_all(wanted):
            return None
        own, before = layout.states, entry_dtype(len(layout.kinds)).itemsize
        if len(entry) != before + 8 * own.words:
            return None
        words = np.frombuffer(entry, np.uint64, own.words, before)
        found: Words = words[own.words_of(wanted)].reshape(1, -1)
        if wanted.is_unknown(found)[0]:
            return None
        return wanted.shifted(found, self.base) if self.base else found


class MemoryPart:
    """Sorted rows in memory, at least one."""

    original: None = None

    info: SplitInfo | None = None
    base = 0

    def __init__(self, layout: Layout, rows: pa.RecordBatch) -> None:
        self.layout = layout
        self._rows = rows
        self._times = times(rows, layout.schema)
        self.first, self.last = int(self._times[0]), int(self._times[-1])
        self.rows = rows.num_rows
        self._whole: Aggregate | None = None
        self._runs = RunSummaries(layout, rows)

    @property
    def numbers(self) -> tuple[int, int]:
        """The smallest and the greatest sequence number."""
        numbers = seqs(self._rows)
        return int(numbers.min()), int(numbers.max())

    def between(self, start: int | None, end: int | None, numbers: SeqSet | None = None) -> pa.RecordBatch:
        """The rows of a time range, with all their columns; only those with certain sequence numbers if given."""
        rows = self._range(start, end)
        return rows if numbers is None else rows.filter(boolean_column(numbers.contains(seqs(rows))))

    def _range(self, start: int | None, end: int | None) -> pa.RecordBatch:
        first, last = self._bounds(start, end)
        return self._rows.slice(first, last - first)

    def _bounds(self, start: int | None, end: int | None) -> tuple[int, int]:
        first = 0 if start is None else int(self._times.searchsorted(start))
        last = len(self._times) if end is None else int(self._times.searchsorted(end))
        return first, max(first, last)

    def scan(
        self, start: int | None, end: int | None, columns: Sequence[str], test: Test | None, counters: ReadCounters
    ) -> Iterator[pa.RecordBatch]:
        """Rows of a time range, in order."""
        rows = self._range(start, end).select(list(columns))
        for first in range(0, rows.num_rows, _CHUNK_ROWS):
            yield rows.slice(first, _CHUNK_ROWS)

    def aggregate(self, start: int | None, end: int | None, columns: Ints, counters: ReadCounters) -> Aggregate:
        """The aggregates of some columns of the rows of a time range."""
        if (start is not None and start > self.first) or (end is not None and end <= self.last):
            return self._runs.aggregate(*self._bounds(start, end), columns)
        if self._whole is None:  # asked for again and again, while the rows stay the same
            self._whole = Aggregate.of(self.layout, self._rows)
        return self._whole

    def aggregates(self, starts: Ints, ends: Ints, columns: Ints, counters: ReadCounters) -> Entries:
        """The aggregates of some columns of the rows of many time ranges, an entry for each."""
        entries = blank(self.layout, len(starts))
        firsts, lasts = self._times.searchsorted(starts), self._times.searchsorted(ends)
        cuts = np.unique(np.concatenate([firsts, lasts]))
        if len(cuts) > 1:
            chosen = self._rows.select([self.layout.stored.names[column] for column in columns.tolist()])
            runs = from_batch(self.layout, chosen, cuts, columns)
            firsts, lasts = cuts.searchsorted(firsts), cuts.searchsorted(lasts)
            merge_all(self.layout, columns, runs, firsts, np.maximum(firsts, lasts), entries)
        return entries

    def states(self, start: int | None, end: int | None, wanted: States, counters: ReadCounters) -> Words:
        """The states of user-defined aggregates of the rows of a time range, a table of one row."""
        rows = self._range(start, end)
        return wanted.of_rows(rows, np.array([0, rows.num_rows], np.int64))

    def rank(self, time: int, counters: ReadCounters) -> int:
        """How many rows are before a time."""
        return int(np.searchsorted(self._times, time))

    def times_near(self, index: int, counters: ReadCounters) -> tuple[int, int]:
        """The time of row number ``index``, in the order of time, twice."""
        return int(self._times[index]), int(self._times[index])


Part = TreePart | MemoryPart


def may_delete(mark: Deletion, part: Part) -> bool:
    """Whether a deletion may apply to some rows of a part, by what is known of it without a look at them."""
    if part.info is not None:
        return mark.concerns(part.info)
    return mark.touches(part.first, part.last, *part.numbers)
