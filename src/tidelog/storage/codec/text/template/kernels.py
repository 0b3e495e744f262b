"""What the kernels of templates have in common. All integers are unsigned words."""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.jit import inlined
from tidelog.storage.codec.memory.kernels import copy16, load


def unsigned(*numbers: int) -> list[Any]:
    """Numbers as what kernels calculate with."""
    return [np.uint64(number) for number in numbers]


END, JOIN, DECIMAL, DIGITS, LOWER, UPPER, WORD = unsigned(*range(7))
"""What stands behind the constant of an operation; the numbers are part of the format."""

HASH, IMAGE_AT, IMAGE_BYTES, SLOT, SLOTS, ROWS, TEXT_AT, TEXT_BYTES = unsigned(*range(8))
TEMPLATE_FIELDS = 8
"""What is known of a template: its image and a hash of that, its first slot and their number, how many rows have it,
and the text of the first of these."""

TAGS, SIZES, LEAST, MOST, FIRST, SHAPE, BASE = unsigned(*range(7))
SLOT_FIELDS = 8
"""What is known of a slot: a bit for each number of leading zeros and for each class; a bit for each number of
characters; the least and the greatest value; the first value. Then, from packing on, its shape and its base."""

DIGIT_CLASS, LOWER_CLASS, UPPER_CLASS, WORD_CLASS = unsigned(1, 2, 4, 8)
CLASSES = np.uint64(32)
"""Bit of the tags of a slot that stands for the first class."""

ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
RANKS = np.array([0, 0, *((10**n - 10) // 9 for n in range(2, 17))], np.uint64)
"""By number of digits, the rank of the first string of so many, among all strings of digits by length and value."""

SLACK = 128
"""Bytes behind text, images and packed values that words may reach into."""

_0, _3, _8, _16, _29, _32, _64 = unsigned(0, 3, 8, 16, 29, 32, 64)
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@inlined
def is_null(mask: Any, row: Any) -> Any:
    """Whether a row is null; without a mask none is."""
    return len(mask) != 0 and mask[row] == 0


@inlined
def below(count: Any) -> Any:
    """The lowest 1 to 64 bits."""
    return ALL >> (_64 - count)


@inlined
def digest(data: Any, at: Any, size: Any) -> Any:
    """A hash of bytes, in two lanes that need not wait for each other."""
    one = size
    other = _MULTIPLIER
    last = at + size
    while at + _16 <= last:
        one = (one ^ load(data, at)) * _MULTIPLIER
        other = (other ^ load(data, at + _8)) * _MULTIPLIER
        one ^= one >> _29
        other ^= other >> _29
        at += _16
    if at + _8 <= last:
        one = (one ^ load(data, at)) * _MULTIPLIER
        one ^= one >> _29
        at += _8
    if at < last:
        other = (other ^ (load(data, at) & below((last - at) << _3))) * _MULTIPLIER
        other ^= other >> _29
    return one ^ (other << _32 | other >> _32)


@inlined
def same(data: Any, one: Any, others: Any, other: Any, size: Any) -> Any:
    """Whether two stretches of bytes are equal."""
    different = _0
    last = one + size
    while one + _8 <= last:
        different |= load(data, one) ^ load(others, other)
        one += _8
        other += _8
    if one < last:
        different |= (load(data, one) ^ load(others, other)) & below((last - one) << _3)
    return different == _0


@inlined
def copy(data: Any, start: Any, size: Any, out: Any, at: Any) -> None:
    """Copy bytes, and some behind them."""
    copy16(out, at, data, start)
    k = _16
    while k < size:
        copy16(out, at + k, data, start + k)
        k += _16
