"""What it takes to answer aggregate calls of a stream: entries of trees, kept states, or the rows themselves."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import pyarrow as pa

from tidelog.aggregates.contract import Fold
from tidelog.expr import AggregateCall, Expression, UserCall
from tidelog.expr.aggregates.bindings import ready_made
from tidelog.expr.tree import Cast, Column
from tidelog.index.layout import Layout
from tidelog.index.states import States
from tidelog.model.errors import InputError
from tidelog.store.read.aggregates.entry_fold import FUNCTIONS, EntryFold


class Source(Enum):
    """The best that can answer a call without a condition on rows; with one, all are answered from rows."""

    ENTRIES = "entries"
    """Those of trees: a few node reads for any range, but for bounds and sums that some entries do not have."""
    STATES = "states"
    """Those kept beside the entries; of trees that do not keep them, rows are read."""
    ROWS = "rows"


@dataclass(frozen=True, slots=True)
class Reading:
    """How a call is answered, and what is read for it."""

    source: Source
    fold: Fold
    """What the states of the source are lifted, merged and lowered by; that of rows is the call itself."""
    columns: tuple[str, ...]
    """The columns that are read where rows are."""

    @property
    def counts_rows(self) -> bool:
        """Whether it is ``count(*)``."""
        return isinstance(self.fold, EntryFold) and self.fold.column is None


def reading(layout: Layout, call: AggregateCall | UserCall) -> Reading:
    """How a call of a stream with a certain layout is answered."""
    if (of_entries := _in_entries(layout, call)) is not None:
        return Reading(Source.ENTRIES, of_entries, call.columns)
    if (of_states := _in_states(layout, call)) is not None:
        return Reading(Source.STATES, of_states, call.columns)
    return Reading(Source.ROWS, call, call.columns)


def _in_entries(layout: Layout, call: AggregateCall | UserCall) -> EntryFold | None:
    if isinstance(call, UserCall) or call.where is not None or call.function not in FUNCTIONS:
        return None
    if call.argument is None:
        return EntryFold(layout, call.function, None, call.type)
    node = call.argument.node
    return EntryFold(layout, call.function, layout.index(node.name), call.type) if isinstance(node, Column) else None


def _in_states(layout: Layout, call: AggregateCall | UserCall) -> UserCall | None:
    if call.where is not None or isinstance(call, UserCall):
        return call if isinstance(call, UserCall) and call.where is None else None
    column = _plain_column(call.argument)
    binding = None if column is None else ready_made(call.function, column)
    if binding is None:
        return None
    try:
        return UserCall(binding, None, States.of(layout.stored, layout.schema.time, [binding], strict=True))
    except InputError:  # of columns that only SQL can aggregate
        return None


def _plain_column(argument: Expression | None) -> str | None:
    """The column that a function of SQL is applied to, if that is all of its argument.

    Functions that take doubles have other numbers cast; aggregates with states do the same.
    """
    node = None if argument is None else argument.node
    if isinstance(node, Cast) and node.implicit and node.type == pa.float64():
        node = node.operand
    return node.name if isinstance(node, Column) else None
