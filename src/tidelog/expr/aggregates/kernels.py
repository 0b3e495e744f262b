"""Kernels of running aggregates: each state of a run merged with all before it, or with all behind it.

States of no rows, whose number of rows is 0, are passed over. Arrays are as long as there are states; runs are those
between ``cuts``. ``backward`` is 1 for merges with all behind.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.jit import array_in, array_out, f64, i32, i64, inlined, kernel, u8, u64, void


@inlined
def _place(step: Any, first: Any, last: Any, backward: Any) -> Any:
    """The place of a step through a run."""
    return last - 1 - step if backward else first + step


@kernel(void(array_in(i64), array_in(i64), i64, array_out(i64)))
def scan_counts(rows: Any, cuts: Any, backward: Any, out: Any) -> None:
    """Running sums of numbers."""
    for run in range(len(cuts) - 1):
        first, last = cuts[run], cuts[run + 1]
        total = i64(0)
        for step in range(last - first):
            at = _place(step, first, last, backward)
            total += rows[at]
            out[at] = total


@kernel(void(array_in(i64), array_in(f64), array_in(f64), array_in(i64), i64, array_out(f64), array_out(f64)))
def scan_floats(
    rows: Any, totals: Any, errors: Any, cuts: Any, backward: Any, out_totals: Any, out_errors: Any
) -> None:
    """Running sums of doubles, and of what rounding has lost of them (Knuth); nothing where they are not finite."""
    for run in range(len(cuts) - 1):
        first, last = cuts[run], cuts[run + 1]
        total = 0.0
        error = 0.0
        seen = i64(0)
        for step in range(last - first):
            at = _place(step, first, last, backward)
            if rows[at] != 0:
                value = totals[at]
                if seen == 0:
                    total = value
                    error = errors[at]
                    seen = i64(1)
                else:
                    whole = total + value
                    back = whole - total
                    lost = (total - (whole - back)) + (value - back)
                    total = whole
                    error = error + errors[at] + lost if np.isfinite(whole) else 0.0
            out_totals[at] = total
            out_errors[at] = error


@kernel(void(array_in(u64), array_in(i64), array_in(i64), i64, array_out(u64), array_out(i64)))
def scan_words(low: Any, high: Any, cuts: Any, backward: Any, out_low: Any, out_high: Any) -> None:
    """Running sums of integers of 128 bits."""
    for run in range(len(cuts) - 1):
        first, last = cuts[run], cuts[run + 1]
        lower = u64(0)
        upper = i64(0)
        for step in range(last - first):
            at = _place(step, first, last, backward)
            total = lower + low[at]
            upper += high[at] + i64(total < lower)
            lower = total
            out_low[at] = lower
            out_high[at] = upper


@kernel(void(array_in(i64), array_in(f64), array_in(i64), i64, i64, array_out(f64)))
def scan_float_extremes(rows: Any, values: Any, cuts: Any, backward: Any, largest: Any, out: Any) -> None:
    """Running extremes of doubles; NaN is greater than every number."""
    for run in range(len(cuts) - 1):
        first, last = cuts[run], cuts[run + 1]
        best = 0.0
        seen = i64(0)
        for step in range(last - first):
            at = _place(step, first, last, backward)
            if rows[at] != 0:
                value = values[at]
                if (
                    seen == 0
                    or (largest == 1 and (value > best or np.isnan(value)))
                    or (largest == 0 and (value < best or np.isnan(best)))
                ):
                    best = value
                seen = i64(1)
            out[at] = best


@kernel(void(array_in(i64), array_in(i64), array_in(i64), i64, i64, array_out(i64)))
def scan_integer_extremes(rows: Any, values: Any, cuts: Any, backward: Any, largest: Any, out: Any) -> None:
    """Running extremes of integers."""
    for run in range(len(cuts) - 1):
        first, last = cuts[run], cuts[run + 1]
        best = i64(0)
        seen = i64(0)
        for step in range(last - first):
            at = _place(step, first, last, backward)
            if rows[at] != 0:
                value = values[at]
                if seen == 0 or (largest == 1 and value > best) or (largest == 0 and value < best):
                    best = value
                seen = i64(1)
            out[at] = best


@kernel(void(array_in(i64), array_in(i64), i64, i64, array_out(i64)))
def scan_places(rows: Any, cuts: Any, backward: Any, newest: Any, out: Any) -> None:
    """The place of the state that a walk through a run has seen first, or, with ``newest`` 1, last.

    Before there is one, it is that of the state itself.
    """
    for run in range(len(cuts) - 1):
        first, last = cuts[run], cuts[run + 1]
        place = i64(-1)
        for step in range(last - first):
            at = _place(step, first, last, backward)
            if rows[at] != 0 and (newest == 1 or place < 0):
                place = at
            out[at] = at if place < 0 else place


@inlined
def _is_before(data: Any, offsets: Any, one: Any, other: Any) -> Any:
    """Whether the bytes of one text come before those of another one."""
    first, second = i64(offsets[one]), i64(offsets[other])
    length, width = i64(offsets[one + 1]) - first, i64(offsets[other + 1]) - second
    for at in range(min(length, width)):
        if data[first + at] != data[second + at]:
            return data[first + at] < data[second + at]
    return length < width


@kernel(void(array_in(u8), array_in(i32), array_in(i64), i64, array_out(i64)))
def find_extreme_texts(data: Any, offsets: Any, cuts: Any, largest: Any, out: Any) -> None:
    """The place of the smallest text of each run, or of the largest one, by bytes; no run is empty."""
    for run in range(len(cuts) - 1):
        best = cuts[run]
        for at in range(cuts[run] + 1, cuts[run + 1]):
            if largest == 1:
                if _is_before(data, offsets, best, at):
                    best = at
            elif _is_before(data, offsets, at, best):
                best = at
        out[run] = best
