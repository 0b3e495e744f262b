"""The order of event times that mostly rise."""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Parted:
    """Values of which some are below a bound."""

    places: Ints
    """Where the others are, rising."""
    others: Ints
    """The others, as they came."""
    falls: bool
    """Whether one of the others is less than one before it."""
    below: Ints
    """The places of those that are below the bound, rising."""
    delays: Ints
    """What :func:`delays_of` tells of all values."""


def parted(at: Ints, bound: int, newest: int) -> Parted:
    """Part values by a bound and tell how late they are, in one pass.

    ``newest`` is not below the bound; see :func:`delays_of`.
    """
    places, others = np.empty((2, len(at)), np.int64)
    scratch = words(2 * len(at), np.int64)
    below, delays = scratch[: len(at)], scratch[len(at) :]
    counts = np.empty(2, np.int64)
    falls = bool(kernels.part_below(at, bound, newest, places, others, below, delays, counts))
    count, late = counts.tolist()
    return Parted(places[:count], others[:count], falls, below[: len(at) - count].copy(), _capped(delays[:late]))


def delays_of(at: Ints, newest: int | None) -> Ints:
    """By how much each late value is less than the greatest one before it; ``newest`` is the one before the first.

    None of it is late if it is not known. Differences beyond 64 bits count as the largest number.
    """
    if not len(at):
        return at
    found = words(len(at), np.int64)
    count = int(kernels.find_delays(at, int(at[0]) if newest is None else newest, found))
    return _capped(found[:count])


def _capped(delays: Ints) -> Ints:
    """A copy of delays in which those beyond 64 bits, which are negative, are the largest number."""
    delays = delays.copy()
    delays[delays < 0] = np.iinfo(np.int64).max
    return delays


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
