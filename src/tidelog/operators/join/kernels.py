"""Kernels of joins."""

from __future__ import annotations

from typing import Any

from tidelog.jit import array_in, array_out, i64, kernel, void

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
