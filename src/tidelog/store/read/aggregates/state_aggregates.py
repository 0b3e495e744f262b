"""User-defined aggregates of a time range: from the entries of the trees that keep their states, where there are any.

Splits differ in what they keep: an aggregate may have been attached later than they were written. Of splits without it
the events in the range are read, and of those alone (spec/event-store.md 3.7).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

from tidelog.aggregates import Binding
from tidelog.expr import UserCall
from tidelog.index.entries import Words
from tidelog.index.layout import Layout
from tidelog.index.states import States
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.store.read.parts.part import Part
from tidelog.store.read.snapshot import Snapshot

FROM_INDEX: Final = "the index"
FROM_EVENTS: Final = "events"
FROM_MASKED: Final = "the index, and events where some were overwritten"


@dataclass(frozen=True, slots=True)
class Known:
    """The value of a call, and where it comes from."""

    value: Any
    source: str


@final
class StateQuestion:
    """What of some calls states can answer: prepared once, asked about any number of ranges."""

    def __init__(self, layout: Layout, folds: Mapping[int, UserCall], usual: Collection[int]) -> None:
        """``folds`` by the positions of their calls; ``usual`` are those of functions of SQL."""
        self._stored, self._time = layout.stored, layout.schema.time
        self._folds = folds
        self._usual = usual
        self._plans: dict[tuple[Binding, ...], States] = {}
        self._shares: dict[tuple[States, States], tuple[States | None, States | None]] = {}

    def __bool__(self) -> bool:
        return bool(self._folds)

    def ask(self, snapshot: Snapshot, start: int | None, end: int | None, counters: ReadCounters) -> dict[int, Known]:
        """The results of calls by their positions, of a snapshot without deletions of single ranges.

        Functions of SQL are left out as long as no split in the range keeps their states.
        """
        start, parts = snapshot.in_range(start, end)
        trees = Counter(part.layout.states for part in parts if not part.in_memory)
        folds = {
            position: fold
            for position, fold in self._folds.items()
            if position not in self._usual or any(kept.has_all(fold.states) for kept in trees)
        }
        if not folds:
            return {}
        plan, row = self._merged(snapshot, start, end, parts, folds, counters)
        return {
            position: Known(plan.result(fold.binding, row[0]), _source(trees, fold.states))
            for position, fold in folds.items()
        }

    def states(
        self, snapshot: Snapshot, start: int | None, end: int | None, counters: ReadCounters
    ) -> dict[int, Words]:
        """The states of all calls by their positions, of a snapshot without deletions of single ranges."""
        if not self._folds:
            return {}
        start, parts = snapshot.in_range(start, end)
        plan, row = self._merged(snapshot, start, end, parts, self._folds, counters)
        return {position: row[:, plan.words_of(fold.states)] for position, fold in self._folds.items()}

    def _merged(
        self,
        snapshot: Snapshot,
        start: int | None,
        end: int | None,
        parts: list[Part],
        folds: Mapping[int, UserCall],
        counters: ReadCounters,
    ) -> tuple[States, Words]:
        """The states that some calls need, as a table of one row, and how they are laid out."""
        plan = self._plan(tuple(dict.fromkeys(fold.binding for fold in folds.values())))
        whole, others = snapshot.index.whole_states(start, end, plan) if parts else (plan.unknown(0), [])
        table = np.concatenate([whole, *(self._row(part, start, end, plan, counters) for part in others)])
        return plan, plan.merge(table, np.array([0, len(table)], np.int64))

    def _plan(self, bindings: tuple[Binding, ...]) -> States:
        plan = self._plans.get(bindings)
        if plan is None:
            plan = self._plans[bindings] = States.of(self._stored, self._time, bindings, strict=True)
        return plan

    def _row(self, part: Part, start: int | None, end: int | None, plan: States, counters: ReadCounters) -> Words:
        """The states of a part's rows in a time range, as a table of one row."""
        kept, rest = self._shared(plan, part.layout.states)
        row = np.zeros((1, plan.words), np.uint64)
        if kept is not None:
            row[:, plan.words_of(kept)] = part.states(start, end, kept, counters)
        if rest is not None:
            row[:, plan.words_of(rest)] = part.states_of_rows(start, end, rest, counters)
        return row

    def _shared(self, plan: States, kept: States) -> tuple[States | None, States | None]:
        """What of a plan a tree keeps, and what it does not."""
        found = self._shares.get((plan, kept))
        if found is None:
            ours = [each.binding for each in plan.kept if kept.has_all(plan.subset([each.binding]))]
            others = [binding for binding in plan.bindings if binding not in ours]
            found = (plan.subset(ours) if ours else None, plan.subset(others) if others else None)
            if len(self._shares) >= _KNOWN_SHARES:
                self._shares.clear()
            self._shares[plan, kept] = found
        return found


_KNOWN_SHARES: Final = 256


def _source(trees: Mapping[States, int], needs: States) -> str:
    """Where a result comes from, given how many trees keep which states."""
    total = sum(trees.values())
    lacking = sum(count for kept, count in trees.items() if not kept.has_all(needs))
    if not lacking:
        return FROM_INDEX
    return FROM_EVENTS if lacking == total else f"{FROM_INDEX}, and the events of {lacking} of {total} trees"
