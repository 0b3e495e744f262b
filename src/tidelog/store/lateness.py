"""How late rows come: counters for people, and a statistic that tells how long rows are worth waiting for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tidelog.store.rows import Ints

_HALF_LIFE: Final = 1 << 20
"""Rows after which what was seen counts half."""

_OCTAVE: Final = 8
"""Classes of delays between one and its double, so a quantile is at most a tenth too large."""

_CLASSES: Final = 64 * _OCTAVE

_RARE: Final = 1e-3
"""Below this share of late rows nothing is done for them in advance."""

_PLACED: Final = 0.99
"""The share of late rows that are to find their place in memory."""


@dataclass(slots=True)
class LateCounters:
    """What has become of late rows since the tail was opened. A row is late if one with a later time came before it."""

    placed: int = 0
    """Found their place among rows in memory."""
    merged: int = 0
    """Were merged into a tree that was written already."""
    spilled: int = 0
    """Became part of a split of late rows."""
    aside: int = 0
    """Were too late and went to the stream beside this one."""
    rejected: int = 0
    """Were too late and refused."""
    rows: int = 0
    """All rows that came late and were taken."""
    largest: int = 0
    """The longest delay, in ticks of the stream's clock."""
    total: float = 0.0
    """All delays together."""

    def observe(self, delays: Ints) -> None:
        """Rows came late by so many ticks each."""
        self.rows += len(delays)
        self.largest = max(self.largest, int(delays.max(initial=0)))
        self.total += float(delays.sum(dtype=np.float64))

    def to_dict(self, queued: int) -> dict[str, Any]:
        """The counters as plain values; ``queued`` rows wait to be merged."""
        return {
            "rows": self.rows,
            "placed": self.placed,
            "queued": queued,
            "merged": self.merged,
            "spilled": self.spilled,
            "aside": self.aside,
            "rejected": self.rejected,
            "largest": self.largest,
            "mean": self.total / self.rows if self.rows else 0.0,
        }


class DelayStatistic:
    """The delays of late rows, old ones forgotten by and by. Costs nothing while no row is late."""

    def __init__(self, first: int) -> None:
        """``first``: the number of the first row to come."""
        self._classes = np.zeros(_CLASSES, np.float64)
        self._rows = 0.0
        self._seen = first

    def observe(self, delays: Ints, next_seq: int) -> None:
        """Some of the rows up to a number came late, by so many ticks each."""
        self._forget(next_seq)
        found = (np.log2(np.maximum(delays, 1)) * _OCTAVE).astype(np.int64)
        self._classes += np.bincount(found, minlength=_CLASSES)

    def _forget(self, next_seq: int) -> None:
        rows = max(0, next_seq - self._seen)
        self._seen = next_seq
        factor = 0.5 ** (rows / _HALF_LIFE)
        self._classes *= factor
        self._rows = self._rows * factor + rows

    def patience(self, next_seq: int) -> int:
        """How many ticks to wait for most late rows, judged by the rows up to a number; 0 if few are late."""
        self._forget(next_seq)
        late = float(self._classes.sum())
        if late < _RARE * self._rows or not late:
            return 0
        index = int(np.searchsorted(np.cumsum(self._classes), _PLACED * late))
        return min(int(2 ** ((index + 1) / _OCTAVE)) + 1, 1 << 62)


def delays_of(at: Ints, newest: int | None) -> Ints:
    """By how many ticks each late row is older than the newest one before it; ``newest`` is the one before the first.

    Differences beyond 64 bits count as the largest number.
    """
    before = np.maximum.accumulate(at)
    if newest is not None:
        np.maximum(before, newest, out=before)
    late = np.flatnonzero(at < before)
    delays: Ints = before[late] - at[late]
    delays[delays < 0] = np.iinfo(np.int64).max
    return delays
