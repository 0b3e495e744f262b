"""Columns of 128-bit values: a pair of integer streams, the low and the high 64-bit words.

The high words of decimals are little more than the sign and take next to nothing.
"""

from __future__ import annotations

import threading

import numpy as np

from tidelog.storage.codec.arena import Arena, Bytes, Ints, Pieces
from tidelog.storage.codec.numeric.columns import INT64, Words
from tidelog.storage.codec.numeric.decoder import decode_integers
from tidelog.storage.codec.numeric.encoder import encode_blocks
from tidelog.storage.codec.numeric.pairs import find_pairs, pair_length, write_pair
from tidelog.storage.codec.piece import Encoding, Heads, ValidityKind, body_offset, write_head
from tidelog.storage.codec.validity import Validity, no_nulls


class _Scratch(threading.local):
    """Working memory, one per thread and kept as long as it."""

    def __init__(self) -> None:
        self.streams = Arena()


_scratch = _Scratch()


def encode_halves(values: Words, validity: Validity, valid: Bytes, cuts: Ints, arena: Arena) -> Pieces:
    """Encode blocks of 128-bit values, two words of ``values`` each, as HALVES or RAW pieces."""
    blocks = len(cuts) - 1
    offsets, lengths = np.empty((2, blocks), np.int64)
    streams = _scratch.streams
    streams.reset()
    pairs = values.reshape(-1, 2)
    low, high = (
        encode_blocks(np.ascontiguousarray(half), INT64, no_nulls(blocks), valid, cuts, streams)[0] for half in pairs.T
    )
    for i in range(blocks):
        kind, bitmap = validity.of_block(i)
        rows = int(cuts[i + 1] - cuts[i])
        head = np.empty(body_offset(len(bitmap)), np.uint8)
        write_head(head, Encoding.RAW, 0, rows, kind, bitmap)
        if rows == 0 or kind == ValidityKind.ALL_NULL:
            offsets[i], lengths[i] = arena.put(head)
        elif pair_length(len(head), int(low.lengths[i]), int(high.lengths[i])) < len(head) + 16 * rows:
            one = streams.data[low.offsets[i] : low.offsets[i] + low.lengths[i]]
            other = streams.data[high.offsets[i] : high.offsets[i] + high.lengths[i]]
            offsets[i], lengths[i] = write_pair(arena, head, Encoding.HALVES, one, other)
        else:
            raw = pairs[cuts[i] : cuts[i + 1]].copy()
            if len(valid):
                raw[valid[cuts[i] : cuts[i + 1]] == 0] = 0
            offsets[i], lengths[i] = arena.put(np.concatenate([head, raw.view(np.uint8).ravel()]))
    return Pieces(offsets, lengths)


def decode_halves(
    buffer: Bytes, offsets: Ints, lengths: Ints, heads: Heads, starts: Ints, stops: Ints, out: Words
) -> None:
    """Write rows ``[starts[i], stops[i])`` of HALVES pieces into ``out``, two words each, one behind the other."""
    low_at, low_length, high_at, high_length = find_pairs(buffer, offsets, lengths, heads)
    half = np.empty(len(out) // 2, np.int64)
    pairs = out.view(np.int64).reshape(-1, 2)
    decode_integers(buffer, low_at, low_length, starts, stops, half)
    pairs[:, 0] = half
    decode_integers(buffer, high_at, high_length, starts, stops, half)
    pairs[:, 1] = half
