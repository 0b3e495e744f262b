"""Conversions between numbers and between instants, with DuckDB's rounding and DuckDB's failures.

Every conversion gives an array and the rows it failed for. DuckDB makes all other ones, and TRY_CAST.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.expr.errors import EvaluationError
from tidelog.expr.values import decimals
from tidelog.expr.values.types import (
    BOOLEAN,
    DATE,
    FLOAT,
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
    if source in (target, NULL) or VARCHAR in (source, target):
        return True
    if BOOLEAN in (source, target):
        return is_numeric(target if source == BOOLEAN else source)
    return (is_numeric(source) and is_numeric(target)) or (is_instant(source) and is_instant(target))


def is_native(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a cast is made here; DuckDB makes the others."""
    return source == target or _converter(source, target) is not None


def cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    """``array`` as ``target``, of types whose cast is made here. Raises :class:`EvaluationError`."""
    if array.type == target:
        return array
    converter = _converter(array.type, target)
    assert converter is not None
    result, bad = converter(array, target)
    if bad is None:
        return result
    valid = valid_rows(array)
    failed = bad if valid is None else bad & valid
    if not failed.any():
        return result
    value = array[int(np.argmax(failed))].cast(VARCHAR).as_py()
    raise EvaluationError(
        f"{value} cannot be cast from {sql_name(array.type)} to {sql_name(target)}; use TRY_CAST to get NULL instead"
    )


def _converter(source: pa.DataType, target: pa.DataType) -> Callable[[pa.Array, pa.DataType], Converted] | None:
    if source == NULL:
        return _from_null
    if target == BOOLEAN:
        return _to_boolean if is_numeric(source) and not is_decimal(source) else None
    if source == BOOLEAN:
        return _from_boolean if is_numeric(target) and not is_decimal(target) else None
    if is_numeric(source) and is_numeric(target):
        return _number_converter(source, target)
    if is_instant(source) and is_instant(target):
        return _instant_to_instant
    return None


def _number_converter(source: pa.DataType, target: pa.DataType) -> Callable[[pa.Array, pa.DataType], Converted] | None:
    if is_decimal(source):
        is_wider = is_decimal(target) and target.scale >= source.scale
        return _widened if is_wider and target.precision - target.scale >= source.precision - source.scale else None
    if is_decimal(target):
        return None if is_float(source) else _integer_to_decimal
    if is_float(source):
        return _float_to_float if is_float(target) else _float_to_integer
    return _integer_to_float if is_float(target) else _integer_to_integer


def _widened(array: pa.Array, target: pa.DataType) -> Converted:
    return pc.cast(array, target), None


def _from_null(array: pa.Array, target: pa.DataType) -> Converted:
    return as_array(pa.scalar(None, target), len(array)), None


def _to_boolean(array: pa.Array, _target: pa.DataType) -> Converted:
    return made(numbers(array) != 0, valid_rows(array), BOOLEAN), None


def _from_boolean(array: pa.Array, target: pa.DataType) -> Converted:
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


def _half_away(values: Numbers, divisor: int) -> Numbers:
    """Integers divided and rounded to the nearest, halves away from zero."""
    if divisor == 1:
        return values
    magnitude = np.abs(values)
    rounded: Numbers = np.sign(values) * (magnitude // divisor + (magnitude % divisor >= divisor - divisor // 2))
    return rounded


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
