"""The flank of a tree: the entries of each level that have no node over them yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.index import ids
from tidelog.index.entries import Entries, empty, from_summaries, leaf_states, merge
from tidelog.index.layout import Layout
from tidelog.index.node import Children, Node, parse
from tidelog.model.errors import CorruptionError, InputError
from tidelog.storage.codec import Ints


class NodeBlocks(Protocol):
    """What reading nodes takes of a container, or of its reader."""

    def read_node(self, id: int) -> bytes:
        """A node's bytes."""


class Blocks(NodeBlocks, Protocol):
    """What reading a flank takes of a container's reader."""

    schema: pa.Schema

    @property
    def blocks(self) -> int:
        """How many blocks there are."""

    def summaries(self, first: int = 0, last: int | None = None) -> tuple[Ints, Ints, npt.NDArray[np.void]]:
        """Ids, rows and summaries of leaves."""

    def read(self, id: int, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """Columns of a leaf."""


@dataclass(frozen=True, slots=True)
class Flank:
    """What stands over a tree that is not closed, as of its first ``blocks`` blocks. Never changes.

    ``levels[i]`` are the entries of blocks of level ``i``, oldest first. Because a node is written as soon as it is
    full, everything on a higher level is older than everything below: all levels together, highest first, are the
    tree's entries in order of time.
    """

    layout: Layout
    levels: tuple[Entries, ...]
    leaves: int
    blocks: int
    closing: int = 0
    """How many of the last blocks are nodes of a closing that was not finished; they say nothing new."""

    @property
    def rows(self) -> int:
        """How many rows the tree has."""
        return sum(int(entries["rows"].sum()) for entries in self.levels)

    def children(self) -> Children:
        """All entries, ready for searching, as if they were those of one node."""
        parts: list[Entries] = []
        levels: list[int] = []
        leaves: list[int] = []
        leaf = 0
        for level in reversed(range(len(self.levels))):
            count, step = len(self.levels[level]), self.layout.fanout**level
            parts.append(self.levels[level])
            levels += [level] * count
            leaves += range(leaf, leaf + count * step, step)
            leaf += count * step
        entries = np.concatenate(parts) if parts else empty(self.layout, 0)
        return Children(self.layout, entries, levels, leaves)

    @classmethod
    def read(cls, reader: Blocks, layout: Layout, *, with_states: bool = False) -> Flank:
        """The flank at a commit, from the heads of at most ``fanout`` leaves and as many nodes of each level.

        (spec/event-store.md 8.3) The states of user-defined aggregates are computed, from the rows of those leaves,
        for those who go on writing, ``with_states``; for others they are unknown, and found below when they are asked
        for. Raises :class:`CorruptionError` if the blocks are not those of such a tree.
        """
        layout.check_container(reader.schema)
        closing = _closing_nodes(reader, layout)
        blocks = reader.blocks - closing
        fanout = layout.fanout
        counts = ids.counts(blocks, fanout)
        levels: list[Entries] = []
        for level, count in enumerate(counts):
            above = counts[level + 1] if level + 1 < len(counts) else 0
            ordinals = range(above * fanout, count)
            if level:
                levels.append(_node_entries(reader, layout, level, ordinals, with_states))
            else:
                levels.append(_leaf_entries(reader, layout, ordinals, with_states))
        return cls(layout, tuple(levels), counts[0], reader.blocks, closing)


def _closing_nodes(reader: Blocks, layout: Layout) -> int:
    """How many of the last blocks were written to close the tree."""
    count = 0
    while count < reader.blocks:
        id = reader.blocks - 1 - count
        leaves, _, _ = reader.summaries(id, id + 1)
        if len(leaves) or not read_node(reader, layout, id).closing:
            break
        count += 1
    return count


def _leaf_entries(reader: Blocks, layout: Layout, ordinals: range, with_states: bool) -> Entries:
    if not ordinals:
        return empty(layout, 0)
    # No node stands between leaves of one parent.
    first = ids.leaf_id(ordinals.start, layout.fanout)
    found, rows, summaries = reader.summaries(first, first + len(ordinals))
    if len(found) != len(ordinals):
        raise CorruptionError(
            f"blocks {first} to {first + len(ordinals) - 1} must be leaves of the tree, but {len(found)} of them are"
        )
    states = None
    if with_states and layout.states.words:
        states = leaf_states(layout, (reader.read(id, layout.states.columns) for id in found.tolist()))
    return from_summaries(layout, found, rows, summaries, states)


def _node_entries(reader: Blocks, layout: Layout, level: int, ordinals: range, with_states: bool) -> Entries:
    entries = empty(layout, len(ordinals))
    for index, ordinal in enumerate(ordinals):
        node = read_full_node(reader, layout, level, ordinal)
        entries[index : index + 1] = merge(layout, node.entries, with_states=with_states)
        entries["child"][index] = node.id
    return entries


def read_node(reader: NodeBlocks, layout: Layout, id: int) -> Node:
    """The node in a block. Raises :class:`CorruptionError` if something else is there."""
    try:
        content = reader.read_node(id)
    except InputError as error:  # it is a leaf: not the caller's mistake here
        raise CorruptionError(f"block {id} must be a node of the tree: {error}") from error
    return parse(content, id, layout)


def read_full_node(reader: NodeBlocks, layout: Layout, level: int, ordinal: int) -> Node:
    """A node by its place in the tree. Raises :class:`CorruptionError` if another one is there."""
    id = ids.node_id(level, ordinal, layout.fanout)
    node = read_node(reader, layout, id)
    expected = level, ordinal * layout.fanout**level, layout.fanout
    if (node.level, node.first_leaf, len(node.entries)) != expected:
        raise CorruptionError(
            f"node {id} is of level {node.level} over {len(node.entries)} children from leaf {node.first_leaf} on, "
            f"expected level {level} over {layout.fanout} children from leaf {expected[1]} on"
        )
    return node
