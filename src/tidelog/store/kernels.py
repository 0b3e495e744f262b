"""Kernels that sort what is nearly sorted: values that rise, and some among them that come late."""

from __future__ import annotations

from typing import Any

from tidelog.jit import array_in, array_out, i64, kernel, u64, void


@kernel(i64(array_in(i64), array_out(i64), array_out(i64)))
def part_late(values: Any, rising: Any, late: Any) -> Any:
    """Put the places of values that are not below one before them into ``rising``, others into ``late``.

    Both have room for all; returns how many rise.
    """
    count = 0
    top = values[0]
    for i in range(len(values)):
        value = values[i]
        is_late = i64(value < top)
        rising[count] = i
        late[i - count] = i
        count += 1 - is_late
        top = max(top, value)
    return count


@kernel(void(array_in(i64), array_in(i64), array_in(i64), array_out(i64), array_out(i64)))
def weave(values: Any, rising: Any, late: Any, order: Any, woven: Any) -> None:
    """Put the places of two sorted runs of values into ``order``, sorted, and the values themselves into ``woven``.

    Of equal ones those of ``rising`` come first.
    """
    i = 0
    k = 0
    for j in range(len(late)):
        place = late[j]
        value = values[place]
        while i < len(rising) and values[rising[i]] <= value:
            order[k] = rising[i]
            woven[k] = values[rising[i]]
            i += 1
            k += 1
        order[k] = place
        woven[k] = value
        k += 1
    for rest in range(i, len(rising)):
        order[k] = rising[rest]
        woven[k] = values[rising[rest]]
        k += 1


@kernel(i64(array_in(i64), i64, array_out(i64), array_out(i64), array_out(i64)))
def part_below(values: Any, bound: Any, others: Any, kept: Any, below: Any) -> Any:
    """Put the places of values below a bound into ``below``, those of others into ``others``, these into ``kept``.

    All have room for all. Returns how many others there are.
    """
    count = u64(0)  # signed ones would be checked for being negative
    for i in range(len(values)):
        value = values[i]
        others[count] = i
        kept[count] = value
        below[u64(i) - count] = i
        count += u64(value >= bound)
    return i64(count)


@kernel(i64(array_in(i64), i64, array_out(i64)))
def find_delays(values: Any, newest: Any, delays: Any) -> Any:
    """Put by how much values are below the greatest one before them, if they are, into ``delays``; returns how many.

    ``newest`` stands before the first. There is room for all. Differences beyond 64 bits are negative.
    """
    count = 0
    top = newest
    for i in range(len(values)):
        value = values[i]
        delays[count] = top - value
        count += i64(value < top)
        top = max(top, value)
    return count
