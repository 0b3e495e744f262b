"""The first or the last rows of a set of time ranges, reading that end of it and no more.

A set is taken in *windows* from the one end on, each within a stretch of time of about so many rows, which trees tell
by ranks. A window is scanned like any other set, so whatever scans know of (late rows, splits that overlap,
deletions, versions of the schema) holds here too, and rows of one time are in one window. As long as too few rows
satisfy a condition, windows grow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from tidelog.expr import Predicate
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.model.arrays import integer_column
from tidelog.model.times.clock import INT64_MAX
from tidelog.model.times.interval import Interval
from tidelog.model.times.intervals import Intervals
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.read.parts.part import Part
from tidelog.store.read.scan import readable, scan
from tidelog.store.read.snapshot import Snapshot

_FIRST_ROWS: Final = 1 << 13
"""Rows of the first window, where more than a limit of them may have to be looked at."""
_GROWTH: Final = 4
_MOST_ROWS: Final = 1 << 18
"""Rows of a window at the most, of each part that reaches into it: what is turned round is in memory."""


def scan_end(
    snapshot: Snapshot,
    ranges: Intervals,
    columns: Sequence[str],
    where: Predicate | None = None,
    numbers: SeqSet | None = None,
    counters: ReadCounters | None = None,
    *,
    limit: int | None = None,
    newest_first: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The first ``limit`` rows of a :func:`~tidelog.store.read.scan.scan`, or all for None, lazily.

    With ``newest_first`` in the order of descending (time, ``_seq``), so the last ones. Rows of one time are in memory
    together then, as far as they are within the limit.
    """
    counters = counters or ReadCounters()
    if limit == 0:
        return
    is_plain = where is None and limit is not None
    sizes = _sizes(min(limit, _MOST_ROWS) if is_plain and limit is not None else _FIRST_ROWS)
    windows = _backwards if newest_first else _forwards
    left = limit
    for window in windows(snapshot, ranges, numbers, sizes, counters):
        batches: Iterable[pa.RecordBatch] = scan(snapshot, window, columns, where, numbers, counters)
        for batch in _turned(batches, left) if newest_first else batches:
            if left is None or left > batch.num_rows:
                yield batch
                left = None if left is None else left - batch.num_rows
                continue
            yield batch.slice(0, left)
            return


def _sizes(first: int) -> Iterator[int]:
    """How many rows windows are to have, one after the other."""
    size = first
    while True:
        yield size
        size = min(size * _GROWTH, _MOST_ROWS)


def _backwards(
    snapshot: Snapshot, ranges: Intervals, numbers: SeqSet | None, sizes: Iterator[int], counters: ReadCounters
) -> Iterator[Intervals]:
    """Windows from the end of a set of time ranges to its start."""
    left, parts = readable(snapshot, ranges, numbers)
    parts = sorted(parts, key=lambda part: part.last, reverse=True)
    while left:
        end = left.bounds.end
        parts = [part for part in parts if end is None or part.first < end]
        if not parts:
            return
        first_of = partial(_first_of_last, end=end, rows=next(sizes), counters=counters)
        low = _nearest(parts, first_of, lambda part, low: part.last < low, max)
        yield left & Interval(low, None)
        left = left & Interval(None, low)


def _forwards(
    snapshot: Snapshot, ranges: Intervals, numbers: SeqSet | None, sizes: Iterator[int], counters: ReadCounters
) -> Iterator[Intervals]:
    """Windows from the start of a set of time ranges to its end."""
    left, parts = readable(snapshot, ranges, numbers)
    parts = sorted(parts, key=lambda part: part.first)
    while left:
        start = left.bounds.start
        parts = [part for part in parts if start is None or part.last >= start]
        if not parts:
            return
        last_of = partial(_last_of_first, start=start, rows=next(sizes), counters=counters)
        high = _nearest(parts, last_of, lambda part, high: part.first > high, min)
        if high == INT64_MAX:
            yield left
            return
        yield left & Interval(None, high + 1)
        left = left & Interval(high + 1, None)


def _nearest(
    parts: Sequence[Part],
    bound_of: Callable[[Part], int],
    is_beyond: Callable[[Part, int], bool],
    nearer: Callable[[int, int], int],
) -> int:
    """The bound of a window that no part has more rows in than it may; parts beyond it are not looked at."""
    bound = bound_of(parts[0])
    for part in parts[1:]:
        if is_beyond(part, bound):
            break  # as are all that follow
        bound = nearer(bound, bound_of(part))
    return bound


def _first_of_last(part: Part, end: int | None, rows: int, counters: ReadCounters) -> int:
    """The time of the first of so many rows of a part before ``end``, or a little earlier."""
    rank = part.rows if end is None or part.last < end else part.rank(end, counters)
    return part.times_near(max(rank - rows, 0), counters)[0]


def _last_of_first(part: Part, start: int | None, rows: int, counters: ReadCounters) -> int:
    """The time of the last of so many rows of a part from ``start`` on, or a little later."""
    rank = 0 if start is None or part.first >= start else part.rank(start, counters)
    return part.times_near(min(rank + rows, part.rows) - 1, counters)[1]


def _turned(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """The last rows of batches, as many as the limit says, from the last one to the first."""
    kept: deque[pa.RecordBatch] = deque()
    rows = 0
    for batch in batches:
        kept.append(batch)
        rows += batch.num_rows
        while limit is not None and rows - kept[0].num_rows >= limit:
            rows -= kept.popleft().num_rows
    while kept:
        batch = kept.pop()
        yield batch.take(integer_column(np.arange(batch.num_rows)[::-1])) if batch.num_columns else batch
