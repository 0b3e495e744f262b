"""The decoding kernel: rows of the pieces of any number of columns to their values, in one call.

One call, because every call gives the interpreter lock away and has to wait for it afterwards, which with several
threads at work takes longer than decoding a few vectors.

The layout it reads is described in :mod:`tidelog.storage.codec.numeric`. The bytes were verified by their
hash, yet nothing here trusts them: every length and position is checked before it is used.

Inner loops index by unsigned numbers: signed ones are checked for being negative, and slices count references, and both
cost more than the work itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.jit import array_in, array_out, i64, inline, kernel, u8, u16, u32, u64

U: Any = np.uint64
I: Any = np.int64  # noqa: E741

VECTOR = 1024
LANES = 16

RAW, PACKED, DECIMAL, ORDERED = np.arange(4)
ALL_NULL = 1

ZERO, ONE = np.uint64(0), np.uint64(1)
LOWEST = np.int64(-(2**63))
LOWEST_32 = np.int64(-(2**31))
MAGIC = np.float64(1.5 * 2**52)
MAGIC_BITS = MAGIC.view(np.uint64)
POWERS = np.array([10.0**e for e in range(16)])

# What may be wrong with a piece.
BAD_PLACE, BAD_RANGE, BAD_ENCODING, BAD_BODY, BAD_ROOM = 1, 2, 3, 4, 5

# Remarks on a run that was decoded: some pieces have nulls, some were left to others.
HAS_NULLS, HAS_LEFT = 1, 2

SCRATCH = 2 * VECTOR
"""Words of scratch."""


@inline
def _packed_words(n: Any, width: Any) -> Any:
    return LANES * ((((n + LANES - 1) // LANES) * width + 63) >> 6)


@inline
def _vector_words(words: Any, p: Any, end: Any, n: Any) -> Any:
    """Length of the vector of ``n`` values at word ``p``, or -1 if it is not a vector that ends by ``end``."""
    if p >= end:
        return -1
    control = words[p]
    width = I(control & U(255))
    flags = I(control >> U(8)) & 255
    count = I(control >> U(16)) & 65535
    order = flags & 3
    if width > 64 or count > n or flags > 63 or (count > 0 and width == 64):
        return -1
    length = 1 + ((flags >> 2) & 1) + order + ((flags >> 3) & 1) + _packed_words(n, width)
    length += ((2 * count + 7) >> 3) + (((count << (flags >> 4)) + 7) >> 3)
    return length if length <= end - p else -1


@inline
def _unpack(words: Any, p: Any, n: Any, width: Any, r: Any) -> Any:
    """Unpack ``n`` values of ``width`` bits from word ``p``: the inverse of the encoder's packing."""
    if width == 0:
        for i in range(n):
            r[i] = ZERO
        return
    mask = ~ZERO >> U(64 - width)
    for row in range((n + LANES - 1) // LANES):
        bit = row * width
        source, target = U(p + LANES * (bit >> 6)), U(LANES * row)
        offset = U(bit & 63)
        if (bit & 63) + width <= 64:
            for lane in range(LANES):
                r[target + U(lane)] = (words[source + U(lane)] >> offset) & mask
        else:
            for lane in range(LANES):
                low = words[source + U(lane)] >> offset
                high = words[source + U(LANES + lane)] << (U(64) - offset)
                r[target + U(lane)] = (low | high) & mask


@inline
def _decode_vector(words: Any, p: Any, end: Any, n: Any, r: Any, v: Any) -> Any:
    """Decode the vector of ``n`` values at word ``p`` into ``v``; returns the word behind it, or -1."""
    length = _vector_words(words, p, end, n)
    if length < 0:
        return -1
    control = words[p]
    width = I(control & U(255))
    flags = I(control >> U(8)) & 255
    count = I(control >> U(16)) & 65535
    order = flags & 3
    at = p + 1
    reference = U(I(control) >> 32)
    if flags & 4:
        reference = words[at]
        at += 1
    value, step, bend = ZERO, ZERO, ZERO
    if order > 0:
        value = words[at]
    if order > 1:
        step = words[at + 1]
    if order > 2:
        bend = words[at + 2]
    at += order
    factor = ONE
    if flags & 8:
        factor = words[at]
        at += 1
    _unpack(words, at, n, width, r)
    if count > 0:
        at += _packed_words(n, width)
        log = flags >> 4
        parts = at + ((2 * count + 7) >> 3)
        unused = 64 - (8 << log)
        for k in range(count):
            i = I(words[at + (k >> 2)] >> U(16 * (k & 3))) & 65535
            if i >= n:
                return -1
            byte = k << log
            part = I(words[parts + (byte >> 3)] >> U(8 * (byte & 7)) << U(unused)) >> unused
            r[i] |= U(part) << U(width)
    if factor != ONE:
        for i in range(n):
            r[i] *= factor
    if order == 0:
        for i in range(n):
            v[i] = r[i] + reference
    elif order == 1:
        for i in range(n):
            value += r[i] + reference
            v[i] = value
    elif order == 2:
        for i in range(n):
            step += r[i] + reference
            value += step
            v[i] = value
    else:
        for i in range(n):
            bend += r[i] + reference
            step += bend
            value += step
            v[i] = value
    return p + length


@inline
def _store(encoding: Any, width: Any, power: Any, v: Any, n: Any, outs: Any, at: Any) -> Any:
    """Turn ``n`` integers back into values of the column and write them from row ``at`` of the output."""
    out8, out16, out32, out64 = outs
    base = U(at)
    if encoding == DECIMAL:
        if width == 8:
            for i in range(n):
                scaled = np.uint64(v[i] + MAGIC_BITS).view(np.float64) - MAGIC
                out64[base + U(i)] = np.float64(scaled / power).view(np.uint64)
        else:
            for i in range(n):
                scaled = np.uint64(v[i] + MAGIC_BITS).view(np.float64) - MAGIC
                out32[base + U(i)] = np.float32(scaled / power).view(np.uint32)
    elif encoding == ORDERED:
        if width == 8:
            for i in range(n):
                y = I(v[i])
                out64[base + U(i)] = U(y if (y >= 0) | (y == LOWEST) else LOWEST - y)
        else:
            for i in range(n):
                y = I(v[i])
                out32[base + U(i)] = np.uint32(y if (y >= 0) | (y == LOWEST_32) else LOWEST_32 - y)
    elif width == 4:
        for i in range(n):
            out32[base + U(i)] = np.uint32(v[i])
    elif width == 2:
        for i in range(n):
            out16[base + U(i)] = np.uint16(v[i])
    else:
        for i in range(n):
            out8[base + U(i)] = np.uint8(v[i])


@inline
def _store_pattern(width: Any, bits: Any, out32: Any, out64: Any, at: Any) -> Any:
    if width == 8:
        out64[at] = bits
    else:
        out32[at] = np.uint32(bits)


@inline
def _apply_patches(
    words: Any, body: Any, end: Any, rows: Any, start: Any, stop: Any, width: Any, out32: Any, out64: Any, base: Any
) -> Any:
    """Put back the bits of floats without an integer among rows ``start`` to ``stop``; false if inconsistent.

    Row ``start`` is row ``base`` of the output.
    """
    listed = I(words[body] & U(0xFFFFFFFF))
    offset = I(words[body] >> U(32))
    if offset == 0:
        return listed == 0
    p = body + (offset >> 3)
    if offset & 7 or p + 1 > end:
        return False
    bitmap = words[p] == ONE
    p += 1
    if bitmap:
        count = (rows + 63) >> 6
        if p + 1 + count > end:
            return False
        common = words[p]
        p += 1
        for i in range(start, stop):
            if (words[p + (i >> 6)] >> U(i & 63)) & ONE:
                _store_pattern(width, common, out32, out64, base + i - start)
        p += count
    positions = p + listed
    if positions + ((listed + 1) >> 1) > end:
        return False
    for k in range(listed):
        i = I(words[positions + (k >> 1)] >> U(32 * (k & 1))) & 0xFFFFFFFF
        if i >= rows:
            return False
        if start <= i < stop:
            _store_pattern(width, words[p + k], out32, out64, base + i - start)
    return True


@kernel(
    i64(
        *(array_in(u8), array_in(u64), array_in(i64), array_in(i64), array_in(i64), array_in(i64)),
        *(array_in(u8), array_in(i64), array_in(i64)),
        *(array_out(u8), array_out(u16), array_out(u32), array_out(u64)),
        *(array_out(u64), array_out(u8)),
    )
)
def decode_run(
    octets: Any,
    words: Any,
    offsets: Any,
    lengths: Any,
    starts: Any,
    stops: Any,
    kinds: Any,
    widths: Any,
    targets: Any,
    out8: Any,
    out16: Any,
    out32: Any,
    out64: Any,
    scratch: Any,
    left: Any,
) -> Any:
    """Decode rows ``starts[i]`` to ``stops[i]`` of every piece to byte ``targets[i]`` of the output.

    ``octets`` and ``words`` are the buffer the pieces stand in at byte ``offsets``; ``kinds[i]`` is 1 for floats;
    ``widths[i]`` are the bytes of a value, and divide the target. ``out8`` to ``out64`` are the output as words of each
    width, of which only bytes and those of the widths that occur need to be there. ``left[i]`` receives ``HAS_NULLS``
    for a piece with nulls and ``HAS_LEFT`` for one of another encoding, whose rows stay unwritten. Returns all of these
    together, or ``-8 * i - what`` for piece i and what is wrong with it.
    """
    outs = (out8, out16, out32, out64)
    r = scratch[0:VECTOR]
    v = scratch[VECTOR : 2 * VECTOR]
    remarks = 0
    for piece in range(len(offsets)):
        left[piece] = 0
        floats, width = kinds[piece] != 0, widths[piece]
        done = targets[piece] // width
        offset, length = offsets[piece], lengths[piece]
        if offset < 0 or offset & 7 or length < 16 or length > 8 * len(words) - offset:
            return -8 * piece - BAD_PLACE
        head = offset >> 3
        end = head + (length >> 3)
        encoding = I(words[head] & U(255))
        kind = I(words[head] >> U(8)) & 255
        parameter = I(words[head] >> U(16)) & 65535
        rows = I(words[head] >> U(32))
        body = head + I(words[head + 1] >> U(35))
        if body < head + 2 or body > end:
            return -8 * piece - BAD_PLACE
        start, stop = starts[piece], stops[piece]
        if start < 0 or start & (VECTOR - 1) or stop < start or stop > rows:
            return -8 * piece - BAD_RANGE
        if stop & (VECTOR - 1) and stop != rows:
            return -8 * piece - BAD_RANGE
        count = stop - start
        if done < 0 or count * width > len(out8) - done * width:
            return -8 * piece - BAD_ROOM
        if kind != 0:
            left[piece] |= HAS_NULLS
            remarks |= HAS_NULLS
        if kind == ALL_NULL:
            for i in range(done * width, (done + count) * width):
                out8[i] = 0
        elif count == 0:
            pass
        elif encoding == RAW:
            if (rows * width + 7) >> 3 != end - body:
                return -8 * piece - BAD_BODY
            source, target = U(8 * body + start * width), U(done * width)
            for i in range(count * width):
                out8[target + U(i)] = octets[source + U(i)]
        elif encoding > ORDERED:
            left[piece] |= HAS_LEFT
            remarks |= HAS_LEFT
        else:
            if floats != (encoding != PACKED) or parameter >= len(POWERS) or width > 8:
                return -8 * piece - BAD_ENCODING
            at = body + floats
            for _ in range(0, start, VECTOR):
                if at >= 0:
                    size = _vector_words(words, at, end, VECTOR)
                    at = at + size if size > 0 else -1
            direct = encoding == PACKED and width == 8
            for first in range(start, stop, VECTOR):
                n = min(VECTOR, stop - first)
                row = done + first - start
                target64 = out64[row : row + n] if direct else v
                if at >= 0:
                    at = _decode_vector(words, at, end, n, r, target64)
                if at < 0:
                    return -8 * piece - BAD_BODY
                if not direct:
                    _store(encoding, width, POWERS[parameter], v, n, outs, row)
            if floats and not _apply_patches(words, body, end, rows, start, stop, width, out32, out64, done):
                return -8 * piece - BAD_BODY
    return remarks
