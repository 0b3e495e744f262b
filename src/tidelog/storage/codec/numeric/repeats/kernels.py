"""Kernels that find and expand repeated values: runs and dictionaries."""

from __future__ import annotations

from typing import Any

from tidelog.jit import array_in, array_out, i64, kernel, u8, u64, void
from tidelog.storage.codec.encodings import VECTOR
from tidelog.storage.codec.numeric.kernels import (
    HASH,
    ONE,
    ZERO,
    I,
    U,
)

FEW_VALUES = VECTOR
"""Most entries of a dictionary: one vector, which decodes into the first-level cache."""

TABLE = 4096
"""Slots of the hash table over them."""


@kernel(void(array_in(u64), array_in(i64), array_in(u8), array_out(u64), array_out(u64), array_out(i64)))
def find_runs(values: Any, cuts: Any, wanted: Any, run_values: Any, run_lengths: Any, bounds: Any) -> Any:
    """Split the wanted ones of the blocks ``values[cuts[b]:cuts[b + 1]]`` in runs of equal values.

    Runs of block b become entries ``bounds[b]`` to ``bounds[b + 1]``; none if there are more than a quarter as
    many as values. The outputs are as long as ``values``.
    """
    k = I(0)
    bounds[0] = 0
    for b in range(len(cuts) - 1):
        first, last = cuts[b], cuts[b + 1]
        if not wanted[b]:
            last = first
        most = k + ((last - first) >> 2)
        for i in range(first + 1, last + 1):
            if i == last or values[i] != values[first]:
                if k == most:
                    k = bounds[b]
                    break
                run_values[k] = values[first]
                run_lengths[k] = U(i - first)
                k += 1
                first = i
        bounds[b + 1] = k


@kernel(
    void(
        *(array_in(u64), array_in(i64), array_in(u8), array_out(u64)),
        *(array_out(u64), array_out(i64), array_out(u64), array_out(i64)),
    )
)
def find_distinct(
    values: Any, cuts: Any, wanted: Any, table: Any, distinct: Any, bounds: Any, numbers: Any, number_bounds: Any
) -> Any:
    """Number the distinct values of the wanted blocks as they appear.

    Those of block b become entries ``bounds[b]`` to ``bounds[b + 1]`` of ``distinct``, the numbers of its values
    entries ``number_bounds[b]`` to ``number_bounds[b + 1]`` of ``numbers``; none if there are more than
    FEW_VALUES or a quarter as many as values. ``table`` has TABLE words, the outputs are as long as ``values``.
    """
    bounds[0] = number_bounds[0] = 0
    for b in range(len(cuts) - 1):
        first, last = cuts[b], cuts[b + 1]
        if not wanted[b]:
            last = first
        most = min(FEW_VALUES, (last - first) >> 2)
        base, count, numbered = bounds[b], 0, number_bounds[b]
        for i in range(TABLE):
            table[i] = ZERO
        for i in range(first, last):
            x = values[i]
            slot = I((x * HASH) >> U(52))
            while table[slot] != ZERO and distinct[base + I(table[slot]) - 1] != x:
                slot = (slot + 1) & (TABLE - 1)
            if table[slot] == ZERO:
                if count == most:
                    count, numbered = 0, number_bounds[b]
                    break
                distinct[base + count] = x
                count += 1
                table[slot] = U(count)
            numbers[numbered] = table[slot] - ONE
            numbered += 1
        bounds[b + 1] = base + count
        number_bounds[b + 1] = numbered


@kernel(i64(array_in(i64), array_in(i64), array_in(i64), array_out(i64)))
def expand_dictionaries(distinct: Any, bounds: Any, cuts: Any, numbers: Any) -> Any:
    """Replace the numbers of block b, entries ``cuts[b]`` to ``cuts[b + 1]``, by its distinct values.

    Those are entries ``bounds[b]`` to ``bounds[b + 1]`` of ``distinct``. Returns -1, or a block with a number
    that stands for none of them.
    """
    for b in range(len(cuts) - 1):
        dictionary = distinct[bounds[b] : bounds[b + 1]]
        for i in range(cuts[b], cuts[b + 1]):
            number = numbers[i]
            if number < 0 or number >= len(dictionary):
                return b
            numbers[i] = dictionary[number]
    return -1


@kernel(i64(*([array_in(i64)] * 7), array_out(i64)))
def expand_runs(
    run_values: Any, run_lengths: Any, bounds: Any, rows: Any, starts: Any, stops: Any, places: Any, out: Any
) -> Any:
    """Write rows ``starts[b]`` to ``stops[b]`` of blocks of ``rows[b]`` rows, given as runs, to ``out[places[b]:]``.

    Returns -1, or the block whose runs do not have its number of rows, or which there is no room for.
    """
    for b in range(len(rows)):
        row = 0
        start, stop = starts[b], stops[b]
        if places[b] < 0 or stop - start > len(out) - places[b]:
            return b
        for k in range(bounds[b], bounds[b + 1]):
            length = run_lengths[k]
            if length <= 0 or length > rows[b] - row:
                return b
            value = run_values[k]
            first = max(row, start)
            target = U(places[b] + first - start)
            for i in range(min(row + length, stop) - first):
                out[target + U(i)] = value
            row += length
        if row != rows[b]:
            return b
    return -1


@kernel(i64(*([array_in(i64)] * 8), array_out(i64)))
def pick_runs(
    run_values: Any,
    run_lengths: Any,
    bounds: Any,
    rows: Any,
    places: Any,
    begins: Any,
    firsts: Any,
    lasts: Any,
    out: Any,
) -> Any:
    """Write single rows of blocks of ``rows[b]`` rows, given as runs, into ``out``.

    Of block b the rows ``places[k] - begins[b]``, which rise, for k from ``firsts[b]`` to ``lasts[b]`` (exclusive), to
    ``out[k]``. Returns -1, or the block whose runs do not have its number of rows, or which has not all rows wanted.
    """
    for b in range(len(rows)):
        row, at, last = I(0), firsts[b], lasts[b]
        if at < 0 or last > min(len(places), len(out)):
            return b
        for k in range(bounds[b], bounds[b + 1]):
            length = run_lengths[k]
            if length <= 0 or length > rows[b] - row:
                return b
            row += length
            while at < last and places[U(at)] < begins[b] + row:
                out[U(at)] = run_values[k]
                at += 1
        if row != rows[b] or at < last:
            return b
    return I(-1)
