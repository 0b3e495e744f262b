"""Aggregates of a time range: from the entries of trees where they know the answer, from the events otherwise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tidelog.expr import AggregateCall, Predicate
from tidelog.expr.tree import Column
from tidelog.index.aggregate import Aggregate
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.store.scan import scan
from tidelog.store.snapshot import Snapshot

_FROM_ENTRIES = ("count", "sum", "min", "max", "avg")


@dataclass(frozen=True, slots=True)
class Answers:
    """The values of aggregate calls, in their order, and how they came about."""

    values: list[Any]
    from_events: list[bool]
    counters: ReadCounters


def aggregate(
    snapshot: Snapshot,
    start: int | None,
    end: int | None,
    calls: Sequence[AggregateCall],
    where: Predicate | None = None,
    below_seq: int | None = None,
) -> Answers:
    """The aggregates of the rows with ``start <= time < end`` that satisfy ``where``.

    Sums, counts, extremes and averages of plain columns come from the entries of the trees, which takes a few node
    reads whatever the length of the range (spec/event-store.md 9.2). Everything else is computed from the events.
    """
    counters = ReadCounters()
    values: list[Any] = [None] * len(calls)
    from_events = [True] * len(calls)
    if where is None and below_seq is None and not snapshot.deletions(start, end):
        _from_entries(snapshot, start, end, calls, values, from_events, counters)
    rest = [index for index, events in enumerate(from_events) if events]
    if rest:
        names = dict.fromkeys(name for index in rest for name in calls[index].columns)
        states = {index: calls[index].start() for index in rest}
        # Something must be read to count rows: what is looked at anyway, or times, which compress best.
        looked_at = () if where is None else where.columns
        columns = list(names) or list(looked_at[:1]) or [snapshot.layout.schema.time]
        for batch in scan(snapshot, start, end, columns, where, below_seq, counters):
            for index in rest:
                states[index] = calls[index].add(states[index], batch)
        for index in rest:
            values[index] = plain(calls[index].result(states[index]))
    return Answers(values, from_events, counters)


def _from_entries(
    snapshot: Snapshot,
    start: int | None,
    end: int | None,
    calls: Sequence[AggregateCall],
    values: list[Any],
    from_events: list[bool],
    counters: ReadCounters,
) -> None:
    names = [_column(call) for call in calls]
    eligible = [
        call.function in _FROM_ENTRIES and call.where is None and (call.argument is None or name is not None)
        for call, name in zip(calls, names, strict=True)
    ]
    columns = list(dict.fromkeys(name for name, fits in zip(names, eligible, strict=True) if fits and name is not None))
    if not any(eligible):
        return
    start, parts = snapshot.in_range(start, end)
    if any(part.layout.schema != snapshot.layout.schema for part in parts):
        return  # entries of an older version of the schema
    total = Aggregate(snapshot.layout, snapshot.layout.indexes(columns))
    for part in sorted(parts, key=lambda part: part.first):
        total.merge(part.aggregate(start, end, columns, counters))
    for index, (call, name, fits) in enumerate(zip(calls, names, eligible, strict=True)):
        if fits:
            known, value = _value(call, name, total)
            if known:
                values[index], from_events[index] = value, False


def _column(call: AggregateCall) -> str | None:
    return call.argument.name if isinstance(call.argument, Column) else None


def _value(call: AggregateCall, name: str | None, total: Aggregate) -> tuple[bool, Any]:
    """Whether entries know the result of a call, and the result."""
    if name is None:
        return True, total.rows
    counted = total.rows - total.nulls(name)
    if call.function == "count":
        return True, counted
    if not counted:
        return True, None
    nans = total.nans(name)
    if call.function in ("sum", "avg"):
        if not total.knows_sum(name):
            return False, None
        amount = math.nan if nans else total.total(name)
        if call.function == "sum":
            return True, _as(amount, total.layout.stored.field(name).type, call.type)
        return True, float(amount) / counted if isinstance(amount, float) else _ratio(amount, counted)
    if not total.knows_bounds(name):
        return False, None
    if call.function == "max" and nans:  # NaN is greater than every number
        return True, math.nan
    if call.function == "min" and nans == counted:
        return True, math.nan
    bound = total.minimum(name) if call.function == "min" else total.maximum(name)
    return True, _as(bound, total.layout.stored.field(name).type, call.type)


def _ratio(amount: Any, count: int) -> float:
    return float(amount / count) if isinstance(amount, Decimal) else amount / count


def _as(value: Any, column: pa.DataType, type: pa.DataType) -> Any:
    """A bound or sum of a column as the Python value of a result of that type."""
    if pa.types.is_temporal(column):
        # The number is in the column's own unit, the result may be in another.
        ticks = pa.scalar(value, pa.int64() if column.bit_width == 64 else pa.int32())
        return plain(ticks.cast(column).cast(type))
    if isinstance(value, float) and pa.types.is_float32(type):
        return plain(pa.scalar(value, type))
    return value


def plain(scalar: pa.Scalar) -> Any:
    """A result as a Python value; sums of integers, decimals without a fraction to Arrow, are integers."""
    value = scalar.as_py()
    if isinstance(value, Decimal) and pa.types.is_decimal(scalar.type) and scalar.type.scale == 0:
        return int(value)
    return value
