"""Column codecs: one column of a run of blocks to and from self-contained *pieces* of bytes."""

from __future__ import annotations

import pyarrow as pa

from tidelog.storage.codec.arena import Arena, Bytes, Ints, Pieces
from tidelog.storage.codec.numeric import decode_numbers, encode_numbers
from tidelog.storage.codec.text import decode_text, encode_text


def is_text(type: pa.DataType) -> bool:
    """Whether values of this type have variable length."""
    return bool(
        pa.types.is_string(type)
        or pa.types.is_large_string(type)
        or pa.types.is_binary(type)
        or pa.types.is_large_binary(type)
    )


def encode_column(array: pa.Array, cuts: Ints, arena: Arena) -> Pieces:
    """Encode rows ``cuts[i]`` to ``cuts[i + 1]`` of a column as piece ``i`` in ``arena``."""
    if is_text(array.type):
        return encode_text(array, cuts, arena)
    return encode_numbers(array, cuts, arena)


def decode_column(
    type: pa.DataType, buffer: Bytes, offsets: Ints, lengths: Ints, starts: Ints, stops: Ints
) -> pa.Array:
    """Rows ``starts[i]`` to ``stops[i]`` of the pieces of a column that stand in ``buffer``, as one array."""
    decode = decode_text if is_text(type) else decode_numbers
    return decode(type, buffer, offsets, lengths, starts, stops)


__all__ = ["Arena", "Bytes", "Ints", "Pieces", "decode_column", "encode_column", "is_text"]
