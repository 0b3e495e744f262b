"""What some of the kernels beside do, for a few rows, in Python and NumPy alone (see :mod:`tidelog.lazy`)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tidelog.lazy import stands_in
from tidelog.storage.summary.flags import HAS_BOUNDS, HAS_SUM, INTEGER_SUM, LANES, MAX_TRUNCATED, MIN_TRUNCATED

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]

_MASK: Final = (1 << 64) - 1
_LARGEST: Final = np.int64((1 << 63) - 1)


def _present(mask: Bytes, first: int, last: int) -> npt.NDArray[np.bool_]:
    return mask[first:last] != 0 if len(mask) else np.ones(last - first, np.bool_)


def _steps_of_integers(values: Ints, mask: Bytes, cuts: Ints, *rest: Any) -> int:
    return 20 * len(cuts) + int(cuts[-1] - cuts[0]) // 20


@stands_in(_steps_of_integers)
def summarise_integers(values: Ints, mask: Bytes, cuts: Ints, flip: int, keep_sum: bool, out: Words) -> None:
    """See the kernel."""
    for block, (first, last) in enumerate(pairwise(cuts.tolist())):
        chosen = values[first:last][_present(mask, first, last)]
        if flip:
            chosen = chosen.view(np.uint64)
        out[block] = 0
        out[block, 0] = (last - first - len(chosen)) << 32
        if len(chosen):
            flags = HAS_BOUNDS
            out[block, 2] = int(chosen.min()) & _MASK
            out[block, 3] = int(chosen.max()) & _MASK
            if keep_sum:
                flags |= HAS_SUM | INTEGER_SUM
                total = sum(chosen.tolist())
                out[block, 4] = total & _MASK
                out[block, 5] = total >> 64 & _MASK
            out[block, 0] |= np.uint64(flags)


def _steps_of_floats(values: npt.NDArray[np.float64], bits: Ints, mask: Bytes, cuts: Ints, *rest: Any) -> int:
    return 40 * len(cuts) + int(cuts[-1] - cuts[0]) // 20


@stands_in(_steps_of_floats)
def summarise_floats(values: npt.NDArray[np.float64], bits: Ints, mask: Bytes, cuts: Ints, out: Words) -> None:
    """See the kernel, for the order of summation too."""
    for block, (first, last) in enumerate(pairwise(cuts.tolist())):
        part, present = values[first:last], _present(mask, first, last)
        numbers = (part == part) & present
        out[block] = 0
        out[block, 1] = int(present.sum()) - int(numbers.sum())
        out[block, 0] = (last - first - int(present.sum())) << 32
        if not numbers.any():
            continue
        keys = _ordered(bits[first:last][numbers])
        out[block, 0] |= np.uint64(HAS_BOUNDS | HAS_SUM)
        out[block, 2:4] = _ordered(np.array([keys.min(), keys.max()])).view(np.uint64)
        out[block, 4] = _sum(np.where(numbers, part, 0.0)).view(np.uint64)


def _ordered(bits: Ints) -> Ints:
    ordered: Ints = bits ^ ((bits >> 63) & _LARGEST)
    return ordered


def _sum(values: npt.NDArray[np.float64]) -> np.float64:
    lanes = np.zeros(LANES)
    with np.errstate(all="ignore"):
        for first in range(0, len(values), LANES):
            group = values[first : first + LANES]
            lanes[: len(group)] += group
        while len(lanes) > 1:
            half = len(lanes) // 2
            lanes = lanes[:half] + lanes[half:]
    total: np.float64 = lanes[0]
    return total


def _steps_of_text(data: Bytes, offsets: Ints, mask: Bytes, cuts: Ints, *rest: Any) -> int:
    return 20 * len(cuts) + int(cuts[-1] - cuts[0]) // 2


@stands_in(_steps_of_text)
def summarise_text(data: Bytes, offsets: Ints, mask: Bytes, cuts: Ints, out: Words) -> None:
    """See the kernel."""
    places = offsets.tolist()
    for block, (first, last) in enumerate(pairwise(cuts.tolist())):
        rows = (np.flatnonzero(_present(mask, first, last)) + first).tolist()
        # A value is whole if it is no longer than its prefix and does not end in a zero byte: what the padding hides.
        found: set[tuple[bytes, bool]] = set()
        for row in rows:
            start, stop = places[row], places[row + 1]
            prefix = data[start : min(stop, start + 8)].tobytes()
            found.add((prefix.ljust(8, b"\0"), stop - start > 8 or prefix.endswith(b"\0")))
        flags = 0
        out[block] = 0
        if found:
            low, high = min(found)[0], max(found)[0]
            flags = HAS_BOUNDS
            if (low, False) not in found:
                flags |= MIN_TRUNCATED
            if (high, True) in found:
                flags |= MAX_TRUNCATED
            out[block, 2], out[block, 3] = int.from_bytes(low, "big"), int.from_bytes(high, "big")
        out[block, 0] = flags | (last - first - len(rows)) << 32
