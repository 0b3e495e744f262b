"""Arithmetic on DECIMAL and HUGEINT.

Intermediate results are taken in 256 bits, where nothing overflows; the cast to the result's type is what notices
values with too many digits. Arrow works out result types of its own, wider than DuckDB's, hence the casts.
"""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.expr.errors import EvaluationError
from tidelog.expr.values.types import (
    WIDEST_DECIMAL,
    sql_name,
)
from tidelog.expr.values.vectors import is_scalar, made

NARROW = 18
"""Decimals up to this many digits fit 64 bits, in Arrow's low word as in DuckDB's storage."""

EXACT = Context(prec=100)
"""A context in which no operation on two 38-digit decimals is rounded."""


def fitted(value: Any, type_: pa.DataType, what: str) -> Any:
    """A decimal in ``type_`` of the same scale. Raises :class:`EvaluationError` for too many digits."""
    try:
        return value.cast(type_) if is_scalar(value) else pc.cast(value, type_)
    except pa.ArrowInvalid:
        raise EvaluationError(f"overflow in {what} of {sql_name(type_)}; cast to a wider decimal or DOUBLE") from None


def add(left: Any, right: Any, type_: pa.DataType) -> Any:
    """The sum of two decimals of ``type_``."""
    return fitted(pc.add(_wide(left), _wide(right)), type_, "addition")


def subtract(left: Any, right: Any, type_: pa.DataType) -> Any:
    """The difference of two decimals of ``type_``."""
    return fitted(pc.subtract(_wide(left), _wide(right)), type_, "subtraction")


def multiply(left: Any, right: Any, type_: pa.DataType) -> Any:
    """The product of two decimals, whose scales add up to that of ``type_``."""
    # Arrow asks for one digit more than both factors have together; 76 digits fit its 256 bits all the same.
    return fitted(pc.multiply(_wide(left), _wide(right, WIDEST_DECIMAL - 1)), type_, "multiplication")


def _wide(value: Any, digits: int = WIDEST_DECIMAL) -> Any:
    type_ = value.type
    wide = pa.decimal256(max(type_.precision, 1), type_.scale)
    widened = value.cast(wide) if is_scalar(value) else pc.cast(value, wide)
    if type_.precision <= digits:
        return widened
    relabelled = pa.decimal256(digits, type_.scale)  # the values stay; kernels do not look at the precision
    if is_scalar(widened):
        array = pa.array([widened.as_py()], wide)
        return pa.Array.from_buffers(relabelled, 1, array.buffers())[0]
    return pa.Array.from_buffers(relabelled, len(widened), widened.buffers(), offset=widened.offset)


def is_narrow(type_: pa.DataType) -> bool:
    """Whether all values of a decimal type fit 64 bits."""
    return bool(type_.precision <= NARROW)


def unscaled(value: Any) -> npt.NDArray[np.int64]:
    """The unscaled 64-bit values of a narrow decimal array, or the one of a scalar."""
    array = pa.array([value.as_py()], value.type) if is_scalar(value) else value
    buffer = array.buffers()[1]
    if buffer is None or len(array) == 0:
        return np.zeros(len(array), np.int64)
    words = np.frombuffer(buffer, "<i8", 2 * len(array), 16 * array.offset)
    return words[::2]


def scaled(values: npt.NDArray[np.int64], valid: npt.NDArray[np.bool_] | None, type_: pa.DataType) -> pa.Array:
    """A decimal array from unscaled 64-bit values."""
    words = np.empty((len(values), 2), "<i8")
    words[:, 0] = values
    words[:, 1] = values >> 63
    nulls = None if valid is None else made(valid, None, pa.bool_()).buffers()[1]
    return pa.Array.from_buffers(type_, len(values), [nulls, pa.py_buffer(words)])


def rounded_to(value: Decimal, scale: int, rounding: str) -> Decimal:
    """A decimal with ``scale`` digits behind the point."""
    return value.quantize(Decimal(1).scaleb(-scale), rounding=rounding, context=EXACT)
