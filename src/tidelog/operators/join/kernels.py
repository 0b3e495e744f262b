"""Kernels of joins."""

from __future__ import annotations

from typing import Any

from tidelog.jit import array_in, array_out, f64, i64, kernel, void
from tidelog.operators.join.conditions.kernels import PLACE_BITS

_ROWS = array_in(i64)


@kernel(void(_ROWS, _ROWS, _ROWS, _ROWS, i64, array_out(i64), array_out(i64)))
def find_before(times: Any, keys: Any, others: Any, other_keys: Any, strict: Any, newest: Any, found: Any) -> None:
    """For each row the last of the others with its key that is not behind it; before it if ``strict`` is 1.

    Both are in the order of time. Keys are places in ``newest``, which has -1 everywhere; negative ones match nothing.
    ``found`` gets places among the others, or -1.
    """
    next_other = 0
    for row in range(len(times)):
        time = times[row]
        while next_other < len(others) and (others[next_other] < time or (strict == 0 and others[next_other] == time)):
            key = other_keys[next_other]
            if key >= 0:
                newest[key] = next_other
            next_other += 1
        found[row] = newest[keys[row]] if keys[row] >= 0 else i64(-1)


@kernel(void(_ROWS, _ROWS, _ROWS, _ROWS, i64, array_out(i64), array_out(i64)))
def find_behind(times: Any, keys: Any, others: Any, other_keys: Any, strict: Any, oldest: Any, found: Any) -> None:
    """The same for the first of the others that is not before a row; behind it if ``strict`` is 1."""
    next_other = len(others) - 1
    for row in range(len(times) - 1, -1, -1):
        time = times[row]
        while next_other >= 0 and (others[next_other] > time or (strict == 0 and others[next_other] == time)):
            key = other_keys[next_other]
            if key >= 0:
                oldest[key] = next_other
            next_other -= 1
        found[row] = oldest[keys[row]] if keys[row] >= 0 else i64(-1)


@kernel(void(_ROWS, _ROWS, i64, i64, array_out(i64)))
def count_others(times: Any, others: Any, inclusive: Any, shift: Any, found: Any) -> None:
    """For each row how many of the others are before it, or at its time too if ``inclusive`` is 1, and ``shift``.

    Both are in the order of time. Each step goes on by a row or by one of the others without a branch, as which of them
    it is cannot be predicted.
    """
    row, count, size = 0, 0, len(others)
    if inclusive == 1:
        while row < len(times) and count < size:
            found[row] = count + shift
            is_behind = i64(others[count] > times[row])
            row += is_behind
            count += 1 - is_behind
    else:
        while row < len(times) and count < size:
            found[row] = count + shift
            is_behind = i64(others[count] >= times[row])
            row += is_behind
            count += 1 - is_behind
    found[row:] = count + shift


@kernel(i64(_ROWS, i64, array_out(i64), array_out(i64)))
def last_of_keys(keys: Any, count: Any, newest: Any, found: Any) -> Any:
    """The places of the last of the first ``count`` rows of each key, ascending; returns how many there are.

    ``newest`` has room for all keys, and -1 everywhere.
    """
    for row in range(count):
        if keys[row] >= 0:
            newest[keys[row]] = row
    kept = 0
    for row in range(count):
        if keys[row] >= 0 and newest[keys[row]] == row:
            found[kept] = row
            kept += 1
    return kept


@kernel(void(i64, i64, _ROWS, _ROWS, _ROWS, array_out(i64), array_out(i64)))
def expand_ranges(begin: Any, end: Any, firsts: Any, ends: Any, counts: Any, rows: Any, members: Any) -> None:
    """Of the members of all ranges, one range behind the other, those from ``begin`` to ``end``.

    Range ``i`` has ``counts[i]`` members from ``firsts[i]`` on; ``ends`` are the sums of counts up to each. Gives for
    each member the number of its range.
    """
    low = 0
    high = len(ends)
    while low < high:
        middle = (low + high) // 2
        if ends[middle] <= begin:
            low = middle + 1
        else:
            high = middle
    row = low
    for at in range(begin, end):
        while ends[row] <= at:
            row += 1
        rows[at - begin] = row
        members[at - begin] = firsts[row] + (at - (ends[row] - counts[row]))


_CHAIN = array_out(i64, 2)


@kernel(void(_ROWS, _ROWS, _ROWS, _ROWS, _CHAIN, _CHAIN, _ROWS, _ROWS, _CHAIN, array_out(i64), array_out(i64)))
def follow_keys(
    ports: Any,
    rows: Any,
    firsts: Any,
    lasts: Any,
    left: Any,
    right: Any,
    starts: Any,
    bases: Any,
    newest: Any,
    progress: Any,
    found: Any,
) -> None:
    """The partners with equal keys of arriving rows, each row behind all before it.

    ``left`` and ``right`` are memories of the rows of both inputs: a line of keys, negative for none, and one for the
    rank of the row before with the same key. The place ``i`` of an input is at ``starts[port] + i`` of its memory, and
    has the rank ``bases[port] + i``. ``newest`` has for both inputs the rank of the last row of each key, or -1.

    ``progress`` is the number of the next row, how many pairs were found, and for how many there has to be room to go
    on. Pairs are the number of the row and the place of its partner; those of a row ascend, and come together.
    """
    row, size = progress[0], 0
    while row < len(ports):
        port = ports[row]
        own, other = (left, right) if port == 0 else (right, left)
        at = starts[port] + rows[row]
        key = own[0, at]
        if key >= 0:
            base, start = bases[1 - port], starts[1 - port]
            first, last = base + firsts[row], base + lasts[row]
            newest_partner = newest[1 - port, key] if first < last else i64(-1)
            while newest_partner >= last:
                newest_partner = other[1, start + newest_partner - base]
            count = 0
            partner = newest_partner
            while partner >= first:
                count += 1
                partner = other[1, start + partner - base]
            if size + count > len(found):
                progress[0], progress[1], progress[2] = row, size, count
                return
            partner = newest_partner
            for place in range(size + count - 1, size - 1, -1):
                found[place] = (row << PLACE_BITS) + partner - base
                partner = other[1, start + partner - base]
            size += count
            own[1, at] = newest[port, key]
            newest[port, key] = bases[port] + rows[row]
        row += 1
    progress[0], progress[1], progress[2] = row, size, 0


_VALUES = array_in(f64)


@kernel(void(_VALUES, i64, _VALUES, _VALUES, array_out(i64), array_out(i64)))
def find_band(values: Any, finite: Any, lows: Any, highs: Any, begins: Any, ends: Any) -> None:
    """For each row where in ascending ``values`` those between ``lows`` and ``highs`` are.

    Of the values the first ``finite`` are so.
    """
    for row in range(len(lows)):
        low, high = 0, finite
        while low < high:
            middle = (low + high) // 2
            if values[middle] < lows[row]:
                low = middle + 1
            else:
                high = middle
        begins[row] = low
        high = finite
        while low < high:
            middle = (low + high) // 2
            if values[middle] <= highs[row]:
                low = middle + 1
            else:
                high = middle
        ends[row] = low


@kernel(i64(_ROWS, i64, i64, _ROWS, _ROWS, _ROWS, _ROWS, _ROWS, array_out(i64), i64))
def take_band(
    ranks: Any,
    finite: Any,
    base: Any,
    begins: Any,
    ends: Any,
    firsts: Any,
    lasts: Any,
    numbers: Any,
    found: Any,
    size: Any,
) -> Any:
    """Add pairs of rows with some numbers and what is found for them between ``begins`` and ``ends``.

    ``ranks`` are those of sorted values; the ones from ``finite`` on are partners for all. Only places from ``firsts``
    to ``lasts`` count: ranks less ``base``. Returns how many pairs there are then.
    """
    for row in range(len(begins)):
        pair = (numbers[row] << PLACE_BITS) - base
        first, last = firsts[row] + base, lasts[row] + base
        for at in range(begins[row], ends[row]):
            if first <= ranks[at] < last:
                found[size] = pair + ranks[at]
                size += 1
        for at in range(finite, len(ranks)):
            if first <= ranks[at] < last:
                found[size] = pair + ranks[at]
                size += 1
    return size
