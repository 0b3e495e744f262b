"""Signals against the stream: who is behind is told what nobody wants any more, and does not read or compute it.

Whoever takes rows of an iterator may call its ``skip(horizon)``: rows before the horizon, a time in ticks, are of no
use. It is a hint that may come from another thread; the iterator heeds it when it is next asked for rows. Where the
last rows of each key before the horizon are of use all the same, ``skip_but(horizon, last)`` says so to iterators that
can tell which these are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, TypeAlias, final

import pyarrow as pa

from tidelog.model.arrays import boolean_column, integers
from tidelog.model.times.clock import INT64_MIN
from tidelog.operators.base import LookBack, Operator, Shape
from tidelog.operators.replaying import replay

LastBefore: TypeAlias = Callable[[int | None, int, LookBack], Iterable[pa.RecordBatch]]


@final
class Scan(Iterator[pa.RecordBatch]):
    """Rows in the order of time that can be read from any time on, such as those of a stored stream::

        Scan(lambda start: stream.scan(start), "ts")

    What lies before a horizon is not read: reading begins anew there.
    """

    def __init__(
        self,
        open_at: Callable[[int | None], Iterable[pa.RecordBatch]],
        time: str,
        last_before: LastBefore | None = None,
    ) -> None:
        """``open_at`` gives the rows from a time on, in ticks; all of them for None.

        ``last_before(start, end, last)`` gives of the rows from one time up to another the last ones of each key, in
        order; the start is None for the beginning. Without it all rows are read where such rows are of use.
        """
        self._open_at, self._time, self._last_before = open_at, time, last_before
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._horizon = INT64_MIN
        self._last: LookBack | None = None
        self._reached = INT64_MIN
        self.rows = 0
        """How many rows have been read."""

    def skip(self, horizon: int) -> None:
        """Rows before it are of no use."""
        self._horizon = max(self._horizon, horizon)

    def skip_but(self, horizon: int, last: LookBack) -> None:
        """Rows before it are of no use, but for the last ones of each key."""
        if self._last_before is not None:
            self._last = last
            self.skip(horizon)

    def __next__(self) -> pa.RecordBatch:
        horizon = self._horizon
        if self._batches is None:
            self._batches = self._opened(None if horizon == INT64_MIN else horizon)
        elif horizon > self._reached + 1:
            left = [] if self._last is None else list(self._same_time(self._batches))
            _close(self._batches)
            self._batches = chain(left, self._opened(horizon))
        batch = next(self._batches)
        self.rows += batch.num_rows
        if batch.num_rows:
            self._reached = max(self._reached, int(integers(batch.column(self._time))[-1]))
        return batch

    def _opened(self, horizon: int | None) -> Iterator[pa.RecordBatch]:
        """The rows from a horizon on, behind those before it that are of use and were not given yet."""
        if horizon is None:
            return iter(self._open_at(None))
        start, self._reached = self._reached, horizon - 1
        if self._last is None or self._last_before is None:
            return iter(self._open_at(horizon))
        before = self._last_before(None if start == INT64_MIN else start + 1, horizon, self._last)
        return chain(before, self._open_at(horizon))

    def _same_time(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What is left of the rows of the time at which the last batch has ended."""
        for batch in batches:
            count = int((integers(batch.column(self._time)) <= self._reached).sum())
            if count:
                yield batch.slice(0, count)
            if count < batch.num_rows:
                return

    def close(self) -> None:
        """Read no more."""
        if self._batches is not None:
            _close(self._batches)


class _Skipping(Iterator[pa.RecordBatch]):
    """The rows of a source that are not before a horizon, of which the source is told."""

    def __init__(self, batches: Iterable[pa.RecordBatch], shape: Shape, last: LookBack | None) -> None:
        self._source = batches
        self._batches = iter(batches)
        self._shape = shape
        self._last = last
        self._horizon = INT64_MIN
        self.skipped = 0

    def skip(self, horizon: int) -> None:
        if horizon > self._horizon:
            self._horizon = horizon
            if self._last is None:
                listen = getattr(self._source, "skip", None)
                if listen is not None:
                    listen(horizon)
            else:
                listen = getattr(self._source, "skip_but", None)
                if listen is not None:
                    listen(horizon, self._last)

    def __next__(self) -> pa.RecordBatch:
        batch = next(self._batches)
        if self._last is None and self._horizon > INT64_MIN and batch.num_rows:  # else the operator knows best
            is_wanted = self._shape.times(batch) >= self._horizon
            count = int(is_wanted.sum())
            if count < batch.num_rows:
                self.skipped += batch.num_rows - count
                batch = batch.filter(boolean_column(is_wanted))
        return batch

    def close(self) -> None:
        _close(self._batches)


@final
class Flow(Iterator[pa.RecordBatch]):
    """What comes out of an operator for sources whose rows come in order; sources may be flows, too.

    What it is told not to be of use any more the operator does not compute, and its sources are told as far as it does
    not need their rows for others.
    """

    def __init__(self, operator: Operator, sources: Sequence[Iterable[pa.RecordBatch]]) -> None:
        self._operator = operator
        self._inputs = [
            _Skipping(source, shape, last)
            for source, shape, last in zip(sources, operator.inputs, operator.looks_back, strict=True)
        ]
        self._batches = replay(operator, self._inputs)
        self._horizon = INT64_MIN
        self._heeded = INT64_MIN

    @property
    def schema(self) -> pa.Schema:
        """The columns of what comes out."""
        return self._operator.output.schema

    @property
    def skipped(self) -> int:
        """How many rows came from sources and did not reach the operator."""
        return sum(each.skipped for each in self._inputs)

    def skip(self, horizon: int) -> None:
        """Rows that would come out before it are of no use."""
        self._horizon = max(self._horizon, horizon)

    def __next__(self) -> pa.RecordBatch:
        horizon = self._horizon
        if horizon > self._heeded:
            self._heeded = horizon
            for source, own in zip(self._inputs, self._operator.skip(horizon), strict=True):
                source.skip(own)
        return next(self._batches)

    def close(self) -> None:
        """Stop, and close the sources."""
        self._batches.close()


def _close(batches: Any) -> None:
    close = getattr(batches, "close", None)
    if close is not None:
        close()
