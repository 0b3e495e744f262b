"""What rows and entries take on this machine: measured once for certain aggregates, on a few leaves of a stream."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from tidelog.aggregates.contract import Fold
from tidelog.model.times.intervals import Intervals
from tidelog.plan.cost import USUAL, Weights
from tidelog.plan.slices import Sample, Slices
from tidelog.store.read.scan import scan

_LEAVES: Final = 64
_MOST_ROWS: Final = 1 << 19
"""What is measured on, at the most: a few milliseconds."""
_TIMES: Final = 3
"""How often: the first time kernels may be loaded."""
_MERGED: Final = 1 << 12
"""States that are merged to see how long that takes."""
_KNOWN: Final = 256

Key = tuple[str, ...]

_known: dict[Key, Weights] = {}
_mutex = threading.Lock()


def weights_of(key: Key, slices: Slices, folds: Sequence[Fold], leaf_rows: int) -> Weights:
    """The weights for slices of a stream and the folds of their replay; measured with the first call for a key."""
    with _mutex:
        found = _known.get(key)
    if found is not None:
        return found
    sample = slices.sample(max(2, min(_LEAVES, _MOST_ROWS // leaf_rows)), leaf_rows)
    if sample is None:
        return USUAL
    measured = _measured(slices, folds, sample, leaf_rows)
    with _mutex:
        if len(_known) >= _KNOWN:
            _known.clear()
        _known[key] = measured
    return measured


def _measured(slices: Slices, folds: Sequence[Fold], sample: Sample, leaf_rows: int) -> Weights:
    time_name = slices.snapshot.layout.schema.time
    names = list(dict.fromkeys([time_name, *(name for fold in folds for name in fold.columns)]))

    def replayed() -> None:
        for batch in scan(slices.snapshot, Intervals.of(*sample.times), names):
            cuts = np.append(np.arange(0, batch.num_rows, leaf_rows, dtype=np.int64), batch.num_rows)
            for fold in folds:
                fold.lift(batch.select(list(fold.columns) or [time_name]), cuts)

    works: list[Callable[[], object]] = [
        replayed,
        lambda: slices.between(sample.whole),
        lambda: slices.between(sample.cut),
    ]
    rounds = [[_seconds(work) for work in works] for _ in range(_TIMES)]
    of_rows, of_whole, of_cut = (min(times) for times in zip(*rounds, strict=True))
    many = [np.resize(own, (_MERGED, *own.shape[1:])) for own in slices.between(sample.whole)]
    cuts = np.arange(0, _MERGED + 1, _MERGED // 16, dtype=np.int64)

    def merged() -> None:
        for fold, own in zip(slices.folds, many, strict=True):
            fold.merge(own, cuts)

    of_merges = min(_seconds(merged) for _ in range(_TIMES))
    return Weights(
        replayed_row=of_rows / sample.rows,
        cut_row=max(of_cut - of_whole, 0.0) / sample.rows,
        entry=of_merges / _MERGED,
        slice=of_whole / (len(sample.whole) - 1),
    )


def _seconds(work: Callable[[], object]) -> float:
    """What some work takes of processors: unlike by the clock, that is the same whoever else is at work."""
    began = time.process_time()
    work()
    return time.process_time() - began
