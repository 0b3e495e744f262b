"""The kernel that puts pieces of two streams together."""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.jit import array_in, array_out, i64, inline, kernel, u64
from tidelog.storage.codec.numeric.kernels import U

ALL_BUT_KIND_AND_ROWS = np.uint64(0x00000000FFFF00FF)


@inline
def _copy(source: Any, first: Any, count: Any, target: Any, at: Any) -> Any:
    part, place = source[first : first + count], target[at : at + count]
    for i in range(count):
        place[i] = part[i]
    return at + count


@kernel(
    i64(
        *(array_out(u64), i64, i64),
        *(array_in(u64), array_in(i64), array_in(i64)),
        *(array_in(u64), array_in(i64), array_in(i64), array_in(i64), array_in(i64)),
        array_out(i64),
    )
)
def write_pairs(
    out: Any,
    p: Any,
    encoding: Any,
    heads: Any,
    head_offsets: Any,
    head_lengths: Any,
    streams: Any,
    first_offsets: Any,
    first_lengths: Any,
    second_offsets: Any,
    second_lengths: Any,
    starts: Any,
) -> Any:
    """Write pieces of two streams one behind the other from word ``p`` of ``out``; returns the word behind them.

    Piece i takes its head and validity from byte ``head_offsets[i]`` of ``heads``, its streams from bytes of
    ``streams``; all offsets and lengths are multiples of 8. ``starts[i]`` becomes its offset in bytes.
    """
    for i in range(len(starts)):
        starts[i] = 8 * p
        at = _copy(heads, head_offsets[i] >> 3, head_lengths[i] >> 3, out, p)
        out[p] = (out[p] & ~ALL_BUT_KIND_AND_ROWS) | U(encoding)
        out[at] = U(first_lengths[i])
        at = _copy(streams, first_offsets[i] >> 3, first_lengths[i] >> 3, out, at + 1)
        p = _copy(streams, second_offsets[i] >> 3, second_lengths[i] >> 3, out, at)
    return p
