"""Kernels of windows: where slices begin, which windows they are part of, and how windows share them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.jit import array_in, array_out, i64, kernel, void


@kernel(i64(array_in(i64), i64, i64, i64, array_out(i64), array_out(i64)))
def cut_slices(times: Any, origin: Any, slide: Any, offset: Any, cuts: Any, starts: Any) -> Any:
    """Cut rows in the order of time where slices begin: at multiples of ``slide`` from ``origin`` on, and, if
    ``offset`` is not zero, so far behind each of these.

    ``cuts`` gets the first row of each slice that has rows, and ``starts`` its time. Returns how many there are.
    """
    rows = len(times)
    count = 0
    row = 0
    while row < rows:
        time = times[row]
        start = origin + (time - origin) // slide * slide
        end = start + slide
        if offset > 0:
            if time >= start + offset:
                start += offset
            else:
                end = start + offset
        cuts[count] = row
        starts[count] = start
        count += 1
        # Slices are a row or thousands: ever longer steps, then half as long ones.
        step = 1
        while row + step < rows and times[row + step] < end:
            row += step
            step *= 2
        while step > 0:
            if row + step < rows and times[row + step] < end:
                row += step
            step //= 2
        row += 1
    return count


@kernel(void(array_in(i64), array_in(i64), array_out(i64)))
def count_below(places: Any, bounds: Any, counts: Any) -> None:
    """How many places, which rise, are below each bound; bounds rise too."""
    place = 0
    for i in range(len(bounds)):
        bound = bounds[i]
        while place < len(places) and places[place] < bound:
            place += 1
        counts[i] = place


@kernel(i64(array_in(i64), array_in(i64), array_out(i64), array_out(i64), array_out(i64)))
def group_ranges(firsts: Any, lasts: Any, begins: Any, points: Any, ends: Any) -> Any:
    """Group ranges, whose bounds rise, so that all of a group have a point in common, which is inside or their end.

    Gives for each group where its first range begins, the point, which is the end of that range, and where its last
    range ends. Returns how many groups there are.
    """
    count = 0
    for i in range(len(firsts)):
        if count == 0 or firsts[i] >= points[count - 1]:
            begins[count] = firsts[i]
            points[count] = lasts[i]
            count += 1
        ends[count - 1] = lasts[i]
    return count


@kernel(i64(array_in(i64), array_in(i64), array_in(i64), array_in(i64), array_in(i64)))
def count_windows(keys: Any, firsts: Any, lasts: Any, low: Any, high: Any) -> Any:
    """How many windows :func:`find_windows` finds."""
    total = 0
    reached = i64(0)
    for j in range(len(keys)):
        if j == 0 or keys[j] != keys[j - 1]:
            reached = low[keys[j]]
        begin = max(firsts[j], reached)
        end = min(lasts[j] + 1, high[keys[j]])
        if begin < end:
            total += end - begin
            reached = end
    return total


@kernel(
    void(
        array_in(i64),
        array_in(i64),
        array_in(i64),
        array_in(i64),
        array_in(i64),
        array_out(i64),
        array_out(i64),
        array_out(i64),
    )
)
def find_windows(keys: Any, firsts: Any, lasts: Any, low: Any, high: Any, numbers: Any, begins: Any, ends: Any) -> None:
    """The windows that slices, in the order of key and time, are part of: of each key those from ``low`` to ``high``.

    Slice ``j`` is part of windows ``firsts[j]`` to ``lasts[j]``. Gives for each window that has slices its number and
    the slices, by key and number.
    """
    total = 0
    reached = i64(0)
    begin = 0
    end = 0
    for j in range(len(keys)):
        if j == 0 or keys[j] != keys[j - 1]:
            reached = low[keys[j]]
            begin = j
            end = j
        stop = min(lasts[j] + 1, high[keys[j]])
        for number in range(max(firsts[j], reached), stop):
            while lasts[begin] < number:
                begin += 1
            end = max(end, begin + 1)
            while end < len(keys) and keys[end] == keys[j] and firsts[end] <= number:
                end += 1
            numbers[total] = number
            begins[total] = begin
            ends[total] = end
            total += 1
        reached = max(reached, stop)


@kernel(void(array_in(i64), array_out(i64), array_out(i64)))
def rank_rows(codes: Any, counts: Any, ranks: Any) -> None:
    """The rank of each row among those of its key; ``counts`` has how many there were, and gets how many there are."""
    for i in range(len(codes)):
        ranks[i] = counts[codes[i]]
        counts[codes[i]] += np.int64(1)
