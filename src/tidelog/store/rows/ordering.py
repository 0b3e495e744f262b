"""The order of event times that mostly rise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tidelog.storage.rows.ordered import words
from tidelog.store.rows import kernels

Ints = npt.NDArray[np.int64]

_MANY: Final = 4
"""If more than this fraction of all values do not rise, all of them are sorted."""


class Sorting(NamedTuple):
    """The order in which values never fall, equal ones as they came."""

    order: Ints | None
    """The places of the values; None if they are in it."""
    values: Ints
    """The values in this order."""
    has_ties: bool
    """Whether any are equal."""


def sorting_of(at: Ints) -> Sorting:
    """How values are put in order.

    They mostly rise. Those that do not are sorted and put between the others, which takes a fraction of the time that
    sorting everything does.
    """
    if not len(at):
        return Sorting(None, at, False)
    most_late = len(at) // _MANY
    scratch = words(2 * (len(at) + most_late), np.int64)
    rising, late = scratch[: len(at)], scratch[len(at) : 2 * len(at)]
    count = int(kernels.part_late(at, rising, late))
    if count == len(at):
        return Sorting(None, at, bool((at[1:] == at[:-1]).any()))
    late = late[: len(at) - count]
    if len(late) > most_late:
        return _sorted(at, scratch)
    late = late[_sorted(at[late], scratch[2 * len(at) :]).order]
    order, woven = np.empty(len(at), np.int64), np.empty(len(at), np.int64)
    # Of equal ones the rising came first: they came before the greater one that makes a value late.
    return Sorting(order, woven, bool(kernels.weave(at, rising[:count], late, order, woven)))


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
    return Parted(places[:count], others[:count], falls, below[: len(at) - count].copy(), delays[:late].copy())


def delays_of(at: Ints, newest: int | None) -> Ints:
    """By how much each late value is less than the greatest one before it; ``newest`` is the one before the first.

    None of it is late if it is not known. Differences beyond 64 bits count as the largest number.
    """
    if not len(at):
        return at
    found = words(len(at), np.int64)
    count = int(kernels.find_delays(at, int(at[0]) if newest is None else newest, found))
    return found[:count].copy()


def _sorted(values: Ints, scratch: Ints) -> Sorting:
    """What :func:`sorting_of` tells, of values that are in no order; ``scratch`` has two words for each of them.

    Values that are not far apart are sorted as one word with their places, in time proportional to their number.
    """
    low, high = int(values.min()), int(values.max())
    place_bits, value_bits = len(values).bit_length(), (high - low).bit_length()
    if place_bits + value_bits > 64:
        order = np.argsort(values, kind="stable")
        found = values[order]
        return Sorting(order, found, bool((found[1:] == found[:-1]).any()))
    keys, spare = scratch[: 2 * len(values)].view(np.uint64).reshape(2, -1)
    counts = np.empty((-(-value_bits // kernels.DIGIT_BITS), 1 << kernels.DIGIT_BITS), np.uint32)
    sorted_keys = spare if kernels.sort_places(values, low, place_bits, keys, spare, counts) else keys
    order, found = np.empty(len(values), np.int64), np.empty(len(values), np.int64)
    return Sorting(order, found, bool(kernels.take_apart(sorted_keys, low, place_bits, order, found)))
