"""User-defined aggregates of a time range: from the entries of the trees that keep their states, where there are any.

Splits differ in what they keep: an aggregate may have been attached later than they were written. Of splits without it
the events in the range are read, and of those alone (spec/event-store.md 3.7).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
import pyarrow as pa

from tidelog.aggregates import Binding
from tidelog.expr import AggregateCall, Expression, UserCall
from tidelog.expr.aggregates.usercalls import ready_made
from tidelog.expr.tree import Cast, Column
from tidelog.index.entries import Words
from tidelog.index.layout import Layout
from tidelog.index.states import States
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.model.errors import InputError
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


@dataclass(frozen=True, slots=True)
class _Ask:
    position: int
    binding: Binding
    needs: States
    """The states that it takes."""
    is_usual: bool
    """Whether it can be asked of events without the code of this module: an aggregate function of SQL."""


@final
class StateQuestion:
    """What of some calls states can answer: prepared once, asked about any number of ranges."""

    def __init__(self, layout: Layout, calls: Sequence[AggregateCall | UserCall]) -> None:
        self._stored, self._time = layout.stored, layout.schema.time
        self._asks: list[_Ask] = []
        for position, call in enumerate(calls):
            if call.where is not None:
                continue
            if isinstance(call, UserCall):
                self._asks.append(_Ask(position, call.binding, call.states, False))
            elif (column := _plain_column(call.argument)) is not None:
                binding = ready_made(call.function, column)
                needs = None if binding is None else self._states([binding])
                if binding is not None and needs is not None:
                    self._asks.append(_Ask(position, binding, needs, True))
        self._plans: dict[tuple[Binding, ...], States] = {}
        self._shares: dict[tuple[States, States], tuple[States | None, States | None]] = {}

    @property
    def positions(self) -> set[int]:
        """The positions of the calls that states can answer, where they are kept."""
        return {ask.position for ask in self._asks}

    def __bool__(self) -> bool:
        return bool(self._asks)

    def _states(self, bindings: Sequence[Binding]) -> States | None:
        try:
            return States.of(self._stored, self._time, bindings, strict=True)
        except InputError:  # of columns that only SQL can aggregate
            return None

    def ask(self, snapshot: Snapshot, start: int | None, end: int | None, counters: ReadCounters) -> dict[int, Known]:
        """The results of calls by their positions, of a snapshot without deletions of single ranges.

        Functions of SQL are left out as long as no split in the range keeps their states.
        """
        start, parts = snapshot.in_range(start, end)
        trees = Counter(part.layout.states for part in parts if not part.in_memory)
        asks = [ask for ask in self._asks if not ask.is_usual or any(kept.has_all(ask.needs) for kept in trees)]
        if not asks:
            return {}
        plan = self._plan(tuple(dict.fromkeys(ask.binding for ask in asks)))
        whole, others = snapshot.index.whole_states(start, end, plan) if parts else (plan.unknown(0), [])
        table = np.concatenate([whole, *(self._row(part, start, end, plan, counters) for part in others)])
        row = plan.merge(table, np.array([0, len(table)], np.int64))[0]
        return {ask.position: Known(plan.result(ask.binding, row), _source(trees, ask.needs)) for ask in asks}

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


def _plain_column(argument: Expression | None) -> str | None:
    """The column that a function of SQL is applied to, if that is all of its argument.

    Functions that take doubles have other numbers cast; aggregates with states do the same.
    """
    node = None if argument is None else argument.node
    if isinstance(node, Cast) and node.implicit and node.type == pa.float64():
        node = node.operand
    return node.name if isinstance(node, Column) else None


_KNOWN_SHARES: Final = 256


def _source(trees: Mapping[States, int], needs: States) -> str:
    """Where a result comes from, given how many trees keep which states."""
    total = sum(trees.values())
    lacking = sum(count for kept, count in trees.items() if not kept.has_all(needs))
    if not lacking:
        return FROM_INDEX
    return FROM_EVENTS if lacking == total else f"{FROM_INDEX}, and the events of {lacking} of {total} trees"
