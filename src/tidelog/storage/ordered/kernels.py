"""Kernels that gather values of several arrays in an order of which long stretches are as they came.

Arrays are given by their addresses, since a kernel cannot take any number of them: whoever calls keeps them alive.
Places count through all of them, and ``starts`` are those that they begin with, with the end of the last one behind.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from tidelog.jit import array_in, array_out, i64, inline, kernel, u8, u16, u32, u64, void

STRETCH = 32
"""Values that are copied together where they follow one another."""


@intrinsic
def _load(_context: Any, address: Any, like: Any) -> Any:
    """The value at an address, of the type of an array's values."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], context.get_value_type(like.dtype).as_pointer())
        return builder.load(pointer, align=1)

    return like.dtype(types.uint64, like), generate


@kernel(void(array_in(i64), array_out(u8)))
def find_stretches(order: Any, follow: Any) -> None:
    """Tell of each :data:`STRETCH` places whether they follow one another; the last ones may be fewer."""
    for stretch in range(len(follow)):
        start = stretch * STRETCH
        first = order[start] - start
        others = 0
        for i in range(start, min(start + STRETCH, len(order))):
            others += i64(order[np.uint64(i)] - i != first)
        follow[stretch] = u8(others == 0)


@inline
def _part_of(starts: Any, place: Any) -> Any:
    """Which array a place is in."""
    low, high = 0, len(starts) - 1
    while high - low > 1:
        middle = (low + high) >> 1
        if place >= starts[middle]:
            low = middle
        else:
            high = middle
    return low


@inline
def _gather(bases: Any, starts: Any, order: Any, follow: Any, out: Any) -> None:
    width = u64(out.itemsize)
    low, high, base = i64(0), i64(0), u64(0)
    for stretch in range(len(follow)):
        start = stretch * STRETCH
        stop = min(start + STRETCH, len(order))
        if follow[stretch] and stop - start == STRETCH:
            first = order[np.uint64(start)]
            if first < low or first >= high:
                part = _part_of(starts, first)
                low, high, base = starts[part], starts[part + 1], bases[part]
            if first + STRETCH <= high:
                address = base + u64(first) * width
                for i in range(STRETCH):
                    out[np.uint64(start + i)] = _load(address + u64(i) * width, out)
                continue
        for i in range(start, stop):
            place = order[np.uint64(i)]
            if place < low or place >= high:
                part = _part_of(starts, place)
                low, high, base = starts[part], starts[part + 1], bases[part]
            out[np.uint64(i)] = _load(base + u64(place) * width, out)


@kernel(
    void(
        array_in(u64),
        array_in(i64),
        array_in(i64),
        array_in(u8),
        i64,
        array_out(u8),
        array_out(u16),
        array_out(u32),
        array_out(u64),
    )
)
def gather(bases: Any, starts: Any, order: Any, follow: Any, width: Any, v8: Any, v16: Any, v32: Any, v64: Any) -> None:
    """Put the values at the places of ``order`` into the array of their width, in bytes.

    ``bases`` are the addresses of values that stood at place 0 in each array if it went on to the left. ``follow`` is
    what :func:`find_stretches` has told.
    """
    if width == 8:
        _gather(bases, starts, order, follow, v64)
    elif width == 4:
        _gather(bases, starts, order, follow, v32)
    elif width == 2:
        _gather(bases, starts, order, follow, v16)
    else:
        _gather(bases, starts, order, follow, v8)


@kernel(void(array_in(i64), array_in(i64), array_in(i64), array_out(i64)))
def number(bases: Any, starts: Any, order: Any, out: Any) -> None:
    """Put the numbers of places into ``out``: they rise by one, by other ``bases`` at place 0 for each array."""
    low, high, base = i64(0), i64(0), i64(0)
    for i in range(len(order)):
        place = order[np.uint64(i)]
        if place < low or place >= high:
            part = _part_of(starts, place)
            low, high, base = starts[part], starts[part + 1], bases[part]
        out[np.uint64(i)] = base + place
