"""The nodes and leaves of a tree as of one commit, read through a cache."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

import pyarrow as pa

from tidelog.index import ids
from tidelog.index.entries import Words, empty, from_summaries
from tidelog.index.layout import Layout
from tidelog.index.node import Children
from tidelog.index.states import StoredState
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.index.tabtree.flank import Flank, read_node
from tidelog.index.tabtree.root import Root
from tidelog.model.arrays import integers
from tidelog.model.errors import InputError
from tidelog.model.times.clock import INT64_MAX, INT64_MIN
from tidelog.storage import ContainerReader
from tidelog.storage.codec import Ints
from tidelog.storage.read.cache import Cache
from tidelog.storage.read.leaf_pieces import Numbers

NODE_CACHE_BYTES: Final = 32 << 20
"""Default budget of a cache of nodes: some 700 of ten columns, which stand for 360 million rows."""

NodeCache = Cache[Children]
"""Nodes of any number of trees, by the key of the tree and their id."""

Edge = tuple[int, int | None, int | None]
"""A leaf that is in a time range in part: its block id, and the bounds of the range that fall into the leaf."""


class Nodes:
    """Gives out the children of inner nodes and the columns of leaves. May be used from several threads."""

    __slots__ = ("_cache", "_key", "_time", "found_states", "layout", "leaves", "reader", "top")

    def __init__(
        self,
        reader: ContainerReader,
        layout: Layout,
        at: Flank | Root | None = None,
        cache: NodeCache | None = None,
        key: Hashable = None,
    ) -> None:
        """``at`` is the root of a closed tree, the flank of one that is not, or None to read the flank.

        A ``cache`` may be shared with other trees; ``key`` names the tree in it, and must not be used for another
        tree. Raises :class:`InputError` for a flank of another commit.
        """
        self.reader = reader
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
        """How many leaves there are."""
        self._time = [layout.stored.names[layout.time]]
        self.found_states: dict[tuple[tuple[StoredState, ...], int], Words] = {}
        """States of user-defined aggregates that entries do not know and that were found below them: by what was asked
        for, and the id of the child."""
        self.top: Children = self._children_of(at) if isinstance(at, Root) else at.children()
        """The topmost entries."""

    def _children_of(self, root: Root) -> Children:
        if root.level:
            return self.node(root.id, None)
        if root.id == ids.NIL:
            return Children(self.layout, empty(self.layout, 0), [], [])
        summaries = self.reader.summaries(root.id, root.id + 1)
        return Children(self.layout, from_summaries(self.layout, *summaries), [0], [0])

    def node(self, id: int, counters: ReadCounters | None) -> Children:
        """The children of an inner node."""
        if counters:
            counters.nodes += 1
        children = self._cache.find((self._key, id))
        if children is None:
            children = read_node(self.reader, self.layout, id).children(self.layout)
            self._cache.put((self._key, id), children, children.nbytes)
            if counters:
                counters.node_reads += 1
        return children

    def times(self, id: int, counters: ReadCounters | None) -> Ints:
        """The times of a leaf's rows."""
        if counters:
            counters.leaves += 1
        return integers(self.reader.read(id, self._time).column(0))

    def numbers(
        self, ids: Sequence[int], columns: tuple[int, ...], counters: ReadCounters | None
    ) -> tuple[Numbers, list[int]] | None:
        """Columns of a few leaves, see :meth:`NumberSource.whole`; None if they have to be read."""
        if counters:
            counters.leaves += len(ids)
        return self.reader.numbers.whole(ids, columns)

    def numbers_between(
        self, leaves: Sequence[Edge], columns: tuple[int, ...], counters: ReadCounters | None
    ) -> tuple[Numbers, Ints] | None:
        """Columns of the rows of leaves that are in a time range each, see :meth:`NumberSource.between`."""
        if counters:
            counters.leaves += len(leaves)
        ranges = [
            (INT64_MIN if start is None else start, INT64_MAX if end is None else end - 1) for _, start, end in leaves
        ]
        return self.reader.numbers.between([id for id, _, _ in leaves], (self.layout.time, *columns), ranges)

    def read(self, id: int, columns: Sequence[int]) -> pa.RecordBatch:
        """Columns of a leaf that was counted before."""
        return self.reader.read(id, [self.layout.stored.names[column] for column in columns])
