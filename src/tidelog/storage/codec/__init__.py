"""Column codecs: one column of a run of blocks to and from self-contained *pieces* of bytes."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import pyarrow as pa

from tidelog.storage.codec.arena import Arena, Bytes, Ints, Pieces
from tidelog.storage.codec.chosen import Chosen
from tidelog.storage.codec.numeric import decode_number_columns, decode_number_rows, encode_numbers
from tidelog.storage.codec.text import decode_coded_text, decode_text, decode_text_rows, encode_text


@functools.cache
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


CODED_TEXT = pa.dictionary(pa.int32(), pa.string())
"""The type of a column of strings as a dictionary."""


def decode_columns(
    types: Sequence[pa.DataType],
    buffer: Bytes,
    offsets: Ints,
    lengths: Ints,
    starts: Ints,
    stops: Ints,
    *,
    coded: bool = False,
    united: bool = True,
) -> list[pa.Array]:
    """Rows ``starts[i]`` to ``stops[i]`` of block ``i``, of some columns whose pieces stand in ``buffer``.

    ``offsets`` and ``lengths`` have a row for each column and a column for each block. If ``coded``, columns of strings
    come as :data:`CODED_TEXT` where they are stored so, with each value once if ``united``.
    """
    arrays: list[pa.Array] = [None] * len(types)
    numbers = [c for c, type in enumerate(types) if not is_text(type)]
    if len(numbers) == len(types):
        return decode_number_columns(types, buffer, offsets, lengths, starts, stops)
    if numbers:
        some = [types[c] for c in numbers]
        decoded = decode_number_columns(some, buffer, offsets[numbers], lengths[numbers], starts, stops)
        for c, array in zip(numbers, decoded, strict=True):
            arrays[c] = array
    for c, type in enumerate(types):
        if coded and pa.types.is_string(type):
            arrays[c] = decode_coded_text(buffer, offsets[c], lengths[c], starts, stops, united=united)
        elif is_text(type):
            arrays[c] = decode_text(type, buffer, offsets[c], lengths[c], starts, stops)
    return arrays


def decode_rows(
    types: Sequence[pa.DataType], buffer: Bytes, offsets: Ints, lengths: Ints, chosen: Chosen, *, coded: bool = False
) -> list[pa.Array | None]:
    """Single rows of some columns whose pieces stand in ``buffer``, see :func:`decode_columns`.

    None for columns of text of which some piece is no dictionary: rows of these are not to be had by themselves.
    """
    arrays: list[pa.Array | None] = [None] * len(types)
    numbers = [c for c, type in enumerate(types) if not is_text(type)]
    if numbers:
        some = [types[c] for c in numbers]
        decoded = decode_number_rows(some, buffer, offsets[numbers], lengths[numbers], chosen)
        for c, array in zip(numbers, decoded, strict=True):
            arrays[c] = array
    for c, type in enumerate(types):
        if pa.types.is_string(type):
            arrays[c] = decode_text_rows(buffer, offsets[c], lengths[c], chosen, coded=coded)
    return arrays


__all__ = [
    "CODED_TEXT",
    "Arena",
    "Bytes",
    "Chosen",
    "Ints",
    "Pieces",
    "decode_columns",
    "decode_rows",
    "encode_column",
    "is_text",
]
