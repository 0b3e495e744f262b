"""Kernels that gather values of several arrays in an order of which long stretches are as they came.

Arrays are given by their addresses, since a kernel cannot take any number of them: whoever calls keeps them alive.
Places count through all of them, and ``starts`` are those that they begin with, with the end of the last one behind.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from tidelog.jit import array_in, array_out, i64, inline, kernel, u8, u16, u32, u64, void

STRETCH = 32
"""Values that are copied together where they follow one another."""

TOGETHER, FOLLOWING = 1, 2


@intrinsic
def _load(_context: Any, address: Any, like: Any) -> Any:
    """The value at an address, of the type of an array's values."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], context.get_value_type(like.dtype).as_pointer())
        return builder.load(pointer, align=1)

    return like.dtype(types.uint64, like), generate


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


@kernel(void(array_in(i64), array_in(i64), array_out(u8)))
def find_stretches(order: Any, starts: Any, kinds: Any) -> None:
    """Tell of each :data:`STRETCH` places, the last ones may be fewer, of which kind they are.

    :data:`FOLLOWING` one another in one array, :data:`TOGETHER` in one array, or in several (0).
    """
    low, high = i64(0), i64(0)
    for stretch in range(len(kinds)):
        start = stretch * STRETCH
        stop = min(start + STRETCH, len(order))
        first = order[u64(start)]
        least, most, others = first, first, u64(0)
        for i in range(start, stop):
            place = order[u64(i)]
            least = min(least, place)
            most = max(most, place)
            others |= u64(place - i != first - start)
        if first < low or first >= high:
            part = _part_of(starts, first)
            low, high = starts[part], starts[part + 1]
        kinds[stretch] = 0
        if least >= low and most < high:
            kinds[stretch] = TOGETHER if others or stop - start < STRETCH else FOLLOWING


@inline
def _gather(bases: Any, starts: Any, order: Any, kinds: Any, out: Any) -> None:
    width = u64(out.itemsize)
    low, high, base = i64(0), i64(0), u64(0)
    for stretch in range(len(kinds)):
        start = stretch * STRETCH
        stop = min(start + STRETCH, len(order))
        first = order[u64(start)]
        if first < low or first >= high:
            part = _part_of(starts, first)
            low, high, base = starts[part], starts[part + 1], bases[part]
        if kinds[stretch] == FOLLOWING:
            address = base + u64(first) * width
            for i in range(STRETCH):
                out[u64(start + i)] = _load(address + u64(i) * width, out)
        elif kinds[stretch] == TOGETHER:
            for i in range(start, stop):
                out[u64(i)] = _load(base + u64(order[u64(i)]) * width, out)
        else:
            for i in range(start, stop):
                place = order[u64(i)]
                if place < low or place >= high:
                    part = _part_of(starts, place)
                    low, high, base = starts[part], starts[part + 1], bases[part]
                out[u64(i)] = _load(base + u64(place) * width, out)


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
def gather(bases: Any, starts: Any, order: Any, kinds: Any, width: Any, v8: Any, v16: Any, v32: Any, v64: Any) -> None:
    """Put the values at the places of ``order`` into the array of their width, in bytes.

    ``bases`` are the addresses of values that stood at place 0 in each array if it went on to the left. ``kinds`` are
    what :func:`find_stretches` has told.
    """
    if width == 8:
        _gather(bases, starts, order, kinds, v64)
    elif width == 4:
        _gather(bases, starts, order, kinds, v32)
    elif width == 2:
        _gather(bases, starts, order, kinds, v16)
    else:
        _gather(bases, starts, order, kinds, v8)


@kernel(void(array_in(i64), array_in(i64), array_in(i64), array_out(i64)))
def number(bases: Any, starts: Any, order: Any, out: Any) -> None:
    """Put the numbers of places into ``out``: they rise by one, by other ``bases`` at place 0 for each array."""
    low, high, base = i64(0), i64(0), i64(0)
    for i in range(len(order)):
        place = order[u64(i)]
        if place < low or place >= high:
            part = _part_of(starts, place)
            low, high, base = starts[part], starts[part + 1], bases[part]
        out[u64(i)] = base + place
