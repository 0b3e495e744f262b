"""Rows of a tail that are in memory: those of the open leaf, and late ones."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from tidelog.model.schema import Schema
from tidelog.storage.numbered import NumberedRows, Rows
from tidelog.storage.ordered import AnyRows, OrderedRows, gathered
from tidelog.storage.rowsize import RowSize
from tidelog.store.ordering import parted
from tidelog.store.rows import Ints, as_stored, concatenated, is_sorted, joined, seqs, sorted_rows, sorting_of, times

_MOST_PARTS: Final = 1024
"""Batches that are gathered before they are made one: a thousand small ones are handled like a large one."""


class MemoryRows:
    """Rows gathered in any order; one sorted batch when asked for. Calls must take turns."""

    def __init__(self, schema: Schema, stored: pa.Schema) -> None:
        self._schema = schema
        self._stored = stored
        self.is_fixed = RowSize(stored).is_fixed
        """Whether values have a fixed width."""
        self._parts: list[Rows] = []
        self._in_order = True
        self._sorting: tuple[Ints | None, Ints] | None = None
        """The order of the rows of all parts and their times in it, as long as both are known."""
        self.last_time: int | None = None
        """The latest time among the rows."""
        self.rows = 0
        self.bytes = 0

    def add(self, rows: Rows) -> None:
        """Take in rows; their memory must not change afterwards."""
        if not rows.num_rows:
            return
        at = times(rows, self._schema)
        follows = self.last_time is None or at[0] >= self.last_time
        self._in_order = self._in_order and bool(follows) and is_sorted(at)
        self._sorting = None
        last = int(at.max())
        self.last_time = last if self.last_time is None else max(last, self.last_time)
        self._parts.append(rows)
        self.rows += rows.num_rows
        self.bytes += rows.batch.nbytes + 8 * rows.num_rows if isinstance(rows, NumberedRows) else rows.nbytes
        if len(self._parts) >= _MOST_PARTS:
            self._parts = [self._joined()]

    def _joined(self) -> pa.RecordBatch:
        return concatenated([as_stored(part, self._stored) for part in self._parts], self._stored)

    @property
    def is_sorted(self) -> bool:
        """Whether the rows came in the order of their times."""
        return self._in_order

    def sorted(self) -> pa.RecordBatch:
        """All rows in the order of (time, ``_seq``). The batch stays as it is, whatever is added later."""
        if len(self._parts) != 1 or not self._in_order or isinstance(self._parts[0], NumberedRows):
            whole = sorted_rows(self._parts, self._schema, self._stored)
            self._parts = [whole] if whole.num_rows else []
            self._in_order, self._sorting = True, None
            return whole
        found: pa.RecordBatch = self._parts[0]
        return found

    def times(self) -> Ints:
        """The times of all rows, sorted."""
        if self._in_order:
            return joined([times(part, self._schema) for part in self._parts])
        return self._sorted()[1]

    def _sorted(self) -> tuple[Ints | None, Ints]:
        if self._sorting is None:
            self._sorting = sorting_of(self._parts, self._schema)
        return self._sorting

    def since(self, seq: int) -> list[pa.RecordBatch]:
        """The rows with sequence numbers from ``seq`` on."""
        found = []
        for part in reversed(self._parts):  # each arrived, as a whole, after the one before it
            if isinstance(part, NumberedRows):
                new = part.slice(max(0, seq - part.first))
                if not new.num_rows:
                    break
                found.append(as_stored(new, self._stored))
                continue
            wanted = seqs(part) >= seq
            if not wanted.any():
                break
            found.append(part if wanted.all() else part.filter(pa.array(wanted)))
        return found[::-1]

    def take(self, count: int | None = None) -> pa.RecordBatch:
        """Remove and return the first ``count`` rows in order, all for None."""
        whole = self.sorted()
        count = whole.num_rows if count is None else min(count, whole.num_rows)
        self._begin_with(whole.slice(count))
        return whole.slice(0, count)

    def take_to_encode(self, count: int | None = None) -> AnyRows:
        """Like :meth:`take`, but rows are copied, and put in their order, by whoever encodes them, where possible."""
        if self._in_order and len(self._parts) == 1:
            (part,) = self._parts
            self._begin_with(part.slice(self.rows if count is None else count))
            return part if count is None else part.slice(0, count)
        if self._in_order or not self.is_fixed:
            return self.take(count)
        parts = tuple(self._parts)
        order, at = self._sorted()
        if order is None:  # of equal times, in the order of numbers
            return self.take(count)
        self._begin_with(gathered(parts, order[len(order) if count is None else count :], self._stored))
        return OrderedRows(self._stored, parts, order[:count], at[:count])

    def _begin_with(self, rows: Rows) -> None:
        """Have these rows and no others."""
        self._parts = []
        self._in_order, self._sorting, self.last_time = True, None, None
        self.rows = self.bytes = 0
        self.add(rows)


def split_late(
    rows: Rows, schema: Schema, stored: pa.Schema, sealed: int | None, *, to_encode: bool = False
) -> tuple[AnyRows, pa.RecordBatch | None]:
    """Rows that can still be kept in order, and those older than what is ``sealed``, if there are any.

    With ``to_encode``, which is for values of fixed width, the former are copied by whoever encodes them if possible.
    """
    if sealed is None:
        return rows, None
    at = times(rows, schema)
    if not len(at) or at.min() >= sealed:
        return rows, None
    fresh, below = parted(at, sealed)
    late = gathered([rows], below.copy(), stored)
    if to_encode and isinstance(rows, NumberedRows):
        fresh_at = at[fresh]
        if is_sorted(fresh_at):
            return OrderedRows(stored, (rows,), fresh, fresh_at), late
    return gathered([rows], fresh, stored), late
