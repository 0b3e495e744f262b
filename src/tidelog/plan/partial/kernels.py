"""Kernels that number groups, and that aggregate the rows of each.

``groups`` has the number of each row's group. ``counted`` tells which rows count; it is empty if all do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.jit import array_in, array_out, boolean, f64, i32, i64, inlined, kernel, u64, void

_MULTIPLIER = 0x9E3779B97F4A7C15
_NAN = 0x7FF8000000000000

_GROUPS, _COUNTED = array_in(i32), array_in(boolean)


@kernel(void(array_in(i32), array_in(i32), i64, array_out(i32)))
def combine(first: Any, second: Any, size: Any, out: Any) -> None:
    """Number pairs of numbers, the second of which are below ``size``."""
    for i in range(len(first)):
        out[u64(i)] = first[u64(i)] * i32(size) + second[u64(i)]


@kernel(void(array_in(i32), array_in(i32), i64, array_out(i64)))
def combine_wide(first: Any, second: Any, size: Any, out: Any) -> None:
    """The same where the numbers of pairs are large."""
    for i in range(len(first)):
        out[u64(i)] = i64(first[u64(i)]) * size + i64(second[u64(i)])


@kernel(void(array_in(f64), array_out(i64)))
def float_words(values: Any, words: Any) -> None:
    """A word for each float, the same for those that are equal: both zeros are, and all NaN."""
    for i in range(len(values)):
        value = values[u64(i)] + 0.0  # minus zero is zero
        word = np.float64(value).view(np.int64)
        words[u64(i)] = word if value == value else i64(_NAN)


@inlined
def _slot(word: Any, mask: Any) -> Any:
    """Where a word is looked for first."""
    mixed = u64(word) * np.uint64(_MULTIPLIER)
    return (mixed ^ (mixed >> np.uint64(32))) & np.uint64(mask)


@kernel(i64(array_in(i64), array_out(i32), array_out(i64), array_out(i32)))
def number(words: Any, table: Any, known: Any, codes: Any) -> Any:
    """Number words in the order in which they first come; returns how many there are.

    ``table`` has a power of two of slots, all -1, ``known`` has half as many places. If that is too few the result is
    -1 less the row at which it was noticed.
    """
    mask = len(table) - 1
    count = i64(0)
    for i in range(len(words)):
        word = words[u64(i)]
        slot = _slot(word, mask)
        while True:
            found = table[slot]
            if found < 0:
                if count == len(known):
                    return -1 - i
                table[slot] = i32(count)
                known[u64(count)] = word
                codes[u64(i)] = i32(count)
                count += 1
                break
            if known[u64(found)] == word:
                codes[u64(i)] = found
                break
            slot = (slot + np.uint64(1)) & np.uint64(mask)
    return count


@kernel(void(_GROUPS, array_out(i64)))
def first_rows(groups: Any, firsts: Any) -> None:
    """The first row of each group; ``firsts`` is -1 before, and stays so for groups without a row."""
    for i in range(len(groups)):
        group = u64(groups[u64(i)])
        if firsts[group] < 0:
            firsts[group] = i


@kernel(void(_GROUPS, _COUNTED, i64, array_out(i64)))
def end_rows(groups: Any, counted: Any, last: Any, rows: Any) -> None:
    """The first row of each group that counts, or the last one if ``last`` is 1; ``rows`` is -1 before."""
    for i in range(len(groups)):
        if len(counted) == 0 or counted[u64(i)]:
            group = u64(groups[u64(i)])
            if last == 1 or rows[group] < 0:
                rows[group] = i


@kernel(void(_GROUPS, _COUNTED, array_out(i64)))
def count_rows(groups: Any, counted: Any, counts: Any) -> None:
    """Add the rows that count to the numbers of their groups."""
    if len(counted) == 0:
        for i in range(len(groups)):
            counts[u64(groups[u64(i)])] += 1
    else:
        for i in range(len(groups)):
            counts[u64(groups[u64(i)])] += i64(counted[u64(i)])


@kernel(void(_GROUPS, _COUNTED, array_in(f64), array_out(f64)))
def sum_floats(groups: Any, counted: Any, values: Any, sums: Any) -> None:
    """Add the values that count to the sums of their groups."""
    if len(counted) == 0:
        for i in range(len(groups)):
            sums[u64(groups[u64(i)])] += values[u64(i)]
    else:
        for i in range(len(groups)):
            if counted[u64(i)]:
                sums[u64(groups[u64(i)])] += values[u64(i)]


@kernel(void(_GROUPS, _COUNTED, array_in(i64), i64, array_out(i64), array_out(i64)))
def sum_integers(groups: Any, counted: Any, values: Any, mask: Any, highs: Any, lows: Any) -> None:
    """The same of integers: the upper and the lower 32 bits of values are added up apart, so that nothing overflows.

    ``mask`` is for the upper bits: -1 if values are signed, and ones for 32 bits if they are not.
    """
    for i in range(len(groups)):
        if len(counted) == 0 or counted[u64(i)]:
            group = u64(groups[u64(i)])
            value = values[u64(i)]
            highs[group] += (value >> 32) & mask
            lows[group] += value & 0xFFFFFFFF


@kernel(void(_GROUPS, _COUNTED, array_in(f64), i64, array_out(f64), array_out(i64)))
def float_extremes(groups: Any, counted: Any, values: Any, largest: Any, best: Any, counts: Any) -> None:
    """The greatest value of each group, or the least if ``largest`` is 0; NaN is greater than every number."""
    for i in range(len(groups)):
        if len(counted) == 0 or counted[u64(i)]:
            group = u64(groups[u64(i)])
            value = values[u64(i)]
            before = best[group]
            if (
                counts[group] == 0
                or (largest == 1 and (value > before or np.isnan(value)))
                or (largest == 0 and (value < before or np.isnan(before)))
            ):
                best[group] = value
            counts[group] += 1


@kernel(void(_GROUPS, _COUNTED, array_in(i64), i64, array_out(i64), array_out(i64)))
def integer_extremes(groups: Any, counted: Any, values: Any, largest: Any, best: Any, counts: Any) -> None:
    """The same of integers."""
    for i in range(len(groups)):
        if len(counted) == 0 or counted[u64(i)]:
            group = u64(groups[u64(i)])
            value = values[u64(i)]
            before = best[group]
            if counts[group] == 0 or (value > before if largest == 1 else value < before):
                best[group] = value
            counts[group] += 1
