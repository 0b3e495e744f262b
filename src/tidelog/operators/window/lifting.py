"""Rows lifted into the states of slices, by several threads where that is faster.

User-defined aggregates may take milliseconds for a batch. Whether threads help depends on their code, on how much of
it runs without the lock of the interpreter: so both ways are timed now and then, and the faster one is taken.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Final, final

import numpy as np
import pyarrow as pa

from tidelog import threads as shared
from tidelog.aggregates.base import States
from tidelog.aggregates.contract import Fold
from tidelog.model.arrays import distinct
from tidelog.operators.base import Ints

_LONG: Final = 0.001
"""Seconds that a batch has to take for threads to be tried."""
_AGAIN: Final = 64
"""After so many batches the slower way is timed once more."""


@final
class Lifting:
    """Lifts rows for some aggregates."""

    def __init__(self, folds: Sequence[Fold]) -> None:
        self.threads = shared.THREADS
        """How many may work at once."""
        self._folds = [_Timed(fold) for fold in folds]

    def lift(self, rows: pa.RecordBatch, cuts: Ints) -> list[States]:
        """For each aggregate the states of runs of rows, none of which is empty."""
        return [fold.lift(rows, cuts, self.threads) for fold in self._folds]


@final
class _Timed:
    """An aggregate, and what a row takes by one thread and by several."""

    def __init__(self, fold: Fold) -> None:
        self._fold = fold
        self._alone: float | None = None
        self._divided: float | None = None
        self._batches = 0

    def lift(self, rows: pa.RecordBatch, cuts: Ints, threads: int) -> States:
        self._batches += 1
        is_divided = threads > 1 and self._may_divide(rows.num_rows)
        began = time.perf_counter()
        found = divided(self._fold, rows, cuts, threads) if is_divided else self._fold.lift(rows, cuts)
        took = (time.perf_counter() - began) / max(rows.num_rows, 1)
        if is_divided:
            self._divided = took if self._divided is None else (took + self._divided) / 2
        else:
            self._alone = took if self._alone is None else (took + self._alone) / 2
        return found

    def _may_divide(self, rows: int) -> bool:
        if self._alone is None or self._alone * rows < _LONG:
            return False
        is_faster = self._divided is None or self._divided < self._alone
        return is_faster != (self._batches % _AGAIN == 0)


def divided(fold: Fold, rows: pa.RecordBatch, cuts: Ints, count: int) -> States:
    """The states of runs of rows, none of them empty, lifted by so many threads; a long run is lifted in parts."""
    places = _stretches(cuts, count)
    at = np.searchsorted(cuts, places)
    fresh = np.flatnonzero(cuts[at] != places)
    every = np.insert(cuts, at[fresh], places[fresh]) if len(fresh) else cuts
    jobs = []
    for first, last in zip(places[:-1].tolist(), places[1:].tolist(), strict=True):
        own = every[np.searchsorted(every, first) : np.searchsorted(every, last, side="right")]
        jobs.append(partial(fold.lift, rows.slice(first, last - first), own - first))
    states = np.concatenate(shared.together(jobs))
    return states if len(every) == len(cuts) else fold.merge(states, np.searchsorted(every, cuts))


def _stretches(cuts: Ints, count: int) -> Ints:
    """Places that divide rows evenly: those of cuts where these are near."""
    rows = int(cuts[-1])
    even = np.arange(1, count, dtype=np.int64) * rows // count
    behind = np.minimum(np.searchsorted(cuts, even), len(cuts) - 1)
    before = np.maximum(behind - 1, 0)
    near = np.where(cuts[behind] - even < even - cuts[before], cuts[behind], cuts[before])
    chosen = np.where(np.abs(near - even) * 4 * count <= rows, near, even)
    return distinct(np.concatenate([[0], chosen, [rows]]))
