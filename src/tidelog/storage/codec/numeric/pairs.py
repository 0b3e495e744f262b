"""Pieces made of two integer streams.

The body of such a piece: u64 length of the first stream, the first stream, the second stream. Streams are
pieces of their own, PACKED or RAW, without nulls.
"""

from __future__ import annotations

import numpy as np

from tidelog.model.errors import CorruptionError
from tidelog.storage.codec.arena import Arena, Bytes, Ints
from tidelog.storage.codec.piece import HEAD, Encoding, Heads

_LENGTH = 8
"""Bytes of the length in front of the first stream."""


def pair_length(body: int, first: int, second: int) -> int:
    """Length of a piece whose body starts at ``body`` and holds streams of these lengths."""
    return body + _LENGTH + first + second


def write_pair(arena: Arena, head: Bytes, encoding: Encoding, first: Bytes, second: Bytes) -> tuple[int, int]:
    """Write a piece of two streams; returns its offset and length.

    ``head`` is the head and the validity of the block's piece so far, of which only the encoding changes.
    """
    body = len(head)
    length = pair_length(body, len(first), len(second))
    start = arena.reserve(length)
    piece = arena.data[start : start + length]
    piece[:body] = head
    piece[0] = encoding
    piece[2:4] = 0
    piece[body : body + _LENGTH] = np.array([len(first)], "<u8").view(np.uint8)
    piece[body + _LENGTH : body + _LENGTH + len(first)] = first
    piece[body + _LENGTH + len(first) :] = second
    arena.commit(start, length)
    return start, length


def find_pairs(buffer: Bytes, offsets: Ints, lengths: Ints, heads: Heads) -> tuple[Ints, Ints, Ints, Ints]:
    """Offsets and lengths of the first streams of pieces, and of the second streams.

    Raises :class:`CorruptionError` when they do not lie inside the piece.
    """
    room = lengths - heads.body - _LENGTH
    if (room < 2 * HEAD).any():
        raise CorruptionError(_complaint(int(np.argmax(room < 2 * HEAD)), int(lengths.min())))
    at = offsets + heads.body
    first = buffer[at[:, None] + np.arange(_LENGTH)].view("<i8")[:, 0]
    wrong = (first < HEAD) | (first > room - HEAD) | (first & 7 != 0)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise CorruptionError(_complaint(i, int(lengths[i])))
    return at + _LENGTH, first, at + _LENGTH + first, room - first


def _complaint(piece: int, length: int) -> str:
    return f"piece {piece} of {length} bytes does not hold the two streams its encoding calls for"
