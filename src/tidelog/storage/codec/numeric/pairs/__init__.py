"""Pieces made of two integer streams.

The body of such a piece: u64 length of the first stream, the first stream, the second stream. Streams are
pieces of their own, PACKED or RAW, without nulls; the second ends with the piece.
"""

from __future__ import annotations

import numpy as np

from tidelog.model.errors import CorruptionError
from tidelog.storage.codec.arena import Arena, Bytes, Ints, Pieces
from tidelog.storage.codec.encodings import HEAD, Encoding
from tidelog.storage.codec.numeric.pairs import kernels
from tidelog.storage.codec.piece import Heads

_LENGTH = 8
"""Bytes of the length in front of the first stream."""
_LENGTH_RANGE = np.arange(_LENGTH)


def pair_lengths(bodies: Ints, first: Pieces, second: Pieces) -> Ints:
    """Lengths of pieces of two streams whose bodies start at ``bodies``."""
    return bodies + _LENGTH + first.lengths + second.lengths


def write_pairs(
    arena: Arena,
    pieces: Pieces,
    blocks: Ints,
    encoding: Encoding,
    heads: Bytes,
    bodies: Ints,
    streams: Bytes,
    first: Pieces,
    second: Pieces,
) -> None:
    """Write a piece of two streams for each of ``blocks`` and make it the block's piece.

    ``pieces`` of these blocks stand in ``heads``; their heads, up to ``bodies``, are taken over but for the
    encoding. ``first`` and ``second`` stand in ``streams``.
    """
    lengths = pair_lengths(bodies, first, second)
    start = arena.reserve(int(lengths.sum()))
    # The arena may have moved; what stood in it is still in the old memory.
    starts = np.empty(len(blocks), np.int64)
    end = kernels.write_pairs(
        arena.data.view(np.uint64),
        start >> 3,
        int(encoding),
        heads.view(np.uint64),
        pieces.offsets[blocks],
        bodies,
        streams.view(np.uint64),
        first.offsets,
        first.lengths,
        second.offsets,
        second.lengths,
        starts,
    )
    arena.commit(start, 8 * int(end) - start)
    pieces.offsets[blocks], pieces.lengths[blocks] = starts, lengths


def find_pairs(buffer: Bytes, offsets: Ints, lengths: Ints, heads: Heads) -> tuple[Pieces, Pieces]:
    """The first and the second streams of pieces.

    Raises :class:`CorruptionError` when they do not lie inside their piece.
    """
    room = lengths - heads.body - _LENGTH
    wrong = room < 2 * HEAD
    if not wrong.any():
        at = offsets + heads.body
        first = buffer[at[:, None] + _LENGTH_RANGE].view("<i8")[:, 0]
        wrong = (first < HEAD) | (first > room - HEAD) | (first & 7 != 0)
        if not wrong.any():
            return Pieces(at + _LENGTH, first), Pieces(at + _LENGTH + first, room - first)
    i = int(np.argmax(wrong))
    raise CorruptionError(
        f"piece {i} of {int(lengths[i])} bytes, its body at {int(heads.body[i])}, does not hold the two streams its "
        "encoding calls for"
    )
