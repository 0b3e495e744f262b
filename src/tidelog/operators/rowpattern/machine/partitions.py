"""Where a search is in its partitions."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tidelog.operators.base import Ints


@dataclass
class Partitions:
    """How far the search is in each of some partitions, rows of which stand one behind the other."""

    lows: Ints
    highs: Ints
    """Their rows: the first one, and the end."""
    begins: Ints
    """The row each begins with; -1 if that is gone."""
    closed: npt.NDArray[np.uint8]
    """Whether there will be no more rows."""
    horizons: Ints
    """No more rows will come before these times."""
    resumes: Ints
    """The first row of which it is not known whether it begins a match."""
    numbers: Ints
    """The number of the next match."""
    decisions: Ints
    """How far the search has looked: times."""
    forced_cuts: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    forced_rows: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    """The rows that matches have to have, if that is said."""
    stops: Ints | None = None
    """The rows from which on no match begins, if that is said."""
    seen: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    """For each row the partition, from 1 on, whose search was there, if that is wanted."""
    frames: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    """For each row the end of its frame, in a window."""

    @classmethod
    def new(cls, cuts: Ints, *, closed: bool) -> Partitions:
        """Those that begin."""
        count = len(cuts) - 1
        return cls(
            cuts[:-1].copy(),
            cuts[1:].copy(),
            cuts[:-1].copy(),
            np.full(count, closed, np.uint8),
            np.zeros(count, np.int64),
            cuts[:-1].copy(),
            np.ones(count, np.int64),
            np.full(count, -(2**63), np.int64),
        )
