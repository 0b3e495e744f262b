"""Aggregate calls that the entries of trees can answer, without a look at more than a few events.

Sums, counts, extremes and averages of plain columns take a few node reads, whatever the length of the range
(spec/event-store.md 9.2).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, final

import numpy as np
import pyarrow as pa

from tidelog.expr import AggregateCall, UserCall
from tidelog.expr.tree import Column
from tidelog.index.aggregate import Aggregate, ColumnAggregate, Doubles
from tidelog.index.entries import Entries
from tidelog.index.layout import Layout
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.model.scalars import python_value
from tidelog.storage.codec import Ints
from tidelog.store.read.number_columns import NumberColumn
from tidelog.store.read.snapshot import Snapshot

_FLOAT32: Final = pa.float32().id
_FUNCTIONS: Final = ("count", "sum", "min", "max", "avg")

_UNKNOWN: Final = object()

Answers = Mapping[int, Any]
"""The results of calls by their positions; calls without an answer are left out."""


@final
class EntryQuestion:
    """What entries are to be asked for some aggregate calls: prepared once, asked about any number of ranges."""

    def __init__(self, layout: Layout, calls: Sequence[AggregateCall | UserCall]) -> None:
        self.layout = layout
        self._counts: list[int] = []
        """Positions of the calls that count rows."""
        self._calls: dict[int, list[tuple[int, str, pa.DataType]]] = {}
        """Position, function and type of the result of those that entries can answer, by column."""
        for position, call in enumerate(calls):
            if isinstance(call, AggregateCall) and call.function in _FUNCTIONS and call.where is None:
                if call.argument is None:
                    self._counts.append(position)
                elif isinstance(call.argument.node, Column):
                    column = layout.index(call.argument.node.name)
                    self._calls.setdefault(column, []).append((position, call.function, call.type))
        self._columns: Ints = np.array(list(self._calls), np.int64)
        self._doubles = {index for index in self._calls if pa.types.is_float64(layout.types[index])}
        self._asks_numbers = layout.sequence in self._calls

    @property
    def positions(self) -> set[int]:
        """The positions of the calls that entries can answer."""
        return {*self._counts, *(position for calls in self._calls.values() for position, *_ in calls)}

    def ask(self, snapshot: Snapshot, start: int | None, end: int | None, counters: ReadCounters) -> Answers:
        """What the entries of a snapshot without deletions of single ranges know about a time range."""
        if not self._can_ask(snapshot):
            return {}
        start = snapshot.not_deleted(start)
        return self._results(snapshot.index.aggregate(start, end, self._columns, counters))

    def _can_ask(self, snapshot: Snapshot) -> bool:
        return bool(self._calls or self._counts) and not (self._asks_numbers and snapshot.is_shifted)

    def ask_all(self, snapshot: Snapshot, starts: Ints, ends: Ints, counters: ReadCounters) -> list[Answers]:
        """:meth:`ask` about many ranges ``[starts[i], ends[i])`` in one pass over the trees."""
        if not self._can_ask(snapshot) or not len(starts):
            return [{} for _ in starts]
        deleted = snapshot.manifest.deleted_before
        if deleted is not None:
            starts = np.maximum(starts, deleted)
        whole = snapshot.index.aggregates(starts, ends, self._columns, counters)
        results = self._columns_of_results(whole)
        if results is not None:
            return [dict(zip(results, values, strict=True)) for values in zip(*results.values(), strict=True)]
        return [
            self._results(Aggregate(self.layout, self._columns, whole[index : index + 1]))
            for index in range(len(starts))
        ]

    def _columns_of_results(self, whole: Entries) -> dict[int, list[Any]] | None:
        """The results of all entries, by the positions of the calls; None if that takes a look at each entry."""
        columns = {index: NumberColumn.of(whole, index, self.layout.types[index]) for index in self._calls}
        results: dict[int, list[Any]] = dict.fromkeys(self._counts, whole["rows"].tolist())
        for index, calls in self._calls.items():
            column = columns[index]
            for position, function, _ in calls:
                found = None if column is None else column.results(function)
                if found is None:
                    return None
                results[position] = found
        return results

    def _results(self, total: Aggregate) -> Answers:
        found: dict[int, Any] = dict.fromkeys(self._counts, total.rows)
        for index, calls in self._calls.items():
            if index in self._doubles:
                _put_doubles(total.doubles_at(index), calls, found)
                continue
            column = total.at(index)
            for position, function, type in calls:
                value = _value(function, column, type)
                if value is not _UNKNOWN:
                    found[position] = value
        return found


def _put_doubles(column: Doubles, calls: Sequence[tuple[int, str, pa.DataType]], found: dict[int, Any]) -> None:
    """What :func:`_value` says for a column of doubles, of all functions, by their positions: asked for most often."""
    counted, nans, has_bounds, has_sum, low, high, total = column
    for position, function, _ in calls:
        if function == "count":
            found[position] = counted
        elif not counted:
            found[position] = None
        elif function == "sum" or function == "avg":
            if has_sum:
                amount = math.nan if nans else total
                found[position] = amount if function == "sum" else amount / counted
        elif has_bounds:
            if function == "max":  # NaN is greater than every number
                found[position] = math.nan if nans else high
            else:
                found[position] = math.nan if nans == counted else low


def _value(function: str, column: ColumnAggregate, type: pa.DataType) -> Any:
    """The result of a function, of a type; ``_UNKNOWN`` if entries do not know it."""
    nans = column.nans
    counted = column.values + nans
    if function == "count":
        return counted
    if not counted:
        return None
    if function in ("sum", "avg"):
        if not column.knows_sum:
            return _UNKNOWN
        amount = math.nan if nans else column.total()
        if function == "sum":
            return _as(amount, column.type, type)
        return float(amount / counted) if isinstance(amount, Decimal) else amount / counted
    if not column.knows_bounds:
        return _UNKNOWN
    if function == "max" and nans:  # NaN is greater than every number
        return math.nan
    if function == "min" and nans == counted:
        return math.nan
    return _as(column.minimum() if function == "min" else column.maximum(), column.type, type)


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
    value = python_value(scalar)
    if isinstance(value, Decimal) and pa.types.is_decimal(scalar.type) and scalar.type.scale == 0:
        return int(value)
    return value
