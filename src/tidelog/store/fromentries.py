"""Aggregate calls that the entries of trees can answer, without a look at more than a few events.

Sums, counts, extremes and averages of plain columns take a few node reads, whatever the length of the range
(spec/event-store.md 9.2).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, final

import numpy as np
import pyarrow as pa

from tidelog.expr import AggregateCall, UserCall
from tidelog.expr.tree import Column
from tidelog.index.aggregate import Aggregate, ColumnAggregate
from tidelog.index.layout import Layout
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.storage.codec import Ints
from tidelog.store.snapshot import Snapshot

_FLOAT32: Final = pa.float32().id
_FUNCTIONS: Final = ("count", "sum", "min", "max", "avg")

Answers = Mapping[int, Any]
"""The results of calls by their positions; calls without an answer are left out."""


@final
class EntryQuestion:
    """What entries are to be asked for some aggregate calls: prepared once, asked about any number of ranges."""

    def __init__(self, layout: Layout, calls: Sequence[AggregateCall | UserCall]) -> None:
        self.layout = layout
        self._calls: list[tuple[int, str, int | None, pa.DataType]] = []
        """Position, function, column and type of the result of those that entries can answer."""
        for position, call in enumerate(calls):
            if isinstance(call, AggregateCall) and call.function in _FUNCTIONS and call.where is None:
                if call.argument is None:
                    self._calls.append((position, call.function, None, call.type))
                elif isinstance(call.argument, Column):
                    self._calls.append((position, call.function, layout.index(call.argument.name), call.type))
        columns = dict.fromkeys(column for _, _, column, _ in self._calls if column is not None)
        self._columns: Ints = np.array(list(columns), np.int64)
        self._asks_numbers = layout.sequence in columns

    @property
    def positions(self) -> set[int]:
        """The positions of the calls that entries can answer."""
        return {position for position, *_ in self._calls}

    def ask(self, snapshot: Snapshot, start: int | None, end: int | None, counters: ReadCounters) -> Answers:
        """What the entries of a snapshot without deletions of single ranges know about a time range."""
        if not self._can_ask(snapshot):
            return {}
        start = snapshot.not_deleted(start)
        return dict(self._results(snapshot.index.aggregate(start, end, self._columns, counters)))

    def _can_ask(self, snapshot: Snapshot) -> bool:
        return bool(self._calls) and not (self._asks_numbers and snapshot.is_shifted)

    def ask_all(self, snapshot: Snapshot, starts: Ints, ends: Ints, counters: ReadCounters) -> list[Answers]:
        """:meth:`ask` about many ranges ``[starts[i], ends[i])`` in one pass over the trees."""
        if not self._can_ask(snapshot) or not len(starts):
            return [{} for _ in starts]
        deleted = snapshot.manifest.deleted_before
        if deleted is not None:
            starts = np.maximum(starts, deleted)
        whole = snapshot.index.aggregates(starts, ends, self._columns, counters)
        return [
            dict(self._results(Aggregate(self.layout, self._columns, whole[index : index + 1])))
            for index in range(len(starts))
        ]

    def _results(self, total: Aggregate) -> Iterator[tuple[int, Any]]:
        columns = {column: total.at(column) for column in self._columns.tolist()}
        for position, function, column, type in self._calls:
            if column is None:
                yield position, total.rows
            else:
                known, value = _value(function, columns[column], type)
                if known:
                    yield position, value


def _value(function: str, column: ColumnAggregate, type: pa.DataType) -> tuple[bool, Any]:
    """Whether entries know the result of a function, and the result, of a type."""
    counted = column.values + column.nans
    if function == "count":
        return True, counted
    if not counted:
        return True, None
    if function in ("sum", "avg"):
        if not column.knows_sum:
            return False, None
        amount = math.nan if column.nans else column.total()
        if function == "sum":
            return True, _as(amount, column.type, type)
        return True, float(amount / counted) if isinstance(amount, Decimal) else amount / counted
    if not column.knows_bounds:
        return False, None
    if function == "max" and column.nans:  # NaN is greater than every number
        return True, math.nan
    if function == "min" and column.nans == counted:
        return True, math.nan
    return True, _as(column.minimum() if function == "min" else column.maximum(), column.type, type)


def _as(value: Any, column: pa.DataType, type: pa.DataType) -> Any:
    """A bound or sum of a column as the Python value of a result of that type."""
    if isinstance(value, float):
        return plain(pa.scalar(value, type)) if type.id == _FLOAT32 else value
    if pa.types.is_temporal(column):
        # The number is in the column's own unit, the result may be in another.
        ticks = pa.scalar(value, pa.int64() if column.bit_width == 64 else pa.int32())
        return plain(ticks.cast(column).cast(type))
    return value


def plain(scalar: pa.Scalar) -> Any:
    """A result as a Python value; sums of integers, decimals without a fraction to Arrow, are integers."""
    value = scalar.as_py()
    if isinstance(value, Decimal) and pa.types.is_decimal(scalar.type) and scalar.type.scale == 0:
        return int(value)
    return value
