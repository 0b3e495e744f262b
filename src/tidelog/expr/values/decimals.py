"""DECIMAL and HUGEINT in memory."""

from __future__ import annotations

from decimal import Context
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.expr.values.vectors import is_scalar, made

NARROW = 18
"""Decimals up to this many digits fit 64 bits, in Arrow's low word as in DuckDB's storage."""

EXACT = Context(prec=100)
"""A context in which no operation on two 38-digit decimals is rounded."""


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
