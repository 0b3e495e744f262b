"""time_bucket: the start of the bucket of fixed width that a date or an instant lies in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidelog.expr.functions.dates import POINTS, THEME, Longs, day_and_time, first_of_month, months_since_1970
from tidelog.expr.functions.signatures import register
from tidelog.expr.tree import Value
from tidelog.expr.values import durations
from tidelog.expr.values.durations import MICROS_PER_DAY
from tidelog.expr.values.types import DATE, INTERVAL
from tidelog.expr.values.vectors import all_valid, broadcast, length_of, made, numbers, refuse

_BUCKET_ORIGIN_DAYS = 10_959  # 2000-01-03, a Monday, as in DuckDB
_BUCKET_ORIGIN_MONTHS = 360  # 2000-01


@register(
    "time_bucket",
    THEME,
    ";".join(
        f"INTERVAL, {each} -> {each}; INTERVAL, {each}, INTERVAL -> {each}; INTERVAL, {each}, {each} -> {each}"
        for each in POINTS
    ),
)
def _time_bucket(values: Sequence[Value], result: pa.DataType) -> Value:
    months, days, micros = durations.parts(values[0])
    valid, length = all_valid(values), length_of(values)
    of_months = months != 0
    refuse(
        of_months & ((days != 0) | (micros != 0)),
        valid,
        "the width of a bucket is either months, or days and time, not both",
    )
    width = np.where(of_months, months, days * MICROS_PER_DAY + micros)
    refuse(width <= 0, valid, "the width of a bucket must be longer than zero")
    width = broadcast(np.maximum(width, 1), length)
    value = values[1]
    offset = values[2] if len(values) > 2 else None
    if offset is not None and offset.type == INTERVAL:
        value = _moved(value, offset, -1)
    point_days, time = day_and_time(value)
    if of_months.all():
        start = _month_bucket(point_days, width, offset)
    elif not of_months.any():
        start = _fixed_bucket(point_days, time, width, offset)
    else:
        both = (_month_bucket(point_days, width, offset), _fixed_bucket(point_days, time, width, offset))
        start = np.where(of_months, *both)
    bucket = broadcast(start, length)
    moved = made(bucket, valid, pa.timestamp("us"))
    if offset is not None and offset.type == INTERVAL:
        moved = _moved(moved, offset, 1)
    ticks = numbers(moved)
    return made(np.floor_divide(ticks, MICROS_PER_DAY) if result == DATE else ticks, valid, result)


def _moved(value: Value, by: Value, direction: int) -> Value:
    months, days, micros = durations.parts(by)
    shift = (direction * months, direction * days, direction * micros)
    return durations.shifted(value, shift, all_valid([value, by]), pa.timestamp("us"))


def _fixed_bucket(days: Longs, time: Longs, width: Longs, origin: Value | None) -> Longs:
    start: Any = _BUCKET_ORIGIN_DAYS * MICROS_PER_DAY
    if origin is not None and origin.type != INTERVAL:
        origin_days, origin_time = day_and_time(origin)
        start = origin_days * MICROS_PER_DAY + origin_time
    ticks = days * MICROS_PER_DAY + time - start
    buckets: Longs = np.floor_divide(ticks, width) * width + start
    return buckets


def _month_bucket(days: Longs, width: Longs, origin: Value | None) -> Longs:
    start: Any = _BUCKET_ORIGIN_MONTHS
    if origin is not None and origin.type != INTERVAL:
        start = months_since_1970(day_and_time(origin)[0])
    months = months_since_1970(days) - start
    return first_of_month(np.floor_divide(months, width) * width + start) * MICROS_PER_DAY
