"""What plans cost, against figures worked out by hand from the shapes of two trees."""

from __future__ import annotations

import pytest

from tidelog.plan.cost import Merges, TreeShape, Weights, merges_of_slice, merges_of_slide

NARROW = TreeShape(4, 458, 152)
"""Events of 16 bytes in pages of 8 KiB."""
WIDE = TreeShape(6, 90, 23)
"""Events of 80 bytes."""


@pytest.mark.parametrize(
    ("rows", "merges"),
    [(1, 4), (100, 103), (458, 461), (500, 462), (1000, 463), (90_000, 613), (8_640_000, 736)],
)
def test_a_tree_of_narrow_events(rows: int, merges: int) -> None:
    assert merges_of_slice(NARROW, rows).total == merges


@pytest.mark.parametrize(
    ("rows", "merges"),
    [(1, 6), (50, 55), (100, 96), (500, 100), (3000, 118), (90_000, 140), (8_640_000, 168)],
)
def test_a_tree_of_wide_events(rows: int, merges: int) -> None:
    assert merges_of_slice(WIDE, rows).total == merges


@pytest.mark.parametrize(("tree", "rows"), [(NARROW, 463), (WIDE, 97)])
def test_the_index_merges_less_from_one_leaf_on(tree: TreeShape, rows: int) -> None:
    """A slice of one leaf, and of all others below, takes as many merges as it has rows, and those of the way down."""
    assert merges_of_slice(tree, rows).total < rows
    assert all(merges_of_slice(tree, fewer).total >= fewer for fewer in range(1, rows))


def test_slides_of_two_slices_cost_both() -> None:
    assert merges_of_slide(WIDE, 10_000, 3000).total == 106 + 117
    assert merges_of_slice(WIDE, 1000).total == 106
    assert merges_of_slice(WIDE, 2000).total == 117
    assert merges_of_slide(WIDE, 9000, 3000) == merges_of_slice(WIDE, 3000)
    assert merges_of_slide(WIDE, 1000, 3000) == merges_of_slice(WIDE, 1000)  # the gap is skipped
    assert merges_of_slice(WIDE, 0) == Merges(0, 0)


def test_the_shape_of_a_tree() -> None:
    assert TreeShape.of(1, 100, 10).levels == 1
    assert TreeShape.of(100, 100, 10).levels == 1
    assert TreeShape.of(101, 100, 10).levels == 2
    assert TreeShape.of(1000, 100, 10).levels == 2
    assert TreeShape.of(1001, 100, 10).levels == 3


def test_weights_turn_merges_into_seconds() -> None:
    weights = Weights(replayed_row=2.0, cut_row=3.0, entry=5.0, slice=7.0)
    assert weights.of_replay(10) == 20.0
    assert weights.of_index(Merges(4, 6), 10) == 10 * (4 * 5 + 6 * 3 + 7)
