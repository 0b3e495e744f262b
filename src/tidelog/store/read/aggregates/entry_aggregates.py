"""Aggregate calls that the entries of trees can answer, without a look at more than a few events.

Sums, counts, extremes and averages of plain columns take a few node reads, whatever the length of the range
(spec/event-store.md 9.2).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import numpy as np

from tidelog.aggregates.contract import UNKNOWN
from tidelog.index.aggregate import Aggregate
from tidelog.index.layout import Layout
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.storage.codec import Ints
from tidelog.store.read.aggregates.entry_fold import EntryFold
from tidelog.store.read.snapshot import Snapshot

Answers = Mapping[int, Any]
"""The results of calls by their positions; calls without an answer are left out."""


@final
class EntryQuestion:
    """What entries are to be asked for some aggregate calls: prepared once, asked about any number of ranges."""

    def __init__(self, layout: Layout, folds: Mapping[int, EntryFold]) -> None:
        """``folds`` by the positions of their calls."""
        self._folds = folds
        self._counts = [position for position, fold in folds.items() if fold.column is None]
        self._by_column: dict[int, list[tuple[int, EntryFold]]] = {}
        for position, fold in folds.items():
            if fold.column is not None:
                self._by_column.setdefault(fold.column, []).append((position, fold))
        self.columns: Ints = np.array(list(self._by_column), np.int64)
        """The places of the columns that are asked about."""
        self.asks_numbers = layout.sequence in self._by_column
        """Whether sequence numbers are asked about, which entries of some parts count by themselves."""

    def ask(self, snapshot: Snapshot, start: int | None, end: int | None, counters: ReadCounters) -> Answers:
        """What the entries of a snapshot without deletions of single ranges know about a time range."""
        if not self._can_ask(snapshot):
            return {}
        start = snapshot.not_deleted(start)
        return self._results(snapshot.index.aggregate(start, end, self.columns, counters))

    def _can_ask(self, snapshot: Snapshot) -> bool:
        return bool(self._folds) and not (self.asks_numbers and snapshot.is_shifted)

    def ask_all(self, snapshot: Snapshot, starts: Ints, ends: Ints, counters: ReadCounters) -> list[Answers]:
        """:meth:`ask` about many ranges ``[starts[i], ends[i])`` in one pass over the trees."""
        if not self._can_ask(snapshot) or not len(starts):
            return [{} for _ in starts]
        deleted = snapshot.manifest.deleted_before
        if deleted is not None:
            starts = np.maximum(starts, deleted)
        whole = snapshot.index.aggregates(starts, ends, self.columns, counters)
        results = {position: fold.lower(whole) for position, fold in self._folds.items()}
        answers: list[Answers] = [
            dict(zip(results, values, strict=True)) for values in zip(*results.values(), strict=True)
        ]
        if any(UNKNOWN in values for values in results.values()):
            return [{key: value for key, value in each.items() if value is not UNKNOWN} for each in answers]
        return answers

    def _results(self, total: Aggregate) -> Answers:
        found: dict[int, Any] = dict.fromkeys(self._counts, total.rows)
        for index, folds in self._by_column.items():
            column = total.at(index)
            for position, fold in folds:
                value = fold.value(column)
                if value is not UNKNOWN:
                    found[position] = value
        return found
