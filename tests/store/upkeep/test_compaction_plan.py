from __future__ import annotations

from dataclasses import replace
from itertools import combinations, count, pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.model import Schema
from tidelog.model.times.interval import ALL_TIME, Interval
from tidelog.store.manifest.manifest import Manifest, SplitInfo
from tidelog.store.manifest.options import StreamOptions
from tidelog.store.split.merge_policy import AUTOMATIC, THOROUGH, MergePolicy
from tidelog.store.upkeep.compaction_plan import MOST_AT_ONCE, Merge, choose_merge, choose_merges, divided

MB = 1 << 20
SCHEMA = Schema(pa.schema([pa.field("ts", pa.int64(), nullable=False)]), "ts")
_names = count()


def split(first: int, last: int, bytes: int = MB // 16, **values: object) -> SplitInfo:
    known = {"rows": 1, "seq_min": 0, "seq_max": 9, "kind": "loaded", "created_at": 0.0, **values}
    name = f"{next(_names):013d}-0123456789abcdef.tide"
    return SplitInfo(name=name, bytes=bytes, time_min=first, time_max=last, **known)  # type: ignore[arg-type]


def manifest(*splits: SplitInfo, **options: object) -> Manifest:
    known = StreamOptions(**{"split_bytes": 64 * MB, **options})  # type: ignore[arg-type]
    return Manifest(schemas=(SCHEMA,), options=known, splits={each.name: each for each in splits})


def merged(state: Manifest, merge: Merge) -> Manifest:
    """The manifest after a merge, if no byte is saved and results are cut at their size."""
    splits = {name: info for name, info in state.splits.items() if info not in merge.inputs}
    first = min(each.time_min for each in merge.inputs)
    last = max(each.time_max for each in merge.inputs)
    cuts = {first, last + 1, *(edge for edge in merge.edges if first < edge <= last)}
    if merge.width is not None:
        inner = range(first // merge.width + 1, last // merge.width + 1)
        cuts |= {place * merge.width for place in inner}
    pieces = [(low, high - 1) for low, high in pairwise(sorted(cuts))]
    for low, high in pieces:
        made = split(low, high, max(merge.bytes // len(pieces), 1), kind="compacted")
        splits[made.name] = made
    return replace(state, splits=splits)


def overlap(one: SplitInfo, other: SplitInfo) -> bool:
    return one.time_min < other.time_max and other.time_min < one.time_max


def intervals(info: SplitInfo, width: int) -> range:
    return range(info.time_min // width, info.time_max // width + 1)


class TestAutomatic:
    def test_few_small_splits_are_left_alone(self) -> None:
        assert choose_merge(manifest(*(split(i * 10, i * 10 + 5) for i in range(7))), AUTOMATIC) is None

    def test_many_small_neighbours_are_merged(self) -> None:
        splits = [split(i * 10, i * 10 + 5) for i in range(8)]
        merge = choose_merge(manifest(*reversed(splits)), AUTOMATIC)
        assert merge is not None
        assert list(merge.inputs) == splits

    def test_sizes_of_other_tiers_are_left_out(self) -> None:
        grown = [split(i * 10, i * 10 + 5, 3 * MB) for i in range(7)]
        fresh = [split(100 + i * 10, 105 + i * 10) for i in range(9)]
        merge = choose_merge(manifest(*grown, *fresh), AUTOMATIC)
        assert merge is not None
        assert list(merge.inputs) == fresh

    def test_a_full_split_parts_neighbours(self) -> None:
        left, right = ([split(at + i * 10, at + i * 10 + 5) for i in range(5)] for at in (0, 2000))
        full = split(100, 1900, 60 * MB)
        assert choose_merge(manifest(*left, full, *right), AUTOMATIC) is None
        assert choose_merge(manifest(*left, *right), AUTOMATIC) is not None

    def test_what_lies_over_a_full_split_is_merged_with_its_like(self) -> None:
        full = split(0, 2000, 60 * MB)
        late = [split(i * 100, i * 100 + 10) for i in range(8)]
        merge = choose_merge(manifest(full, *late), AUTOMATIC)
        assert merge is not None
        assert list(merge.inputs) == late

    def test_what_lies_over_a_full_split_is_merged_into_it_when_it_has_grown(self) -> None:
        full = split(0, 2000, 60 * MB)
        assert choose_merge(manifest(full, split(100, 200, 14 * MB)), AUTOMATIC) is None
        merge = choose_merge(manifest(full, split(100, 200, 16 * MB)), AUTOMATIC)
        assert merge is not None
        assert full in merge.inputs

    def test_a_few_rows_over_many_full_splits_have_none_of_them_written_again(self) -> None:
        full = [split(i * 10, i * 10 + 9, 60 * MB) for i in range(10)]
        assert choose_merge(manifest(*full, split(1, 98, 31 * MB)), AUTOMATIC) is None
        assert choose_merge(manifest(*full, split(1, 98, 31 * MB)), THOROUGH) is not None

    def test_what_reaches_beyond_a_full_split_stays_apart(self) -> None:
        full = [split(i * 100, i * 100 + 90, 60 * MB) for i in range(4)]
        late = split(150, 290, 31 * MB)
        merge = choose_merge(manifest(*full, late), AUTOMATIC)
        assert merge == Merge((late, full[2]), None, (191,))
        # Where somebody else is between two of them, nothing new is put there.
        merge = choose_merge(manifest(*full, late, split(193, 194)), AUTOMATIC)
        assert merge == Merge((late, full[2]), None, (191, 200))

    def test_neighbours_that_are_covered_are_merged_together_and_stay_apart(self) -> None:
        full = [split(i * 100, i * 100 + 90, 60 * MB) for i in range(6)]
        late = [split(150, 350, 31 * MB) for _ in range(2)]
        merge = choose_merge(manifest(*full, *late), AUTOMATIC)
        assert merge is not None
        assert {*merge.inputs} == {*full[2:4], *late}
        assert merge.edges == (191, 300)
        merge = choose_merge(manifest(*full, *late, split=100), AUTOMATIC)
        assert merge is not None
        assert merge.edges == (191, 200, 300, 400)

    @pytest.mark.parametrize("width", [None, 10])
    def test_rows_all_over_full_splits_are_rewritten_a_few_times(self, width: int | None) -> None:
        """Bytes at each of some times, late ones at all of them: they are read as often as levels above full splits."""
        ticks, late, commits = 100, MB, 200
        state = manifest(*(split(at, at + 9, 60 * MB) for at in range(0, ticks, 10)), split=width)
        held = {each.name: np.zeros(ticks) for each in state.splits.values()}
        for each in state.splits.values():
            held[each.name][each.time_min : each.time_max + 1] = 6 * MB
        read = 0
        for _ in range(commits):
            made = split(0, ticks - 1, late)
            state = replace(state, splits={**state.splits, made.name: made})
            held[made.name] = np.full(ticks, late / ticks)
            while (merge := choose_merge(state, AUTOMATIC, 4 * 64 * MB)) is not None:
                read += merge.bytes
                rows = np.sum([held.pop(each.name) for each in merge.inputs], axis=0)
                splits = {name: info for name, info in state.splits.items() if info not in merge.inputs}
                start = 0
                for at in range(1, ticks + 1):
                    size = int(rows[start:at].sum())
                    cut = at in merge.edges or (merge.width is not None and at % merge.width == 0)
                    if size and (cut or size >= 64 * MB or at == ticks):
                        there = np.flatnonzero(rows[start:at]) + start
                        new = split(int(there[0]), int(there[-1]), size)
                        held[new.name] = np.where((np.arange(ticks) >= start) & (np.arange(ticks) < at), rows, 0)
                        splits[new.name] = new
                        start = at
                state = replace(state, splits=splits)
        assert read < 12 * commits * late
        assert len(state.splits) < 40

    def test_a_row_is_rewritten_a_few_times(self) -> None:
        """Commits of 64 KB, merged whenever that is due: bytes are read for as many tiers as they climb."""
        state, read = manifest(split_bytes=1 << 30), 0
        commits = 3000
        for index in range(commits):
            made = split(index * 10, index * 10 + 5)
            state = replace(state, splits={**state.splits, made.name: made})
            while (merge := choose_merge(state, AUTOMATIC)) is not None:
                read += merge.bytes
                state = merged(state, merge)
        assert len(state.splits) < 32
        assert read < 5 * commits * MB // 16


class TestThorough:
    def test_neighbours_stay_in_their_regular_intervals(self) -> None:
        state = manifest(*(split(i * 10, i * 10 + 5) for i in range(20)), split=100)
        while (merge := choose_merge(state, THOROUGH)) is not None:
            state = merged(state, merge)
        assert [(each.time_min, each.time_max) for each in state.splits.values()] == [(0, 95), (100, 195)]

    def test_wide_merges_are_done_in_steps(self) -> None:
        state = manifest(*(split(i, 10_000 + i) for i in range(1000)))
        widths = []
        while (merge := choose_merge(state, THOROUGH)) is not None:
            widths.append(len(merge.inputs))
            state = merged(state, merge)
        assert len(state.splits) == 1
        assert max(widths) == MOST_AT_ONCE

    def test_splits_that_share_an_instant_do_not_overlap(self) -> None:
        assert choose_merge(manifest(split(0, 10, 60 * MB), split(10, 20, 60 * MB)), THOROUGH) is None

    @given(
        st.lists(st.tuples(st.integers(0, 200), st.integers(0, 60), st.sampled_from([1, 3, 20, 40, 70])), max_size=25),
        st.sampled_from([None, 10, 50]),
        st.sampled_from([None, 60 * MB, 200 * MB]),
    )
    def test_it_comes_to_an_end(self, shapes: list[tuple[int, int, int]], width: int | None, most: int | None) -> None:
        splits = [split(first, first + length, size * MB) for first, length, size in shapes]
        state = manifest(*splits, split=width, split_bytes=64 * MB)
        for _ in range(10 * len(splits) + 1):
            merge = choose_merge(state, THOROUGH, most)
            if merge is None:
                break
            assert len(merge.inputs) > 1
            assert most is None or merge.bytes <= most
            if width is not None:
                alone = [each for each in merge.inputs if len(intervals(each, width)) == 1]
                if merge.width is None:
                    assert not alone, "a regular interval's split was merged into one across its boundary"
            state = merged(state, merge)
        else:
            raise AssertionError("there is always one more merge")
        if most is None and width is None:
            assert not any(overlap(*pair) for pair in combinations(state.splits.values(), 2))


class TestManyAtOnce:
    """Rounds of merges that are made side by side."""

    @given(
        st.lists(st.tuples(st.integers(0, 200), st.integers(0, 60), st.sampled_from([1, 3, 20, 40, 70])), max_size=25),
        st.sampled_from([None, 10, 50]),
        st.sampled_from([THOROUGH, AUTOMATIC]),
        st.tuples(st.integers(0, 260), st.integers(0, 260)),
    )
    def test_rounds_come_to_an_end_and_add_no_overlap(
        self, shapes: list[tuple[int, int, int]], width: int | None, policy: MergePolicy, bounds: tuple[int, int]
    ) -> None:
        splits = [split(first, first + length, size * MB) for first, length, size in shapes]
        state = manifest(*splits, split=width, split_bytes=64 * MB)
        within = Interval(min(bounds), max(bounds))
        for _ in range(10 * len(splits) + 1):
            merges = list(choose_merges(state, policy, None, within))
            inputs = [each for merge in merges for each in merge.inputs]
            assert len({each.name for each in inputs}) == len(inputs), "a split is in two merges"
            assert all(within.contains(each.time_min) and within.contains(each.time_max) for each in inputs)
            if not merges:
                break
            before = list(state.splits.values())
            for merge in merges:
                state = merged(state, merge)
            for one, other in combinations(state.splits.values(), 2):
                if overlap(one, other):
                    assert any(
                        _meet(one, old) and _meet(other, new) and overlap(old, new) for old, new in _pairs(before)
                    )
        else:
            raise AssertionError("there is always one more merge")

    def test_neighbours_are_merged_in_one_round(self) -> None:
        state = manifest(*(split(i * 10, i * 10 + 5) for i in range(1000)), split=1000)
        merges = list(choose_merges(state, THOROUGH))
        assert [len(merge.inputs) for merge in merges] == [100] * 10

    def test_a_chain_of_large_splits_is_one_merge_of_many_shares(self) -> None:
        chain = [split(i * 100, i * 100 + 150, 60 * MB) for i in range(64)]
        (merge,) = choose_merges(manifest(*chain), THOROUGH)
        assert len(divided(merge.inputs, 64 * MB)) == 60

    def test_more_than_can_be_read_at_once_is_merged_in_parts(self) -> None:
        pile = [split(i, 1000 + i, 60 * MB) for i in range(48)]
        merges = list(choose_merges(manifest(*pile), THOROUGH))
        assert [len(merge.inputs) for merge in merges] == [16, 16, 16]


def _pairs(splits: list[SplitInfo]) -> list[tuple[SplitInfo, SplitInfo]]:
    return [pair for one, other in combinations(splits, 2) for pair in ((one, other), (other, one))]


def _meet(one: SplitInfo, other: SplitInfo) -> bool:
    return one.time_min <= other.time_max and other.time_min <= one.time_max


class TestDivided:
    def test_small_ones_are_left_whole(self) -> None:
        assert divided([split(0, 100, 60 * MB), split(50, 200, 60 * MB)], 64 * MB) == [ALL_TIME]

    @given(
        st.lists(st.tuples(st.integers(-200, 200), st.integers(0, 100), st.integers(1, 90)), min_size=1, max_size=12),
        st.sampled_from([None, 7, 50]),
    )
    def test_all_time_is_divided(self, shapes: list[tuple[int, int, int]], width: int | None) -> None:
        splits = [split(first, first + length, size * MB) for first, length, size in shapes]
        found = divided(splits, 64 * MB, width)
        assert (found[0].start, found[-1].end) == (None, None)
        assert all(one.end == other.start for one, other in pairwise(found))
        assert all(not each.is_empty for each in found)
        assert len(found) <= max(sum(each.bytes for each in splits) // (64 * MB), 1)
        if width is not None:
            assert all(each.end is None or each.end % width == 0 for each in found)

    def test_shares_are_about_equal(self) -> None:
        """One split of a whole year, and one with as many bytes in its last day."""
        year, day = split(0, 365_000 - 1, 640 * MB), split(364_000, 365_000 - 1, 640 * MB)
        found = divided([year, day], 128 * MB)
        assert len(found) == 10
        sizes = [
            sum(_length(each, info) / (info.time_max + 1 - info.time_min) * info.bytes for info in (year, day))
            for each in found
        ]
        assert max(sizes) < 1.1 * min(sizes)


def _length(interval: Interval, info: SplitInfo) -> int:
    inside = interval.intersect(info.interval)
    assert inside.start is not None
    assert inside.end is not None
    return max(inside.end - inside.start, 0)
