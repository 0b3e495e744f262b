"""Hashes of rows: equal ones for equal values, whatever types of Arrow they are kept in.

As in GROUP BY nulls are equal, and so are NaN, and zeros of both signs. A column that is a dictionary hashes as its
values do, text as the bytes of its UTF-8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.model.arrays import integers
from tidelog.model.errors import SchemaError
from tidelog.operators.base import Ints
from tidelog.operators.merge.payloads import kernels

Words: TypeAlias = npt.NDArray[np.uint64]

_NULL: Final = np.uint64(0xD6E8FEB86659FD93)
_START: Final = np.array([[0x27D4EB2F165667C5], [0x85EBCA77C2B2AE63]], np.uint64)


def hash_rows(columns: Sequence[pa.Array], rows: int) -> Words:
    """Two words for each row."""
    hashes = np.repeat(_START, rows, axis=1)
    for column in columns:
        kernels.mix_words(_words(column), hashes)
    return hashes


def numbers_of(hashes: Words) -> Ints:
    """The numbers, from 0 on and of 63 bits, that payloads are known by."""
    numbers = np.empty(hashes.shape[1], np.int64)
    kernels.finish_hashes(hashes, numbers)
    return numbers


def check_hashable(type_: pa.DataType, name: str) -> None:
    """Raise :class:`SchemaError` for a column whose values cannot be compared."""
    try:
        _words(pa.nulls(0, type_))
    except SchemaError as error:
        raise SchemaError(f"column {name!r}: {error}") from None


def _words(column: pa.Array) -> Words:
    """Two words for each value."""
    found = np.ascontiguousarray(_values(column))
    if column.null_count:
        found[:, np.asarray(column.is_null())] = _NULL
    return found


def _values(column: pa.Array) -> Words:
    type_ = column.type
    if isinstance(column, pa.ExtensionArray):
        return _values(column.storage)
    if pa.types.is_null(type_):
        return np.zeros((2, len(column)), np.uint64)
    if pa.types.is_dictionary(type_):
        places = np.asarray(column.indices.fill_null(0)).astype(np.int64)
        known = _words(column.dictionary)
        return np.take(known, places, axis=1) if known.shape[1] else np.zeros((2, len(column)), np.uint64)
    if pa.types.is_struct(type_):
        return hash_rows(column.flatten(), len(column))
    if pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_map(type_):
        return _lists(column)
    if pa.types.is_fixed_size_list(type_):
        return _lists(column.cast(pa.large_list(type_.value_field)))
    if pa.types.is_decimal(type_) or pa.types.is_fixed_size_binary(type_):
        return _fixed(column)
    return _simple(column)


def _simple(column: pa.Array) -> Words:
    type_ = column.type
    if pa.types.is_string_view(type_) or pa.types.is_binary_view(type_):
        column = column.cast(pa.large_binary())
    elif pa.types.is_string(type_) or pa.types.is_binary(type_):
        return _runs(_offsets(column, np.dtype(np.int32)), column.buffers()[2])
    if pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type):
        return _runs(_offsets(column, np.dtype(np.int64)), column.buffers()[2])
    if pa.types.is_floating(type_):
        return _doubled(_floats(column))
    if pa.types.is_boolean(type_):
        return _doubled(integers(pc.fill_null(column, False).cast(pa.int64())))
    if pa.types.is_temporal(type_):
        if type_.bit_width not in (32, 64):
            return _fixed(column)
        return _doubled(integers(column.view(pa.int64() if type_.bit_width == 64 else pa.int32()).cast(pa.int64())))
    if pa.types.is_uint64(type_):
        return _doubled(integers(column.view(pa.int64())))
    if pa.types.is_integer(type_):
        return _doubled(integers(column.cast(pa.int64())))
    raise SchemaError(f"values of the type {type_} cannot be compared, and so be no part of a payload; cast it before")


def _doubled(values: Ints) -> Words:
    return np.stack([values, values]).view(np.uint64)


def _floats(column: pa.Array) -> Ints:
    values = np.asarray(column.cast(pa.float64()).fill_null(0.0)) + 0.0  # no zero is negative then
    values[np.isnan(values)] = np.nan
    return values.view(np.int64)


def _offsets(column: pa.Array, width: np.dtype[np.int32] | np.dtype[np.int64]) -> Ints:
    content = column.buffers()[1]
    if content is None or not len(column):
        return np.zeros(len(column) + 1, np.int64)
    return np.frombuffer(content, width, len(column) + 1, column.offset * width.itemsize).astype(np.int64)


def _fixed(column: pa.Array) -> Words:
    """Of values of so many bytes each."""
    width = column.type.bit_width // 8
    return _runs((np.arange(len(column) + 1, dtype=np.int64) + column.offset) * width, column.buffers()[1])


def _runs(offsets: Ints, content: pa.Buffer | None) -> Words:
    words = np.empty((2, len(offsets) - 1), np.uint64)
    raw = np.empty(0, np.uint8) if content is None else np.frombuffer(content, np.uint8)
    if raw.ctypes.data % 8:
        raw = raw.copy()
    aligned = raw[: len(raw) // 8 * 8].view(np.uint64)
    kernels.hash_bytes(raw, aligned, offsets if len(raw) else np.zeros(len(offsets), np.int64), words)
    return words


def _lists(column: pa.Array) -> Words:
    is_large = pa.types.is_large_list(column.type)
    offsets = _offsets(column, np.dtype(np.int64) if is_large else np.dtype(np.int32))
    if pa.types.is_map(column.type):
        items = hash_rows([column.keys, column.items], len(column.keys))
    else:
        items = _words(column.values)
    words = np.empty((2, len(column)), np.uint64)
    kernels.hash_lists(items, offsets, words)
    return words
