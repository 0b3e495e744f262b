"""What some of the kernels beside do, for a few frames, in Python alone (see :mod:`tidelog.lazy`)."""

from __future__ import annotations

import sys
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tidelog.lazy import stands_in
from tidelog.storage.format.frame import HEAD_BYTES, OK

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

_MASK: Final = (1 << 64) - 1
_P1: Final = 0x9E3779B185EBCA87
_P2: Final = 0xC2B2AE3D27D4EB4F
_P3: Final = 0x165667B19E3779F9
_LANES: Final = 8

assert sys.byteorder == "little"  # as everywhere where frames are read


def _hash(words: list[int]) -> int:
    """The checksum of some words; the kernels say how it is computed."""
    result = len(words) * _P3 & _MASK
    for lane in range(_LANES):
        value = (lane + 1) * _P2 & _MASK
        for word in words[lane::_LANES]:
            value ^= word
            value = ((value << 29) | (value >> 35)) * _P1 & _MASK
        result = (result ^ value) * _P1 & _MASK
        result ^= result >> 32
    result = result * _P2 & _MASK
    return result ^ (result >> 29)


def _words(words: Words, start: int, count: int) -> list[int]:
    found: list[int] = words[start : start + count].tolist()
    return found


def _half(words: Words, index: int) -> int:
    """A number of 32 bits, counted in such numbers."""
    return int(words[index >> 1]) >> 32 * (index & 1) & 0xFFFFFFFF


def _steps_of_heads(words: Words, frames: Ints, *rest: Any) -> int:
    # A head is as long as that of the first frame, if all is well; if not, it is found out soon.
    return 20 * len(frames) if not len(frames) else len(frames) * (20 + _head_words(words, int(frames[0])))


def _head_words(words: Words, frame: int) -> int:
    base = frame >> 3
    return _half(words, 2 * base + 5) >> 3 if base + 3 < len(words) else 0


@stands_in(_steps_of_heads)
def open_frames(words: Words, frames: Ints, lengths: Ints, ids: Ints, rows: Ints) -> int:
    """See the kernel."""
    for index, (frame, length, id) in enumerate(zip(frames.tolist(), lengths.tolist(), ids.tolist(), strict=True)):
        rows[index] = found = _rows_of(words, frame, length, id)
        if found < 0:
            return index
    return OK


def _rows_of(words: Words, frame: int, length: int, id: int) -> int:
    base = frame >> 3
    if length < HEAD_BYTES or frame + length > 8 * len(words):
        return -1
    head = _half(words, 2 * base + 5)
    if head < HEAD_BYTES or head > length or head & 7 or _half(words, 2 * base + 4) != length:
        return -1
    content = _words(words, base, head >> 3)
    if content[1] != id & _MASK or content[0] != _hash(content[1:]):
        return -1
    return _half(words, 2 * base + 6)


def _steps_of_pieces(words: Words, frames: Ints, columns: Ints, *rest: Any) -> int:
    total = sum(_half(words, 2 * (frame >> 3) + 4) for frame in frames.tolist())
    return (total >> 3) + 20 * len(frames) * len(columns)


@stands_in(_steps_of_pieces)
def locate_pieces(words: Words, frames: Ints, columns: Ints, offsets: Ints, lengths: Ints) -> int:
    """See the kernel."""
    for place, column in enumerate(columns.tolist()):
        for index, frame in enumerate(frames.tolist()):
            base = frame >> 3
            number = place * len(frames) + index
            if column >= _half(words, 2 * base + 7) & 0xFFFF:
                return number
            entry = base + 4 + 2 * column
            offset, length = _half(words, 2 * entry), _half(words, 2 * entry + 1)
            count = (length + 7) >> 3
            if offset & 7 or offset < HEAD_BYTES or offset + 8 * count > _half(words, 2 * base + 4):
                return number
            if _hash(_words(words, (frame + offset) >> 3, count)) != int(words[entry + 1]):
                return number
            offsets[place, index] = frame + offset
            lengths[place, index] = length
    return OK
