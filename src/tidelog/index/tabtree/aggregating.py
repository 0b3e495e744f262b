"""Aggregates of time ranges: of whole subtrees from their entries, of the leaves at the ends from their rows."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tidelog.index.aggregate import Aggregate
from tidelog.index.entries import (
    MIN_WORD,
    WORDS_BEFORE,
    WORDS_OF_COLUMN,
    Entries,
    Words,
    blank,
    from_batch,
    from_numbers,
    joined,
    without_states,
    words_of,
)
from tidelog.index.node import Children
from tidelog.index.ranges import merge_all
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.index.tabtree.nodes import Edge, Nodes
from tidelog.model.arrays import distinct, integers
from tidelog.model.errors import InputError
from tidelog.storage.codec import Ints
from tidelog.storage.summary import SUMMARY, summarise_numbers

Run = tuple[Children, int, int]
"""Entries ``first`` to ``last`` (exclusive) of a node."""

_SUMMARY_WORDS = SUMMARY.itemsize // 8

_LEAVES_AT_ONCE: Final = 8
"""Leaves that are cut together: calling the kernels takes longer than they need for one leaf, and with many more the
rows do not stay in the processor's cache from one kernel to the next."""

_MANY_LEAVES: Final = 32
"""Leaves from which on other threads decode them ahead."""


@dataclass(frozen=True, slots=True)
class Cover:
    """The rows of a time range: those of whole entries, and of leaves at the ends, which are in it in part.

    ``left`` and ``right`` are block ids of leaves, the same one if the range is inside one leaf. In the order of time:
    left, runs, right.
    """

    left: int | None
    runs: tuple[Run, ...]
    right: int | None


def cover(nodes: Nodes, start: int | None, end: int | None, counters: ReadCounters | None = None) -> Cover:
    """What a time range consists of, found on a path of nodes to each of its ends (spec/event-store.md 9.2)."""
    if start is not None and end is not None and end <= start:
        return Cover(None, (), None)
    children = nodes.top
    while True:
        inside, first = _from(children, start)
        last, inside_end = _until(children, end)
        if not (first < inside and last < inside_end and first == last):
            break
        # Both ends fall into one child, and nothing else is in the range.
        if not children.levels[first]:
            return Cover(children.ids[first], (), children.ids[first])
        children = nodes.node(children.ids[first], counters)
    runs = [(children, inside, last)] if inside < last else []
    left = right = None
    if first < inside and start is not None:
        left, more = _right_of(nodes, start, children.ids[first], children.levels[first], counters)
        runs = more + runs
    if last < inside_end and end is not None:
        more, right = _left_of(nodes, end, children.ids[last], children.levels[last], counters)
        runs = runs + more
    return Cover(left, tuple(runs), right)


def _right_of(
    nodes: Nodes, start: int, id: int, level: int, counters: ReadCounters | None
) -> tuple[int | None, list[Run]]:
    """What a subtree holds from ``start`` on, which falls into it."""
    runs: list[Run] = []
    while level:
        children = nodes.node(id, counters)
        inside, first = _from(children, start)
        if inside < len(children):
            runs.append((children, inside, len(children)))
        if first == inside:
            return None, runs[::-1]
        id, level = children.ids[first], children.levels[first]
    return id, runs[::-1]


def _left_of(
    nodes: Nodes, end: int, id: int, level: int, counters: ReadCounters | None
) -> tuple[list[Run], int | None]:
    """What a subtree holds before ``end``, which falls into it."""
    runs: list[Run] = []
    while level:
        children = nodes.node(id, counters)
        last, inside = _until(children, end)
        if last:
            runs.append((children, 0, last))
        if last == inside:
            return runs, None
        id, level = children.ids[last], children.levels[last]
    return runs, id


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


def aggregate(
    nodes: Nodes, start: int | None, end: int | None, columns: Ints, counters: ReadCounters | None = None
) -> Aggregate:
    """The aggregates of some columns of the rows in a time range (spec/event-store.md 9.2)."""
    result = Aggregate(nodes.layout, columns)
    parts = cover(nodes, start, end, counters)
    left, right = parts.left, parts.right
    edges: list[Edge] = []
    if left is not None:
        edges.append((left, start, end if left == right else None))
    if right is not None and right != left:
        edges.append((right, None, end))
    entries = _leaf_entries(nodes, edges, result, counters) if edges else []
    if left is not None:
        result.add(*entries[0])
    for run in parts.runs:
        result.add(run[0].words, run[1], run[2])
    if right is not None and right != left:
        result.add(*entries[-1])
    return result


def _leaf_entries(
    nodes: Nodes, leaves: Sequence[Edge], result: Aggregate, counters: ReadCounters | None
) -> list[tuple[Words, int, int]]:
    """An entry for the rows of each leaf that are in its time range: one row, of a table of words."""
    layout = nodes.layout
    wanted = result.columns.tolist()
    numbers = nodes.numbers_between(leaves, tuple(wanted), counters)
    if numbers is None:
        entries = []
        for id, start, end in leaves:
            bounds = np.array(bounds_in(nodes.times(id, None), start, end), np.int64)
            entries.append((words_of(from_batch(layout, nodes.read(id, wanted), bounds, result.columns)), 0, 1))
        return entries
    values, cuts = numbers
    # Every other run of rows is between two leaves, and of no interest.
    summaries = np.zeros((len(wanted), len(cuts) - 1, _SUMMARY_WORDS), np.uint64)
    for place, column in enumerate(wanted):
        summarise_numbers(values[place], layout.types[column], cuts, summaries[place])
    table = result.entries_of(cuts, summaries)
    return [(table, 2 * leaf, 2 * leaf + 1) for leaf in range(len(leaves))]


def bounds_in(times: Ints, start: int | None, end: int | None) -> tuple[int, int]:
    """The first row of a time range and the one behind its last."""
    first = 0 if start is None else int(times.searchsorted(start))
    last = len(times) if end is None else int(times.searchsorted(end))
    return first, max(first, last)


def aggregates(nodes: Nodes, starts: Ints, ends: Ints, columns: Ints, counters: ReadCounters | None = None) -> Entries:
    """The aggregates of many time ranges ``[starts[i], ends[i])`` in one pass: an entry for each (child -1).

    Columns not asked for stay empty in them. Every node and leaf is visited once, however many ranges end in it;
    sums of floats may differ from those of :func:`aggregate` in the last bits, being added in another order.
    """
    layout = nodes.layout
    starts, ends = np.asarray(starts, np.int64), np.asarray(ends, np.int64)
    if starts.shape != ends.shape or starts.ndim != 1:
        raise InputError(f"found {starts.shape} starts and {ends.shape} ends, expected one array of each, equally long")
    merged = blank(layout, len(starts))
    merged["child"] = -1
    filled = ends > starts
    if not filled.any():
        return merged
    bounds = distinct(np.concatenate([starts[filled], ends[filled]]))
    parts: list[Entries] = []
    leaves: list[_CutLeaf] = []
    _cut(nodes, nodes.top, bounds, parts, leaves, counters)
    _cut_leaves(nodes, leaves, columns, parts, counters)
    atoms = joined(parts)
    lows = np.ascontiguousarray(atoms["columns"]["min"][:, layout.time]).view(np.int64)
    firsts, lasts = lows.searchsorted(starts), lows.searchsorted(ends)
    merge_all(layout, columns, atoms, firsts, np.maximum(firsts, lasts), merged)
    return merged


@dataclass(frozen=True, slots=True)
class _CutLeaf:
    """A leaf that some bounds fall into, and the place among the parts that its entries belong to."""

    place: int
    id: int
    rows: int
    bounds: Ints


def _cut(
    nodes: Nodes,
    children: Children,
    bounds: Ints,
    parts: list[Entries],
    leaves: list[_CutLeaf],
    counters: ReadCounters | None,
) -> None:
    """Entries of everything below, in order, such that no bound falls into one of them.

    Leaves that would have to be cut are only noted, with an empty part in the place of each.
    """
    lasts, firsts = np.searchsorted(children.highs, bounds), np.searchsorted(children.lows, bounds)
    done = 0
    cut = lasts < firsts
    bounds, lasts = bounds[cut], lasts[cut]
    for child in distinct(lasts).tolist():
        inside = bounds[lasts.searchsorted(child) : lasts.searchsorted(child, side="right")]
        parts.append(without_states(nodes.layout, children.entries[done:child]))
        if children.levels[child]:
            _cut(nodes, nodes.node(children.ids[child], counters), inside, parts, leaves, counters)
        else:
            rows = children.before[child + 1] - children.before[child]
            leaves.append(_CutLeaf(len(parts), children.ids[child], rows, inside))
            parts.append(blank(nodes.layout, 0))
        done = child + 1
    parts.append(without_states(nodes.layout, children.entries[done:]))


def _cut_leaves(
    nodes: Nodes, leaves: Sequence[_CutLeaf], columns: Ints, parts: list[Entries], counters: ReadCounters | None
) -> None:
    """Put entries of the rows of leaves, given in order, into their places, with their first times."""
    if len(leaves) >= _MANY_LEAVES:
        _cut_many(nodes, leaves, columns, parts, counters)
        return
    columns = np.union1d(columns, [nodes.layout.time])
    done = 0
    while done < len(leaves):
        few = leaves[done : done + _LEAVES_AT_ONCE]
        if len(few) < _LEAVES_AT_ONCE:
            few = few[:1]  # memory for one is there, see LeafNumbers
        for leaf, entries in zip(few, _cut_few(nodes, few, columns, counters), strict=True):
            parts[leaf.place] = entries
        done += len(few)


def _cut_many(
    nodes: Nodes, leaves: Sequence[_CutLeaf], columns: Ints, parts: list[Entries], counters: ReadCounters | None
) -> None:
    """:func:`_cut_leaves` of so many that they are read ahead by other threads."""
    layout = nodes.layout
    names = [layout.stored.names[column] for column in columns.tolist()]
    time = layout.stored.names[layout.time]
    first_time = WORDS_BEFORE + WORDS_OF_COLUMN * layout.time + MIN_WORD
    if counters:
        counters.leaves += len(leaves)
    done = 0
    blocks = np.array([leaf.id for leaf in leaves], np.int64)
    for batch in nodes.reader.scan_leaves(blocks, list(dict.fromkeys((*names, time)))):
        few: list[_CutLeaf] = []
        rows = 0
        while rows < batch.num_rows:  # whole leaves
            few.append(leaves[done + len(few)])
            rows += few[-1].rows
        done += len(few)
        times = integers(batch.column(time))
        cuts, ends = _cuts_of(times, few, [leaf.rows for leaf in few])
        entries = from_batch(layout, batch.select(names), cuts, columns)
        words_of(entries)[:, first_time] = times[cuts[:-1]].view(np.uint64)
        for leaf, found in zip(few, np.split(entries, cuts.searchsorted(ends[:-1])), strict=True):
            parts[leaf.place] = found


def _cuts_of(times: Ints, leaves: Sequence[_CutLeaf], rows: Sequence[int]) -> tuple[Ints, Ints]:
    """Where the rows of leaves, one behind the other, are cut, and where each leaf ends.

    No bound of a leaf is at or before a time of an earlier leaf: all are found in all times at once.
    """
    ends = np.cumsum(rows)
    bounds = times.searchsorted(np.concatenate([leaf.bounds for leaf in leaves]))
    return distinct(np.concatenate([[0], bounds, ends])), ends


def _cut_few(
    nodes: Nodes, leaves: Sequence[_CutLeaf], columns: Ints, counters: ReadCounters | None
) -> Sequence[Entries]:
    """The entries of each of some leaves, cut at its bounds. The time is one of the columns."""
    layout = nodes.layout
    wanted = columns.tolist()
    numbers = nodes.numbers([leaf.id for leaf in leaves], tuple(wanted), counters)
    if numbers is None:
        found = []
        for leaf in leaves:
            times = nodes.times(leaf.id, None)
            cuts = distinct(np.concatenate([[0], times.searchsorted(leaf.bounds), [len(times)]]))
            found.append(from_batch(layout, nodes.read(leaf.id, wanted), cuts, columns))
        return found
    values, rows = numbers
    cuts, ends = _cuts_of(values[wanted.index(layout.time)], leaves, rows)
    return np.split(from_numbers(layout, values, cuts, columns), cuts.searchsorted(ends[:-1]))
