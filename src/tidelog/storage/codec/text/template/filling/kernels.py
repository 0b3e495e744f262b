"""The kernel that decodes text by templates: it writes the rows of one piece where they belong.

Text is copied in words of 32 bytes, and numbers are printed in words of 8, all of which may reach past their end: what
is read has :data:`SLACK` bytes behind it, what is written :data:`ROOM`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.jit import array_in, array_out, i64, inlined, kernel, u8, u64
from tidelog.storage.codec.encodings import VECTOR
from tidelog.storage.codec.memory.kernels import copy32, leading_zeros, load, store, trailing_zeros
from tidelog.storage.codec.text.template.kernels import (
    ALL,
    DECIMAL,
    DIGITS,
    END,
    JOIN,
    LOWER,
    WORD,
    unsigned,
)
from tidelog.storage.codec.text.template.layout import BAD_BITS, BAD_NUMBER, BAD_TABLE, BAD_TEXT

OPERATIONS, BASES, CONSTANT_BYTES, WORDS, WORD_BYTES, COUNTS = 0, 1, 2, 3, 4, 5
"""Sizes of the parts of the table, as the head of the body gives them."""

SLACK = 48
"""Bytes behind the table that words may reach into."""

OPERATION_FIELDS = 2
"""Words of working memory for an operation: what it does, and its base."""

_SHORT = np.uint64(7)
"""A kind of operations besides those of the format: digits whose strings stand in :data:`_SHORT_STRINGS`."""

_0, _1, _2, _3, _4, _7, _8, _16 = unsigned(0, 1, 2, 3, 4, 7, 8, 16)
_32, _40, _48, _56, _63, _64, _BYTE, _LOW = unsigned(32, 40, 48, 56, 63, 64, 0xFF, 0xFFFFFFFF)
_WIDEST = np.uint64(57)
"""Bits that a word at any byte certainly has of a number."""
_POWERS = np.array([10**n for n in range(20)], np.uint64)
_THREE_DIGITS = np.array([int.from_bytes(b"%03d" % min(value, 999), "little") for value in range(1024)], np.uint32)
_SHORT_VALUES, _SHORT_RANKS = unsigned(1024, 2048)
_SHORT_STRINGS = np.array(
    [
        int.from_bytes(digits.encode(), "little")
        for digits in [
            *(str(value) for value in range(1024)),
            *[f"{value:0{size}}" for size in (1, 2, 3, 4) for value in range(10**size)][:2048],
        ]
    ],
    np.uint32,
)
"""Up to four digits: those of all values of ten bits, then the strings of all ranks of eleven."""
_THOUSAND = np.uint64(1000)
_EIGHT = np.uint64(10**8)
_ZEROS = np.uint64(0x3030303030303030)


@inlined
def _copy(out: Any, at: Any, table: Any, start: Any, size: Any) -> None:
    copy32(out, at, table, start)
    k = _32
    while k < size:
        copy32(out, at + k, table, start + k)
        k += _32


@inlined
def _decimal8(value: Any) -> Any:
    """The eight digits of a number below 10^8, the first one lowest; of others, something that is not."""
    thousands = value // _THOUSAND
    millions = thousands // _THOUSAND & np.uint64(127)
    last = np.uint64(_THREE_DIGITS[value - thousands * _THOUSAND])
    middle = np.uint64(_THREE_DIGITS[thousands - thousands // _THOUSAND * _THOUSAND])
    return last << _40 | middle << _16 | np.uint64(_THREE_DIGITS[millions]) >> _8


@inlined
def _put_digits(out: Any, at: Any, value: Any, size: Any) -> None:
    """Write a number in ``size`` digits, 16 at the most."""
    if size <= _8:
        store(out, at, _decimal8(value) >> (_64 - (size << _3)))
    else:
        high = value // _EIGHT
        store(out, at, _decimal8(high) >> (np.uint64(128) - (size << _3)))
        store(out, at + size - _8, _decimal8(value - high * _EIGHT))


@inlined
def _hexadecimal8(value: Any, letters: Any) -> Any:
    """The eight hexadecimal digits of a number, the first one lowest; ``letters`` is what leads from 9 to them."""
    word = (value >> _16 | value << _32) & np.uint64(0x0000FFFF0000FFFF)
    word = word >> _8 & np.uint64(0x000000FF000000FF) | (word & np.uint64(0x000000FF000000FF)) << _16
    word = word >> _4 & np.uint64(0x000F000F000F000F) | (word & np.uint64(0x000F000F000F000F)) << _8
    above = (word + np.uint64(0x0606060606060606)) >> _4 & np.uint64(0x0101010101010101)
    return word + _ZEROS + above * letters


_PREPARE = i64(array_in(u8), array_in(i64), array_out(u64), array_out(u64), array_out(u64))


@kernel(_PREPARE)
def prepare(table: Any, counts: Any, operations: Any, templates: Any, words: Any) -> Any:
    """Lay the table of a piece out for :func:`fill`; returns the number of templates, or BAD_TABLE.

    ``table`` has exactly the bytes that ``counts`` give, and SLACK. ``operations`` has OPERATION_FIELDS words for each,
    ``templates`` a word for each operation and ``words`` one for each word.
    """
    count = np.uint64(counts[OPERATIONS])
    bases = np.uint64(3) * count
    sizes = bases + _8 * np.uint64(counts[BASES])
    constant = sizes + np.uint64(counts[WORDS])
    word = constant + np.uint64(counts[CONSTANT_BYTES])
    end = word + np.uint64(counts[WORD_BYTES])
    first_word, first_size = word, sizes
    found = _0
    first = _0
    bits = _0
    for i in range(count):
        length = np.uint64(table[_3 * i])
        shape = np.uint64(table[_3 * i + _1])
        width = np.uint64(table[_3 * i + _2])
        kind = shape & _7
        letters = kind - LOWER <= _1
        narrow = width > _0 if letters else width <= _WIDEST
        if kind == _7 or width > _64 or not narrow or constant + length > first_word:
            return BAD_TABLE
        base = _0
        if shape & _8 != _0:
            if bases == first_size:
                return BAD_TABLE
            base = load(table, bases)
            bases += _8
        if base < _SHORT_RANKS and width <= np.uint64(11):
            most = base + ~(ALL << width)
            if kind == DECIMAL and most < _SHORT_VALUES:
                kind = np.uint64(_SHORT)
            elif kind == DIGITS and most < _SHORT_RANKS:
                kind = np.uint64(_SHORT)
                base += _SHORT_VALUES
        o = i << _1
        operations[o] = constant | length << _32 | kind << _40 | ((shape >> _4) + _1) << _48 | width << _56
        operations[o + _1] = base
        constant += length
        bits += width
        if kind == END:
            templates[found] = first << _32 | bits
            found += _1
            first = i + _1
            bits = _0
    for i in range(np.uint64(counts[WORDS])):
        size = np.uint64(table[sizes + i])
        words[i] = word << _8 | size
        word += size
    # Nothing is left over of any part, and the last template has an end.
    if constant != first_word or bases != first_size or word != end or first != count:
        return BAD_TABLE
    return np.int64(found)


_FILL = i64(
    *(
        array_in(u8),
        array_in(u64),
        array_in(u64),
        array_in(u64),
        array_in(u8),
        i64,
        array_in(i64, 2),
        array_in(u8),
        i64,
    ),
    *(array_out(i64), array_out(u8), i64),
)


@kernel(_FILL)
def fill(
    table: Any,
    operations: Any,
    templates: Any,
    words: Any,
    buffer: Any,
    packed: Any,
    vectors: Any,
    bitmap: Any,
    row: Any,
    numbers: Any,
    out: Any,
    start: Any,
) -> Any:
    """Write the rows of a piece that ``numbers`` gives the templates of; returns ``start`` and the bytes written.

    ``table``, ``operations``, ``templates`` (as many as there are) and ``words`` come from :func:`prepare`. The values
    start at byte ``packed`` of ``buffer``; ``vectors`` has for each vector the bytes of its text and of its values, and
    ``buffer`` 16 bytes behind these. Row ``i`` has bit ``row + i`` of ``bitmap``, which is empty if none is null.
    ``out`` has room for all text from ``start`` on, and ROOM bytes more. ``numbers`` receives where each row ends. What
    is wrong with the piece, if something is, is returned instead.
    """
    at = np.uint64(start)
    last = start
    for v in range(len(vectors)):
        last += vectors[v, 0]
    limit = np.uint64(last)
    first_bit = np.uint64(packed) << _3
    expected = at
    for v in range(len(vectors)):
        expected += np.uint64(vectors[v, 0])
        bit = first_bit
        first_bit += np.uint64(vectors[v, 1]) << _3
        for i in range(np.uint64(v * VECTOR), np.uint64(min((v + 1) * VECTOR, len(numbers)))):
            if len(bitmap) != 0:
                r = np.uint64(row) + i
                if bitmap[r >> _3] >> (r & _7) & 1 == 0:
                    numbers[i] = np.int64(at)
                    continue
            number = np.uint64(numbers[i])
            if number >= np.uint64(len(templates)):
                return BAD_NUMBER
            template = templates[number]
            if bit + (template & _LOW) > first_bit:
                return BAD_BITS
            o = template >> _32 << _1
            while True:
                if at > limit:
                    return BAD_TEXT
                operation = operations[o]
                size = operation >> _32 & _BYTE
                kind = operation >> _40 & _BYTE
                _copy(out, at, table, operation & _LOW, size)
                at += size
                if kind == END:
                    break
                byte = bit >> _3
                shift = bit & _7
                value = load(buffer, byte) >> shift
                width = operation >> _56
                bit += width
                if kind == np.uint64(_SHORT):
                    digits = np.uint64(_SHORT_STRINGS[(value & ~(ALL << width)) + operations[o + _1]])
                    store(out, at, digits)
                    at += _8 - (leading_zeros(digits) >> _3)
                elif kind == DECIMAL:
                    value = (value & ~(ALL << width)) + operations[o + _1]
                    if value < _EIGHT:
                        digits = _decimal8(value)
                        zeros = trailing_zeros((digits ^ _ZEROS) | _1 << _56) >> _3
                        store(out, at, digits >> (zeros << _3))
                        at += _8 - zeros
                    else:
                        size = _8
                        while size < _16 and value >= _POWERS[size]:
                            size += _1
                        _put_digits(out, at, value, size)
                        at += size
                elif kind == DIGITS:
                    value = (value & ~(ALL << width)) + operations[o + _1]
                    size = _1
                    while size < _16 and value >= _POWERS[size]:
                        value -= _POWERS[size]
                        size += _1
                    _put_digits(out, at, value, size)
                    at += size
                elif kind == WORD:
                    value = (value & ~(ALL << width)) + operations[o + _1]
                    if value >= np.uint64(len(words)):
                        return BAD_TEXT
                    size = words[value] & _BYTE
                    _copy(out, at, table, words[value] >> _8, size)
                    at += size
                elif kind != JOIN:
                    value |= np.uint64(buffer[byte + _8]) << _1 << (_63 - shift)
                    value = (value & ALL >> (_64 - width)) + operations[o + _1]
                    size = operation >> _48 & _BYTE
                    value <<= _64 - (size << _2)
                    letters = np.uint64(0x27) if kind == LOWER else np.uint64(7)
                    store(out, at, _hexadecimal8(value >> _32, letters))
                    if size > _8:
                        store(out, at + _8, _hexadecimal8(value & _LOW, letters))
                    at += size
                o += np.uint64(OPERATION_FIELDS)
            numbers[i] = np.int64(at)
        if at != expected:
            return BAD_TEXT
    return np.int64(at)
