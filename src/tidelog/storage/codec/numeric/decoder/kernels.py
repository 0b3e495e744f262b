"""The decoding kernels: rows of the pieces of any number of columns to their values, and where values of a range are.

All pieces of a run in one call, because every call gives the interpreter lock away and has to wait for it afterwards,
which with several threads at work takes longer than decoding a few vectors.

The layout it reads is described in :mod:`tidelog.storage.codec.numeric`. The bytes were verified by their
hash, yet nothing here trusts them: every length and position is checked before it is used.

Inner loops index by unsigned numbers: signed ones are checked for being negative, and slices count references, and both
cost more than the work itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.jit import array_in, array_out, i64, inline, kernel, u8, u16, u32, u64
from tidelog.storage.codec.encodings import VECTOR
from tidelog.storage.codec.numeric.kernels import (
    ALL_NULL,
    DECIMAL,
    HIGHEST,
    LANES,
    LOWEST,
    LOWEST_32,
    MAGIC,
    MAGIC_BITS,
    ONE,
    ORDERED,
    PACKED,
    POWERS,
    RAW,
    ZERO,
    I,
    U,
    packed_words,
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

LARGEST_SCALED = np.int64(1 << 52)
"""The integers of DECIMAL vectors are well below this."""
NOWHERE = np.uint64(1 << 60)
"""An integer that no DECIMAL vector has."""


@inline
def vector_words(words: Any, p: Any, end: Any, n: Any) -> Any:
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
    length = 1 + ((flags >> 2) & 1) + order + ((flags >> 3) & 1) + packed_words(n, width)
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
def _decode_residuals(words: Any, p: Any, end: Any, n: Any, r: Any) -> Any:
    """Decode the residuals of the vector of ``n`` values at word ``p``; returns the word behind it, or -1."""
    length = vector_words(words, p, end, n)
    if length < 0:
        return -1
    control = words[p]
    width = I(control & U(255))
    flags = I(control >> U(8)) & 255
    count = I(control >> U(16)) & 65535
    at = p + 1 + ((flags >> 2) & 1) + (flags & 3) + ((flags >> 3) & 1)
    _unpack(words, at, n, width, r)
    if count > 0:
        at += packed_words(n, width)
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
    return p + length


@inline
def _add_up(words: Any, p: Any, n: Any, r: Any, v: Any) -> Any:
    """Turn the residuals of the vector at word ``p`` into its values."""
    control = words[p]
    flags = I(control >> U(8)) & 255
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


@inline
def decode_vector(words: Any, p: Any, end: Any, n: Any, r: Any, v: Any) -> Any:
    """Decode the vector of ``n`` values at word ``p`` into ``v``; returns the word behind it, or -1."""
    following = _decode_residuals(words, p, end, n, r)
    if following >= 0:
        _add_up(words, p, n, r, v)
    return following


@inline
def store(encoding: Any, width: Any, power: Any, v: Any, n: Any, outs: Any, at: Any) -> Any:
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
def store_pattern(width: Any, bits: Any, out32: Any, out64: Any, at: Any) -> Any:
    """Write the bits of a float to row ``at`` of the output."""
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
                store_pattern(width, common, out32, out64, base + i - start)
        p += count
    positions = p + listed
    if positions + ((listed + 1) >> 1) > end:
        return False
    for k in range(listed):
        i = I(words[positions + (k >> 1)] >> U(32 * (k & 1))) & 0xFFFFFFFF
        if i >= rows:
            return False
        if start <= i < stop:
            store_pattern(width, words[p + k], out32, out64, base + i - start)
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
                    size = vector_words(words, at, end, VECTOR)
                    at = at + size if size > 0 else -1
            direct = encoding == PACKED and width == 8
            for first in range(start, stop, VECTOR):
                n = min(VECTOR, stop - first)
                row = done + first - start
                target64 = out64[row : row + n] if direct else v
                if at >= 0:
                    at = decode_vector(words, at, end, n, r, target64)
                if at < 0:
                    return -8 * piece - BAD_BODY
                if not direct:
                    store(encoding, width, POWERS[parameter], v, n, outs, row)
            if floats and not _apply_patches(words, body, end, rows, start, stop, width, out32, out64, done):
                return -8 * piece - BAD_BODY
    return remarks


@inline
def _first_value(words: Any, p: Any, n: Any) -> Any:
    """The first value of the vector of ``n`` values at word ``p``, whose length was found to be right."""
    control = words[p]
    width = I(control & U(255))
    flags = I(control >> U(8)) & 255
    count = I(control >> U(16)) & 65535
    at = p + 1
    value = U(I(control) >> 32)
    if flags & 4:
        value = words[at]
        at += 1
    for _ in range(flags & 3):  # the value before it, its step, the step's step
        value += words[at]
        at += 1
    factor = ONE
    if flags & 8:
        factor = words[at]
        at += 1
    residual = ZERO
    if width > 0:
        residual = words[at] & (~ZERO >> U(64 - width))
    at += packed_words(n, width)
    log = flags >> 4
    for k in range(count):
        if (words[at + (k >> 2)] >> U(16 * (k & 3))) & U(65535) == ZERO:
            byte = k << log
            unused = 64 - (8 << log)
            word = words[at + ((2 * count + 7) >> 3) + (byte >> 3)]
            residual |= U(I(word >> U(8 * (byte & 7)) << U(unused)) >> unused) << U(width)
    return I(value + residual * factor)


@inline
def _row_from(words: Any, is_raw: Any, body: Any, end: Any, rows: Any, bound: Any, r: Any, v: Any) -> Any:
    """The first row of a RAW or PACKED body of rising values that is not below a bound, or -1 if it is damaged.

    Decodes one vector at the most, the last one that begins below the bound.
    """
    low, high, before = I(0), rows, I(0)
    if not is_raw:
        chosen, at = I(-1), body
        for start in range(0, rows, VECTOR):
            n = min(VECTOR, rows - start)
            length = vector_words(words, at, end, n)
            if length < 0:
                return I(-1)
            if _first_value(words, at, n) >= bound:
                break
            chosen, before = at, I(start)
            at += length
        high = min(I(VECTOR), rows - before) if chosen >= 0 else I(0)
        if chosen >= 0 and decode_vector(words, chosen, end, high, r, v) < 0:
            return I(-1)
    while low < high:
        middle = (low + high) >> 1
        value = words[body + middle] if is_raw else v[middle]
        if I(value) < bound:
            low = middle + I(1)
        else:
            high = middle
    return before + low


@kernel(
    i64(
        *(array_in(u64), array_in(i64, 2), array_in(i64, 2), array_in(i64), array_in(i64, 2), array_in(i64)),
        *(array_out(i64, 2), array_out(i64, 2), array_out(i64, 2), array_out(i64), array_out(u64)),
    )
)
def cut_leaves(
    words: Any,
    offsets: Any,
    lengths: Any,
    counts: Any,
    bounds: Any,
    widths: Any,
    starts: Any,
    stops: Any,
    targets: Any,
    cuts: Any,
    scratch: Any,
) -> Any:
    """Find the rows of leaves whose values in the first column are in a closed range, to decode the others there.

    ``offsets`` and ``lengths`` have a row for each column and a column for each leaf; ``counts`` are the rows of the
    leaves, ``bounds`` the lowest and the highest wanted value of each. The first column has integers of 64 bits that
    rise. ``starts``, ``stops`` and ``targets``, of the other columns, receive what :func:`decode_run` is to be told:
    whole vectors, those of all leaves one behind the other, from the places on that the first targets say. There, the
    rows in the range are those from ``cuts[2 * i]`` to ``cuts[2 * i + 1]`` (exclusive) for leaf i. ``widths`` are the
    bytes of values of the others. Returns 0, a remark if the first column has nulls or another encoding than RAW and
    PACKED, or ``-8 * i - what`` for the first column of leaf i and what is wrong with it.
    """
    r = scratch[0:VECTOR]
    v = scratch[VECTOR : 2 * VECTOR]
    done = I(0)
    for leaf in range(len(counts)):
        offset, length = offsets[0, leaf], lengths[0, leaf]
        if offset < 0 or offset & 7 or length < 16 or length > 8 * len(words) - offset:
            return -8 * leaf - BAD_PLACE
        head = offset >> 3
        end = head + (length >> 3)
        rows = I(words[head] >> U(32))
        body = head + I(words[head + 1] >> U(35))
        if body < head + 2 or body > end:
            return -8 * leaf - BAD_PLACE
        if rows != counts[leaf]:
            return -8 * leaf - BAD_RANGE
        if (words[head] >> U(8)) & U(255) != ZERO:
            return HAS_NULLS
        is_raw = I(words[head] & U(255)) == RAW
        if not is_raw and I(words[head] & U(255)) != PACKED:
            return HAS_LEFT
        if is_raw and rows != end - body:
            return -8 * leaf - BAD_BODY
        first, last = I(0), rows
        if bounds[leaf, 0] != LOWEST:
            first = _row_from(words, is_raw, body, end, rows, bounds[leaf, 0], r, v)
        if bounds[leaf, 1] != HIGHEST:
            last = _row_from(words, is_raw, body, end, rows, bounds[leaf, 1] + I(1), r, v)
        if first < 0 or last < 0:
            return -8 * leaf - BAD_BODY
        if last <= first:
            first, last = I(0), I(0)
        start, stop = first & I(-VECTOR), min(rows, (last + VECTOR - 1) & I(-VECTOR))
        cuts[2 * leaf] = done + first - start
        cuts[2 * leaf + 1] = done + last - start
        for column in range(len(widths)):
            starts[column, leaf] = start
            stops[column, leaf] = stop
            if leaf > 0:
                targets[column, leaf] = targets[column, 0] + done * widths[column]
        done += stop - start
    return 0


@inline
def _first_scaled(bound: Any, above: Any, power: Any, width: Any) -> Any:
    """The lowest integer whose decimal float is at least ``bound`` (``above``: greater); one too large if none is.

    Division by a power of ten and rounding to single precision keep order, so it can be searched for.
    """
    first, last = -LARGEST_SCALED, LARGEST_SCALED + I(1)
    while first < last:
        middle = (first + last) >> 1
        value = np.float64(middle) / power
        if width == 4:
            value = np.float64(np.float32(value))
        if value > bound or (value == bound and not above):
            last = middle
        else:
            first = middle + I(1)
    return first


@inline
def _is_inside(bits: Any, width: Any, low: Any, high: Any, nans: Any) -> Any:
    """Whether the float of a bit pattern is in a closed range."""
    value = np.uint64(bits).view(np.float64) if width == 8 else np.float64(np.uint32(bits).view(np.float32))
    if value != value:
        return nans != 0
    return (value >= low) & (value <= high)


@inline
def _mark_patches(
    words: Any, body: Any, end: Any, rows: Any, first: Any, n: Any, width: Any, bounds: Any, inside: Any, v: Any
) -> Any:
    """Put ``inside``, or the integer before it, for floats without one among rows ``first`` on; false if inconsistent.

    ``bounds`` are the range that tells which: low, high, and whether NaN counts.
    """
    low, high, nans = bounds
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
        mark = inside if _is_inside(words[p], width, low, high, nans) else inside - ONE
        p += 1
        for i in range(n):
            if (words[p + ((first + i) >> 6)] >> U((first + i) & 63)) & ONE:
                v[i] = mark
        p += count
    positions = p + listed
    if positions + ((listed + 1) >> 1) > end:
        return False
    for k in range(listed):
        i = (I(words[positions + (k >> 1)] >> U(32 * (k & 1))) & 0xFFFFFFFF) - first
        if 0 <= i < n:
            v[i] = inside if _is_inside(words[p + k], width, low, high, nans) else inside - ONE
    return True


@inline
def _is_skimmable(control: Any, span: Any) -> Any:
    """Whether a vector is one of differences of less than 50 bits, exceptions included, and a range as narrow too."""
    plain = (control >> U(8)) & U(15) == ONE and (control >> U(12)) & U(15) <= ONE
    return plain and control & U(255) <= U(32) and span < U(1 << 50)


@inline
def _skim(
    words: Any, p: Any, n: Any, r: Any, sums: Any, base: Any, span: Any, row: Any, places: Any, found: Any
) -> Any:
    """Find values of a range in a vector that is skimmable, given its residuals; returns how many were found so far.

    Values differ by few bits from the ones before. So sixteen at a time cannot reach a range that is far away, and
    the sum of their steps is enough to go on: unlike the values themselves, such sums do not wait for one another.
    """
    reference = I(words[p]) >> 32
    count = I(words[p] >> U(16)) & 65535
    lowest, highest = I(0), I(~ZERO >> U(64 - (words[p] & U(255)))) if words[p] & U(255) else I(0)
    if count:
        for i in range(n):
            lowest, highest = min(lowest, I(r[U(i)])), max(highest, I(r[U(i)]))
    down, up = LANES * min(reference + lowest, I(0)), LANES * max(reference + highest, I(0))
    whole = n // LANES
    for line in range(whole):
        total = ZERO
        for lane in range(LANES):
            total += r[U(LANES * line + lane)]
        sums[U(line)] = total
    value, step, limit = words[p + 1] - base, U(reference), I(span)
    for line in range((n + LANES - 1) // LANES):
        distance = I(value)
        if distance + down <= limit and distance + up >= 0:
            each = value
            for i in range(LANES * line, min(LANES * line + LANES, n)):
                each += r[U(i)] + step
                if each <= span:
                    if found < len(places):
                        places[found] = row + i
                    found += 1
        if line < whole:
            value += sums[U(line)] + U(LANES) * step
    return found


@kernel(
    i64(
        *(array_in(u64), array_in(i64), array_in(i64), array_in(i64)),
        *(i64, i64, u64, u64, i64),
        *(array_out(i64), array_out(u64), array_out(u8)),
    )
)
def find_in_range(
    words: Any,
    offsets: Any,
    lengths: Any,
    counts: Any,
    floats: Any,
    width: Any,
    low: Any,
    high: Any,
    nans: Any,
    places: Any,
    scratch: Any,
    left: Any,
) -> Any:
    """How many values of the pieces of one column are in a closed range, and the first ``len(places)`` of them.

    ``counts[i]`` are the rows of piece ``i``; a place is the number of a row among the rows of all pieces. ``low`` and
    ``high`` are the bits of 64-bit integers, or of doubles if ``floats``; ``nans`` tells whether NaN is in the range
    too. Pieces with nulls or of another encoding than PACKED and DECIMAL are passed over: ``left[i]`` is ``HAS_LEFT``
    for these. Returns the number, or ``-8 * i - what`` for piece i and what is wrong with it.
    """
    r = scratch[0:VECTOR]
    v = scratch[VECTOR : 2 * VECTOR]
    bounds = (np.uint64(low).view(np.float64), np.uint64(high).view(np.float64), nans)
    found, before, known = 0, 0, -1
    base, span = low, high - low
    for piece in range(len(offsets)):
        left[piece] = 0
        offset, length = offsets[piece], lengths[piece]
        if offset < 0 or offset & 7 or length < 16 or length > 8 * len(words) - offset:
            return -8 * piece - BAD_PLACE
        head = offset >> 3
        end = head + (length >> 3)
        encoding = I(words[head] & U(255))
        parameter = I(words[head] >> U(16)) & 65535
        rows = I(words[head] >> U(32))
        body = head + I(words[head + 1] >> U(35))
        if body < head + 2 or body > end:
            return -8 * piece - BAD_PLACE
        if rows != counts[piece]:
            return -8 * piece - BAD_RANGE
        if (words[head] >> U(8)) & U(255) != ZERO or encoding != (DECIMAL if floats else PACKED):
            left[piece] = HAS_LEFT
            before += rows
            continue
        at = body
        patched = False
        if floats:
            patched = words[body] != ZERO
            if parameter >= len(POWERS) or body >= end:
                return -8 * piece - BAD_ENCODING
            at += 1
            if parameter != known:
                known = parameter
                first = _first_scaled(bounds[0], False, POWERS[parameter], width)
                last = _first_scaled(bounds[1], True, POWERS[parameter], width)
                base, span = (U(first), U(last - first - 1)) if first < last else (NOWHERE, ZERO)
        for start in range(0, rows, VECTOR):
            n = min(VECTOR, rows - start)
            vector = at
            at = _decode_residuals(words, vector, end, n, r)
            if at < 0:
                return -8 * piece - BAD_BODY
            if not patched and _is_skimmable(words[vector], span):
                found = _skim(words, vector, n, r, v, base, span, before + start, places, found)
                continue
            _add_up(words, vector, n, r, v)
            if floats and not _mark_patches(words, body, end, rows, start, n, width, bounds, base, v):
                return -8 * piece - BAD_BODY
            inside = I(0)
            for i in range(n):
                inside += I(v[U(i)] - base <= span)
            if inside == n and found + n <= len(places):
                for i in range(n):
                    places[U(found + i)] = before + start + i
            elif inside and found + inside <= len(places):
                listed = ZERO
                for i in range(n):  # put down in any case, for to guess whether it is inside would take longer
                    r[listed] = U(i)
                    listed += U(v[U(i)] - base <= span)
                for k in range(inside):
                    places[U(found + k)] = before + start + I(r[U(k)])
            elif inside and found < len(places):
                at_place = found
                for i in range(n):
                    if v[i] - base <= span and at_place < len(places):
                        places[at_place] = before + start + i
                        at_place += 1
            found += inside
        before += rows
    return found
