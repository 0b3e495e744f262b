"""The arithmetic of post-order ids against trees that are numbered by building them."""

from __future__ import annotations

import pytest

from tidelog.index import ids

BLOCKS = 4000


def simulated(fanout: int, blocks: int) -> list[tuple[int, int]]:
    """Level and ordinal of each block, by appending leaves and closing what is full."""
    placed: list[tuple[int, int]] = []
    counts = [0] * 64
    while len(placed) < blocks:
        level = 0
        while True:
            placed.append((level, counts[level]))
            counts[level] += 1
            if counts[level] % fanout:
                break
            level += 1
    return placed[:blocks]


@pytest.mark.parametrize("fanout", [2, 3, 5, 64])
def test_ids_are_places_in_post_order(fanout: int) -> None:
    placed = simulated(fanout, BLOCKS)
    by_place = {place: id for id, place in enumerate(placed)}
    seen = [0]
    for id, (level, ordinal) in enumerate(placed):
        assert ids.counts(id, fanout) == seen
        assert ids.locate(id, fanout) == (level, ordinal)
        assert ids.node_id(level, ordinal, fanout) == id
        if level == 0:
            assert ids.leaf_id(ordinal, fanout) == id
        left, right = ids.neighbours(level, ordinal, fanout)
        assert left == by_place.get((level, ordinal - 1), ids.NIL)
        assert right == by_place.get((level, ordinal + 1), right)
        above = ids.parent(level, ordinal, fanout)
        assert above == (level + 1, ordinal // fanout)
        assert by_place.get(above, id + 1) > id
        seen += [0] * (level + 1 - len(seen))
        seen[level] += 1
        seen = seen.copy()


def test_the_numbering_of_the_specification() -> None:
    assert [ids.leaf_id(leaf, 2) for leaf in range(7)] == [0, 1, 3, 4, 7, 8, 10]
    assert [ids.node_id(1, node, 2) for node in range(3)] == [2, 5, 9]
    assert ids.node_id(2, 0, 2) == 6


@pytest.mark.parametrize("fanout", [2, 64])
def test_large_numbers_stay_exact(fanout: int) -> None:
    leaf = 10**18 + 1
    id = ids.leaf_id(leaf, fanout)
    assert ids.locate(id, fanout) == (0, leaf)
    assert ids.counts(id + 1, fanout)[0] == leaf + 1
