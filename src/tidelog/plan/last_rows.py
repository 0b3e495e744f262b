"""Rows before stretches of time by which keys are known not to begin there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias, final

import numpy as np
import pyarrow as pa

from tidelog.expr import Predicate
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.model.arrays import integers
from tidelog.model.times.interval import Interval
from tidelog.model.times.intervals import Intervals
from tidelog.operators.keys import Keys
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.read.scan import scan
from tidelog.store.read.snapshot import Snapshot
from tidelog.store.read.windows import scan_end

Mask: TypeAlias = np.ndarray[tuple[int], np.dtype[np.bool_]]

_FEW: Final = 64
"""Rows that are looked at first."""
_GROWTH: Final = 4


@final
class LastRows:
    """Looks up the last row before a stretch of each key for whose first row in it some condition holds."""

    def __init__(
        self,
        keys: Keys,
        conditions: Sequence[Predicate],
        snapshot: Snapshot,
        numbers: SeqSet | None,
        most_rows: int,
        counters: ReadCounters,
    ) -> None:
        """``most_rows`` are looked at in all."""
        self._keys, self._conditions = keys, conditions
        self._snapshot, self._numbers, self._counters = snapshot, numbers, counters
        self._time = snapshot.layout.schema.time
        self._left = most_rows

    def times(self, span: Interval, since: int | None) -> list[int] | None:
        """The times of these rows, as far as they are not before a time; None if that takes too many rows."""
        if span.start is None:
            return []
        is_wanted = self._beginning(span)
        left = int(is_wanted.sum())
        found: list[int] = []
        end, size = span.start, max(_FEW, _GROWTH * left)
        columns = [*self._keys.columns, self._time]
        while left and (since is None or since < end):
            rows = 0
            among = Intervals.of(since, end)
            for batch in scan_end(
                self._snapshot, among, columns, None, self._numbers, self._counters, limit=size, newest_first=True
            ):
                rows += batch.num_rows
                codes, first = np.unique(self._keys.encode(batch), return_index=True)
                is_wanted = _longer(is_wanted, len(self._keys))
                chosen = is_wanted[codes]
                times = integers(batch.column(self._time))
                found += times[first[chosen]].tolist()
                is_wanted[codes] = False
                left -= int(chosen.sum())
                end = int(times[-1]) + 1  # others of that time may follow
            if rows < size:
                break
            self._left -= rows
            if self._left < 0:
                return None
            size *= _GROWTH
        return found

    def _beginning(self, span: Interval) -> Mask:
        """Of each key whether some condition holds for its first row in a stretch."""
        names = dict.fromkeys([*self._keys.columns, *(name for each in self._conditions for name in each.columns)])
        is_new, holds = np.empty(0, np.bool_), np.empty(0, np.bool_)
        for batch in scan(self._snapshot, Intervals((span,)), list(names), None, self._numbers, self._counters):
            self._left -= batch.num_rows
            codes, first = np.unique(self._keys.encode(batch), return_index=True)
            is_new, holds = _longer(is_new, len(self._keys), True), _longer(holds, len(self._keys))
            fresh = is_new[codes]
            holds[codes[fresh]] = self._holds(batch)[first[fresh]]
            is_new[codes] = False
        return holds

    def _holds(self, batch: pa.RecordBatch) -> Mask:
        holds = np.zeros(batch.num_rows, np.bool_)
        for each in self._conditions:
            holds |= each.mask(batch)
        return holds


def _longer(marks: Mask, keys: int, mark: bool = False) -> Mask:
    """A mark for each of so many keys, those of new ones alike."""
    return np.concatenate([marks, np.full(keys - len(marks), mark)]) if keys > len(marks) else marks
