"""Aggregates of runs of sorted rows in memory: a question about a time range touches only the rows at its ends."""

from __future__ import annotations

from typing import Final, final

import numpy as np
import pyarrow as pa

from tidelog.index.aggregate import Aggregate
from tidelog.index.entries import Entries, blank, from_batch, words_of
from tidelog.index.layout import Layout
from tidelog.store.rows import Ints

_RUN: Final = 1024
"""Rows of a run. Looking at so many rows takes about as long as merging the runs of a million."""


@final
class RunSummaries:
    """The aggregates of ranges of rows that never change. Columns are summarised when they are first asked for."""

    def __init__(self, layout: Layout, rows: pa.RecordBatch) -> None:
        self._layout = layout
        self._rows = rows
        self._known: tuple[frozenset[int], Entries] | None = None
        """Columns, and an entry for each whole run that has them. Replaced as one: threads may ask at once."""

    def aggregate(self, first: int, last: int, columns: Ints) -> Aggregate:
        """The aggregates of some columns of rows ``first`` to ``last`` (exclusive, not before the first)."""
        low, high = -(-first // _RUN), last // _RUN
        if low >= high:
            return Aggregate.of(self._layout, self._rows.slice(first, last - first), columns)
        total = Aggregate(self._layout, columns)
        if first < low * _RUN:
            total.merge(Aggregate.of(self._layout, self._rows.slice(first, low * _RUN - first), columns))
        total.add(words_of(self._entries(columns)), low, high)
        if high * _RUN < last:
            total.merge(Aggregate.of(self._layout, self._rows.slice(high * _RUN, last - high * _RUN), columns))
        return total

    def _entries(self, columns: Ints) -> Entries:
        runs = self._rows.num_rows // _RUN
        filled, entries = self._known or (frozenset(), blank(self._layout, runs))
        missing = np.array([column for column in columns.tolist() if column not in filled], np.int64)
        if len(missing) or self._known is None:
            names = self._layout.stored.names
            whole = self._rows.select([names[column] for column in missing.tolist()])
            new = from_batch(self._layout, whole, np.arange(runs + 1, dtype=np.int64) * _RUN, missing)
            known = np.array(sorted(filled), np.int64)
            new["columns"][:, known] = entries["columns"][:, known]
            self._known = filled | set(missing.tolist()), new
            return new
        return entries
