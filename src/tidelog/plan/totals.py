"""Aggregates over stretches of time in the states of operators, taken from the entries of trees and what these keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, final

import numpy as np
import pyarrow as pa

from tidelog.aggregates.base import States
from tidelog.aggregates.contract import Fold
from tidelog.expr import AggregateCall, UserCall
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.model.times.interval import Interval
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.read.aggregates.entry_aggregates import EntryQuestion
from tidelog.store.read.aggregates.entry_fold import EntryFold
from tidelog.store.read.aggregates.sources import Source, reading
from tidelog.store.read.aggregates.state_aggregates import StateQuestion
from tidelog.store.read.snapshot import Snapshot

_ENDS: Final = ("first", "last")
"""Aggregates that one row tells."""


def is_kept(fold: Fold, snapshot: Snapshot) -> bool:
    """Whether an aggregate over rows without a gap can be told from entries, or from the first or the last row.

    One that users define can where some trees keep its states; of the others its columns are read.
    """
    if isinstance(fold, UserCall):
        trees = [part.layout.states for part in snapshot.parts if not part.in_memory]
        is_numbered = SEQUENCE_COLUMN in fold.columns
        return fold.where is None and not is_numbered and any(kept.has_all(fold.states) for kept in trees)
    if not isinstance(fold, AggregateCall) or fold.where is not None:
        return False
    if fold.function in _ENDS:
        return True
    found = reading(snapshot.layout, fold)
    if found.source is not Source.ENTRIES:
        return False
    assert isinstance(found.fold, EntryFold)
    if found.fold.column is None or fold.function == "count":
        return True
    kind = snapshot.layout.types[found.fold.column]
    return bool(pa.types.is_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind))


@final
class Totals:
    """Asks for the states of aggregates over stretches of a snapshot; of others than those which :func:`is_kept` for
    those of no rows, which are not asked for but beside them."""

    def __init__(self, folds: Sequence[Fold], snapshot: Snapshot, numbers: SeqSet | None) -> None:
        self._calls = [
            each if isinstance(each, AggregateCall | UserCall) and is_kept(each, snapshot) else None for each in folds
        ]
        self._nothing = [each.start() for each in folds]
        self._snapshot, self._numbers = snapshot, numbers
        layout = snapshot.layout
        asked: dict[int, EntryFold] = {}
        own = {at: call for at, call in enumerate(self._calls) if isinstance(call, UserCall)}
        self._states = StateQuestion(layout, own, ())
        for at, call in enumerate(self._calls):
            if not isinstance(call, AggregateCall) or call.function in _ENDS:
                continue
            found = reading(layout, call).fold
            assert isinstance(found, EntryFold)
            asked[2 * at] = EntryFold(layout, "count", found.column, pa.int64())
            if call.function != "count":  # a mean is made of its sum
                function = "sum" if call.function == "avg" else call.function
                asked[2 * at + 1] = EntryFold(layout, function, found.column, call.type)
        self._question = EntryQuestion(layout, asked)
        self._asked = asked

    @property
    def needs_last(self) -> bool:
        """Whether the last row of stretches has to be known."""
        return any(isinstance(call, AggregateCall) and call.function == "last" for call in self._calls)

    def of(
        self, span: Interval, first: pa.RecordBatch, last: pa.RecordBatch | None, counters: ReadCounters
    ) -> list[States] | None:
        """The states over all rows of a stretch, whose first row, and last one if it is needed, are given.

        None if entries do not tell them.
        """
        known: dict[int, Any] = {}
        states: dict[int, States] = {}
        if self._asked or self._states:
            if not self._snapshot.has_all(span.start, span.end, self._numbers):
                return None
            living = self._snapshot.living
            known = dict(self._question.ask(living, span.start, span.end, counters))
            if len(known) < len(self._asked):
                return None
            states = self._states.states(living, span.start, span.end, counters)
        one = np.array([0, 1], np.int64)
        found = []
        for at, call in enumerate(self._calls):
            if call is None:
                found.append(self._nothing[at])
            elif isinstance(call, UserCall):
                found.append(states[at])
            elif call.function in _ENDS:
                row = first if call.function == "first" else last
                assert row is not None
                found.append(call.lift(row, one))
            else:
                found.append(call.told(known[2 * at], known.get(2 * at + 1)))
        return found
