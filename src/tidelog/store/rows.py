"""Stored rows: the user's columns and ``_seq``, in the order of (time, ``_seq``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.index import kernels
from tidelog.model.arrays import integers
from tidelog.model.schema import SEQUENCE_COLUMN, Schema
from tidelog.storage.codec.buffers import allocate
from tidelog.storage.numbered import NumberedRows, Rows
from tidelog.store.gathering import gathered, joined_times, order_of

Ints = npt.NDArray[np.int64]

_COUNT: Final = np.arange(1 << 16, dtype=np.int64)


def with_seq(batch: pa.RecordBatch, first: int, stored: pa.Schema) -> pa.RecordBatch:
    """A batch of a stream's schema with sequence numbers from ``first`` on."""
    rows = batch.num_rows
    memory, owner = allocate(8 * rows)  # memory that was used before, for fresh pages take longer than all the rest
    numbers = memory.view(np.int64)
    for start in range(0, rows, len(_COUNT)):
        part = numbers[start : start + len(_COUNT)]
        np.add(_COUNT[: len(part)], first + start, out=part)
    column = pa.Array.from_buffers(pa.int64(), rows, [None, owner], 0)
    return pa.RecordBatch.from_arrays([*batch.columns, column], schema=stored)


def shifted(batch: pa.RecordBatch, base: int) -> pa.RecordBatch:
    """Rows whose sequence numbers, if they are among the columns, are greater by ``base``."""
    index = batch.schema.get_field_index(SEQUENCE_COLUMN)
    if not base or index < 0:
        return batch
    return batch.set_column(index, batch.schema.field(index), pa.array(integers(batch.column(index)) + base))


def times(batch: Rows, schema: Schema) -> Ints:
    """The event times of rows, in ticks of the stream's clock."""
    present = batch.batch if isinstance(batch, NumberedRows) else batch
    return integers(present.column(schema.time_index))


def seqs(batch: pa.RecordBatch) -> Ints:
    """The sequence numbers of a batch of stored rows, which are its last column."""
    return integers(batch.column(batch.num_columns - 1))


def is_sorted(values: Ints) -> bool:
    """Whether values never fall."""
    return not kernels.falls(values)


def are_in_order(batch: Rows, schema: Schema) -> bool:
    """Whether stored rows are in the order of (time, ``_seq``), without two that are equal in both."""
    if isinstance(batch, NumberedRows):  # numbers ascend, so times may stay the same
        return is_sorted(times(batch, schema))
    return int(kernels.first_disorder(times(batch, schema), seqs(batch))) < 0


def sorted_rows(batches: Sequence[pa.RecordBatch], schema: Schema) -> pa.RecordBatch:
    """Stored rows, of at least one batch, in the order of (time, ``_seq``). Fast if times mostly rise."""
    order = order_of(joined_times(batches, schema.time_index))
    if order is not None:
        found = gathered(batches, order)
    else:
        found = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    # Rows mostly come in the order of their numbers, and then those of equal time are in order now.
    if int(kernels.first_disorder(times(found, schema), seqs(found))) >= 0:
        found = gathered([found], np.lexsort((seqs(found), times(found, schema))))
    return found


def sorting(at: Ints, numbers: Ints) -> Ints | None:
    """The order of rows by (time, ``_seq``); None if they are in it. Fast for a few sorted stretches of times."""
    order = order_of(at)
    is_right = _ties_are_sorted(at, numbers) if order is None else _ties_are_sorted(at[order], numbers[order])
    return order if is_right else np.lexsort((numbers, at))


def _ties_are_sorted(at: Ints, numbers: Ints) -> bool:
    ties = at[1:] == at[:-1]
    return not ties.any() or not (ties & (numbers[1:] < numbers[:-1])).any()


def concatenated(batches: Sequence[pa.RecordBatch], stored: pa.Schema) -> pa.RecordBatch:
    """Batches as one; an empty one if there are none."""
    if len(batches) == 1:
        return batches[0]
    if not batches:
        return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in stored], schema=stored)
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
