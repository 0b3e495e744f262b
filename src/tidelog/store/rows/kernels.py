"""Kernels that sort what is nearly sorted: values that rise, and some among them that come late."""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.jit import array_in, array_out, f64, i64, inline, kernel, u32, u64

STRETCH = 32
"""Values that are looked at together, for what holds for most of them."""

HIGHEST = np.int64(2**63 - 1)
FARTHEST = np.uint64(2**63 - 1)
"""The longest delay that is told."""

DIGIT_BITS = 11
"""Bits that one pass of a sort goes by: as many counters as fit the fastest cache."""


@kernel(i64(array_in(i64), i64, i64, array_out(u64), array_out(u64), array_out(u32, 2)))
def sort_places(values: Any, low: Any, place_bits: Any, keys: Any, spare: Any, counts: Any) -> Any:
    """Sort words of a value, less ``low``, and its place in the last ``place_bits``: so equal values stay as they came.

    Least digits first, as many digits as there are rows of ``counts``, which have a column for each value of one.
    Returns 1 if the sorted words are in ``spare``, 0 if they are in ``keys``.
    """
    mask = u64((1 << DIGIT_BITS) - 1)
    places = u64(place_bits)
    counts[:, :] = u32(0)
    digits = len(counts)
    for i in range(len(values)):
        value = u64(values[u64(i)] - low)
        keys[u64(i)] = (value << places) | u64(i)
        for digit in range(digits):
            counts[digit, (value >> u64(DIGIT_BITS * digit)) & mask] += u32(1)
    source, target = keys, spare
    swaps = 0
    for digit in range(digits):
        before = u32(0)
        most = u32(0)
        for value in range(1 << DIGIT_BITS):
            count = counts[digit, value]
            most = max(most, count)
            counts[digit, value] = before
            before += count
        if most == len(values):  # all have the same digit
            continue
        shift = places + u64(DIGIT_BITS * digit)
        for i in range(len(values)):
            key = source[u64(i)]
            value = (key >> shift) & mask
            target[u64(counts[digit, value])] = key
            counts[digit, value] += u32(1)
        source, target = target, source
        swaps ^= 1
    return swaps


@kernel(i64(array_in(u64), i64, i64, array_out(i64), array_out(i64)))
def take_apart(keys: Any, low: Any, place_bits: Any, places: Any, values: Any) -> Any:
    """Take sorted words as :func:`sort_places` makes them apart; returns whether values are equal: 1 or 0."""
    mask = (u64(1) << u64(place_bits)) - u64(1)
    ties = u64(0)
    last = ~(keys[0] >> u64(place_bits))
    for i in range(len(keys)):
        value = keys[u64(i)] >> u64(place_bits)
        places[u64(i)] = i64(keys[u64(i)] & mask)
        values[u64(i)] = i64(value) + low
        ties |= u64(value == last)
        last = value
    return i64(ties)


@inline
def _rise(values: Any, start: Any, stop: Any, top: Any) -> Any:
    """Whether none of some values is less than the one before it; ``top`` stands before the first."""
    falls = u64(values[u64(start)] < top)
    for i in range(start + 1, stop):
        falls |= u64(values[u64(i)] < values[u64(i - 1)])
    return falls == u64(0)


@kernel(i64(array_in(i64), array_out(i64), array_out(i64)))
def part_late(values: Any, rising: Any, late: Any) -> Any:
    """Put the places of values that are not below one before them into ``rising``, others into ``late``.

    Both have room for all; returns how many rise.
    """
    count = u64(0)  # signed ones would be checked for being negative
    top = values[0]
    for start in range(0, len(values), STRETCH):
        stop = min(start + STRETCH, len(values))
        if _rise(values, start, stop, top):
            for i in range(start, stop):
                rising[count + u64(i - start)] = i
            count += u64(stop - start)
            top = values[u64(stop - 1)]
            continue
        for i in range(start, stop):
            value = values[u64(i)]
            rising[count] = i
            late[u64(i) - count] = i
            count += u64(value >= top)
            top = max(top, value)
    return i64(count)


@kernel(i64(array_in(i64), array_in(i64), array_in(i64), array_out(i64), array_out(i64)))
def weave(values: Any, rising: Any, late: Any, order: Any, woven: Any) -> Any:
    """Put the places of two sorted runs of values into ``order``, sorted, and the values themselves into ``woven``.

    There is one in each. Of equal ones those of ``rising`` come first. Returns whether any are equal: 1 or 0.
    """
    i = u64(0)
    k = u64(0)
    count = u64(len(rising))
    ties = u64(0)
    last = ~min(values[u64(late[0])], values[u64(rising[0])])  # not the first value: no tie
    for j in range(len(late) + 1):
        place = late[u64(j)] if j < len(late) else i64(0)
        value = values[u64(place)] if j < len(late) else HIGHEST  # behind the last one comes the rest that rises
        while i < count:
            other = rising[i]
            risen = values[u64(other)]
            if risen > value:
                break
            order[k] = other
            woven[k] = risen
            ties |= u64(risen == last)
            last = risen
            i += u64(1)
            k += u64(1)
        if j < len(late):
            order[k] = place
            woven[k] = value
            ties |= u64(value == last)
            last = value
            k += u64(1)
    return i64(ties)


@kernel(i64(array_in(i64), i64, i64, array_out(i64), array_out(i64), array_out(i64), array_out(i64), array_out(i64)))
def part_below(
    values: Any, bound: Any, newest: Any, others: Any, kept: Any, below: Any, delays: Any, counts: Any
) -> Any:
    """Put the places of values below a bound into ``below``, those of others into ``others``, these into ``kept``.

    ``newest`` is not below the bound. ``delays`` get the same as from :func:`find_delays`. All have room for all;
    ``counts`` gets how many others and how many delays there are. Returns whether one of the others is less than one
    before it: 1 or 0.
    """
    count = u64(0)
    late = u64(0)
    falls = u64(0)
    top = newest
    last = bound
    for start in range(0, len(values), STRETCH):
        stop = min(start + STRETCH, len(values))
        if _rise(values, start, stop, top):  # most often: nothing is late
            for i in range(start, stop):
                others[count + u64(i - start)] = i
                kept[count + u64(i - start)] = values[u64(i)]
            count += u64(stop - start)
            top = last = values[u64(stop - 1)]
            continue
        for i in range(start, stop):
            value = values[u64(i)]
            others[count] = i
            kept[count] = value
            below[u64(i) - count] = i
            delays[late] = i64(min(u64(top) - u64(value), FARTHEST))
            is_other = u64(value >= bound)
            falls |= is_other & u64(value < last)
            count += is_other
            late += u64(value < top)
            last = max(last, value)
            top = max(top, value)
    counts[0] = i64(count)
    counts[1] = i64(late)
    return i64(falls)


@kernel(i64(array_in(i64), i64, array_out(i64)))
def find_delays(values: Any, newest: Any, delays: Any) -> Any:
    """Put by how much values are below the greatest one before them, if they are, into ``delays``; returns how many.

    ``newest`` stands before the first. There is room for all. Differences of 64 bits count as :data:`FARTHEST`.
    """
    count = u64(0)
    top = newest
    for start in range(0, len(values), STRETCH):
        stop = min(start + STRETCH, len(values))
        if _rise(values, start, stop, top):
            top = values[u64(stop - 1)]
            continue
        for i in range(start, stop):
            value = values[u64(i)]
            delays[count] = i64(min(u64(top) - u64(value), FARTHEST))
            count += u64(value < top)
            top = max(top, value)
    return i64(count)


@kernel(f64(array_in(i64), i64, i64, array_out(f64), array_out(i64)))
def count_classes(values: Any, shift: Any, first: Any, counts: Any, largest: Any) -> Any:
    """Count values, which are taken for doubles of 1 at least, by their first bits: all but ``shift``, less ``first``.

    They are the exponent, and so many bits of the fraction. Returns the sum of all values, and puts the largest one
    into ``largest`` if that is greater than what is there.
    """
    total = 0.0
    most = largest[0]
    for i in range(len(values)):
        value = values[u64(i)]
        bits = np.float64(max(value, i64(1))).view(np.int64)
        counts[u64((bits >> shift) - first)] += 1.0
        total += np.float64(value)
        most = max(most, value)
    largest[0] = most
    return total


@kernel(i64(array_in(i64), u64, array_out(i64)))
def find_gaps(values: Any, width: Any, places: Any) -> Any:
    """Put the places of values that exceed the one before them by ``width`` or more into ``places``; returns how many.

    Values never fall. There is room for as many as there can be.
    """
    count = 0
    for start in range(1, len(values), STRETCH):
        stop = min(start + STRETCH, len(values))
        wide = u64(0)
        for i in range(start, stop):
            wide |= u64(u64(values[u64(i)]) - u64(values[u64(i - 1)]) >= width)
        if wide:
            for i in range(start, stop):
                if u64(values[u64(i)]) - u64(values[u64(i - 1)]) >= width:
                    places[count] = i
                    count += 1
    return count
