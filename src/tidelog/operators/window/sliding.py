"""Slices merged into windows, each with a number of merges that does not depend on the size of windows.

Windows are ranges of slices, both ends of which rise. All ranges that have a point in common are made of two parts, up
to the point and from it on: for each slice before the point it is merged with all up to the point, for each behind it
with all from the point on, once, and then every range takes one merge. The next range that begins behind the point
chooses its own end as the next one. These are the two stacks by which a queue is aggregated, for whole arrays: it takes
about five merges a slice for any function that can be merged, and needs no inverse.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tidelog.aggregates.base import States
from tidelog.aggregates.contract import Fold
from tidelog.operators.base import Ints
from tidelog.operators.window import kernels


@dataclass(slots=True)
class _Point:
    """What windows that have a point in common share."""

    at: int
    """The place of the point among all slices."""
    begin: int
    """The place of the first slice in front of it that is known."""
    front: list[States]
    """For each aggregate and each slice from ``begin`` to the point all from it to the point merged."""
    end: int
    """The place up to which slices from the point on were merged."""
    back: list[States]
    """For each aggregate the slices from the point to ``end`` merged; of no slices if there are none."""


class Sliding:
    """Slices one behind the other, numbered from 0, and the merges of ranges of them."""

    def __init__(self, folds: Sequence[Fold]) -> None:
        self._folds = tuple(folds)
        self._blocks: list[list[States]] = []
        self._bounds = [0]
        """The places of the first slices of blocks, and that of the next slice."""
        self._point: _Point | None = None

    def append(self, states: list[States]) -> None:
        """Put slices behind the others: for each aggregate their states."""
        if len(states[0]) if states else False:
            self._blocks.append(states)
            self._bounds.append(self._bounds[-1] + len(states[0]))

    def drop(self, before: int) -> None:
        """Forget slices; no range will begin before this place any more."""
        gone = bisect_right(self._bounds, before) - 1
        gone = min(gone, len(self._blocks))
        if gone > 0:
            del self._blocks[:gone], self._bounds[:gone]

    def merged(self, firsts: Ints, lasts: Ints) -> list[States]:
        """For each aggregate the merges of ranges from ``firsts[i]`` to ``lasts[i]`` (exclusive), none of them empty.

        Both rise, and do so from one call to the next.
        """
        if (lasts - firsts == 1).all():  # nothing to merge
            self._point = None
            first = int(firsts[0])
            return [chosen(states, firsts - first) for states in self._states(first, int(lasts[-1]))]
        known = 0 if self._point is None else int(np.searchsorted(firsts, self._point.at))
        parts = []
        if known:
            parts.append(self._around(firsts[:known], lasts[:known]))
        if known < len(firsts):
            parts.append(self._anew(firsts[known:], lasts[known:]))
        if len(parts) == 1:
            return parts[0]
        return [np.concatenate(states) for states in zip(*parts, strict=True)]

    def _around(self, firsts: Ints, lasts: Ints) -> list[States]:
        """Ranges around the point that is known."""
        point = self._point
        assert point is not None
        reached, end = point.end, int(lasts[-1])
        found = []
        has_more = end > reached
        cuts = np.array([0, 1 + end - reached], np.int64)
        fresh = self._states(reached, end) if has_more else []
        for place, fold in enumerate(self._folds):
            back = point.back[place]
            if has_more:
                back = fold.scan(np.concatenate([back, fresh[place]]), cuts)
            front = chosen(point.front[place], firsts - point.begin)
            found.append(fold.plus(front, chosen(back, lasts - reached)))
            point.back[place] = back[-1:]
        point.end = end
        return found

    def _anew(self, firsts: Ints, lasts: Ints) -> list[States]:
        """Ranges behind the point that is known, or the first ones."""
        low, high = int(firsts[0]), int(lasts[-1])
        found, groups = merge_groups(self._folds, self._states(low, high), firsts - low, lasts - low)
        at, begin = int(groups.points[-1]), int(groups.begins[-1])
        front = [states[begin:at].copy() for states in groups.fronts]
        if high - low > at:
            back = [states[high - low - 1 : high - low].copy() for states in groups.backs]
        else:
            back = [fold.start() for fold in self._folds]
        self._point = _Point(low + at, low + begin, front, high, back)
        return found

    def _states(self, first: int, last: int) -> list[States]:
        """The states of slices, for each aggregate."""
        low, high = bisect_right(self._bounds, first) - 1, bisect_right(self._bounds, last - 1)
        found = []
        for place in range(len(self._folds)):
            parts = [block[place] for block in self._blocks[low:high]]
            whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
            found.append(whole[first - self._bounds[low] : last - self._bounds[low]])
        return found


@dataclass(frozen=True, slots=True)
class Groups:
    """Ranges of slices in groups, all of which have a point in common."""

    begins: Ints
    """Where the first range of each group begins."""
    points: Ints
    ends: Ints
    """Where the last range of each group ends."""
    of: Ints
    """The group of each range."""
    fronts: list[States]
    """For each aggregate and each slice in front of a point all from it to the point merged."""
    backs: list[States]
    """For each aggregate and each slice behind a point all from the point to it merged."""


def merge_groups(folds: Sequence[Fold], states: list[States], firsts: Ints, lasts: Ints) -> tuple[list[States], Groups]:
    """For each aggregate the merges of ranges of states, none of them empty, whose bounds rise; and what they share."""
    begins, points, ends = (np.empty(len(firsts), np.int64) for _ in range(3))
    count = kernels.group_ranges(firsts, lasts, begins, points, ends)
    begins, points, ends = begins[:count], points[:count], ends[:count]
    group = np.searchsorted(points, firsts, side="right")  # the first point behind the begin of a range
    in_front, behind = _bounds(begins, points), _bounds(points, ends)
    without = np.flatnonzero(lasts == points[group])  # the first of each group, and maybe some more
    groups = Groups(begins, points, ends, group, [], [])
    found = []
    for fold, own in zip(folds, states, strict=True):
        front = _scanned(fold, own, in_front, backward=True)
        made = chosen(front, firsts)
        back = own
        if len(without) < len(firsts):
            back = _scanned(fold, own, behind, backward=False)
            alone = made[without]
            made = fold.plus(made, chosen(back, lasts - 1))
            made[without] = alone
        found.append(made)
        groups.fronts.append(front)
        groups.backs.append(back)
    return found, groups


def chosen(states: States, places: Ints) -> States:
    """The states at some places, which rise; not copied if they are one behind the other."""
    if len(places) > 1 and (np.diff(places) == 1).all():
        return states[places[0] : places[-1] + 1]
    found: States = states[places]
    return found


def _bounds(begins: Ints, ends: Ints) -> Ints:
    """Cuts between stretches, which do not overlap, and what lies between them."""
    every = np.stack([begins, ends], axis=1).reshape(-1)
    is_new = np.ones(len(every), np.bool_)
    is_new[1:] = every[1:] != every[:-1]
    return every[is_new]


def _scanned(fold: Fold, states: States, cuts: Ints, *, backward: bool) -> States:
    """Running merges between cuts; what is in front of the first one and behind the last one stays as it is."""
    if (np.diff(cuts) < 2).all():
        return states
    low, high = int(cuts[0]), int(cuts[-1])
    if low == 0 and high == len(states):
        return fold.scan(states, cuts, backward=backward)
    found = states.copy()
    found[low:high] = fold.scan(states[low:high], cuts - low, backward=backward)
    return found
