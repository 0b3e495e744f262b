"""Kernels that summarise a column, one row of six words (see :data:`SUMMARY`) per block.

Every kernel takes the column as whole arrays, ``cuts`` (block ``i`` is rows ``cuts[i]`` to ``cuts[i + 1]``)
and ``mask``: one byte a row, zero for a null, or an empty array when there are no nulls. Values of null rows
have no influence. The caller guarantees that cuts ascend and lie inside the arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.jit import array_in, array_out, boolean, f64, i64, inline, kernel, u8, u64, void
from tidelog.storage.codec.memory.kernels import load_big_endian
from tidelog.storage.summary.flags import HAS_BOUNDS, HAS_SUM, INTEGER_SUM, LANES, MAX_TRUNCATED, MIN_TRUNCATED

_STRETCH = 1024
_ONES = (1 << 64) - 1
_SIGN = 1 << 63
_LARGEST = (1 << 63) - 1
_SMALLEST = -(1 << 63)
_HALF = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)

# By length of a value, 9 standing for everything longer than its prefix: the bytes of the big-endian prefix that
# belong to the value, and the one it ends with.
_KEPT_BYTES = np.array([_ONES ^ (_ONES >> 8 * size) for size in range(8)] + [_ONES, _ONES], np.uint64)
_LAST_BYTE = np.array([0] + [0xFF << (64 - 8 * size) for size in range(1, 9)] + [0], np.uint64)


@inline
def _head(flags: Any, nulls: Any) -> Any:
    return np.uint64(flags) | (np.uint64(nulls) << _HALF)


@kernel(void(array_in(i64), array_in(u8), array_in(i64), i64, boolean, array_out(u64, 2)))
def summarise_integers(values: Any, mask: Any, cuts: Any, flip: Any, keep_sum: Any, out: Any) -> None:
    """Bounds and exact sum of 64-bit integers; ``flip`` is 0 for signed ones, the sign bit for unsigned ones.

    The sum is taken over offset-binary values ``u`` in two words: the wrapping sum of ``u`` and the sum of
    its upper halves. Together they lose nothing below 2**32 rows, and both vectorise.
    """
    for b in range(len(cuts) - 1):
        block = values[cuts[b] : cuts[b + 1]]
        rows = len(block)
        low = np.int64(_LARGEST)
        high = np.int64(_SMALLEST)
        wrapped = np.uint64(0)
        upper = np.uint64(0)
        valid: Any = rows
        if len(mask) == 0:
            for i in range(rows):
                value = block[i] ^ flip
                low = min(low, value)
                high = max(high, value)
                shifted = np.uint64(value) ^ np.uint64(_SIGN)
                wrapped += shifted
                upper += shifted >> _HALF
        else:
            present = mask[cuts[b] : cuts[b + 1]]
            valid = 0
            for i in range(rows):
                value = block[i] ^ flip
                some = present[i] != 0
                valid += np.int64(some)
                low = min(low, value if some else np.int64(_LARGEST))
                high = max(high, value if some else np.int64(_SMALLEST))
                shifted = np.uint64(value) ^ np.uint64(_SIGN) if some else np.uint64(0)
                wrapped += shifted
                upper += shifted >> _HALF
        out[b] = 0
        out[b, 0] = _head(0, rows - valid)
        if valid == 0:
            continue
        flags = HAS_BOUNDS
        out[b, 2] = np.uint64(low ^ flip)
        out[b, 3] = np.uint64(high ^ flip)
        if keep_sum:
            flags |= HAS_SUM | INTEGER_SUM
            total = wrapped  # = the low word of the sum of u
            lower = wrapped - (upper << _HALF)
            over = (upper >> _HALF) + np.uint64(((upper << _HALF) + lower) < lower)
            if flip == 0:  # u stands 2**63 above the value
                bias = np.uint64(valid & 1) << np.uint64(63)
                over -= np.uint64(valid >> 1) + np.uint64(total < bias)
                total -= bias
            out[b, 4] = total
            out[b, 5] = over
        out[b, 0] = _head(flags, rows - valid)


@inline
def _ordered(bits: Any) -> Any:
    """A signed integer that sorts like the float of these bits, with -0.0 below +0.0; its own inverse."""
    return bits ^ ((bits >> 63) & np.int64(_LARGEST))


@kernel(void(array_in(f64), array_in(i64), array_in(u8), array_in(i64), array_out(u64, 2)))
def summarise_floats(values: Any, bits: Any, mask: Any, cuts: Any, out: Any) -> None:
    """Bounds, sum and NaN count of doubles; ``bits`` is the same memory.

    Order of summation: row ``i`` of a block is added to lane ``i % LANES``, where nulls and NaN count as
    +0.0; then lane ``k`` takes up lane ``k + LANES / 2`` for all ``k`` below, and so on by halves.
    """
    lanes = np.empty(LANES, np.float64)
    none_low = np.int64(_LARGEST)
    none_high = np.int64(_SMALLEST)
    for b in range(len(cuts) - 1):
        block = values[cuts[b] : cuts[b + 1]]
        keys = bits[cuts[b] : cuts[b + 1]]
        rows = len(block)
        low = none_low
        high = none_high
        numbers: Any = 0
        nulls: Any = 0
        lanes[:] = 0.0
        whole = rows - rows % LANES
        if len(mask) == 0:
            for i in range(rows):
                number = block[i] == block[i]
                key = _ordered(keys[i])
                low = min(low, key if number else none_low)
                high = max(high, key if number else none_high)
                numbers += np.int64(number)
            for group in range(rows // LANES):
                part = block[group * LANES : (group + 1) * LANES]
                for k in range(LANES):
                    lanes[k] += part[k] if part[k] == part[k] else 0.0
            for i in range(whole, rows):
                lanes[i - whole] += block[i] if block[i] == block[i] else 0.0
        else:
            present = mask[cuts[b] : cuts[b + 1]]
            for i in range(rows):
                number = (block[i] == block[i]) & (present[i] != 0)
                key = _ordered(keys[i])
                low = min(low, key if number else none_low)
                high = max(high, key if number else none_high)
                numbers += np.int64(number)
                nulls += np.int64(present[i] == 0)
            for group in range(rows // LANES):
                part = block[group * LANES : (group + 1) * LANES]
                some = present[group * LANES : (group + 1) * LANES]
                for k in range(LANES):
                    lanes[k] += part[k] if (part[k] == part[k]) & (some[k] != 0) else 0.0
            for i in range(whole, rows):
                lanes[i - whole] += block[i] if (block[i] == block[i]) & (present[i] != 0) else 0.0
        width = LANES // 2
        while width > 0:
            for k in range(width):
                lanes[k] += lanes[k + width]
            width //= 2
        out[b] = 0
        out[b, 1] = np.uint64(rows - nulls - numbers)
        if numbers == 0:
            out[b, 0] = _head(0, nulls)
            continue
        out[b, 0] = _head(HAS_BOUNDS | HAS_SUM, nulls)
        out[b, 2] = np.uint64(_ordered(low))
        out[b, 3] = np.uint64(_ordered(high))
        out[b, 4] = np.float64(lanes[0]).view(np.uint64)


@kernel(void(array_in(i64), array_in(u8), array_in(i64), array_out(u64, 2)))
def summarise_decimals(words: Any, mask: Any, cuts: Any, out: Any) -> None:
    """Bounds (if all values fit 64 bits) and sum (if it fits 128) of 128-bit integers, two words each."""
    for b in range(len(cuts) - 1):
        rows = cuts[b + 1] - cuts[b]
        low = np.int64(_LARGEST)
        high = np.int64(_SMALLEST)
        narrow = True
        valid = 0
        # Sums of the four 32-bit digits; only the topmost is signed.
        digit0 = np.uint64(0)
        digit1 = np.uint64(0)
        digit2 = np.uint64(0)
        digit3 = np.int64(0)
        for row in range(np.uint64(cuts[b]), np.uint64(cuts[b + 1])):
            if len(mask) != 0 and mask[row] == 0:
                continue
            valid += 1
            lower = words[np.uint64(2) * row]
            upper = words[np.uint64(2) * row + np.uint64(1)]
            narrow &= upper == (lower >> 63)
            low = min(low, lower)
            high = max(high, lower)
            digit0 += np.uint64(lower) & _LOW_HALF
            digit1 += np.uint64(lower) >> _HALF
            digit2 += np.uint64(upper) & _LOW_HALF
            digit3 += upper >> 32
        out[b] = 0
        flags = 0
        if valid != 0:
            digit1 += digit0 >> _HALF
            digit2 += digit1 >> _HALF
            digit3 += np.int64(digit2 >> _HALF)
            if -(1 << 31) <= digit3 < (1 << 31):
                flags |= HAS_SUM | INTEGER_SUM
                out[b, 4] = (digit1 << _HALF) | (digit0 & _LOW_HALF)
                out[b, 5] = (np.uint64(digit3) << _HALF) | (digit2 & _LOW_HALF)
            if narrow:
                flags |= HAS_BOUNDS
                out[b, 2] = np.uint64(low)
                out[b, 3] = np.uint64(high)
        out[b, 0] = _head(flags, rows - valid)


@inline
def _prefix_near_end(data: Any, start: Any, size: Any) -> Any:
    """The first eight of ``size`` bytes as such a word, padded with zeros, where ``data`` ends too soon."""
    word = np.uint64(0)
    for k in range(min(size, 8)):
        word |= np.uint64(data[start + k]) << np.uint64(56 - 8 * k)
    return word


@kernel(void(array_in(u8), array_in(i64), array_in(u8), array_in(i64), array_out(u64, 2)))
def summarise_text(data: Any, offsets: Any, mask: Any, cuts: Any, out: Any) -> None:
    """Bounds of byte strings by their first eight bytes, as big-endian words.

    A value is *cut* if it cannot be told from its padded prefix: it is longer, or ends in a zero byte. Among
    values of one prefix the one that is not cut is the smallest, so the minimum is known whole if any of them is
    not cut, the maximum only if none is.
    """
    # In short stretches, prefixes first and decisions after them: one loop would be a chain of decisions.
    words = np.empty(_STRETCH, np.uint64)
    cut = np.empty(_STRETCH, np.uint64)
    for b in range(len(cuts) - 1):
        low = np.uint64(_ONES)
        high = np.uint64(0)
        low_cut: Any = True
        high_cut: Any = False
        valid = 0
        for first in range(cuts[b], cuts[b + 1], _STRETCH):
            rows = min(_STRETCH, cuts[b + 1] - first)
            places = offsets[first : first + rows + 1]
            count: Any = 0
            # Unsigned: indexes that might be negative cost a decision each.
            for i in range(np.uint64(rows)):
                start = places[i]
                size = places[i + np.uint64(1)] - start
                kept = min(size, 9)
                word: Any = np.uint64(0)
                if start + 8 <= len(data):
                    word = load_big_endian(data, start) & _KEPT_BYTES[kept]
                else:
                    word = _prefix_near_end(data, start, size)
                words[count] = word
                cut[count] = np.uint64((size != 0) & ((word & _LAST_BYTE[kept]) == 0))
                count += 1 if len(mask) == 0 else np.int64(mask[np.uint64(first) + i])
            valid += count
            part_low = np.uint64(_ONES)
            part_high = np.uint64(0)
            for i in range(count):
                part_low = min(part_low, words[i])
                part_high = max(part_high, words[i])
            whole_at_low = np.uint64(0)
            cut_at_high = np.uint64(0)
            for i in range(count):
                whole_at_low += (np.uint64(1) - cut[i]) if words[i] == part_low else np.uint64(0)
                cut_at_high += cut[i] if words[i] == part_high else np.uint64(0)
            if count != 0 and part_low <= low:
                low_cut = (whole_at_low == 0) & (low_cut | (part_low < low))
                low = part_low
            if count != 0 and part_high >= high:
                high_cut = (cut_at_high != 0) | (high_cut & (part_high == high))
                high = part_high
        out[b] = 0
        flags = 0
        if valid != 0:
            flags = HAS_BOUNDS
            if low_cut:
                flags |= MIN_TRUNCATED
            if high_cut:
                flags |= MAX_TRUNCATED
            out[b, 2] = low
            out[b, 3] = high
        out[b, 0] = _head(flags, cuts[b + 1] - cuts[b] - valid)
