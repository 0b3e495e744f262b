"""Between Arrow and NumPy: the memory of arrays, masks of valid rows, and results made from both.

A *value* here is an Arrow array, or an Arrow scalar that stands for the same value in every row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.expr.errors import EvaluationError
from tidelog.expr.values.bounds import BATCH_BYTES, MOST_BYTES, TooMuch, check_size, check_total, scalar_size

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


_TEXTS = (pa.string(), pa.binary())
"""Types whose values have any length."""


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
    if length > 1 and value.type in _TEXTS:
        check_total(scalar_size(value) * length)
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


def per_distinct(values: Sequence[Any], compute: Callable[..., Any], type_: pa.DataType) -> pa.Array:
    """``compute`` of Python values for every distinct combination of arguments; NULL where one of them is.

    For what no array kernel does. The cost is one call for each combination that occurs, not for each row. Raises
    :class:`EvaluationError` for texts that are too long, see :mod:`tidelog.expr.values.bounds`.
    """
    length = length_of(values)
    arrays = [value for value in values if not is_scalar(value)]
    if len(arrays) == 1:
        encoded = pc.dictionary_encode(arrays[0])
        codes, rows = encoded.indices, [encoded.dictionary.to_pylist()]
    else:
        codes, rows = _combinations(arrays, length)
    count = len(rows[0])
    taken = iter(rows)
    columns = [[value.as_py()] * count if is_scalar(value) else next(taken) for value in values]
    if type_ in _TEXTS:
        return _texts(zip(*columns, strict=True), compute, type_, codes)
    results = [
        None if any(part is None for part in row) else compute(*row) for row in zip(*columns, strict=True)
    ]  # a loop over distinct values
    return pc.take(pa.array(results, type_), codes)


def _texts(
    rows: Iterable[tuple[Any, ...]], compute: Callable[..., Any], type_: pa.DataType, codes: pa.Array
) -> pa.Array:
    """What is computed of distinct rows, for all rows with their codes; the memory that it takes is bounded."""
    results: list[str | bytes | None] = []
    sizes: list[int] = []
    total = 0
    for row in rows:  # a loop over distinct values
        made = None if any(part is None for part in row) else compute(*row)
        size = 0 if made is None else _bytes_of(made)
        if size > MOST_BYTES:
            check_size(size, max((_bytes_of(part) for part in row if isinstance(part, str | bytes)), default=0))
        total += size
        if total > BATCH_BYTES:
            raise TooMuch(2 * total)
        results.append(made)
        sizes.append(size)
    if total > MOST_BYTES or len(codes) * max(sizes, default=0) > BATCH_BYTES:
        taken = pc.fill_null(codes, len(sizes)).to_numpy(zero_copy_only=False)
        check_total(int(np.array([*sizes, 0])[taken].sum()))
    return pc.take(pa.array(results, type_), codes)


def _bytes_of(value: str | bytes) -> int:
    return len(value) if isinstance(value, bytes) or value.isascii() else len(value.encode())


def _combinations(arrays: Sequence[pa.Array], length: int) -> tuple[pa.Array, list[list[Any]]]:
    """For each row the number of its combination, and the combinations column by column."""
    combined = np.zeros(length, np.int64)
    for array in arrays:
        encoded = pc.dictionary_encode(array)
        codes = pc.fill_null(encoded.indices, len(encoded.dictionary)).to_numpy(zero_copy_only=False)
        _, combined = np.unique(combined * (len(encoded.dictionary) + 1) + codes, return_inverse=True)
    firsts = np.zeros(combined.max(initial=-1) + 1, np.int64)
    firsts[combined[::-1]] = np.arange(length - 1, -1, -1)
    picked = pa.array(firsts)
    return pa.array(combined), [pc.take(array, picked).to_pylist() for array in arrays]
