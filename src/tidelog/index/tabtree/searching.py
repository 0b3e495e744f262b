"""Which leaves of a tree may hold rows that are looked for, told from entries, level by level.

A level at a time, because asking about the entries of one node takes longer than looking at them: the entries of all
nodes of a level are asked about at once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidelog.index.entries import Entries
from tidelog.index.node import Children
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.index.tabtree.nodes import Nodes
from tidelog.storage.codec import Ints
from tidelog.storage.format.value_range import ValueRange
from tidelog.storage.read.source import RowTest

Mask = npt.NDArray[np.bool_]

Test = Callable[[Entries], Mask]
"""Tells something about each entry, such as whether rows that are looked for may be below it."""


@dataclass(frozen=True, slots=True)
class RowChoice:
    """Which rows are wanted, for those who can leave others out before they make rows of them."""

    tested: Sequence[str]
    """The columns that decide."""
    keeps: RowTest
    """Tells of a batch that has these columns which rows are."""
    may_hold: Test | None
    """Tells by entries, with sequence numbers as they are in the tree, where such rows may be; None: anywhere."""
    values: ValueRange | None = None
    """The range of values that decides, if that is all that does."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a search has found."""

    leaves: Ints
    """Ordinals, rising, of the leaves that may hold rows that are looked for."""
    at_ends: Mask
    """For each of them, whether rows of it may be outside of the time range."""
    certain: int
    """Rows of other leaves, all of which are in the time range and looked for."""


@dataclass(frozen=True, slots=True)
class _Run:
    """The entries ``first`` to ``last`` (exclusive) of a node, those that reach into a time range.

    From ``inside`` to ``inside_end`` (exclusive) they are in it with all rows.
    """

    children: Children
    first: int
    last: int
    inside: int
    inside_end: int


def search(
    nodes: Nodes,
    start: int | None,
    end: int | None,
    may_hold: Test,
    holds_all: Test | None = None,
    counters: ReadCounters | None = None,
) -> Found:
    """The leaves that reach into a time range and may hold rows that are looked for (spec/event-store.md 9.3).

    What ``may_hold`` rejects is not visited; neither is, and its rows are counted, what lies in the range with all
    rows and which ``holds_all`` says are all looked for.
    """
    leaves: list[Ints] = []
    at_ends: list[Mask] = []
    certain = 0
    empty_range = start is not None and end is not None and end <= start
    runs = [] if empty_range else _runs([nodes.top], start, end)
    while runs:
        entries = _joined(runs)
        kept = may_hold(entries)
        whole = None if holds_all is None or not kept.any() else holds_all(entries) & kept
        below: list[Children] = []
        at = 0
        for run in runs:
            count = run.last - run.first
            found = np.flatnonzero(kept[at : at + count]) + run.first
            outside = (found < run.inside) | (found >= run.inside_end)
            if whole is not None:
                sure = whole[found + (at - run.first)] & ~outside
                certain += int(run.children.entries["rows"][found[sure]].sum())
                found, outside = found[~sure], outside[~sure]
            at += count
            if not len(found):
                continue
            # Leaves come behind nodes, and one after the other.
            children = run.children
            if children.levels[int(found[-1])]:
                inner = found
            else:
                is_node = np.array([children.levels[child] for child in found.tolist()], np.int64) > 0
                inner, found, outside = found[is_node], found[~is_node], outside[~is_node]
                leaves.append(found + (children.leaves[int(found[-1])] - int(found[-1])))
                at_ends.append(outside)
            below += [nodes.node(children.ids[child], counters) for child in inner.tolist()]
        runs = _runs(below, start, end)
    if not leaves:
        return Found(np.empty(0, np.int64), np.empty(0, np.bool_), certain)
    ordinals = np.concatenate(leaves)
    order = np.argsort(ordinals)
    return Found(ordinals[order], np.concatenate(at_ends)[order], certain)


def _joined(runs: Sequence[_Run]) -> Entries:
    """The entries of all runs; put together as words, for NumPy is slow to join records."""
    if len(runs) == 1:
        return runs[0].children.entries[runs[0].first : runs[0].last]
    words = np.concatenate([run.children.words[run.first : run.last] for run in runs])
    entries: Entries = words.view(runs[0].children.entries.dtype)[:, 0]
    return entries


def _runs(nodes: Sequence[Children], start: int | None, end: int | None) -> list[_Run]:
    runs = []
    for children in nodes:
        first = inside = 0
        last = inside_end = len(children)
        if start is not None:
            first, inside = bisect_left(children.highs, start), bisect_left(children.lows, start)
        if end is not None:
            last, inside_end = bisect_left(children.lows, end), bisect_left(children.highs, end)
        if first < last:
            runs.append(_Run(children, first, last, inside, inside_end))
    return runs
