"""Stored rows: the user's columns and ``_seq``, in the order of (time, ``_seq``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.index import kernels
from tidelog.model.arrays import integer_column, integers
from tidelog.model.schema import SEQUENCE_COLUMN, Schema
from tidelog.storage.codec.buffers import allocate
from tidelog.storage.rows.numbered import NumberedRows, Rows
from tidelog.storage.rows.ordered import AnyRows, OrderedRows, gathered, gathered_by_threads
from tidelog.store.rows import ordering

Ints = npt.NDArray[np.int64]

_MANY: Final = 1 << 17
"""Rows that are gathered by several threads."""


def with_seq(batch: pa.RecordBatch, first: int, stored: pa.Schema) -> pa.RecordBatch:
    """A batch of a stream's schema with sequence numbers from ``first`` on."""
    rows = batch.num_rows
    memory, owner = allocate(8 * rows)  # memory that was used before, for fresh pages take longer than all the rest
    NumberedRows(batch, first).put_numbers(memory)
    column = pa.Array.from_buffers(pa.int64(), rows, [None, owner], 0)
    return pa.RecordBatch.from_arrays([*batch.columns, column], schema=stored)


def shifted(batch: pa.RecordBatch, base: int) -> pa.RecordBatch:
    """Rows whose sequence numbers, if they are among the columns, are greater by ``base``."""
    index = batch.schema.get_field_index(SEQUENCE_COLUMN)
    if not base or index < 0:
        return batch
    return batch.set_column(index, batch.schema.field(index), integer_column(integers(batch.column(index)) + base))


def times(batch: AnyRows, schema: Schema) -> Ints:
    """The event times of rows, in ticks of the stream's clock."""
    if isinstance(batch, OrderedRows):
        return batch.times
    present = batch.batch if isinstance(batch, NumberedRows) else batch
    return integers(present.column(schema.time_index))


def seqs(batch: pa.RecordBatch) -> Ints:
    """The sequence numbers of a batch of stored rows, which are its last column."""
    return integers(batch.column(batch.num_columns - 1))


def is_sorted(values: Ints) -> bool:
    """Whether values never fall."""
    return not kernels.falls(values)


def are_in_order(batch: AnyRows, schema: Schema) -> bool:
    """Whether stored rows are in the order of (time, ``_seq``), without two that are equal in both."""
    if isinstance(batch, OrderedRows):
        return True
    if isinstance(batch, NumberedRows):  # numbers ascend, so times may stay the same
        return is_sorted(times(batch, schema))
    return int(kernels.first_disorder(times(batch, schema), seqs(batch))) < 0


def sorted_rows(parts: Sequence[Rows], schema: Schema, stored: pa.Schema) -> pa.RecordBatch:
    """Rows in the order of (time, ``_seq``), as stored rows. Fast if times mostly rise.

    Not for the encoding threads, which may be asked to help.
    """
    order, _ = sorting_of(parts, schema)
    if order is not None:
        return taken(parts, order, stored)
    return concatenated([as_stored(part, stored) for part in parts], stored)


def taken(parts: Sequence[Rows], order: Ints, stored: pa.Schema) -> pa.RecordBatch:
    """The rows at some places among those of all parts, as stored rows; not for the encoding threads either."""
    gather = gathered if len(order) < _MANY else gathered_by_threads
    return gather(parts, order, stored)


def sorting_of(parts: Sequence[AnyRows], schema: Schema) -> tuple[Ints | None, Ints]:
    """The order of the rows of all parts by (time, ``_seq``), None if they are in it; and their times in that order."""
    return _sorting(joined([times(part, schema) for part in parts]), lambda: joined([_numbers(part) for part in parts]))


def sorting(at: Ints, numbers: Ints) -> Ints | None:
    """The order of rows by (time, ``_seq``); None if they are in it. Fast for a few sorted stretches of times."""
    return _sorting(at, lambda: numbers)[0]


def _sorting(at: Ints, numbers: Callable[[], Ints]) -> tuple[Ints | None, Ints]:
    order, in_order, has_ties = ordering.sorting_of(at)
    # Rows mostly come in the order of their numbers, and then those of equal time are in order now.
    if has_ties:
        known, ties = numbers(), np.flatnonzero(in_order[1:] == in_order[:-1])
        firsts, seconds = (ties, ties + 1) if order is None else (order[ties], order[ties + 1])
        if (known[seconds] < known[firsts]).any():
            order = np.lexsort((known, at))
    return order, in_order


def _numbers(part: AnyRows) -> Ints:
    if isinstance(part, OrderedRows):
        return part.numbers()
    return np.arange(part.first, part.first + part.num_rows) if isinstance(part, NumberedRows) else seqs(part)


def as_stored(rows: AnyRows, stored: pa.Schema) -> pa.RecordBatch:
    """Rows as a batch, with their numbers as a column."""
    if isinstance(rows, OrderedRows):
        return rows.gathered()
    return with_seq(rows.batch, rows.first, stored) if isinstance(rows, NumberedRows) else rows


def joined(arrays: Sequence[Ints]) -> Ints:
    """Arrays one after the other; as it is if there is only one."""
    return arrays[0] if len(arrays) == 1 else np.concatenate([np.empty(0, np.int64), *arrays])


def concatenated(batches: Sequence[pa.RecordBatch], stored: pa.Schema) -> pa.RecordBatch:
    """Batches as one; an empty one if there are none."""
    if len(batches) == 1:
        return batches[0]
    if not batches:
        return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in stored], schema=stored)
    return pa.concat_batches(batches)


def owned(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A copy in memory of its own, for batches whose memory belongs to somebody who may write to it."""
    copy: pa.RecordBatch = pa.ipc.read_record_batch(batch.serialize(), batch.schema)
    return copy


def without(batch: pa.RecordBatch, present: Ints) -> pa.RecordBatch:
    """The rows whose sequence numbers are not among ``present``."""
    if not len(present):
        return batch
    keep = ~np.isin(seqs(batch), present)
    return batch if keep.all() else batch.filter(pa.array(keep))
