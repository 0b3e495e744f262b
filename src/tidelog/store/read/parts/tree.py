"""The rows of trees: those that are being written, and those of closed splits."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from tidelog.index.aggregate import Aggregate
from tidelog.index.entries import Entries, Words, entry_dtype, words_of
from tidelog.index.layout import Layout
from tidelog.index.states import States
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.index.tabtree.gathering import gather
from tidelog.index.tabtree.numbering import Numbered, numbered, numbers_of_leaf
from tidelog.index.tabtree.reader import TreeReader
from tidelog.index.tabtree.searching import RowChoice, Test
from tidelog.index.tabtree.subtrees import Subtree, divide
from tidelog.store.manifest.split_info import SplitInfo
from tidelog.store.read.parts.part import Opened, Part
from tidelog.store.read.parts.stretches import Stretches
from tidelog.store.rows.stored import Ints, shifted
from tidelog.store.split.entry_bounds import tree_numbers


class TreePart(Part):
    """The rows of a tree."""

    def __init__(self, tree: TreeReader, opened: Opened | None = None) -> None:
        """Of a split at a commit, or of what only its writer has."""
        self._known = tree
        self.opened = opened
        bounds = tree.time_bounds
        assert bounds is not None  # trees without rows are no parts
        self.first, self.last = bounds
        self.rows = tree.rows

    _is_coded = False

    @property
    def _tree(self) -> TreeReader:
        return self._known.coded if self._is_coded else self._known

    @property
    def coded(self) -> TreePart:
        """The same rows; where that is how strings are stored, scans and selections give them as dictionaries."""
        found = copy.copy(self)
        found._is_coded = True
        return found

    @property
    def layout(self) -> Layout:
        """The layout of the tree."""
        return self._tree.layout

    @property
    def numbers(self) -> tuple[int, int]:
        """The smallest and the greatest sequence number."""
        return tree_numbers(self._tree)

    def shape(self) -> dict[str, int] | None:
        """Rows, leaves and height of the tree."""
        fanout, leaves, height = self.layout.fanout, self._tree.leaves, 1
        while leaves > 1:
            leaves = -(-leaves // fanout)
            height += 1
        return {"rows": self.rows, "leaves": self._tree.leaves, "height": height}

    def scan(
        self, start: int | None, end: int | None, columns: Sequence[str], test: Test | None, counters: ReadCounters
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a time range, in order, without leaves that the test rejects."""
        batches = self._tree.scan(start, end, columns, test, counters)
        return (shifted(batch, self.base) for batch in batches) if self.base else batches

    def select(
        self, start: int | None, end: int | None, columns: Sequence[str], choice: RowChoice, counters: ReadCounters
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a time range that are wanted, in order."""
        keeps, base = choice.keeps, self.base
        if not base:
            return self._tree.select(start, end, columns, choice, counters)
        own = replace(choice, keeps=lambda batch: keeps(shifted(batch, base)))
        return (shifted(batch, base) for batch in self._tree.select(start, end, columns, own, counters))

    def count(
        self, start: int | None, end: int | None, choice: RowChoice, holds_all: Test, counters: ReadCounters
    ) -> int:
        """How many rows of a time range have a value in a range, see :meth:`TreeReader.count`."""
        return self._tree.count(start, end, choice, holds_all, counters)

    def rank(self, time: int, counters: ReadCounters) -> int:
        """How many rows are before a time."""
        return self._tree.rank(time, counters)

    def times_near(self, index: int, counters: ReadCounters) -> tuple[int, int]:
        """The first and the last time of the leaf that has row number ``index``."""
        return self._tree.times_near(index, counters)

    def subtrees(
        self, most_rows: int, start: int | None, end: int | None, choice: RowChoice, counters: ReadCounters
    ) -> list[Subtree]:
        """What a time range consists of, down to leaves; reads inner nodes only."""
        return divide(self._tree.nodes, most_rows, start, end, choice.may_hold, counters)

    def numbered(self, node: int | None, counters: ReadCounters) -> Numbered:
        """The children of an inner node, the topmost ones for None, with the sequence numbers of each."""
        found = numbered(self._tree.nodes, node, counters)
        return found._replace(lows=found.lows + self.base, highs=found.highs + self.base) if self.base else found

    def numbers_of_leaf(self, id: int, counters: ReadCounters) -> tuple[Ints, Ints]:
        """The times and the sequence numbers of the rows of a leaf."""
        at, numbers = numbers_of_leaf(self._tree.nodes, id, counters)
        return at, numbers + self.base if self.base else numbers

    def stretches(self, start: int | None, end: int | None, counters: ReadCounters) -> Stretches:
        """Leaves, but for those that the range cuts."""
        found = self._tree.leaf_entries(start, end, counters)
        times = found["columns"][:, self.layout.time]
        firsts, lasts = times["min"].astype(np.int64), times["max"].astype(np.int64)
        inside = np.ones(len(found), np.bool_)
        if start is not None:
            inside &= firsts >= start
        if end is not None:
            inside &= lasts < end
        words = words_of(found)
        rows, leaves = found["rows"].astype(np.int64), found["child"].astype(np.int64)
        whole = Stretches.of_leaves(firsts, lasts, rows, leaves, words)
        if inside.all():
            return whole
        # The leaves at the ends: which of their rows are in the range their times tell.
        cut = np.flatnonzero(~inside).tolist()
        parts = []
        done = 0
        for place in cut:
            low = int(firsts[place]) if start is None else max(int(firsts[place]), start)
            high = int(lasts[place]) if end is None else min(int(lasts[place]), end - 1)
            parts += [whole.some(done, place), self._part_of_leaf(whole, place, low, high, counters)]
            done = place + 1
        return Stretches.joined([*parts, whole.some(done, len(found))])

    def _part_of_leaf(self, whole: Stretches, place: int, low: int, high: int, counters: ReadCounters) -> Stretches:
        """The rows of a leaf that are in a time range, both ends included."""
        times = self._tree.nodes.times(int(whole.leaves[place]), counters)
        first, last = int(times.searchsorted(low)), int(times.searchsorted(high, side="right"))
        if first >= last:
            return whole.some(0, 0)
        known = (times[first], times[last - 1], last - first, first)
        low_time, high_time, rows, skipped = (np.array([each], np.int64) for each in known)
        leaf = whole.some(place, place + 1)
        return Stretches(low_time, high_time, rows, leaf.leaves, skipped, leaf.words)

    def leaf_rows(self, leaves: Ints, columns: Sequence[str], counters: ReadCounters) -> Iterator[pa.RecordBatch]:
        """The rows of leaves, several in a batch; a few batches are decoded ahead."""
        counters.leaves += len(leaves)
        batches = self._tree.leaf_rows(leaves, columns)
        return (shifted(batch, self.base) for batch in batches) if self.base else batches

    def aggregate(self, start: int | None, end: int | None, columns: Ints, counters: ReadCounters) -> Aggregate:
        """The aggregates of some columns of the rows of a time range."""
        return self._tree.aggregate(start, end, columns, counters)

    def aggregates(self, starts: Ints, ends: Ints, columns: Ints, counters: ReadCounters) -> Entries:
        """The aggregates of some columns of the rows of many time ranges, an entry for each."""
        return self._tree.aggregates(starts, ends, columns, counters)

    def states(self, start: int | None, end: int | None, wanted: States, counters: ReadCounters) -> Words:
        """The states of user-defined aggregates of the rows of a time range, a table of one row."""
        found = gather(self._tree.nodes, start, end, wanted, counters)
        return wanted.shifted(found, self.base) if self.base else found


class SplitPart(TreePart):
    """The rows of a closed split, whose file is opened when more is asked for than the manifest knows."""

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
        self.manifest_entry = info.entry
        self.first, self.last = info.time_min, info.time_max
        self.rows = info.rows
        self._open = open
        self._layout = layout
        self._layouts = layouts

    @property
    def _tree(self) -> TreeReader:
        tree = self._open(self.info)
        return tree.coded if self._is_coded else tree

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

    def known_states(self, wanted: States) -> Words | None:
        """The states of all rows, a table of one row, if the manifest knows them; opens no file."""
        layout, entry = self._known_layout(), self.manifest_entry
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
