"""Columns as the memory that kernels read, and texts gathered by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.model.arrays import integer_column
from tidelog.operators.base import Ints
from tidelog.operators.columns import kernels

_ROOM: Final = 8
"""Bytes that the last text may be copied beyond its end."""
_MOST: Final = 2**31 - 1
"""Bytes of a column of texts."""


def is_text(type_: pa.DataType) -> bool:
    """Whether values are texts, or bytes, with offsets of 32 bits."""
    return bool(pa.types.is_string(type_) or pa.types.is_binary(type_))


def text_memory(column: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
    """The bytes of texts, a word of them at least, and the offsets of all rows and one more. Nulls have any bytes."""
    _, offsets, content = column.buffers()
    if offsets is None or not len(column):
        return np.zeros(8, np.uint8), np.zeros(len(column) + 1, np.int32)
    data = np.zeros(0, np.uint8) if content is None else np.frombuffer(content, np.uint8)
    if len(data) < 8:
        data = np.concatenate([data, np.zeros(8, np.uint8)])
    return data, np.frombuffer(offsets, np.int32, len(column) + 1, 4 * column.offset)


def gathered(columns: Sequence[pa.Array], places: Ints) -> list[pa.Array]:
    """The values of columns at some places; nulls for those below zero."""
    missing: npt.NDArray[np.bool_] | None = places < 0 if len(places) and int(places.min()) < 0 else None
    chosen = integer_column(places) if missing is None else pa.array(places, mask=missing)
    valid = None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    found = []
    for column in columns:
        texts = _texts(column, places, valid) if is_text(column.type) and not column.null_count else None
        found.append(pc.take(column, chosen, boundscheck=False) if texts is None else texts)
    return found


def _texts(column: pa.Array, places: Ints, valid: pa.Buffer | None) -> pa.Array | None:
    """The texts at some places; None if they are too long for one column."""
    data, offsets = text_memory(column)
    # Arrow's memory, which it uses again; NumPy's large arrays are fresh pages.
    ends = pa.allocate_buffer(4 * (len(places) + 1))
    size = kernels.place_texts(offsets, places, np.frombuffer(ends, np.int32))
    if size > _MOST:
        return None
    texts = pa.allocate_buffer(size + _ROOM)
    kernels.copy_texts(data, offsets, places, np.frombuffer(texts, np.uint8))
    return pa.Array.from_buffers(column.type, len(places), [valid, ends, texts.slice(0, size)])
