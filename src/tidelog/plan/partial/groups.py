"""Numbers for the groups of rows: keys become numbers of their own, and these numbers of their combinations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.expr.values.vectors import numbers, valid_rows
from tidelog.model.times.clock import INT64_MIN
from tidelog.model.times.interval import Interval
from tidelog.plan.partial import kernels

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]

_DENSE: Final = 1 << 16
"""Numbers that groups may have without being numbered anew, whether or not each of them has a row."""
_FIRST_ROOM: Final = 1 << 11
"""Groups that there is room for at first, where they are looked up."""
_GROWTH: Final = 8
_LEAST_LOOKED_AT: Final = 1 << 13
"""Rows after which it is told whether there are fewer groups than rows."""
_LEAST_SHARE: Final = 2
"""Rows that a group must have on average."""


class TooMany(Exception):
    """There are nearly as many groups as rows."""


@dataclass(frozen=True, slots=True)
class Buckets:
    """Stretches of time."""

    cuts: Ints
    """Where each begins, in ticks; no row is before the first."""
    names: pa.Array
    """What each is called."""

    @classmethod
    def of(cls, ranges: Sequence[Interval], names: pa.Array) -> Buckets:
        """The buckets that some ranges of time, one behind the other, are."""
        starts = [INT64_MIN if each.start is None else each.start for each in ranges]
        return cls(np.array(starts, np.int64), names)


class Grouped(NamedTuple):
    """The groups of some rows."""

    groups: Codes
    """The number of each row's group."""
    size: int
    """Numbers are below it; some may have no row."""


def single(rows: int) -> Grouped:
    """All rows as one group."""
    return Grouped(np.zeros(rows, np.int32), 1)


def each_its_own(rows: int) -> Grouped:
    """Each row as a group."""
    return Grouped(np.arange(rows, dtype=np.int32), rows)


def grouped(keys: Sequence[Grouped]) -> Grouped:
    """The groups of rows by several keys. Raises :class:`TooMany`."""
    found = keys[0]
    for each in keys[1:]:
        count = found.size * each.size
        if count <= _DENSE:
            groups = np.empty(len(found.groups), np.int32)
            kernels.combine(found.groups, each.groups, each.size, groups)
            found = Grouped(groups, count)
        else:
            words = np.empty(len(found.groups), np.int64)
            kernels.combine_wide(found.groups, each.groups, each.size, words)
            found = _numbered(words)
    return found


def of_times(times: Ints, buckets: Buckets) -> Grouped:
    """The buckets of times, which do not fall."""
    first = int(buckets.cuts.searchsorted(times[0], "right")) - 1
    last = int(buckets.cuts.searchsorted(times[-1], "right")) - 1
    ends = times.searchsorted(buckets.cuts[first + 1 : last + 1])
    lengths = np.diff(np.concatenate([[0], ends, [len(times)]]))
    return Grouped(np.repeat(np.arange(first, last + 1, dtype=np.int32), lengths), len(buckets.cuts))


def of_values(column: pa.Array) -> Grouped:
    """Equal values as a group; nulls are one. Raises :class:`TooMany`."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        codes, count = column.indices.to_numpy(zero_copy_only=False), len(column.dictionary)
        if not column.null_count:
            return Grouped(np.ascontiguousarray(codes, np.int32), count)
        codes = column.indices.fill_null(count).to_numpy(zero_copy_only=False)
        return Grouped(np.ascontiguousarray(codes, np.int32), count + 1)
    if pa.types.is_floating(kind):
        words = np.empty(len(column), np.int64)
        kernels.float_words(np.ascontiguousarray(numbers(column), np.float64), words)
    elif pa.types.is_integer(kind) or pa.types.is_temporal(kind) or pa.types.is_boolean(kind):
        words = words_of(column)
    else:
        return of_values(pc.dictionary_encode(column))
    valid = valid_rows(column)
    if valid is None:
        return _of_words(words)
    found = _of_words(np.where(valid, words, words[int(np.argmax(valid))]))
    return Grouped(np.where(valid, found.groups, np.int32(found.size)).astype(np.int32), found.size + 1)


def likely_groups(rows: int, among: int, groups: int) -> float:
    """How many groups so many rows have, if there were so many groups among others, and each is as likely anywhere."""
    if groups >= among:
        return rows
    low, high = float(groups), float(groups)
    while _seen(high, among) < groups:
        high *= 2
    while high - low > 1:
        middle = (low + high) / 2
        low, high = (middle, high) if _seen(middle, among) < groups else (low, middle)
    return _seen(high, rows)


def _seen(groups: float, rows: int) -> float:
    """How many of some groups so many rows have, if each is as likely."""
    return -groups * math.expm1(-rows / groups)


def words_of(column: pa.Array) -> Ints:
    """Numbers that are no floats as words, in their order."""
    if pa.types.is_uint64(column.type):
        return (numbers(column) ^ np.uint64(1 << 63)).view(np.int64)
    if pa.types.is_date64(column.type):
        column = column.view(pa.int64())
    return np.ascontiguousarray(numbers(column), np.int64)


def _of_words(words: Ints) -> Grouped:
    low, high = int(words.min()), int(words.max())
    if high - low < _DENSE:
        return Grouped((words - low).astype(np.int32), high - low + 1)
    return _numbered(words)


def _numbered(words: Ints) -> Grouped:
    """Words numbered in the order in which they first come."""
    codes = np.empty(len(words), np.int32)
    room = _FIRST_ROOM
    while True:
        table = np.full(2 * room, -1, np.int32)
        count = int(kernels.number(words, table, np.empty(room, np.int64), codes))
        looked_at = len(words) if count >= 0 else -1 - count
        found = room if count < 0 else count
        if looked_at >= _LEAST_LOOKED_AT and found * _LEAST_SHARE > looked_at:
            raise TooMany
        if count >= 0:
            return Grouped(codes, max(count, 1))
        room *= _GROWTH
