"""Kernels of situations: runs of rows, ring buffers, and the search for matches.

A ring buffer holds the situations of one definition in one partition, in the order of time: starts and ends both rise.
It is a piece of an arena that all share; ``bases`` and ``sizes`` (powers of two) tell which one, ``firsts`` and
``lasts`` are logical addresses, of which the last bits are the place in the piece.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.jit import array_in, array_out, called, f64, i64, inlined, kernel, u8, u64, void
from tidelog.operators.situations.codes import ENDED, NO_TIME, STARTED, STAYS, WHOLE
from tidelog.operators.situations.relations import (
    AFTER,
    ANY,
    BEFORE,
    BOTH_START,
    CONTAINS,
    DURING,
    EQUALS,
    FINISHED_BY,
    FINISHES,
    FIRST_STARTS,
    MEETS,
    MET_BY,
    OVERLAPPED_BY,
    OVERLAPS,
    SECOND_STARTS,
    STARTED_BY,
    STARTS,
)

# -- runs -------------------------------------------------------------------------------------------------------------


@kernel(void(array_in(i64), array_in(i64), i64, array_out(i64), array_out(i64), array_out(i64)))
def order_by_key(codes: Any, times: Any, first: Any, places: Any, order: Any, own_times: Any) -> None:
    """Put rows of a range of keys, from ``first`` on, one key behind the other: their numbers, and their times.

    ``places`` tells where the rows of each of these keys begin; behind it all is where they end.
    """
    count = len(places)
    for row in range(len(codes)):
        key = codes[row] - first
        if 0 <= key < count:
            place = places[key]
            places[key] = place + 1
            order[place], own_times[place] = row, times[row]


@kernel(i64(array_in(u8), array_in(i64), array_in(i64), array_out(i64, 2)))
def find_runs(mask: Any, order: Any, cuts: Any, runs: Any) -> Any:
    """The runs of rows for which a condition holds, in partitions that ``cuts`` tells; returns how many there are.

    ``order`` tells where rows stand in ``mask``; it is empty if they stand in their order. Each run gets its partition,
    its first row, the row behind its last one, and flags.
    """
    is_sorted = len(order) == 0
    count = 0
    for partition in range(len(cuts) - 1):
        low, high = cuts[partition], cuts[partition + 1]
        is_on, start = 0, low
        for row in range(low, high):
            now = mask[row] if is_sorted else mask[order[row]]
            if now != is_on:
                is_on = now
                if is_on != 0:
                    start = row
                else:
                    runs[0, count], runs[1, count], runs[2, count], runs[3, count] = partition, start, row, 0
                    count += 1
        if is_on != 0:
            runs[0, count], runs[1, count], runs[2, count], runs[3, count] = partition, start, high, STAYS
            count += 1
    return count


@kernel(
    i64(
        array_in(i64, 2),
        array_in(i64),
        array_in(i64),
        array_in(i64),
        u64,
        u64,
        array_out(u8),
        array_out(i64),
        array_out(u8),
        array_out(i64, 2),
        array_out(u8, 2),
    )
)
def settle_runs(
    pieces: Any,
    times: Any,
    keys: Any,
    cuts: Any,
    least: Any,
    most: Any,
    is_on: Any,
    since: Any,
    is_seen: Any,
    runs: Any,
    marks: Any,
) -> Any:
    """The runs that pieces are of, given what goes on of each key from before; returns how many there are.

    ``pieces`` are those of :func:`find_runs`. What goes on from before goes on with the piece that begins with the
    first row of its key, or ends there, as a run without rows. ``is_on``, ``since`` and ``is_seen`` tell of each key
    what goes on, and whether it has counted, before and afterwards. ``runs`` gets partitions, first rows, rows behind
    the last ones, pieces or -1, starts and ends; ``marks`` which have ended and last from ``least`` to ``most`` ticks,
    which go on, which have counted, and which are carried over.
    """
    count, at, total = 0, 0, pieces.shape[1]
    for partition in range(len(keys)):
        key, low = keys[partition], cuts[partition]
        carried_on = is_on[key] != 0
        is_on[key] = 0
        if carried_on and not (at < total and pieces[0, at] == partition and pieces[1, at] == low):
            carried_on = False
            runs[0, count], runs[1, count], runs[2, count], runs[3, count] = partition, low, low, -1
            runs[4, count], runs[5, count] = since[key], times[low]
            length = np.uint64(times[low]) - np.uint64(since[key])
            marks[0, count] = 1 if least <= length <= most else 0
            marks[1, count], marks[2, count], marks[3, count] = 0, is_seen[key], 1
            count += 1
        while at < total and pieces[0, at] == partition:
            start, seen = times[pieces[1, at]], u8(0)
            marks[3, count] = 0
            if carried_on:
                start, seen = since[key], is_seen[key]
                marks[3, count] = 1
                carried_on = False
            runs[0, count], runs[1, count], runs[2, count], runs[3, count] = partition, pieces[1, at], pieces[2, at], at
            runs[4, count], marks[2, count] = start, seen
            if pieces[3, at] & STAYS != 0:
                runs[5, count] = NO_TIME
                marks[0, count], marks[1, count] = 0, 1
                is_on[key], since[key], is_seen[key] = 1, start, seen
            else:
                stop = times[pieces[2, at]]
                runs[5, count] = stop
                length = np.uint64(stop) - np.uint64(start)
                marks[0, count] = 1 if least <= length <= most else 0
                marks[1, count] = 0
            count += 1
            at += 1
    return count


@kernel(void(array_in(i64), array_in(i64), array_in(i64), array_in(i64), i64, array_out(i64)))
def first_long_enough(times: Any, starts: Any, firsts: Any, ends: Any, least: Any, found: Any) -> None:
    """For each run the first row at which it has lasted ``least`` ticks; that behind its last one if there is none."""
    for run in range(len(starts)):
        low, high = firsts[run], ends[run]
        if starts[run] > NO_TIME - least:  # no time is so late
            low = high
        while low < high:
            middle = (low + high) >> 1
            if times[middle] >= starts[run] + least:
                high = middle
            else:
                low = middle + 1
        found[run] = low


# -- ring buffers -----------------------------------------------------------------------------------------------------


@kernel(i64(array_in(i64), array_in(i64), array_in(i64), array_in(i64), array_out(i64), array_in(i64), array_out(i64)))
def purge_and_measure(rings: Any, counts: Any, limits: Any, starts: Any, firsts: Any, lasts: Any, layout: Any) -> Any:
    """Forget what is before a limit in some rings, and tell how much of the arena those need that become too small.

    ``counts`` are what will be added to each. ``layout`` has bases, and behind them sizes.
    """
    total = len(layout) >> 1
    needed = 0
    for place in range(len(rings)):
        ring = rings[place]
        base, size = layout[ring], layout[total + ring]
        while firsts[ring] < lasts[ring] and starts[base + (firsts[ring] & (size - 1))] < limits[place]:
            firsts[ring] += 1
        live = lasts[ring] - firsts[ring] + counts[place]
        if live > size:
            larger = 4
            while larger < 2 * live:
                larger *= 2
            needed += larger
    return needed


@kernel(
    i64(
        array_in(i64),
        array_in(i64),
        array_in(i64),
        array_out(i64),
        array_out(i64),
        array_out(i64),
        i64,
        array_out(i64),
        array_out(i64),
        array_out(i64),
    )
)
def make_room(
    rings: Any,
    counts: Any,
    lasts: Any,
    firsts: Any,
    starts: Any,
    ends: Any,
    top: Any,
    layout: Any,
    moved_from: Any,
    moved_to: Any,
) -> Any:
    """Move rings that become too small to the top of the arena; gives where each situation of them was, and is."""
    total = len(layout) >> 1
    moved = 0
    for place in range(len(rings)):
        ring = rings[place]
        base, size = layout[ring], layout[total + ring]
        live = lasts[ring] - firsts[ring] + counts[place]
        if live <= size:
            continue
        larger = 4
        while larger < 2 * live:
            larger *= 2
        for address in range(firsts[ring], lasts[ring]):
            old, new = base + (address & (size - 1)), top + (address & (larger - 1))
            starts[new], ends[new] = starts[old], ends[old]
            moved_from[moved], moved_to[moved] = old, new
            moved += 1
        layout[ring], layout[total + ring] = top, larger
        top += larger
    return moved


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
def place_situations(
    rings: Any, starts: Any, ends: Any, lasts: Any, layout: Any, arena_starts: Any, arena_ends: Any, slots: Any
) -> None:
    """Put situations behind those of their rings, which have room; they count once ``lasts`` says so.

    Those of one ring come one behind the other, in order. ``slots`` gets where they are.
    """
    total = len(layout) >> 1
    ring, address = -1, 0
    for place in range(len(rings)):
        if rings[place] != ring:
            ring = rings[place]
            address = lasts[ring]
        slot = layout[ring] + (address & (layout[total + ring] - 1))
        arena_starts[slot], arena_ends[slot] = starts[place], ends[place]
        slots[place] = slot
        address += 1


# -- relations --------------------------------------------------------------------------------------------------------


@inlined
def possible_relations(start: Any, end: Any, is_open: Any, other_start: Any, other_end: Any, other_is_open: Any) -> Any:
    """The relations that may still hold between two; those that go on end after everything, the last time as well."""
    if is_open != 0 and other_is_open != 0:
        if start < other_start:
            return FIRST_STARTS
        return BOTH_START if start == other_start else SECOND_STARTS
    if end <= other_start:
        return BEFORE if end < other_start else MEETS
    if other_end <= start:
        return AFTER if other_end < start else MET_BY
    is_before = end < other_end or other_is_open != 0
    is_same = end == other_end and is_open == 0 and other_is_open == 0
    if start < other_start:
        if is_before:
            return OVERLAPS
        return FINISHED_BY if is_same else CONTAINS
    if start == other_start:
        if is_before:
            return STARTS
        return EQUALS if is_same else STARTED_BY
    if is_before:
        return DURING
    return FINISHES if is_same else OVERLAPPED_BY


@inlined
def _first_ending(ends: Any, base: Any, cover: Any, low: Any, high: Any, time: Any) -> Any:
    """The first address whose situation does not end before a time."""
    while low < high:
        middle = (low + high) >> 1
        if ends[base + (middle & cover)] < time:
            low = middle + 1
        else:
            high = middle
    return low


_LATER = FINISHED_BY | OVERLAPS | MEETS | BEFORE
"""The relations to situations that end with one or behind it, and start behind its start."""


@inlined
def _add(pieces: Any, count: Any, low: Any, high: Any) -> Any:
    if count > 0 and pieces[count - 1, 1] == low:
        pieces[count - 1, 1] = high
        return count
    pieces[count, 0], pieces[count, 1] = low, high
    return count + 1


@called
def _allowed(
    starts: Any,
    ends: Any,
    base: Any,
    cover: Any,
    low: Any,
    high: Any,
    start: Any,
    end: Any,
    is_open: Any,
    mask: Any,
    pieces: Any,
) -> Any:
    """The situations of a ring, as ranges of addresses, to which one, which may go on, is in one of some relations.

    Those it is after come first; then, in this order, at most one that it is met by, one that has begun before it and
    goes on, one that starts with it; all that it contains; one that goes on when it ends, one that it meets, and all
    that it is before.
    """
    count, at = 0, low
    if mask & ~_LATER:
        at = _first_ending(ends, base, cover, low, high, start)
    if mask & AFTER and at > low:
        count = _add(pieces, count, low, at)
    if at < high and ends[base + (at & cover)] == start:
        if mask & MET_BY:
            count = _add(pieces, count, at, at + 1)
        at += 1
    if at < high and starts[base + (at & cover)] < start:
        theirs = ends[base + (at & cover)]
        relation = OVERLAPPED_BY if theirs < end or is_open != 0 else (FINISHES if theirs == end else DURING)
        if mask & relation:
            count = _add(pieces, count, at, at + 1)
        at += 1
    if at < high and starts[base + (at & cover)] == start:
        theirs = ends[base + (at & cover)]
        relation = STARTED_BY if theirs < end or is_open != 0 else (EQUALS if theirs == end else STARTS)
        if mask & relation:
            count = _add(pieces, count, at, at + 1)
        at += 1
    if not mask & (_LATER | CONTAINS):
        return count
    behind = high
    if is_open == 0:
        behind = _first_ending(ends, base, cover, at, high, end)
    if mask & CONTAINS and behind > at:
        count = _add(pieces, count, at, behind)
    at = behind
    if at < high and starts[base + (at & cover)] <= start:  # it was not passed by
        at += 1
    if at < high and starts[base + (at & cover)] < end:
        relation = FINISHED_BY if ends[base + (at & cover)] == end else OVERLAPS
        if mask & relation:
            count = _add(pieces, count, at, at + 1)
        at += 1
    if at < high and starts[base + (at & cover)] == end:
        if mask & MEETS:
            count = _add(pieces, count, at, at + 1)
        at += 1
    if mask & BEFORE and at < high:
        count = _add(pieces, count, at, high)
    return count


@inlined
def _intersected(pieces: Any, count: Any, others: Any, other_count: Any, found: Any) -> Any:
    """What two lists of ranges have in common, in ``pieces``; ``found`` is scratch."""
    one, other, size = 0, 0, 0
    while one < count and other < other_count:
        low = max(pieces[one, 0], others[other, 0])
        high = min(pieces[one, 1], others[other, 1])
        if low < high:
            found[size, 0], found[size, 1] = low, high
            size += 1
        if pieces[one, 1] < others[other, 1]:
            one += 1
        else:
            other += 1
    for place in range(size):
        pieces[place, 0], pieces[place, 1] = found[place, 0], found[place, 1]
    return size


# -- matches ----------------------------------------------------------------------------------------------------------

# What is known of the situation that stands for each definition in a partial match, and of the changes of an instant.
_START, _END, _OPEN, _CODE, _CHANGED, _BEGUN, _RUN, _LOW, _HIGH = range(9)
# What is known of each step of the search.
_PIECES, _PIECE, _AT, _UNTIL, _OPEN_LEFT = range(5)


@called
def _begin_step(
    step: Any,
    order: Any,
    relations: Any,
    bases: Any,
    covers: Any,
    arena_starts: Any,
    arena_ends: Any,
    run_starts: Any,
    limit: Any,
    slots: Any,
    steps: Any,
    pieces: Any,
    scratch: Any,
    seen: Any,
) -> None:
    """Find what may stand for the next definition, given those that stand for the ones before it."""
    own = order[step]
    low, high = slots[_LOW, own], slots[_HIGH, own]
    count = 0
    if low < high:
        pieces[step, 0, 0], pieces[step, 0, 1] = low, high
        count = 1
    run = slots[_RUN, own]
    is_open = 1 if run >= 0 and run_starts[run] >= limit else 0
    for before in range(step):
        other = order[before]
        mask = relations[other, own]
        if mask == ANY:
            continue
        start, end, other_is_open = slots[_START, other], slots[_END, other], slots[_OPEN, other]
        if count > 0:
            more = _allowed(
                arena_starts,
                arena_ends,
                bases[own],
                covers[own],
                low,
                high,
                start,
                end,
                other_is_open,
                mask,
                scratch[0],
            )
            fulfilling = 0
            for place in range(more):
                fulfilling += scratch[0, place, 1] - scratch[0, place, 0]
            seen[other, own, 0] += fulfilling / (high - low)
            seen[other, own, 1] += 1.0
            count = _intersected(pieces[step], count, scratch[0], more, scratch[1])
        if is_open != 0:
            possible = possible_relations(start, end, other_is_open, run_starts[run], NO_TIME, 1)
            if possible & ~mask != 0:
                is_open = 0
        if count == 0 and is_open == 0:
            break
    steps[step, _PIECES], steps[step, _PIECE], steps[step, _OPEN_LEFT] = count, 0, is_open
    if count > 0:
        steps[step, _AT], steps[step, _UNTIL] = pieces[step, 0, 0], pieces[step, 0, 1]
    else:
        steps[step, _AT], steps[step, _UNTIL] = 0, 0


@called
def _is_fresh(time: Any, relations: Any, slots: Any) -> Any:
    """Whether a match was not certain before this instant."""
    count = len(relations)
    for own in range(count):
        if slots[_OPEN, own] != 0:
            if slots[_BEGUN, own] != 0:
                return True
        elif slots[_END, own] == time and slots[_CHANGED, own] == WHOLE:
            return True
    for one in range(count):
        end, is_open = slots[_END, one], slots[_OPEN, one]
        if is_open == 0 and end == time:
            end, is_open = NO_TIME, 1
        for other in range(one + 1, count):
            mask = relations[one, other]
            if mask == ANY:
                continue
            other_end, other_is_open = slots[_END, other], slots[_OPEN, other]
            if other_is_open == 0 and other_end == time:
                other_end, other_is_open = NO_TIME, 1
            possible = possible_relations(
                slots[_START, one], end, is_open, slots[_START, other], other_end, other_is_open
            )
            if possible & ~mask != 0:
                return True
    return False


@kernel(
    void(
        i64,
        i64,
        array_in(i64, 2),
        array_in(i64, 2),
        array_in(u8, 2),
        array_in(i64),
        array_in(i64),
        array_in(i64),
        array_in(i64),
        array_in(i64, 2),
        array_in(i64, 2),
        array_in(i64, 2),
        array_in(i64),
        array_in(i64),
        array_in(i64),
        array_out(i64),
        array_out(i64),
        i64,
        i64,
        array_out(i64),
        array_out(i64, 2),
        array_out(f64, 3),
        array_out(f64, 2),
        array_out(i64),
    )
)
def find_matches(
    is_early: Any,
    within: Any,
    relations: Any,
    orders: Any,
    triggers: Any,
    times: Any,
    keys: Any,
    cuts: Any,
    change_cuts: Any,
    changes: Any,
    runs: Any,
    carried: Any,
    arena_starts: Any,
    arena_ends: Any,
    layout: Any,
    firsts: Any,
    lasts: Any,
    first_partition: Any,
    end_partition: Any,
    found_rows: Any,
    found: Any,
    seen: Any,
    held: Any,
    progress: Any,
) -> None:
    """The matches that become known by changes of situations, partition by partition, instant by instant.

    ``changes`` has their rows, runs and kinds, in the order of rows; ``runs`` the definitions, starts and ends of
    these; ``carried`` the runs that go on from before and count, -1 for none. ``found_rows`` gets for each match the
    last row of its instant, and ``found`` the slot of each situation, or -1 less the run of one that goes on. When
    there is no room for the matches of a partition, the search ends before it. ``progress`` gets the partition that
    comes next, and the number of matches. ``seen`` and ``held`` add up for which shares of buffers constraints hold,
    and what buffers hold; both with the number of samples behind that.
    """
    count = len(relations)
    total = len(layout) >> 1
    slots = np.zeros((9, count), np.int64)
    bases, covers = np.zeros(count, np.int64), np.zeros(count, np.int64)
    steps = np.zeros((count, 5), np.int64)
    pieces = np.zeros((count, 4 * count + 4, 2), np.int64)
    scratch = np.zeros((2, 4 * count + 4, 2), np.int64)
    rows, change_runs, kinds = changes[0], changes[1], changes[2]
    definitions, run_starts, run_ends = runs[0], runs[1], runs[2]
    room = len(found_rows)
    earliest = within - NO_TIME - 1
    matches = 0
    partition = first_partition
    while partition < end_partition:
        before = matches
        ring = keys[partition] * count
        for own in range(count):
            bases[own], covers[own] = layout[ring + own], layout[total + ring + own] - 1
            slots[_LOW, own], slots[_HIGH, own] = firsts[ring + own], lasts[ring + own]
            slots[_RUN, own] = carried[partition, own]
        at, stop = change_cuts[partition], change_cuts[partition + 1]
        while at < stop:
            time = times[rows[at]]
            until = at + 1
            while until < stop and times[rows[until]] == time:
                until += 1
            # Compiled code must not overflow: it is taken not to.
            limit = time - within if time >= earliest else -NO_TIME - 1
            for own in range(count):
                slots[_CHANGED, own], slots[_BEGUN, own] = -1, 0
                while (
                    slots[_LOW, own] < slots[_HIGH, own]
                    and arena_starts[bases[own] + (slots[_LOW, own] & covers[own])] < limit
                ):
                    slots[_LOW, own] += 1
            for place in range(at, until):
                own = definitions[change_runs[place]]
                if kinds[place] == STARTED:
                    slots[_BEGUN, own] = 1
                else:
                    slots[_CHANGED, own] = kinds[place]
                    if kinds[place] == ENDED:
                        slots[_RUN, own] = -1
            last_row = -1
            for turn in range(2):
                for place in range(at, until):
                    run, kind = change_runs[place], kinds[place]
                    own = definitions[run]
                    is_trigger = (kind != STARTED and triggers[own, 1] != 0) or (
                        kind != ENDED and triggers[own, 0] != 0
                    )
                    if is_trigger != (turn == 1):
                        continue
                    code = -1 - run
                    if kind == STARTED:
                        if run_starts[run] >= limit:
                            slots[_RUN, own] = run
                    else:
                        code = bases[own] + (slots[_HIGH, own] & covers[own])
                        slots[_HIGH, own] += 1
                        if run_starts[run] < limit:
                            slots[_LOW, own] = slots[_HIGH, own]
                    if run_starts[run] < limit or not is_trigger:
                        continue
                    # Search from this situation on.
                    order = orders[own]
                    slots[_START, own], slots[_CODE, own] = run_starts[run], code
                    slots[_END, own] = NO_TIME if kind == STARTED else run_ends[run]
                    slots[_OPEN, own] = 1 if kind == STARTED else 0
                    for other in range(count):
                        if other != own:
                            held[other, 0] += slots[_HIGH, other] - slots[_LOW, other]
                            held[other, 1] += 1.0
                    step = 1
                    _begin_step(
                        step,
                        order,
                        relations,
                        bases,
                        covers,
                        arena_starts,
                        arena_ends,
                        run_starts,
                        limit,
                        slots,
                        steps,
                        pieces,
                        scratch,
                        seen,
                    )
                    while step > 0:
                        other = order[step]
                        if steps[step, _AT] < steps[step, _UNTIL]:
                            slot = bases[other] + (steps[step, _AT] & covers[other])
                            steps[step, _AT] += 1
                            slots[_START, other], slots[_END, other] = arena_starts[slot], arena_ends[slot]
                            slots[_OPEN, other], slots[_CODE, other] = 0, slot
                        elif steps[step, _PIECE] + 1 < steps[step, _PIECES]:
                            steps[step, _PIECE] += 1
                            piece = steps[step, _PIECE]
                            steps[step, _AT], steps[step, _UNTIL] = pieces[step, piece, 0], pieces[step, piece, 1]
                            continue
                        elif steps[step, _OPEN_LEFT] != 0:
                            steps[step, _OPEN_LEFT] = 0
                            going = slots[_RUN, other]
                            slots[_START, other], slots[_END, other] = run_starts[going], NO_TIME
                            slots[_OPEN, other], slots[_CODE, other] = 1, -1 - going
                        else:
                            step -= 1
                            continue
                        if step < count - 1:
                            step += 1
                            _begin_step(
                                step,
                                order,
                                relations,
                                bases,
                                covers,
                                arena_starts,
                                arena_ends,
                                run_starts,
                                limit,
                                slots,
                                steps,
                                pieces,
                                scratch,
                                seen,
                            )
                            continue
                        if is_early != 0 and kind == ENDED and not _is_fresh(time, relations, slots):
                            continue
                        if matches == room:
                            progress[0], progress[1] = partition, before
                            return
                        if last_row < 0:
                            last_row = rows[until - 1]
                            while last_row + 1 < cuts[partition + 1] and times[last_row + 1] == time:
                                last_row += 1
                        found_rows[matches] = last_row
                        for each in range(count):
                            found[matches, each] = slots[_CODE, each]
                        matches += 1
            at = until
        for own in range(count):
            firsts[ring + own], lasts[ring + own] = slots[_LOW, own], slots[_HIGH, own]
        partition += 1
    progress[0], progress[1] = partition, matches


# -- orders -----------------------------------------------------------------------------------------------------------


@kernel(void(array_in(u8, 2), array_in(f64), array_in(f64, 2), i64, array_out(i64, 2), array_out(f64)))
def best_orders(related: Any, sizes: Any, shares: Any, searches: Any, orders: Any, costs: Any) -> None:
    """From each situation on the order that costs the least, by way of the sets of situations that are joined.

    ``related`` tells between which there are constraints, ``searches`` what each of these costs in a buffer.
    """
    count = len(sizes)
    total = 1 << count
    best, results = np.empty(total, np.float64), np.empty(total, np.float64)
    last = np.empty(total, np.int64)
    for first in range(count):
        best[:] = np.inf
        best[1 << first], results[1 << first] = 0.0, 1.0
        for joined in range(total):
            if best[joined] == np.inf:
                continue
            for following in range(count):
                if joined >> following & 1:
                    continue
                partners, share = 0, 1.0
                for one in range(count):
                    if joined >> one & 1 and related[one, following]:
                        partners += 1
                        share *= shares[one, following]
                if partners == 0:
                    continue
                after = results[joined] * sizes[following] * share
                cost = (
                    best[joined] + results[joined] * searches * partners * np.log2(max(sizes[following], 2.0)) + after
                )
                both = joined | 1 << following
                if cost < best[both]:
                    best[both], results[both], last[both] = cost, after, following
        costs[first] = best[total - 1]
        joined = total - 1
        for place in range(count - 1, 0, -1):
            orders[first, place] = last[joined]
            joined ^= 1 << last[joined]
        orders[first, 0] = first
