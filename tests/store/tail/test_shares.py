"""Which rows of appends to another stream a stream has taken."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.model.errors import CorruptionError
from tidelog.store.tail.shares import Share, Shares, sender


@given(st.lists(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.booleans()), max_size=30), max_size=4))
def test_a_share_tells_the_places_of_its_rows(parts: list[list[tuple[int, bool]]]) -> None:
    at = [np.array([time for time, _ in part], np.int64) for part in parts]
    taken = [np.array([is_taken for _, is_taken in part], np.bool_) for part in parts]
    if not parts:
        return
    share = Share.of(at, taken)
    assert share.mask().tolist() == [is_taken for part in parts for _, is_taken in part]
    whole = np.concatenate(at)
    assert share.difference([whole]) == "", "the same rows in other batches are the same append"
    assert share.difference([np.append(whole, 0)]) == f"{len(whole) + 1} rows instead of {len(whole)}"
    if len(whole) > 1 and whole[0] != whole[-1]:
        assert "another order" in share.difference([whole[::-1]])


def test_a_share_of_a_large_append_is_short() -> None:
    taken = np.zeros(1_000_000, np.bool_)
    taken[777_777] = True
    assert len(Share.of([np.arange(1_000_000)], [taken]).taken) < 2000


@pytest.mark.parametrize("taken", ["", "?", "AAAA", "eJwDAAAAAAE="])
def test_a_share_that_is_damaged(taken: str) -> None:
    with pytest.raises(CorruptionError, match="a share of an append"):
        Share(9, 0, taken).mask()


def share(number: int) -> Share:
    return Share.of([np.array([number])], [np.array([True])])


def test_shares_are_known_until_they_are_settled() -> None:
    shares = Shares()
    assert not shares
    for producer, number in (("p", 4), ("p", 7), ("q", 0), ("p", 2)):
        shares.add(producer, number, share(number))
    assert len(shares) == 4
    assert shares.find("p", 7) == share(7)
    assert (shares.find("p", 3), shares.find("r", 4)) == (None, None)
    shares.settle({"p": 5, "q": -1, "r": 9})
    assert [shares.find("p", number) is not None for number in (2, 4, 7)] == [False, False, True]
    assert shares.find("q", 0) is not None
    shares.settle({"p": 9, "q": 9})
    assert len(shares) == 0
    assert shares, "there were some"


def test_shares_are_saved_and_added_up() -> None:
    first, second = Shares(), Shares()
    first.add("p", 1, share(1))
    first.add("ü", 2, share(2))
    first.settle({"p": 1})
    second.update(json.loads(json.dumps(first.saved())))
    assert second.saved() == first.saved()
    later = Shares()
    later.add("p", 3, share(3))
    second.update(later.saved())
    assert (second.find("p", 3), second.find("ü", 2)) == (share(3), share(2))


def test_shares_that_were_forgotten_are_those_of_one_stream() -> None:
    shares = Shares()
    for directory, number in (("streams/a~1", 4), ("streams/a~12", 7)):
        shares.add(sender(directory, "p"), number, share(number))
    assert shares.serve("streams/a~1", {})
    shares.settle({sender("streams/a~1", "p"): 5, "p": 9})
    assert len(shares) == 1
    assert not shares.serve("streams/a~1", {"q": 9})
    assert not shares.serve("streams/a~1", {"p": 3})
    assert shares.serve("streams/a~1", {"p": 4})
    assert shares.serve("streams/a~12", {})


def test_a_producer_of_whom_shares_are_expected_is_known() -> None:
    shares, other = Shares(), Shares()
    shares.expect("p")
    other.update(shares.saved())
    assert other
    assert len(other) == 0
    assert other.serve("p", {})
