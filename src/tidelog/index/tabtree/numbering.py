"""A tree seen by the sequence numbers of its rows: node by node, for those who look for certain numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidelog.index.node import Children
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.index.tabtree.nodes import Nodes
from tidelog.model.arrays import integers
from tidelog.storage.codec import Ints


class Numbered(NamedTuple):
    """Subtrees beside each other, in order of time. All bounds are included."""

    ids: list[int]
    levels: list[int]
    """0 for leaves."""
    firsts: list[int]
    """The smallest time of each."""
    lasts: list[int]
    lows: Ints
    """The smallest sequence number of each, as it is in the tree."""
    highs: Ints
    rows: Ints


def numbered(nodes: Nodes, id: int | None, counters: ReadCounters | None) -> Numbered:
    """The children of an inner node, the topmost ones for None."""
    children: Children = nodes.top if id is None else nodes.node(id, counters)
    entries = children.entries
    # Numbers are never negative, so their bits are the same with and without a sign.
    bounds = entries["columns"][:, nodes.layout.sequence]
    lows, highs = bounds["min"].astype(np.int64), bounds["max"].astype(np.int64)
    rows = entries["rows"].astype(np.int64)
    return Numbered(children.ids, list(children.levels), children.lows, children.highs, lows, highs, rows)


def numbers_of_leaf(nodes: Nodes, id: int, counters: ReadCounters | None) -> tuple[Ints, Ints]:
    """The times and the sequence numbers of a leaf's rows."""
    if counters:
        counters.leaves += 1
    found = nodes.read(id, [nodes.layout.time, nodes.layout.sequence])
    return integers(found.column(0)), integers(found.column(1))
