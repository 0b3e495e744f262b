"""Kernels that encode text: numbering distinct values and copying them.

Byte strings are read and written as words of eight bytes at any alignment. Words never reach past a string: the
last one overlaps the one before, and shorter strings are masked, or taken byte by byte where the memory ends.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.jit import array_in, array_out, i32, i64, inline, inlined, kernel, u8, u64, void
from tidelog.storage.codec.memory.kernels import copy8, load
from tidelog.storage.codec.text.layout import CONSTANT, DICTIONARY, NOTHING, PLAIN

KIND, ENTRIES, VALUE_BYTES, TEXT_BYTES, FIELDS = 0, 1, 2, 3, 4
"""Columns of what :func:`find_distinct` tells about a block: kind, distinct values (0 if PLAIN), their bytes, bytes
of all valid values."""

ROWS, VALUES_COUNT, VALUES_AT, VALUES_LENGTH, INDEXES_AT, INDEXES_LENGTH, SIZES_AT, SIZES_LENGTH, LAYOUT_FIELDS = range(
    9
)
"""Columns of the layout of the parts of blocks; lengths are bytes."""

SMALL_DICTIONARY = 1 << 16
"""Bytes of distinct values that any block may have; they are read whole for the smallest part of the block."""

_UNCOMPRESSED = 2
"""Values that are as long as stored are what they are, whatever compression is named beside them."""

_MULTIPLIER = 0x9E3779B97F4A7C15

_PROBATION = 128
"""Rows after which a block that has hardly repeated a value is looked at more closely."""

_SAMPLE = 128
"""Scattered rows of that closer look: 4 pairs of them are equal on average if half of the rows repeat a value."""

_SAMPLE_SLOT_BITS = 9
SAMPLE_SLOTS = 1 << _SAMPLE_SLOT_BITS


@inline
def _word_near_end(data: Any, start: Any, size: Any) -> Any:
    """The at most eight bytes of a value as a word, where ``data`` ends too soon for a load."""
    word = np.uint64(0)
    for k in range(size):
        word |= np.uint64(data[start + k]) << np.uint64(8 * k)
    return word


@inlined
def _short_word(data: Any, start: Any, size: Any) -> Any:
    """The at most eight bytes of a value as a word, padded with zeros."""
    if start + 8 > len(data):
        return _word_near_end(data, start, size)
    word = load(data, start)
    return word & ~(~np.uint64(0) << np.uint64(8 * size)) if size < 8 else word


@inlined
def _digest(data: Any, start: Any, size: Any) -> Any:
    """A word that tells values of more than eight bytes apart, with rare exceptions."""
    word = np.uint64(size)
    last = start + size - 8
    for at in range(start, last, 8):
        word = (word ^ load(data, at)) * np.uint64(_MULTIPLIER)
        word ^= word >> np.uint64(29)
    return (word ^ load(data, last)) * np.uint64(_MULTIPLIER)


@inlined
def _same(data: Any, one: Any, other: Any, size: Any) -> Any:
    """Whether two values of ``size`` > 8 bytes are equal; they usually are, since their digests are."""
    for k in range(0, size - 8, 8):
        if load(data, one + k) != load(data, other + k):
            return False
    return load(data, one + size - 8) == load(data, other + size - 8)


@inlined
def _key(data: Any, start: Any, size: Any) -> Any:
    """A word that is different for different values of equal size, with rare exceptions among the longer ones."""
    return _short_word(data, start, size) if size <= 8 else _digest(data, start, size)


@inline
def _looks_distinct(data: Any, places: Any, mask: Any, slots: Any) -> Any:
    """Whether nearly all of some scattered rows differ, so that far more than half of all rows must.

    One row is taken at random from each of as many stretches of the block: neighbours or evenly spaced rows would
    mistake values that come in turn, or in runs, for distinct ones.
    """
    stretch = (len(places) - 1) // _SAMPLE
    slots[:] = 0
    random = np.uint64(1)
    repeated: Any = 0
    for i in range(_SAMPLE):
        random = random * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        row = i * stretch + np.int64((random >> np.uint64(32)) % np.uint64(stretch))
        size = places[row + 1] - places[row]
        if len(mask) != 0 and mask[row] == 0:
            continue
        key = (_key(data, places[row], size) + np.uint64(size)) * np.uint64(_MULTIPLIER) | np.uint64(1)
        slot = key >> np.uint64(64 - _SAMPLE_SLOT_BITS)
        while slots[slot] != 0 and slots[slot] != key:
            slot = (slot + np.uint64(1)) & np.uint64((1 << _SAMPLE_SLOT_BITS) - 1)
        repeated += np.int64(slots[slot] == key)
        slots[slot] = key
    return repeated < 2


@inline
def _index_block(data: Any, places: Any, mask: Any, table: Any, known: Any, stream: Any, rows: Any, first: Any) -> Any:
    """Number the distinct values of a block in order of appearance; row ``i`` starts at ``places[i]``.

    Writes the number of each row's value to ``stream`` (a null repeats the row before) and the row each value was
    first seen in, counted from ``first`` rows before the block, to ``rows``. Returns how many there are, or -1 if
    there are too many to be worth it.
    """
    count = len(places) - 1
    limit = max(count // 2, 1)
    capacity = 2
    shift = np.uint64(63)
    while capacity < 2 * limit:
        capacity *= 2
        shift -= np.uint64(1)
    table[:capacity] = -1
    entries = 0
    number: Any = 0
    for begin in range(0, count, _PROBATION):
        # Unsigned: indexes that might be negative cost a decision each.
        for row in range(np.uint64(begin), np.uint64(min(begin + _PROBATION, count))):
            if len(mask) != 0 and mask[row] == 0:
                stream[row] = number
                continue
            start = places[row]
            size = places[row + np.uint64(1)] - start
            key = _key(data, start, size)
            slot = ((key + np.uint64(size)) * np.uint64(_MULTIPLIER)) >> shift
            while True:
                number = np.int64(table[slot])
                if number < 0:
                    if entries == limit:
                        return -1
                    number = entries
                    table[slot] = number
                    known[2 * number] = key
                    known[2 * number + 1] = np.uint64(size)
                    rows[number] = first + np.int64(row)
                    entries += 1
                    break
                at = np.uint64(number) << np.uint64(1)
                alike = known[at] == key and known[at + np.uint64(1)] == np.uint64(size)
                if alike and (size <= 8 or _same(data, start, places[rows[number] - first], size)):
                    break
                slot = (slot + np.uint64(1)) & np.uint64(capacity - 1)
            stream[row] = number
        if begin == 0 and entries > _PROBATION - _PROBATION // 32 and count > 2 * _SAMPLE:
            slots = known[len(known) - (1 << _SAMPLE_SLOT_BITS) :]
            if _looks_distinct(data, places, mask, slots):
                return -1
    return entries


@inline
def _pays(rows: Any, entries: Any, values: Any, text: Any) -> Any:
    """Whether a dictionary saves a quarter of the bytes, and does not make partial reads expensive."""
    bits = 1
    while (1 << bits) < entries:
        bits += 1
    saves = 4 * (values + rows * bits // 8) <= 3 * text
    return saves and (values <= SMALL_DICTIONARY or 4 * values <= text)


@kernel(
    void(
        array_in(u8),
        array_in(i64),
        array_in(u8),
        array_in(i64),
        array_out(i32),
        array_out(u64),
        array_out(i64),
        array_out(i64),
        array_out(i64, 2),
    )
)
def find_distinct(
    data: Any,
    offsets: Any,
    mask: Any,
    cuts: Any,
    table: Any,
    known: Any,
    stream: Any,
    rows: Any,
    blocks: Any,
) -> None:
    """Choose the encoding of every block and make its stream of integers.

    ``stream`` receives, without gaps, the index of each row's value (DICTIONARY) or its length (PLAIN); blocks of other
    kinds have no stream. A null repeats the row before, which compresses best. ``rows`` receives the rows of the
    distinct values, block after block. For a longest block of ``n`` rows, ``table`` has ``2 * n + 2`` slots and
    ``known`` ``n + 2 + SAMPLE_SLOTS``.
    """
    streamed = 0
    found = 0
    for b in range(len(cuts) - 1):
        first = cuts[b]
        last = cuts[b + 1]
        entries = _index_block(
            data,
            offsets[first : last + 1],
            mask[first:last],
            table,
            known,
            stream[streamed:],
            rows[found:],
            first,
        )
        text = offsets[last] - offsets[first]
        for row in range(first, last if len(mask) != 0 else first):
            if mask[row] == 0:  # null slots may have bytes of their own in Arrow's memory
                text -= offsets[row + 1] - offsets[row]
        values = 0
        for entry in range(found, found + entries):
            values += offsets[rows[entry] + 1] - offsets[rows[entry]]
        kind = DICTIONARY
        if entries == 0:
            kind = NOTHING
        elif entries == 1:
            kind = CONSTANT
        elif entries < 0 or not _pays(last - first, entries, values, text):
            kind = PLAIN
            entries = 0
            length = 0
            for row in range(first, last):
                if len(mask) == 0 or mask[row] != 0:
                    length = offsets[row + 1] - offsets[row]
                stream[streamed + row - first] = length
        if kind <= DICTIONARY:
            streamed += last - first
        blocks[b, KIND] = kind
        blocks[b, ENTRIES] = entries
        blocks[b, TEXT_BYTES] = text
        blocks[b, VALUE_BYTES] = values if kind != PLAIN else 0
        found += entries


@kernel(i64(array_in(u8), array_in(i64), array_in(i64), array_out(u8), array_out(i64)))
def copy_values(data: Any, offsets: Any, rows: Any, out: Any, sizes: Any) -> int:
    """Copy the values of ``rows``, one after the other, to the front of ``out``; returns the bytes copied.

    Their lengths go to ``sizes``. ``out`` has room for exactly all of them.
    """
    at = 0
    for i in range(len(rows)):
        start = offsets[rows[i]]
        size = offsets[rows[i] + 1] - start
        sizes[i] = size
        if size >= 8:
            for k in range(0, size - 8, 8):
                copy8(out, at + k, data, start + k)
            copy8(out, at + size - 8, data, start + size - 8)
        else:
            for k in range(size):
                out[at + k] = data[start + k]
        at += size
    return at


@inline
def _put_half(out: Any, at: Any, number: Any) -> None:
    """Write a number of 32 bits."""
    for k in range(4):
        out[at + k] = np.uint8((number >> (8 * k)) & 255)


@inline
def _put_part(out: Any, at: Any, source: Any, start: Any, size: Any) -> Any:
    """Copy a part and pad it with zeros to a multiple of 8; returns where the next one goes."""
    whole = size & -8
    for k in range(0, whole, 8):
        copy8(out, at + k, source, start + k)
    for k in range(whole, size):
        out[at + k] = source[start + k]
    end = at + ((size + 7) & -8)
    for k in range(at + size, end):
        out[k] = 0
    return end


@kernel(
    void(
        *(array_in(i64, 2), array_in(u8), array_in(u8)),
        *(array_in(u8), array_in(u8), array_in(i64)),
        *(i64, array_in(i64), array_out(u8)),
    )
)
def assemble_dictionaries(
    layout: Any,
    streams: Any,
    values: Any,
    validity_kinds: Any,
    validity: Any,
    validity_bounds: Any,
    encoding: Any,
    offsets: Any,
    out: Any,
) -> None:
    """Write the pieces of blocks, dictionaries that are not compressed, to ``offsets`` of ``out``."""
    for b in range(len(layout)):
        at = offsets[b]
        bits = validity_bounds[b + 1] - validity_bounds[b]
        _put_half(out, at, encoding | np.int64(validity_kinds[b]) << 8)
        _put_half(out, at + 4, layout[b, ROWS])
        _put_half(out, at + 8, bits)
        _put_half(out, at + 12, 16 + ((bits + 7) & -8))
        at = _put_part(out, at + 16, validity, validity_bounds[b], bits)
        _put_half(out, at, layout[b, VALUES_COUNT])
        _put_half(out, at + 4, layout[b, VALUES_LENGTH])
        _put_half(out, at + 8, layout[b, VALUES_LENGTH])
        _put_half(out, at + 12, _UNCOMPRESSED)
        _put_half(out, at + 16, layout[b, INDEXES_LENGTH])
        _put_half(out, at + 20, layout[b, SIZES_LENGTH])
        at = _put_part(out, at + 24, streams, layout[b, INDEXES_AT], layout[b, INDEXES_LENGTH])
        at = _put_part(out, at, streams, layout[b, SIZES_AT], layout[b, SIZES_LENGTH])
        _put_part(out, at, values, layout[b, VALUES_AT], layout[b, VALUES_LENGTH])
