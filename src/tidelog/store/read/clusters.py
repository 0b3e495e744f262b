"""The rows of a time range by their places in the order of (time, ``_seq``), as far as entries tell them.

Parts are cut into stretches (:mod:`tidelog.store.read.parts.stretches`). Those that overlap, of splits that were
written side by side, or of late rows, are a *cluster*: which places its rows have among each other only they can tell.
All others are a cluster each. So the places of the first rows of clusters are known without a look at any row, and
whoever asks for places in between has that cluster read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.index.entries import Words
from tidelog.index.layout import Layout
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.model.arrays import distinct, integer_column, integers
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.model.times.interval import Interval
from tidelog.model.times.intervals import Intervals
from tidelog.store.read.parts.stretches import NO_LEAF, WHOLE
from tidelog.store.read.scan import scan
from tidelog.store.read.snapshot import Snapshot
from tidelog.store.rows.stored import Ints

Mask = npt.NDArray[np.bool_]


@final
@dataclass(frozen=True, slots=True)
class KnownStretches:
    """Stretches of one part, with the words of entries of its layout."""

    clusters: Ints
    """Which cluster each is in."""
    layout: Layout
    words: Words


@final
@dataclass(frozen=True, slots=True)
class ReadStretches:
    """Stretches of one part, and their rows one behind the other."""

    clusters: Ints
    """Which cluster each is in."""
    rows: Ints
    """How many each has."""
    batches: Iterator[pa.RecordBatch]


@final
class Clusters:
    """The clusters of the rows of a snapshot in a time range, in order."""

    def __init__(self, snapshot: Snapshot, within: Interval, counters: ReadCounters, *, apart: bool = False) -> None:
        """With ``apart`` stretches are clusters of their own, for those to whom the order of rows means nothing."""
        self._snapshot = snapshot
        self._within = within
        self._counters = counters
        living = snapshot.living
        start, reached = living.in_range(within.start, within.end)
        found = [(part, part.stretches(start, within.end, counters)) for part in reached]
        found = [(part, own) for part, own in found if len(own)]
        self._parts = [part for part, _ in found]
        self._stretches = [own for _, own in found]
        counts = [len(own) for own in self._stretches]
        part_of = np.repeat(np.arange(len(counts)), counts)
        place_of = np.concatenate([np.arange(count) for count in (0, *counts)])
        firsts, lasts, rows, leaves, skipped = (
            np.concatenate([np.empty(0, np.int64), *(getattr(own, name) for own in self._stretches)])
            for name in ("firsts", "lasts", "rows", "leaves", "skipped")
        )
        order = np.lexsort((place_of, part_of, firsts))
        self._part_of, self._place_of = part_of[order], place_of[order]
        self._first_times, self._last_times, self._leaves = firsts[order], lasts[order], leaves[order]
        self._skipped = skipped[order]
        self._are_told: Mask = self._skipped == WHOLE
        """Of which stretches entries tell."""
        begins = np.arange(len(order)) if apart else np.flatnonzero(self._is_begin())
        self._cuts: Ints = np.append(begins, len(order))
        """The first stretch of each cluster, and the number of stretches."""
        self._cluster_of = np.repeat(np.arange(len(begins)), np.diff(self._cuts))
        self.rows: Ints = np.add.reduceat(rows[order], begins) if len(begins) else begins
        self.firsts: Ints = self._first_times[begins]
        """The times of their first rows."""
        self.lasts: Ints = np.maximum.reduceat(self._last_times, begins) if len(begins) else begins
        """The times of their last rows."""
        self.before: Ints = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.rows)])
        """How many rows are before each cluster, and in all."""
        self.are_mixed: Mask = np.diff(self._cuts) > 1
        """Which are several stretches."""
        self.are_leaves: Mask = ~self.are_mixed & self._are_told[begins]
        """Which are one leaf, of which entries tell."""

    def __len__(self) -> int:
        return len(self.rows)

    def _is_begin(self) -> Mask:
        """Which stretches, in the order of their first times, come behind all rows of those before them."""
        firsts, lasts, parts = self._first_times, self._last_times, self._part_of
        found = np.ones(len(firsts), np.bool_)
        found[1:] = np.maximum.accumulate(lasts)[:-1] < firsts[1:]
        # Leaves of one tree are in order also where several have rows of one time, if nothing else has such rows.
        are_leaves = self._leaves != NO_LEAF
        pairs = (parts[1:] == parts[:-1]) & are_leaves[1:] & are_leaves[:-1]
        ties = 1 + np.flatnonzero((firsts[1:] == lasts[:-1]) & pairs)
        if not len(ties):
            return found
        times = firsts[ties]
        every = _touching(firsts, np.sort(lasts), times)
        for part in distinct(parts[ties]).tolist():
            own = are_leaves & (parts == part)
            chosen = parts[ties] == part
            alone = _touching(firsts[own], lasts[own], times[chosen]) == every[chosen]
            found[ties[chosen]] |= alone
        return found

    def known(self, chosen: Mask) -> Iterator[KnownStretches]:
        """What entries tell of chosen clusters."""
        mine = chosen[self._cluster_of] & self._are_told
        for part in distinct(self._part_of[mine]).tolist():
            own = mine & (self._part_of == part)
            words = self._stretches[part].words[self._place_of[own]]
            yield KnownStretches(self._cluster_of[own], self._parts[part].layout, words)

    def read(self, chosen: Mask, columns: Sequence[str], *, told: bool) -> Iterator[ReadStretches]:
        """The rows of chosen clusters that entries tell of, or those of which they do not."""
        mine = chosen[self._cluster_of] & (self._are_told == told)
        for part in distinct(self._part_of[mine]).tolist():
            own = np.flatnonzero(mine & (self._part_of == part))
            own = own[np.argsort(self._place_of[own], kind="stable")]
            if told:
                rows = self._parts[part].leaf_rows(self._leaves[own], columns, self._counters)
                yield self._of(own, rows)
                continue
            # One behind the other they are read together, but for parts of leaves.
            is_new = (np.diff(self._place_of[own]) != 1) | (self._leaves[own] != NO_LEAF)[1:]
            is_new |= (self._leaves[own] != NO_LEAF)[:-1]
            for some in np.split(own, np.flatnonzero(is_new) + 1):
                yield self._of(some, self._unread(some, columns))

    def _of(self, chosen: Ints, batches: Iterator[pa.RecordBatch]) -> ReadStretches:
        part, places = int(self._part_of[chosen[0]]), self._place_of[chosen]
        return ReadStretches(self._cluster_of[chosen], self._stretches[part].rows[places], batches)

    def _unread(self, chosen: Ints, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of stretches of a part that stand one behind the other, or of one that is part of a leaf."""
        first, last = int(chosen[0]), int(chosen[-1])
        part = self._parts[int(self._part_of[first])]
        if self._leaves[first] == NO_LEAF:
            low, high = int(self._first_times[first]), int(self._last_times[last])
            yield from part.scan(low, high + 1, columns, None, self._counters)
            return
        rows = int(self._stretches[int(self._part_of[first])].rows[self._place_of[first]])
        for batch in part.leaf_rows(self._leaves[chosen], columns, self._counters):
            yield batch.slice(int(self._skipped[first]), rows)  # of one leaf there is one

    def in_order(self, cluster: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of a cluster in the order of (time, ``_seq``)."""
        first, last = int(self.firsts[cluster]), int(self.lasts[cluster])
        is_behind = cluster == 0 or self.lasts[cluster - 1] < first
        is_before = cluster == len(self) - 1 or self.firsts[cluster + 1] > last
        if is_behind and is_before:
            times = Intervals((Interval(first, last + 1),)) & self._within
            yield from scan(self._snapshot, times, columns, None, None, self._counters)
            return
        # Others have rows of the same time: those of its own are sorted.
        layout = self._snapshot.layout
        names = list(dict.fromkeys((*columns, layout.schema.time, SEQUENCE_COLUMN)))
        chosen = np.arange(len(self)) == cluster
        parts = [each for told in (True, False) for each in self.read(chosen, names, told=told)]
        schema = pa.schema([layout.stored.field(name) for name in names])
        whole = pa.Table.from_batches([batch for each in parts for batch in each.batches], schema).combine_chunks()
        for batch in whole.to_batches():
            keys = integers(batch.column(SEQUENCE_COLUMN)), integers(batch.column(layout.schema.time))
            yield batch.take(integer_column(np.lexsort(keys))).select(list(columns))


def _touching(firsts: Ints, lasts: Ints, times: Ints) -> Ints:
    """How many stretches, given by times of first and of last rows, both sorted, may have rows of some times."""
    return firsts.searchsorted(times, side="right") - lasts.searchsorted(times)
