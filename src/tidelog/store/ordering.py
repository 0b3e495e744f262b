"""The order of event times that mostly rise."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tidelog.storage.ordered import words
from tidelog.store import kernels

Ints = npt.NDArray[np.int64]


def order_of(at: Ints) -> tuple[Ints, Ints] | None:
    """The order in which values never fall, equal ones as they came, and the values in it; None if they are in it.

    Values mostly rise. Those that do not are sorted and put between the others, which takes a fraction of the time that
    sorting everything does.
    """
    if not len(at):
        return None
    scratch = words(2 * len(at), np.int64)
    rising, late = scratch[: len(at)], scratch[len(at) :]
    count = int(kernels.part_late(at, rising, late))
    if count == len(at):
        return None
    late = late[: len(at) - count]
    late = late[_sorting(at[late])]
    order, woven = np.empty(len(at), np.int64), np.empty(len(at), np.int64)
    # Of equal ones the rising came first: they came before the greater one that makes a value late.
    kernels.weave(at, rising[:count], late, order, woven)
    return order, woven


def parted(at: Ints, bound: int) -> tuple[Ints, Ints, Ints]:
    """The places of values that are not below a bound, these values, and the places of those that are below it."""
    others, kept = np.empty((2, len(at)), np.int64)
    below = words(len(at), np.int64)
    count = int(kernels.part_below(at, bound, others, kept, below))
    return others[:count], kept[:count], below[: len(at) - count].copy()


def _sorting(values: Ints) -> Ints:
    """The order of values, equal ones as they came.

    Values that are not far apart are sorted as one word with their places, a few times as fast as places alone.
    """
    low, high = int(values.min()), int(values.max())
    bits = len(values).bit_length()
    if (high - low).bit_length() + bits > 63:
        return np.argsort(values, kind="stable")
    keys = values - low
    keys <<= bits
    keys |= np.arange(len(keys))
    keys.sort()
    keys &= (1 << bits) - 1
    return keys
