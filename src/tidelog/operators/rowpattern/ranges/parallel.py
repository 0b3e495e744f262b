"""One sequence, searched by the process's threads: each takes a range of time, and the ranges are linked in order.

While rows are read, searches of ranges run; what a range gives is rendered as soon as it is known with which row its
search begins. Where that cannot be known beforehand in reasonable time (searches from different rows that never come
together), ranges are searched one after the other.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Final

import numpy as np
import pyarrow as pa

from tidelog import threads
from tidelog.model.times.clock import INT64_MAX
from tidelog.operators.base import Ints
from tidelog.operators.rowpattern.compiling import RowPatternQuery
from tidelog.operators.rowpattern.evaluate import evaluate
from tidelog.operators.rowpattern.ranges.ranges import Links, Range, needs_links
from tidelog.operators.rowpattern.rows import order_times
from tidelog.threads import Task

_ROWS: Final = 1 << 17
"""Rows of a range: their columns stay in the cache."""
_MOST: Final = 1 << 18
"""Rows within reach of a match up to which ranges are worth it: all that are worked on have them in memory."""
_WORTH: Final = 100e-9
"""Seconds a row that the first range takes from which on others are left to threads: what they are handed is copied,
and found a second time where ranges overlap."""
_AT_WORK: Final = 1 << 21
"""Rows that are in the work of threads at once, unless one range has more."""
_VAIN: Final = 2
"""Ranges in succession whose searches do not come together, after which no more are tried."""


def evaluate_in_ranges(query: RowPatternQuery, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What comes out of a query that may be searched in ranges, for rows in its order. Lazy."""
    cutting = _Cutting(query, (batch.select(query.input.names) for batch in batches))
    first = cutting.next()
    if first is None or threads.THREADS < 2:
        yield from evaluate(query, cutting.rest())
        return
    began = time.thread_time()
    first.links()
    found, entry, number = first.searched(0, 1)
    if time.thread_time() - began < _WORTH * len(first):
        del found
        yield from evaluate(query, cutting.rest())
        return
    yield found
    work = _Work(query, entry, number)
    try:
        while (own := cutting.next()) is not None:
            work.add(own)
            yield from work.found(wait=False)
        yield from work.found(wait=True)
    finally:
        work.cancel()


class _Cutting:
    """Cuts rows that come in order into ranges."""

    def __init__(self, query: RowPatternQuery, batches: Iterable[pa.RecordBatch]) -> None:
        self._query = query
        self._batches = iter(batches)
        self._held: list[pa.RecordBatch] = []
        self._times: Ints = np.empty(0, np.int64)
        self._count = 0
        """Rows that are held."""
        self._first = 0
        """The first of these that is in no range yet."""
        self._is_first, self._is_over = True, False
        self._read_first: list[pa.RecordBatch] = []
        """What was held when the first range was taken, until the second one is."""

    def rest(self) -> Iterator[pa.RecordBatch]:
        """All rows, if no more than one range was taken."""
        return chain(self._read_first or self._held, self._batches)

    def next(self) -> Range | None:
        """The next range; None if there is none. The first one is None if one range would have everything."""
        if self._is_over:
            return None
        conditions = self._query.conditions
        size = _ROWS
        while self._read(self._first + size + 1):
            end = int(self._times[self._first + size])
            stop = int(np.searchsorted(self._times, end))
            if stop <= self._first:  # rows of one time stay together
                size *= 2
                continue
            high = self._reach(end - 1, conditions.ahead)
            if self._is_first and high - stop > _MOST:
                break
            if high - stop > 2 * size and not self._is_over:
                size *= 2
                continue
            return self._taken(stop, high)
        if self._is_first:
            return None
        self._is_over = True
        return self._taken(self._count, self._count)

    def _reach(self, last: int, ahead: int) -> int:
        """Where the rows end that a range has to have whose last time is known."""
        within = self._query.pattern.within or 0
        while True:
            high = int(np.searchsorted(self._times, min(last + within, INT64_MAX), side="right")) + ahead
            if high < self._count:
                return high
            if not self._read(max(self._count + 1, high + 1)):
                return min(high, self._count)

    def _taken(self, stop: int, high: int) -> Range:
        low = max(self._first - self._query.conditions.behind, 0)
        self._read_first = list(self._held) if self._is_first else []
        rows = pa.concat_batches(self._sliced(low, high))
        own = Range(self._query, rows, self._times[low:high], self._first - low, stop - low, is_first=self._is_first)
        self._is_first = False
        self._keep(stop)
        return own

    def _sliced(self, low: int, high: int) -> Iterator[pa.RecordBatch]:
        """Some of the rows that are held."""
        begin = 0
        for batch in self._held:
            end = begin + batch.num_rows
            if begin < high and end > low:
                yield batch.slice(max(low - begin, 0), min(high, end) - max(low, begin))
            begin = end

    def _keep(self, first: int) -> None:
        """Forget rows that no later range needs."""
        low = max(first - self._query.conditions.behind, 0)
        left = low
        while self._held and left >= self._held[0].num_rows:
            left -= self._held.pop(0).num_rows
        if self._held and left:
            self._held[0] = self._held[0].slice(left)
        self._times = self._times[low:].copy()
        self._count -= low
        self._first = first - low

    def _read(self, count: int) -> bool:
        """Read until so many rows are held; False if there are fewer."""
        fresh = []
        while self._count < count and (batch := next(self._batches, None)) is not None:
            self._held += [batch.slice(first, _ROWS) for first in range(0, batch.num_rows, _ROWS)]
            fresh.append(order_times(batch, self._query.pattern.order[0]))
            self._count += batch.num_rows
        if fresh:
            self._times = np.concatenate([self._times, *fresh])
        return self._count >= count


class _Work:
    """Ranges that threads are searching, and what they have found, in order."""

    def __init__(self, query: RowPatternQuery, entry: int, number: int) -> None:
        """The next range begins with row ``entry``, and its first match has that number."""
        self._needs_links = needs_links(query)
        self._linking: deque[tuple[Range, Task[Links | None] | None]] = deque()
        self._rendering: deque[Task[pa.RecordBatch]] = deque()
        self._entry, self._number = entry, number
        self._vain = 0
        self._most = 0
        """Ranges that may be in work."""

    def add(self, own: Range) -> None:
        """Have a range searched."""
        self._most = min(threads.THREADS + 1, _AT_WORK // max(len(own), 1))
        if self._vain >= _VAIN:
            self._linking.append((own, None))
        elif self._needs_links:
            self._linking.append((own, threads.submit(own.links)))
        else:
            self._rendering.append(threads.submit(partial(own.rendered, 0, 1)))

    def found(self, *, wait: bool) -> Iterator[pa.RecordBatch]:
        """What is there; with ``wait``, everything."""
        most = 0 if wait else self._most
        while self._linking and (len(self._linking) > most or _is_done(self._linking[0][1])):
            own, task = self._linking.popleft()
            links = None if task is None else task.result()
            if links is None:
                self._vain += 1
                yield from self._rendered(0)
                batch, self._entry, self._number = own.searched(self._entry, self._number)
                if batch.num_rows:
                    yield batch
                continue
            self._vain = 0
            self._rendering.append(threads.submit(partial(own.rendered, self._entry, self._number)))
            self._entry, more = links.followed(self._entry)
            self._number += more
            yield from self._rendered(most)
        yield from self._rendered(most)

    def _rendered(self, most: int) -> Iterator[pa.RecordBatch]:
        while self._rendering and (len(self._rendering) > most or self._rendering[0].is_done):
            batch = self._rendering.popleft().result()
            if batch.num_rows:
                yield batch

    def cancel(self) -> None:
        """Leave what has not begun."""
        for _, task in self._linking:
            if task is not None:
                task.cancel()
        for rendering in self._rendering:
            rendering.cancel()


def _is_done(task: Task[Links | None] | None) -> bool:
    return task is None or task.is_done
