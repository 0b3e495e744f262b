"""Arrow columns as NumPy arrays that share their memory, and the other way round.

Arrow does the same, but its conversions load pandas with the first array, if that is installed: half a second that most
processes have no need to spend.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def integers(column: pa.Array) -> npt.NDArray[np.int64]:
    """The values of a 64-bit column without nulls (integers or timestamps), not copied."""
    content = column.buffers()[1]
    if not len(column) or content is None:
        return np.empty(0, np.int64)
    return np.frombuffer(content, np.int64, len(column), column.offset * 8)


def floats(column: pa.Array) -> npt.NDArray[np.float64]:
    """The values of a column of 64-bit floats without nulls, not copied."""
    content = column.buffers()[1]
    if not len(column) or content is None:
        return np.empty(0, np.float64)
    return np.frombuffer(content, np.float64, len(column), column.offset * 8)


def integer_column(values: npt.NDArray[np.int64]) -> pa.Array:
    """Integers as a column without nulls; not copied if they stand one behind the other."""
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(np.ascontiguousarray(values))], 0)


def boolean_column(values: npt.NDArray[np.bool_]) -> pa.Array:
    """Truth values as a column without nulls."""
    bits = np.packbits(values, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(bits)], 0)


def distinct(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Each of some numbers once, in order. NumPy looks them up in a table, which takes twenty times as long."""
    if len(values) < 2:
        return values
    is_sorted = bool((values[1:] >= values[:-1]).all())
    in_order = values if is_sorted else np.sort(values)
    is_new = np.ones(len(in_order), np.bool_)
    np.not_equal(in_order[1:], in_order[:-1], out=is_new[1:])
    return in_order[is_new]


def batch_of(columns: Sequence[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """Columns as a batch; one without columns has so many rows too, which Arrow can only say through a struct."""
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), rows, [None], children=[]))
    return pa.RecordBatch.from_arrays(list(columns), schema=schema)
