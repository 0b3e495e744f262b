"""Rows of a tail that are in memory: those of the open leaf, and late ones."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from tidelog.model.schema import Schema
from tidelog.store.rows import concatenated, is_sorted, seqs, sorted_rows, times

_MOST_BATCHES: Final = 1024
"""Batches that are gathered before they are made one: a thousand small ones are handled like a large one."""


class MemoryRows:
    """Stored rows gathered in any order; one sorted batch when asked for. Calls must take turns."""

    def __init__(self, schema: Schema, stored: pa.Schema) -> None:
        self._schema = schema
        self._stored = stored
        self._batches: list[pa.RecordBatch] = []
        self._in_order = True
        self.last_time: int | None = None
        """The latest time among the rows."""
        self.rows = 0
        self.bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in rows; their memory must not change afterwards."""
        if not batch.num_rows:
            return
        at = times(batch, self._schema)
        follows = self.last_time is None or at[0] >= self.last_time
        self._in_order = self._in_order and bool(follows) and is_sorted(at)
        last = int(at.max())
        self.last_time = last if self.last_time is None else max(last, self.last_time)
        self._batches.append(batch)
        self.rows += batch.num_rows
        self.bytes += batch.nbytes
        if len(self._batches) >= _MOST_BATCHES:
            self._batches = [concatenated(self._batches, self._stored)]

    @property
    def is_sorted(self) -> bool:
        """Whether the rows came in the order of their times."""
        return self._in_order

    def sorted(self) -> pa.RecordBatch:
        """All rows in the order of (time, ``_seq``). The batch stays as it is, whatever is added later."""
        if len(self._batches) != 1 or not self._in_order:
            whole = sorted_rows(self._batches, self._schema) if self._batches else concatenated([], self._stored)
            self._batches = [whole] if whole.num_rows else []
            self._in_order = True
        return self._batches[0] if self._batches else concatenated([], self._stored)

    def since(self, seq: int) -> list[pa.RecordBatch]:
        """The rows with sequence numbers from ``seq`` on."""
        found = []
        for batch in reversed(self._batches):  # each arrived, as a whole, after the one before it
            wanted = seqs(batch) >= seq
            if not wanted.any():
                break
            found.append(batch if wanted.all() else batch.filter(pa.array(wanted)))
        return found[::-1]

    def take(self, count: int | None = None) -> pa.RecordBatch:
        """Remove and return the first ``count`` rows in order, all for None."""
        whole = self.sorted()
        count = whole.num_rows if count is None else min(count, whole.num_rows)
        rest = whole.slice(count)
        self._batches = []
        self._in_order, self.last_time = True, None
        self.rows = self.bytes = 0
        self.add(rest)
        return whole.slice(0, count)


def split_late(
    batch: pa.RecordBatch, schema: Schema, sealed: int | None
) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
    """Rows that can still be kept in order, and those older than what is ``sealed``, if there are any."""
    if sealed is None:
        return batch, None
    at = times(batch, schema)
    if not len(at) or at.min() >= sealed:
        return batch, None
    late = at < sealed
    return batch.filter(pa.array(~late)), batch.filter(pa.array(late))
