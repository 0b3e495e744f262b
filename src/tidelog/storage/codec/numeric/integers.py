"""Integer streams: int64 values without nulls, as pieces of their own inside other encodings."""

from __future__ import annotations

import numpy as np

from tidelog.storage.codec.arena import Arena, Bytes, Ints, Pieces
from tidelog.storage.codec.piece import HEAD, Encoding, ValidityKind, check_ranges, read_heads, write_head

_NOTHING = np.zeros(0, np.uint8)


def encode_integers(values: Ints, cuts: Ints, arena: Arena) -> Pieces:
    """Encode ``values[cuts[i]:cuts[i + 1]]`` as one self-describing piece each, 8-byte aligned."""
    offsets, lengths = np.zeros((2, len(cuts) - 1), np.int64)
    for i, (first, last) in enumerate(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)):
        raw = np.ascontiguousarray(values[first:last]).view(np.uint8)
        start = arena.reserve(HEAD + len(raw))
        body = write_head(arena.data[start:], Encoding.RAW, 0, last - first, ValidityKind.NO_NULLS, _NOTHING)
        arena.data[start + body : start + body + len(raw)] = raw
        arena.commit(start, body + len(raw))
        offsets[i], lengths[i] = start, body + len(raw)
    return Pieces(offsets, lengths)


def decode_integers(
    buffer: Bytes, offsets: Ints, lengths: Ints, starts: Ints, stops: Ints, out: Ints
) -> None:
    """Decode values ``[starts[i], stops[i])`` of each stream into ``out``, one after the other.

    ``starts`` are multiples of 1,024; ``stops`` are multiples of 1,024 or the stream's number of values.
    ``out`` has room for exactly all of them. Raises :class:`CorruptionError` on inconsistent bytes.
    """
    heads = read_heads(buffer, offsets, lengths)
    check_ranges(heads, starts, stops)
    done = 0
    for i in range(len(offsets)):
        first, last = int(starts[i]), int(stops[i])
        body = int(offsets[i] + heads.body[i])
        out[done : done + last - first] = buffer[body + 8 * first : body + 8 * last].view(np.int64)
        done += last - first
