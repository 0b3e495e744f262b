"""Indexes that live in the log: the tree over time with its aggregates.

From the bottom up: ``layout`` (columns, fan-out), ``entries`` and ``kernels`` (what a node says about its children),
``ids`` (post-order arithmetic), ``node`` (bytes), ``aggregate`` (answers), ``tabtree`` (writer, reader, check).
"""

from __future__ import annotations

from tidelog.index.aggregate import Aggregate
from tidelog.index.layout import Layout
from tidelog.index.tabtree import (
    Flank,
    NodeCache,
    Position,
    ReadCounters,
    Root,
    TreeReader,
    TreeWriter,
    check_tree,
)

__all__ = [
    "Aggregate",
    "Flank",
    "Layout",
    "NodeCache",
    "Position",
    "ReadCounters",
    "Root",
    "TreeReader",
    "TreeWriter",
    "check_tree",
]
