"""Merging many ranges of one table of entries."""

from __future__ import annotations

from typing import Final

import numpy as np

from tidelog.index import kernels
from tidelog.index.entries import Entries, Words, blank, words_of
from tidelog.index.layout import Layout
from tidelog.storage.codec import Ints

_GROUP: Final = 16
"""Entries merged into one of the next coarser table."""

_REPEATS: Final = 8
"""How often each entry is merged, on average, before coarser tables are worth building."""


def merge_all(layout: Layout, columns: Ints, entries: Entries, firsts: Ints, lasts: Ints, out: Entries) -> None:
    """Merge ``columns`` of the entries ``firsts[i]`` to ``lasts[i]`` (exclusive, not before the first) into ``out[i]``.

    Long ranges that overlap (sliding windows) share their merges: entries are merged in groups first, and groups in
    groups.
    """
    _merge(layout, columns, words_of(entries), firsts.astype(np.int64), lasts.astype(np.int64), words_of(out))


def _merge(layout: Layout, columns: Ints, table: Words, firsts: Ints, lasts: Ints, out: Words) -> None:
    if int((lasts - firsts).sum()) <= _REPEATS * len(table) or len(table) <= _GROUP:
        kernels.merge_ranges(table, firsts, lasts, layout.kinds, columns, out)
        return
    low, high = -(-firsts // _GROUP), lasts // _GROUP
    spans = low < high  # whole groups are inside; the rest of a range is at its ends
    kernels.merge_ranges(table, firsts, np.where(spans, low * _GROUP, lasts), layout.kinds, columns, out)
    starts = np.arange(0, len(table), _GROUP, dtype=np.int64)
    groups = words_of(blank(layout, len(starts)))
    kernels.merge_ranges(table, starts, np.minimum(starts + _GROUP, len(table)), layout.kinds, columns, groups)
    _merge(layout, columns, groups, np.where(spans, low, 0), np.where(spans, high, 0), out)
    kernels.merge_ranges(table, np.where(spans, high * _GROUP, lasts), lasts, layout.kinds, columns, out)
