"""Between Arrow and NumPy: the memory of arrays, masks of valid rows, and results made from both.

A *value* here is an Arrow array, or an Arrow scalar that stands for the same value in every row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.expr.errors import EvaluationError

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[Any]

INTERVAL_DTYPE = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanos", "<i8")])
"""An INTERVAL in Arrow's memory."""

_DTYPES: dict[int, np.dtype[Any]] = {
    pa.int8().id: np.dtype("<i1"),
    pa.int16().id: np.dtype("<i2"),
    pa.int32().id: np.dtype("<i4"),
    pa.int64().id: np.dtype("<i8"),
    pa.uint8().id: np.dtype("<u1"),
    pa.uint16().id: np.dtype("<u2"),
    pa.uint32().id: np.dtype("<u4"),
    pa.uint64().id: np.dtype("<u8"),
    pa.float32().id: np.dtype("<f4"),
    pa.float64().id: np.dtype("<f8"),
    pa.date32().id: np.dtype("<i4"),
    pa.timestamp("s").id: np.dtype("<i8"),
    pa.month_day_nano_interval().id: INTERVAL_DTYPE,
}


def is_scalar(value: Any) -> bool:
    """Whether a value is the same in every row."""
    return isinstance(value, pa.Scalar)


def length_of(values: Sequence[Any]) -> int:
    """The number of rows of values of which at least one is an array."""
    return next(len(value) for value in values if not is_scalar(value))


def as_array(value: Any, length: int) -> pa.Array:
    """A value as an array of ``length`` rows."""
    if not is_scalar(value):
        return value
    if value.type == pa.month_day_nano_interval():  # pa.repeat does not know intervals
        return pa.array([value.as_py()] * length, value.type) if length else pa.array([], value.type)
    return pa.repeat(value, length)


def numbers(value: Any) -> Numbers:
    """The values of fixed width in an array's memory (what null rows hold is undefined), or one for a scalar.

    Dates and timestamps are counts of their unit; booleans are NumPy's. Arrays are not copied, but for booleans.
    """
    if is_scalar(value):
        return numbers(as_array(value, 1))[0:1]
    if pa.types.is_boolean(value.type):
        return unpacked(value.buffers()[1], value.offset, len(value))
    dtype = _DTYPES[value.type.id]
    buffer = value.buffers()[1]
    if buffer is None or len(value) == 0:
        return np.zeros(len(value), dtype)
    return np.frombuffer(buffer, dtype, len(value), value.offset * dtype.itemsize)


def has_numbers(type_: pa.DataType) -> bool:
    """Whether :func:`numbers` knows a type."""
    return bool(type_.id in _DTYPES or pa.types.is_boolean(type_))


def unpacked(buffer: pa.Buffer | None, offset: int, length: int) -> Mask:
    """``length`` bits from bit ``offset`` on, one NumPy boolean each."""
    if buffer is None or length == 0:
        return np.zeros(length, np.bool_)
    first = offset // 8
    packed = np.frombuffer(buffer, np.uint8)[first : (offset + length + 7) // 8]
    skip = offset - 8 * first
    bits = np.unpackbits(packed, bitorder="little", count=skip + length)
    return bits[skip:].view(np.bool_)


def valid_rows(value: Any) -> Mask | None:
    """Which rows are not NULL; None stands for all of them."""
    if is_scalar(value):
        return None if value.is_valid else np.zeros(1, np.bool_)
    if pa.types.is_null(value.type):
        return np.zeros(len(value), np.bool_)
    if value.null_count == 0:
        return None
    return unpacked(value.buffers()[0], value.offset, len(value))


def all_valid(values: Sequence[Any]) -> Mask | None:
    """Which rows are not NULL in any of ``values``; None stands for all of them."""
    result: Mask | None = None
    for value in values:
        mask = valid_rows(value)
        if mask is not None:
            result = mask if result is None else result & mask
    return result


def made(values: Numbers, valid: Mask | None, type_: pa.DataType) -> pa.Array:
    """An array of ``type_`` from numbers in its memory format and the mask of valid rows."""
    count = len(values)
    if valid is not None and len(valid) != count:  # that of a scalar
        valid = np.broadcast_to(valid, (count,))
    nulls = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    if pa.types.is_boolean(type_):
        data = pa.py_buffer(np.packbits(values, bitorder="little"))
    else:
        data = pa.py_buffer(np.ascontiguousarray(values, _DTYPES[type_.id]))
    return pa.Array.from_buffers(type_, count, [nulls, data])


def broadcast(values: Numbers, length: int) -> Numbers:
    """Numbers of a scalar for every row; those of an array as they are."""
    return values if len(values) == length else np.broadcast_to(values, (length,))


def refuse(bad: Mask, valid: Mask | None, reason: str | Callable[[int], str]) -> None:
    """Raise :class:`EvaluationError` if a valid row is bad. ``reason`` is a text, or makes one from the row."""
    wrong = bad if valid is None else bad & valid
    if wrong.any():
        raise EvaluationError(reason if isinstance(reason, str) else reason(int(np.argmax(wrong))))
