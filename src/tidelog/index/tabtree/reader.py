"""Reading a tree at a commit: by time, by rank, by what entries say, and aggregates of time ranges."""

from __future__ import annotations

import copy
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.index import ids
from tidelog.index.aggregate import Aggregate
from tidelog.index.entries import Entries, empty, joined, merge
from tidelog.index.layout import Layout
from tidelog.index.node import Children
from tidelog.index.tabtree.aggregating import aggregate, aggregates
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.index.tabtree.flank import Flank
from tidelog.index.tabtree.nodes import NodeCache, Nodes
from tidelog.index.tabtree.root import Root
from tidelog.index.tabtree.searching import RowChoice, Test, search
from tidelog.model.arrays import integers
from tidelog.model.errors import NotFoundError
from tidelog.storage import ContainerReader
from tidelog.storage.codec import Ints

_LEAST_PARTED = 24
"""Leaves from which on those inside of a time range are read apart from those at its ends, without their times."""


@dataclass(frozen=True, slots=True)
class Position:
    """A row of a tree, or the end behind the last one: ordinal of its leaf, row in it, and rows of the tree before it.

    ``leaf_rows`` is how many rows the leaf has, 0 if that was not looked up (``row`` is 0 then).
    """

    leaf: int
    row: int
    rank: int
    leaf_rows: int = 0


class TreeReader:
    """A tree as of the commit that its container's reader is pinned to. May be used from several threads.

    Time ranges are half-open, ``start <= time < end``, in ticks of the stream's clock; None is unbounded. Columns are
    stored ones, ``_seq`` among them; None stands for all. Methods add what they read to ``counters`` if given.
    """

    def __init__(
        self,
        reader: ContainerReader,
        layout: Layout,
        at: Flank | Root | None = None,
        cache: NodeCache | None = None,
        key: Hashable = None,
    ) -> None:
        """``at`` is the root of a closed tree, the flank of one that is not, or None to read the flank.

        A ``cache`` may be shared with other readers; ``key`` names the tree in it, and must not be used for another
        tree. Raises :class:`InputError` for a flank of another commit.
        """
        self.nodes = Nodes(reader, layout, at, cache, key)
        """For what is asked of the tree's nodes by functions of other modules."""
        self._reader = reader
        self._original: TreeReader | None = None
        """What it is a copy of, which counts as used as long as this one is."""
        self.layout = layout
        self.leaves = self.nodes.leaves
        self._top = self.nodes.top
        self._whole: Aggregate | None = None
        self._time = [layout.stored.names[layout.time]]

    @property
    def coded(self) -> TreeReader:
        """The same tree; scans and selections give strings as dictionaries where they are stored so."""
        found = copy.copy(self)
        found._reader = self._reader.coded
        found._original = self
        return found

    # -- the whole tree -------------------------------------------------------------------------------------------

    @property
    def rows(self) -> int:
        """How many rows the tree has."""
        return int(self._top.before[-1])

    @property
    def time_bounds(self) -> tuple[int, int] | None:
        """The smallest and the largest time; None if there are no rows."""
        return (self._top.lows[0], self._top.highs[-1]) if len(self._top) else None

    def entry(self) -> Aggregate:
        """Everything that the entries say about the whole tree."""
        if self._whole is None:
            self._whole = Aggregate(self.layout, entry=merge(self.layout, self._top.entries, with_states=False))
        return self._whole

    # -- positions ------------------------------------------------------------------------------------------------

    def seek(self, t: int, counters: ReadCounters | None = None) -> Position:
        """The first row whose time is ``t`` or later, or the end. Reads a path of nodes and maybe one leaf's times."""
        children, rank = self._top, 0
        while True:
            child = bisect_left(children.highs, t)
            if child == len(children):  # only at the top: below, the last one reaches t
                return Position(self.leaves, 0, self.rows)
            rank += children.before[child]
            if children.lows[child] >= t:
                return Position(children.leaves[child], 0, rank)
            if not children.levels[child]:
                times = self.nodes.times(children.ids[child], counters)
                row = int(times.searchsorted(t))
                return Position(children.leaves[child], row, rank + row, len(times))
            children = self.nodes.node(children.ids[child], counters)

    def rank(self, t: int, counters: ReadCounters | None = None) -> int:
        """How many rows have a time before ``t``."""
        return self.seek(t, counters).rank

    def nth(self, index: int, counters: ReadCounters | None = None) -> tuple[int, int]:
        """Block id of the leaf and row in it of row number ``index``, in the order of the tree from 0.

        Reads a path of nodes. Raises :class:`NotFoundError` unless ``0 <= index < rows``.
        """
        if not 0 <= index < self.rows:
            raise NotFoundError(f"no row {index}: the tree has rows 0 to {self.rows - 1}")
        children = self._top
        while True:
            child = bisect_right(children.before, index) - 1
            index -= children.before[child]
            if not children.levels[child]:
                return children.ids[child], index
            children = self.nodes.node(children.ids[child], counters)

    def times_near(self, index: int, counters: ReadCounters | None = None) -> tuple[int, int]:
        """The first and the last time of the leaf that has row number ``index``; reads a path of nodes."""
        children = self._top
        while True:
            child = bisect_right(children.before, index) - 1
            if not children.levels[child]:
                return children.lows[child], children.highs[child]
            index -= children.before[child]
            children = self.nodes.node(children.ids[child], counters)

    def row(
        self, index: int, columns: Sequence[str] | None = None, counters: ReadCounters | None = None
    ) -> pa.RecordBatch:
        """Row number ``index`` (see :meth:`nth`), as a batch of one."""
        leaf, row = self.nth(index, counters)
        if counters:
            counters.leaves += 1
        return self._reader.read(leaf, columns, (row, row + 1))

    # -- rows -----------------------------------------------------------------------------------------------------

    def leaf_ranges(
        self,
        start: int | None = None,
        end: int | None = None,
        test: Test | None = None,
        counters: ReadCounters | None = None,
    ) -> list[tuple[int, int]]:
        """Ordinals of the leaves that may hold rows in a time range, as runs ``[first, last)`` in order.

        Without a ``test`` that is one run at the most. A test is asked about the entries of every level and sees only
        those that reach into the time range; what it rejects is not visited (spec/event-store.md 9.3).
        """
        if start is not None and end is not None and end <= start:
            return []
        if test is None:
            first = 0 if start is None else self._leaves_at(start, counters)[0]
            last = self.leaves if end is None else self._leaves_at(end, counters)[1]
            return [(first, last)] if first < last else []
        leaves = search(self.nodes, start, end, test, counters=counters).leaves
        runs = np.split(leaves, np.flatnonzero(np.diff(leaves) > 1) + 1) if len(leaves) else []
        return [(int(run[0]), int(run[-1]) + 1) for run in runs]

    def scan(
        self,
        start: int | None = None,
        end: int | None = None,
        columns: Sequence[str] | None = None,
        test: Test | None = None,
        counters: ReadCounters | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a time range, in order, in batches of many leaves; lazily, with a few decoded ahead.

        Exactly the rows of the range; with a ``test`` (:meth:`leaf_ranges`) without leaves that it rejects.
        Raises :class:`NotFoundError` at once for an unknown column.
        """
        self.layout.indexes(columns)
        return self._scan(start, end, columns, test, counters)

    def select(
        self,
        start: int | None,
        end: int | None,
        columns: Sequence[str],
        choice: RowChoice,
        counters: ReadCounters | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a time range that are chosen; in order, lazily.

        Leaves that may hold none of them are not looked at, and of leaves without any only the tested columns are
        decoded (spec/event-store.md 9.3).
        """
        runs = self.leaf_ranges(start, end, choice.may_hold, counters)
        if not runs:
            return iter(())
        leaves = np.concatenate([np.arange(first, last, dtype=np.int64) for first, last in runs])
        if counters:
            counters.leaves += len(leaves)
        blocks = ids.leaf_ids(leaves, self.layout.fanout)
        if start is None and end is None:
            return self._selected(blocks, columns, choice)
        if len(blocks) < _LEAST_PARTED:
            return self._selected(blocks, columns, choice, (start, end))
        # Leaves are in the order of time, so the range cuts the first and the last one at the most.
        parts = (
            self._selected(blocks[:1], columns, choice, (start, end)),
            self._selected(blocks[1:-1], columns, choice),
            self._selected(blocks[1:][-1:], columns, choice, (start, end)),
        )
        return chain.from_iterable(parts)

    def _selected(
        self,
        blocks: Ints,
        columns: Sequence[str],
        choice: RowChoice,
        within: tuple[int | None, int | None] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of leaves that are chosen, and whose times are in a range; None for all times. Lazily."""
        tested, keeps, values = choice.tested, choice.keeps, choice.values
        if not len(blocks):
            return iter(())
        if within is None:
            return self._reader.select(blocks, columns, tested, keeps, values)
        if values is not None:
            names = list(dict.fromkeys((*columns, *self._time)))
            found = self._reader.select(blocks, names, tested, keeps, values)
            return (batch.filter(pa.array(self._within(batch, *within))).select(list(columns)) for batch in found)
        names = list(dict.fromkeys((*tested, *self._time)))
        return self._reader.select(blocks, columns, names, lambda batch: keeps(batch) & self._within(batch, *within))

    def count(
        self,
        start: int | None,
        end: int | None,
        choice: RowChoice,
        holds_all: Test,
        counters: ReadCounters | None = None,
    ) -> int:
        """How many rows of a time range are chosen, by a range of values of one column and nothing else.

        Where ``holds_all`` says of entries that all rows below have one, they are counted without being visited; leaves
        that may hold none are not looked at.
        """
        wanted, may_hold = choice.values, choice.may_hold
        assert wanted is not None
        assert may_hold is not None
        found = search(self.nodes, start, end, may_hold, holds_all, counters)
        if counters:
            counters.leaves += len(found.leaves)
        blocks = ids.leaf_ids(found.leaves, self.layout.fanout)
        count = found.certain + self._reader.count(blocks[~found.at_ends], wanted, choice.keeps)
        for batch in self._reader.select(blocks[found.at_ends], self._time, [wanted.column], choice.keeps, wanted):
            count += int(self._within(batch, start, end).sum())
        return count

    def _within(self, batch: pa.RecordBatch, start: int | None, end: int | None) -> npt.NDArray[np.bool_]:
        """Which rows are in a time range; the time is one of the columns."""
        times = integers(batch.column(self._time[0]))
        mask = np.ones(len(times), np.bool_)
        if start is not None:
            mask &= times >= start
        if end is not None:
            mask &= times < end
        return mask

    def _scan(
        self,
        start: int | None,
        end: int | None,
        columns: Sequence[str] | None,
        test: Test | None,
        counters: ReadCounters | None,
    ) -> Iterator[pa.RecordBatch]:
        if not self.leaves or (start is not None and end is not None and end <= start):
            return
        low = Position(0, 0, 0) if start is None else self.seek(start, counters)
        high = Position(self.leaves, 0, self.rows) if end is None else self.seek(end, counters)
        if test is None:
            runs = [(low.leaf, high.leaf + (high.row > 0))]
        else:
            runs = self.leaf_ranges(start, end, test, counters)
        for first, last in runs:
            if counters:
                counters.leaves += last - first
            # The leaf that the range begins in, and the one that it ends in, are read in part.
            if low.row and first == low.leaf:
                stop = high.row if high.leaf == first else low.leaf_rows
                if low.row < stop:
                    yield self._reader.read(self._leaf_id(first), columns, (low.row, stop))
                first += 1
            inner = min(last, high.leaf)
            if first < inner:
                yield from self._reader.scan(self._leaf_id(first), self._leaf_id(inner - 1) + 1, columns)
            if high.row and max(first, inner) < last:
                yield self._reader.read(self._leaf_id(high.leaf), columns, (0, high.row))

    def leaf_entries(
        self, start: int | None = None, end: int | None = None, counters: ReadCounters | None = None
    ) -> Entries:
        """The entries of the leaves that reach into a time range, in order. Reads the nodes above them."""
        found: list[Entries] = [empty(self.layout, 0)]
        if self.leaves and (start is None or end is None or start < end):
            self._gather_leaves(self._top, start, end, counters, found)
        return joined(found)

    def _gather_leaves(
        self,
        children: Children,
        start: int | None,
        end: int | None,
        counters: ReadCounters | None,
        found: list[Entries],
    ) -> None:
        first = 0 if start is None else bisect_left(children.highs, start)
        last = len(children) if end is None else bisect_left(children.lows, end)
        leaf = bisect_left(range(first, last), True, key=lambda child: not children.levels[child]) + first
        for child in range(first, leaf):  # levels never rise from left to right
            self._gather_leaves(self.nodes.node(children.ids[child], counters), start, end, counters, found)
        if leaf < last:
            found.append(children.entries[leaf:last])

    def leaf_rows(self, leaves: Ints, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of leaves, given by block ids in order; several to a batch, a few of which are decoded ahead."""
        return self._reader.scan_leaves(leaves, columns)

    def _leaves_at(self, t: int, counters: ReadCounters | None) -> tuple[int, int]:
        """The ordinals of the first leaf with a row at ``t`` or later, and of the first with no row before ``t``."""
        children = self._top
        while True:
            child = bisect_left(children.highs, t)
            if child == len(children):  # only at the top: below, the last one reaches t
                return self.leaves, self.leaves
            leaf = children.leaves[child]
            if children.lows[child] >= t:
                return leaf, leaf
            if not children.levels[child]:
                return leaf, leaf + 1
            children = self.nodes.node(children.ids[child], counters)

    def level_entries(self, level: int) -> Entries:
        """The entries of the nodes of a level, from 1, in order of time; topmost ones where the tree is not that high.

        Each stands for a subtree of the level below: at level 1 for a leaf.
        """
        found: list[Entries] = []
        self._collect(self._top, level, found)
        return np.concatenate(found) if found else empty(self.layout, 0)

    def _collect(self, children: Children, level: int, found: list[Entries]) -> None:
        for child, below in enumerate(children.levels):
            if below >= level:
                self._collect(self.nodes.node(children.ids[child], None), level, found)
            else:
                found.append(children.entries[child : child + 1])

    # -- aggregates -----------------------------------------------------------------------------------------------

    def aggregate(
        self,
        start: int | None = None,
        end: int | None = None,
        columns: Ints | None = None,
        counters: ReadCounters | None = None,
    ) -> Aggregate:
        """The aggregates of some columns, by position, of the rows in a time range (spec/event-store.md 9.2)."""
        return aggregate(self.nodes, start, end, self.layout.columns if columns is None else columns, counters)

    def aggregates(
        self, starts: Ints, ends: Ints, columns: Ints | None = None, counters: ReadCounters | None = None
    ) -> Entries:
        """The aggregates of many time ranges in one pass, see :func:`tidelog.index.tabtree.aggregating.aggregates`."""
        return aggregates(self.nodes, starts, ends, self.layout.columns if columns is None else columns, counters)

    def _leaf_id(self, ordinal: int) -> int:
        return ids.leaf_id(ordinal, self.layout.fanout)
