"""Rows of many partitions, one partition behind the other, and conditions over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from tidelog.model.arrays import integer_column
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.operators.base import Ints, Shape
from tidelog.operators.keys import Keys
from tidelog.operators.window.aggregating import order_of


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

    @classmethod
    def of(cls, shape: Shape, batch: pa.RecordBatch, keys: Keys, first_number: int) -> Rows:
        """Rows that come in the order of time."""
        times = shape.times(batch)
        if not keys.columns:
            return cls(batch, None, times, np.zeros(1, np.int64), np.array([0, len(times)]), first_number)
        codes = keys.encode(batch)
        order = order_of(codes)
        counts = np.bincount(codes)
        present = np.flatnonzero(counts)
        cuts = np.concatenate([[0], np.cumsum(counts[present])]).astype(np.int64)
        own = times if order is None else times[order]
        return cls(batch, order, np.ascontiguousarray(own), present, cuts, first_number)

    def __len__(self) -> int:
        return len(self.times)

    @property
    def is_single(self) -> bool:
        """Whether there is one partition only; its rows are in order."""
        return len(self.keys) == 1

    def parts(self, count: int) -> list[Rows]:
        """About so many parts of nearly equal size: whole partitions or, of a single one, whole instants."""
        wanted = np.arange(1, count) * len(self) // count
        if self.is_single:
            inner = np.searchsorted(self.times, self.times[wanted])
            borders = np.unique(np.concatenate([[0], inner, [len(self)]])).tolist()
            return [self._stretch(low, high) for low, high in pairwise(borders)]
        inner = np.searchsorted(self.cuts, wanted)
        borders = np.unique(np.concatenate([[0], inner, [len(self.keys)]])).tolist()
        return [self._partitions(low, high) for low, high in pairwise(borders)]

    def _stretch(self, low: int, high: int) -> Rows:
        batch = self.batch.slice(low, high - low)
        return Rows(batch, None, self.times[low:high], self.keys, np.array([0, high - low]), self.first_number + low)

    def _partitions(self, first: int, end: int) -> Rows:
        low, high = int(self.cuts[first]), int(self.cuts[end])
        order = np.arange(low, high) if self.order is None else self.order[low:high]
        cuts = self.cuts[first : end + 1] - low
        return Rows(self.batch, order, self.times[low:high], self.keys[first:end], cuts, self.first_number)

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
