"""Aggregates of runs of sorted rows in memory: a question about a time range touches only the rows at its ends."""

from __future__ import annotations

from typing import Final, final

import numpy as np
import pyarrow as pa

from tidelog.index import kernels
from tidelog.index.aggregate import Aggregate
from tidelog.index.entries import Entries, Words, blank, from_batch, words_of
from tidelog.index.layout import Layout
from tidelog.store.rows import Ints

_RUN: Final = 128
"""Rows of a run. Those at the ends of a range that are no whole run are looked at one by one."""

_GROUP: Final = 64
"""Runs that have one merged entry, so that a million rows are about as many groups as a group has runs."""


@final
class RunSummaries:
    """The aggregates of ranges of rows that never change. Columns are summarised when they are first asked for."""

    def __init__(self, layout: Layout, rows: pa.RecordBatch) -> None:
        self._layout = layout
        self._rows = rows
        self._known: tuple[frozenset[int], Entries, Words] = frozenset(), blank(layout, 0), words_of(blank(layout, 0))
        """Columns, and the entries of each whole run and each whole group, in which they are filled.

        Replaced as one: several threads may ask at once.
        """

    def aggregate(self, first: int, last: int, columns: Ints) -> Aggregate:
        """The aggregates of some columns of rows ``first`` to ``last`` (exclusive, not before the first)."""
        low, high = -(-first // _RUN), last // _RUN
        if low >= high:
            return Aggregate.of(self._layout, self._rows.slice(first, last - first), columns)
        total = Aggregate(self._layout, columns)
        if first < low * _RUN:
            total.merge(Aggregate.of(self._layout, self._rows.slice(first, low * _RUN - first), columns))
        self._add_runs(low, high, columns, total)
        if high * _RUN < last:
            total.merge(Aggregate.of(self._layout, self._rows.slice(high * _RUN, last - high * _RUN), columns))
        return total

    def _add_runs(self, low: int, high: int, columns: Ints, total: Aggregate) -> None:
        entries, groups = self._entries(columns)
        runs = words_of(entries)
        start, stop = -(-low // _GROUP), high // _GROUP
        if start >= stop:
            total.add(runs, low, high)
        else:
            total.add(runs, low, start * _GROUP)
            total.add(groups, start, stop)
            total.add(runs, stop * _GROUP, high)

    def _entries(self, columns: Ints) -> tuple[Entries, Words]:
        """The entries of all runs and groups, with some columns."""
        filled, runs, groups = self._known
        missing = [column for column in columns.tolist() if column not in filled]
        if missing or not len(runs):
            runs = self._with_columns(filled, runs, missing)
            count = len(runs) // _GROUP
            groups = words_of(blank(self._layout, count))
            firsts = np.arange(count, dtype=np.int64) * _GROUP
            every = np.array(sorted(filled.union(missing)), np.int64)
            kernels.merge_ranges(words_of(runs), firsts, firsts + _GROUP, self._layout.kinds, every, groups)
            self._known = filled.union(missing), runs, groups
        return runs, groups

    def _with_columns(self, filled: frozenset[int], before: Entries, missing: list[int]) -> Entries:
        names = self._layout.stored.names
        rows = self._rows.select([names[column] for column in missing])
        cuts = np.arange(self._rows.num_rows // _RUN + 1, dtype=np.int64) * _RUN
        runs = from_batch(self._layout, rows, cuts, np.array(missing, np.int64))
        known = sorted(filled)
        if known:
            runs["columns"][:, known] = before["columns"][:, known]
        return runs
