"""Integers that count up by one: their pieces can be written down without looking at them."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from tidelog.storage.codec.arena import Arena, Ints, Pieces
from tidelog.storage.codec.encodings import HEAD, VECTOR, Encoding
from tidelog.storage.codec.numeric.columns import Words

_HEAD_WORDS = HEAD // 8
_VECTOR_WORDS = 2
_CONTROL = np.uint64(1 << 32 | 1 << 8)
"""The first word of a vector of order 1: no bits for the residuals, which are all 0, and a reference of 1."""


def encode_consecutive(first: int, cuts: Ints, arena: Arena) -> Pieces:
    """Encode the integers from ``first`` on as PACKED pieces: ``first + cuts[i]`` to ``first + cuts[i + 1] - 1`` as i.

    All of them are 64-bit integers. No piece is empty.
    """
    shape = _shape(np.diff(cuts).tobytes())
    size = shape.words.nbytes
    start = arena.reserve(size)
    words = arena.data.view(np.uint64)[start >> 3 : (start + size) >> 3]
    words[:] = shape.words
    # Arithmetic modulo 2**64, as everywhere in vectors.
    words[shape.states] += np.uint64((first + int(cuts[0])) % (1 << 64))
    arena.commit(start, size)
    return Pieces(start + shape.offsets, shape.lengths.copy())


@dataclass(frozen=True, slots=True)
class _Shape:
    """The pieces of integers from 0 on, which those of others resemble but for the states of their vectors."""

    words: Words
    states: Ints
    """Where in ``words`` the states are: for each vector the value before its first one."""
    offsets: Ints
    lengths: Ints


@functools.lru_cache(64)
def _shape(counts: bytes) -> _Shape:
    """The pieces of so many rows each (64-bit integers); the same ones are asked for again and again."""
    rows = np.frombuffer(counts, np.int64)
    vectors = -(-rows // VECTOR)
    sizes = _HEAD_WORDS + _VECTOR_WORDS * vectors
    heads = np.cumsum(sizes) - sizes
    words = np.zeros(int(sizes.sum()), np.uint64)
    words[heads] = (rows.astype(np.uint64) << np.uint64(32)) | np.uint64(Encoding.PACKED)
    words[heads + 1] = HEAD << 32  # no validity bytes, and the body directly behind the head
    number = np.arange(int(vectors.sum())) - np.repeat(np.cumsum(vectors) - vectors, vectors)
    places = np.repeat(heads, vectors) + _HEAD_WORDS + _VECTOR_WORDS * number
    words[places] = _CONTROL
    words[places + 1] = (np.repeat(np.cumsum(rows) - rows, vectors) + VECTOR * number - 1).view(np.uint64)
    return _Shape(words, places + 1, 8 * heads, 8 * sizes)
