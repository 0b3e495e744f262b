"""What entries of trees tell of times and sequence numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tidelog.index.entries import Entries
from tidelog.index.layout import Layout
from tidelog.index.tabtree.reader import TreeReader
from tidelog.index.tabtree.searching import Test
from tidelog.storage.codec import Ints
from tidelog.store.manifest.sequence_set import SeqSet


def with_numbers(layout: Layout, numbers: SeqSet, base: int = 0) -> Test:
    """Tells whether rows with some of the numbers may be below entries.

    ``base`` is what has to be added to the sequence numbers that entries tell of.
    """
    own = numbers.shifted(-base)

    def test(entries: Entries) -> npt.NDArray[np.bool_]:
        bounds = entries["columns"][:, layout.sequence]
        # Numbers are never negative, so their bits are the same with and without a sign.
        return own.overlap_each(bounds["min"].astype(np.int64), bounds["max"].astype(np.int64))

    return test


def with_times(layout: Layout, times: Ints) -> Test:
    """Tells whether rows with some of the times, which are sorted, may be below entries."""

    def test(entries: Entries) -> npt.NDArray[np.bool_]:
        bounds = entries["columns"][:, layout.time]
        lows, highs = (bounds[name].astype(np.int64) for name in ("min", "max"))
        return np.searchsorted(times, lows) < np.searchsorted(times, highs, side="right")

    return test


def tree_numbers(tree: TreeReader) -> tuple[int, int]:
    """The smallest and the greatest sequence number in a tree, which has rows."""
    numbers = tree.entry()[tree.layout.stored.names[tree.layout.sequence]]
    return int(numbers.minimum()), int(numbers.maximum())
