"""Late rows that have just come: left where they are for a while, then copied many at a time, by another thread."""

from __future__ import annotations

from functools import partial
from typing import Final

import pyarrow as pa

from tidelog import threads
from tidelog.model.schema import Schema
from tidelog.storage.rows.numbered import Rows
from tidelog.storage.rows.ordered import picked
from tidelog.storage.rows.row_size import RowSize
from tidelog.store.rows.memory import MemoryRows
from tidelog.store.rows.stored import Ints

_MOST_PARTS: Final = 64
"""Batches whose late rows are copied together at the most."""


class LateArrivals:
    """Late rows in the order in which they came. Calls must take turns.

    The rows of a batch of which a few are late would all stay in memory with these. So they are copied when such
    batches have come to ``most_pinned`` bytes, together, by one of the encoding threads, while the next ones come.
    """

    def __init__(self, schema: Schema, stored: pa.Schema, most_pinned: int) -> None:
        self._stored = stored
        self._most_pinned = most_pinned
        self._size = RowSize(stored)
        self._copied = MemoryRows(schema, stored)
        self._copying: threads.Task[pa.RecordBatch] | None = None
        """Rows that came behind those."""
        self._parts: list[tuple[Rows, Ints]] = []
        """Batches, and the places of late rows in them; they came behind all others."""
        self._pinned = 0
        self._waiting = 0
        """Rows that are not among those that are copied."""

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self._copied.rows + self._waiting

    @property
    def bytes(self) -> int:
        """About how much memory they take, when they are copied."""
        return self._copied.bytes + self._waiting * self._size.fixed

    def add(self, rows: Rows, places: Ints) -> int:
        """Take in the rows at some rising places; says about how many bytes these are.

        The memory of all rows must not change afterwards.
        """
        if not self._size.is_fixed:  # how much memory they take is known when they are copied
            batch = picked([(rows, places)], self._stored)
            self._copied.add(batch)
            size: int = batch.nbytes
            return size
        self._parts.append((rows, places))
        self._pinned += rows.num_rows * self._size.fixed
        self._waiting += len(places)
        if self._pinned >= self._most_pinned or len(self._parts) >= _MOST_PARTS:
            self._begin_to_copy()
        return len(places) * self._size.fixed

    def _begin_to_copy(self) -> None:
        self._end_copying()
        parts, self._parts, self._pinned = self._parts, [], 0
        self._copying = threads.submit(partial(picked, parts, self._stored))

    def _end_copying(self) -> None:
        if self._copying is not None:
            batch = self._copying.result()
            self._copying = None
            self._copied.add(batch)
            self._waiting -= batch.num_rows

    def copied(self) -> MemoryRows:
        """All rows, copied; rows may be taken of it and added to it."""
        self._end_copying()
        if self._parts:
            batch = picked(self._parts, self._stored)
            self._parts, self._pinned, self._waiting = [], 0, 0
            self._copied.add(batch)
        return self._copied
