"""The rows of a part cut into stretches of which entries tell all that is asked, or whose rows have to be read.

For questions that go by the places of rows, not by time alone: how many rows a stretch has is known before it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from tidelog.index.entries import Words
from tidelog.storage.codec import Ints

WHOLE: Final = -1
NO_LEAF: Final = -1
"""Instead of the block id of a leaf: the stretch is none, and its rows are read by their times."""


@final
@dataclass(frozen=True, slots=True)
class Stretches:
    """Stretches one behind the other, each with a row or more."""

    firsts: Ints
    lasts: Ints
    """The times of their first and last rows, or of rows that are deleted and stood there."""
    rows: Ints
    leaves: Ints
    """Block ids of leaves; :data:`NO_LEAF` for what is none."""
    skipped: Ints
    """How many rows of its leaf stand before a stretch that is a part of it; :data:`WHOLE` if it is all of the leaf."""
    words: Words
    """The words of entries of whole leaves, under the layout of the part."""

    def __len__(self) -> int:
        return len(self.firsts)

    def some(self, first: int, last: int) -> Stretches:
        """Those from one place to another (exclusive)."""
        chosen = slice(first, last)
        return Stretches(
            self.firsts[chosen],
            self.lasts[chosen],
            self.rows[chosen],
            self.leaves[chosen],
            self.skipped[chosen],
            self.words[chosen],
        )

    @classmethod
    def none(cls, width: int) -> Stretches:
        """No stretches, of entries with so many words."""
        nothing = np.empty(0, np.int64)
        return cls(nothing, nothing, nothing, nothing, nothing, np.empty((0, width), np.uint64))

    @classmethod
    def of_leaves(cls, firsts: Ints, lasts: Ints, rows: Ints, leaves: Ints, words: Words) -> Stretches:
        """Whole leaves."""
        return cls(firsts, lasts, rows, leaves, np.full(len(firsts), WHOLE, np.int64), words)

    @classmethod
    def one_unread(cls, first: int, last: int, rows: int, width: int) -> Stretches:
        """One stretch that is no leaf."""
        return cls.unread(*(np.array([each], np.int64) for each in (first, last, rows)), width=width)

    @classmethod
    def unread(cls, firsts: Ints, lasts: Ints, rows: Ints, *, width: int) -> Stretches:
        """Stretches that are no leaves."""
        leaves, words = np.full(len(firsts), NO_LEAF, np.int64), np.zeros((len(firsts), width), np.uint64)
        return cls(firsts, lasts, rows, leaves, np.zeros(len(firsts), np.int64), words)

    @classmethod
    def joined(cls, parts: Sequence[Stretches]) -> Stretches:
        """Several one behind the other; there is at least one."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            np.concatenate([part.firsts for part in parts]),
            np.concatenate([part.lasts for part in parts]),
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.leaves for part in parts]),
            np.concatenate([part.skipped for part in parts]),
            np.concatenate([part.words for part in parts]),
        )
