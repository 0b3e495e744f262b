"""States of slices of a stream: from entries of its trees, and from rows where slices begin or end inside of leaves.

A slice is all rows between two places, which are times or ranks in the order of (time, ``_seq``). Many of them, one
behind the other, are asked for at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.aggregates.base import Cuts, States
from tidelog.aggregates.contract import UNKNOWN, Fold, Value
from tidelog.expr import UserCall
from tidelog.index.entries import entry_dtype, from_batch, words_of
from tidelog.index.layout import Layout
from tidelog.index.narrow import NarrowEntries
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.model.arrays import distinct, integers
from tidelog.model.times.interval import Interval
from tidelog.operators.base import Ints
from tidelog.store.read.aggregates.aggregation import Question
from tidelog.store.read.aggregates.entry_fold import EntryFold
from tidelog.store.read.clusters import Clusters, KnownStretches
from tidelog.store.read.snapshot import Snapshot

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Sample:
    """A few leaves one behind the other, to measure on."""

    whole: Ints
    """Edges between leaves."""
    cut: Ints
    """Edges that cut every leaf, but for the first and the last one, which are those of all of it."""
    times: tuple[int, int]
    """The first time, and the first one behind."""
    rows: int
    """About how many there are."""


class Unknown(Exception):
    """Entries do not tell values that are asked for: rows have to."""


def _sample(bounds: Ints, times: Ints, rows: int) -> Sample | None:
    """What lies between bounds of leaves, which are at some times."""
    if (np.diff(bounds) < 2).any() or times[0] == times[-1]:
        return None
    middles = bounds[:-1] + np.diff(bounds) // 2
    cut = np.concatenate([bounds[:1], middles, bounds[-1:]])
    return Sample(bounds, cut, (int(times[0]), int(times[-1])), rows)


@final
class EntryStates(Fold):
    """Entries in which several columns are filled, merged at once; other folds take their values from them.

    Its states are words (:mod:`tidelog.index.narrow`).
    """

    def __init__(self, layout: Layout, places: Ints) -> None:
        self._layout = layout
        self.narrow = NarrowEntries(layout, places)

    @property
    def columns(self) -> tuple[str, ...]:
        """Those at the places."""
        return tuple(self._layout.stored.names[each] for each in self.narrow.columns.tolist())

    @property
    def type(self) -> pa.DataType | None:
        """There is no value."""
        return None

    def start(self) -> States:
        """An entry of no rows."""
        return np.zeros((1, self.narrow.width), np.uint64)

    def lift(self, rows: pa.RecordBatch, cuts: Cuts) -> States:
        """The entries of runs of rows."""
        return self.narrow.of(words_of(from_batch(self._layout, rows.select(self.columns), cuts, self.narrow.columns)))

    def merge(self, states: States, cuts: Cuts) -> States:
        """The entries of runs of entries."""
        return self.narrow.merge(states, cuts)

    def plus(self, states: States, others: States) -> States:
        """Pairs of entries merged."""
        return self.narrow.plus(states, others)

    def scan(self, states: States, cuts: Cuts, *, backward: bool = False) -> States:
        """Running merges, by a kernel."""
        return self.narrow.scan(states, cuts, backward=backward)

    def lower(self, states: States) -> list[Value]:
        """Entries alone tell no value."""
        return [UNKNOWN] * len(states)


class Slices(ABC):
    """What is asked of slices: one question, of the rows of a snapshot in a time range."""

    def __init__(
        self, snapshot: Snapshot, question: Question, interval: Interval, counters: ReadCounters, columns: Ints
    ) -> None:
        self.snapshot = snapshot
        self.interval = interval
        self.counters = counters
        self.entries = EntryStates(snapshot.layout, columns)
        self._readings = question.readings
        self._calls = {
            place: each.fold for place, each in enumerate(question.readings) if isinstance(each.fold, UserCall)
        }
        self.folds: list[Fold] = [self.entries, *self._calls.values()]
        """What the states are of; the first ones are those of entries."""

    @abstractmethod
    def between(self, edges: Ints) -> list[States]:
        """The states of all slices between edges, which rise, for each fold."""

    @abstractmethod
    def sample(self, leaves: int, leaf_rows: int) -> Sample | None:
        """So many leaves in the middle; None if there are too few."""

    def rows(self, states: Sequence[States]) -> Ints:
        """How many rows states stand for."""
        return states[0][:, 1].astype(np.int64)

    def values(self, states: Sequence[States]) -> list[pa.Array]:
        """The values of all calls but the last, which counts rows. Raises :class:`Unknown`."""
        whole = self.entries.narrow.whole(states[0])
        own = dict(zip(self._calls, states[1:], strict=True))
        found = []
        for place, each in enumerate(self._readings[:-1]):
            if isinstance(each.fold, EntryFold):
                told = each.fold.told(whole)
                if told is None:
                    raise Unknown
                found.append(told)
            else:
                found.append(each.fold.lower_column(own[place]))
        return found


@final
class EntrySlices(Slices):
    """Slices of time of which entries know all that is asked: only nodes above their ends are looked at."""

    def between(self, edges: Ints) -> list[States]:
        """One pass over the trees for all slices."""
        return self.of(edges[:-1], edges[1:])

    def of(self, starts: Ints, ends: Ints) -> list[States]:
        """The states of any ranges of time."""
        living = self.snapshot.living
        for least in (self.interval.start, living.manifest.deleted_before):
            if least is not None:
                starts = np.maximum(starts, least)
        if self.interval.end is not None:
            ends = np.minimum(ends, self.interval.end)
        columns = self.entries.narrow.columns
        found = living.index.aggregates(starts, np.maximum(starts, ends), columns, self.counters)
        return [self.entries.narrow.of(words_of(found))]

    def sample(self, leaves: int, leaf_rows: int) -> Sample | None:
        """Of the largest split."""
        part = max(self.snapshot.parts, key=lambda part: part.rows, default=None)
        if part is None or not part.has_rows or part.in_memory or part.rows < 2 * leaves * leaf_rows:
            return None
        at = [part.rows // 2 + leaf_rows * leaf for leaf in range(leaves + 1)]
        bounds = np.array([part.times_near(each, self.counters)[0] for each in at], np.int64)
        return _sample(bounds, bounds, leaves * leaf_rows)


@final
class StretchSlices(Slices):
    """Slices by the stretches of parts: of time, or of ranks; user-defined aggregates have their kept states.

    The entries of all leaves are looked at, and rows of those that slices cut.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        question: Question,
        interval: Interval,
        counters: ReadCounters,
        columns: Ints,
        *,
        by_rank: bool,
    ) -> None:
        super().__init__(snapshot, question, interval, counters, columns)
        self._by_rank = by_rank
        self.clusters = Clusters(snapshot, interval, counters, apart=not by_rank)
        time = snapshot.layout.schema.time
        names = [name for fold in self.folds for name in fold.columns]
        self._names = list(dict.fromkeys([*names, time]))
        known = self.clusters
        self._lows: Ints = known.before[:-1] if by_rank else known.firsts
        self._highs: Ints = known.before[1:] - 1 if by_rank else known.lasts
        """The places of first and last rows."""
        self._untold: Mask = np.zeros(len(known), np.bool_)
        """Clusters of which entries do not know all states: computed where the code of an aggregate was missing."""
        for each in known.known(~self._untold) if self._calls else ():
            for call, states in zip(self._calls.values(), self._states(each)[1:], strict=True):
                self._untold[each.clusters[call.states.is_unknown(states)]] = True

    @property
    def count(self) -> int:
        """How many rows there are."""
        return int(self.clusters.before[-1])

    def cut_by(self, edges: Ints) -> Mask:
        """Which clusters some edges fall into."""
        return edges.searchsorted(self._lows, side="right") < edges.searchsorted(self._highs, side="right")

    def sample(self, leaves: int, leaf_rows: int) -> Sample | None:
        """Clusters in the middle."""
        first = len(self.clusters) // 2
        chosen = slice(first, first + leaves + 1)
        if len(self.clusters) < 2 * leaves or not self.clusters.are_leaves[chosen].all():
            return None
        rows = int(self.clusters.rows[chosen][:-1].sum())
        return _sample(self._lows[chosen], self.clusters.firsts[chosen], rows)

    def between(self, edges: Ints) -> list[States]:
        """Stretches between edges as they are, others by their rows."""
        known = self.clusters
        wanted = (self._highs >= edges[0]) & (self._lows < edges[-1])
        cut = (self.cut_by(edges) | self._untold) & wanted
        atoms = _Atoms(self.folds, len(edges) - 1)
        slice_of = edges.searchsorted(self._lows, side="right") - 1
        for each in known.known(wanted & ~cut):
            atoms.add(slice_of[each.clusters], self._states(each))
        if not self._by_rank:
            for told, chosen in ((True, cut), (False, wanted)):
                for read in known.read(chosen, self._names, told=told):
                    self._lift_times(atoms, read.batches, edges)
            return atoms.merged()
        for read in known.read(wanted & ~cut, self._names, told=False):
            cuts = np.concatenate([np.zeros(1, np.int64), np.cumsum(read.rows)])
            atoms.lift(read.batches, cuts, slice_of[read.clusters])
        alone = cut & known.are_leaves
        for read in known.read(alone, self._names, told=True):
            atoms.lift(read.batches, *self._cuts(read.clusters, edges))
        for cluster in np.flatnonzero(cut & ~alone).tolist():
            batches = known.in_order(cluster, self._names)
            atoms.lift(batches, *self._cuts(np.array([cluster], np.int64), edges))
        return atoms.merged()

    def _cuts(self, clusters: Ints, edges: Ints) -> tuple[Ints, Ints]:
        """Where edges cut the rows of clusters that stand one behind the other, and which slices lie between."""
        before, rows = self.clusters.before[clusters], self.clusters.rows[clusters]
        offsets = np.cumsum(rows) - rows
        place = before.searchsorted(edges, side="right") - 1
        inside = (place >= 0) & (edges - before[place] < rows[place])
        cuts = distinct(np.concatenate([offsets, (offsets[place] + edges - before[place])[inside]]))
        at = offsets.searchsorted(cuts, side="right") - 1
        slices = edges.searchsorted(before[at] + cuts - offsets[at], side="right") - 1
        return np.append(cuts, rows.sum()), slices

    def _lift_times(self, atoms: _Atoms, batches: Iterator[pa.RecordBatch], edges: Ints) -> None:
        """Take in rows in the order of time."""
        time = self.snapshot.layout.schema.time
        for batch in batches:
            if not batch.num_rows:
                continue
            times = integers(batch.column(time))
            low, high = edges.searchsorted([times[0], times[-1]], side="right")
            inner = distinct(times.searchsorted(edges[low:high]))
            cuts = np.concatenate([np.zeros(1, np.int64), inner[inner > 0], [batch.num_rows]])
            slices = edges.searchsorted(times[cuts[:-1]], side="right") - 1
            atoms.lift(iter([batch]), cuts, slices)

    def _states(self, known: KnownStretches) -> list[States]:
        """The states of stretches."""
        before = entry_dtype(len(known.layout.kinds)).itemsize // 8
        kept, states = known.words[:, before:], known.layout.states
        own = [kept[:, states.words_of(call.states)] for call in self._calls.values()]
        return [self.entries.narrow.of(known.words), *own]


@final
class _Atoms:
    """States of stretches and of runs of rows, to be merged into those of slices."""

    def __init__(self, folds: Sequence[Fold], slices: int) -> None:
        self._folds = folds
        self._count = slices
        self._slices: list[Ints] = [np.empty(0, np.int64)]
        self._states: list[list[States]] = [[fold.start()[:0] for fold in folds]]

    def add(self, slices: Ints, states: list[States]) -> None:
        """Take in states, each of a part of some slice; those outside of all slices are left out."""
        inside = (slices >= 0) & (slices < self._count)
        if not inside.all():
            slices, states = slices[inside], [own[inside] for own in states]
        self._slices.append(slices)
        self._states.append(states)

    def lift(self, batches: Iterator[pa.RecordBatch], cuts: Ints, slices: Ints) -> None:
        """Take in rows, all of which are cut into runs, each of which is part of a slice."""
        done = 0
        for batch in batches:
            rows = batch.num_rows
            low, high = cuts.searchsorted([done, done + rows], side="right")
            own = np.concatenate([[0], cuts[low:high] - done, [rows]])
            own = own[: -1 if own[-2] == rows else None]
            self.add(slices[low - 1 : low - 1 + len(own) - 1], [fold.lift(batch, own) for fold in self._folds])
            done += rows

    def merged(self) -> list[States]:
        """The states of all slices."""
        slices = np.concatenate(self._slices)
        order = np.argsort(slices, kind="stable")
        cuts = slices[order].searchsorted(np.arange(self._count + 1))
        parts = zip(*self._states, strict=True)
        return [fold.merge(np.concatenate(own)[order], cuts) for fold, own in zip(self._folds, parts, strict=True)]
