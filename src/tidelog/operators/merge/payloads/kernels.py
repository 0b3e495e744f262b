"""Kernels of payloads: hashes of rows, and a table of those that are kept.

A hash is two words for each row, into which columns are mixed one after the other; the arithmetic is modulo 2**64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.jit import array_in, array_out, i64, inlined, kernel, u8, u64, void

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_ONE = np.uint64(1)
_THREE = np.uint64(3)
_SEVEN = np.uint64(7)
_EIGHT = np.uint64(8)
_SIXTY_THREE = np.uint64(63)
_29 = np.uint64(29)
_32 = np.uint64(32)

_HASHES = array_out(u64, 2)


@inlined
def _first(state: Any, word: Any) -> Any:
    state = (state ^ word) * _P1
    return state ^ (state >> _32)


@inlined
def _second(state: Any, word: Any) -> Any:
    state = (state + word) * _P2
    return state ^ (state >> _29)


@kernel(void(array_in(u64, 2), _HASHES))
def mix_words(words: Any, hashes: Any) -> None:
    """Mix two words for each row in; those of nulls are the caller's."""
    for row in range(hashes.shape[1]):
        hashes[0, row] = _first(hashes[0, row], words[0, row])
        hashes[1, row] = _second(hashes[1, row], words[1, row])


@kernel(void(array_in(u8), array_in(u64), array_in(i64), _HASHES))
def hash_bytes(content: Any, aligned: Any, offsets: Any, words: Any) -> None:
    """Two words for each of some runs of bytes; ``aligned`` are the same bytes, eight at a time, as far as they go.

    Places are unsigned, since Numba looks for negative ones otherwise, byte by byte.
    """
    count = np.uint64(len(aligned))
    for row in range(words.shape[1]):
        at, stop = np.uint64(offsets[row]), np.uint64(offsets[row + 1])
        one = (stop - at) * _P3
        other = (stop - at) + _P3
        shift = (at & _SEVEN) * _EIGHT
        place = at >> _THREE
        while at + _EIGHT <= stop and place + _ONE < count:
            word = (aligned[place] >> shift) | ((aligned[place + _ONE] << _ONE) << (_SIXTY_THREE - shift))
            one = _first(one, word)
            other = _second(other, word)
            at += _EIGHT
            place += _ONE
        while at < stop:  # what is left, and the last bytes of all
            last = min(at + _EIGHT, stop)
            word = np.uint64(0)
            while last > at:
                last -= _ONE
                word = (word << _EIGHT) | np.uint64(content[last])
            one = _first(one, word)
            other = _second(other, word)
            at += _EIGHT
        words[0, row] = one
        words[1, row] = other


@kernel(void(array_in(u64, 2), array_in(i64), _HASHES))
def hash_lists(items: Any, offsets: Any, words: Any) -> None:
    """Two words for each of some runs of items that are hashed."""
    for row in range(words.shape[1]):
        one = np.uint64(offsets[row + 1] - offsets[row]) * _P3
        other = one + _P1
        for at in range(offsets[row], offsets[row + 1]):
            one = _first(one, items[0, at])
            other = _second(other, items[1, at])
        words[0, row] = one
        words[1, row] = other


@kernel(void(array_in(u64, 2), array_out(i64)))
def finish_hashes(hashes: Any, numbers: Any) -> None:
    """The number by which a payload is known: 63 bits of its hash."""
    for row in range(len(numbers)):
        word = hashes[0, row] * _P3
        word ^= word >> _29
        numbers[row] = i64((word * _P1) >> np.uint64(1))


@inlined
def _place(number: Any, numbers: Any, slots: Any) -> Any:
    """The slot of a number, or the empty one where it would be."""
    mask = len(slots) - 1
    slot = (number ^ (number >> 32)) & mask
    while slots[slot] != 0 and numbers[slots[slot] - 1] != number:
        slot = (slot + 1) & mask
    return slot


@kernel(i64(array_in(i64), array_in(u64), array_in(i64), i64, array_out(i64), array_out(u64), array_out(i64),
            array_out(i64)))  # fmt: skip
def add_payloads(given: Any, checks: Any, rows: Any, count: Any, numbers: Any, seconds: Any, slots: Any,
                 firsts: Any) -> Any:  # fmt: skip
    """Number some rows' payloads behind ``count`` others; ``firsts`` gets the rows that are new.

    Returns how many there are now; -1 less a row if that one has the number of another payload.
    """
    for row in rows:
        slot = _place(given[row], numbers, slots)
        if slots[slot] != 0:
            if seconds[slots[slot] - 1] != checks[row]:
                return -1 - row
            continue
        numbers[count] = given[row]
        seconds[count] = checks[row]
        firsts[count] = row
        count += 1
        slots[slot] = count
    return count


@kernel(void(array_in(i64), i64, array_out(i64)))
def index_payloads(numbers: Any, count: Any, slots: Any) -> None:
    """Put payloads into an empty table."""
    for place in range(count):
        slots[_place(numbers[place], numbers, slots)] = place + 1


@kernel(void(array_in(i64), array_in(i64), array_in(i64), array_out(i64)))
def find_payloads(given: Any, numbers: Any, slots: Any, places: Any) -> None:
    """The places of payloads by their numbers, -1 for those that are not kept."""
    for row in range(len(given)):
        places[row] = slots[_place(given[row], numbers, slots)] - 1
