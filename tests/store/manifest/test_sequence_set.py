"""Sets of sequence numbers against Python's sets."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.model.errors import InputError
from tidelog.model.times.clock import INT64_MAX
from tidelog.store.manifest.sequence_set import EMPTY, SeqSet

END = 24
spans = st.lists(st.tuples(st.integers(0, END), st.integers(0, END)), max_size=5)
EVERY = np.arange(END + 3, dtype=np.int64)


def model(pairs: list[tuple[int, int]]) -> set[int]:
    return {number for start, end in pairs for number in range(start, end)}


def numbers(found: SeqSet) -> set[int]:
    return model(list(found.spans))


@given(spans, spans)
def test_operations_are_those_of_sets(one: list[tuple[int, int]], two: list[tuple[int, int]]) -> None:
    a, b, left, right = SeqSet(one), SeqSet(two), model(one), model(two)
    assert numbers(a) == left
    assert numbers(a | b) == left | right
    assert numbers(a & b) == left & right
    assert numbers(a - b) == left - right
    assert (a == b) == (left == right)
    assert a.issubset(b) == (left <= right)
    assert hash(SeqSet(reversed(a.spans))) == hash(a)
    assert (a.count, bool(a), a.stop) == (len(left), bool(left), max(left, default=-1) + 1)


@given(spans, st.integers(0, END + 2), st.integers(0, END + 2))
def test_questions_are_answered_as_by_sets(pairs: list[tuple[int, int]], low: int, high: int) -> None:
    found, known = SeqSet(pairs), model(pairs)
    asked = set(range(low, high + 1))
    assert found.contains(EVERY).tolist() == [each in known for each in EVERY.tolist()]
    assert (low in found) == (low in known)
    assert found.overlaps(low, high) == bool(known & asked)
    if asked:
        assert found.covers(low, high) == (asked <= known)
        lows, highs = np.array([low, 0]), np.array([high, high])
        assert found.overlap_each(lows, highs).tolist() == [bool(known & asked), bool(known & set(range(high + 1)))]
    assert numbers(found.first(low)) == set(sorted(known)[:low])
    assert numbers(found.shifted(low)) == {each + low for each in known}
    assert numbers(found.shifted(-low)) == {each - low for each in known if each >= low}


@given(spans)
def test_intervals_are_sorted_and_do_not_touch(pairs: list[tuple[int, int]]) -> None:
    found = SeqSet(pairs)
    bounds = [bound for span in found.spans for bound in span]
    assert bounds == sorted(set(bounds))
    assert SeqSet.from_list(json.loads(json.dumps(found.to_list()))) == found
    assert pickle.loads(pickle.dumps(found)) == found


def test_below_and_extremes() -> None:
    assert SeqSet.below(0) == SeqSet.below(-3) == EMPTY
    assert SeqSet.below(3).spans == ((0, 3),)
    every = SeqSet.below(1 << 70)
    assert every.stop == INT64_MAX
    assert INT64_MAX - 1 in every
    assert INT64_MAX not in every
    assert every.overlaps(INT64_MAX - 1, INT64_MAX)
    assert (every - SeqSet([(5, 7)])).spans == ((0, 5), (7, INT64_MAX))
    assert str(SeqSet([(0, 5), (7, 8)])) == "0 to 4, 7 to 7"
    assert EMPTY.contains(EVERY).sum() == 0
    with pytest.raises(InputError, match="they are 0 to"):
        SeqSet([(-1, 3)])
    with pytest.raises(InputError, match="they are 0 to"):
        SeqSet([(0, INT64_MAX + 1)])


def test_sets_do_not_change() -> None:
    found = SeqSet.below(3)
    with pytest.raises(AttributeError, match="does not change"):
        found.spans = ()  # type: ignore[misc]
    with pytest.raises(TypeError):
        found | {1}  # type: ignore[operator]


@pytest.mark.parametrize(
    "wrong",
    [None, 7, {"a": 1}, [3], [[1]], [[1, 2, 3]], [[1, "2"]], [[1, True]], [[2, 1]], [[1, 1]], [[0, 5], [5, 9]],
     [[4, 5], [0, 2]], [[-1, 2]]],
)  # fmt: skip
def test_other_json_is_refused(wrong: object) -> None:
    with pytest.raises(InputError, match=r"expected ascending pairs|they are 0 to"):
        SeqSet.from_list(wrong)
