"""The TAB+-tree of one split: a B+-tree over time, written in post-order, with aggregates in its inner entries.

``TreeWriter`` builds it in a container, ``TreeReader`` reads it as of a commit. See docs/design/003-event-store.md.
"""

from __future__ import annotations

from tidelog.index.tabtree.check import check_tree
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.index.tabtree.flank import Flank
from tidelog.index.tabtree.nodes import NodeCache
from tidelog.index.tabtree.reader import Position, TreeReader
from tidelog.index.tabtree.root import Root
from tidelog.index.tabtree.writer import TreeWriter

__all__ = ["Flank", "NodeCache", "Position", "ReadCounters", "Root", "TreeReader", "TreeWriter", "check_tree"]
