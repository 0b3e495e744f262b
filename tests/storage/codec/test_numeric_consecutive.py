"""Consecutive integers are the same bytes, and the same summaries, as if they had been looked at."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.profiles import scaled
from tidelog.storage.codec.arena import Arena
from tidelog.storage.codec.numeric import decode_numbers, encode_numbers
from tidelog.storage.codec.numeric.consecutive import encode_consecutive
from tidelog.storage.summary import WORDS, summarise, summarise_consecutive

LARGEST = 2**63 - 1


@settings(max_examples=scaled(100))
@given(
    st.integers(-(2**63), LARGEST - 20_000) | st.integers(-20_000, 20_000) | st.integers(2**49, 2**51),
    st.lists(st.sampled_from([1, 2, 16, 17, 1000, 1023, 1024, 1025, 2048, 4000]), min_size=1, max_size=5),
)
def test_pieces_decode_to_the_numbers(first: int, counts: list[int]) -> None:
    cuts = np.cumsum([0, *counts])
    arena = Arena(64)
    arena.put(b"something else")
    pieces = encode_consecutive(first, cuts, arena)
    rows = np.array(counts, np.int64)
    got = decode_numbers(pa.int64(), arena.data, pieces.offsets, pieces.lengths, np.zeros_like(rows), rows)
    expected = pa.array(range(first, first + int(cuts[-1])), pa.int64())
    assert got.equals(expected)
    assert arena.data[:14].tobytes() == b"something else"
    words = np.zeros((len(counts), WORDS), np.uint64)
    summarise_consecutive(first, cuts, words)
    assert words.tobytes() == summarise(expected, cuts).tobytes()


@pytest.mark.parametrize("first", [0, 5, 10**15, -(10**9)])
def test_whole_leaves_are_the_bytes_of_the_ordinary_encoder(first: int) -> None:
    cuts = np.array([0, 8192, 16384, 20000])
    images = []
    for encode in (
        lambda arena: encode_consecutive(first, cuts, arena),
        lambda arena: encode_numbers(pa.array(np.arange(first, first + 20000)), cuts, arena),
    ):
        arena = Arena()
        pieces = encode(arena)
        spans = zip(pieces.offsets.tolist(), pieces.lengths.tolist(), strict=True)
        images.append([arena.data[start : start + length].tobytes() for start, length in spans])
    assert images[0] == images[1]
