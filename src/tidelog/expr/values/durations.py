"""INTERVAL: months, days and time kept apart, as in DuckDB; arithmetic with instants.

In memory an interval is Arrow's record of months, days and nanoseconds. DuckDB counts microseconds, so nanoseconds
here are always a multiple of 1,000.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.expr.values.types import DATE, INTERVAL, is_integer, kind
from tidelog.expr.values.vectors import INTERVAL_DTYPE, Mask, Numbers, all_valid, broadcast, made, numbers, refuse

Longs = npt.NDArray[np.int64]

MICROS_PER_DAY = 86_400_000_000
DAYS_PER_MONTH = 30
_MICROS_PER_MONTH = DAYS_PER_MONTH * MICROS_PER_DAY
_LARGEST = 2**63 - 1
_TOO_LONG = "the result is out of the range of INTERVAL"
_OUT_OF_RANGE = "the result is out of the range of TIMESTAMP"


def parts(value: Any) -> tuple[Longs, Longs, Longs]:
    """Months, days and microseconds of an interval value."""
    records = numbers(value)
    return records["months"].astype(np.int64), records["days"].astype(np.int64), records["nanos"] // 1000


def from_parts(months: Numbers, days: Numbers, micros: Numbers, valid: Mask | None) -> pa.Array:
    """An interval array. Raises :class:`EvaluationError` where a part is too large."""
    months, days, micros = np.broadcast_arrays(months, days, micros)
    too_large = beyond(months, 2**31) | beyond(days, 2**31) | beyond(micros, _LARGEST // 1000)
    refuse(too_large, valid, _TOO_LONG)
    records = np.zeros(len(months), INTERVAL_DTYPE)
    keep = ~too_large  # null rows may hold anything
    records["months"][keep] = months[keep]
    records["days"][keep] = days[keep]
    records["nanos"][keep] = micros[keep] * 1000
    return made(records, valid, INTERVAL)


def beyond(values: Numbers, limit: int) -> Mask:
    """Which integers are below ``-limit`` or not below ``limit``; without their magnitudes, which may not exist."""
    return (values < -limit) | (values >= limit)


def order_keys(value: Any) -> tuple[Longs, Longs]:
    """Two keys by which intervals compare: full months, and microseconds of the rest; a month has 30 days."""
    months, days, micros = parts(value)
    total = days * MICROS_PER_DAY + micros
    more, rest = np.divmod(total, _MICROS_PER_MONTH)
    return months + more, rest


def add(left: Any, right: Any, result: pa.DataType) -> Any:
    """The sum of two intervals, of a date and days, or of an instant and an interval, in either order."""
    valid = all_valid([left, right])
    if kind(left.type) == "INTERVAL" and kind(right.type) == "INTERVAL":
        return _sum(parts(left), parts(right), valid)
    if result == DATE:
        days = numbers(left).astype(np.int64) + numbers(right).astype(np.int64)
        return _date(days, valid)
    instant, interval = (right, left) if kind(left.type) == "INTERVAL" else (left, right)
    return shifted(instant, parts(interval), valid, result)


def _sum(left: tuple[Longs, Longs, Longs], right: tuple[Longs, Longs, Longs], valid: Mask | None) -> pa.Array:
    return from_parts(left[0] + right[0], left[1] + right[1], left[2] + right[2], valid)


def subtract(left: Any, right: Any, result: pa.DataType) -> Any:
    """The difference of two intervals, dates or instants, or an instant moved back."""
    valid = all_valid([left, right])
    if is_integer(result):
        return made(numbers(left).astype(np.int64) - numbers(right), valid, result)
    if result == DATE:
        return _date(numbers(left).astype(np.int64) - numbers(right).astype(np.int64), valid)
    if result == INTERVAL and kind(left.type) != "INTERVAL":
        before, after = numbers(right), numbers(left)
        with np.errstate(over="ignore"):
            gap = after - before
        wrapped = (after.astype(np.float64) - before.astype(np.float64)) / 2.0**63
        refuse(np.abs(wrapped) >= 1.0, valid, "overflow in subtraction of timestamps")
        days = np.sign(gap) * (np.abs(gap) // MICROS_PER_DAY)
        return from_parts(np.zeros_like(days), days, gap - days * MICROS_PER_DAY, valid)
    months, days, micros = parts(right)
    negative = -months, -days, -micros
    if kind(left.type) == "INTERVAL":
        return _sum(parts(left), negative, valid)
    return shifted(left, negative, valid, result)


def negate(value: Any) -> Any:
    """An interval of the opposite direction."""
    months, days, micros = parts(value)
    return from_parts(-months, -days, -micros, all_valid([value]))


def multiply(left: Any, right: Any) -> Any:
    """An interval times a number, in either order."""
    interval, factor = (left, right) if kind(left.type) == "INTERVAL" else (right, left)
    valid = all_valid([left, right])
    factors = numbers(factor)
    if not pa.types.is_integer(factor.type):
        return _scaled(interval, lambda part: part * factors, valid)
    refuse(
        np.broadcast_to(beyond(factors, 2**31), _shape(interval, factor)),
        valid,
        "the factor is out of the range of INTEGER",
    )
    scaled = []
    for part in parts(interval):
        refuse(np.abs(part.astype(np.float64) * factors) > float(_LARGEST) / 1000, valid, _TOO_LONG)
        with np.errstate(over="ignore"):
            scaled.append(part * factors)
    return from_parts(scaled[0], scaled[1], scaled[2], valid)


def divide(interval: Any, divisor: Any) -> Any:
    """An interval divided by a DOUBLE."""
    valid = all_valid([interval, divisor])
    divisors = numbers(divisor)
    zero = np.broadcast_to(divisors == 0, _shape(interval, divisor))
    refuse(zero, valid, "division by zero in /; use NULLIF(divisor, 0) to get NULL instead")
    return _scaled(interval, lambda part: part / divisors, valid)


def _shape(left: Any, right: Any) -> tuple[int, ...]:
    return np.broadcast_shapes(numbers(left).shape, numbers(right).shape)


def _to_micro(values: Numbers) -> Numbers:
    """Rounded to a millionth, where PostgreSQL and DuckDB end the noise of fractions."""
    return np.rint(values * 1e6) / 1e6


def _scaled(interval: Any, scale: Callable[[Numbers], Numbers], valid: Mask | None) -> Any:
    """Parts times or by a number: fractions of months spill into days, fractions of days into time."""
    months, days, micros = (part.astype(np.float64) for part in parts(interval))
    with np.errstate(all="ignore"):
        exact_months, exact_days = scale(months), scale(days)
        whole_months, whole_days = np.trunc(exact_months), np.trunc(exact_days)
        more_days = _to_micro((exact_months - whole_months) * DAYS_PER_MONTH)
        seconds = _to_micro((exact_days - whole_days + more_days - np.trunc(more_days)) * 86_400.0)
        carried = np.trunc(seconds / 86_400.0)
        whole_days = whole_days + carried + np.trunc(more_days)
        whole_micros = np.rint(scale(micros) + (seconds - carried * 86_400.0) * 1e6)
    total = np.stack(np.broadcast_arrays(whole_months, whole_days, whole_micros))
    good = np.isfinite(total) & (np.abs(total) <= 9e15)
    refuse(~good.all(axis=0), valid, _TOO_LONG)
    clean = np.where(good, total, 0).astype(np.int64)
    return from_parts(clean[0], clean[1], clean[2], valid)


def shifted(instant: Any, by: tuple[Longs, Longs, Longs], valid: Mask | None, result: pa.DataType) -> Any:
    """An instant moved by months (to the last day where the month is too short), days and microseconds."""
    ticks = numbers(instant).astype(np.int64)
    (count,) = np.broadcast_shapes(ticks.shape, by[0].shape)
    months, days, micros = (broadcast(part, count) for part in by)
    if instant.type == DATE:
        day, time = broadcast(ticks, count), np.zeros(count, np.int64)
    else:
        day, time = np.divmod(broadcast(ticks, count), MICROS_PER_DAY)
    # Where a zone is involved, DuckDB takes the time of day off first when it goes back in time.
    upwards = (months < 0) | (days < 0) | (micros < 0) if pa.types.is_timestamp(result) and result.tz else np.False_
    if np.any(upwards):
        carried, rest = np.divmod(time + micros, MICROS_PER_DAY)
        small_first = added_months(day + carried, months) + days, rest
        large_first = added_months(day, months) + days, time + micros
        day, time = (np.where(upwards, *pair) for pair in zip(small_first, large_first, strict=True))
    else:
        day, time = (added_months(day, months) if months.any() else day) + days, time + micros
    estimate = day.astype(np.float64) * MICROS_PER_DAY + time
    refuse(np.abs(estimate) >= 2.0**63, valid, _OUT_OF_RANGE)
    with np.errstate(over="ignore"):
        return made(day * MICROS_PER_DAY + time, valid, result)


def added_months(days: Longs, months: Longs) -> Longs:
    """Days since 1970-01-01 moved by months, at the end of the month at latest."""
    dates = days.astype("datetime64[D]")
    first = dates.astype("datetime64[M]")
    day_of_month = (dates - first.astype("datetime64[D]")).astype(np.int64)
    target = (first.astype(np.int64) + months).astype("datetime64[M]")
    start = target.astype("datetime64[D]").astype(np.int64)
    length = (target + 1).astype("datetime64[D]").astype(np.int64) - start
    moved: Longs = start + np.minimum(day_of_month, length - 1)
    return moved


def _date(days: Numbers, valid: Mask | None) -> pa.Array:
    refuse(np.abs(days) > 2**31 - 2, valid, "the result is out of the range of DATE")
    return made(days, valid, DATE)
