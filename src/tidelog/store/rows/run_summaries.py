"""Aggregates of runs of sorted rows in memory: a question about a time range touches only the rows at its ends."""

from __future__ import annotations

from typing import Any, Final, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.index import kernels
from tidelog.index.aggregate import Aggregate
from tidelog.index.entries import Entries, Words, blank, from_batch, words_of
from tidelog.index.layout import Layout
from tidelog.model.arrays import integers
from tidelog.storage.summary import SUMMARY, summarise_numbers
from tidelog.store.rows.stored import Ints

_RUN: Final = 128
"""Rows of a run. Those at the ends of a range that are no whole run are looked at one by one."""

_FEW: Final = 8 * _RUN
"""Rows that are looked at sooner than runs are looked up; more have at least one whole run among them."""

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
        self._values: dict[int, npt.NDArray[Any] | None] = {}
        """Columns that were asked for as plain numbers, None for those that are not."""

    def aggregate(self, first: int, last: int, columns: Ints) -> Aggregate:
        """The aggregates of some columns of rows ``first`` to ``last`` (exclusive, not before the first)."""
        total = Aggregate(self._layout, columns)
        low, high = -(-first // _RUN), last // _RUN
        if last - first <= _FEW:
            self._add_rows([slice(first, last)], total)
        else:
            self._add_rows([slice(first, low * _RUN), slice(high * _RUN, last)], total)
            self._add_runs(low, high, columns, total)
        return total

    def _add_rows(self, some: list[slice], total: Aggregate) -> None:
        """Take in ranges of rows, which are few, one by one."""
        some = [each for each in some if each.start < each.stop]
        if not some:
            return
        columns = total.columns.tolist()
        known = [self._numbers(column) for column in columns]
        if any(numbers is None for numbers in known):
            for each in some:
                rows = self._rows.slice(each.start, each.stop - each.start)
                total.merge(Aggregate.of(self._layout, rows, total.columns))
            return
        # Making a batch of them would take longer than the rest.
        summaries = np.zeros((len(columns), 1, SUMMARY.itemsize // 8), np.uint64)
        cuts = np.array([0, sum(each.stop - each.start for each in some)], np.int64)
        for place, (column, numbers) in enumerate(zip(columns, known, strict=True)):
            assert numbers is not None
            values = numbers[some[0]] if len(some) == 1 else np.concatenate([numbers[each] for each in some])
            summarise_numbers(values, self._layout.types[column], cuts, summaries[place])
        total.add(total.entries_of(cuts, summaries), 0, 1)

    def _numbers(self, column: int) -> npt.NDArray[Any] | None:
        """The values of a column; None if they are not numbers, or some are null."""
        if column not in self._values:
            self._values[column] = _plain_numbers(self._rows.column(self._layout.stored.names[column]))
        return self._values[column]

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


def _plain_numbers(column: pa.Array) -> npt.NDArray[Any] | None:
    """The values of a column of numbers or instants without nulls, aligned; None of others."""
    type = column.type
    if column.null_count:
        return None
    values: npt.NDArray[Any]
    if pa.types.is_integer(type) or pa.types.is_float32(type) or pa.types.is_float64(type):
        values = column.to_numpy()
    elif pa.types.is_timestamp(type):
        values = integers(column)
    else:
        return None
    return values if values.flags.aligned else values.copy()
