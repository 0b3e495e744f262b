"""Kernels that decode text: finding the parts of pieces, laying out the rows, filling in distinct values.

What is known about the pieces of a call stands in one table, a row for each piece and one behind the last for totals.
Distinct values are copied in words of 16 and 32 bytes that may reach past their end; the memory they come from and
go to has :data:`SLACK` bytes behind it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.jit import array_in, array_out, i32, i64, inline, inlined, kernel, u8, u64, void
from tidelog.storage.codec.encodings import VECTOR
from tidelog.storage.codec.memory.kernels import copy16, copy32, load
from tidelog.storage.codec.text.layout import (
    CONSTANT,
    DICTIONARY,
    DICTIONARY_HEAD,
    LARGEST_TEXT,
    NOTHING,
    PLAIN,
    PLAIN_HEAD,
    TEMPLATE,
)
from tidelog.storage.codec.text.template.layout import GUARD, HEAD
from tidelog.storage.codec.text.template.layout import LARGEST_TEXT as LARGEST_TEMPLATE_TEXT

_MULTIPLIER = 0x9E3779B97F4A7C15

KIND = 0
ROWS = 1
"""Rows wanted of the piece."""
STREAM = 2
"""Where the indexes (DICTIONARY), lengths (PLAIN) or templates (TEMPLATE) of these rows start among the decoded
numbers."""
STREAM_AT, STREAM_BYTES = 3, 4
"""The encoded stream in the buffer."""
ENTRIES = 5
"""Distinct values of a DICTIONARY or CONSTANT."""
ENTRY = 6
"""Where the first entry stands among those of all DICTIONARY pieces."""
SIZES_AT, SIZES_BYTES = 7, 8
"""The encoded sizes of the entries, in the buffer."""
VALUES = 9
"""Where the values of the entries start among those of all pieces."""
VALUE_BYTES = 10
BYTES_AT, STORED_BYTES, COMPRESSION = 11, 12, 13
"""The values, the table of a TEMPLATE or the first segment of a PLAIN piece, in the buffer (segments have their sizes
in the directory)."""
OUT = 14
"""Where the bytes of the wanted rows start in the decoded array."""
TEXT_BYTES = 15
"""Bytes of the wanted rows of a TEMPLATE, by its directory."""
PACKED_AT = 16
"""Where the values of these rows start in the buffer."""
FIELDS = 17
"""Columns of the table."""

SLACK = 32
"""Bytes behind memory that words may reach into."""

_PLAIN_HEAD, _DICTIONARY_HEAD, _TEMPLATE_HEAD = PLAIN_HEAD.size, DICTIONARY_HEAD.size, HEAD.size
_SIZE_BITS = np.uint64(32)
_SIZE_MASK = np.uint64(0xFFFFFFFF)


@inline
def _number(buffer: Any, at: Any) -> Any:
    """The unsigned 32-bit number that stands at ``at``."""
    number = np.int64(0)
    for k in range(4):
        number |= np.int64(buffer[at + k]) << (8 * k)
    return number


@inline
def _aligned(size: Any) -> Any:
    return (size + 7) & -8


@inline
def _locate_dictionary(buffer: Any, body: Any, end: Any, rows: Any, piece: Any) -> Any:
    """Find the parts of a DICTIONARY or CONSTANT body; returns whether they are in order and lie inside it."""
    if end - body < _DICTIONARY_HEAD:
        return False
    piece[ENTRIES] = _number(buffer, body)
    piece[VALUE_BYTES] = _number(buffer, body + 4)
    piece[STORED_BYTES] = _number(buffer, body + 8)
    piece[COMPRESSION] = _number(buffer, body + 12)
    piece[STREAM_BYTES] = _number(buffer, body + 16)
    piece[SIZES_BYTES] = _number(buffer, body + 20)
    piece[STREAM_AT] = body + _DICTIONARY_HEAD
    piece[SIZES_AT] = piece[STREAM_AT] + _aligned(piece[STREAM_BYTES])
    piece[BYTES_AT] = piece[SIZES_AT] + _aligned(piece[SIZES_BYTES])
    if piece[KIND] == CONSTANT and (piece[ENTRIES] != 1 or piece[STREAM_BYTES] + piece[SIZES_BYTES] != 0):
        return False
    return 1 <= piece[ENTRIES] <= rows and piece[BYTES_AT] + piece[STORED_BYTES] <= end


@inline
def _locate_segments(buffer: Any, body: Any, end: Any, rows: Any, per_segment: Any, piece: Any) -> Any:
    """Find the parts of a PLAIN body; returns whether those before the segments lie inside it."""
    if end - body < _PLAIN_HEAD or per_segment == 0:
        return False
    vectors = (rows + VECTOR - 1) // VECTOR
    segments = (vectors + per_segment - 1) // per_segment
    piece[STREAM_BYTES] = _number(buffer, body)
    piece[COMPRESSION] = _number(buffer, body + 4)
    piece[STREAM_AT] = body + _aligned(_PLAIN_HEAD + 4 * (vectors + segments))
    piece[BYTES_AT] = piece[STREAM_AT] + _aligned(piece[STREAM_BYTES])
    return piece[BYTES_AT] <= end


@inline
def _locate_templates(buffer: Any, body: Any, end: Any, rows: Any, start: Any, stop: Any, piece: Any) -> Any:
    """Find the parts of a TEMPLATE body that rows ``start`` to ``stop`` need; returns whether all lie inside it."""
    vectors = (rows + VECTOR - 1) // VECTOR
    directory = body + _TEMPLATE_HEAD
    piece[STREAM_AT] = directory + 8 * vectors
    if piece[STREAM_AT] > end:
        return False
    piece[STORED_BYTES] = _number(buffer, body + 20)
    piece[STREAM_BYTES] = _number(buffer, body + 28)
    piece[BYTES_AT] = piece[STREAM_AT] + _aligned(piece[STREAM_BYTES])
    packed = piece[BYTES_AT] + _aligned(piece[STORED_BYTES])
    text = 0
    for vector in range(vectors):
        size = _number(buffer, directory + 8 * vector)
        text += size
        if vector == start // VECTOR:
            piece[PACKED_AT] = packed
        if start <= vector * VECTOR < stop:
            piece[TEXT_BYTES] += size
        packed += _number(buffer, directory + 8 * vector + 4)
    return packed + GUARD <= end and text <= LARGEST_TEMPLATE_TEXT


@kernel(i64(array_in(u8), array_in(i64, 2), array_in(i64), array_in(i64), array_out(i64, 2), array_out(i64, 2)))
def locate(buffer: Any, heads: Any, starts: Any, stops: Any, pieces: Any, streams: Any) -> int:
    """Find the parts of pieces in ``buffer``, and give the wanted rows their places.

    Row ``i`` of ``heads`` says about piece ``i``: kind, rows, parameter, start of the body and end of the piece, both
    inside the buffer. ``pieces`` receives everything but OUT. The columns of ``streams`` receive all streams of
    integers to decode, those of sizes behind the others: place, bytes, first and last value wanted. Returns their
    number, or ``-1 - i`` if the parts of piece ``i`` do not fit into it.
    """
    count = 0
    numbers = 0
    entries = 0
    values = 0
    pieces[:] = 0
    for p in range(len(heads)):
        piece = pieces[p]
        piece[KIND] = heads[p, 0]
        rows, parameter, body, end = heads[p, 1], heads[p, 2], heads[p, 3], heads[p, 4]
        if piece[KIND] == PLAIN:
            if not _locate_segments(buffer, body, end, rows, parameter, piece):
                return -1 - p
        elif piece[KIND] == TEMPLATE:
            if not _locate_templates(buffer, body, end, rows, starts[p], stops[p], piece):
                return -1 - p
        elif piece[KIND] != NOTHING and not _locate_dictionary(buffer, body, end, rows, piece):
            return -1 - p
        piece[ROWS] = stops[p] - starts[p]
        piece[STREAM] = numbers
        piece[ENTRY] = entries
        piece[VALUES] = values
        values += piece[VALUE_BYTES]
        if piece[KIND] == DICTIONARY:
            entries += piece[ENTRIES]
        if piece[KIND] <= DICTIONARY or piece[KIND] == TEMPLATE:
            streams[0, count] = piece[STREAM_AT]
            streams[1, count] = piece[STREAM_BYTES]
            streams[2, count] = starts[p]
            streams[3, count] = stops[p]
            numbers += piece[ROWS]
            count += 1
    for p in range(len(heads)):
        if pieces[p, KIND] == DICTIONARY:
            streams[0, count] = pieces[p, SIZES_AT]
            streams[1, count] = pieces[p, SIZES_BYTES]
            streams[2, count] = 0
            streams[3, count] = pieces[p, ENTRIES]
            count += 1
    totals = pieces[len(heads)]
    totals[STREAM] = numbers
    totals[ENTRY] = entries
    totals[VALUES] = values
    return count


@inlined
def _is_valid(bitmap: Any, row: Any) -> Any:
    return (bitmap[row >> 3] >> (row & 7)) & 1 != 0


_LAY_OUT = [
    i64(array_out(i64, 2), array_in(i64), array_in(u8), array_out(u64), array_out(offset)) for offset in (i32, i64)
]


@kernel(_LAY_OUT)
def lay_out(pieces: Any, numbers: Any, bitmap: Any, entries: Any, offsets: Any) -> int:
    """Compute Arrow's offsets of the wanted rows of all pieces, and where each distinct value stands.

    Of a TEMPLATE piece only the end of the last row is known.
    ``numbers`` are all decoded streams, ``bitmap`` is Arrow's, empty if nothing is null. ``entries`` receives start
    (counted from the values of the piece) and size of each distinct value as one word. Fills in OUT. Returns the bytes
    of all rows, which the caller compares with what the type of the offsets can hold, or ``-1 - i`` if piece ``i``
    contradicts itself.
    """
    row = 0
    position = 0
    offsets[0] = 0
    last = len(pieces) - 1
    all_sizes = numbers[pieces[last, STREAM] :]
    for p in range(last):
        kind = pieces[p, KIND]
        pieces[p, OUT] = position
        count = pieces[p, ENTRIES]
        first = pieces[p, ENTRY]
        sizes = all_sizes[first : first + count]
        if kind == DICTIONARY:
            start = 0
            for entry in range(count):
                if sizes[entry] < 0 or sizes[entry] > pieces[p, VALUE_BYTES] - start:
                    return -1 - p
                entries[first + entry] = (np.uint64(start) << _SIZE_BITS) | np.uint64(sizes[entry])
                start += sizes[entry]
            if start != pieces[p, VALUE_BYTES]:
                return -1 - p
        if kind == TEMPLATE:  # its rows get their offsets when they are filled
            position += pieces[p, TEXT_BYTES]
            row += pieces[p, ROWS]
            offsets[row] = position
            continue
        stream = numbers[pieces[p, STREAM] :]
        for i in range(pieces[p, ROWS]):
            size = 0
            if kind == PLAIN:
                size = stream[i]
                if size < 0 or size > LARGEST_TEXT:
                    return -1 - p
            elif kind == DICTIONARY:
                if stream[i] < 0 or stream[i] >= count:
                    return -1 - p
                size = sizes[stream[i]]
            elif kind == CONSTANT:
                size = pieces[p, VALUE_BYTES]
            if len(bitmap) == 0 or _is_valid(bitmap, row):
                position += size
            row += 1
            offsets[row] = position
    pieces[last, OUT] = position
    return position


@kernel(void(array_in(i64, 2), array_in(i64), array_in(u64), array_in(u8), array_in(u8), array_out(u8)))
def fill(pieces: Any, numbers: Any, entries: Any, values: Any, bitmap: Any, out: Any) -> None:
    """Write the bytes of all rows of DICTIONARY and CONSTANT pieces that :func:`lay_out` has accepted.

    Up to SLACK bytes behind those of a piece are overwritten, so pieces of other kinds are filled afterwards.
    """
    row = 0
    for p in range(len(pieces) - 1):
        kind = pieces[p, KIND]
        rows = pieces[p, ROWS]
        if kind == DICTIONARY or kind == CONSTANT:  # noqa: SIM109 - a tuple costs the kernel a loop
            at = pieces[p, OUT]
            base = pieces[p, VALUES]
            stream = numbers[pieces[p, STREAM] :]
            known = entries[pieces[p, ENTRY] :]
            entry = np.uint64(pieces[p, VALUE_BYTES])
            for i in range(rows):
                if len(bitmap) != 0 and not _is_valid(bitmap, row + i):
                    continue
                if kind == DICTIONARY:
                    entry = known[stream[i]]
                size = np.int64(entry & _SIZE_MASK)
                start = base + np.int64(entry >> _SIZE_BITS)
                copy16(out, at, values, start)
                for k in range(16, size, 32):
                    copy32(out, at + k, values, start + k)
                at += size
        row += rows


@inlined
def _digest(values: Any, start: Any, size: Any) -> Any:
    """A word that is the value if it has at most eight bytes, and tells longer ones apart, with rare exceptions."""
    if size <= 8:
        word = load(values, start)
        return word & ~(~np.uint64(0) << np.uint64(8 * size)) if size < 8 else word
    digest = np.uint64(size)
    last = start + size - 8
    for at in range(start, last, 8):
        digest = (digest ^ load(values, at)) * np.uint64(_MULTIPLIER)
        digest ^= digest >> np.uint64(29)
    return (digest ^ load(values, last)) * np.uint64(_MULTIPLIER)


@inlined
def _is_same(
    values: Any, start: Any, size: Any, digest: Any, number: Any, begins: Any, sizes: Any, digests: Any
) -> Any:
    """Whether a value is the one with a number."""
    if digests[number] != digest or sizes[number] != size:
        return False
    other = begins[number]
    for k in range(0, size - 8, 8):
        if load(values, start + k) != load(values, other + k):
            return False
    return size <= 8 or load(values, start + size - 8) == load(values, other + size - 8)


@inlined
def _are_equal(values: Any, start: Any, other: Any, size: Any) -> Any:
    """Whether the values of a size that begin at two places are equal."""
    if size < 8:
        return (load(values, start) ^ load(values, other)) << np.uint64(64 - 8 * size) == 0 or size == 0
    for k in range(0, size - 8, 8):
        if load(values, start + k) != load(values, other + k):
            return False
    return load(values, start + size - 8) == load(values, other + size - 8)


@inline
def _find(values: Any, start: Any, size: Any, table: Any, begins: Any, sizes: Any, digests: Any, count: Any) -> Any:
    """The number of a value among those that ``table`` knows, or ``count``, by which it is known from now on.

    Where such a new one stands the caller has to put down.
    """
    digest = _digest(values, start, size)
    mask = np.uint64(len(table) - 1)
    hash = (digest + np.uint64(size)) * np.uint64(_MULTIPLIER)
    slot = (hash ^ (hash >> np.uint64(32))) & mask
    while table[slot] >= 0:
        if _is_same(values, start, size, digest, table[slot], begins, sizes, digests):
            return table[slot]
        slot = (slot + np.uint64(1)) & mask
    table[slot] = count
    digests[count] = digest
    return count


@kernel(void(array_in(u8), array_in(i64, 2), array_out(u8)))
def copy_values(buffer: Any, pieces: Any, values: Any) -> None:
    """Put the distinct values of all pieces that are not compressed where they belong among those of all pieces."""
    for p in range(len(pieces) - 1):
        size = pieces[p, VALUE_BYTES]
        if size == pieces[p, STORED_BYTES]:
            source, target = np.uint64(pieces[p, BYTES_AT]), np.uint64(pieces[p, VALUES])
            for k in range(size):
                values[target + np.uint64(k)] = buffer[source + np.uint64(k)]


@kernel(
    i64(
        array_in(i64, 2), array_in(i64), array_in(u8), array_out(i32), array_out(i64), array_out(i64), array_out(u64),
        array_out(i64), array_out(i32), array_out(i32), i64,
    )
)  # fmt: skip
def unite(
    pieces: Any,
    numbers: Any,
    values: Any,
    table: Any,
    begins: Any,
    sizes: Any,
    digests: Any,
    starts: Any,
    known: Any,
    codes: Any,
    lookups: Any,
) -> int:
    """Give equal distinct values of all pieces, DICTIONARY, CONSTANT or NOTHING, one number, and each row its own.

    A value that does not come in the order of those before it is looked up. After so many ``lookups`` it gets a number
    of its own, so that equal values may have several.

    Only values of rows are looked at. ``values`` are the distinct values of all pieces. ``table`` has a power of two of
    slots, all -1, twice as many as ``begins``, ``sizes`` and ``digests`` have places; the first two receive where the
    values that were numbered stand among ``values``. ``starts`` and ``known`` have room for the values of one piece.
    ``codes`` receives the number of each row's value. Returns how many there are, one more than there are places if
    these do not suffice, or ``-1 - i`` if piece ``i`` contradicts itself.
    """
    count = 0
    code: Any = -1
    row = 0
    last = len(pieces) - 1
    room = len(begins)
    all_sizes = numbers[pieces[last, STREAM] :]
    for p in range(last):
        kind = pieces[p, KIND]
        rows = pieces[p, ROWS]
        start = pieces[p, VALUES]
        if kind == DICTIONARY:
            entries = pieces[p, ENTRIES]
            end = start + pieces[p, VALUE_BYTES]
            own = all_sizes[pieces[p, ENTRY] :]
            for entry in range(entries):
                if own[entry] < 0 or own[entry] > end - start:
                    return -1 - p
                starts[entry] = start
                known[entry] = -1
                start += own[entry]
            if start != end:
                return -1 - p
            stream = numbers[pieces[p, STREAM] :]
            for i in range(rows):
                number = np.uint64(stream[np.uint64(i)])
                if number >= np.uint64(entries):
                    return -1 - p
                found = known[number]
                if found < 0:
                    start, size = starts[number], own[number]
                    # Values that came in some order often come so again.
                    code += 1
                    if code >= count or sizes[code] != size or not _are_equal(values, start, begins[code], size):
                        if count == room:
                            return room + 1
                        code = count
                        if lookups > 0:
                            code = _find(values, start, size, table, begins, sizes, digests, count)
                            lookups -= 1
                        if code == count:
                            begins[count] = start
                            sizes[count] = size
                            count += 1
                    found = i32(code)
                    known[number] = found
                codes[np.uint64(row + i)] = found
        else:
            code = np.int64(0)
            if kind == CONSTANT:
                if count == room:
                    return room + 1
                code = _find(values, start, pieces[p, VALUE_BYTES], table, begins, sizes, digests, count)
                if code == count:
                    begins[count] = start
                    sizes[count] = pieces[p, VALUE_BYTES]
                    count += 1
            for i in range(rows):
                codes[row + i] = code
        row += rows
    return count


@kernel(void(array_in(u8), array_in(i64), array_in(i64), array_out(i32), array_out(u8)))
def gather(values: Any, begins: Any, sizes: Any, offsets: Any, out: Any) -> None:
    """Write distinct values one behind the other, and Arrow's offsets of them. Overwrites up to SLACK bytes behind."""
    at = 0
    offsets[0] = 0
    for k in range(len(begins)):
        copy16(out, at, values, begins[k])
        for i in range(16, sizes[k], 32):
            copy32(out, at + i, values, begins[k] + i)
        at += sizes[k]
        offsets[k + 1] = at
