"""Kernels that sort what is nearly sorted: values that rise, and some among them that come late."""

from __future__ import annotations

from typing import Any

from tidelog.jit import array_in, array_out, i64, kernel, void


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


@kernel(void(array_in(i64), array_in(i64), array_in(i64), array_out(i64)))
def weave(values: Any, rising: Any, late: Any, order: Any) -> None:
    """Put the places of two sorted runs of values into ``order``, sorted; of equal ones those of ``rising`` first."""
    i = 0
    j = 0
    for k in range(len(order)):
        if j == len(late) or (i < len(rising) and values[rising[i]] <= values[late[j]]):
            order[k] = rising[i]
            i += 1
        else:
            order[k] = late[j]
            j += 1
