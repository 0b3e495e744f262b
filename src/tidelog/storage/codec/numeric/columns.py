"""What the kernels need to know of an Arrow type, and the values of Arrow arrays as they take them."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.model.errors import SchemaError
from tidelog.storage.codec.arena import Bytes

Words = npt.NDArray[np.uint64]

DTYPES: dict[int, np.dtype[Any]] = {width: np.dtype(f"<u{width}") for width in (1, 2, 4, 8)}
"""Unsigned machine words by their bytes."""

EMPTY: dict[int, npt.NDArray[Any]] = {width: np.zeros(0, dtype) for width, dtype in DTYPES.items()}


@dataclass(frozen=True, slots=True)
class Column:
    """The machine view of a column type."""

    width: int
    """Bytes of a value: 1, 2, 4, 8, or 16 for a pair of 64-bit words."""
    signed: bool = False
    floats: bool = False
    boolean: bool = False
    """Bits in Arrow, bytes of 0 and 1 here."""

    @property
    def word(self) -> int:
        """Bytes of the machine words values consist of."""
        return min(self.width, 8)


INT64 = Column(8, signed=True)


@functools.cache
def column_of(type: pa.DataType) -> Column:
    """The machine view of ``type``; raises :class:`SchemaError` for types that are no numbers."""
    if pa.types.is_boolean(type):
        return Column(1, boolean=True)
    if pa.types.is_unsigned_integer(type) or pa.types.is_float16(type):
        return Column(type.byte_width)
    if pa.types.is_floating(type):
        return Column(type.byte_width, floats=True)
    if pa.types.is_decimal128(type):
        return Column(16)
    temporal = pa.types.is_temporal(type) and not pa.types.is_interval(type)
    if pa.types.is_signed_integer(type) or temporal:
        return Column(type.byte_width, signed=True)
    raise SchemaError(
        f"a column of type {type} cannot be stored as numbers; booleans, integers, floats, dates, times, "
        "timestamps, durations and decimal128 can"
    )


def values_of(array: pa.Array, column: Column) -> npt.NDArray[Any]:
    """The values of ``array`` as unsigned words, without a copy where alignment allows."""
    buffer = array.buffers()[1]
    first, count, dtype = array.offset, len(array), DTYPES[column.word]
    if count == 0 or buffer is None:
        return np.zeros(count * (column.width // column.word), dtype)
    if column.boolean:
        raw: Bytes = np.frombuffer(buffer, np.uint8)[first >> 3 : (first + count + 7) >> 3]
        return np.unpackbits(raw, bitorder="little")[first & 7 : (first & 7) + count]
    words = count * (column.width // column.word)
    return aligned(np.frombuffer(buffer, dtype, words, first * column.width))


def aligned(words: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """``words`` itself if it starts at a multiple of its word size in memory, else a copy that does."""
    return words if words.flags.aligned else words.copy()
