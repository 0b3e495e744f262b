"""The encoding kernel: one column of a run of blocks to pieces, in one call.

The layout it writes is described in :mod:`tidelog.storage.codec.numeric`. All arithmetic is on unsigned
64-bit words and wraps around, so that every step is exact for every bit pattern; the choices made on the way
(order, reference, width, factor) only decide how small the result is.

Everything done once per value works on one vector, in scratch that stays in the first-level cache. Choices are
made from samples of a block's first vector and kept for the others, unless one turns out to be unlike it.

Numba compiles a helper anew for every combination of types it is called with, literals among them: constants
that are passed on are NumPy scalars here, and arrays that travel together are passed as tuples. Inner loops index
by unsigned numbers: signed ones are checked for being negative, and slices count references, and both cost more than
the work itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.jit import array_in, array_out, boolean, i64, inline, kernel, u8, u16, u32, u64
from tidelog.storage.codec.encodings import VECTOR
from tidelog.storage.codec.memory.kernels import leading_zeros
from tidelog.storage.codec.numeric.kernels import (
    ALL_NULL,
    DECIMAL,
    HASH,
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
from tidelog.storage.codec.numeric.outcomes import BULKY, DICTIONARY_PROMISES, RUNS_PROMISE

# Scaled integers stay below what nearly every float could be scaled to: such a one is no decimal number.
SCALED_LIMIT, SCALED_LIMIT_32 = np.float64(2.0**51), np.float64(2.0**23)
LARGEST_EXPONENT, LARGEST_EXPONENT_32 = 15, 10
EXPONENT_BITS, EXPONENT_BITS_32 = np.uint64(0x7FF << 52), np.uint64(0xFF << 23)

# Words of the plan array: what a block's vectors are taken to have in common.
KNOWN, ORDER, EXPECTED, SPAN, CENTRE, INVERSE, SHIFT, FACTOR = range(8)

SAMPLE = 32
"""Values looked at to choose the order and the factor of a vector."""

PATCH_BITS = 40
"""What an exception is taken to cost while the order is chosen: its position and a typical high part."""

SLACK = 2
"""Bits by which a vector may exceed its estimate before outliers are looked for."""

UNLIKE = 8
"""Bits by which a vector may fall short of the one it is planned after before it gets a plan of its own."""

RARE = 28
"""One exception in so many values costs about what a bit less for each of them saves."""

SHORT = 128
"""Vectors of fewer values are always searched for outliers: packing them is coarse, and searching cheap. Blocks of
fewer values are not worth a remark."""

FIXED_SCRATCH = 4 * VECTOR + 4 * 65 + 8
"""Words of scratch besides two for each row of the largest block."""


# --- Loading: values of any width as 64-bit words -----------------------------------------------------


@inline
def _load(source: Any, width: Any, signed: Any, first: Any, at: Any, n: Any, carry: Any, v: Any) -> Any:
    """Load rows ``at`` to ``at + n`` into ``v``, widened to words.

    Null slots get the last value before them; ``carry`` is that of the vector before, unless the block starts
    here (``at == first``). Returns the value to carry on.
    """
    v8, v16, v32, v64, valid = source
    base = U(at)
    if width == 8:
        for i in range(n):
            v[i] = v64[base + U(i)]
    else:
        sign = ZERO
        if signed:
            sign = ONE << U(8 * width - 1)
        if width == 4:
            for i in range(n):
                v[i] = (U(v32[base + U(i)]) ^ sign) - sign
        elif width == 2:
            for i in range(n):
                v[i] = (U(v16[base + U(i)]) ^ sign) - sign
        else:
            for i in range(n):
                v[i] = (U(v8[base + U(i)]) ^ sign) - sign
    if len(valid) > 0:
        if at == first:
            carry = ZERO
            for i in range(n):
                if valid[base + U(i)]:
                    carry = v[i]
                    break
        for i in range(n):
            # Without a branch, which nulls in no order would mislead.
            keep = ZERO - U(valid[base + U(i)])
            carry = (v[i] & keep) | (carry & ~keep)
            v[i] = carry
    return carry


# --- Floats to integers --------------------------------------------------------------------------------


@inline
def _float_to_integer(encoding: Any, width: Any, bits: Any, power: Any) -> Any:
    """The integer that stands for a float, and whether it leads back to these very bits.

    DECIMAL: the float times ``power``, if that is an integer. ORDERED: the integer with the order of the
    numbers, the lowest one for -0.0; non-finite values, which would be far from all others, are refused.
    """
    if encoding == DECIMAL:
        if width == 8:
            total = np.uint64(bits).view(np.float64) * power + MAGIC
            scaled = total - MAGIC
            same = np.float64(scaled / power).view(np.uint64) == bits
            fits = same & (abs(scaled) < SCALED_LIMIT)
        else:
            total = np.float64(np.uint32(bits).view(np.float32)) * power + MAGIC
            scaled = total - MAGIC
            same = np.float32(scaled / power).view(np.uint32) == np.uint32(bits)
            fits = same & (abs(scaled) < SCALED_LIMIT_32)
        return np.float64(total).view(np.uint64) - MAGIC_BITS, fits
    if width == 8:
        b = I(bits)
        finite = (bits & EXPONENT_BITS) != EXPONENT_BITS
        return U(b if (b >= 0) | (b == LOWEST) else LOWEST - b), finite
    b = I(np.int32(np.uint32(bits)))
    finite = (bits & EXPONENT_BITS_32) != EXPONENT_BITS_32
    return U(b if (b >= 0) | (b == LOWEST_32) else LOWEST_32 - b), finite


@inline
def _floats_to_integers(encoding: Any, width: Any, v: Any, n: Any, power: Any, q: Any) -> Any:
    """Map a vector; returns how many values do not lead back."""
    misfits = 0
    if width == 8:
        if encoding == DECIMAL:
            for i in range(n):
                q[i], fits = _float_to_integer(DECIMAL, I(8), v[i], power)
                misfits += not fits
        else:
            for i in range(n):
                q[i], fits = _float_to_integer(ORDERED, I(8), v[i], power)
                misfits += not fits
    elif encoding == DECIMAL:
        for i in range(n):
            q[i], fits = _float_to_integer(DECIMAL, I(4), v[i], power)
            misfits += not fits
    else:
        for i in range(n):
            q[i], fits = _float_to_integer(ORDERED, I(4), v[i], power)
            misfits += not fits
    return misfits


@inline
def _choose_exponent(v: Any, n: Any, width: Any, hint: Any) -> Any:
    """The power of ten for a block, from some values of its first vector, or -1 if it is not decimal.

    ``hint`` (-1: none) is kept if it fits all of them. Otherwise the largest exponent that one of them needs,
    unless it alone needs far more than the others. A quarter of the values may fit none at all.
    """
    largest = LARGEST_EXPONENT if width == 8 else LARGEST_EXPONENT_32
    seen, failed, first, second = 0, 0, -1, -1
    hinted = hint >= 0
    for i in range(0, n, max(1, n // 16)):
        _, finite = _float_to_integer(ORDERED, width, v[i], 1.0)
        if not finite:
            continue
        seen += 1
        if hinted:
            _, hinted = _float_to_integer(DECIMAL, width, v[i], POWERS[hint])
            if hinted:
                continue
            first = hint if seen > 1 else -1
            second = hint if seen > 2 else -1
        e, fits = 0, False
        while not fits and e <= largest:
            _, fits = _float_to_integer(DECIMAL, width, v[i], POWERS[e])
            e += not fits
        if not fits:
            failed += 1
            if failed > 4:
                return I(-1)
        elif e > first:
            first, second = e, first
        elif e > second:
            second = e
    if seen == 0 or hinted:
        return max(hint, I(0))
    if 4 * failed > seen:
        return I(-1)
    return I(second if second >= 0 and first > second + 1 else first)


@inline
def _collect_misfits(
    encoding: Any,
    width: Any,
    power: Any,
    v: Any,
    q: Any,
    n: Any,
    row: Any,
    valid: Any,
    positions: Any,
    patterns: Any,
    count: Any,
) -> Any:
    """Note position and bits of a vector's values that do not lead back; their slots repeat the one before.

    ``row`` is the vector's first row in its block, ``valid`` says which are worth noting (empty: all).
    Returns the number of notes so far.
    """
    last, found = ZERO, False
    for i in range(n):
        if not found:
            last, found = _float_to_integer(encoding, width, v[i], power)
    if not found:
        last = ZERO
    for i in range(n):
        _, fits = _float_to_integer(encoding, width, v[i], power)
        if fits:
            last = q[i]
        else:
            q[i] = last
            if len(valid) == 0 or valid[i]:
                positions[count] = U(row + i)
                patterns[count] = v[i]
                count += 1
    return count


@inline
def _common_misfit(patterns: Any, count: Any, width: Any) -> Any:
    """Bits that many misfits may share, and how many do: missing values are usually all the same NaN.

    -0.0, which decimals refuse as well, is passed over.
    """
    common = patterns[0]
    for i in range(count):
        if patterns[i] << U(65 - 8 * width) != ZERO:
            common = patterns[i]
            break
    same = 0
    for i in range(count):
        same += patterns[i] == common
    return common, same


@inline
def _write_patches(
    positions: Any, patterns: Any, count: Any, width: Any, rows: Any, out: Any, body: Any, p: Any
) -> Any:
    """Write the patches of a float body at word ``p`` and their place in the body's first word."""
    if count == 0:
        out[body] = ZERO
        return p
    start = p
    common, same = _common_misfit(patterns, count, width)
    with_bitmap = 12 * same > (rows >> 3) + 8
    out[p] = U(with_bitmap)
    p += 1
    if with_bitmap:
        out[p] = common
        p += 1
        words = (rows + 63) >> 6
        for i in range(p, p + words):
            out[i] = ZERO
        for i in range(count):
            if patterns[i] == common:
                out[p + I(positions[i] >> U(6))] |= ONE << (positions[i] & U(63))
        p += words
    listed = 0
    for i in range(count):
        if not with_bitmap or patterns[i] != common:
            out[p + listed] = patterns[i]
            positions[listed] = positions[i]
            listed += 1
    p += listed
    for i in range(listed):
        if i & 1:
            out[p + (i >> 1)] |= positions[i] << U(32)
        else:
            out[p + (i >> 1)] = positions[i]
    out[body] = U(listed) | (U(8 * (start - body)) << U(32))
    return p + ((listed + 1) >> 1)


# --- Integers: one vector ------------------------------------------------------------------------------


@inline
def _difference(v: Any, i: Any, order: Any) -> Any:
    """Difference of the given order at position ``i`` of at least 3."""
    first, second, third = v[i] - v[i - 1], v[i - 1] - v[i - 2], v[i - 2] - v[i - 3]
    if order == 0:
        return I(v[i])
    if order == 1:
        return I(first)
    if order == 2:
        return I(first - second)
    return I(first - second - (second - third))


@inline
def _choose_order(v: Any, n: Any, plan: Any, counts: Any) -> Any:
    """Set order, expected bits and centre in ``plan`` from a sample of a vector's differences of order 0 to 3.

    The cost of an order is the best trade between width and exceptions around the sample's middle.
    """
    plan[ORDER] = ZERO
    plan[EXPECTED] = U(64)
    plan[CENTRE] = v[0]
    if n < 5:
        return
    sampled = min(SAMPLE, n - 3)
    step = (n - 3) // sampled
    least, within = HIGHEST, 0
    for order in range(4):
        a = _difference(v, 3, order)
        b = _difference(v, 3 + (sampled >> 1) * step, order)
        c = _difference(v, 3 + (sampled - 1) * step, order)
        centre = max(min(a, b), min(max(a, b), c))
        for i in range(65):
            counts[i] = ZERO
        union = I(0)
        for k in range(sampled):
            off = _difference(v, 3 + k * step, order) - centre
            magnitude = off ^ (off >> 63)
            union |= magnitude
            counts[64 - I(leading_zeros(U(magnitude)))] += ONE
        beyond, bits = 0, 64 - I(leading_zeros(U(union)))
        while bits >= 0 and 4 * beyond <= sampled:
            # Both sides of the centre take a bit more; a width of 0 needs all differences equal.
            width = bits + 1
            if bits == 0 and a == b and b == c:
                width = 0
            cost = width * sampled + beyond * PATCH_BITS + 64 * order * sampled // n
            if cost < least:
                least, within = cost, bits
                plan[ORDER], plan[EXPECTED], plan[CENTRE] = U(order), U(width), U(centre)
            beyond += I(counts[bits])
            bits -= 1
    # The bulk's midpoint is a better centre than its middle value.
    order, centre = I(plan[ORDER]), I(plan[CENTRE])
    low, high = HIGHEST, LOWEST
    for k in range(sampled):
        off = _difference(v, 3 + k * step, order) - centre
        if (off ^ (off >> 63)) >> within == 0:
            low, high = min(low, off), max(high, off)
    plan[CENTRE] = U(centre + low + ((high - low) >> 1))


@inline
def _take_differences(v: Any, n: Any, order: Any, s: Any) -> Any:
    """Differences of a vector into ``s`` (the first ``order`` stay out); returns the lowest and the highest.

    Order 0 is taken against the first value, so that unsigned and signed columns are alike.
    """
    low, high = HIGHEST, LOWEST
    if order == 0:
        first = I(v[0])
        for i in range(n):
            d = I(v[i]) - first
            s[i] = U(d)
            low, high = min(low, d), max(high, d)
    elif order == 1:
        for i in range(n - 1):
            d = I(v[i + 1]) - I(v[i])
            s[i + 1] = U(d)
            low, high = min(low, d), max(high, d)
    elif order == 2:
        for i in range(n - 2):
            d = I(v[i + 2]) - I(v[i + 1]) - (I(v[i + 1]) - I(v[i]))
            s[i + 2] = U(d)
            low, high = min(low, d), max(high, d)
    else:
        for i in range(n - 3):
            inner = I(v[i + 2]) - I(v[i + 1])
            d = I(v[i + 3]) - I(v[i]) - inner - inner - inner
            s[i + 3] = U(d)
            low, high = min(low, d), max(high, d)
    return low, high


@inline
def _choose_factor(s: Any, n: Any, order: Any, plan: Any) -> Any:
    """Set the common factor of a sample of differences in ``plan``: as it is, its odd part's inverse, its shift."""
    plan[FACTOR], plan[INVERSE], plan[SHIFT] = ONE, ONE, ZERO
    sampled = min(SAMPLE, n - order)
    step = (n - order) // sampled
    common = ZERO
    for k in range(1, sampled):
        off = I(s[order + k * step] - s[order])
        a = U(abs(off))
        while a != ZERO:
            common, a = a, common % a
        if common == ONE:
            return
    if common == ZERO:
        return
    odd, shift = common, ZERO
    while odd & ONE == ZERO:
        odd >>= ONE
        shift += ONE
    inverse = odd  # right in its lowest three bits; every step doubles them
    for _ in range(5):
        inverse *= U(2) - odd * inverse
    plan[FACTOR], plan[INVERSE], plan[SHIFT] = common, inverse, shift


@inline
def _divide(s: Any, n: Any, plan: Any, q: Any) -> Any:
    """Divide a vector by the factor into ``q``; returns the union of the quotients' bits and of the remainders'.

    Exact division by an odd number is multiplication by its inverse. A number that is no multiple gives a
    quotient that is too large, never one that does not lead back.
    """
    inverse, shift = plan[INVERSE], plan[SHIFT]
    mask = (ONE << shift) - ONE
    remainders, quotients = ZERO, ZERO
    for i in range(n):
        remainders |= s[i] & mask
        quotient = (s[i] >> shift) * inverse
        quotients |= quotient
        q[i] = quotient
    return quotients, remainders


@inline
def _count_beyond(r: Any, width: Any, centre: Any) -> Any:
    """How many residuals lie outside ``width`` bits from 0, and outside ``width`` bits around ``centre``."""
    above, outside = 0, 0
    shift = U(width)
    floor = centre - (ONE << shift >> ONE)
    for i in range(len(r)):
        above += (r[i] >> shift) != ZERO
        outside += ((r[i] - floor) >> shift) != ZERO
    return above, outside


@inline
def _exception_words(count: Any, log: Any) -> Any:
    return ((2 * count + 7) >> 3) + (((count << log) + 7) >> 3)


@inline
def _log_bytes(bits: Any) -> Any:
    """Binary logarithm of the bytes that hold ``bits`` bits: 1, 2, 4 or 8."""
    return (bits > 8) + (bits > 16) + (bits > 32)


@inline
def _best_width(r: Any, n: Any, centre: Any, centred: Any, counts: Any) -> Any:
    """The width that makes a vector of ``n`` values smallest, and how many of its residuals lie outside.

    The range covered starts at 0 or, ``centred``, lies around ``centre``.
    """
    # Four tables in turn: counting in one would wait for the count before.
    for i in range(4 * 65):
        counts[i] = ZERO
    if centred:
        for i in range(len(r)):
            off = I(r[i] - centre)
            counts[65 * (i & 3) + 64 - I(leading_zeros(U(off ^ (off >> 63)))) + (off != 0)] += ONE
    else:
        for i in range(len(r)):
            counts[65 * (i & 3) + 64 - I(leading_zeros(r[i]))] += ONE
    widest = -1
    best, best_size, best_beyond, beyond = 0, 0, 0, 0
    for width in range(64, -1, -1):
        if widest >= 0:
            size = packed_words(n, width) + _exception_words(beyond, _log_bytes(widest - width + 1))
            if size < best_size:
                best, best_size, best_beyond = width, size, beyond
        here = I(counts[width] + counts[65 + width] + counts[130 + width] + counts[195 + width])
        if widest < 0 and (here > 0 or width == 0):
            widest = width
            best, best_size = width, packed_words(n, width)
        beyond += here
    return best, best_beyond


@inline
def _write_exceptions(r: Any, n: Any, width: Any, count: Any, out: Any, p: Any) -> Any:
    """Write positions (16 bits) and high parts of the residuals outside ``width`` bits; ``r`` keeps the low parts.

    Returns the logarithm of the parts' bytes.
    """
    parts = p + ((2 * count + 7) >> 3)
    for i in range(p, parts):
        out[i] = ZERO
    # Sixteen at a time, since most have no exception among them.
    k, union = 0, I(0)
    for first in range(0, n, LANES):
        some = min(LANES, n - first)
        bits = ZERO
        for i in range(some):
            bits |= r[U(first) + U(i)]
        if bits >> U(width) != ZERO:
            for i in range(first, first + some):
                if r[U(i)] >> U(width) != ZERO:
                    out[p + (k >> 2)] |= U(i) << U(16 * (k & 3))
                    part = I(r[U(i)]) >> width
                    union |= part ^ (part >> 63)
                    k += 1
    log = _log_bytes(65 - I(leading_zeros(U(union))))
    for i in range(parts, parts + (((count << log) + 7) >> 3)):
        out[i] = ZERO
    room = ~ZERO >> U(64 - (8 << log))
    mask = (ONE << U(width)) - ONE
    for k in range(count):
        i = I(out[p + (k >> 2)] >> U(16 * (k & 3))) & 65535
        byte = k << log
        out[parts + (byte >> 3)] |= (U(I(r[i]) >> width) & room) << U(8 * (byte & 7))
        r[i] &= mask
    return log


@inline
def _pack(r: Any, n: Any, width: Any, out: Any, p: Any) -> Any:
    """Pack ``n`` values of ``width`` bits: value i is row i // 16 of lane i % 16, the lanes' words side by side."""
    rows = (n + LANES - 1) // LANES
    for i in range(n, LANES * rows):
        r[U(i)] = ZERO
    for i in range(p, p + packed_words(n, width)):
        out[U(i)] = ZERO
    for row in range(rows):
        bit = row * width
        source, target = U(LANES * row), U(p + LANES * (bit >> 6))
        offset = U(bit & 63)
        for lane in range(LANES):
            out[target + U(lane)] |= r[source + U(lane)] << offset
        if (bit & 63) + width > 64:
            for lane in range(LANES):
                out[target + U(LANES + lane)] = r[source + U(lane)] >> (U(64) - offset)


@inline
def _encode_vector(v: Any, n: Any, work: Any, out: Any, p: Any) -> Any:
    """Encode ``n`` words as one vector at word ``p`` of ``out``; returns the word behind it."""
    s, q, counts, plan = work
    planning = plan[KNOWN] == ZERO
    if planning:
        _choose_order(v, n, plan, counts)
    order = I(plan[ORDER]) if n >= 5 else I(0)
    low, high = _take_differences(v, n, order, s)
    bits = 64 - I(leading_zeros(U(high) - U(low)))
    change = bits - I(plan[SPAN])
    if not planning and (change > SLACK or (change < -UNLIKE and bits > 0)):
        # Unlike the vector the plan was made for: wider, or so much narrower that another order may suit it.
        planning = True
        _choose_order(v, n, plan, counts)
        if I(plan[ORDER]) != order:
            order = I(plan[ORDER])
            low, high = _take_differences(v, n, order, s)
    reference = U(low)
    span = U(high) - reference
    if planning:
        _choose_factor(s, n, order, plan)
        plan[SPAN] = U(64) - leading_zeros(span)
        plan[KNOWN] = ONE
    for i in range(order):
        s[i] = reference
    for i in range(n):
        s[i] -= reference
    centre = plan[CENTRE] - reference
    if order == 0:
        centre -= v[0]
    width = 64 - I(leading_zeros(span))
    expected = I(plan[EXPECTED])
    factor = plan[FACTOR]
    r = s
    if factor > ONE and span >= factor:
        quotients, remainders = _divide(s, n, plan, q)
        span //= factor
        if remainders == ZERO and leading_zeros(quotients) >= leading_zeros(span):
            r = q
            width = 64 - I(leading_zeros(quotients))
            expected -= 63 - I(leading_zeros(factor))
            centre //= factor
        else:
            factor = ONE
    else:
        factor = ONE
    widest, beyond = width, 0
    if width > 0:
        # The first residuals are 0 wherever the reference is.
        counted = r[order:n]
        above, outside = _count_beyond(counted, width - 1, centre)
        centred = outside < above
        if width > expected + SLACK or n < SHORT:
            centred |= 64 - I(leading_zeros(centre)) > expected + SLACK
            width, beyond = _best_width(counted, n, centre, centred, counts)
        else:
            # No outliers, yet a bit or two less may pay.
            fewer = min(above, outside)
            while (fewer - beyond) * RARE < n:
                width, beyond = width - 1, fewer
                if width == 0:
                    break
                above, outside = _count_beyond(counted, width - 1, centre)
                fewer = outside if centred else above
        if beyond == 0:
            width = widest
        elif centred:
            floor = centre - (ONE << U(width) >> ONE)
            reference += floor * factor
            for i in range(len(counted)):
                counted[i] -= floor
    if order == 0:
        reference += v[0]
    wide = U(I(np.int32(np.uint32(reference)))) != reference
    flags = U(order) | U(wide) << U(2) | U(factor != ONE) << U(3)
    head = p
    out[head] = U(width) | flags << U(8) | U(beyond) << U(16)
    p += 1
    if wide:
        out[p] = reference
        p += 1
    else:
        out[head] |= reference << U(32)
    # State before the first row, such that the first ``order`` residuals are 0.
    if order == 1:
        out[p] = v[0] - reference
    elif order == 2:
        step = v[1] - v[0] - reference
        out[p] = v[0] - step
        out[p + 1] = step - reference
    elif order == 3:
        bend = v[2] - v[1] - (v[1] - v[0]) - reference
        step = v[1] - v[0] - bend
        out[p] = v[0] - step
        out[p + 1] = step - (bend - reference)
        out[p + 2] = bend - reference - reference
    p += order
    if factor != ONE:
        out[p] = factor
        p += 1
    end = p + packed_words(n, width)
    if beyond > 0:
        log = _write_exceptions(r, n, width, beyond, out, end)
        out[head] |= U(log) << U(12)
        end += _exception_words(beyond, log)
    if width > 0:
        _pack(r, n, width, out, p)
    return end


# --- Blocks --------------------------------------------------------------------------------------------


@inline
def _repetition(v: Any, n: Any, sampled: Any, bitmap: Any) -> Any:
    """Of a sample of a vector's values: about how many are distinct, and how many equal the one behind them."""
    for i in range(64):
        bitmap[i] = ZERO
    step = (n - 1) // sampled
    same = 0
    for k in range(sampled):
        x = v[k * step]
        same += x == v[k * step + 1]
        code = (x * HASH) >> U(52)
        bitmap[I(code >> U(6))] |= ONE << (code & U(63))
    distinct = 0
    for i in range(64):
        while bitmap[i] != ZERO:
            bitmap[i] &= bitmap[i] - ONE
            distinct += 1
    return distinct, same


@inline
def _promises(v: Any, n: Any, rows: Any, words: Any, bitmap: Any) -> Any:
    """Whether runs, and whether a dictionary, would make a block clearly smaller, as remarks.

    ``v``: the block's first vector; ``words``: the length of the body if all its vectors are like the first.
    """
    remarks = 0
    if n > 64 and words >= 16:
        distinct, same = _repetition(v, n, 64, bitmap)
        if same >= 48 and rows * (64 - same) // 128 + 8 < (3 * words) >> 2:
            remarks |= RUNS_PROMISE
        # A sample with many distinct values stands for a block with more of them. The saving must be worth decoding
        # twice: below three eighths it is not.
        code_bits = 65 - I(leading_zeros(U(distinct))) + I(distinct > 16)
        few = distinct <= 32 and rows * code_bits // 64 + 2 * distinct < (5 * words) >> 3
        if not few and n == VECTOR and 3 * words > rows:
            # Many bits per value: a larger sample tells some hundred distinct values from very many.
            distinct, same = _repetition(v, n, 256, bitmap)
            few = distinct <= 208
        if few:
            remarks |= DICTIONARY_PROMISES
    return remarks


@inline
def _write_raw(source: Any, width: Any, signed: Any, first: Any, last: Any, v: Any, outs: Any, body: Any) -> Any:
    """Write a block's values as they are, null slots filled; returns the word behind them."""
    out8, out16, out32, out64 = outs
    end = body + (((last - first) * width + 7) >> 3)
    out64[end - 1] = ZERO
    carry = ZERO
    for at in range(first, last, VECTOR):
        n = min(VECTOR, last - at)
        carry = _load(source, width, signed, first, at, n, carry, v)
        base = U(8 * body // width + at - first)
        if width == 8:
            for i in range(n):
                out64[base + U(i)] = v[i]
        elif width == 4:
            for i in range(n):
                out32[base + U(i)] = np.uint32(v[i])
        elif width == 2:
            for i in range(n):
                out16[base + U(i)] = np.uint16(v[i])
        else:
            for i in range(n):
                out8[base + U(i)] = np.uint8(v[i])
    return end


@kernel(
    i64(
        *(array_in(u8), array_in(u16), array_in(u32), array_in(u64), array_in(u8)),
        *(boolean, i64, boolean, array_in(i64)),
        *(array_in(u8), array_in(u8), array_in(i64)),
        *(array_out(u8), array_out(u16), array_out(u32), array_out(u64), i64),
        *(array_out(u64), array_out(i64), array_out(i64), array_out(u8)),
    )
)
def encode_run(
    v8: Any,
    v16: Any,
    v32: Any,
    v64: Any,
    valid: Any,
    floats: Any,
    width: Any,
    signed: Any,
    cuts: Any,
    kinds: Any,
    validity: Any,
    bounds: Any,
    out8: Any,
    out16: Any,
    out32: Any,
    out64: Any,
    start: Any,
    scratch: Any,
    offsets: Any,
    lengths: Any,
    remarks: Any,
) -> Any:
    """Write the pieces of a run of blocks one behind the other from word ``start`` of ``out64``.

    ``v8`` to ``v64``: the column's values, in the array of their width; the others are empty. ``valid``: a byte per
    row, empty if there are no nulls. ``kinds``, ``validity``, ``bounds``: what each piece says of its nulls.
    ``out8`` to ``out64``: the same memory. ``scratch``: FIXED_SCRATCH words and two more for each row of the
    largest block. ``remarks[b]``: what may make block b smaller. Returns the number of bytes written, which is a
    multiple of 8, plus the union of all remarks, which is less.
    """
    source = (v8, v16, v32, v64, valid)
    v, q = scratch[0:VECTOR], scratch[VECTOR : 2 * VECTOR]
    counts = scratch[4 * VECTOR : 4 * VECTOR + 4 * 65]
    plan = scratch[4 * VECTOR + 4 * 65 : FIXED_SCRATCH]
    work = (scratch[2 * VECTOR : 3 * VECTOR], scratch[3 * VECTOR : 4 * VECTOR], counts, plan)
    share = (len(scratch) - FIXED_SCRATCH) // 2
    positions = scratch[FIXED_SCRATCH : FIXED_SCRATCH + share]
    patterns = scratch[FIXED_SCRATCH + share : FIXED_SCRATCH + 2 * share]
    exponent = I(-1)
    union = 0
    p = start
    for b in range(len(cuts) - 1):
        first, last = cuts[b], cuts[b + 1]
        rows = last - first
        head = p
        noted = bounds[b + 1] - bounds[b]
        body = head + 2 + ((noted + 7) >> 3)
        if noted > 0:
            out64[body - 1] = ZERO
            for i in range(noted):
                out8[8 * (head + 2) + i] = validity[bounds[b] + i]
        p = body
        encoding = RAW
        remarks[b] = 0
        at = first
        if kinds[b] == ALL_NULL:
            at = last
        carry, misfits, power = ZERO, I(0), 1.0
        while at < last:
            n = min(VECTOR, last - at)
            carry = _load(source, width, signed, first, at, n, carry, v)
            x = v
            if not floats:
                encoding = PACKED
            else:
                if encoding == RAW:
                    exponent = _choose_exponent(v, n, width, exponent)
                    encoding = DECIMAL if exponent >= 0 else ORDERED
                    power = POWERS[max(exponent, 0)]
                x = q
                if _floats_to_integers(encoding, width, v, n, power, q) > 0:
                    worth = valid[at : at + n] if len(valid) > 0 else valid
                    misfits = _collect_misfits(
                        encoding, width, power, v, q, n, at - first, worth, positions, patterns, misfits
                    )
                    if encoding == DECIMAL and misfits > rows >> 3:
                        _, same = _common_misfit(patterns, misfits, width)
                        if misfits - same > rows >> 3:
                            # Not decimal after all: start the block again.
                            encoding, exponent, misfits, at = ORDERED, I(-1), I(0), first
                            continue
            if at == first:
                plan[KNOWN] = ZERO
                p = body + floats
            p = _encode_vector(x, n, work, out64, p)
            if at == first:
                remarks[b] = _promises(v, n, rows, (p - body) * rows // n, counts)
            at += n
            done = at - first
            if done >= 2 * VECTOR and 4 * done >= rows and 8 * (p - body) >= done * width:
                # Two vectors and a quarter of the block that do not get smaller speak for the others.
                encoding = RAW
                break
        if rows > 0 and kinds[b] != ALL_NULL:
            if floats and encoding != RAW:
                p = _write_patches(positions, patterns, misfits, width, rows, out64, body, p)
            if encoding == RAW or 8 * (p - body) >= rows * width:
                encoding = RAW
                p = _write_raw(source, width, signed, first, last, v, (out8, out16, out32, out64), body)
            if 32 * (p - body) > 3 * rows * width and rows > SHORT:
                remarks[b] |= BULKY
        union |= remarks[b]
        parameter = U(exponent) if encoding == DECIMAL else ZERO
        out64[head] = U(encoding) | U(kinds[b]) << U(8) | parameter << U(16) | U(rows) << U(32)
        out64[head + 1] = U(noted) | U(8 * (body - head)) << U(32)
        offsets[b] = 8 * head
        lengths[b] = 8 * (p - head)
    return 8 * (p - start) + union
