"""Columns of numbers <-> pieces: which encodings a column is offered, and how each is undone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.model.errors import CorruptionError
from tidelog.storage.codec.arena import Arena, Bytes, Ints, Pieces
from tidelog.storage.codec.buffers import allocate
from tidelog.storage.codec.encodings import Encoding
from tidelog.storage.codec.numeric.columns import DTYPES, Column, column_of, values_of
from tidelog.storage.codec.numeric.decoder import decode_pieces
from tidelog.storage.codec.numeric.encoder import encode_blocks
from tidelog.storage.codec.numeric.halves import decode_halves, encode_halves
from tidelog.storage.codec.numeric.outcomes import (
    BULKY,
    DICTIONARY_PROMISES,
    HAS_LEFT,
    HAS_NULLS,
    RUNS_PROMISE,
)
from tidelog.storage.codec.numeric.repeats import decode_dictionaries, decode_runs, encode_repeats
from tidelog.storage.codec.numeric.shuffle import decode_shuffled, encode_shuffled
from tidelog.storage.codec.piece import Heads, read_heads
from tidelog.storage.codec.validity import decode_validity, encode_validity

ALIGNMENT = 64
"""Of the values of a column in memory, as Arrow advises."""


def encode_numbers(array: pa.Array, cuts: Ints, arena: Arena) -> Pieces:
    """Encode rows ``cuts[i]`` to ``cuts[i + 1]`` of ``array`` as one piece each, 8-byte aligned in ``arena``.

    ``array`` holds booleans, integers, floats, dates, times, timestamps, durations or decimal128 values, with
    any offset and any nulls. ``cuts`` rise from 0 to its length. Raises :class:`SchemaError` for other types.
    """
    column = column_of(array.type)
    validity = encode_validity(array, cuts)
    values = values_of(array, column)
    if column.width == 16:
        return encode_halves(values, validity, cuts, arena)
    pieces, remarks, union = encode_blocks(values, column, validity, validity.bits, cuts, arena)
    if union & (RUNS_PROMISE | DICTIONARY_PROMISES):
        encode_repeats(arena, pieces, remarks, column)
    if union & BULKY and column.width > 1:
        bulky = np.flatnonzero(remarks & BULKY)
        if len(bulky):
            encode_shuffled(arena, pieces, bulky, column)
    return pieces


def decode_numbers(
    type: pa.DataType, buffer: Bytes, offsets: Ints, lengths: Ints, starts: Ints, stops: Ints
) -> pa.Array:
    """Rows ``[starts[i], stops[i])`` of each piece in ``buffer``, one after the other, as one array of ``type``.

    ``starts`` are multiples of 1,024; ``stops`` are multiples of 1,024 or the piece's number of rows. Only the
    vectors of these rows are decoded (a SHUFFLED piece is decompressed as a whole). Raises
    :class:`CorruptionError` when the bytes contradict themselves, the type or the rows asked for.
    """
    return decode_number_columns([type], buffer, offsets[None, :], lengths[None, :], starts, stops)[0]


def decode_number_columns(
    types: Sequence[pa.DataType], buffer: Bytes, offsets: Ints, lengths: Ints, starts: Ints, stops: Ints
) -> list[pa.Array]:
    """The same rows of several columns, see :func:`decode_numbers`; a row of ``offsets`` and ``lengths`` for each.

    The columns share one stretch of memory, which is free again when all of them are gone.
    """
    columns = [column_of(type) for type in types]
    counts = (stops - starts).tolist()
    rows, pieces = sum(counts), len(counts)
    # Few columns, and often a single leaf: plain numbers are faster than arrays.
    befores = list(accumulate(counts, initial=0))[:-1]
    bases = list(accumulate(((column.width * rows + ALIGNMENT - 1) & -ALIGNMENT for column in columns), initial=0))
    memory, owner = allocate(bases.pop())
    targets = [base + column.width * before for base, column in zip(bases, columns, strict=True) for before in befores]
    remarks, outcome = decode_pieces(
        np.array([column.floats for column in columns for _ in counts], np.uint8),
        np.array([column.width for column in columns for _ in counts], np.int64),
        np.array(targets, np.int64),
        buffer,
        offsets.ravel(),
        lengths.ravel(),
        starts if len(columns) == 1 else np.concatenate([starts] * len(columns)),
        stops if len(columns) == 1 else np.concatenate([stops] * len(columns)),
        memory,
        {column.word for column in columns},
    )
    arrays = []
    for i, (type, column, base) in enumerate(zip(types, columns, bases, strict=True)):
        size = column.width * rows
        content = owner.slice(base, size)
        bitmap, nulls = None, 0
        if outcome and (own := remarks[i * pieces : (i + 1) * pieces]).any():
            heads = read_heads(buffer, offsets[i], lengths[i])
            part = memory[base : base + size]
            left: Bytes = own & np.uint8(HAS_LEFT)
            if left.any():
                decode_left(column, buffer, offsets[i], lengths[i], heads, starts, stops, left, part)
            if (own & HAS_NULLS).any():
                bitmap, nulls = decode_validity(buffer, offsets[i], heads, starts, stops)
        arrays.append(array_of(type, column, memory[base : base + size], content, bitmap, nulls))
    return arrays


def array_of(
    type: pa.DataType, column: Column, memory: Bytes, content: pa.Buffer, bitmap: pa.Buffer | None, nulls: int
) -> pa.Array:
    """A column of decoded values: ``memory``, which is also the buffer ``content``."""
    if column.boolean:
        bits = np.packbits(memory, bitorder="little")
        packed, content = allocate(len(bits))
        packed[:] = bits
    return pa.Array.from_buffers(type, len(memory) // column.width, [bitmap, content], nulls)


def decode_left(
    column: Column,
    buffer: Bytes,
    offsets: Ints,
    lengths: Ints,
    heads: Heads,
    starts: Ints,
    stops: Ints,
    left: Bytes,
    memory: Bytes,
) -> None:
    """Decode the pieces whose encoding is none of the decoding kernel's, into their rows of ``memory``."""
    counts = stops - starts
    ends = np.cumsum(counts)
    chosen = np.flatnonzero(left)
    for encoding in sorted(set(heads.encoding[chosen].tolist())):
        these = chosen[heads.encoding[chosen] == encoding]
        some = heads.select(these)
        part = (buffer, offsets[these], lengths[these], some, starts[these], stops[these])
        if encoding == Encoding.RUNS and column.width == 8:
            decode_runs(*part, (ends - counts)[these], memory.view(np.int64))
            continue
        words = DTYPES[column.word]
        out: npt.NDArray[Any] = memory.view(words)
        if len(these) < len(offsets):
            out = np.empty(int(counts[these].sum()) * (column.width // column.word), words)
        if encoding == Encoding.HALVES and column.width == 16:
            decode_halves(*part, out)
        elif encoding == Encoding.SHUFFLED and column.width < 16:
            decode_shuffled(column, *part, out)
        elif encoding in (Encoding.RUNS, Encoding.DICTIONARY) and column.width < 16:
            wide = out.view(np.int64) if column.width == 8 else np.empty(len(out), np.int64)
            if encoding == Encoding.RUNS:
                decode_runs(*part, np.cumsum(counts[these]) - counts[these], wide)
            else:
                decode_dictionaries(*part, wide)
            if column.width < 8:
                np.copyto(out, wide, casting="unsafe")
        else:
            raise CorruptionError(
                f"piece {int(these[0])} has encoding {encoding}, which is none of values of {column.width} bytes"
            )
        if len(these) < len(offsets):
            scale, done = column.width // column.word, 0
            for i in these.tolist():
                count, end = int(counts[i]) * scale, int(ends[i]) * scale
                memory.view(words)[end - count : end] = out[done : done + count]
                done += count
