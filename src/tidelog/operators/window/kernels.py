"""Kernels of windows: where slices begin, which windows they are part of, and how windows share them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.jit import array_in, array_out, boolean, i64, kernel, void


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


@kernel(
    i64(
        array_in(i64),
        array_in(i64),
        array_out(i64),
        array_out(i64),
        array_out(i64),
        array_out(i64),
        array_in(i64),
        i64,
        array_out(i64),
        array_out(i64),
    )
)
def link_slices(
    keys: Any,
    places: Any,
    known: Any,
    following: Any,
    heads: Any,
    tails: Any,
    free: Any,
    left: Any,
    slots: Any,
    is_old: Any,
) -> Any:
    """Put slices, those of each key in the order of their places, behind the others of their keys.

    A slice at the place of the last one of its key gets the slot of that, and ``is_old``; all others get free slots, of
    which there are ``left``. Returns how many are left then. ``known`` has the places of slots.
    """
    for i in range(len(keys)):
        key = keys[i]
        tail = tails[key]
        if tail >= 0 and known[tail] == places[i]:
            slots[i] = tail
            is_old[i] = 1
            continue
        left -= 1
        slot = free[left]
        slots[i] = slot
        is_old[i] = 0
        known[slot] = places[i]
        following[slot] = -1
        if tail >= 0:
            following[tail] = slot
        else:
            heads[key] = slot
        tails[key] = slot
    return left


@kernel(
    i64(
        array_in(i64),
        array_in(i64),
        array_in(i64),
        array_in(i64),
        array_out(i64),
        array_out(i64),
        array_out(i64),
        array_out(i64),
        array_out(i64),
        array_out(i64),
        i64,
    )
)
def drop_slices(
    keys: Any,
    low: Any,
    lasts: Any,
    following: Any,
    heads: Any,
    tails: Any,
    fronts: Any,
    backs: Any,
    limits: Any,
    free: Any,
    left: Any,
) -> Any:
    """Free the slots of slices whose last window is before the ``low`` of their key, and forget points before it.

    Returns how many slots are free then.
    """
    for i in range(len(keys)):
        key = keys[i]
        head = heads[key]
        while head >= 0 and lasts[head] < low[i]:
            free[left] = head
            left += 1
            if head == fronts[key]:
                fronts[key] = -1
            head = following[head]
        heads[key] = head
        if head < 0:
            tails[key] = -1
        if head < 0 or limits[key] < low[i]:
            limits[key] = np.iinfo(np.int64).min
            fronts[key] = -1
            backs[key] = -1
    return left


@kernel(
    void(
        boolean,
        array_in(i64),
        array_in(i64),
        array_in(i64),
        array_in(i64),
        array_in(i64),
        array_in(i64),
        array_in(i64),
        array_in(i64),
        array_in(i64),
        array_out(i64),
        array_out(i64),
        array_out(i64),
        array_out(i64, 2),
        array_out(i64, 2),
        array_out(i64),
    )
)
def find_around(
    fills: Any,
    keys: Any,
    low: Any,
    high: Any,
    firsts: Any,
    lasts: Any,
    following: Any,
    heads: Any,
    fronts: Any,
    limits: Any,
    backs: Any,
    reached: Any,
    counts: Any,
    windows: Any,
    stretches: Any,
    fresh: Any,
) -> None:
    """The windows of each key, from ``low`` to ``high``, around the point of the key.

    ``counts`` gets how many windows there are, how many keys have slices behind their points that were not merged yet,
    and how many such slices. Only with ``fills`` anything else is written. ``windows``: for each the place of its key
    among ``keys``, its number, its first and its last slice, its first slice in front of the point or -1, and the last
    one behind it: its place in ``fresh``, -2 if that was merged before, or -1. ``stretches``: the place of the key,
    where its slices in ``fresh`` end, and whether others were merged before.
    """
    total = 0
    count = 0
    merged = 0
    for i in range(len(keys)):
        key = keys[i]
        stop = min(high[i], limits[key] + 1)
        number = low[i]
        if number >= stop:
            continue
        point = fronts[key]
        front = heads[key] if point >= 0 else -1
        first_back = backs[key]
        last_back = reached[key]
        back = -2 if first_back >= 0 else -1
        if first_back >= 0:
            ahead = following[last_back]
        elif point >= 0:
            ahead = following[point]
        else:
            ahead = heads[key]
        while number < stop:
            while front >= 0 and lasts[front] < number:
                front = -1 if front == point else following[front]
            while ahead >= 0 and firsts[ahead] <= number:
                if first_back < 0:
                    first_back = ahead
                if fills:
                    fresh[merged] = ahead
                last_back = ahead
                back = merged
                merged += 1
                ahead = following[ahead]
            if front < 0 and back == -1:
                if ahead < 0:
                    break
                number = firsts[ahead]
                continue
            if fills:
                windows[0, total] = i
                windows[1, total] = number
                windows[2, total] = front if front >= 0 else first_back
                windows[3, total] = last_back if back != -1 else point
                windows[4, total] = front
                windows[5, total] = back
            total += 1
            number += 1
        if back >= 0:
            if fills:
                stretches[0, count] = i
                stretches[1, count] = merged
                stretches[2, count] = backs[key] >= 0
                backs[key] = first_back
                reached[key] = last_back
            count += 1
    counts[0] = total
    counts[1] = count
    counts[2] = merged


@kernel(
    i64(
        boolean,
        array_in(i64),
        array_in(i64),
        array_in(i64),
        array_in(i64),
        array_in(i64),
        array_in(i64),
        array_in(i64),
        array_out(i64),
        array_out(i64),
    )
)
def list_slices(
    fills: Any,
    keys: Any,
    low: Any,
    high: Any,
    firsts: Any,
    lasts: Any,
    following: Any,
    heads: Any,
    owners: Any,
    slots: Any,
) -> Any:
    """The slices of each key that are in windows from ``low`` to ``high``, and the places of their keys among ``keys``.

    Returns how many there are; nothing is written unless it ``fills``.
    """
    total = 0
    for i in range(len(keys)):
        slot = heads[keys[i]]
        while slot >= 0 and firsts[slot] < high[i]:
            if lasts[slot] >= low[i]:
                if fills:
                    owners[total] = i
                    slots[total] = slot
                total += 1
            slot = following[slot]
    return total
