"""A tree divided into subtrees, for those who share the work of reading it."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from tidelog.index.node import Children
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.index.tabtree.nodes import Nodes
from tidelog.index.tabtree.searching import Test

Subtree = tuple[int, int, int]
"""Its first and its last time, both included, and its rows."""


def divide(
    nodes: Nodes,
    most_rows: int,
    start: int | None,
    end: int | None,
    test: Test | None = None,
    counters: ReadCounters | None = None,
) -> list[Subtree]:
    """The subtrees that reach into a time range, in order: each with ``most_rows`` rows at the most, or a leaf.

    What a ``test`` rejects is not visited, and left out.
    """
    found: list[Subtree] = []
    if start is None or end is None or start < end:
        _divide(nodes, nodes.top, most_rows, start, end, test, counters, found)
    return found


def _divide(
    nodes: Nodes,
    children: Children,
    most_rows: int,
    start: int | None,
    end: int | None,
    test: Test | None,
    counters: ReadCounters | None,
    found: list[Subtree],
) -> None:
    first = 0 if start is None else bisect_left(children.highs, start)
    last = len(children) if end is None else bisect_left(children.lows, end)
    if first >= last:
        return
    kept = range(first, last) if test is None else np.flatnonzero(test(children.entries[first:last])) + first
    for child in map(int, kept):
        rows = children.before[child + 1] - children.before[child]
        if children.levels[child] and rows > most_rows:
            below = nodes.node(children.ids[child], counters)
            _divide(nodes, below, most_rows, start, end, test, counters, found)
        else:
            found.append((children.lows[child], children.highs[child], rows))
