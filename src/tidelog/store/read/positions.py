"""Rows by their number in the order of (time, ``_seq``), and how many are before a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tidelog.index.tabtree.counters import ReadCounters
from tidelog.model.errors import NotFoundError
from tidelog.model.times.clock import INT64_MAX
from tidelog.model.times.intervals import Intervals
from tidelog.store.read.scan import scan
from tidelog.store.read.snapshot import Snapshot


def rank(snapshot: Snapshot, time: int | None, counters: ReadCounters | None = None) -> int:
    """How many rows have a time before ``time``, or any time for None; deleted rows do not count."""
    counters = counters or ReadCounters()
    if snapshot.deletions(None, time):
        # Counted as aggregates count them: of events only where rows are deleted.
        living = snapshot.living
        start = living.not_deleted(None)
        if start is not None and time is not None and time <= start:
            return 0
        return int(living.index.aggregate(start, time, np.empty(0, np.int64), counters).rows)
    start, parts = snapshot.in_range(None, time)
    before = 0 if start is None else sum(part.rank(start, counters) for part in parts)
    return max(0, sum(part.rows if time is None else part.rank(time, counters) for part in parts) - before)


def nth(snapshot: Snapshot, index: int, columns: Sequence[str], counters: ReadCounters | None = None) -> pa.RecordBatch:
    """Row number ``index``, from 0, as a batch of one; negative numbers count from the end.

    The time of the row is found by bisection over ranks, which reads the paths to two leaves again and again, from the
    cache. Raises :class:`NotFoundError` if there is no such row.
    """
    counters = counters or ReadCounters()
    _, parts = snapshot.in_range(None, None)
    last = max((part.last for part in parts), default=0)
    rows = rank(snapshot, None, counters) if parts else 0
    place = index + rows if index < 0 else index
    if not 0 <= place < rows:
        raise NotFoundError(f"there is no event {index}: the stream has {rows}, numbered from 0")
    low, high = min(part.first for part in parts), last
    coarse = [part for part in parts if not part.has_rows]
    if coarse:  # ranks are known between their entries alone
        low = max(part.last for part in coarse) + 1
        if place < rank(snapshot, low, counters):
            coarse[0].require_rows()
    while low < high:  # the greatest time with at most ``place`` rows before it
        middle = (low + high + 1) // 2
        if rank(snapshot, middle, counters) <= place:
            low = middle
        else:
            high = middle - 1
    place -= rank(snapshot, low, counters)
    end = None if low == INT64_MAX else low + 1
    for batch in scan(snapshot, Intervals.of(low, end), columns, counters=counters):
        if place < batch.num_rows:
            return batch.slice(place, 1)
        place -= batch.num_rows
    raise AssertionError("a row was counted and not found")
