"""Kernels that pack text by templates: the shape of each slot, and the values of all rows as bits.

All integers are unsigned words. Loops over values avoid decisions that cannot be foreseen.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.jit import array_in, array_out, called, i32, i64, inlined, kernel, u8, u64, void
from tidelog.storage.codec.encodings import VECTOR
from tidelog.storage.codec.memory.kernels import count_ones, leading_zeros, store, trailing_zeros
from tidelog.storage.codec.text.template.kernels import (
    ALL,
    BASE,
    CLASSES,
    DECIMAL,
    DIGIT_CLASS,
    DIGITS,
    END,
    FIRST,
    JOIN,
    LEAST,
    LOWER,
    LOWER_CLASS,
    MOST,
    RANKS,
    ROWS,
    SHAPE,
    SIZES,
    SLOT,
    SLOTS,
    TEXT_AT,
    TEXT_BYTES,
    UPPER,
    UPPER_CLASS,
    WORD,
    WORD_CLASS,
    copy,
    digest,
    is_null,
    same,
    unsigned,
)

FOLDED = np.uint64(7)
"""A slot that has one value in all rows, and so becomes a part of the constants around it."""

BASE_FLAG = np.uint64(8)
"""Marks, among the kinds of operations, those that have a base."""

LONGEST_CONSTANT = np.uint64(255)
"""Bytes of the constant of one operation; longer ones are joined."""

OPERATIONS, BASES, CONSTANT_BYTES, WORDS, WORD_BYTES, BITS, OUTCOMES = 0, 1, 2, 3, 4, 5, 6
"""What :func:`type_slots` tells: sizes of the parts of the table, and bits of all rows."""

PLAN_FIELDS = 2
"""Words of a plan: of a slot, its width, a mask for sizes if it is decimal, 1 << 16 if it is hexadecimal and its number
in the row << 32; and its base. Of a template, where its slots start and end in these; and how many it has in all."""

_0, _1, _2, _3, _4, _6, _8, _16, _24 = unsigned(0, 1, 2, 3, 4, 6, 8, 16, 24)
_32, _63, _64, _BYTE, _LOW = unsigned(32, 63, 64, 0xFF, 0xFFFFFFFF)
_LEADING_ZEROS = np.uint64((1 << 32) - 2)
"""Tags of values that start with zeros."""


@called
def _hexadecimal(data: Any, at: Any, size: Any) -> Any:
    """The number that 1 to 16 digits are if they are hexadecimal ones."""
    value = _0
    for k in range(at, at + size):
        value = value << _4 | np.uint64(data[k]) & np.uint64(15)
    return value


@inlined
def _bits(value: Any) -> Any:
    return _64 - leading_zeros(value)


@called
def _choose_base(slots: Any, q: Any, least: Any, most: Any, rows: Any) -> Any:
    """Set the base of a slot, the least value if that saves more than it takes; returns the width."""
    width = _bits(most)
    saved = width - _bits(most - least)
    pays = saved * rows > _64
    slots[q + BASE] = least if pays else _0
    return width - saved if pays else width


@called
def _shape(slots: Any, q: Any, rows: Any) -> Any:
    """The shape of a slot by what was seen in it: its kind, its width << 8, of hexadecimal ones its characters << 16.

    Sets its base. A word gets its width later.
    """
    classes = slots[q] >> CLASSES
    sizes = slots[q + SIZES]
    least = slots[q + LEAST]
    most = slots[q + MOST]
    longest = _63 - leading_zeros(sizes)
    letters = classes & ~DIGIT_CLASS
    alike = count_ones(sizes) == _1
    slots[q + BASE] = _0
    pure = count_ones(classes) == _1 and classes != WORD_CLASS
    if least == most and alike and pure:
        return FOLDED
    if letters == _0:
        if slots[q] & _LEADING_ZEROS != _0:
            return _choose_base(slots, q, least, most, rows) << _8 | DIGITS
        least -= RANKS[trailing_zeros(sizes)]
        most -= RANKS[longest]
        return _choose_base(slots, q, least, most, rows) << _8 | DECIMAL
    if alike and (letters == LOWER_CLASS or letters == UPPER_CLASS):  # noqa: SIM109
        width = (longest - trailing_zeros(slots[q])) << _2
        return longest << _16 | width << _8 | np.uint64(LOWER if letters == LOWER_CLASS else UPPER)
    return WORD


@called
def _number_words(
    data: Any,
    mask: Any,
    numbers: Any,
    values: Any,
    spans: Any,
    templates: Any,
    slots: Any,
    table: Any,
    capacity: Any,
    words: Any,
    entries: Any,
) -> Any:
    """Number the distinct texts of WORD slots by first appearance, and make the numbers their values.

    ``words`` receives the texts, ``entries`` place << 8 and size of each. Returns their number, and their bytes.
    """
    for k in range(capacity):
        table[k] = -1
    count = _0
    used = _0
    i = _0
    for row in range(np.uint64(len(numbers))):
        if is_null(mask, row):
            continue
        t = np.uint64(numbers[row]) << _3
        q = templates[t + SLOT] << _3
        for k in range(i, i + templates[t + SLOTS]):
            if slots[q + SHAPE] == WORD:
                size = spans[k] >> _8 & _BYTE
                copy(data, spans[k] >> _24, size, words, used)
                place = digest(words, used, size) & (capacity - _1)
                while True:
                    entry = np.int64(table[place])
                    if entry < 0:
                        break
                    known = entries[entry]
                    if known & _BYTE == size and same(words, known >> _8, words, used, size):
                        break
                    place = (place + _1) & (capacity - _1)
                if entry < 0:
                    entry = np.int64(count)
                    table[place] = entry
                    entries[entry] = used << _8 | size
                    used += size
                    count += _1
                values[k] = np.uint64(entry)
                slots[q + LEAST] = min(slots[q + LEAST], values[k])
                slots[q + MOST] = max(slots[q + MOST], values[k])
            q += _8
        i += templates[t + SLOTS]
    return count, used


@called
def _put_operation(operations: Any, count: Any, length: Any, kind: Any, width: Any) -> Any:
    """Add an operation, and before it as many as its constant needs to be joined; returns the number of all."""
    while True:
        joins = length > LONGEST_CONSTANT
        at = _3 * count
        operations[at] = LONGEST_CONSTANT if joins else length
        operations[at + _1] = JOIN if joins else kind
        operations[at + _2] = _0 if joins else width
        count += _1
        if not joins:
            return count
        length -= LONGEST_CONSTANT


_TYPE = void(
    *(array_in(u8), array_in(u8), array_in(i64), array_out(u64), array_in(u64), array_in(u64), array_out(u64)),
    *(array_out(i32), array_out(u8), array_out(u64), array_out(u8), array_out(u64), array_out(u8), array_out(u64)),
    *(array_out(u64), array_out(i64)),
)


@kernel(_TYPE)
def type_slots(
    data: Any,
    mask: Any,
    numbers: Any,
    values: Any,
    spans: Any,
    templates: Any,
    slots: Any,
    table: Any,
    words: Any,
    entries: Any,
    operations: Any,
    bases: Any,
    constants: Any,
    plan: Any,
    plans: Any,
    told: Any,
) -> None:
    """Give every slot a shape and a base, and make the parts of the table that describes the templates.

    ``data`` to ``slots`` are as they were found, without what was not used. Values of WORD slots become numbers of
    ``entries`` (place and size in ``words``). ``operations`` receives length, kind and width of each, ``plan`` and
    ``plans`` what :func:`pack` needs of each slot that is not folded and of each template. ``told`` receives the sizes
    of all parts and the bits of all rows. ``table`` has a power of two of slots, ``2 * len(values)`` at least.
    """
    instances = _0
    for t in range(_0, np.uint64(len(templates)), _8):
        rows = templates[t + ROWS]
        q = templates[t + SLOT] << _3
        for _ in range(templates[t + SLOTS]):
            shape = _shape(slots, q, rows)
            slots[q + SHAPE] = shape
            if shape == WORD:
                instances += rows
                slots[q + LEAST] = ALL
                slots[q + MOST] = _0
            q += _8
    word_count = word_bytes = _0
    if instances > _0:
        capacity = _2
        while capacity < _2 * instances:
            capacity *= _2
        word_count, word_bytes = _number_words(
            data, mask, numbers, values, spans, templates, slots, table, capacity, words, entries
        )
    count = used = used_bases = bits = planned = _0
    for t in range(_0, np.uint64(len(templates)), _8):
        rows = templates[t + ROWS]
        start = templates[t + TEXT_AT]
        stop = start + templates[t + TEXT_BYTES]
        q = templates[t + SLOT] << _3
        first = planned
        for i in range(templates[t + SLOTS]):
            shape = slots[q + SHAPE]
            kind = shape & _BYTE
            if kind == WORD:
                least, most = slots[q + LEAST], slots[q + MOST]
                shape |= _choose_base(slots, q, least, most, rows) << _8
            if kind != FOLDED:
                width = shape >> _8 & _BYTE
                bits += width * rows
                span = spans[slots[q + FIRST]]
                length = (span >> _24) - start
                copy(data, start, length, constants, used)
                used += length
                start += length + (span >> _8 & _BYTE)
                base = slots[q + BASE]
                plan[planned] = i << _32 | width
                plan[planned + _1] = base
                if kind == DECIMAL:
                    plan[planned] |= _BYTE << _8
                if base != _0:
                    bases[used_bases] = base
                    used_bases += _1
                    kind |= BASE_FLAG
                if shape >> _16 != _0:
                    plan[planned] |= _1 << _16
                    kind |= ((shape >> _16) - _1) << _4
                count = _put_operation(operations, count, length, kind, width)
                planned += _2
            q += _8
        copy(data, start, stop - start, constants, used)
        used += stop - start
        count = _put_operation(operations, count, stop - start, END, _0)
        plans[t >> _2] = first << _32 | planned
        plans[(t >> _2) + _1] = templates[t + SLOTS]
    told[OPERATIONS] = np.int64(count)
    told[BASES] = np.int64(used_bases)
    told[CONSTANT_BYTES] = np.int64(used)
    told[WORDS] = np.int64(word_count)
    told[WORD_BYTES] = np.int64(word_bytes)
    told[BITS] = np.int64(bits)


_PACK = i64(
    *(array_in(u8), array_in(u8), array_in(i64), array_in(u64), array_in(u64), array_in(u64), array_in(u64)),
    *(array_out(i64), array_out(u8)),
)


@kernel(_PACK)
def pack(
    data: Any,
    mask: Any,
    numbers: Any,
    values: Any,
    spans: Any,
    plan: Any,
    plans: Any,
    vectors: Any,
    out: Any,
) -> Any:
    """Write the values of all rows, as :func:`type_slots` left them, one behind the other; returns the bytes written.

    ``vectors`` receives the bytes of each vector, a multiple of 8. ``out`` has room for all bits, 8 bytes for each
    vector and SLACK.
    """
    i = _0
    at = _0
    for vector in range(len(vectors)):
        begin = at
        word = _0
        filled = _0
        for row in range(np.uint64(vector * VECTOR), np.uint64(min((vector + 1) * VECTOR, len(numbers)))):
            if is_null(mask, row):
                continue
            t = np.uint64(numbers[row]) << _1
            step = plans[t] >> _32
            last = plans[t] & _LOW
            while step < last:
                what = plan[step]
                k = i + (what >> _32)
                value = values[k]
                span = spans[k]
                size = span >> _8 & _BYTE
                if what >> _16 & span & DIGIT_CLASS != _0:
                    # Read as decimal digits, for want of a letter.
                    value = _hexadecimal(data, span >> _24, size)
                # A decimal number was found as the rank of its digits.
                value -= plan[step + _1] + RANKS[size & what >> _8]
                word |= value << filled
                above = value >> _1 >> (_63 - filled)
                filled += what & _BYTE
                store(out, at, word)
                full = filled >> _6
                at += full << _3
                word = above if full != _0 else word
                filled &= _63
                step += _2
            i += plans[t + _1]
        store(out, at, word)
        at += np.uint64(filled != _0) << _3
        vectors[vector] = np.int64(at - begin)
    return np.int64(at)
