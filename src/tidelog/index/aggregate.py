"""Aggregates of a set of rows: what a tree answers when asked about a time range."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.index import kernels
from tidelog.index.entries import (
    WORDS_BEFORE,
    WORDS_OF_COLUMN,
    Entries,
    Words,
    entry_dtype,
    from_batch,
    words_of,
)
from tidelog.index.layout import Layout
from tidelog.model.errors import InputError, NotFoundError
from tidelog.storage.codec import Ints
from tidelog.storage.summary import HAS_BOUNDS, HAS_SUM, MAX_TRUNCATED, MIN_TRUNCATED, maximum, minimum, total

_LOW_HALF = 0xFFFFFFFF


def _words_before_states(columns: int) -> int:
    return WORDS_BEFORE + WORDS_OF_COLUMN * columns


def _nothing(layout: Layout) -> Words:
    """The words of an entry of no rows (:func:`~tidelog.index.entries.blank`)."""
    return np.zeros(_words_before_states(len(layout.kinds)), np.uint64)


@final
class Aggregate:
    """Rows, and for some columns nulls, NaN, bounds and sum; what :mod:`tidelog.index.entries` says holds here too.

    Add to it with :meth:`add` and :meth:`merge`, in order of time if sums of floats are to be the same every time.
    """

    __slots__ = ("_words", "columns", "layout")

    def __init__(self, layout: Layout, columns: Ints | None = None, entry: Entries | None = None) -> None:
        """Of no rows, or of those of ``entry`` (an array of one, not copied), in which ``columns`` are filled."""
        self.layout = layout
        self.columns = layout.columns if columns is None else columns
        self._words: Words = _nothing(layout) if entry is None else words_of(entry)[0]

    @classmethod
    def of(cls, layout: Layout, batch: pa.RecordBatch, columns: Ints | None = None) -> Aggregate:
        """The aggregates of some columns, by position, of the rows of a batch that has them; None for all."""
        indexes = layout.columns if columns is None else columns
        chosen = batch.select([layout.stored.names[index] for index in indexes.tolist()])
        cuts = np.array([0, batch.num_rows], np.int64)
        return cls(layout, indexes, from_batch(layout, chosen, cuts, indexes))

    def copied(self, columns: Ints) -> Aggregate:
        """A copy that can be added to, of some columns that this one has; without states, which are not added."""
        copy = Aggregate.__new__(Aggregate)
        copy.layout, copy.columns = self.layout, columns
        copy._words = self._words[: _words_before_states(len(self.layout.kinds))].copy()
        return copy

    def add(self, words: Words, first: int, last: int) -> None:
        """Take in the entries ``first`` to ``last`` (exclusive) of a table of words."""
        kernels.merge_into(words, first, last, self.layout.kinds, self.columns, self._words)

    def entries_of(self, cuts: Ints, summaries: npt.NDArray[np.uint64]) -> Words:
        """Entries, as a table of words, of the runs of rows between ``cuts``.

        ``summaries`` has the words of a summary for each of the columns, in their order, and each run.
        """
        entries = np.empty((len(cuts) - 1, len(self._words)), np.uint64)
        kernels.widen_summaries(summaries, cuts, self.columns, entries)
        return entries

    def merge(self, other: Aggregate) -> None:
        """Take in the rows of another one, of the same schema and with at least the columns of this one."""
        if other.layout is not self.layout and other.layout.schema != self.layout.schema:
            raise InputError("found aggregates of two schemas; only those of one can be merged")
        if other.columns is not self.columns and not set(self.columns.tolist()) <= set(other.columns.tolist()):
            raise InputError("found aggregates of fewer columns than those they were to be merged into")
        self.add(other._words[np.newaxis], 0, 1)

    @property
    def entry(self) -> Entries:
        """The entry itself, as an array of one."""
        columns = len(self.layout.kinds)
        return self._words.view(entry_dtype(columns, len(self._words) - _words_before_states(columns)))

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self._words[1])

    def __getitem__(self, name: str) -> ColumnAggregate:
        """What is known of a column. Raises :class:`NotFoundError` for one that was not asked for."""
        index = self.layout.index(name)
        if self.columns is not self.layout.columns and index not in self.columns.tolist():
            raise NotFoundError(f"column {name!r} was not among those aggregated; name it when asking")
        return self.at(index)

    def at(self, index: int) -> ColumnAggregate:
        """What is known of a column that was asked for, given by its position."""
        at = WORDS_BEFORE + WORDS_OF_COLUMN * index
        return ColumnAggregate(self.layout.types[index], self.rows, self._words[at : at + WORDS_OF_COLUMN].tolist())


@final
class ColumnAggregate:
    """Counts, bounds and sum of a column of a set of rows, as plain values."""

    __slots__ = ("fields", "nans", "nulls", "type", "values")

    def __init__(self, type: pa.DataType, rows: int, words: Sequence[int]) -> None:
        """``words`` are those of a record :data:`tidelog.index.entries.AGGREGATE`."""
        flags, self.nulls, self.nans, low, high, *total = words
        self.type = type
        self.values = rows - self.nulls - self.nans
        """How many rows have a value that bounds and sum are about: neither null nor NaN."""
        self.fields: dict[str, Any] = {"flags": flags & _LOW_HALF, "min": low, "max": high, "sum": total}
        """The words that bounds and sum are kept in."""

    def minimum(self) -> Any:
        """The smallest value, or a lower bound of it (:attr:`knows_bounds`), or None."""
        return minimum(self.fields, self.type)

    def maximum(self) -> Any:
        """The largest value, or a bound above it (:attr:`knows_bounds`), or None."""
        return maximum(self.fields, self.type)

    def total(self) -> Any:
        """The sum of the values, None if there are none or it is not known (:attr:`knows_sum`)."""
        return total(self.fields, self.type)

    @property
    def knows_bounds(self) -> bool:
        """Whether minimum and maximum are exactly those of the values; for no values that is so too."""
        return not self.values or self.fields["flags"] & (HAS_BOUNDS | MIN_TRUNCATED | MAX_TRUNCATED) == HAS_BOUNDS

    @property
    def knows_sum(self) -> bool:
        """Whether the sum is that of all values; for no values that is so too."""
        return not self.values or bool(self.fields["flags"] & HAS_SUM)
