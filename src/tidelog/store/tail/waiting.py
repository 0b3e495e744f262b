"""Single rows and small batches that wait in a tail until there are enough of them to be worth the work.

A flush need not end their wait: they can be written to the journal as they are.
"""

from __future__ import annotations

from itertools import groupby

import pyarrow as pa

from tidelog.model.conversion.packing import RowPacker
from tidelog.model.conversion.rows import Row, row_reader
from tidelog.model.schema import Schema
from tidelog.storage.rows.row_size import RowSize
from tidelog.store.rows.stored import concatenated, with_seq


class WaitingRows:
    """Rows with consecutive sequence numbers, in the order of their arrival. Calls must take turns."""

    def __init__(self, schema: Schema, stored: pa.Schema) -> None:
        self._stored = stored
        self._reader = row_reader(schema)
        self._packer = RowPacker(stored)
        self._items: list[pa.RecordBatch | Row] = []
        self._first = 0
        """The number of the first row."""
        self._size = RowSize(schema.arrow)
        self.rows = 0
        self.long_bytes = 0
        """About how many bytes values of no fixed width have."""

    def __len__(self) -> int:
        """How many rows and batches there are."""
        return len(self._items)

    def add(self, item: pa.RecordBatch | Row, rows: int, first: int) -> None:
        """Take in a batch, or a row of canonical values, whose numbers from ``first`` on follow those before."""
        if not self._items:
            self._first = first
        self._items.append(item)
        self.rows += rows
        if self._reader.has_long:
            is_row = isinstance(item, tuple)
            self.long_bytes += self._reader.long_bytes(item) if is_row else self._size.of_long_values(item)

    def take(self) -> pa.RecordBatch:
        """Remove and return all rows, as one batch with their numbers."""
        rows = self._numbered(self._items, self._first)
        self._items, self.rows, self.long_bytes = [], 0, 0
        return rows

    def message(self, seq: int) -> bytes | pa.Buffer | None:
        """The rows with numbers from ``seq`` on as the Arrow IPC message of one batch; None if there are none."""
        number, wanted = self._first + self.rows, len(self._items)
        while wanted and number > seq:
            wanted -= 1
            number -= _length(self._items[wanted])
        items = self._items[wanted:]
        if not items:
            return None
        if len(items) == 1 and isinstance(row := items[0], tuple):
            message = self._packer.message((*row, number))
            if message is not None:
                return message
        return self._numbered(items, number).slice(max(0, seq - number)).serialize()

    def _numbered(self, items: list[pa.RecordBatch | Row], first: int) -> pa.RecordBatch:
        """Rows and batches as one batch, with numbers from ``first`` on."""
        batches: list[pa.RecordBatch] = []
        for kind, group in groupby(items, type):
            some = list(group)
            batches += [self._reader.batch(some)] if kind is tuple else some
        return with_seq(concatenated(batches, self._reader.schema.arrow), first, self._stored)


def _length(item: pa.RecordBatch | Row) -> int:
    return 1 if isinstance(item, tuple) else item.num_rows
