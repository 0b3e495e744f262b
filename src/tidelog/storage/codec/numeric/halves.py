"""Columns of 128-bit values: a pair of integer streams, the low and the high 64-bit words.

The high words of decimals are little more than the sign and take next to nothing.
"""

from __future__ import annotations

import threading

import numpy as np

from tidelog.storage.codec.arena import Arena, Bytes, Ints, Pieces
from tidelog.storage.codec.encodings import HEAD, Encoding, ValidityKind
from tidelog.storage.codec.numeric.columns import INT64, Words
from tidelog.storage.codec.numeric.decoder import decode_integers
from tidelog.storage.codec.numeric.encoder import encode_blocks
from tidelog.storage.codec.numeric.pairs import find_pairs, pair_lengths, write_pairs
from tidelog.storage.codec.piece import Heads, write_head
from tidelog.storage.codec.validity import Validity, no_nulls


class _Scratch(threading.local):
    """Working memory, one per thread and kept as long as it."""

    def __init__(self) -> None:
        self.streams = Arena()
        self.words: Words = np.empty(0, np.uint64)

    def half(self, rows: int) -> Words:
        if len(self.words) < rows:
            self.words = np.empty(rows, np.uint64)
        return self.words[:rows]


_scratch = _Scratch()


def encode_halves(values: Words, validity: Validity, cuts: Ints, arena: Arena) -> Pieces:
    """Encode blocks of 128-bit values, two words of ``values`` each, as HALVES or RAW pieces."""
    blocks = len(cuts) - 1
    streams = _scratch.streams
    streams.reset()
    halves = values.reshape(-1, 2)
    half = _scratch.half(len(halves))
    half[:] = halves[:, 0]
    low, _, _ = encode_blocks(half, INT64, no_nulls(blocks), validity.bits, cuts, streams)
    half[:] = halves[:, 1]
    high, _, _ = encode_blocks(half, INT64, no_nulls(blocks), validity.bits, cuts, streams)

    pieces = Pieces(*np.empty((2, blocks), np.int64))
    bodies = HEAD + ((np.diff(validity.bounds) + 7) & -8)
    rows = np.diff(cuts)
    shrinks = pair_lengths(bodies, low, high) < bodies + 16 * rows
    empty = (rows == 0) | (validity.kinds == int(ValidityKind.ALL_NULL))
    for i in range(blocks):
        kind, bitmap = validity.of_block(i)
        raw = halves[:0] if shrinks[i] or empty[i] else _filled(halves, validity.bits, int(cuts[i]), int(cuts[i + 1]))
        head = np.empty(int(bodies[i]), np.uint8)
        write_head(head, Encoding.RAW, 0, int(rows[i]), kind, bitmap)
        pieces.offsets[i], pieces.lengths[i] = arena.put(np.concatenate([head, raw.view(np.uint8).ravel()]))
    paired = np.flatnonzero(shrinks & ~empty)
    if len(paired):
        write_pairs(
            arena,
            pieces,
            paired,
            Encoding.HALVES,
            arena.data,
            bodies[paired],
            streams.data,
            Pieces(low.offsets[paired], low.lengths[paired]),
            Pieces(high.offsets[paired], high.lengths[paired]),
        )
    return pieces


def _filled(halves: Words, valid: Bytes, first: int, last: int) -> Words:
    """Rows of 128-bit values, with zeros in null slots."""
    rows = halves[first:last].copy()
    if len(valid):
        rows[valid[first:last] == 0] = 0
    return rows


def decode_halves(
    buffer: Bytes, offsets: Ints, lengths: Ints, heads: Heads, starts: Ints, stops: Ints, out: Words
) -> None:
    """Write rows ``[starts[i], stops[i])`` of HALVES pieces into ``out``, two words each, one behind the other."""
    low, high = find_pairs(buffer, offsets, lengths, heads)
    halves = out.view(np.int64).reshape(-1, 2)
    half = _scratch.half(len(halves)).view(np.int64)
    decode_integers(buffer, low.offsets, low.lengths, starts, stops, half)
    halves[:, 0] = half
    decode_integers(buffer, high.offsets, high.lengths, starts, stops, half)
    halves[:, 1] = half
