"""Kernels that pack text by templates: the shape of each slot, and the values of all rows as bits.

All integers are unsigned words. Loops over values avoid decisions that cannot be foreseen.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

from tidelog.jit import array_in, array_out, i32, i64, kernel, u8, u64, void


def _words(*numbers: int) -> list[Any]:
    return [np.uint64(number) for number in numbers]


END, JOIN, DECIMAL, DIGITS, LOWER, UPPER, WORD = _words(*range(7))
"""What stands behind the constant of an operation; the numbers are part of the format."""

FOLDED = np.uint64(7)
"""A slot that has one value in all rows, and so becomes a part of the constants around it."""

BASE_FLAG = np.uint64(8)
"""Marks, among the kinds of operations, those that have a base."""

LONGEST_CONSTANT = np.uint64(255)
"""Bytes of the constant of one operation; longer ones are joined."""

HASH, IMAGE_AT, IMAGE_BYTES, SLOT, SLOTS, ROWS, TEXT_AT, TEXT_BYTES = _words(*range(8))
TEMPLATE_FIELDS = 8
"""What is known of a template: its image and a hash of that, its first slot and their number, how many rows have it,
and the text of the first of these."""

TAGS, SIZES, LEAST, MOST, FIRST, SHAPE, BASE = _words(*range(7))
SLOT_FIELDS = 8
"""What is known of a slot: a bit for each number of leading zeros and for each class; a bit for each number of
characters; the least and the greatest value; the first value. Then its shape (see :func:`_shape`) and its base."""

OPERATIONS, BASES, CONSTANT_BYTES, WORDS, WORD_BYTES, BITS, OUTCOMES = 0, 1, 2, 3, 4, 5, 6
"""What :func:`type_slots` tells: sizes of the parts of the table, and bits of all rows."""

PLAN_FIELDS = 2
"""Words of a plan: of a slot, its width, a mask for sizes if it is decimal, 1 << 16 if it is hexadecimal and its number
in the row << 32; and its base. Of a template, where its slots start and end in these; and how many it has in all."""

SLACK = 128
"""Bytes behind text and packed values that words may reach into."""

_VECTOR = 1024


_0, _1, _2, _3, _4, _6, _8, _16, _24 = _words(0, 1, 2, 3, 4, 6, 8, 16, 24)
_29, _32, _63, _64, _BYTE, _LOW = _words(29, 32, 63, 64, 0xFF, 0xFFFFFFFF)
_DIGIT_CLASS, _LOWER_CLASS, _UPPER_CLASS, _WORD_CLASS = _words(1, 2, 4, 8)
_CLASSES = np.uint64(32)
"""Bit of the tags of a slot that stands for the first class."""
_LEADING_ZEROS = np.uint64((1 << 32) - 2)
"""Tags of values that start with zeros."""
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_RANKS = np.array([0, 0, *((10**n - 10) // 9 for n in range(2, 17))], np.uint64)
"""By number of digits, the rank of the first string of so many, among all strings of digits by length and value."""

_inlined: Any = numba.njit(nogil=True, error_model="numpy", forceinline=True, _nrt=False)
_called: Any = numba.njit(nogil=True, error_model="numpy", _nrt=False)
"""Decorators of helpers, inlined or not. They own nothing, and so need not count references to arrays, which costs more
than most of them do."""


def _place(context: Any, builder: Any, type: Any, array: Any, index: Any, pointee: Any) -> Any:
    """A pointer to what stands ``index`` bytes behind the start of an array."""
    base = builder.bitcast(context.make_array(type)(context, builder, array).data, ir.IntType(8).as_pointer())
    return builder.bitcast(builder.gep(base, [index]), pointee.as_pointer())


def _type_load(_typing: Any, array: Any, index: Any) -> Any:
    """The eight bytes of ``array`` at ``index`` as a little-endian word; unchecked."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place(context, builder, signature.args[0], arguments[0], arguments[1], ir.IntType(64))
        return builder.load(place, align=1)

    return u64(array, index), generate


def _type_store(_typing: Any, array: Any, index: Any, word: Any) -> Any:
    """Writes a word as eight bytes of ``array`` at ``index``; unchecked."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place(context, builder, signature.args[0], arguments[0], arguments[1], ir.IntType(64))
        builder.store(arguments[2], place, align=1)
        return context.get_dummy_value()

    return void(array, index, u64), generate


def _type_copy(_typing: Any, target: Any, at: Any, source: Any, start: Any) -> Any:
    """Copies sixteen bytes from an index of one array to an index of another; unchecked."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.VectorType(ir.IntType(8), 16)
        target, source = (
            _place(context, builder, signature.args[k], arguments[k], arguments[k + 1], word) for k in (0, 2)
        )
        builder.store(builder.load(source, align=1), target, align=1)
        return context.get_dummy_value()

    return void(target, at, source, start), generate


def _counter(operation: str) -> Any:
    """An intrinsic that counts bits of a word; zeros before or behind the ones are 64 if there is none."""

    def typed(_typing: Any, word: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            rest = () if operation == "ctpop" else (ir.Constant(ir.IntType(1), 0),)
            return getattr(builder, operation)(arguments[0], *rest)

        return u64(u64), generate

    return intrinsic(typed)


_load: Any = intrinsic(_type_load)
_store: Any = intrinsic(_type_store)
_copy16: Any = intrinsic(_type_copy)
_trailing_zeros: Any = _counter("cttz")
_leading_zeros: Any = _counter("ctlz")
_ones: Any = _counter("ctpop")


@_inlined
def _is_null(mask: Any, row: Any) -> Any:
    return len(mask) != 0 and mask[row] == 0


@_inlined
def _below(count: Any) -> Any:
    """The lowest 1 to 64 bits."""
    return _ALL >> (_64 - count)


@_inlined
def _digest(data: Any, at: Any, size: Any) -> Any:
    """A hash of bytes, in two lanes that need not wait for each other."""
    one = size
    other = _MULTIPLIER
    last = at + size
    while at + _16 <= last:
        one = (one ^ _load(data, at)) * _MULTIPLIER
        other = (other ^ _load(data, at + _8)) * _MULTIPLIER
        one ^= one >> _29
        other ^= other >> _29
        at += _16
    if at + _8 <= last:
        one = (one ^ _load(data, at)) * _MULTIPLIER
        one ^= one >> _29
        at += _8
    if at < last:
        other = (other ^ (_load(data, at) & _below((last - at) << _3))) * _MULTIPLIER
        other ^= other >> _29
    return one ^ (other << _32 | other >> _32)


@_inlined
def _same(data: Any, one: Any, others: Any, other: Any, size: Any) -> Any:
    """Whether two stretches of bytes are equal."""
    different = _0
    last = one + size
    while one + _8 <= last:
        different |= _load(data, one) ^ _load(others, other)
        one += _8
        other += _8
    if one < last:
        different |= (_load(data, one) ^ _load(others, other)) & _below((last - one) << _3)
    return different == _0


@_inlined
def _copy(data: Any, start: Any, size: Any, out: Any, at: Any) -> None:
    """Copy bytes, and some behind them."""
    _copy16(out, at, data, start)
    k = _16
    while k < size:
        _copy16(out, at + k, data, start + k)
        k += _16


@_called
def _hexadecimal(data: Any, at: Any, size: Any) -> Any:
    """The number that 1 to 16 digits are if they are hexadecimal ones."""
    value = _0
    for k in range(at, at + size):
        value = value << _4 | np.uint64(data[k]) & np.uint64(15)
    return value


@_inlined
def _bits(value: Any) -> Any:
    return _64 - _leading_zeros(value)


@_called
def _choose_base(slots: Any, q: Any, least: Any, most: Any, rows: Any) -> Any:
    """Set the base of a slot, the least value if that saves more than it takes; returns the width."""
    width = _bits(most)
    saved = width - _bits(most - least)
    pays = saved * rows > _64
    slots[q + BASE] = least if pays else _0
    return width - saved if pays else width


@_called
def _shape(slots: Any, q: Any, rows: Any) -> Any:
    """The shape of a slot by what was seen in it: its kind, its width << 8, of hexadecimal ones its characters << 16.

    Sets its base. A word gets its width later.
    """
    classes = slots[q] >> _CLASSES
    sizes = slots[q + SIZES]
    least = slots[q + LEAST]
    most = slots[q + MOST]
    longest = _63 - _leading_zeros(sizes)
    letters = classes & ~_DIGIT_CLASS
    alike = _ones(sizes) == _1
    slots[q + BASE] = _0
    pure = _ones(classes) == _1 and classes != _WORD_CLASS
    if least == most and alike and pure:
        return FOLDED
    if letters == _0:
        if slots[q] & _LEADING_ZEROS != _0:
            return _choose_base(slots, q, least, most, rows) << _8 | DIGITS
        least -= _RANKS[_trailing_zeros(sizes)]
        most -= _RANKS[longest]
        return _choose_base(slots, q, least, most, rows) << _8 | DECIMAL
    if alike and (letters == _LOWER_CLASS or letters == _UPPER_CLASS):  # noqa: SIM109
        width = (longest - _trailing_zeros(slots[q])) << _2
        return longest << _16 | width << _8 | np.uint64(LOWER if letters == _LOWER_CLASS else UPPER)
    return WORD


@_called
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
        if _is_null(mask, row):
            continue
        t = np.uint64(numbers[row]) << _3
        q = templates[t + SLOT] << _3
        for k in range(i, i + templates[t + SLOTS]):
            if slots[q + SHAPE] == WORD:
                size = spans[k] >> _8 & _BYTE
                _copy(data, spans[k] >> _24, size, words, used)
                place = _digest(words, used, size) & (capacity - _1)
                while True:
                    entry = np.int64(table[place])
                    if entry < 0:
                        break
                    known = entries[entry]
                    if known & _BYTE == size and _same(words, known >> _8, words, used, size):
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


@_called
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
                slots[q + LEAST] = _ALL
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
                _copy(data, start, length, constants, used)
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
        _copy(data, start, stop - start, constants, used)
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
        for row in range(np.uint64(vector * _VECTOR), np.uint64(min((vector + 1) * _VECTOR, len(numbers)))):
            if _is_null(mask, row):
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
                if what >> _16 & span & _DIGIT_CLASS != _0:
                    # Read as decimal digits, for want of a letter.
                    value = _hexadecimal(data, span >> _24, size)
                # A decimal number was found as the rank of its digits.
                value -= plan[step + _1] + _RANKS[size & what >> _8]
                word |= value << filled
                above = value >> _1 >> (_63 - filled)
                filled += what & _BYTE
                _store(out, at, word)
                full = filled >> _6
                at += full << _3
                word = above if full != _0 else word
                filled &= _63
                step += _2
            i += plans[t + _1]
        _store(out, at, word)
        at += np.uint64(filled != _0) << _3
        vectors[vector] = np.int64(at - begin)
    return np.int64(at)
