"""The first or the last rows of a time range, reading that end of it and no more.

A range is taken in *windows* of time from the one end on, each with about so many rows, which trees tell by ranks. A
window is scanned like any other range, so whatever scans know of (late rows, splits that overlap,
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
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.read.parts.part import Part
from tidelog.store.read.scan import readable, scan
from tidelog.store.read.snapshot import Snapshot

_FIRST_ROWS: Final = 1 << 13
"""Rows of the first window, where more than a limit of them may have to be looked at."""
_GROWTH: Final = 4
_MOST_ROWS: Final = 1 << 18
"""Rows of a window at the most, of each part that reaches into it: what is turned round is in memory."""

Window = tuple[int | None, int | None]


def scan_end(
    snapshot: Snapshot,
    start: int | None,
    end: int | None,
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
    for low, high in windows(snapshot, start, end, numbers, sizes, counters):
        batches: Iterable[pa.RecordBatch] = scan(snapshot, low, high, columns, where, numbers, counters)
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
    snapshot: Snapshot,
    start: int | None,
    end: int | None,
    numbers: SeqSet | None,
    sizes: Iterator[int],
    counters: ReadCounters,
) -> Iterator[Window]:
    """Windows from the end of a time range to its start."""
    start, parts = readable(snapshot, start, end, numbers)
    left = sorted(parts, key=lambda part: part.last, reverse=True)
    while left:
        first_of = partial(_first_of_last, end=end, rows=next(sizes), counters=counters)
        low = _nearest(left, first_of, lambda part, low: part.last < low, max)
        if start is not None and low <= start:
            yield start, end
            return
        yield low, end
        end = low
        left = [part for part in left if part.first < low]


def _forwards(
    snapshot: Snapshot,
    start: int | None,
    end: int | None,
    numbers: SeqSet | None,
    sizes: Iterator[int],
    counters: ReadCounters,
) -> Iterator[Window]:
    """Windows from the start of a time range to its end."""
    start, parts = readable(snapshot, start, end, numbers)
    left = sorted(parts, key=lambda part: part.first)
    while left:
        last_of = partial(_last_of_first, start=start, rows=next(sizes), counters=counters)
        high = _nearest(left, last_of, lambda part, high: part.first > high, min)
        if high == INT64_MAX or (end is not None and high >= end - 1):
            yield start, end
            return
        yield start, high + 1
        start = high + 1
        left = [part for part in left if part.last > high]


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
