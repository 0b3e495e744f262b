"""The last resort before raw values: bytes of equal significance together, compressed by LZ4.

Body of a SHUFFLED piece: u64 length of the compressed bytes, then these, with zero bytes up to a multiple of 8.
For a block of n values they decompress to n lowest bytes, n second bytes and so on. The parameter is the
compression: 1 for a raw LZ4 block.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.model.errors import CorruptionError
from tidelog.storage.codec.arena import Arena, Bytes, Ints, Pieces, align
from tidelog.storage.codec.encodings import VECTOR, Encoding
from tidelog.storage.codec.numeric.columns import Column
from tidelog.storage.codec.numeric.decoder import decode_blocks
from tidelog.storage.codec.piece import Heads, read_heads

LZ4 = 1

_LENGTH = 8
"""Bytes of the length in front of the compressed bytes."""


class _Codecs(threading.local):
    """A codec per thread: Arrow does not say that one may be shared."""

    def __init__(self) -> None:
        self.lz4 = pa.Codec("lz4_raw")


_codecs = _Codecs()


def encode_shuffled(arena: Arena, pieces: Pieces, blocks: Ints, column: Column) -> None:
    """Give blocks shuffled pieces where that makes them smaller by a tenth or more.

    The blocks are RAW, PACKED, DECIMAL or ORDERED; ``pieces`` are changed in place. The first vector speaks for
    all: unless it gains, none is tried.
    """
    first = read_heads(arena.data, pieces.offsets[blocks[:1]], pieces.lengths[blocks[:1]])
    rows = int(first.rows[0])
    probe = min(rows, VECTOR)
    if 10 * rows * len(_compressed(arena, pieces, int(blocks[0]), probe, column)) > 9 * probe * int(
        pieces.lengths[blocks[0]] - first.body[0]
    ):
        return
    heads = read_heads(arena.data, pieces.offsets[blocks], pieces.lengths[blocks])
    for block, rows, body in zip(blocks.tolist(), heads.rows.tolist(), heads.body.tolist(), strict=True):
        compressed = _compressed(arena, pieces, block, rows, column)
        length = body + _LENGTH + align(len(compressed))
        if 10 * length <= 9 * int(pieces.lengths[block]):
            start = int(pieces.offsets[block])
            piece = arena.data[start : start + length]
            piece[0] = Encoding.SHUFFLED
            piece[2:4] = LZ4, 0
            piece[body : body + _LENGTH] = np.array([len(compressed)], "<u8").view(np.uint8)
            content = piece[body + _LENGTH :]
            content[: len(compressed)] = compressed
            content[len(compressed) :] = 0
            pieces.lengths[block] = length


def _compressed(arena: Arena, pieces: Pieces, block: int, rows: int, column: Column) -> Bytes:
    """The first ``rows`` rows of a block, shuffled and compressed."""
    values = np.empty(rows * column.width, np.uint8)
    one = slice(block, block + 1)
    zero = np.zeros(1, np.int64)
    decode_blocks(column, arena.data, pieces.offsets[one], pieces.lengths[one], zero, zero + rows, values)
    shuffled = np.ascontiguousarray(values.reshape(rows, column.width).T)
    return np.frombuffer(_codecs.lz4.compress(pa.py_buffer(shuffled)), np.uint8)


def decode_shuffled(
    column: Column,
    buffer: Bytes,
    offsets: Ints,
    lengths: Ints,
    heads: Heads,
    starts: Ints,
    stops: Ints,
    out: npt.NDArray[Any],
) -> None:
    """Write rows ``[starts[i], stops[i])`` of SHUFFLED pieces into ``out``, one behind the other."""
    done = 0
    for i in range(len(offsets)):
        rows, count = int(heads.rows[i]), int(stops[i] - starts[i])
        start = int(offsets[i] + heads.body[i]) + _LENGTH
        room = int(lengths[i] - heads.body[i]) - _LENGTH
        size = int.from_bytes(buffer[start - _LENGTH : start], "little") if room >= 0 else 0
        if int(heads.parameter[i]) != LZ4 or size > room or rows > 255 * size:
            raise CorruptionError(
                f"shuffled piece {i} says: compression {int(heads.parameter[i])}, {size} bytes for {rows} rows; "
                f"compression {LZ4} and at most {room} bytes were expected"
            )
        try:
            plain = _codecs.lz4.decompress(
                pa.py_buffer(buffer[start : start + size]), decompressed_size=rows * column.width
            )
        except (OSError, pa.ArrowException) as error:
            raise CorruptionError(f"shuffled piece {i} cannot be decompressed: {error}") from error
        shuffled = np.frombuffer(plain, np.uint8)
        if len(shuffled) != rows * column.width:
            raise CorruptionError(
                f"shuffled piece {i} decompresses to {len(shuffled)} bytes; {rows} rows have {rows * column.width}"
            )
        target = out[done : done + count].view(np.uint8).reshape(count, column.width)
        target[:] = shuffled.reshape(column.width, rows)[:, int(starts[i]) : int(stops[i])].T
        done += count
