"""Gaps in the times of rows, where others are missing that come late together."""

from __future__ import annotations

from typing import Final

import numpy as np

from tidelog.store.rows import kernels
from tidelog.store.rows.stored import Ints

_SHORTEST: Final = 32
"""A gap counts if there is room in it for this fraction of a full leaf, at the pace of all rows: fewer late rows are
not merged into a leaf anyway."""

_FILLED: Final = 8
"""How many times the late rows that are to be expected there may be room for in gaps: with more, most of these are just
times at which nothing happens."""

_DENSEST: Final = 2
"""Gaps to so many rows as a full leaf has, at the most: the widest ones."""


def breaks_at_gaps(at: Ints, leaf_rows: int, late_share: float) -> Ints | None:
    """Where leaves of rows in the order of their times are to end, for what comes late to be cheap to merge.

    Late rows belong into the leaf that begins last before them, and that is written anew with them. So at a gap the row
    before it gets a leaf of its own, which costs nothing to write anew; what comes late by much, as a stretch of rows,
    comes into that leaf alone. ``late_share`` is which share of all rows came so late recently. Returns rising places
    behind the first row; None if there are no gaps that are worth it.
    """
    if len(at) < 2 or at[0] == at[-1]:
        return None
    span = int(at[-1]) - int(at[0])
    shortest = max(2, span * max(1, leaf_rows // _SHORTEST) // len(at))
    found = np.empty(span // shortest, np.int64)
    count = int(kernels.find_gaps(at, shortest, found)) if len(found) else 0
    if not count:
        return None
    places = found[:count]
    widths = (at[places].view(np.uint64) - at[places - 1].view(np.uint64)).astype(np.float64)
    empty = float(widths.sum())
    if empty > _FILLED * late_share * max(span - empty, 0.0):
        return None
    most = max(1, _DENSEST * len(at) // leaf_rows)
    if count > most:
        places = np.sort(places[np.argpartition(widths, -most)[-most:]])
    breaks = np.stack([places - 1, places], axis=1).ravel()
    is_new = np.diff(breaks, prepend=0) > 0  # a row between two gaps is before one and behind the other
    return breaks[is_new]
