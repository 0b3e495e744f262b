"""Stretches of time that may have rows for a condition, told from the entries of a stream's trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.expr import EvaluationError, Predicate
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.index.tabtree.searching import RowChoice
from tidelog.model.times.clock import INT64_MAX, INT64_MIN
from tidelog.model.times.interval import Interval
from tidelog.model.times.intervals import Intervals
from tidelog.operators.base import Ints
from tidelog.plan.reading import estimate
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.read.parts.part import Part
from tidelog.store.read.snapshot import Snapshot
from tidelog.store.read.wanted import pruning

BUCKETS: Final = 512
"""How many stretches of time the first, coarse look tells apart; leaves are looked at where these leave something."""
WORTH: Final = 0.8
"""The share of the rows from which on all of them are replayed: reading in pieces takes longer."""


class NotPruned(Exception):
    """Why all rows are replayed."""


def stretches(
    snapshot: Snapshot,
    numbers: SeqSet | None,
    conditions: Sequence[Predicate],
    among: Intervals,
    most_rows: int,
    counters: ReadCounters,
) -> tuple[Ints, Ints]:
    """First and last times of what may have rows for one of some conditions, in order, by subtrees of so many rows."""
    found: list[tuple[int, int]] = []
    for part in snapshot.parts:
        for span in among.reaching(part.first, part.last).spans:
            for condition in conditions:
                choice = _choice(condition, part, numbers)
                subtrees = part.subtrees(most_rows, span.start, span.end, choice, counters)
                found += [(first, last) for first, last, _ in subtrees]
    found.sort()
    both = np.array(found, np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def _choice(condition: Predicate, part: Part, numbers: SeqSet | None) -> RowChoice:
    def keeps(batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        try:
            return condition.mask(batch)
        except EvaluationError:  # nobody may ever ask for that row
            return np.ones(batch.num_rows, np.bool_)

    return RowChoice(condition.columns, keeps, pruning(part.layout, condition, numbers, part.base))


def estimate_all(snapshot: Snapshot, times: Intervals) -> int:
    """About how many rows a set of times has."""
    return sum(estimate(snapshot, Intervals((span,)), None) for span in times.spans)


def plus(times: Ints, distance: int) -> Ints:
    """Times and a distance; the first or the last time where that is beyond."""
    if distance >= 0:
        top = INT64_MAX - min(distance, INT64_MAX)
        return np.where(times > top, INT64_MAX, np.minimum(times, top) + distance)
    bottom = INT64_MIN + min(-distance, INT64_MAX)
    return np.where(times < bottom, INT64_MIN, np.maximum(times, bottom) + distance)


def united(firsts: Ints, lasts: Ints) -> tuple[Ints, Ints]:
    """Stretches in the order of their first times, without those that others have."""
    if not len(firsts):
        return firsts, lasts
    tops = np.maximum.accumulate(lasts)
    starts = np.concatenate([[True], firsts[1:] > tops[:-1]])
    return firsts[starts], tops[np.concatenate([np.flatnonzero(starts)[1:] - 1, [len(tops) - 1]])]


def intervals(firsts: Ints, lasts: Ints) -> Intervals:
    """Stretches, from first to last times, as a set of instants."""
    own = zip(*(each.tolist() for each in united(firsts, lasts)), strict=True)
    return Intervals(
        tuple(
            Interval(None if first == INT64_MIN else first, None if last == INT64_MAX else last + 1)
            for first, last in own
        )
    )


def bounds(times: Intervals) -> tuple[Ints, Ints]:
    """First and last times of the spans of a set of instants."""
    firsts = [INT64_MIN if each.start is None else each.start for each in times.spans]
    lasts = [INT64_MAX if each.end is None else each.end - 1 for each in times.spans]
    return np.array(firsts, np.int64), np.array(lasts, np.int64)


def without(times: Intervals, others: Intervals) -> Intervals:
    """The instants of a set that are not in another."""
    edges = [None, *(edge for each in others.spans for edge in (each.start, each.end)), None]
    rest = [
        Interval(low, high)
        for at, (low, high) in enumerate(zip(edges[::2], edges[1::2], strict=True))
        if not (at and low is None) and not (at < len(others.spans) and high is None)
    ]
    return times & Intervals(tuple(rest))
