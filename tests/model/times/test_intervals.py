from __future__ import annotations

import pickle
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.model.times.interval import ALL_TIME, Interval
from tidelog.model.times.intervals import ALWAYS, Intervals

UNIVERSE = range(-12, 13)
BOUNDS = st.none() | st.integers(-10, 10)
LISTS = st.lists(st.builds(Interval, BOUNDS, BOUNDS), max_size=6)


def members(intervals: list[Interval]) -> set[int]:
    """The definition, spelled out over a small universe that sticks out on both sides of all bounds."""
    return {
        t
        for t in UNIVERSE
        for each in intervals
        if (each.start is None or t >= each.start) and (each.end is None or t < each.end)
    }


@given(LISTS)
def test_is_a_set_of_instants_kept_in_one_way(given: list[Interval]) -> None:
    found = Intervals(tuple(given))
    assert {t for t in UNIVERSE if found.contains(t)} == members(given)
    assert bool(found) == bool(members(given))
    assert found == Intervals(tuple(reversed(given))) == Intervals(found.spans)
    assert not any(each.is_empty for each in found.spans)
    for one, two in pairwise(found.spans):
        assert one.end is not None
        assert two.start is not None
        assert one.end < two.start
    assert hash(found) == hash(Intervals((*given, Interval(3, 3))))
    assert pickle.loads(pickle.dumps(found)) == found


@given(LISTS, LISTS, BOUNDS, BOUNDS)
def test_what_two_have_in_common(one: list[Interval], two: list[Interval], start: int | None, end: int | None) -> None:
    common = Intervals(tuple(one)) & Intervals(tuple(two))
    assert members(list(common.spans)) == members(one) & members(two)
    clipped = Intervals(tuple(one)) & Interval(start, end)
    assert clipped == Intervals(tuple(one)) & Intervals.of(start, end)
    assert members(list(clipped.spans)) == members(one) & members([Interval(start, end)])


@given(LISTS)
def test_bounds_are_the_smallest_interval_around_it(given: list[Interval]) -> None:
    bounds, inside = Intervals(tuple(given)).bounds, members(given)
    if not inside:
        assert bounds.is_empty
        return
    assert members([bounds]) == set(range(min(inside), max(inside) + 1))
    assert (bounds.start is None) == (UNIVERSE[0] in inside)
    assert (bounds.end is None) == (UNIVERSE[-1] in inside)


@given(LISTS, st.integers(-11, 11), st.integers(0, 9))
def test_spans_that_reach_into_a_stretch_of_time(given: list[Interval], first: int, length: int) -> None:
    found = Intervals(tuple(given))
    stretch = set(range(first, first + length + 1))
    wanted = [each for each in found.spans if members([each]) & stretch]
    assert found.reaching(first, first + length).spans == tuple(wanted)


def test_bounds_beyond_what_floats_tell_apart() -> None:
    far = 2**62
    found = Intervals((Interval(far, far + 1), Interval(far + 2, far + 3)))
    assert len(found.spans) == 2
    assert [found.contains(far + each) for each in range(4)] == [True, False, True, False]
    assert found & Interval(far + 1, None) == Intervals.of(far + 2, far + 3)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (Intervals(), "no time"),
        (ALWAYS, "[-inf, inf)"),
        (Intervals((Interval(5, 6), Interval(1, 2))), "[1, 2) and [5, 6)"),
    ],
)
def test_prints_as_mathematicians_write(found: Intervals, text: str) -> None:
    assert str(found) == text


def test_all_time_is_neutral() -> None:
    some = Intervals((Interval(1, 2), Interval(5, None)))
    assert some & ALWAYS == ALWAYS & some == some & ALL_TIME == some
    assert Intervals.of(None, None) == ALWAYS
    assert not Intervals.of(3, 3)
