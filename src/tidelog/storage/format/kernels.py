"""Kernels over whole runs of frames: hashing, assembling and opening them.

``hash64`` is the checksum of everything that holds events. It runs over 64-bit little-endian words in eight
independent lanes; each step is a bijection of the lane, so that a changed word always changes its lane::

    lane[j] = rotate_left(lane[j] ^ word, 29) * P1       word i goes to lane i mod 8, lane[j] starts as P2 * (j + 1)
    h = count of words * P3;   for each lane:  h = (h ^ lane[j]) * P1;  h = h ^ (h >> 32)
    h = h * P2;  h = h ^ (h >> 29)
"""

# The arithmetic below is modulo 2**64 throughout.

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.jit import array_in, array_out, i64, inline, kernel, u8, u64
from tidelog.storage.format.frame import ENTRY_BYTES, HEAD_BYTES, OK, SUMMARY_BYTES

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_LEFT = np.uint64(29)
_RIGHT = np.uint64(35)


@inline
def _mix(lane: Any, word: Any) -> Any:
    lane ^= word
    return ((lane << _LEFT) | (lane >> _RIGHT)) * _P1


@inline
def _hash(words: Any, start: Any, count: Any) -> Any:
    a0 = _P2
    a1 = _P2 * np.uint64(2)
    a2 = _P2 * np.uint64(3)
    a3 = _P2 * np.uint64(4)
    a4 = _P2 * np.uint64(5)
    a5 = _P2 * np.uint64(6)
    a6 = _P2 * np.uint64(7)
    a7 = _P2 * np.uint64(8)
    i = start
    stop = start + count
    while i + 8 <= stop:
        a0 = _mix(a0, words[i])
        a1 = _mix(a1, words[i + 1])
        a2 = _mix(a2, words[i + 2])
        a3 = _mix(a3, words[i + 3])
        a4 = _mix(a4, words[i + 4])
        a5 = _mix(a5, words[i + 5])
        a6 = _mix(a6, words[i + 6])
        a7 = _mix(a7, words[i + 7])
        i += 8
    rest = stop - i
    if rest > 0:
        a0 = _mix(a0, words[i])
    if rest > 1:
        a1 = _mix(a1, words[i + 1])
    if rest > 2:
        a2 = _mix(a2, words[i + 2])
    if rest > 3:
        a3 = _mix(a3, words[i + 3])
    if rest > 4:
        a4 = _mix(a4, words[i + 4])
    if rest > 5:
        a5 = _mix(a5, words[i + 5])
    if rest > 6:
        a6 = _mix(a6, words[i + 6])
    h = np.uint64(count) * _P3
    for lane in (a0, a1, a2, a3, a4, a5, a6, a7):
        h = (h ^ lane) * _P1
        h ^= h >> np.uint64(32)
    h *= _P2
    return h ^ (h >> np.uint64(29))


@kernel(u64(array_in(u64), i64, i64))
def hash64(words: Any, start: Any, count: Any) -> Any:
    """The 64-bit checksum of ``count`` words from index ``start``; the caller checks the bounds."""
    return _hash(words, start, count)


@kernel(
    i64(
        array_in(u8),
        array_in(i64, 2),
        array_in(i64, 2),
        array_in(u64, 3),
        array_in(i64),
        array_in(i64),
        array_in(i64),
        array_out(u64),
        array_out(u64),
    )
)
def assemble_frames(
    arena: Any, offsets: Any, lengths: Any, summaries: Any, rows: Any, ids: Any, frames: Any, out: Any, digests: Any
) -> Any:
    """Build the frames of a run of leaves from the pieces of its columns.

    ``offsets``/``lengths`` say, by column and block, where the pieces stand in ``arena``; ``summaries`` are the words
    of the summaries by block and column; ``frames`` are the byte offsets of the frames in ``out``, with one more for
    the end. Bytes between pieces are zero. ``digests`` receives the hash of each whole frame.
    """
    columns, blocks = offsets.shape
    words = arena[: arena.size & ~7].view(np.uint64)
    halves = out.view(np.uint32)
    shorts = out.view(np.uint16)
    for b in range(blocks):
        base = frames[b] >> 3
        head = HEAD_BYTES + columns * (ENTRY_BYTES + SUMMARY_BYTES)
        out[base + 1] = np.uint64(ids[b])
        halves[2 * base + 4] = np.uint32(frames[b + 1] - frames[b])
        halves[2 * base + 5] = np.uint32(head)
        halves[2 * base + 6] = np.uint32(rows[b])
        shorts[4 * base + 14] = np.uint16(columns)
        shorts[4 * base + 15] = np.uint16(0)
        at = base + (head >> 3)
        for c in range(columns):
            length = lengths[c, b]
            count = (length + 7) >> 3
            first = offsets[c, b] >> 3
            whole = length >> 3
            for i in range(whole):
                out[at + i] = words[first + i]
            if whole < count:  # a last, partial word: its unused bytes are zero
                last = np.uint64(0)
                for i in range(length & 7):
                    last |= np.uint64(arena[offsets[c, b] + 8 * whole + i]) << np.uint64(8 * i)
                out[at + whole] = last
            entry = base + 4 + 2 * c
            halves[2 * entry] = np.uint32((at - base) << 3)
            halves[2 * entry + 1] = np.uint32(length)
            out[entry + 1] = _hash(out, at, count)
            at += count
        summary = base + 4 + 2 * columns
        for c in range(columns):
            for i in range(SUMMARY_BYTES // 8):
                out[summary + SUMMARY_BYTES // 8 * c + i] = summaries[b, c, i]
        out[base] = _hash(out, base + 1, (head >> 3) - 1)
        digests[b] = _hash(out, base, at - base)
    return OK


@inline
def _rows_of(words: Any, frame: Any, length: Any, id: Any) -> Any:
    """The rows of the frame at a byte, or -1 if its head is not what was written for its id."""
    halves = words.view(np.uint32)
    base = frame >> 3
    if length < HEAD_BYTES or frame + length > 8 * words.size:
        return np.int64(-1)
    head = np.int64(halves[2 * base + 5])
    if head < HEAD_BYTES or head > length or head & 7 or np.int64(halves[2 * base + 4]) != length:
        return np.int64(-1)
    if np.int64(words[base + 1]) != id or words[base] != _hash(words, base + 1, (head >> 3) - 1):
        return np.int64(-1)
    return np.int64(halves[2 * base + 6])


@inline
def _locate(words: Any, frames: Any, columns: Any, offsets: Any, lengths: Any) -> Any:
    halves = words.view(np.uint32)
    shorts = words.view(np.uint16)
    for c in range(columns.size):
        for b in range(frames.size):
            base = frames[b] >> 3
            if columns[c] >= np.int64(shorts[4 * base + 14]):
                return c * frames.size + b
            entry = base + 4 + 2 * columns[c]
            offset = np.int64(halves[2 * entry])
            length = np.int64(halves[2 * entry + 1])
            total = np.int64(halves[2 * base + 4])
            if offset & 7 or offset < HEAD_BYTES or offset + ((length + 7) & ~7) > total:
                return c * frames.size + b
            if _hash(words, (frames[b] + offset) >> 3, (length + 7) >> 3) != words[entry + 1]:
                return c * frames.size + b
            offsets[c, b] = frames[b] + offset
            lengths[c, b] = length
    return OK


@kernel(i64(array_in(u64), array_in(i64), array_in(i64), array_in(i64), array_out(i64)))
def open_frames(words: Any, frames: Any, lengths: Any, ids: Any, rows: Any) -> Any:
    """Verify the heads of frames at byte offsets ``frames``; fills ``rows``.

    Returns the index of the first frame whose head is not what was written for its id, or ``OK``.
    """
    for b in range(frames.size):
        rows[b] = _rows_of(words, frames[b], lengths[b], ids[b])
        if rows[b] < 0:
            return b
    return OK


@kernel(i64(array_in(u64), array_in(i64), array_in(i64), array_out(i64, 2), array_out(i64, 2)))
def locate_pieces(words: Any, frames: Any, columns: Any, offsets: Any, lengths: Any) -> Any:
    """Find and verify the pieces of some columns in opened frames; fills byte offsets and lengths, by column and frame.

    Returns the number, counting column by column, of the first piece that is missing or damaged, or ``OK``.
    """
    return _locate(words, frames, columns, offsets, lengths)


@kernel(i64(array_in(u64), array_in(i64, 2), array_in(i64), array_out(i64), array_out(i64, 2), array_out(i64, 2)))
def open_pieces(words: Any, places: Any, columns: Any, rows: Any, offsets: Any, lengths: Any) -> Any:
    """:func:`open_frames` and :func:`locate_pieces` in one, for few frames, where a call takes longer than the work.

    ``places`` has rows of byte offsets, lengths and ids. Returns ``OK``, the number of a piece, or ``-2 - i`` for frame
    i if its head is damaged.
    """
    for b in range(rows.size):
        rows[b] = _rows_of(words, places[0, b], places[1, b], places[2, b])
        if rows[b] < 0:
            return -2 - b
    return _locate(words, places[0], columns, offsets, lengths)
