"""Statistics of closed splits: how much the values of a column depend on those before (spec/event-store.md 5.5).

The *temporal correlation* of a column with the values ``a_1 .. a_N``, in the order of time, is::

    1 - mean(|a_k - a_(k-1)|) / (max - min)

It is in [0, 1]: near 1 for values that change little from event to event, so that bounds of blocks rule out most blocks
for a range of values; near 2/3 for values drawn evenly at random. If all values are equal it is 1, and bounds rule out
nothing but whole splits. For fewer than two values it is not defined.

Rows that are being written pay nothing for it: when a split is closed, the beginnings of some leaves, spread evenly,
are read back. The differences within these are an estimate of those within the split. Small splits are read whole, and
so are exact.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from tidelog.index import ids
from tidelog.index.aggregate import Aggregate, ColumnAggregate
from tidelog.index.layout import Layout
from tidelog.index.tabtree.root import Root
from tidelog.model.arrays import floats
from tidelog.storage import ContainerReader
from tidelog.storage.codec.encodings import VECTOR
from tidelog.store.manifest.split_info import Correlation

SAMPLED_LEAVES: Final = 16
SAMPLED_VECTORS: Final = 1
"""Leaves that are read back at the most, and vectors of each. Splits with no more rows than that are read whole."""


def measure(reader: ContainerReader, layout: Layout, root: Root, whole: Aggregate) -> tuple[int, Correlation]:
    """How many rows of a closed tree in a container were looked at, and the correlation of each column.

    ``whole`` are its aggregates over all rows.
    """
    names = [field.name for field in layout.schema if _is_number(field.type)]
    is_all = root.leaves <= SAMPLED_LEAVES and root.rows <= SAMPLED_LEAVES * SAMPLED_VECTORS * VECTOR
    leaves = np.arange(root.leaves, dtype=np.int64)
    if root.leaves > SAMPLED_LEAVES:
        leaves = np.linspace(0, root.leaves - 1, SAMPLED_LEAVES).astype(np.int64)
    found = {name: _Differences() for name in names}
    rows = 0
    if names:
        vectors = -(-root.rows // VECTOR) if is_all else SAMPLED_VECTORS
        batch, cuts = reader.heads(ids.leaf_ids(leaves, layout.fanout), names, vectors)
        rows = batch.num_rows
        runs = [(0, rows)] if is_all else list(pairwise(cuts.tolist()))
        for name, column in zip(names, batch.columns, strict=True):
            for start, stop in runs:
                found[name].add(column.slice(start, stop - start))
    return rows, tuple(found[name].correlation(whole[name]) if name in found else None for name in layout.schema.names)


class _Differences:
    """The sum of absolute differences between neighbours, of runs of values."""

    def __init__(self) -> None:
        self._total = 0.0
        self._count = 0

    def add(self, column: pa.Array) -> None:
        """Take a run of values, without nulls and NaN."""
        values = floats((column.drop_null() if column.null_count else column).cast(pa.float64(), safe=False))
        values = values[~np.isnan(values)]
        if len(values) > 1:
            with np.errstate(invalid="ignore", over="ignore"):  # infinities: the result is not finite, and not used
                self._total += float(np.abs(np.diff(values)).sum())
            self._count += len(values) - 1

    def correlation(self, column: ColumnAggregate) -> float | None:
        """With the bounds of the column; None if it is not defined, or the bounds are not known."""
        if not self._count or not column.knows_bounds:
            return None
        low, high = float(column.minimum()), float(column.maximum())
        if low == high:
            return 1.0
        share = self._total / self._count / (high - low)
        return min(max(1.0 - share, 0.0), 1.0) if np.isfinite(share) else None


def _is_number(type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type) or pa.types.is_floating(type))
