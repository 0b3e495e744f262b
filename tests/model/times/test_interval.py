from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.model.times.interval import ALL_TIME, Interval

UNIVERSE = range(-6, 7)
BOUNDS = st.none() | st.integers(-5, 5)
INTERVALS = st.builds(Interval, BOUNDS, BOUNDS)


def members(interval: Interval) -> set[int]:
    """The definition, spelled out over a small universe that sticks out on both sides of all bounds."""
    above = {t for t in UNIVERSE if interval.start is None or t >= interval.start}
    return {t for t in above if interval.end is None or t < interval.end}


@given(INTERVALS, INTERVALS)
def test_operations_are_those_of_sets(a: Interval, b: Interval) -> None:
    assert {t for t in UNIVERSE if a.contains(t)} == members(a)
    assert a.is_empty == (not members(a))
    assert members(a.intersect(b)) == members(a) & members(b)
    assert a.overlaps(b) == bool(members(a) & members(b))


@given(INTERVALS)
def test_all_time_is_neutral(a: Interval) -> None:
    assert a.intersect(ALL_TIME) == a
    assert ALL_TIME.overlaps(a) == (not a.is_empty)


def test_is_half_open() -> None:
    interval = Interval(10, 20)
    assert interval.contains(10)
    assert not interval.contains(20)
    assert not interval.overlaps(Interval(20, 30))


@pytest.mark.parametrize(("interval", "text"), [(Interval(1, 2), "[1, 2)"), (ALL_TIME, "[-inf, inf)")])
def test_prints_as_mathematicians_write(interval: Interval, text: str) -> None:
    assert str(interval) == text


def test_is_immutable_and_hashable() -> None:
    with pytest.raises(AttributeError):
        Interval(1, 2).start = 0  # type: ignore[misc]
    assert len({Interval(1, 2), Interval(1, 2)}) == 1
