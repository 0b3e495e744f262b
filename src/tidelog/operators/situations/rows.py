"""Rows of many partitions, one partition behind the other, and conditions over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.model.arrays import integer_column
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.operators.base import Ints, Shape
from tidelog.operators.situations import kernels
from tidelog.threads import Task

Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Coded:
    """Some rows in the order of time, whose keys have numbers, and which are put in the order of these by parts."""

    batch: pa.RecordBatch
    times: Ints
    codes: Ints | None
    """The number of each row's key; None if there are no keys."""
    first_number: int
    """How many rows there were before these."""
    truths: tuple[Task[Mask], ...] = ()
    """For which rows each condition holds, where threads are already at work at that."""

    def __len__(self) -> int:
        return len(self.times)

    @property
    def first_time(self) -> int:
        """The time of the first row."""
        return int(self.times[0])

    @property
    def last_time(self) -> int:
        """The time of the last row."""
        return int(self.times[-1])

    @cached_property
    def _counts(self) -> Ints:
        """How many rows each key has."""
        assert self.codes is not None
        return np.bincount(self.codes)

    @property
    def is_single(self) -> bool:
        """Whether all rows are of one key."""
        return self.codes is None or int(self._counts[self.codes[0]]) == len(self)

    def whole(self) -> Rows:
        """All of them, in the order of partitions."""
        if self.codes is None:
            return Rows(
                self.batch, None, self.times, np.zeros(1, np.int64), np.array([0, len(self)]), self.first_number
            )
        return self.of_keys(0, len(self._counts))

    def ranges(self, count: int) -> list[tuple[int, int]]:
        """About so many ranges of keys that have nearly as many rows each, and at least one."""
        ends = np.cumsum(self._counts)
        inner = np.searchsorted(ends, np.arange(1, count) * len(self) // count, side="right")
        borders = np.unique([0, *inner.tolist(), len(ends)]).tolist()
        return [(first, end) for first, end in pairwise(borders) if self._counts[first:end].any()]

    def of_keys(self, first: int, end: int) -> Rows:
        """The rows of a range of keys; several threads may ask at once."""
        assert self.codes is not None
        counts = self._counts[first:end]
        present = np.flatnonzero(counts)
        ends = np.cumsum(counts)
        cuts = np.concatenate([[0], ends[present]])
        order, times = np.empty((2, int(ends[-1])), np.int64)
        kernels.order_by_key(self.codes, self.times, first, ends - counts, order, times)
        return Rows(self.batch, order, times, present + first, cuts, self.first_number)


@dataclass(frozen=True)
class Rows:
    """Some rows in the order of time, and where they stand in the order of (partition, time)."""

    batch: pa.RecordBatch
    order: Ints | None
    """The places of rows in the order of partitions; None if they are in it."""
    times: Ints
    """In that order, as everything that follows."""
    keys: Ints
    """The number of the key of each partition."""
    cuts: Ints
    """Where partitions begin, and the number of rows."""
    first_number: int
    """How many rows there were before these."""

    def __len__(self) -> int:
        return len(self.times)

    def stretches(self, count: int) -> list[Rows]:
        """About so many parts of nearly equal size of a single partition: whole instants."""
        wanted = np.arange(1, count) * len(self) // count
        inner = np.searchsorted(self.times, self.times[wanted])
        borders = np.unique(np.concatenate([[0], inner, [len(self)]])).tolist()
        return [self._stretch(low, high) for low, high in pairwise(borders)]

    def _stretch(self, low: int, high: int) -> Rows:
        batch = self.batch.slice(low, high - low)
        return Rows(batch, None, self.times[low:high], self.keys, np.array([0, high - low]), self.first_number + low)

    def numbers(self, places: Ints) -> Ints:
        """The numbers of some rows, in the order in which all rows came."""
        return self.first_number + (places if self.order is None else self.order[places])

    def taken(self, columns: Sequence[str], firsts: Ints, lengths: Ints) -> pa.RecordBatch:
        """Some columns of stretches of rows, one behind the other."""
        total = int(lengths.sum())
        begins = np.cumsum(lengths) - lengths
        places = np.arange(total) + np.repeat(firsts - begins, lengths)
        if self.order is not None:
            places = self.order[places]
        batch = self.batch
        if SEQUENCE_COLUMN in columns and SEQUENCE_COLUMN not in batch.schema.names:
            numbers = integer_column(np.arange(self.first_number, self.first_number + batch.num_rows))
            batch = batch.append_column(pa.field(SEQUENCE_COLUMN, pa.int64(), nullable=False), numbers)
        return batch.select(list(columns)).take(integer_column(places))


def with_numbers(shape: Shape) -> pa.Schema:
    """The columns that aggregates may use: those of rows, and their numbers."""
    if shape.has_numbers:
        return shape.schema
    return shape.schema.append(pa.field(SEQUENCE_COLUMN, pa.int64(), nullable=False))
