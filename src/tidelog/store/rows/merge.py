"""Merging sorted runs of rows by (time, ``_seq``), as whole arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from tidelog.model.arrays import integers
from tidelog.storage.rows.ordered import gathered
from tidelog.store.rows.stored import Ints, sorting

Batches = Iterator[pa.RecordBatch]

_ALONE: Final = 1024
"""Rows of one run before all others that are passed on as they are. Fewer are sorted together with others: where runs
interleave row by row, a step for each row would cost more than sorting."""


_FEW: Final = 8192
"""One row in so many, or fewer, that fall between the rows of another part are put there one by one: passing on the
stretches in between takes less time than sorting, and copying, everything."""


class _Run:
    """One sorted sequence of batches, and how far it has been taken."""

    def __init__(self, batches: Batches, time_index: int, seq_index: int) -> None:
        self._batches = batches
        self._time_index = time_index
        self._seq_index = seq_index
        self._rest: pa.RecordBatch | None = None
        self.times: Ints
        self.is_over = False
        self.advance()

    def advance(self) -> None:
        """Go to the next batch that has rows."""
        for batch in self._batches:
            if batch.num_rows:
                self._set(batch)
                return
        self.is_over = True
        self._rest = None

    def _set(self, batch: pa.RecordBatch) -> None:
        self._rest = batch
        self.times = integers(batch.column(self._time_index))

    @property
    def first(self) -> tuple[int, int]:
        """Time and number of the next row."""
        assert self._rest is not None
        number = self._rest.column(self._seq_index)[0].as_py()
        return int(self.times[0]), number

    @property
    def last_time(self) -> int:
        """The time of the last row at hand."""
        return int(self.times[-1])

    def count_before(self, time: int) -> int:
        """How many rows at hand are before a time."""
        return int(np.searchsorted(self.times, time))

    def take_before(self, time: int) -> pa.RecordBatch | None:
        """The rows at hand before a time, if there are any."""
        return self._take(self.count_before(time))

    def take_until(self, time: int) -> list[pa.RecordBatch]:
        """All rows up to and at a time, from further batches too if need be."""
        taken = []
        while not self.is_over and self.times[0] <= time:
            batch = self._take(int(np.searchsorted(self.times, time, side="right")))
            if batch is not None:
                taken.append(batch)
        return taken

    def take_all(self) -> pa.RecordBatch:
        """All rows at hand."""
        batch = self._take(len(self.times))
        assert batch is not None
        return batch

    def _take(self, count: int) -> pa.RecordBatch | None:
        batch = self._rest
        if count == 0 or batch is None:
            return None
        if count == batch.num_rows:
            self.advance()
            return batch
        self._set(batch.slice(count))
        return batch.slice(0, count)


def merged(runs: Sequence[Batches], time_index: int, seq_index: int) -> Batches:
    """Runs, each in the order of (time, ``_seq``), as one in that order.

    All batches have the same schema, with the times and numbers at the given positions. A batch of one run that no
    other run reaches into is passed on as it is. Lazy; when abandoned, the runs are closed.
    """
    if len(runs) == 1:
        yield from runs[0]
        return
    try:
        active = [run for run in (_Run(batches, time_index, seq_index) for batches in runs) if not run.is_over]
        while active:
            active.sort(key=lambda run: run.first)
            yield from _step(active, time_index, seq_index)
            active = [run for run in active if not run.is_over]
    finally:
        for batches in runs:
            close = getattr(batches, "close", None)
            if close is not None:
                close()


def _step(active: list[_Run], time_index: int, seq_index: int) -> Batches:
    front, others = active[0], active[1:]
    if not others:
        yield front.take_all()
        return
    bound = others[0].first[0]
    if front.last_time < bound:
        yield front.take_all()
        return
    if front.count_before(bound) >= _ALONE:
        alone = front.take_before(bound)
        assert alone is not None
        yield alone
        return
    # Several runs have rows at hand that interleave.
    limit = min(run.last_time for run in active)
    parts = [part for run in active if (part := run.take_before(limit)) is not None]
    if not parts:  # every row at hand of some run has this very time
        parts = [part for run in active for part in run.take_until(limit)]
    yield from _woven(parts, time_index, seq_index)


def _woven(parts: list[pa.RecordBatch], time_index: int, seq_index: int) -> Batches:
    """Rows that interleave, in order. Long stretches of one part that few rows of others fall into are not copied."""
    most = max(parts, key=lambda part: part.num_rows)
    others = [part for part in parts if part is not most]
    if not others or sum(part.num_rows for part in others) > most.num_rows // _FEW:
        yield in_order(pa.concat_batches(parts), time_index, seq_index)
        return
    few = in_order(pa.concat_batches(others), time_index, seq_index)
    at, those = integers(most.column(time_index)), integers(few.column(time_index))
    firsts, lasts = np.searchsorted(at, those), np.searchsorted(at, those, side="right")
    begins = np.concatenate([[0], np.flatnonzero(firsts[1:] - lasts[:-1] >= _ALONE) + 1])
    done = 0
    for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(those)], strict=True):
        first, last = int(firsts[begin]), int(lasts[end - 1])
        if done < first:
            yield most.slice(done, first - done)
        group = few.slice(begin, end - begin)
        near = most.slice(first, last - first)
        yield in_order(pa.concat_batches([near, group]), time_index, seq_index) if near.num_rows else group
        done = last
    if done < most.num_rows:
        yield most.slice(done)


def in_order(batch: pa.RecordBatch, time_index: int, seq_index: int) -> pa.RecordBatch:
    """Rows in the order of (time, ``_seq``); fast if they consist of a few sorted stretches."""
    order = sorting(integers(batch.column(time_index)), integers(batch.column(seq_index)))
    return batch if order is None else gathered([batch], order, batch.schema)


def chained(parts: Sequence[tuple[int, int, Callable[[], Batches]]], time_index: int, seq_index: int) -> Batches:
    """Parts given as (first time, last time, how to read it), merged where their times overlap, else in turn.

    A part is opened when its turn comes.
    """
    ordered = sorted(parts, key=lambda part: part[:2])
    start = 0
    while start < len(ordered):
        stop, reach = start + 1, ordered[start][1]
        while stop < len(ordered) and ordered[stop][0] <= reach:
            reach = max(reach, ordered[stop][1])
            stop += 1
        yield from merged([read() for _, _, read in ordered[start:stop]], time_index, seq_index)
        start = stop
