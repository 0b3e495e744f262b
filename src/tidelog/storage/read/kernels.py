"""Kernels that tell what to decode for rows that are wanted."""

from __future__ import annotations

from typing import Any

from tidelog.jit import array_in, array_out, i64, kernel, u64
from tidelog.storage.codec.encodings import VECTOR


@kernel(i64(array_in(i64), array_in(i64), i64, *(array_out(i64) for _ in range(4))))
def runs_around(rows: Any, places: Any, gap: Any, leaves: Any, starts: Any, stops: Any, moved: Any) -> Any:
    """The runs of vectors that have rows which are wanted; returns how many there are.

    ``rows`` are those of leaves, ``places`` rise and count the rows of all leaves. Run i consists of the rows from
    ``starts[i]`` to ``stops[i]`` of leaf ``leaves[i]``; between two runs of a leaf there are more than ``gap`` vectors
    that are not wanted. ``moved`` receives the places among the rows of all runs.
    """
    count, leaf, begin, end, last, before = i64(-1), i64(-1), i64(0), i64(0), i64(0), i64(0)
    for k in range(len(places)):
        place = places[u64(k)]
        is_new = count < 0
        while place >= end:
            leaf += 1
            begin = end
            end += rows[u64(leaf)]
            is_new = True
        vector = (place - begin) // VECTOR
        if is_new or vector - last > 1 + gap:
            if count >= 0:
                before += stops[u64(count)] - starts[u64(count)]
            count += 1
            leaves[u64(count)] = leaf
            starts[u64(count)] = vector * VECTOR
        if is_new or vector != last or stops[u64(count)] == 0:
            stops[u64(count)] = min((vector + 1) * VECTOR, rows[u64(leaf)])
            last = vector
        moved[u64(k)] = place - begin - starts[u64(count)] + before
    return count + 1
