"""Conversions between types, with DuckDB's rounding and DuckDB's failures.

Every conversion gives an array and the rows it failed for. CAST raises for them, TRY_CAST makes them NULL.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.expr.errors import EvaluationError, ExpressionError
from tidelog.expr.values import decimals, text_casts
from tidelog.expr.values.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    HUGEINT,
    INTERVAL,
    NULL,
    VARCHAR,
    is_decimal,
    is_float,
    is_instant,
    is_numeric,
    sql_name,
)
from tidelog.expr.values.vectors import Mask, Numbers, as_array, made, numbers, valid_rows

Converted = tuple[pa.Array, Mask | None]
"""The converted array, and where a value had no counterpart; None if nowhere."""

TICKS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
SECONDS_PER_DAY = 86_400


def is_castable(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether there is a cast between two types at all."""
    return source == target or _converter(source, target) is not None


def cast(array: pa.Array, target: pa.DataType, *, lenient: bool = False) -> pa.Array:
    """``array`` as ``target``. Raises :class:`EvaluationError` for the first failing row unless ``lenient``."""
    if array.type == target:
        return array
    converter = _converter(array.type, target)
    if converter is None:
        raise ExpressionError(f"there is no cast from {sql_name(array.type)} to {sql_name(target)}")
    result, bad = converter(array, target)
    if bad is None:
        return result
    valid = valid_rows(array)
    failed = bad if valid is None else bad & valid
    if not failed.any():
        return result
    if lenient:
        return (
            pc.if_else(pa.array(failed), pa.scalar(None, target), result)
            if target != INTERVAL
            else _without(result, failed)
        )
    value = array[int(np.argmax(failed))]
    raise EvaluationError(
        f"{text_casts.shown(value)} cannot be cast from {sql_name(array.type)} to {sql_name(target)}; "
        "use TRY_CAST to get NULL instead"
    )


def _without(array: pa.Array, failed: Mask) -> pa.Array:
    valid = valid_rows(array)
    return made(numbers(array), ~failed if valid is None else valid & ~failed, array.type)


def _converter(source: pa.DataType, target: pa.DataType) -> Callable[[pa.Array, pa.DataType], Converted] | None:
    if source == NULL:
        return _from_null
    if target == VARCHAR:
        return text_casts.to_text
    if source == VARCHAR:
        return text_casts.from_text
    if target == BOOLEAN:
        return _to_boolean if is_numeric(source) else None
    if source == BOOLEAN:
        return _from_boolean if is_numeric(target) else None
    if is_numeric(source) and is_numeric(target):
        return _number_converter(source, target)
    if is_instant(source) and is_instant(target):
        return _instant_to_instant
    return None


def _number_converter(source: pa.DataType, target: pa.DataType) -> Callable[[pa.Array, pa.DataType], Converted]:
    if is_decimal(source):
        if is_float(target):
            return _decimal_to_float
        return _decimal_to_decimal if is_decimal(target) else _decimal_to_integer
    if is_decimal(target):
        return _float_to_decimal if is_float(source) else _integer_to_decimal
    if is_float(source):
        return _float_to_float if is_float(target) else _float_to_integer
    return _integer_to_float if is_float(target) else _integer_to_integer


def _from_null(array: pa.Array, target: pa.DataType) -> Converted:
    return as_array(pa.scalar(None, target), len(array)), None


def _to_boolean(array: pa.Array, _target: pa.DataType) -> Converted:
    if is_decimal(array.type):
        return pc.not_equal(array, pa.scalar(Decimal(0), array.type)), None
    return made(numbers(array) != 0, valid_rows(array), BOOLEAN), None


def _from_boolean(array: pa.Array, target: pa.DataType) -> Converted:
    if is_decimal(target):
        return _integer_to_decimal(pc.cast(array, pa.int8()), target)
    return pc.cast(array, target), None


def _integer_to_integer(array: pa.Array, target: pa.DataType) -> Converted:
    values = numbers(array)
    limits = np.iinfo(target.to_pandas_dtype())
    own = np.iinfo(values.dtype)
    bad = None
    if own.min < limits.min or own.max > limits.max:
        bad = (values < limits.min) | (values > limits.max)
    return made(values.astype(limits.dtype), valid_rows(array), target), bad


def _integer_to_float(array: pa.Array, target: pa.DataType) -> Converted:
    return made(numbers(array).astype(target.to_pandas_dtype()), valid_rows(array), target), None


def _float_to_float(array: pa.Array, target: pa.DataType) -> Converted:
    values = numbers(array)
    with np.errstate(over="ignore", invalid="ignore"):
        converted = values.astype(target.to_pandas_dtype())
    bad = np.isinf(converted) & np.isfinite(values) if target == FLOAT else None
    return made(converted, valid_rows(array), target), bad


def _float_to_integer(array: pa.Array, target: pa.DataType) -> Converted:
    rounded = np.rint(numbers(array))
    limits = np.iinfo(target.to_pandas_dtype())
    # The upper limit plus one is a power of two, exact as a float; the limit itself may not be.
    good = (rounded >= float(limits.min)) & (rounded < float(limits.max) + (0.0 if limits.max > 2**53 else 1.0))
    with np.errstate(invalid="ignore"):
        return made(np.where(good, rounded, 0).astype(limits.dtype), valid_rows(array), target), ~good


def _integer_to_decimal(array: pa.Array, target: pa.DataType) -> Converted:
    values = numbers(array)
    room = target.precision - target.scale
    bad = None
    if 10**room <= np.iinfo(values.dtype).max:
        bad = values >= 10**room
        if np.iinfo(values.dtype).min < 0:
            bad |= values <= -(10**room)
    valid = valid_rows(array)
    if decimals.is_narrow(target):
        clean = values if bad is None else np.where(bad, values.dtype.type(0), values)
        return decimals.scaled(clean.astype(np.int64) * 10**target.scale, valid, target), bad
    clean_array = array if bad is None else made(np.where(bad, values.dtype.type(0), values), valid, array.type)
    wide = pc.cast(clean_array, pa.decimal256(20 + target.scale, target.scale))
    return pc.cast(wide, target), bad


def _float_to_decimal(array: pa.Array, target: pa.DataType) -> Converted:
    values = numbers(array).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        exact = values * 10.0**target.scale
        if target != HUGEINT:
            exact = exact + 1e-9 * np.sign(values)  # as DuckDB does, so that 1.15 * 10 rounds up
        good = np.abs(exact) < 10.0**target.precision
    rounded = np.rint(np.where(good, exact, 0.0))
    valid = valid_rows(array)
    if decimals.is_narrow(target):
        return decimals.scaled(rounded.astype(np.int64), valid, target), ~good
    unscaled = pc.cast(made(rounded, valid, DOUBLE), pa.decimal128(38, 0))
    relabelled = pa.Array.from_buffers(target, len(unscaled), unscaled.buffers(), offset=unscaled.offset)
    return relabelled, ~good


def _decimal_to_float(array: pa.Array, target: pa.DataType) -> Converted:
    dtype = target.to_pandas_dtype()
    scale = array.type.scale
    if decimals.is_narrow(array.type):
        values = decimals.unscaled(array)
        exact = np.abs(values) <= (1 << 53 if target == DOUBLE else 1 << 24)
        power = 10**scale
        quick = values.astype(dtype) / dtype(power)
        if scale and not exact.all():  # whole and fraction apart, as DuckDB does
            whole = np.sign(values) * (np.abs(values) // power)
            slow = whole.astype(dtype) + (values - whole * power).astype(dtype) / dtype(power)
            quick = np.where(exact, quick, slow)
        return made(quick, valid_rows(array), target), None
    return text_casts.by_distinct(array, target, lambda value: _float_of(value, scale, target))


def _float_of(value: Any, scale: int, target: pa.DataType) -> float:
    unscaled = float(int(value.scaleb(scale, decimals.EXACT)))
    if target == FLOAT:
        return float(np.float32(unscaled) / np.float32(10.0**scale))
    return unscaled / 10.0**scale


def _half_away(values: Numbers, divisor: int) -> Numbers:
    """Integers divided and rounded to the nearest, halves away from zero."""
    if divisor == 1:
        return values
    magnitude = np.abs(values)
    rounded: Numbers = np.sign(values) * (magnitude // divisor + (magnitude % divisor >= divisor - divisor // 2))
    return rounded


def _decimal_to_decimal(array: pa.Array, target: pa.DataType) -> Converted:
    source = array.type
    room, own_room = target.precision - target.scale, source.precision - source.scale
    if target.scale >= source.scale and room >= own_room:
        return pc.cast(array, target), None
    if decimals.is_narrow(source) and decimals.is_narrow(target):
        values = decimals.unscaled(array)
        if target.scale < source.scale:
            values = _half_away(values, 10 ** (source.scale - target.scale))
            bad = np.abs(values) >= 10**target.precision
        else:
            factor = 10 ** (target.scale - source.scale)
            bad = np.abs(values) > (10**target.precision - 1) // factor
            values = np.where(bad, 0, values) * factor
        return decimals.scaled(values, valid_rows(array), target), bad
    return text_casts.by_distinct(array, target, lambda value: text_casts.decimal_of(value, target))


def _decimal_to_integer(array: pa.Array, target: pa.DataType) -> Converted:
    limits = np.iinfo(target.to_pandas_dtype())
    if decimals.is_narrow(array.type):
        values = _half_away(decimals.unscaled(array), 10**array.type.scale)
        bad = (values < limits.min) | (values > limits.max)
        return made(values.astype(limits.dtype), valid_rows(array), target), bad
    return text_casts.by_distinct(array, target, lambda value: text_casts.integer_of(value, target))


def _instant_to_instant(array: pa.Array, target: pa.DataType) -> Converted:
    ticks, valid = numbers(array).astype(np.int64), valid_rows(array)
    if target == DATE:
        return made(np.floor_divide(ticks, SECONDS_PER_DAY * TICKS_PER_SECOND[array.type.unit]), valid, DATE), None
    wanted = TICKS_PER_SECOND[target.unit]
    factor = wanted * SECONDS_PER_DAY if array.type == DATE else None
    if factor is None:
        own = TICKS_PER_SECOND[array.type.unit]
        if own > wanted:
            return made(_half_away(ticks, own // wanted), valid, target), None
        factor = wanted // own
    limit = (2**63 - 1) // factor
    bad = (ticks > limit) | (ticks < -limit)
    return made(np.where(bad, 0, ticks) * factor, valid, target), bad
