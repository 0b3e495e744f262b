"""Where rows in order become closed splits, which nobody can see before a commit names them."""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

import numpy as np
import pyarrow as pa

from tidelog.model.arrays import integer_column
from tidelog.model.times.clock import INT64_MAX
from tidelog.model.times.interval import Interval
from tidelog.store.manifest.split_info import SplitInfo, SplitKind
from tidelog.store.rows.stored import concatenated, times
from tidelog.store.split.context import StreamContext
from tidelog.store.split.open_split import OpenSplit
from tidelog.store.split.removal import remove_splits

LEAVES: Final = 16
"""Leaves of rows that are gathered before they are encoded together."""

_GATHERED_BYTES: Final = 32 << 20
"""The same limit in bytes, for rows that are long."""


class SplitSink:
    """Takes rows in order and writes them to splits, one after the other. One thread at a time.

    A split ends at the first multiple of ``width`` ticks of time and the first of the rising ``edges`` behind its first
    row, and once it has ``split_bytes``, by default those of the stream. If they are ``numbered``, the rows of each
    split get the sequence numbers from 0 on; else they keep theirs. As a context manager it removes its files unless
    :meth:`finish` was reached.
    """

    def __init__(
        self,
        context: StreamContext,
        kind: SplitKind,
        *,
        width: int | None = None,
        edges: tuple[int, ...] = (),
        split_bytes: int | None = None,
        numbered: bool = False,
    ) -> None:
        self._context = context
        self._kind: SplitKind = kind
        self._width = width
        self._edges = edges
        self._split_bytes = context.options.split_bytes if split_bytes is None else split_bytes
        self._numbered = numbered
        self._pending: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0
        self._split: OpenSplit | None = None
        self._until: int | None = None
        """The time at which the split that is being written ends."""
        self._infos: list[SplitInfo] = []
        self._names: list[str] = []
        self._is_finished = False

    def append(self, batch: pa.RecordBatch) -> None:
        """Take rows, none of which is before the last; their memory must not change before they are written."""
        if not batch.num_rows:
            return
        self._pending.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        leaf = self._context.options.leaf_rows
        if self._rows >= LEAVES * leaf or self._bytes >= _GATHERED_BYTES:
            self._write_pending(self._rows // leaf * leaf or self._rows)

    def _write_pending(self, count: int) -> None:
        """Write so many of the rows at hand."""
        rows = concatenated(self._pending, self._context.layout.stored)
        rest = rows.slice(count)
        self._pending = [rest] if rest.num_rows else []
        self._rows, self._bytes = rest.num_rows, rest.nbytes
        self.write(rows.slice(0, count))

    def write(self, rows: pa.RecordBatch) -> None:
        """Like :meth:`append`, but nothing is gathered: for many rows at once, and whole leaves where possible."""
        while rows.num_rows:
            at = times(rows, self._context.layout.schema)
            split = self._split_for(int(at[0]))
            taken = min(len(at), LEAVES * self._context.options.leaf_rows)
            if self._until is not None:
                taken = int(np.searchsorted(at[:taken], self._until))
            part = rows.slice(0, taken)
            split.extend(_renumbered(part, split.rows) if self._numbered else part)
            if split.bytes >= self._split_bytes:
                self.end_split()
            rows = rows.slice(taken)

    def _split_for(self, time: int) -> OpenSplit:
        if self._until is not None and time >= self._until:
            self.end_split()
        if self._split is None:
            index = bisect_right(self._edges, time)
            ends = [*self._edges[index : index + 1]]
            boundary = None
            if self._width is not None:
                start = time // self._width * self._width
                boundary = Interval(start, start + self._width)
                ends.append(start + self._width)
            self._until = min((end for end in ends if end <= INT64_MAX), default=None)  # later ones are beyond all time
            self._split = OpenSplit.create(self._context, boundary, unseen=True)
            self._names.append(self._split.name)
        return self._split

    def end_split(self) -> None:
        """Close the split that was written to last: rows from now on go to another one."""
        split, self._split = self._split, None
        if split is not None:
            try:
                self._infos.append(split.close(self._kind))
            except BaseException:
                split.abandon()
                raise

    def finish(self) -> list[SplitInfo]:
        """Write what is left; returns the splits, closed and durable, in order. None without rows."""
        if self._rows:
            self._write_pending(self._rows)
        self.end_split()
        self._is_finished = True
        return self._infos

    def abandon(self) -> None:
        """Give up and remove the files, which must not have been handed to a commit."""
        split, self._split = self._split, None
        if split is not None:
            with suppress(Exception):  # of a file that goes anyway
                split.abandon()
        names, self._names = self._names, []
        remove_splits(self._context.medium, self._context.directory, names)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_finished:
            self.abandon()


def _renumbered(batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
    """Sorted rows with the numbers that they have in their file: dense, and so in order too."""
    numbers = integer_column(np.arange(first, first + batch.num_rows, dtype=np.int64))
    return batch.set_column(batch.num_columns - 1, batch.schema.field(batch.num_columns - 1), numbers)
