"""How far a reader that goes by sequence numbers gets with so many rows.

Most numbers have no rows: a tail reserves them by the billion, rows are overwritten, and time ranges leave others out.
So it is rows that are counted, and gaps between them are passed in one step.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from tidelog.index.tabtree.counters import ReadCounters
from tidelog.model.times.interval import Interval
from tidelog.store.manifest.manifest import Deletion
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.read.parts.part import Part, may_delete
from tidelog.store.read.snapshot import Snapshot
from tidelog.store.rows.stored import Ints

_WHOLE: Final = -1
"""The level of a part as a whole, above all of its nodes."""


def first_rows(
    snapshot: Snapshot,
    numbers: SeqSet,
    most: int,
    start: int | None = None,
    end: int | None = None,
    without: Sequence[Deletion] = (),
    counters: ReadCounters | None = None,
) -> SeqSet:
    """The beginning of a set of numbers up to the row, not included, that would be one too many.

    Exactly ``most`` rows of the snapshot have numbers in it; if no more rows than these have any of the numbers, it is
    the whole set. Rows count whose time is in the range, unless ``without`` says that they are as good as deleted;
    coarse ones are passed over. Reads nodes only where numbers of rows are mixed with others, and leaves, of which
    times and numbers are read, only if their numbers are not dense, or if their rows do not count all alike.
    """
    start, parts = snapshot.in_range(start, end)
    wanted = [part for part in parts if part.has_rows and numbers.overlaps(*part.numbers)]
    if sum(part.rows for part in wanted) <= most:
        return numbers
    counting = _Counting(numbers, most + 1, Interval(start, end), counters or ReadCounters())
    for part in wanted:
        deletions = [deletion for deletion in snapshot.manifest.deletions if may_delete(deletion, part)]
        own = [deletion for deletion in without if deletion.touches(part.first, part.last, *part.numbers)]
        counting.add(part, [*deletions, *own])
    bound = counting.last()
    return numbers if bound is None else numbers & SeqSet.below(bound)


def about_rows(snapshot: Snapshot, numbers: SeqSet) -> int:
    """About how many rows have one of some numbers; those count too that deletions of single ranges hide.

    Reads nodes where only some of the numbers are wanted, and no leaves.
    """
    counters = ReadCounters()

    def below(part: Part, node: int | None) -> int:
        found = part.numbered(node, counters)
        count = 0
        for child in np.flatnonzero(numbers.overlap_each(found.lows, found.highs)).tolist():
            low, high, rows = int(found.lows[child]), int(found.highs[child]), int(found.rows[child])
            if numbers.covers(low, high):
                count += rows
            elif found.levels[child] and high - low + 1 != rows:
                count += below(part, found.ids[child])
            else:
                count += min(rows, (numbers & SeqSet([(low, high + 1)])).count)
        return count

    total = 0
    for part in snapshot.parts:
        if numbers.covers(*part.numbers):
            total += part.rows
        elif part.has_rows and numbers.overlaps(*part.numbers):
            if part.shape() is None:  # in memory, where rows are counted as fast as estimated
                total += int(numbers.contains(part.numbers_of_leaf(0, counters)[1]).sum())
            else:
                total += below(part, None)
    return total


class _Source(NamedTuple):
    """A part, and what deletes some of its rows."""

    part: Part
    deletions: list[Deletion]


class _Subtree(NamedTuple):
    """Rows that are waiting to be counted, ordered by the smallest number that one of them may have."""

    low: int
    order: int
    """That they came in: makes each different."""
    high: int
    first: int
    last: int
    rows: int
    id: int
    level: int
    source: _Source


class _Counting:
    """Finds the smallest numbers of rows, subtree by subtree in the order of their smallest numbers."""

    def __init__(self, numbers: SeqSet, count: int, interval: Interval, counters: ReadCounters) -> None:
        self._numbers = numbers
        self._count = count
        self._interval = interval
        self._counters = counters
        self._waiting: list[_Subtree] = []
        self._starts: Ints = np.empty(0, np.int64)
        """Where runs of numbers that were found begin, in order; no more than are looked for."""
        self._ends: Ints = np.empty(0, np.int64)
        self._order = 0

    def add(self, part: Part, deletions: list[Deletion]) -> None:
        """Count the rows of a part."""
        self._wait(*part.numbers, part.first, part.last, part.rows, 0, _WHOLE, _Source(part, deletions))

    def last(self) -> int | None:
        """The last one of so many numbers as are looked for; None if there are fewer."""
        bound: int | None = None
        while self._waiting and (bound is None or self._waiting[0].low <= bound):
            found = 0
            runs: list[tuple[Ints, Ints]] = []
            # As many rows at a time as are looked for: what is known is put in order once for all of them.
            while self._waiting and found < self._count and (bound is None or self._waiting[0].low <= bound):
                starts, ends = self._looked_at(heapq.heappop(self._waiting))
                found += int((ends - starts).sum())
                runs.append((starts, ends))
            bound = self._keep(runs)
        return bound

    def _wait(
        self, low: int, high: int, first: int, last: int, rows: int, id: int, level: int, source: _Source
    ) -> None:
        if not self._numbers.overlaps(low, high) or not self._interval.overlaps(Interval(first, last + 1)):
            return
        if any(_covers(deletion, first, last, low, high) for deletion in source.deletions):
            return
        self._order += 1
        heapq.heappush(self._waiting, _Subtree(low, self._order, high, first, last, rows, id, level, source))

    def _looked_at(self, subtree: _Subtree) -> tuple[Ints, Ints]:
        """The numbers of a subtree, as runs; none if its children wait in its place."""
        part, deletions = subtree.source
        low, high = subtree.low, subtree.high
        is_dense = high - low + 1 == subtree.rows
        is_inside = self._interval.contains(subtree.first) and self._interval.contains(subtree.last)
        if (
            is_dense
            and is_inside
            and not any(deletion.touches(subtree.first, subtree.last, low, high) for deletion in deletions)
        ):
            chosen = (self._numbers & SeqSet([(low, high + 1)])).spans
            return np.array([run[0] for run in chosen], np.int64), np.array([run[1] for run in chosen], np.int64)
        if subtree.level == 0:
            return self._runs(*part.numbers_of_leaf(subtree.id, self._counters), deletions)
        below = part.numbered(None if subtree.level == _WHOLE else subtree.id, self._counters)
        for child in np.flatnonzero(self._numbers.overlap_each(below.lows, below.highs)).tolist():
            self._wait(
                int(below.lows[child]), int(below.highs[child]), below.firsts[child], below.lasts[child],
                int(below.rows[child]), below.ids[child], below.levels[child], subtree.source,
            )  # fmt: skip
        return _NO_RUNS

    def _runs(self, at: Ints, numbers: Ints, deletions: Sequence[Deletion]) -> tuple[Ints, Ints]:
        """The numbers of rows that count."""
        counts = self._numbers.contains(numbers)
        if self._interval.start is not None:
            counts &= at >= self._interval.start
        if self._interval.end is not None:
            counts &= at < self._interval.end
        for deletion in deletions:
            counts &= ~deletion.mask(at, numbers)
        found = np.sort(numbers[counts])
        if not len(found):
            return _NO_RUNS
        cuts = np.flatnonzero(np.diff(found) != 1)
        return found[np.append(0, cuts + 1)], found[np.append(cuts, len(found) - 1)] + 1

    def _keep(self, runs: Sequence[tuple[Ints, Ints]]) -> int | None:
        """Keep the smallest numbers, as many as are looked for; returns the last one, if there are so many."""
        starts = np.concatenate([self._starts, *(run[0] for run in runs)])
        ends = np.concatenate([self._ends, *(run[1] for run in runs)])
        order = np.argsort(starts)
        starts, ends = starts[order], ends[order]
        counted = np.cumsum(ends - starts)
        place = int(counted.searchsorted(self._count))
        self._starts, self._ends = starts[: place + 1], ends[: place + 1]
        return None if place == len(counted) else int(ends[place] - (counted[place] - self._count)) - 1


_NO_RUNS: Final[tuple[Ints, Ints]] = (np.empty(0, np.int64), np.empty(0, np.int64))


def _covers(deletion: Deletion, first: int, last: int, low: int, high: int) -> bool:
    """Whether it deletes all events with such times and numbers, bounds included."""
    return deletion.interval.contains(first) and deletion.interval.contains(last) and deletion.numbers.covers(low, high)
