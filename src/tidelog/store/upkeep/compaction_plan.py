"""Which splits of a stream are worth merging: a decision by the manifest alone, without a look at any file.

Two things make a stream slow to read: many small splits, each with a file and a tree of its own, and splits whose times
overlap, which have to be merged by every reader. Against the first, splits that are neighbours in time and of similar
size are merged, *tier* by tier, so that a row is written again about once for each tier and not with every commit.
Against the second, what lies over a split of full size is merged into it once it has grown to a share of it; what of
that reaches beyond it stays a split of its own, so that a few rows over many splits have none of these written again.

Regular splits (the option ``split``) keep their boundaries (spec/event-store.md 5.1): splits that are inside of one
interval are merged among themselves, and with one that spans several only if that makes no more files than there were.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from tidelog.model.times.interval import ALL_TIME, Interval
from tidelog.store.manifest.manifest import Manifest
from tidelog.store.manifest.split_info import SplitInfo
from tidelog.store.split.merge_policy import MergePolicy

MOST_INPUTS: Final = 1 << 14
"""Splits that are merged at once at most, if they come one after the other."""

MOST_AT_ONCE: Final = 128
"""Splits that are open at once while they are merged."""

READING_BYTES: Final = 256 << 20
"""Memory for the rows at hand of all splits that are open at once, by estimate."""

_AHEAD_BYTES: Final = 16 << 20
"""What reading a large split takes: batches decoded ahead."""

_EXPANSION: Final = 4
"""How many times larger rows are in memory than in a file, in the estimate for small ones."""

_SMALLEST_TIER: Final = 512 << 10


@dataclass(frozen=True, slots=True)
class Merge:
    """Splits to be merged into one, or into several that do not overlap."""

    inputs: tuple[SplitInfo, ...]
    width: int | None
    """The results are cut at multiples of this length of time; None if they are not."""
    edges: tuple[int, ...] = ()
    """They are cut at these times too, which rise."""

    @property
    def bytes(self) -> int:
        """What has to be read."""
        return sum(split.bytes for split in self.inputs)


def choose_merge(manifest: Manifest, policy: MergePolicy, most_bytes: int | None = None) -> Merge | None:
    """The merge that is worth most at the moment; None if none is.

    ``most_bytes`` is what it may read at most. Small neighbours come first, smallest tier first.
    """
    return next(choose_merges(manifest, policy, most_bytes), None)


def choose_merges(
    manifest: Manifest, policy: MergePolicy, most_bytes: int | None = None, within: Interval = ALL_TIME
) -> Iterator[Merge]:
    """Merges that are worth the work and can be made at once, the one that is worth most first.

    No split is in two of them, and what they make overlaps no more than what was there. Splits that are not whole
    ``within`` an interval stay as they are. There may be more to merge when all of these are made.
    """
    target = manifest.options.split_bytes
    width = manifest.options.split_ticks(manifest.schema.clock)
    splits = sorted(
        manifest.splits.values(),
        key=lambda split: (split.time_min, split.time_max, split.name),
    )
    small_bytes = target if most_bytes is None else min(target, most_bytes)
    fixed = {split.name for split in splits if split.kind == "coarse" or not is_within(split, within)}
    """The names of splits that stay, or that are in a merge already."""
    for floor, limit in _tiers(target, policy.growth):
        for run in _runs(splits, limit, width, fixed):
            for chosen in _windows(run, small_bytes, policy.least, floor):
                yield Merge(chosen, cut_width(chosen, width))
                fixed.update(split.name for split in chosen)
    for group in _overlapping([split for split in splits if split.name not in fixed]):
        yield from _overlap_merges(group, policy, target, width, most_bytes)


def reading_memory(split: SplitInfo) -> int:
    """What the rows of a small split take in memory, by estimate."""
    return split.bytes * _EXPANSION


def is_within(split: SplitInfo, interval: Interval) -> bool:
    """Whether all events of a split are in an interval."""
    return interval.contains(split.time_min) and interval.contains(split.time_max)


def _tiers(target: int, growth: int | None) -> Iterator[tuple[int, int]]:
    """Sizes of small splits, from the first up to the second, ascending."""
    floor, limit = 0, _SMALLEST_TIER
    while growth is not None and limit < target // 2:
        yield floor, limit
        floor, limit = limit, limit * growth
    yield floor, target // 2


# Small neighbours. ------------------------------------------------------------------------------------


def _runs(
    splits: Sequence[SplitInfo], limit: int, width: int | None, fixed: Collection[str]
) -> Iterator[list[SplitInfo]]:
    """Splits of less than so many bytes that follow one another, so that one in their place overlaps nothing new.

    Those with ``fixed`` names count as larger ones.
    """
    run: list[SplitInfo] = []
    reach = 0
    larger: list[SplitInfo] = []
    for split in splits:
        if split.bytes >= limit or split.name in fixed:
            larger.append(split)
            continue
        if run and not _continues(run[-1], reach, split, larger, width):
            yield run
            run = []
        reach = max(reach, split.time_max) if run else split.time_max
        run.append(split)
        larger = [each for each in larger if each.time_max > split.time_min]
    if run:
        yield run


def _continues(last: SplitInfo, reach: int, split: SplitInfo, larger: Sequence[SplitInfo], width: int | None) -> bool:
    """Whether a split may be merged with those before it, which end with ``last`` and reach up to a time."""
    interval = _interval(split, width)
    if interval != _interval(last, width):
        return False
    if split.time_min < reach:
        return True
    if width is not None and interval is None:
        return False
    # What is between them would be overlapped by the result; it may be if it overlaps both already.
    return all(each.time_max <= reach or (each.time_min < reach and each.time_max > split.time_min) for each in larger)


def _windows(run: Sequence[SplitInfo], most_bytes: int, least: int, floor: int) -> Iterator[tuple[SplitInfo, ...]]:
    """Splits of a run that can be merged together, as long as so many of them have ``floor`` bytes or more.

    Smaller ones between them come along, but are no reason to write the others again.
    """
    start = 0
    while len(run) - start >= least:
        count = _fitting(run[start:], most_bytes)
        window = run[start : start + count]
        if sum(split.bytes >= floor for split in window) >= least:
            yield tuple(window)
        start += max(count, 1)


def _fitting(splits: Sequence[SplitInfo], most_bytes: int | None) -> int:
    """How many splits, from the first on, can be read together: by their bytes, files and memory."""
    total = memory = 0
    open_ends: list[tuple[int, int]] = []
    for count, split in enumerate(splits):
        total += split.bytes
        while open_ends and open_ends[0][0] < split.time_min:
            memory -= heapq.heappop(open_ends)[1]
        own = min(reading_memory(split), _AHEAD_BYTES)
        heapq.heappush(open_ends, (split.time_max, own))
        memory += own
        is_too_much = most_bytes is not None and total > most_bytes
        if is_too_much or count == MOST_INPUTS or len(open_ends) > MOST_AT_ONCE or memory > READING_BYTES:
            return count
    return len(splits)


# Overlapping splits. ----------------------------------------------------------------------------------


def _overlapping(splits: Sequence[SplitInfo]) -> Iterator[list[SplitInfo]]:
    """Groups of splits that overlap one another, directly or by way of others; those that share one instant do not."""
    group: list[SplitInfo] = []
    reach = 0
    for split in splits:
        if group and split.time_min >= reach:
            if len(group) > 1:
                yield group
            group = []
        reach = max(reach, split.time_max) if group else split.time_max
        group.append(split)
    if len(group) > 1:
        yield group


def _overlap_merges(
    group: list[SplitInfo], policy: MergePolicy, target: int, width: int | None, most_bytes: int | None
) -> Iterator[Merge]:
    """What to merge of a group of splits that overlap one another, then of those that are left."""
    if policy.share:
        yield from _grown_merges(group, policy.share, target // 2, width, most_bytes)
        return
    merge = _overlap_merge(group, width, most_bytes)
    if merge is not None:
        yield merge
        chosen = {split.name for split in merge.inputs}
        for rest in _overlapping([split for split in group if split.name not in chosen]):
            yield from _overlap_merges(rest, policy, target, width, most_bytes)


def _overlap_merge(group: list[SplitInfo], width: int | None, most_bytes: int | None) -> Merge | None:
    """What to merge first of a group of splits that overlap one another, for none to overlap another in the end."""
    for start in range(len(group) - 1):
        chosen = group[start : start + max(_fitting(group[start:], most_bytes), 1)]
        chosen = next(iter(_overlapping(chosen)), [])
        if not chosen:
            continue
        cut = cut_width(chosen, width)
        if width is None or cut is not None or all(_interval(split, width) is None for split in chosen):
            return Merge(tuple(chosen), cut)
        alike = [split for split in chosen if _interval(split, width) == _interval(chosen[0], width)]
        alike = next(iter(_overlapping(alike)), [])
        if alike:
            return Merge(tuple(alike), cut_width(alike, width))
    return None


def _grown_merges(
    group: list[SplitInfo], share: float, full_bytes: int, width: int | None, most_bytes: int | None
) -> Iterator[Merge]:
    """What lies over splits of full size, and has grown to a share of them, is merged into them.

    Then the same for what is left of that: splits of full size that lie over others may be covered themselves, and when
    they are merged each of them is over fewer others.
    """
    pending = [group]
    while pending:
        covered = _Covered(pending.pop(), full_bytes, group)
        taken: set[str] = set()
        for merge in covered.merges(share, width, most_bytes):
            yield merge
            taken.update(split.name for split in merge.inputs)
        if covered.full:
            pending.extend(_overlapping([split for split in covered.others if split.name not in taken]))


class _Covered:
    """Splits of full size that do not overlap one another, in the order of their times, and what lies over them."""

    def __init__(self, splits: Sequence[SplitInfo], full_bytes: int, group: Sequence[SplitInfo]) -> None:
        """Of splits that overlap one another; those of so many bytes are of full size.

        In the ``group`` are all that are at the same times.
        """
        self._group = group
        self.full = _apart([split for split in splits if split.bytes >= full_bytes])
        names = {split.name for split in self.full}
        self.others = [split for split in splits if split.name not in names]
        lows, highs = [each.time_min for each in self.full], [each.time_max for each in self.full]
        self._over: list[list[SplitInfo]] = [[] for _ in self.full]
        """What lies over each of them."""
        for other in self.others:
            for index in range(bisect_right(highs, other.time_min), bisect_left(lows, other.time_max)):
                self._over[index].append(other)

    def merges(self, share: float, width: int | None, most_bytes: int | None) -> Iterator[Merge]:
        """Those that are covered by a share of their bytes, each with what covers it; neighbours together."""
        taken: set[str] = set()
        index = 0
        while index < len(self.full):
            first, inputs = index, dict[str, SplitInfo]()
            while index < len(self.full):
                more = inputs | {split.name: split for split in self._due(index, share, taken)}
                ordered = sorted(more.values(), key=lambda split: (split.time_min, split.time_max, split.name))
                if len(more) == len(inputs) or _fitting(ordered, most_bytes) < len(ordered):
                    break
                inputs, chosen = more, ordered
                index += 1
            if inputs:
                taken |= inputs.keys()
                yield Merge(
                    tuple(chosen), cut_width(chosen, width), tuple(sorted(self._edges(first, index, inputs, width)))
                )
            else:
                index += 1

    def _due(self, index: int, share: float, taken: Collection[str]) -> list[SplitInfo]:
        """A split with all that lies over it, if that is a share of its bytes; nothing if another merge has a part."""
        full, over = self.full[index], self._over[index]
        if any(split.name in taken for split in over):
            return []
        covering = sum(split.bytes * _part_within(split, full) for split in over)
        return [full, *over] if over and covering >= share * full.bytes else []

    def _edges(self, first: int, last: int, chosen: Collection[str], width: int | None) -> set[int]:
        """Where to cut the results of a merge of some splits of full size, ``first`` to ``last``, and others.

        Each stays for itself, with the rows between it and the next one, unless somebody else has such. What is over
        other splits of full size stays over these.
        """
        edges: set[int] = set()
        for index in range(first, last + 1):
            before = self.full[index - 1].time_max if index else None
            behind = self.full[index].time_min if index < len(self.full) else None
            is_between = any(
                (before is None or split.time_max > before) and (behind is None or split.time_min < behind)
                for split in self._group
                if split.name not in chosen
            )
            # Before the first one, these rows are the first one's own, behind the others the other one's.
            if before is not None and (is_between or index == first):
                edges.add(before + 1)
            if behind is not None and (is_between or index > first):
                edges.add(behind)
        if width is not None:
            for split in self.full[first:last]:
                number = _interval(split, width)
                whole = (split.time_min, split.time_max + 1)
                edges.update(whole if number is None else (number * width, (number + 1) * width))
        return edges


def _apart(splits: Sequence[SplitInfo]) -> list[SplitInfo]:
    """Splits, of those given, that do not overlap one another and have as many bytes as possible; in order of time."""
    ordered = sorted(splits, key=lambda split: (split.time_max, split.time_min, split.name))
    ends = [split.time_max for split in ordered]
    # The most bytes among the first so many, and how many of them can stay if the last one of these does.
    most, before = [0], list[int]()
    for index, split in enumerate(ordered):
        before.append(min(bisect_right(ends, split.time_min), index))
        most.append(max(most[-1], most[before[-1]] + split.bytes))
    chosen, count = list[SplitInfo](), len(ordered)
    while count:
        if most[count] == most[count - 1]:
            count -= 1
        else:
            chosen.append(ordered[count - 1])
            count = before[count - 1]
    return chosen[::-1]


def _part_within(split: SplitInfo, other: SplitInfo) -> float:
    """Which part of its rows a split has within the times of another, if they are spread evenly."""
    inside = min(split.time_max, other.time_max) - max(split.time_min, other.time_min) + 1
    return max(inside, 0) / (split.time_max - split.time_min + 1)


# Boundaries. ------------------------------------------------------------------------------------------


def _interval(split: SplitInfo, width: int | None) -> int | None:
    """The number of the regular interval that a split is in; None if it is in several, or if there are none."""
    if width is None:
        return None
    first = split.time_min // width
    return first if first == split.time_max // width else None


def cut_width(splits: Sequence[SplitInfo], width: int | None) -> int | None:
    """The width to cut the results of a merge at: that of regular splits, unless it makes more files than there are."""
    if width is None:
        return None
    first = min(split.time_min for split in splits) // width
    last = max(split.time_max for split in splits) // width
    return width if last - first < len(splits) else None


# Shares of one merge. ---------------------------------------------------------------------------------


def divided(splits: Sequence[SplitInfo], target: int, width: int | None = None) -> list[Interval]:
    """Intervals of time, all time together, in each of which some splits have about ``target`` bytes, or more.

    So that a large merge can be done in parts, none of which makes a small split. They are cut at multiples of
    ``width`` if that is given. Rows are taken to be spread evenly over the times of their split.
    """
    count = sum(split.bytes for split in splits) // target
    if count < 2:
        return [ALL_TIME]
    lows = np.array([split.time_min for split in splits], np.float64)
    spans = np.array([split.time_max - split.time_min + 1 for split in splits], np.float64)
    sizes = np.array([split.bytes for split in splits], np.float64)
    points: list[float] = np.unique(np.concatenate([lows, lows + spans])).tolist()

    def before(point: float) -> float:
        """Bytes before a time. They grow evenly from one point to the next."""
        return float((sizes * np.clip((point - lows) / spans, 0, 1)).sum())

    cuts = set()
    for wanted in (before(points[-1]) * np.arange(1, count) / count).tolist():
        # Asking for all points would take time in proportion to the square of the number of splits.
        at = bisect_left(points, wanted, lo=1, hi=len(points) - 1, key=before)
        near, behind = before(points[at - 1]), before(points[at])
        cut = int(points[at - 1] + (points[at] - points[at - 1]) * (wanted - near) / (behind - near))
        cuts.add(cut if width is None else cut // width * width)
    first, last = min(split.time_min for split in splits), max(split.time_max for split in splits)
    return [Interval(*pair) for pair in pairwise([None, *sorted(cut for cut in cuts if first < cut <= last), None])]
