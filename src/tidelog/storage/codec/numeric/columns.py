"""Columns of fixed-width values <-> pieces."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.model.errors import SchemaError
from tidelog.storage.codec.arena import Arena, Bytes, Ints, Pieces
from tidelog.storage.codec.buffers import allocate
from tidelog.storage.codec.piece import HEAD, Encoding, ValidityKind, check_ranges, read_heads, write_head
from tidelog.storage.codec.validity import decode_validity, encode_validity


def encode_numbers(array: pa.Array, cuts: Ints, arena: Arena) -> Pieces:
    """Encode rows ``cuts[i]`` to ``cuts[i + 1]`` of ``array`` as one piece each, 8-byte aligned."""
    width = _width(array.type)
    values = _values(array, width)
    validity = encode_validity(array, cuts)
    offsets, lengths = np.zeros((2, len(cuts) - 1), np.int64)
    for i, (first, last) in enumerate(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)):
        kind, bitmap = validity.of_block(i)
        raw = values[first * width : last * width] if kind != ValidityKind.ALL_NULL else values[:0]
        start = arena.reserve(HEAD + len(bitmap) + 8 + len(raw))
        body = write_head(arena.data[start:], Encoding.RAW, 0, last - first, kind, bitmap)
        arena.data[start + body : start + body + len(raw)] = raw
        arena.commit(start, body + len(raw))
        offsets[i], lengths[i] = start, body + len(raw)
    return Pieces(offsets, lengths)


def decode_numbers(
    type: pa.DataType, buffer: Bytes, offsets: Ints, lengths: Ints, starts: Ints, stops: Ints
) -> pa.Array:
    """Rows ``[starts[i], stops[i])`` of each piece, one after the other, as one array of ``type``."""
    heads = read_heads(buffer, offsets, lengths)
    check_ranges(heads, starts, stops)
    width = _width(type)
    rows = int((stops - starts).sum())
    values, owner = allocate(rows * width)
    done = 0
    for i in range(len(offsets)):
        count = int(stops[i] - starts[i]) * width
        body = int(offsets[i] + heads.body[i] + starts[i] * width)
        target = values[done : done + count]
        target[:] = 0 if heads.validity[i] == ValidityKind.ALL_NULL else buffer[body : body + count]
        done += count
    bitmap, nulls = decode_validity(buffer, offsets, heads, starts, stops)
    if pa.types.is_boolean(type):
        values, owner = np.packbits(values, bitorder="little"), None
    return pa.Array.from_buffers(
        type, rows, [bitmap, pa.py_buffer(values) if owner is None else owner], nulls
    )


def _width(type: pa.DataType) -> int:
    """Bytes of a value in a RAW piece."""
    if pa.types.is_boolean(type):
        return 1
    if pa.types.is_primitive(type) or pa.types.is_decimal128(type):
        return int(type.byte_width)
    raise SchemaError(f"a column of type {type} cannot be stored as numbers")


def _values(array: pa.Array, width: int) -> npt.NDArray[np.uint8]:
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(len(array) * width, np.uint8)
    raw = np.frombuffer(buffer, np.uint8)
    if pa.types.is_boolean(array.type):
        return np.unpackbits(raw, bitorder="little")[array.offset : array.offset + len(array)]
    return raw[array.offset * width : (array.offset + len(array)) * width]
