"""Inner entries: what a node says about each of its children.

An entry is the child's block id, its rows, and for each column the record :data:`AGGREGATE`: a leaf's summary
(:mod:`tidelog.storage.summary`) with counts of 64 bits, so that it can stand for any number of leaves. The functions of
that package which read values (``minimum``, ``maximum``, ``total``) take such records too. Behind them are the states
of user-defined aggregates (:mod:`tidelog.index.states`), if the layout has any.

Without bounds or sum a record says one of two things. If ``rows - nulls - nans`` is 0, there is no value; otherwise
they are not known: not kept for this column, or (decimals) too large for the fields.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.index import kernels
from tidelog.index.entry_words import COUNTS
from tidelog.index.layout import Layout
from tidelog.storage.codec import Ints
from tidelog.storage.rows.numbered import Rows
from tidelog.storage.summary import SUMMARY, summarise, summarise_numbers

Entries = npt.NDArray[np.void]
"""Entries in order, of the type that :func:`entry_dtype` gives."""

Words = npt.NDArray[np.uint64]

AGGREGATE = np.dtype(
    [
        ("flags", "<u4"),
        ("reserved", "<u4"),
        ("nulls", "<u8"),
        ("nans", "<u8"),
        ("min", "<u8"),
        ("max", "<u8"),
        ("sum", "<u8", (2,)),
    ]
)
"""One column of an entry: flags and words as in :data:`tidelog.storage.summary.SUMMARY`."""

WORDS_BEFORE = 2
"""Words of an entry before its columns."""
WORDS_OF_COLUMN = AGGREGATE.itemsize // 8
NULLS_WORD, NANS_WORD, MIN_WORD, MAX_WORD = 1, 2, 3, 4
"""Among the words of a column; the flags are in the first one, in its lower half."""

_SUMMARY_WORDS = SUMMARY.itemsize // 8
_LOWER_HALF = np.uint64(0xFFFF_FFFF)

_NO_CHILD = (1 << 64) - 1


@functools.cache
def entry_dtype(columns: int, states: int = 0) -> np.dtype[Any]:
    """The type of entries of trees with so many columns, and so many words of states of user-defined aggregates."""
    fields: list[Any] = [("child", "<i8"), ("rows", "<i8"), ("columns", AGGREGATE, (columns,))]
    return np.dtype([*fields, ("states", "<u8", (states,))] if states else fields)


def empty(layout: Layout, count: int) -> Entries:
    """So many entries of nothing: no child, no rows."""
    entries: Entries = np.zeros(count, entry_dtype(len(layout.kinds), layout.states.words))
    return entries


def blank(layout: Layout, count: int) -> Entries:
    """Like :func:`empty`, without room for states of user-defined aggregates: for answers."""
    entries: Entries = np.zeros(count, entry_dtype(len(layout.kinds)))
    return entries


def without_states(layout: Layout, entries: Entries) -> Entries:
    """Entries of a layout as :func:`blank` makes them."""
    if not layout.states.words:
        return entries
    plain = entry_dtype(len(layout.kinds))
    found: Entries = np.ascontiguousarray(words_of(entries)[:, : plain.itemsize // 8]).view(plain).reshape(len(entries))
    return found


def states_of(layout: Layout, entries: Entries) -> Words:
    """The words of the states in entries of a layout, a row for each, sharing their memory."""
    return words_of(entries)[:, _states_from(layout) :]


def _states_from(layout: Layout) -> int:
    """Where among the words of an entry its states are."""
    return WORDS_BEFORE + WORDS_OF_COLUMN * len(layout.kinds)


def words_of(entries: Entries) -> Words:
    """Contiguous entries as a table of words, one row each, sharing their memory."""
    return entries.view(np.uint64).reshape(len(entries), entries.dtype.itemsize // 8)


def copied(entries: Entries) -> Entries:
    """A copy of contiguous entries. NumPy copies records field by field, which takes ten times as long as words do."""
    return words_of(entries).copy().view(entries.dtype).reshape(len(entries))


def from_summaries(
    layout: Layout, ids: Ints, rows: Ints, summaries: npt.NDArray[np.void], states: Words | None = None
) -> Entries:
    """The entries of leaves, given their summaries by leaf and column, and the states of user-defined aggregates.

    Without ``states`` these are unknown. :func:`leaf_states` makes them.
    """
    entries = empty(layout, len(ids))
    put_leaves(layout, ids, rows, summaries, states, words_of(entries))
    return entries


def put_leaves(
    layout: Layout, ids: Ints, rows: Ints, summaries: npt.NDArray[np.void], states: Words | None, words: Words
) -> None:
    """:func:`from_summaries` into the words of entries."""
    kernels.put_leaves(np.ascontiguousarray(summaries).view(np.uint64), layout.kinds, ids, rows, words)
    if layout.states.words:
        words[:, _states_from(layout) :] = layout.states.unknown(len(ids)) if states is None else states


def _put_column(records: Words, summaries: npt.NDArray[np.void]) -> None:
    """Write summaries of one column into the words of records, which stand in the last dimension.

    As words, for NumPy is slow with fields of records: both have the same ones, in the same order.
    """
    found = np.ascontiguousarray(summaries).view(np.uint64).reshape(*summaries.shape, _SUMMARY_WORDS)
    records[..., 0] = found[..., 0] & _LOWER_HALF
    records[..., NULLS_WORD] = found[..., 0] >> np.uint64(32)
    records[..., NANS_WORD] = found[..., 1] & _LOWER_HALF
    records[..., NANS_WORD + 1 :] = found[..., 2:]


def leaf_states(layout: Layout, leaves: Iterable[Rows]) -> Words:
    """The states of user-defined aggregates of leaves, given the rows of each (the columns ``states.columns`` do)."""
    found = [layout.states.of_rows(rows, np.array([0, rows.num_rows], np.int64)) for rows in leaves]
    return np.concatenate(found) if found else layout.states.unknown(0)


def from_batch(layout: Layout, batch: pa.RecordBatch, cuts: Ints, columns: Ints) -> Entries:
    """Entries of runs of rows: of rows ``cuts[i]`` to ``cuts[i + 1]`` for each ``i``; they have no child (-1).

    The columns of the batch are those of ``columns``, in that order; others stay empty. There are no states.
    """
    return _of_runs(layout, cuts, columns, (summarise(array, cuts) for array in batch.columns))


def from_numbers(layout: Layout, values: Iterable[npt.NDArray[Any]], cuts: Ints, columns: Ints) -> Entries:
    """:func:`from_batch` of columns of numbers without nulls, as arrays of NumPy's. ``cuts`` are trusted."""

    def summaries() -> Iterator[npt.NDArray[np.void]]:
        for array, column in zip(values, columns.tolist(), strict=True):
            words = np.zeros((len(cuts) - 1, _SUMMARY_WORDS), np.uint64)
            summarise_numbers(array, layout.types[column], cuts, words)
            yield words.view(SUMMARY)[:, 0]

    return _of_runs(layout, cuts, columns, summaries())


def _of_runs(layout: Layout, cuts: Ints, columns: Ints, summaries: Iterable[npt.NDArray[np.void]]) -> Entries:
    """Entries of runs of rows, given the summaries of each column."""
    entries = blank(layout, len(cuts) - 1)
    words = words_of(entries)
    words[:, 0] = np.uint64(_NO_CHILD)
    words[:, 1] = cuts[1:] - cuts[:-1]
    for found, column in zip(summaries, columns.tolist(), strict=True):
        first = WORDS_BEFORE + WORDS_OF_COLUMN * column
        record = words[:, first : first + WORDS_OF_COLUMN]
        _put_column(record, found)
        if layout.kinds[column] == COUNTS:
            record[:, 0] = 0
            record[:, NANS_WORD + 1 :] = 0
    return entries


def joined(parts: Sequence[Entries]) -> Entries:
    """Contiguous entries of one type, one behind the other; there must be some. As words: see :func:`copied`."""
    return np.concatenate([words_of(part) for part in parts]).view(parts[0].dtype)[:, 0]


def merge(layout: Layout, entries: Entries, *, with_states: bool = True) -> Entries:
    """One entry (an array of length 1, without a child: -1) for what all ``entries`` stand for, in their order.

    A sum that does not fit its field is dropped, as are bounds and sums that an entry with values does not have.
    Without ``with_states`` states of user-defined aggregates become unknown instead of being merged.
    """
    merged = empty(layout, 1)
    merged["child"] = -1
    kernels.merge_into(words_of(entries), 0, len(entries), layout.kinds, layout.columns, words_of(merged)[0])
    states = layout.states
    if states.words:
        cuts = np.array([0, len(entries)], np.int64)
        states_of(layout, merged)[:] = (
            states.merge(states_of(layout, entries), cuts) if with_states else states.unknown(1)
        )
    return merged
