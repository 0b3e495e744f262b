"""Kernels that encode text by templates: finding slots, numbering templates, typing slots, packing values.

Characters are classified 64 at a time into bit masks, in which tokens and digits are then found by counting zeros; no
loop goes over single characters. Loops avoid decisions that cannot be foreseen: a wrong guess of the processor costs as
much as a slot does otherwise. All integers are unsigned words.

A template is told from others by its *image*: the constants with one byte :data:`MARKER` in the place of each slot.
Text that holds this byte itself (it is not UTF-8) is left to other encodings.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tidelog.jit import array_in, array_out, i32, i64, kernel, u8, u64, void

END, JOIN, DECIMAL, DIGITS, LOWER, UPPER, WORD = 0, 1, 2, 3, 4, 5, 6
"""What stands behind the constant of an operation; the numbers are part of the format."""

FOLDED = 7
"""A slot that has one value in all rows, and so becomes a part of the constants around it."""

BASE_FLAG = 8
"""Marks, among the kinds of operations, those that have a base."""

LONGEST_CONSTANT = 255
"""Bytes of the constant of one operation; longer ones are joined."""

HASH, IMAGE_AT, IMAGE_BYTES, SLOT, SLOTS, ROWS, TEXT_AT, TEXT_BYTES, TEMPLATE_FIELDS = 0, 1, 2, 3, 4, 5, 6, 7, 8
"""What is known of a template: its image and a hash of that, its first slot and their number, how many rows have it,
and the text of the first of these."""

TAGS, SIZES, LEAST, MOST, FIRST, SHAPE, BASE, SLOT_FIELDS = 0, 1, 2, 3, 4, 5, 6, 8
"""What is known of a slot: a bit for each number of leading zeros and for each class; a bit for each number of
characters; the least and the greatest value; the first value. Then its shape (see :func:`_shape`) and its base."""

TOO_MANY, FOREIGN = -1, -2
"""Why a block is not encoded by templates: too many of them, or too many slots; text with the byte of slots."""

OPERATIONS, BASES, CONSTANT_BYTES, WORDS, WORD_BYTES, BITS, OUTCOMES = 0, 1, 2, 3, 4, 5, 6
"""What :func:`type_slots` tells: sizes of the parts of the table, and bits of all rows."""

MARKER = 0xFF
SLACK = 128
"""Bytes behind text, images and packed values that words may reach into."""

_VECTOR = 1024
_BATCH = 64
"""Rows classified at a time."""
_MASKS = 5
"""Masks: of digits, of letters and digits, of hexadecimal letters, of upper-case ones of these, and of places where
there may be a slot: the first of some digits, and the fourth of some hexadecimal letters."""


def mask_words(text_bytes: int) -> int:
    """Words of working memory that :func:`find_templates` needs for so many bytes of text."""
    return _MASKS * (text_bytes // 64 + _BATCH + 4) + 2 * _BATCH


_PROBATION = 64
"""Templates that any block may have, on top of one in :data:`_ROWS_OF_TEMPLATE` rows so far."""
_ROWS_OF_TEMPLATE = 4


def _words(*numbers: int) -> list[Any]:
    return [np.uint64(number) for number in numbers]


_0, _1, _2, _3, _4, _6, _7, _8 = _words(0, 1, 2, 3, 4, 6, 7, 8)
_16, _24, _29, _32, _56, _62, _63, _64, _BYTE = _words(16, 24, 29, 32, 56, 62, 63, 64, 0xFF)
_DIGIT_CLASS, _LOWER_CLASS, _UPPER_CLASS, _WORD_CLASS = _words(1, 2, 4, 8)
_CLASSES = np.uint64(32)
"""Bit of the tags of a slot that stands for the first class."""
_LEADING_ZEROS = np.uint64((1 << 32) - 2)
"""Tags of values that start with zeros."""
_LONGEST_NUMBER = np.uint64(16)
"""Characters of a slot that holds digits, decimal or hexadecimal."""
_LONGEST_TOKEN = np.uint64(56)
"""Characters of a slot that holds a word, and bits that a byte-aligned word certainly has of a mask."""
_DIGIT_RUNS = np.uint64(3)
"""Runs of digits that are slots of their own in a token that is no number; with more, the token is one slot."""
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_NIBBLES, _ONES, _PAIRS, _FOURS = _words(0x0F0F0F0F0F0F0F0F, 0x0101010101010101, 0x00FF00FF00FF00FF, 0x0000FFFF0000FFFF)
_RADIX = np.array(
    [
        [1 + (10 << 8), 1 + (100 << 16), 1 + (10**4 << 32), 10**8],
        [1 + (16 << 8), 1 + (256 << 16), 1 + (1 << 48), 1 << 32],
    ],
    np.uint64,
)
"""Factors that join two digits, pairs, fours and eights of them; decimal and hexadecimal."""
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


def _type_classify(_typing: Any, array: Any, index: Any) -> Any:
    """Of 64 bytes at ``index``, as bit masks: digits, letters and digits, hexadecimal letters, upper-case ones."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        half = ir.VectorType(ir.IntType(8), 32)
        word = ir.IntType(64)
        masks = []
        for start in (0, 32):
            index = builder.add(arguments[1], ir.Constant(arguments[1].type, start))
            place = _place(context, builder, signature.args[0], arguments[0], index, half)
            text = builder.load(place, align=1)
            folded, zero, a, ten, f, z = (
                ir.Constant(half, [number] * 32) for number in (32, ord("0"), ord("a"), 10, 6, 26)
            )
            digits = builder.icmp_unsigned("<", builder.sub(text, zero), ten)
            letter = builder.sub(builder.or_(text, folded), a)
            hexadecimal = builder.icmp_unsigned("<", letter, f)
            upper = builder.and_(hexadecimal, builder.icmp_unsigned("<", text, a))
            either = builder.or_(digits, builder.icmp_unsigned("<", letter, z))
            masks.append(
                [
                    builder.zext(builder.bitcast(mask, ir.IntType(32)), word)
                    for mask in (digits, either, hexadecimal, upper)
                ]
            )
        words = [builder.or_(low, builder.shl(high, ir.Constant(word, 32))) for low, high in zip(*masks, strict=True)]
        return context.make_tuple(builder, signature.return_type, words)

    return types.UniTuple(u64, 4)(array, index), generate


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
_classify: Any = intrinsic(_type_classify)
_trailing_zeros: Any = _counter("cttz")
_leading_zeros: Any = _counter("ctlz")
_ones: Any = _counter("ctpop")


@_inlined
def _is_null(mask: Any, row: Any) -> Any:
    return len(mask) != 0 and mask[row] == 0


@_called
def _classify_rows(data: Any, offsets: Any, mask: Any, begin: Any, end: Any, masks: Any, stride: Any) -> None:
    """Write the masks of the valid rows ``begin`` to ``end``, one mask ``stride`` words behind the other.

    A row starts with a word of its own, behind at least one bit of zero: the first with the second word.
    """
    digits = either = hexadecimal = upper = _0
    for kind in range(_MASKS):
        masks[np.uint64(kind) * stride] = _0
    k = _1
    for row in range(begin, end):
        if _is_null(mask, row):
            continue
        at = np.uint64(offsets[row])
        rest = np.uint64(offsets[row + _1]) - at
        digits_before = letters_before = _0
        while True:
            inside = _ALL if rest >= _64 else ~(_ALL << rest)
            digits, either, hexadecimal, upper = _classify(data, at)
            digits &= inside
            hexadecimal &= inside
            # A fourth hexadecimal letter in a row: what has no digit may still be a number.
            two = hexadecimal & (hexadecimal << _1 | letters_before >> _63)
            four = two & (two << _2 | (letters_before & letters_before << _1) >> _62)
            masks[k] = digits
            masks[stride + k] = either & inside
            masks[_2 * stride + k] = hexadecimal
            masks[_3 * stride + k] = upper & inside
            masks[_4 * stride + k] = digits & ~(digits << _1 | digits_before >> _63) | four
            digits_before = digits
            letters_before = hexadecimal
            k += _1
            at += _64
            if rest < _64:
                break
            rest -= _64
    for kind in range(_MASKS):
        masks[np.uint64(kind) * stride + k] = _0


@_inlined
def _window(masks: Any, start: Any, at: Any) -> Any:
    """At least 57 bits, from bit ``at`` on, of the mask that starts at byte ``start``; higher ones are arbitrary."""
    return _load(masks, start + (at >> _3)) >> (at & _7)


@_inlined
def _from(bits: Any, count: Any) -> Any:
    """``bits`` without the lowest ``count``."""
    return bits & _ALL << count if count < _64 else _0


@_inlined
def _below(count: Any) -> Any:
    """The lowest 1 to 64 bits."""
    return _ALL >> (_64 - count)


@_inlined
def _digits8(data: Any, at: Any, size: Any) -> Any:
    """1 to 8 digits as bytes of a word, the last one on top, and zeros below the first."""
    chars = _load(data, at) << (_64 - (size << _3))
    return (chars & _NIBBLES) + (chars >> _6 & _ONES) * np.uint64(9)


@_inlined
def _joined(digits: Any, radix: Any) -> Any:
    """The number that up to eight digits are."""
    word = digits * _RADIX[radix, _0] >> _8
    word = (word & _PAIRS) * _RADIX[radix, _1] >> _16
    return (word & _FOURS) * _RADIX[radix, _2] >> _32


@_called
def _number(data: Any, at: Any, size: Any, radix: Any) -> Any:
    """The number that 1 to 16 digits are, and how many of them are zeros before another digit."""
    if size <= _8:
        digits = _digits8(data, at, size)
        return _joined(digits, radix), (min(_trailing_zeros(digits), _56) >> _3) + size - _8
    digits = _digits8(data, at, size - _8)
    last = _digits8(data, at + size - _8, _8)
    zeros = _trailing_zeros(digits) if digits != _0 else _64 + min(_trailing_zeros(last), _56)
    return _joined(digits, radix) * _RADIX[radix, _3] + _joined(last, radix), (zeros >> _3) + size - _16


@_inlined
def _digest(data: Any, at: Any, size: Any) -> Any:
    """A hash of bytes."""
    word = size
    last = at + size
    while at + _8 <= last:
        word = (word ^ _load(data, at)) * _MULTIPLIER
        word ^= word >> _29
        at += _8
    if at < last:
        word = (word ^ (_load(data, at) & _below((last - at) << _3))) * _MULTIPLIER
    return word ^ word >> _32


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
def _tokenise(
    data: Any,
    offsets: Any,
    mask: Any,
    begin: Any,
    end: Any,
    masks: Any,
    values: Any,
    spans: Any,
    done: Any,
    rough: Any,
    ends: Any,
) -> Any:
    """Find the slots of the valid rows ``begin`` to ``end``, whose masks are given; returns ``done`` and their number.

    That is more than ``len(values)`` if there may be no room for all.
    ``values`` and ``spans`` receive them from ``done`` on, ``rough`` the images of all rows, ``ends`` where image and
    slots of each row end.
    """
    stride = np.uint64(len(masks) // _MASKS)
    # Where each mask starts, in bytes.
    step = stride << _3
    alnum_at, hex_at, upper_at = step, _2 * step, _3 * step
    places_at = _4 * stride
    first = _1
    image = _0
    e = _0
    for row in range(begin, end):
        if _is_null(mask, row):
            continue
        if done + np.uint64(128) > np.uint64(len(values)):
            return _ALL
        # Positions are bits of the masks; with this added, bytes of the data.
        base = np.uint64(offsets[row]) - (first << _6)
        stop = np.uint64(offsets[row + _1]) - base
        k = first
        first = (stop >> _6) + _1
        boundary = constant = k << _6
        places = masks[places_at + k]
        while True:
            if places == _0:
                k += _1
                if k == first:
                    break
                # Tokens that begin in 64 characters have fewer slots than twice that.
                if done + np.uint64(128) > np.uint64(len(values)):
                    return _ALL
                places = masks[places_at + k]
                # A token that was dealt with may reach into the word.
                if boundary > k << _6:
                    places = _from(places, boundary - (k << _6))
                continue
            start = (k << _6) + _trailing_zeros(places)
            places &= places - _1
            around = _window(masks, alnum_at, start - _1)
            size = _trailing_zeros(~_window(masks, _0, start))
            if around & _1 == _0 and _trailing_zeros(~(around >> _1)) == size and size <= _8 and size > _0:
                # Nothing but a few digits, as most slots.
                gap = start - constant
                _copy(data, base + constant, gap, rough, image)
                rough[image + gap] = MARKER
                image += gap + _1
                constant = start + size
                digits = _digits8(data, base + start, size)
                zeros = (min(_trailing_zeros(digits), _56) >> _3) + size - _8
                values[done] = _joined(digits, _0) + _RANKS[size]
                spans[done] = (base + start) << _24 | zeros << _16 | size << _8 | _DIGIT_CLASS
                done += _1
                continue
            # The token around it begins behind the one before, and has at most 56 characters.
            letters = _window(masks, alnum_at, start - _56) << _8
            token = max(start - min(_leading_zeros(~letters), _56), boundary)
            boundary = start + _trailing_zeros(~_window(masks, alnum_at, start))
            places = _from(places, boundary - (k << _6))
            if boundary > token + _56:
                # What is cut off is a token of its own.
                boundary = token + _56
                masks[places_at + (boundary >> _6)] |= _1 << (boundary & _63)
                places = _from(masks[places_at + k], boundary - (k << _6))
            size = boundary - token
            everything = _below(size)
            digits = _window(masks, _0, token) & everything
            kind = _DIGIT_CLASS
            radix = _0
            runs = digits
            longest = _LONGEST_NUMBER
            if digits != everything:
                letters = _window(masks, hex_at, token) & everything
                upper = _window(masks, upper_at, token) & everything
                if digits | letters == everything and (upper == _0 or upper == letters):  # noqa: SIM109 - a tuple costs a loop
                    if digits == _0 and size < _4:
                        continue
                    kind = _LOWER_CLASS if upper == _0 else _UPPER_CLASS
                    radix = _1
                    runs = everything
                elif digits == _0:
                    continue
                elif _ones(digits & ~(digits << _1)) > _DIGIT_RUNS:
                    kind = _WORD_CLASS
                    runs = everything
                    longest = _LONGEST_TOKEN
            while runs != _0:
                skipped = _trailing_zeros(runs)
                size = min(_trailing_zeros(~(runs >> skipped)), longest)
                runs &= ~(_below(size) << skipped)
                start = token + skipped
                gap = start - constant
                _copy(data, base + constant, gap, rough, image)
                rough[image + gap] = MARKER
                image += gap + _1
                constant = start + size
                value = zeros = _0
                if kind != _WORD_CLASS:
                    value, zeros = _number(data, base + start, size, radix)
                    value += _RANKS[size if radix == _0 else _0]
                values[done] = value
                spans[done] = (base + start) << _24 | zeros << _16 | size << _8 | kind
                done += _1
        gap = stop - constant
        _copy(data, base + constant, gap, rough, image)
        image += gap
        ends[e] = image
        ends[e + _1] = done
        e += _2
    return done


_FIND = i64(
    *(
        array_in(u8),
        array_in(i64),
        array_in(u8),
        i64,
        i64,
        array_out(u64),
        array_out(i32),
        array_out(u8),
        array_out(u8),
    ),
    *(array_out(i64), array_out(u64), array_out(u64), array_out(u64), array_out(u64)),
)


@kernel(_FIND)
def find_templates(
    data: Any,
    offsets: Any,
    mask: Any,
    allowance: Any,
    most: Any,
    masks: Any,
    table: Any,
    rough: Any,
    images: Any,
    numbers: Any,
    values: Any,
    spans: Any,
    templates: Any,
    slots: Any,
) -> Any:
    """Number the templates of rows, and find the values of their slots; row ``i`` starts at ``offsets[i]`` of ``data``.

    ``numbers`` receives the template of each row, by first appearance (a null repeats the row before). ``values`` and
    ``spans`` receive, row after row, what stands in each slot: the rank of decimal digits, the value of hexadecimal
    ones; and its place in ``data``, leading zeros, size and class. ``templates`` and ``slots`` receive their fields.
    Returns the number of templates or why there is none: more of them than ``most``, or than ``allowance`` and the part
    of the rows that pays, or no more room in ``values`` or ``slots``.

    ``data``, ``rough`` and ``images``, which have room for all rows, have SLACK bytes more; ``table`` has a power of
    two of slots, ``2 * most`` at least.
    """
    for k in range(len(table)):
        table[k] = -1
    slot_mask = np.uint64(len(table) - 1)
    ends = masks[len(masks) - 2 * _BATCH :]
    masks = masks[: len(masks) - 2 * _BATCH]
    stride = np.uint64(len(masks) // _MASKS)
    count = used_slots = used_bytes = done = t = _0
    rows = len(offsets) - 1
    for begin in range(0, rows, _BATCH):
        first = np.uint64(begin)
        last = np.uint64(min(begin + _BATCH, rows))
        if np.int64(count) > max(allowance, _PROBATION + begin // _ROWS_OF_TEMPLATE):
            return TOO_MANY
        _classify_rows(data, offsets, mask, first, last, masks, stride)
        found = done
        done = _tokenise(data, offsets, mask, first, last, masks, values, spans, done, rough, ends)
        if done == _ALL:
            return TOO_MANY
        at = e = _0
        for row in range(first, last):
            if _is_null(mask, row):
                numbers[row] = np.int64(t >> _3)
                continue
            size = ends[e] - at
            slots_of_row = ends[e + _1] - found
            key = _digest(rough, at, size)
            place = key & slot_mask
            while True:
                known = np.int64(table[place])
                if known < 0:
                    break
                t = np.uint64(known) << _3
                if (
                    templates[t] == key  # HASH
                    and templates[t + np.uint64(IMAGE_BYTES)] == size
                    and templates[t + np.uint64(SLOTS)] == slots_of_row
                    and _same(images, templates[t + np.uint64(IMAGE_AT)], rough, at, size)
                ):
                    break
                place = (place + _1) & slot_mask
            if known < 0:
                if np.int64(count) == most or used_slots + slots_of_row > np.uint64(len(slots)) >> _3:
                    return TOO_MANY
                marks = _0
                for k in range(at, at + size):
                    marks += np.uint64(rough[k] == MARKER)
                if marks != slots_of_row:
                    return FOREIGN
                _copy(rough, at, size, images, used_bytes)
                table[place] = np.int64(count)
                t = count << _3
                templates[t] = key
                templates[t + np.uint64(IMAGE_AT)] = used_bytes
                templates[t + np.uint64(IMAGE_BYTES)] = size
                templates[t + np.uint64(SLOT)] = used_slots
                templates[t + np.uint64(SLOTS)] = slots_of_row
                templates[t + np.uint64(ROWS)] = _0
                templates[t + np.uint64(TEXT_AT)] = np.uint64(offsets[row])
                templates[t + np.uint64(TEXT_BYTES)] = np.uint64(offsets[row + _1] - offsets[row])
                for k in range(found, found + slots_of_row):
                    q = used_slots << _3
                    slots[q] = slots[q + np.uint64(SIZES)] = slots[q + np.uint64(MOST)] = _0
                    slots[q + np.uint64(LEAST)] = _ALL
                    slots[q + np.uint64(FIRST)] = k
                    used_slots += _1
                used_bytes += size
                count += _1
            templates[t + np.uint64(ROWS)] += _1
            q = templates[t + np.uint64(SLOT)] << _3
            for k in range(found, found + slots_of_row):
                span = spans[k]
                slots[q] |= _1 << (span >> _16 & _BYTE) | (span & _BYTE) << _CLASSES  # TAGS
                slots[q + np.uint64(SIZES)] |= _1 << (span >> _8 & _BYTE)
                slots[q + np.uint64(LEAST)] = min(slots[q + np.uint64(LEAST)], values[k])
                slots[q + np.uint64(MOST)] = max(slots[q + np.uint64(MOST)], values[k])
                q += _8
            numbers[row] = np.int64(t >> _3)
            at = ends[e]
            found = ends[e + _1]
            e += _2
    return np.int64(count)


@_inlined
def _bits(value: Any) -> Any:
    return _64 - _leading_zeros(value)


@_called
def _choose_base(slots: Any, q: Any, least: Any, most: Any, rows: Any) -> Any:
    """Set the base of a slot, the least value if that saves more than it takes; returns the width."""
    width = _bits(most)
    saved = width - _bits(most - least)
    pays = saved * rows > _64
    slots[q + np.uint64(BASE)] = least if pays else _0
    return width - saved if pays else width


@_called
def _shape(slots: Any, q: Any, rows: Any) -> Any:
    """The shape of a slot by what was seen in it: its kind, its width << 8, of hexadecimal ones its characters << 16.

    Sets its base. A word gets its width later.
    """
    classes = slots[q] >> _CLASSES
    sizes = slots[q + np.uint64(SIZES)]
    least = slots[q + np.uint64(LEAST)]
    most = slots[q + np.uint64(MOST)]
    longest = _63 - _leading_zeros(sizes)
    letters = classes & ~_DIGIT_CLASS
    alike = _ones(sizes) == _1
    slots[q + np.uint64(BASE)] = _0
    pure = letters == _0 or classes == _LOWER_CLASS or classes == _UPPER_CLASS
    if least == most and alike and pure:
        return np.uint64(FOLDED)
    if letters == _0:
        if slots[q] & _LEADING_ZEROS != _0:
            return _choose_base(slots, q, least, most, rows) << _8 | np.uint64(DIGITS)
        least -= _RANKS[_trailing_zeros(sizes)]
        most -= _RANKS[longest]
        return _choose_base(slots, q, least, most, rows) << _8 | np.uint64(DECIMAL)
    if alike and (letters == _LOWER_CLASS or letters == _UPPER_CLASS):  # noqa: SIM109
        width = (longest - _trailing_zeros(slots[q])) << _2
        return longest << _16 | width << _8 | np.uint64(LOWER if letters == _LOWER_CLASS else UPPER)
    return np.uint64(WORD)


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
        q = templates[t + np.uint64(SLOT)] << _3
        for k in range(i, i + templates[t + np.uint64(SLOTS)]):
            if slots[q + np.uint64(SHAPE)] == np.uint64(WORD):
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
                slots[q + np.uint64(LEAST)] = min(slots[q + np.uint64(LEAST)], values[k])
                slots[q + np.uint64(MOST)] = max(slots[q + np.uint64(MOST)], values[k])
            q += _8
        i += templates[t + np.uint64(SLOTS)]
    return count, used


@_called
def _put_operation(operations: Any, count: Any, length: Any, kind: Any, width: Any) -> Any:
    """Add an operation, and before it as many as its constant needs to be joined; returns the number of all."""
    room = np.uint64(len(operations) // 3)
    while True:
        joins = length > np.uint64(LONGEST_CONSTANT)
        operations[count] = LONGEST_CONSTANT if joins else length
        operations[room + count] = JOIN if joins else kind
        operations[_2 * room + count] = 0 if joins else width
        count += _1
        if not joins:
            return count
        length -= np.uint64(LONGEST_CONSTANT)


_TYPE = void(
    *(array_in(u8), array_in(u8), array_in(i64), array_out(u64), array_in(u64), array_in(u64), array_out(u64)),
    *(array_out(i32), array_out(u8), array_out(u64), array_out(u8), array_out(u64), array_out(u8), array_out(i64)),
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
    told: Any,
) -> None:
    """Give every slot a shape and a base, and make the parts of the table that describes the templates.

    ``data`` to ``slots`` are as :func:`find_templates` left them, without what it did not use. Values of WORD slots
    become numbers of ``entries`` (place and size in ``words``). ``operations`` receives lengths, kinds and widths, each
    in a third of it. ``told`` receives the sizes of all parts and the bits of all rows. ``table`` has a power of two of
    slots, ``2 * len(values)`` at least.
    """
    instances = _0
    for t in range(_0, np.uint64(len(templates)), _8):
        rows = templates[t + np.uint64(ROWS)]
        q = templates[t + np.uint64(SLOT)] << _3
        for _ in range(templates[t + np.uint64(SLOTS)]):
            shape = _shape(slots, q, rows)
            slots[q + np.uint64(SHAPE)] = shape
            if shape == np.uint64(WORD):
                instances += rows
                slots[q + np.uint64(LEAST)] = _ALL
                slots[q + np.uint64(MOST)] = _0
            q += _8
    word_count = word_bytes = _0
    if instances > _0:
        capacity = _2
        while capacity < _2 * instances:
            capacity *= _2
        word_count, word_bytes = _number_words(
            data, mask, numbers, values, spans, templates, slots, table, capacity, words, entries
        )
    count = used = used_bases = bits = _0
    for t in range(_0, np.uint64(len(templates)), _8):
        rows = templates[t + np.uint64(ROWS)]
        start = templates[t + np.uint64(TEXT_AT)]
        stop = start + templates[t + np.uint64(TEXT_BYTES)]
        q = templates[t + np.uint64(SLOT)] << _3
        for _ in range(templates[t + np.uint64(SLOTS)]):
            shape = slots[q + np.uint64(SHAPE)]
            kind = shape & _BYTE
            if kind == np.uint64(WORD):
                least, most = slots[q + np.uint64(LEAST)], slots[q + np.uint64(MOST)]
                shape |= _choose_base(slots, q, least, most, rows) << _8
                slots[q + np.uint64(SHAPE)] = shape
            if kind != np.uint64(FOLDED):
                width = shape >> _8 & _BYTE
                bits += width * rows
                span = spans[slots[q + np.uint64(FIRST)]]
                length = (span >> _24) - start
                _copy(data, start, length, constants, used)
                used += length
                start += length + (span >> _8 & _BYTE)
                base = slots[q + np.uint64(BASE)]
                if base != _0:
                    bases[used_bases] = base
                    used_bases += _1
                    kind |= np.uint64(BASE_FLAG)
                if shape >> _16 != _0:
                    kind |= ((shape >> _16) - _1) << _4
                count = _put_operation(operations, count, length, kind, width)
            q += _8
        _copy(data, start, stop - start, constants, used)
        used += stop - start
        count = _put_operation(operations, count, stop - start, np.uint64(END), _0)
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
    templates: Any,
    slots: Any,
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
            t = np.uint64(numbers[row]) << _3
            q = templates[t + np.uint64(SLOT)] << _3
            last = i + templates[t + np.uint64(SLOTS)]
            while i < last:
                shape = slots[q + np.uint64(SHAPE)]
                width = shape >> _8 & _BYTE
                value = values[i]
                size = spans[i] >> _8 & _BYTE
                if shape >> _16 != _0 and spans[i] & _DIGIT_CLASS != _0:
                    # Read as decimal digits, for want of a letter.
                    value, _ = _number(data, spans[i] >> _24, size, _1)
                value -= slots[q + np.uint64(BASE)] + _RANKS[size if shape & _BYTE == np.uint64(DECIMAL) else _0]
                # What is folded has a value, but no bits.
                value = value if width != _0 else _0
                word |= value << filled
                above = value >> _1 >> (_63 - filled)
                filled += width
                _store(out, at, word)
                full = filled >> _6
                at += full << _3
                word = above if full != _0 else word
                filled &= _63
                q += _8
                i += _1
        _store(out, at, word)
        at += np.uint64(filled != _0) << _3
        vectors[vector] = np.int64(at - begin)
    return np.int64(at)
