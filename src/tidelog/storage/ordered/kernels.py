"""Kernels that gather values in an order of which long stretches are as they came."""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.jit import array_in, array_out, i64, kernel, u8, u64, void

STRETCH = 32
"""Values that are copied together where they follow one another."""


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


@kernel(void(array_in(u64), array_in(u64), array_in(i64), array_in(u8), array_out(u64)))
def gather(values: Any, others: Any, order: Any, follow: Any, out: Any) -> None:
    """Put the values at the places of ``order`` into ``out``; places from the end of ``values`` on are in ``others``.

    ``follow`` is what :func:`find_stretches` has told.
    """
    size = len(values)
    for stretch in range(len(follow)):
        start = stretch * STRETCH
        stop = min(start + STRETCH, len(order))
        if follow[stretch] and stop - start == STRETCH:
            first = order[start]
            if first + STRETCH <= size:
                for i in range(STRETCH):
                    out[np.uint64(start + i)] = values[np.uint64(first + i)]
                continue
            if first >= size:
                first -= size
                for i in range(STRETCH):
                    out[np.uint64(start + i)] = others[np.uint64(first + i)]
                continue
        for i in range(start, stop):
            place = order[np.uint64(i)]
            out[np.uint64(i)] = values[np.uint64(place)] if place < size else others[np.uint64(place - size)]
