"""Kernels that find the templates of text: the slots of each row, and the number of its template.

Characters are classified 64 at a time into bit masks, in which tokens and digits are then found by counting zeros; no
loop goes over single characters. Loops avoid decisions that cannot be foreseen: a wrong guess of the processor costs as
much as a slot does otherwise. All integers are unsigned words.

A template is told from others by its *image*: the constants with one byte :data:`MARKER` in the place of each slot.
Text that holds this byte itself (it is not UTF-8) is left to other encodings.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tidelog.jit import array_in, array_out, called, i32, i64, inlined, kernel, u8, u64
from tidelog.storage.codec.memory.kernels import count_ones, leading_zeros, load, place_of, trailing_zeros
from tidelog.storage.codec.text.template.kernels import (
    ALL,
    CLASSES,
    DIGIT_CLASS,
    FIRST,
    IMAGE_AT,
    IMAGE_BYTES,
    LEAST,
    LOWER_CLASS,
    MOST,
    RANKS,
    ROWS,
    SIZES,
    SLOT,
    SLOTS,
    TEXT_AT,
    TEXT_BYTES,
    UPPER_CLASS,
    WORD_CLASS,
    below,
    copy,
    digest,
    is_null,
    same,
    unsigned,
)

TOO_MANY, FOREIGN = -1, -2
"""Why a block is not encoded by templates: too many of them, or too many slots; text with the byte of slots."""

MARKER = 0xFF

_BATCH = 64
"""Rows classified at a time."""
_MASKS = 5
"""Masks: of digits, of letters and digits, of hexadecimal letters, of upper-case ones of these, and of places where
there may be a slot: the first of some digits, and the fourth of some hexadecimal letters."""
_PROBATION = 64
"""Templates that any block may have, on top of one in :data:`_ROWS_OF_TEMPLATE` rows so far."""
_ROWS_OF_TEMPLATE = 4


def mask_words(text_bytes: int) -> int:
    """Words of working memory that :func:`find_templates` needs for so many bytes of text."""
    return _MASKS * (text_bytes // 64 + _BATCH + 4) + 2 * _BATCH


_0, _1, _2, _3, _4, _6, _7, _8 = unsigned(0, 1, 2, 3, 4, 6, 7, 8)
_16, _24, _32, _56, _62, _63, _64, _BYTE = unsigned(16, 24, 32, 56, 62, 63, 64, 0xFF)
_LONGEST_NUMBER = np.uint64(16)
"""Characters of a slot that holds digits, decimal or hexadecimal."""
_LONGEST_TOKEN = np.uint64(56)
"""Characters of a slot that holds a word, and bits that a byte-aligned word certainly has of a mask."""
_DIGIT_RUNS = np.uint64(3)
"""Runs of digits that are slots of their own in a token that is no number; with more, the token is one slot."""
_NIBBLES, _ONES, _PAIRS, _FOURS = unsigned(
    0x0F0F0F0F0F0F0F0F, 0x0101010101010101, 0x00FF00FF00FF00FF, 0x0000FFFF0000FFFF
)
_RADIX = np.array(
    [
        [1 + (10 << 8), 1 + (100 << 16), 1 + (10**4 << 32), 10**8],
        [1 + (16 << 8), 1 + (256 << 16), 1 + (1 << 48), 1 << 32],
    ],
    np.uint64,
)
"""Factors that join two digits, pairs, fours and eights of them; decimal and hexadecimal."""


def _type_classify(_typing: Any, array: Any, index: Any) -> Any:
    """Of 64 bytes at ``index``, as bit masks: digits, letters and digits, hexadecimal letters, upper-case ones."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        half = ir.VectorType(ir.IntType(8), 32)
        word = ir.IntType(64)
        masks = []
        for start in (0, 32):
            index = builder.add(arguments[1], ir.Constant(arguments[1].type, start))
            place = place_of(context, builder, signature.args[0], arguments[0], index, half)
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


_classify: Any = intrinsic(_type_classify)


@called
def _classify_rows(data: Any, offsets: Any, mask: Any, begin: Any, end: Any, masks: Any, stride: Any) -> None:
    """Write the masks of the valid rows ``begin`` to ``end``, one mask ``stride`` words behind the other.

    A row starts with a word of its own, behind at least one bit of zero: the first with the second word.
    """
    digits = either = hexadecimal = upper = _0
    for kind in range(_MASKS):
        masks[np.uint64(kind) * stride] = _0
    k = _1
    for row in range(begin, end):
        if is_null(mask, row):
            continue
        at = np.uint64(offsets[row])
        rest = np.uint64(offsets[row + _1]) - at
        digits_before = letters_before = _0
        while True:
            inside = ALL if rest >= _64 else ~(ALL << rest)
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


@inlined
def _window(masks: Any, start: Any, at: Any) -> Any:
    """At least 57 bits, from bit ``at`` on, of the mask that starts at byte ``start``; higher ones are arbitrary."""
    return load(masks, start + (at >> _3)) >> (at & _7)


@inlined
def _from(bits: Any, count: Any) -> Any:
    """``bits`` without the lowest ``count``."""
    return bits & ALL << count if count < _64 else _0


@inlined
def _digits8(data: Any, at: Any, size: Any) -> Any:
    """1 to 8 digits as bytes of a word, the last one on top, and zeros below the first."""
    chars = load(data, at) << (_64 - (size << _3))
    return (chars & _NIBBLES) + (chars >> _6 & _ONES) * np.uint64(9)


@inlined
def _joined(digits: Any, radix: Any) -> Any:
    """The number that up to eight digits are."""
    word = digits * _RADIX[radix, _0] >> _8
    word = (word & _PAIRS) * _RADIX[radix, _1] >> _16
    return (word & _FOURS) * _RADIX[radix, _2] >> _32


@called
def _number(data: Any, at: Any, size: Any, radix: Any) -> Any:
    """The number that 1 to 16 digits are, and how many of them are zeros before another digit."""
    if size <= _8:
        digits = _digits8(data, at, size)
        return _joined(digits, radix), (min(trailing_zeros(digits), _56) >> _3) + size - _8
    digits = _digits8(data, at, size - _8)
    last = _digits8(data, at + size - _8, _8)
    zeros = trailing_zeros(digits) if digits != _0 else _64 + min(trailing_zeros(last), _56)
    return _joined(digits, radix) * _RADIX[radix, _3] + _joined(last, radix), (zeros >> _3) + size - _16


@called
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
        if is_null(mask, row):
            continue
        if done + np.uint64(128) > np.uint64(len(values)):
            return ALL
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
                    return ALL
                places = masks[places_at + k]
                # A token that was dealt with may reach into the word.
                if boundary > k << _6:
                    places = _from(places, boundary - (k << _6))
                continue
            start = (k << _6) + trailing_zeros(places)
            places &= places - _1
            around = _window(masks, alnum_at, start - _1)
            size = trailing_zeros(~_window(masks, _0, start))
            if around & _1 == _0 and trailing_zeros(~(around >> _1)) == size and size <= _8 and size > _0:
                # Nothing but a few digits, as most slots.
                gap = start - constant
                copy(data, base + constant, gap, rough, image)
                rough[image + gap] = MARKER
                image += gap + _1
                constant = start + size
                digits = _digits8(data, base + start, size)
                zeros = (min(trailing_zeros(digits), _56) >> _3) + size - _8
                values[done] = _joined(digits, _0) + RANKS[size]
                spans[done] = (base + start) << _24 | zeros << _16 | size << _8 | DIGIT_CLASS
                done += _1
                continue
            # The token around it begins behind the one before, and has at most 56 characters.
            letters = _window(masks, alnum_at, start - _56) << _8
            token = max(start - min(leading_zeros(~letters), _56), boundary)
            boundary = start + trailing_zeros(~_window(masks, alnum_at, start))
            places = _from(places, boundary - (k << _6))
            if boundary > token + _56:
                # What is cut off is a token of its own.
                boundary = token + _56
                masks[places_at + (boundary >> _6)] |= _1 << (boundary & _63)
                places = _from(masks[places_at + k], boundary - (k << _6))
            size = boundary - token
            everything = below(size)
            digits = _window(masks, _0, token) & everything
            kind = DIGIT_CLASS
            radix = _0
            runs = digits
            longest = _LONGEST_NUMBER
            if digits != everything:
                letters = _window(masks, hex_at, token) & everything
                upper = _window(masks, upper_at, token) & everything
                if digits | letters == everything and (upper == _0 or upper == letters):  # noqa: SIM109 - a tuple costs a loop
                    if digits == _0 and size < _4:
                        continue
                    kind = LOWER_CLASS if upper == _0 else UPPER_CLASS
                    radix = _1
                    runs = everything
                elif digits == _0:
                    continue
                elif count_ones(digits & ~(digits << _1)) > _DIGIT_RUNS:
                    kind = WORD_CLASS
                    runs = everything
                    longest = _LONGEST_TOKEN
            while runs != _0:
                skipped = trailing_zeros(runs)
                size = min(trailing_zeros(~(runs >> skipped)), longest)
                runs &= ~(below(size) << skipped)
                start = token + skipped
                gap = start - constant
                copy(data, base + constant, gap, rough, image)
                rough[image + gap] = MARKER
                image += gap + _1
                constant = start + size
                value = zeros = _0
                if kind != WORD_CLASS:
                    value, zeros = _number(data, base + start, size, radix)
                    value += RANKS[size if radix == _0 else _0]
                values[done] = value
                spans[done] = (base + start) << _24 | zeros << _16 | size << _8 | kind
                done += _1
        gap = stop - constant
        copy(data, base + constant, gap, rough, image)
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
        if done == ALL:
            return TOO_MANY
        at = e = _0
        for row in range(first, last):
            if is_null(mask, row):
                numbers[row] = np.int64(t >> _3)
                continue
            size = ends[e] - at
            slots_of_row = ends[e + _1] - found
            key = digest(rough, at, size)
            place = key & slot_mask
            while True:
                known = np.int64(table[place])
                if known < 0:
                    break
                t = np.uint64(known) << _3
                if (
                    templates[t] == key  # HASH
                    and templates[t + IMAGE_BYTES] == size
                    and templates[t + SLOTS] == slots_of_row
                    and same(images, templates[t + IMAGE_AT], rough, at, size)
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
                copy(rough, at, size, images, used_bytes)
                table[place] = np.int64(count)
                t = count << _3
                templates[t] = key
                templates[t + IMAGE_AT] = used_bytes
                templates[t + IMAGE_BYTES] = size
                templates[t + SLOT] = used_slots
                templates[t + SLOTS] = slots_of_row
                templates[t + ROWS] = _0
                templates[t + TEXT_AT] = np.uint64(offsets[row])
                templates[t + TEXT_BYTES] = np.uint64(offsets[row + _1] - offsets[row])
                for k in range(found, found + slots_of_row):
                    q = used_slots << _3
                    slots[q] = slots[q + SIZES] = slots[q + MOST] = _0
                    slots[q + LEAST] = ALL
                    slots[q + FIRST] = k
                    used_slots += _1
                used_bytes += size
                count += _1
            templates[t + ROWS] += _1
            q = templates[t + SLOT] << _3
            for k in range(found, found + slots_of_row):
                span = spans[k]
                slots[q] |= _1 << (span >> _16 & _BYTE) | (span & _BYTE) << CLASSES  # TAGS
                slots[q + SIZES] |= _1 << (span >> _8 & _BYTE)
                slots[q + LEAST] = min(slots[q + LEAST], values[k])
                slots[q + MOST] = max(slots[q + MOST], values[k])
                q += _8
            numbers[row] = np.int64(t >> _3)
            at = ends[e]
            found = ends[e + _1]
            e += _2
    return np.int64(count)
