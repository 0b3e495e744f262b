"""Entries of a few columns, as rows of words: what many ranges are merged from without a look at the other columns."""

from __future__ import annotations

from typing import final

import numpy as np

from tidelog.index import kernels
from tidelog.index.entries import (
    MAX_WORD,
    MIN_WORD,
    WORDS_BEFORE,
    WORDS_OF_COLUMN,
    Entries,
    Words,
    blank,
    words_of,
)
from tidelog.index.layout import Layout
from tidelog.storage.codec import Ints


@final
class NarrowEntries:
    """Some columns of the entries of a layout, one behind the other behind the number of rows."""

    def __init__(self, layout: Layout, columns: Ints) -> None:
        """``columns`` are places in the layout."""
        self._layout = layout
        self.columns = columns
        self._kinds = np.ascontiguousarray(layout.kinds[columns])
        self._all = np.arange(len(columns), dtype=np.int64)
        starts = WORDS_BEFORE + WORDS_OF_COLUMN * columns
        own = (starts[:, None] + np.arange(WORDS_OF_COLUMN)).ravel()
        self._words: Ints = np.concatenate([np.arange(WORDS_BEFORE), own]).astype(np.int64)

    @property
    def width(self) -> int:
        """Words of an entry."""
        return len(self._words)

    def of(self, words: Words) -> Words:
        """The words of whole entries as words of narrow ones."""
        return words[:, self._words]

    def whole(self, words: Words) -> Entries:
        """As entries of the layout, in which the other columns are empty."""
        found = blank(self._layout, len(words))
        words_of(found)[:, self._words] = words
        return found

    def times(self, words: Words) -> tuple[Ints, Ints]:
        """The first and the last times; the time is one of the columns."""
        at = WORDS_BEFORE + WORDS_OF_COLUMN * int(np.flatnonzero(self.columns == self._layout.time)[0])
        low, high = (np.ascontiguousarray(words[:, at + each]).view(np.int64) for each in (MIN_WORD, MAX_WORD))
        return low, high

    def merge(self, words: Words, cuts: Ints) -> Words:
        """The entries of runs of entries."""
        out = np.zeros((len(cuts) - 1, self.width), np.uint64)
        table, kinds = np.ascontiguousarray(words), self._kinds
        kernels.merge_ranges(table, cuts[:-1].copy(), cuts[1:].copy(), kinds, self._all, out)
        return out

    def plus(self, words: Words, others: Words) -> Words:
        """Each entry merged with the one at the same place among others."""
        out = np.zeros((len(words), self.width), np.uint64)
        one, other = np.ascontiguousarray(words), np.ascontiguousarray(others)
        kernels.merge_pairs(one, other, self._kinds, self._all, out)
        return out

    def scan(self, words: Words, cuts: Ints, *, backward: bool) -> Words:
        """For each entry of a run all from the first one to it merged; with ``backward`` all from it to the last."""
        out = np.zeros((len(words), self.width), np.uint64)
        kernels.scan_entries(np.ascontiguousarray(words), cuts, self._kinds, self._all, backward, out)
        return out
