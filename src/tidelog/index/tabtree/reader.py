"""Reading a tree at a commit: by time, by rank, by what entries say, and aggregates of time ranges."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.index import ids
from tidelog.index.aggregate import Aggregate
from tidelog.index.entries import Entries, empty, from_batch, from_summaries, merge
from tidelog.index.layout import Layout
from tidelog.index.node import Children
from tidelog.index.ranges import merge_all
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.index.tabtree.flank import Flank, read_node
from tidelog.index.tabtree.root import Root
from tidelog.model.errors import InputError, NotFoundError
from tidelog.storage import ContainerReader
from tidelog.storage.cache import Cache
from tidelog.storage.codec import Ints
from tidelog.storage.source import RowTest

NODE_CACHE_BYTES: Final = 32 << 20
"""Default budget of a cache of nodes: some 700 of ten columns, which stand for 360 million rows."""

NodeCache = Cache[Children]
"""Nodes of any number of trees, by the key of the tree and their id."""

Test = Callable[[Entries], npt.NDArray[np.bool_]]
"""Tells for each entry whether rows that are looked for may be below it."""

Edge = tuple[int, int, int]
"""Rows of a leaf: its block id, the first row and the one behind the last."""


@dataclass(frozen=True, slots=True)
class Position:
    """A row of a tree, or the end behind the last one: ordinal of its leaf, row in it, and rows of the tree before it.

    ``leaf_rows`` is how many rows the leaf has, 0 if that was not looked up (``row`` is 0 then).
    """

    leaf: int
    row: int
    rank: int
    leaf_rows: int = 0


@dataclass(frozen=True, slots=True)
class Cover:
    """The rows of a time range: those of whole entries, and of two leaves at the most which are in it in part.

    ``runs`` are entries ``first`` to ``last`` (exclusive) of nodes. In order of time: left, runs, right.
    """

    left: Edge | None
    runs: tuple[tuple[Children, int, int], ...]
    right: Edge | None


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
        self._reader = reader
        self.layout = layout
        self._cache = NodeCache(NODE_CACHE_BYTES) if cache is None else cache
        self._key = object() if key is None else key
        at = Flank.read(reader, layout) if at is None else at
        if at.blocks != reader.blocks:
            raise InputError(
                f"found a tree of {at.blocks} blocks and a container with {reader.blocks} at this commit; "
                "expected the tree as of the same commit (TreeReader reads it itself if none is given)"
            )
        if (at.fanout if isinstance(at, Root) else at.layout.fanout) != layout.fanout:
            raise InputError("found a tree of another fan-out than its layout says; read the layout from its container")
        layout.check_container(reader.schema)
        self.leaves = at.leaves
        self._top = self._children_of(at) if isinstance(at, Root) else at.children()
        self._whole: Aggregate | None = None
        self._time = [layout.stored.names[layout.time]]

    def _children_of(self, root: Root) -> Children:
        if root.level:
            return self._node(root.id, None)
        if root.id == ids.NIL:
            return Children(self.layout, empty(self.layout, 0), [], [])
        return Children(
            self.layout, from_summaries(self.layout, *self._reader.summaries(root.id, root.id + 1)), [0], [0]
        )

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
            self._whole = Aggregate(self.layout, entry=merge(self.layout, self._top.entries))
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
                times = self._times(children.ids[child], counters)
                row = int(times.searchsorted(t))
                return Position(children.leaves[child], row, rank + row, len(times))
            children = self._node(children.ids[child], counters)

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
            children = self._node(children.ids[child], counters)

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
        runs: list[tuple[int, int]] = []
        for leaf in self._tested(self._top, start, end, test, counters):
            if runs and runs[-1][1] == leaf:
                runs[-1] = runs[-1][0], leaf + 1
            else:
                runs.append((leaf, leaf + 1))
        return runs

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
        tested: Sequence[str],
        test: RowTest,
        entry_test: Test | None = None,
        counters: ReadCounters | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a time range that pass ``test``, which sees the columns ``tested``; in order, lazily.

        Leaves that ``entry_test`` rejects are not looked at, and of leaves without rows that pass only the tested
        columns are decoded (spec/event-store.md 9.3).
        """
        runs = self.leaf_ranges(start, end, entry_test, counters)
        if not runs:
            return iter(())
        leaves = np.concatenate([np.arange(first, last, dtype=np.int64) for first, last in runs])
        if counters:
            counters.leaves += len(leaves)
        bounded = start is not None or end is not None
        names = list(dict.fromkeys((*tested, *self._time))) if bounded else list(tested)

        def within(batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
            mask = test(batch)
            times = batch.column(self._time[0]).view(pa.int64()).to_numpy(zero_copy_only=True)
            if start is not None:
                mask = mask & (times >= start)
            return mask & (times < end) if end is not None else mask

        return self._reader.select(
            ids.leaf_ids(leaves, self.layout.fanout), columns, names, within if bounded else test
        )

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
                yield self._reader.read(self._leaf_id(first), columns, (low.row, stop))
                first += 1
            inner = min(last, high.leaf)
            if first < inner:
                yield from self._reader.scan(self._leaf_id(first), self._leaf_id(inner - 1) + 1, columns)
            if high.row and max(first, inner) < last:
                yield self._reader.read(self._leaf_id(high.leaf), columns, (0, high.row))

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
            children = self._node(children.ids[child], counters)

    def _tested(
        self, children: Children, start: int | None, end: int | None, test: Test, counters: ReadCounters | None
    ) -> Iterator[int]:
        first = 0 if start is None else bisect_left(children.highs, start)
        last = len(children) if end is None else bisect_left(children.lows, end)
        if first >= last:
            return
        for child in (np.flatnonzero(test(children.entries[first:last])) + first).tolist():
            if children.levels[child]:
                yield from self._tested(self._node(children.ids[child], counters), start, end, test, counters)
            else:
                yield children.leaves[child]

    # -- aggregates -----------------------------------------------------------------------------------------------

    def cover(
        self,
        start: int | None,
        end: int | None,
        counters: ReadCounters | None = None,
        along: Sequence[str] = (),
    ) -> Cover:
        """The whole entries and the leaves in part that a time range consists of.

        Visits two nodes of each level at the most, and reads the times of the leaves at the ends. The columns ``along``
        of these leaves are decoded with them: the caller will read them next.
        """
        if start is not None and end is not None and end <= start:
            return Cover(None, (), None)
        children = self._top
        while True:
            inside, first = _from(children, start)
            last, inside_end = _until(children, end)
            if not (first < inside and last < inside_end and first == last):
                break
            # Both ends fall into one child, and nothing else is in the range.
            if not children.levels[first]:
                times = self._times(children.ids[first], counters)
                # Neither is None here, or it would not fall into a child.
                low, high = np.searchsorted(times, np.array([start, end], np.int64)).tolist()
                return Cover((children.ids[first], low, high) if low < high else None, (), None)
            children = self._node(children.ids[first], counters)
        runs = [(children, inside, last)] if inside < last else []
        left = right = None
        if first < inside and start is not None:
            left, more = self._right_of(start, children.ids[first], children.levels[first], counters, along)
            runs = more + runs
        if last < inside_end and end is not None:
            more, right = self._left_of(end, children.ids[last], children.levels[last], counters, along)
            runs = runs + more
        return Cover(left, tuple(runs), right)

    def _right_of(
        self, start: int, id: int, level: int, counters: ReadCounters | None, along: Sequence[str]
    ) -> tuple[Edge | None, list[tuple[Children, int, int]]]:
        """What a subtree holds from ``start`` on, which falls into it."""
        runs: list[tuple[Children, int, int]] = []
        while level:
            children = self._node(id, counters)
            inside, first = _from(children, start)
            if inside < len(children):
                runs.append((children, inside, len(children)))
            if first == inside:
                return None, runs[::-1]
            id, level = children.ids[first], children.levels[first]
        times = self._times(id, counters, along)
        return (id, int(times.searchsorted(start)), len(times)), runs[::-1]

    def _left_of(
        self, end: int, id: int, level: int, counters: ReadCounters | None, along: Sequence[str]
    ) -> tuple[list[tuple[Children, int, int]], Edge | None]:
        """What a subtree holds before ``end``, which falls into it."""
        runs: list[tuple[Children, int, int]] = []
        while level:
            children = self._node(id, counters)
            last, inside = _until(children, end)
            if last:
                runs.append((children, 0, last))
            if last == inside:
                return runs, None
            id, level = children.ids[last], children.levels[last]
        times = self._times(id, counters, along)
        return runs, (id, 0, int(times.searchsorted(end)))

    def partial(
        self,
        start: int | None,
        end: int | None,
        columns: Sequence[str] | None = None,
        counters: ReadCounters | None = None,
    ) -> tuple[Aggregate, list[Edge]]:
        """The aggregates of the leaves that are in a time range with all rows, and the rows of the others in it."""
        cover = self.cover(start, end, counters)
        aggregate = Aggregate(self.layout, self.layout.indexes(columns))
        for children, first, last in cover.runs:
            aggregate.add(children.words, first, last)
        return aggregate, [edge for edge in (cover.left, cover.right) if edge is not None]

    def aggregate(
        self,
        start: int | None = None,
        end: int | None = None,
        columns: Sequence[str] | None = None,
        counters: ReadCounters | None = None,
    ) -> Aggregate:
        """The aggregates of the rows in a time range (spec/event-store.md 9.2)."""
        indexes = self.layout.indexes(columns)
        aggregate = Aggregate(self.layout, indexes)
        cover = self.cover(start, end, counters, [self.layout.stored.names[index] for index in indexes.tolist()])
        if cover.left is not None:
            self._add_edge(aggregate, cover.left)
        for children, first, last in cover.runs:
            aggregate.add(children.words, first, last)
        if cover.right is not None:
            self._add_edge(aggregate, cover.right)
        return aggregate

    def aggregates(
        self, starts: Ints, ends: Ints, columns: Sequence[str] | None = None, counters: ReadCounters | None = None
    ) -> Entries:
        """The aggregates of many time ranges ``[starts[i], ends[i])`` in one pass: an entry for each (child -1).

        Columns not asked for stay empty in them. Every node and leaf is visited once, however many ranges end in it;
        sums of floats may differ from those of :meth:`aggregate` in the last bits, being added in another order.
        """
        starts, ends = np.asarray(starts, np.int64), np.asarray(ends, np.int64)
        if starts.shape != ends.shape or starts.ndim != 1:
            raise InputError(
                f"found {starts.shape} starts and {ends.shape} ends, expected one array of each, equally long"
            )
        indexes = self.layout.indexes(columns)
        merged = empty(self.layout, len(starts))
        merged["child"] = -1
        filled = ends > starts
        if not filled.any():
            return merged
        bounds = np.unique(np.concatenate([starts[filled], ends[filled]]))
        parts: list[Entries] = []
        # With its times, every part can be found again by them.
        known = np.union1d(indexes, [self.layout.time])
        self._cut(self._top, bounds, known, parts, counters)
        atoms = np.concatenate(parts)
        lows = np.ascontiguousarray(atoms["columns"]["min"][:, self.layout.time]).view(np.int64)
        firsts, lasts = lows.searchsorted(starts), lows.searchsorted(ends)
        merge_all(self.layout, indexes, atoms, firsts, np.maximum(firsts, lasts), merged)
        return merged

    def _cut(
        self, children: Children, bounds: Ints, columns: Ints, parts: list[Entries], counters: ReadCounters | None
    ) -> None:
        """Entries of everything below, in order, such that no bound falls into one of them."""
        lasts, firsts = np.searchsorted(children.highs, bounds), np.searchsorted(children.lows, bounds)
        done = 0
        cut = lasts < firsts
        for child in np.unique(lasts[cut]).tolist():
            inside = bounds[cut & (lasts == child)]
            parts.append(children.entries[done:child])
            if children.levels[child]:
                self._cut(self._node(children.ids[child], counters), inside, columns, parts, counters)
            else:
                parts.append(self._cut_leaf(children.ids[child], inside, columns, counters))
            done = child + 1
        parts.append(children.entries[done:])

    def _cut_leaf(self, id: int, bounds: Ints, columns: Ints, counters: ReadCounters | None) -> Entries:
        times = self._times(id, counters)
        cuts = np.unique(np.concatenate([[0], times.searchsorted(bounds), [len(times)]]))
        batch = self._reader.read(id, [self.layout.stored.names[column] for column in columns.tolist()])
        return from_batch(self.layout, batch, cuts, columns)

    def _add_edge(self, aggregate: Aggregate, edge: Edge) -> None:
        id, first, last = edge
        names = [self.layout.stored.names[column] for column in aggregate.columns.tolist()]
        batch = self._reader.read(id, names)
        entries = from_batch(self.layout, batch, np.array([first, last], np.int64), aggregate.columns)
        aggregate.add(entries.view(np.uint64).reshape(1, -1), 0, 1)

    # -- blocks ---------------------------------------------------------------------------------------------------

    def _leaf_id(self, ordinal: int) -> int:
        return ids.leaf_id(ordinal, self.layout.fanout)

    def _node(self, id: int, counters: ReadCounters | None) -> Children:
        def read() -> tuple[Children, int]:
            children = read_node(self._reader, self.layout, id).children(self.layout)
            if counters:
                counters.node_reads += 1
            return children, children.nbytes

        if counters:
            counters.nodes += 1
        return self._cache.get((self._key, id), read)

    def _times(self, id: int, counters: ReadCounters | None, along: Sequence[str] = ()) -> Ints:
        """The times of a leaf's rows; columns ``along`` are decoded at the same time, to be in the cache."""
        if counters:
            counters.leaves += 1
        names = list(dict.fromkeys((*self._time, *along))) if along else self._time
        times: Ints = self._reader.read(id, names).column(0).view(pa.int64()).to_numpy(zero_copy_only=True)
        return times


def _from(children: Children, start: int | None) -> tuple[int, int]:
    """The first child that is inside with all rows when the range begins at ``start``, and the first inside at all."""
    if start is None:
        return 0, 0
    return bisect_left(children.lows, start), bisect_left(children.highs, start)


def _until(children: Children, end: int | None) -> tuple[int, int]:
    """How many first children are before ``end`` with all rows, and how many with any."""
    if end is None:
        return len(children), len(children)
    return bisect_left(children.highs, end), bisect_left(children.lows, end)
