"""The kernel that decodes single rows of the pieces of any number of columns.

Where a vector consists of values, not of differences, one of them costs as much as reading two words. Of others all
residuals are unpacked, but nothing is made of values that nobody wants, and nothing of them is written anywhere.
"""

from __future__ import annotations

from typing import Any

from tidelog.jit import array_in, array_out, i64, inline, kernel, u8, u16, u32, u64
from tidelog.storage.codec.encodings import VECTOR
from tidelog.storage.codec.numeric.decoder.kernels import decode_vector, store, store_pattern, vector_words
from tidelog.storage.codec.numeric.kernels import (
    ALL_NULL,
    LANES,
    ONE,
    ORDERED,
    PACKED,
    POWERS,
    RAW,
    ZERO,
    I,
    U,
)
from tidelog.storage.codec.numeric.outcomes import (
    BAD_BODY,
    BAD_ENCODING,
    BAD_PLACE,
    BAD_RANGE,
    BAD_ROOM,
    HAS_LEFT,
    HAS_NULLS,
)

_FEW = 8
"""Of a vector of values, one in so many is taken by itself; of more, all are unpacked."""


@inline
def _take_single(words: Any, p: Any, places: Any, first: Any, count: Any, begin: Any, v: Any) -> Any:
    """Put ``count`` values of the vector of order 0 at word ``p`` into ``v``; its first row has the place ``begin``."""
    control = words[p]
    width = I(control & U(255))
    flags = I(control >> U(8)) & 255
    at = p + 1
    reference = U(I(control) >> 32)
    if flags & 4:
        reference = words[at]
        at += 1
    factor = ONE
    if flags & 8:
        factor = words[at]
        at += 1
    if width == 0:
        for j in range(count):
            v[j] = reference
        return
    mask = ~ZERO >> U(64 - width)
    for j in range(count):
        i = places[U(first + j)] - begin
        bit = (i >> 4) * width
        source = at + LANES * (bit >> 6) + (i & (LANES - 1))
        offset = bit & 63
        value = words[U(source)] >> U(offset)
        if offset + width > 64:
            value |= words[U(source + LANES)] << U(64 - offset)
        v[U(j)] = (value & mask) * factor + reference


@inline
def _places_before(places: Any, first: Any, last: Any, end: Any) -> Any:
    """The first one of some rising places that is not before an end, or ``last``."""
    low, high = first, last
    while low < high:
        middle = (low + high) >> 1
        if places[U(middle)] < end:
            low = middle + 1
        else:
            high = middle
    return low


@inline
def _apply_patches(
    words: Any,
    body: Any,
    end: Any,
    rows: Any,
    places: Any,
    first: Any,
    last: Any,
    begin: Any,
    width: Any,
    out32: Any,
    out64: Any,
    base: Any,
) -> Any:
    """Put back the bits of floats without an integer, as ``_apply_patches`` of whole vectors; false if inconsistent.

    Of the rows with the places ``first`` to ``last``, the first of which is row ``base`` of the output.
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
        for k in range(first, last):
            i = places[k] - begin
            if (words[p + (i >> 6)] >> U(i & 63)) & ONE:
                store_pattern(width, common, out32, out64, base + k - first)
        p += count
    positions = p + listed
    if positions + ((listed + 1) >> 1) > end:
        return False
    for k in range(listed):
        i = I(words[positions + (k >> 1)] >> U(32 * (k & 1))) & 0xFFFFFFFF
        if i >= rows:
            return False
        low = _places_before(places, first, last, begin + i)
        if low < last and places[low] - begin == i:
            store_pattern(width, words[p + k], out32, out64, base + low - first)
    return True


@kernel(
    i64(
        *(array_in(u8), array_in(u64), array_in(i64, 2), array_in(i64, 2)),
        *(array_in(u8), array_in(i64), array_in(i64)),
        *(array_in(i64), array_in(i64), array_in(i64), array_in(i64), array_in(i64)),
        *(array_out(u8), array_out(u16), array_out(u32), array_out(u64)),
        *(array_out(u64), array_out(u8, 2)),
    )
)
def decode_rows(
    octets: Any,
    words: Any,
    offsets: Any,
    lengths: Any,
    kinds: Any,
    widths: Any,
    bases: Any,
    places: Any,
    begins: Any,
    firsts: Any,
    lasts: Any,
    targets: Any,
    out8: Any,
    out16: Any,
    out32: Any,
    out64: Any,
    scratch: Any,
    left: Any,
) -> Any:
    """Decode single rows of pieces: ``offsets`` and ``lengths`` have a row for each column, a column for each block.

    Of block b these are the rows ``places[k] - begins[b]`` for k from ``firsts[b]`` to ``lasts[b]`` (exclusive), which
    rise. Those of column c go to byte ``bases[c]`` of the output and on, from row ``targets[b]`` on. Everything else is
    as in :func:`tidelog.storage.codec.numeric.decoder.kernels.decode_run`, where a piece has the number of its place in
    ``offsets``.
    """
    outs = (out8, out16, out32, out64)
    r = scratch[0:VECTOR]
    v = scratch[VECTOR : 2 * VECTOR]
    remarks = 0
    blocks = len(begins)
    for column in range(len(kinds)):
        floats, width = kinds[column] != 0, widths[column]
        for block in range(blocks):
            piece = column * blocks + block
            left[column, block] = 0
            offset, length = offsets[column, block], lengths[column, block]
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
            begin, first, last = begins[block], firsts[block], lasts[block]
            if first >= last:
                continue
            if places[first] < begin or places[last - 1] - begin >= rows:
                return -8 * piece - BAD_RANGE
            done = bases[column] // width + targets[block]
            if done < 0 or (last - first) * width > len(out8) - done * width:
                return -8 * piece - BAD_ROOM
            if kind != 0:
                left[column, block] |= HAS_NULLS
                remarks |= HAS_NULLS
            if kind == ALL_NULL:
                for i in range(done * width, (done + last - first) * width):
                    out8[i] = 0
                continue
            if encoding == RAW:
                if (rows * width + 7) >> 3 != end - body:
                    return -8 * piece - BAD_BODY
                for k in range(first, last):
                    source, target = 8 * body + (places[k] - begin) * width, (done + k - first) * width
                    for i in range(width):
                        out8[target + i] = octets[source + i]
                continue
            if encoding > ORDERED:
                left[column, block] |= HAS_LEFT
                remarks |= HAS_LEFT
                continue
            if floats != (encoding != PACKED) or parameter >= len(POWERS) or width > 8:
                return -8 * piece - BAD_ENCODING
            at = body + floats
            start, k = I(0), first
            while k < last:
                wanted = (places[k] - begin) & I(-VECTOR)
                while start < wanted:
                    size = vector_words(words, at, end, VECTOR)
                    if size < 0:
                        return -8 * piece - BAD_BODY
                    at += size
                    start += VECTOR
                n = min(I(VECTOR), rows - start)
                stop = _places_before(places, k + 1, min(last, k + n), begin + start + n)
                count = stop - k
                if vector_words(words, at, end, n) < 0:
                    return -8 * piece - BAD_BODY
                is_plain = words[at] & U(0xFFFF0300) == ZERO  # order 0, and no exceptions
                row = done + k - first
                if is_plain and count * _FEW <= n:
                    _take_single(words, at, places, k, count, begin + start, v)
                else:
                    if decode_vector(words, at, end, n, r, v) < 0:
                        return -8 * piece - BAD_BODY
                    if count < n:
                        for j in range(count):
                            v[U(j)] = v[U(places[U(k + j)] - begin - start)]
                if encoding == PACKED and width == 8:
                    for j in range(count):
                        out64[U(row + j)] = v[U(j)]
                else:
                    store(encoding, width, POWERS[parameter], v, count, outs, row)
                k = stop
            if floats and not _apply_patches(
                words, body, end, rows, places, first, last, begin, width, out32, out64, done
            ):
                return -8 * piece - BAD_BODY
    return remarks
