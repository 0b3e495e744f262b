"""All matches, each sequence of rows once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tidelog.operators.base import Ints
from tidelog.operators.rowpattern.machine.partitions import Partitions
from tidelog.operators.rowpattern.matches import Matches


def each_once(found: Matches, partitions: Partitions, before: Ints) -> Matches:
    """Matches of different rows alone, the first of those with the same; they are numbered anew."""
    places = np.arange(len(found.places)) - found.offsets[:-1][found.owners]
    mixed = _mixed(found.places.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + places.astype(np.uint64))
    sums = np.concatenate([[np.uint64(0)], np.cumsum(mixed, dtype=np.uint64)])
    keys = sums[found.offsets[1:]] - sums[found.offsets[:-1]]
    keys = np.where(found.is_match, keys, np.uint64(0))
    order = np.lexsort((keys, found.lengths, found.starts))
    same = np.zeros(len(found), np.bool_)
    one, other = order[1:], order[:-1]
    same[one] = (keys[one] == keys[other]) & (found.starts[one] == found.starts[other])
    same[one] &= (found.lengths[one] == found.lengths[other]) & found.is_match[one]
    if same.any():
        found = found.chosen(~same)
    counted = np.cumsum(found.is_match)
    firsts = np.searchsorted(found.partitions, np.arange(len(before)))
    base = np.concatenate([[0], counted])[firsts]
    total = np.diff(np.concatenate([base, counted[-1:] if len(counted) else [0]]))
    partitions.numbers[:] = before + total
    numbers = before[found.partitions] + counted - 1 - base[found.partitions]
    return replace(found, numbers=numbers.astype(np.int64))


def _mixed(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Bits that depend on all of a word's."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
