"""The tree over the splits of a stream: finds those in a time range, and merges what they say of their rows.

Parts are ordered by their first times. Splits come with an entry each, the aggregates of all of their rows, and groups
of splits, and groups of groups, have merged ones. So a range over any number of splits opens those at its ends alone.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter
from typing import Final, final

import numpy as np
import numpy.typing as npt

from tidelog.index import kernels
from tidelog.index.aggregate import Aggregate
from tidelog.index.entries import Entries, Words, blank, entry_dtype, words_of
from tidelog.index.layout import Layout
from tidelog.index.ranges import merge_all
from tidelog.index.states import States, StoredState
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.store.read.parts.part import Part
from tidelog.store.read.parts.split_states import SplitStates
from tidelog.store.rows.stored import Ints

_KNOWN_PLANS: Final = 64
"""Sets of user-defined aggregates that states of whole splits are kept for."""

_GROUP: Final = 64
"""Entries that a level has for each one of the next."""


@final
class PartIndex:
    """The parts of a snapshot by time. Never changes."""

    def __init__(self, layout: Layout, parts: Sequence[Part]) -> None:
        self._layout = layout
        self._parts = sorted(parts, key=attrgetter("first", "last"))
        self._firsts = [part.first for part in self._parts]
        self._reached = list(itertools.accumulate((part.last for part in self._parts), max))
        """The last time of each part or one before it; it never falls, as the last times alone may."""
        self._lasts: Ints = np.array([part.last for part in self._parts], np.int64)
        self._levels: list[Words] | None = None
        self._states: dict[tuple[StoredState, ...], SplitStates] = {}
        self._size = entry_dtype(len(layout.kinds)).itemsize
        """Bytes of an entry without states of user-defined aggregates, which splits have different ones of."""

    def reaching(self, start: int | None, end: int | None) -> list[Part]:
        """The parts that have rows in ``[start, end)``, or may have them, in the order of their first times."""
        low, high = self._bounds(start, end)
        parts = self._parts[low:high]
        return parts if start is None else [part for part in parts if part.last >= start]

    def whole_states(self, start: int | None, end: int | None, plan: States) -> tuple[Words, list[Part]]:
        """States of the splits that are whole in a time range, as rows to be merged, and the other parts in it.

        Only those are among the first whose states, all that are planned, the manifest knows.
        """
        known = self._states.get(plan.kept)
        if known is None:
            if len(self._states) >= _KNOWN_PLANS:
                self._states.clear()
            known = self._states[plan.kept] = SplitStates(self._parts, plan)
        low, high = self._bounds(start, end)
        inside = np.zeros(len(self._parts), np.bool_)
        inside[low:high] = True
        if start is not None:
            inside &= self._lasts >= start
        whole = inside & known.known
        if start is not None:
            whole &= np.asarray(self._firsts, np.int64) >= start
        if end is not None:
            whole &= self._lasts < end
        return known.table(whole), [self._parts[place] for place in np.flatnonzero(inside & ~whole).tolist()]

    def _bounds(self, start: int | None, end: int | None) -> tuple[int, int]:
        low = 0 if start is None else bisect_left(self._reached, start)
        high = len(self._parts) if end is None else bisect_left(self._firsts, end)
        return low, high

    def aggregate(self, start: int | None, end: int | None, columns: Ints, counters: ReadCounters) -> Aggregate:
        """The aggregates of some columns of all rows in a time range, in which no row may be deleted.

        All parts must have the layout's schema.
        """
        low, high = self._bounds(start, end)
        if high - low == 1:
            return self._parts[low].aggregate(start, end, columns, counters)
        total: Aggregate | None = None
        is_own, run = False, low
        for place in range(low, high + 1):
            # Whole splits wait until one of the others comes, and are merged together.
            if place < high and self._is_whole(place, start, end):
                continue
            if run < place:
                if total is None or not is_own:
                    total = Aggregate(self._layout, columns) if total is None else total.copied(columns)
                    is_own = True
                self._merge(run, place, total)
            run = place + 1
            if place == high or (start is not None and self._parts[place].last < start):
                continue
            found = self._parts[place].aggregate(start, end, columns, counters)
            if not found.rows:
                continue
            if total is None:
                total = found  # which may be all there is, and may belong to the part
                continue
            if not is_own:
                total, is_own = total.copied(columns), True
            total.merge(found)
        return Aggregate(self._layout, columns) if total is None else total

    def aggregates(self, starts: Ints, ends: Ints, columns: Ints, counters: ReadCounters) -> Entries:
        """:meth:`aggregate` of many time ranges ``[starts[i], ends[i])``, an entry for each.

        A part is asked about the ranges that begin or end in it, all of them at once; splits that are whole in a range
        are merged by their entries. Takes memory for a few entries of each range, however many parts there are.
        """
        total = blank(self._layout, len(starts))
        firsts, known = np.array(self._firsts, np.int64), self._known()
        lows, highs = firsts.searchsorted(starts), firsts.searchsorted(ends)
        breaks: list[Ints] = []
        """Of parts among those that begin in a range, the ones that are not taken whole: rows of range and place."""
        for place in range(*self._bounds(int(starts.min()), int(ends.max()))) if len(starts) else ():
            reached = (starts <= self._lasts[place]) & (ends > firsts[place]) & (starts < ends)
            if known[place]:
                reached &= (starts > firsts[place]) | (ends <= self._lasts[place])
            chosen = np.flatnonzero(reached)
            if len(chosen):
                found = self._parts[place].aggregates(starts[chosen], ends[chosen], columns, counters)
                own, at = total[chosen], np.arange(len(chosen), dtype=np.int64)
                merge_all(self._layout, columns, found, at, at + 1, own)
                total[chosen] = own
                inside = chosen[starts[chosen] <= firsts[place]]
                breaks.append(np.stack([inside, np.full(len(inside), place)], axis=1))
        self._merge_whole(lows, np.maximum(lows, highs), breaks, columns, total)
        return total

    def _merge_whole(self, lows: Ints, highs: Ints, breaks: Sequence[Ints], columns: Ints, total: Entries) -> None:
        """Take in, for each range, the entries of the splits from one place to another, but for those at breaks."""
        ranges = np.arange(len(lows), dtype=np.int64)
        between = np.concatenate([np.empty((0, 2), np.int64), *breaks])
        # A run begins at the start of a range and behind every break, and ends at the next break, or at the end.
        owners = np.concatenate([ranges, between[:, 0]])
        begins = np.concatenate([lows, between[:, 1] + 1])
        order = np.lexsort((begins, owners))
        owners, begins = owners[order], begins[order]
        stops = np.empty_like(begins)
        stops[:-1] = begins[1:] - 1
        is_last = np.append(owners[1:] != owners[:-1], True)
        stops[is_last] = highs[owners[is_last]]
        runs = np.flatnonzero(stops > begins)
        if not len(runs):
            return
        found = blank(self._layout, len(runs))
        entries = self._entries()[0].view(entry_dtype(len(self._layout.kinds)))[:, 0]
        merge_all(self._layout, columns, entries, begins[runs], stops[runs], found)
        cuts = np.searchsorted(owners[runs], np.arange(len(lows) + 1))
        merge_all(self._layout, columns, found, cuts[:-1], cuts[1:], total)

    def _known(self) -> npt.NDArray[np.bool_]:
        """Which parts are splits whose aggregates the manifest knows."""
        return np.array([len(part.manifest_entry) >= self._size for part in self._parts])

    def _is_whole(self, place: int, start: int | None, end: int | None) -> bool:
        part = self._parts[place]
        inside = (start is None or part.first >= start) and (end is None or part.last < end)
        return inside and len(part.manifest_entry) >= self._size

    def _merge(self, first: int, last: int, total: Aggregate) -> None:
        """Take in the splits from one place to another (exclusive)."""
        if first >= last:
            return
        levels = self._entries()
        ahead: list[tuple[Words, int, int]] = []
        for words in levels:
            start, stop = -(-first // _GROUP), last // _GROUP
            if start >= stop or words is levels[-1]:
                total.add(words, first, last)
                break
            total.add(words, first, start * _GROUP)
            ahead.append((words, stop * _GROUP, last))
            first, last = start, stop
        for words, first, last in reversed(ahead):
            total.add(words, first, last)

    def _entries(self) -> list[Words]:
        """The entries of all parts, zeros for those that have none, and those of groups, level by level."""
        if self._levels is None:
            nothing = bytes(self._size)
            entries = (part.manifest_entry for part in self._parts)
            whole = b"".join(entry[: self._size] if len(entry) >= self._size else nothing for entry in entries)
            levels: list[Words] = [np.frombuffer(whole, np.uint64).reshape(len(self._parts), self._size // 8)]
            while len(levels[-1]) > _GROUP:
                below = levels[-1]
                groups = words_of(blank(self._layout, -(-len(below) // _GROUP)))
                starts = np.arange(0, len(below), _GROUP, dtype=np.int64)
                stops = np.minimum(starts + _GROUP, len(below))
                kernels.merge_ranges(below, starts, stops, self._layout.kinds, self._layout.columns, groups)
                levels.append(groups)
            self._levels = levels
        return self._levels
