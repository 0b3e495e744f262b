"""Kernels that look up values by a hash table, and gather texts.

A table has the places of values, -1 where there is none, and a power of two of slots of which at most half are taken.
A value has a *digest*, a word that stands for it if it has at most eight bytes, and for texts a size.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.jit import array_in, array_out, i32, i64, inlined, kernel, u8, u64, void
from tidelog.storage.codec.memory.kernels import copy8, load, store

_MULTIPLIER = 0x9E3779B97F4A7C15

_WORDS, _OUT, _INTS = array_in(u64), array_out(i64), array_in(i64)


@inlined
def _digest(data: Any, start: Any, size: Any) -> Any:
    """A word for a text, in memory of at least eight bytes."""
    if size <= 8:
        begin = min(start, i64(len(data) - 8))
        word = load(data, begin) >> np.uint64(8 * min(start - begin, 7))
        return word & ~(~np.uint64(0) << np.uint64(8 * size)) if size < 8 else word
    word = np.uint64(size)
    last = start + size - 8
    for at in range(start, last, 8):
        word = (word ^ load(data, at)) * np.uint64(_MULTIPLIER)
        word ^= word >> np.uint64(29)
    return (word ^ load(data, last)) * np.uint64(_MULTIPLIER)


@inlined
def _slot(digest: Any, size: Any, mask: Any) -> Any:
    """Where a value is looked for first."""
    word = (digest + np.uint64(size)) * np.uint64(_MULTIPLIER)
    return (word ^ (word >> np.uint64(32))) & np.uint64(mask)


@inlined
def _same(data: Any, one: Any, known: Any, other: Any, size: Any) -> Any:
    """Whether two texts of more than eight bytes are equal."""
    for k in range(0, size - 8, 8):
        if load(data, one + k) != load(known, other + k):
            return False
    return load(data, one + size - 8) == load(known, other + size - 8)


@kernel(i64(array_in(u8), array_in(i32), array_in(i32), _WORDS, _INTS, array_in(u8), _INTS, _OUT))
def find_texts(
    data: Any, offsets: Any, table: Any, digests: Any, starts: Any, texts: Any, numbers: Any, found: Any
) -> Any:
    """The number of each text, or -1 for those that are not known; returns how many these are.

    Known texts have ``digests``, stand in ``texts`` from ``starts[i]`` to ``starts[i + 1]``, and have ``numbers``.
    """
    mask = len(table) - 1
    unknown = 0
    for row in range(len(found)):
        start = np.int64(offsets[row])
        size = np.int64(offsets[row + 1]) - start
        digest = _digest(data, start, size)
        slot = _slot(digest, size, mask)
        number = i64(-1)
        while True:
            at = np.int64(table[slot])
            if at < 0:
                unknown += 1
                break
            if (
                digests[at] == digest
                and starts[at + 1] - starts[at] == size
                and (size <= 8 or _same(data, start, texts, starts[at], size))
            ):
                number = numbers[at]
                break
            slot = (slot + np.uint64(1)) & np.uint64(mask)
        found[row] = number
    return unknown


@kernel(i64(_WORDS, array_in(i32), _WORDS, _INTS, _OUT))
def find_words(words: Any, table: Any, digests: Any, numbers: Any, found: Any) -> Any:
    """The same for values that are words."""
    mask = len(table) - 1
    unknown = 0
    for row in range(len(found)):
        digest = words[row]
        slot = _slot(digest, 8, mask)
        number = i64(-1)
        while True:
            at = np.int64(table[slot])
            if at < 0:
                unknown += 1
                break
            if digests[at] == digest:
                number = numbers[at]
                break
            slot = (slot + np.uint64(1)) & np.uint64(mask)
        found[row] = number
    return unknown


@kernel(void(array_in(u8), _INTS, array_out(u64)))
def digest_texts(texts: Any, starts: Any, digests: Any) -> None:
    """The digests of texts that stand one behind the other."""
    for at in range(len(digests)):
        digests[at] = _digest(texts, starts[at], starts[at + 1] - starts[at])


@kernel(void(_WORDS, _INTS, i64, array_out(i32)))
def put_places(digests: Any, starts: Any, first: Any, table: Any) -> None:
    """Put the places of values from ``first`` on into a table; words have no ``starts``."""
    mask = len(table) - 1
    for at in range(first, len(digests)):
        size = starts[at + 1] - starts[at] if len(starts) != 0 else i64(8)
        slot = _slot(digests[at], size, mask)
        while table[slot] >= 0:
            slot = (slot + np.uint64(1)) & np.uint64(mask)
        table[slot] = at


@kernel(i64(array_in(i32), _INTS, array_out(i32)))
def place_texts(offsets: Any, places: Any, ends: Any) -> Any:
    """Where texts at some places end that are put one behind the other; returns the last end.

    ``ends`` has one place more, the first of which is 0. Places below zero have texts without bytes.
    """
    at = i64(0)
    ends[0] = 0
    for row in range(len(places)):
        place = places[row]
        if place >= 0:
            at += offsets[place + 1] - offsets[place]
        ends[row + 1] = i32(at)
    return at


@kernel(void(array_in(u8), array_in(i32), _INTS, array_out(u8)))
def copy_texts(data: Any, offsets: Any, places: Any, out: Any) -> None:
    """Copy the texts at some places, one behind the other; behind them ``out`` has room for eight bytes more.

    ``data`` has at least eight bytes.
    """
    last = i64(len(data) - 8)
    at = i64(0)
    for row in range(len(places)):
        place = places[row]
        if place >= 0:
            start = np.int64(offsets[np.uint64(place)])
            size = np.int64(offsets[np.uint64(place) + np.uint64(1)]) - start
            if size <= 8:
                begin = min(start, last)
                store(out, at, load(data, begin) >> np.uint64(8 * min(start - begin, 7)))
            else:
                for k in range(0, size - 8, 8):
                    copy8(out, at + k, data, start + k)
                copy8(out, at + size - 8, data, start + size - 8)
            at += size
