"""Decodes pieces, the images of columns, as docs/format.md describes them and without any code of the project.

Slow and strict: whatever the page says is zero, aligned or of a certain length is checked.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

VECTOR = 1024
WORD = (1 << 64) - 1

Value = int | bytes | None
"""Floats are bit patterns, times and decimals unscaled integers, text is bytes."""


class Violation(ValueError):
    """The bytes are not what the page says."""


def demand(condition: bool, message: str) -> None:
    if not condition:
        raise Violation(message)


def zeros(data: bytes, what: str) -> None:
    demand(not any(data), f"{what} should be zeros")


def aligned(length: int) -> int:
    return -(-length // 8) * 8


def blocks_of(total: int, size: int) -> list[int]:
    """How many of ``total`` rows each block of ``size`` has."""
    return [min(size, total - at) for at in range(0, total, size)]


def inflate(codec: int, data: bytes, length: int) -> bytes:
    demand(codec in (1, 2), f"compression {codec} is not in the table")
    content: bytes = pa.Codec("lz4_raw" if codec == 1 else "zstd").decompress(data, length, asbytes=True)
    demand(len(content) == length, f"{len(content)} bytes decompressed, {length} expected")
    return content


@dataclass(frozen=True)
class Type:
    """What decoding needs to know about a type in the description."""

    name: str

    @property
    def is_text(self) -> bool:
        return self.name in ("string", "large_string", "binary", "large_binary")

    @property
    def is_float(self) -> bool:
        return self.name in ("float32", "float64")

    @property
    def signed(self) -> bool:
        return not (self.is_float or self.name == "bool" or self.name.startswith("uint"))

    @property
    def width(self) -> int:
        """Bytes of a value as Arrow lays it out, a boolean in one byte."""
        if self.name == "bool":
            return 1
        if self.name == "timestamp":
            return 8
        return int("".join(c for c in self.name if c.isdigit())) // 8

    def value_of_widened(self, word: int) -> int:
        """The value of a word that was widened to 64 bits with its sign, if it has one."""
        value = self.value_of_pattern(word & ((1 << 8 * self.width) - 1))
        demand(value & WORD == word, f"word {word:#x} is no widened {self.name}")
        return value

    def value_of_pattern(self, pattern: int) -> int:
        """The value of a bit pattern that was widened with zeros."""
        bits = 8 * self.width
        demand(pattern >> bits == 0, f"word {pattern:#x} is no pattern of {self.name}")
        return pattern - (1 << bits) if self.signed and pattern >> (bits - 1) else pattern


UINT64 = Type("uint64")


@dataclass
class Seen:
    """What occurred in the bytes read, so that a test can tell that its data covers the format."""

    encodings: set[int] = field(default_factory=set)
    features: set[str] = field(default_factory=set)

    def note(self, feature: str) -> None:
        self.features.add(feature)


class Cursor:
    """Takes fields out of bytes, one behind the other."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def bytes(self, length: int) -> bytes:
        demand(self.at + length <= len(self.data), f"{length} bytes at {self.at} are cut off")
        self.at += length
        return self.data[self.at - length : self.at]

    def fields(self, layout: str) -> tuple[Any, ...]:
        return struct.unpack("<" + layout, self.bytes(struct.calcsize("<" + layout)))

    def align(self) -> None:
        zeros(self.bytes(aligned(self.at) - self.at), "padding")

    def end(self) -> None:
        demand(self.at == len(self.data), f"{len(self.data) - self.at} bytes are left behind offset {self.at}")


def decode(piece: bytes, type: Type, seen: Seen) -> list[Value]:
    """The values of a column."""
    cursor = Cursor(piece)
    encoding, validity, parameter, rows, validity_length, body_offset = cursor.fields("BBHIII")
    valid = _validity(validity, cursor.bytes(validity_length), rows)
    seen.note(f"validity {validity}")
    if not any(valid):
        demand(len(piece) == 16, f"a piece without a valid row has {len(piece)} bytes")
        return [None] * rows
    cursor.align()
    demand(cursor.at == body_offset, f"the body is at {body_offset}, {cursor.at} expected")
    seen.encodings.add(encoding)
    body = piece[body_offset:]
    values: list[Value]
    if type.is_text:
        values = [*_text(encoding, parameter, body, valid, seen)]
    else:
        values = [*_numbers(encoding, parameter, body, rows, type, seen)]
    return [value if ok else None for value, ok in zip(values, valid, strict=True)]


def _validity(kind: int, data: bytes, rows: int) -> list[bool]:
    demand(kind <= 3, f"validity {kind} is not in the table")
    if kind < 2:
        demand(not data, "validity bytes without a bitmap")
        return [kind == 0] * rows
    bitmap = inflate(1, data, -(-rows // 8)) if kind == 3 else data
    demand(len(bitmap) == -(-rows // 8), f"a bitmap of {len(bitmap)} bytes for {rows} rows")
    return [bool(bitmap[row // 8] >> (row % 8) & 1) for row in range(rows)]


def _stream(data: bytes, seen: Seen) -> list[int]:
    """Unsigned 64-bit integers inside a body."""
    inner = Seen()
    words = [word for word in decode(data, UINT64, inner) if isinstance(word, int)]
    demand(inner.encodings <= {0, 1}, f"a stream has encodings {inner.encodings}")
    for encoding in inner.encodings:
        seen.note(f"stream {encoding}")
    seen.features |= {feature for feature in inner.features if not feature.startswith("validity")}
    demand("validity 0" in inner.features, "a stream has nulls")
    return words


def _numbers(encoding: int, parameter: int, body: bytes, rows: int, type: Type, seen: Seen) -> list[int]:
    seen.note(f"{type.name} as {encoding}")
    cursor = Cursor(body)
    if encoding == 0:
        values = [_integer(cursor.bytes(type.width), type) for _ in range(rows)]
        cursor.align()
        cursor.end()
        return values
    if encoding == 1:
        words = _vectors(cursor, rows, seen)
        cursor.end()
        return [type.value_of_widened(word) for word in words]
    if encoding in (2, 3):
        return _floats(encoding, parameter, cursor, rows, type, seen)
    if encoding in (4, 5, 6):
        (length,) = cursor.fields("Q")
        first = _stream(cursor.bytes(length), seen)
        cursor.align()
        second = _stream(body[cursor.at :], seen)
        if encoding == 4:
            demand(sum(second) == rows, f"runs of {sum(second)} rows, {rows} expected")
            return [
                type.value_of_pattern(word) for word, count in zip(first, second, strict=True) for _ in range(count)
            ]
        if encoding == 5:
            demand(len(first) == len(set(first)) <= 1024, "a dictionary with duplicates, or a large one")
            return [type.value_of_pattern(first[index]) for index in second]
        pairs = zip(first, second, strict=True)
        return [_integer(struct.pack("<QQ", low, high), type) for low, high in pairs]
    if encoding == 7:
        demand(parameter == 1, f"parameter {parameter} of shuffled bytes")
        (length,) = cursor.fields("Q")
        shuffled = inflate(1, cursor.bytes(length), rows * type.width)
        cursor.align()
        cursor.end()
        return [_integer(shuffled[row::rows], type) for row in range(rows)]
    raise Violation(f"encoding {encoding} of {type.name} is not in the table")


def _integer(data: bytes, type: Type) -> int:
    return int.from_bytes(data, "little", signed=type.signed)


def _vectors(cursor: Cursor, rows: int, seen: Seen) -> list[int]:
    return [word for count in blocks_of(rows, VECTOR) for word in _vector(cursor, count, seen)]


def _vector(cursor: Cursor, count: int, seen: Seen) -> list[int]:
    width, flags, exceptions, reference = cursor.fields("BBHi")
    demand(width <= 64 and flags < 64, f"width {width} or flags {flags} of a vector")
    order = flags & 3
    if flags & 4:
        demand(reference == 0, "a wide reference, and another one")
        (reference,) = cursor.fields("Q")
        seen.note("wide reference")
    state = list(cursor.fields(f"{order}Q"))
    factor = 1
    if flags & 8:
        (factor,) = cursor.fields("Q")
        seen.note("factor")
    residuals = _residuals(cursor, count, width)
    if exceptions:
        positions = cursor.fields(f"{exceptions}H")
        cursor.align()
        size = 1 << (flags >> 4 & 3)
        for position, high in zip(positions, cursor.fields(f"{exceptions}{'bhiq'[flags >> 4 & 3]}"), strict=True):
            residuals[position] += high << width
        cursor.align()
        seen.note(f"exceptions of {size}")
    seen.note(f"order {order}")
    values = []
    for residual in residuals:
        # From the highest difference down to the value, each changed by the one above it.
        change = reference + factor * residual
        for level in reversed(range(order)):
            state[level] = change = (state[level] + change) & WORD
        values.append(change & WORD)
    return values


def _residuals(cursor: Cursor, count: int, width: int) -> list[int]:
    words_of_lane = -(-(-(-count // 16) * width) // 64)
    words = cursor.fields(f"{16 * words_of_lane}Q")
    lanes = [sum(words[16 * j + lane] << (64 * j) for j in range(words_of_lane)) for lane in range(16)]
    return [lanes[i % 16] >> (i // 16 * width) & ((1 << width) - 1) for i in range(count)]


def _floats(encoding: int, parameter: int, cursor: Cursor, rows: int, type: Type, seen: Seen) -> list[int]:
    listed, patches_offset = cursor.fields("II")
    words = _vectors(cursor, rows, seen)
    if encoding == 2:
        seen.note(f"{type.name} decimal")
        bits = [_decimal_bits(word, parameter, type) for word in words]
    else:
        bits = [_ordered_bits(word, type) for word in words]
    if not patches_offset:
        demand(listed == 0, "patches are counted but have no place")
        cursor.end()
        return bits
    demand(cursor.at == patches_offset, f"patches are at {patches_offset}, {cursor.at} expected")
    (has_bitmap,) = cursor.fields("Q")
    demand(has_bitmap in (0, 1), f"flag {has_bitmap} of patches")
    if has_bitmap:
        (common,) = cursor.fields("Q")
        bitmap = cursor.bytes(-(-rows // 64) * 8)
        marked = int.from_bytes(bitmap, "little")
        bits = [common if marked >> row & 1 else pattern for row, pattern in enumerate(bits)]
        seen.note("patch bitmap")
    if listed:
        patterns = cursor.fields(f"{listed}Q")
        for row, pattern in zip(cursor.fields(f"{listed}I"), patterns, strict=True):
            bits[row] = pattern
        seen.note("listed patches")
    cursor.align()
    cursor.end()
    return [type.value_of_pattern(pattern) for pattern in bits]


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def _decimal_bits(word: int, power: int, type: Type) -> int:
    number = float(_signed(word)) / 10.0**power
    if type.width == 4:
        return int.from_bytes(struct.pack("<f", number), "little")
    return int.from_bytes(struct.pack("<d", number), "little")


def _ordered_bits(word: int, type: Type) -> int:
    number = _signed(word)
    bits = 8 * type.width
    lowest = -(1 << (bits - 1))
    pattern = number if number >= 0 or number == lowest else lowest - number
    return pattern & ((1 << bits) - 1)


def _text(encoding: int, parameter: int, body: bytes, valid: list[bool], seen: Seen) -> list[bytes]:
    if encoding == 32:
        return _plain_text(parameter, body, valid, seen)
    if encoding == 35:
        demand(parameter == 0, f"parameter {parameter} of templates")
        return _template_text(body, valid, seen)
    demand(encoding in (33, 34), f"encoding {encoding} of text is not in the table")
    cursor = Cursor(body)
    distinct, length, stored, compression, index_length, size_length = cursor.fields("6I")
    if encoding == 33:
        indexes = _stream(cursor.bytes(index_length), seen)
        cursor.align()
        sizes = _stream(cursor.bytes(size_length), seen)
        cursor.align()
        firsts = list(dict.fromkeys(indexes))
        demand(firsts == sorted(firsts), "the values are not in the order of their appearance")
    else:
        demand(index_length == size_length == 0 and distinct == 1, "a constant with streams or more values")
        indexes, sizes = [0] * len(valid), [length]
    content = _stored(cursor, stored, length, compression, seen)
    cursor.align()
    cursor.end()
    demand(len(sizes) == distinct, f"{len(sizes)} sizes for {distinct} values")
    values = _cut(content, sizes)
    demand(len(set(values)) == distinct, "a value is twice in the dictionary")
    return [values[index] for index in indexes]


def _plain_text(vectors_of_segment: int, body: bytes, valid: list[bool], seen: Seen) -> list[bytes]:
    cursor = Cursor(body)
    lengths_length, compression = cursor.fields("II")
    vectors = blocks_of(len(valid), VECTOR)
    text_lengths = cursor.fields(f"{len(vectors)}I")
    segments = blocks_of(len(vectors), vectors_of_segment)
    stored = cursor.fields(f"{len(segments)}I")
    cursor.align()
    stream = _stream(cursor.bytes(lengths_length), seen)
    lengths = [length if ok else 0 for length, ok in zip(stream, valid, strict=True)]
    cursor.align()
    seen.note("several segments" if len(segments) > 1 else "one segment")
    text = b""
    for segment, size in enumerate(stored):
        first = segment * vectors_of_segment
        length = sum(text_lengths[first : first + vectors_of_segment])
        text += _stored(cursor, size, length, compression, seen)
        cursor.align()
    cursor.end()
    for vector, length in enumerate(text_lengths):
        rows_of_vector = lengths[vector * VECTOR : (vector + 1) * VECTOR]
        demand(sum(rows_of_vector) == length, f"vector {vector} has {length} bytes of text, its rows differ")
    return _cut(text, lengths)


@dataclass(frozen=True)
class Operation:
    """Appends a constant and what stands in a slot."""

    constant: bytes
    kind: int
    width: int
    base: int

    @property
    def is_end(self) -> bool:
        return self.kind == 0

    def append(self, value: int, words: list[bytes]) -> bytes:
        """The constant, and the slot's text if ``value`` are its bits."""
        value += self.base
        kind, digits = self.kind & 7, (self.kind >> 4) + 1
        if kind < 2:
            demand(self.kind < 2 and self.width == 0, f"an operation without a slot has kind {self.kind}")
            return self.constant
        if kind in (4, 5):
            demand(value >> (4 * digits) == 0, f"{value:#x} has more than {digits} digits")
            return self.constant + f"{value:0{digits}{'x' if kind == 4 else 'X'}}".encode()
        demand(self.kind < 16 and self.width <= 57, f"kind {self.kind} with width {self.width}")
        if kind == 6:
            return self.constant + words[value]
        size = 1
        while kind == 3 and value >= 10**size:
            value -= 10**size
            size += 1
        text = f"{value:0{size}}"
        demand(len(text) <= 16, f"{text} has more than 16 digits")
        return self.constant + text.encode()


def _template_text(body: bytes, valid: list[bool], seen: Seen) -> list[bytes]:
    cursor = Cursor(body)
    operations, bases, constant_length, words, word_length, stored, compression, stream_length = cursor.fields("8I")
    vectors = [cursor.fields("II") for _ in blocks_of(len(valid), VECTOR)]
    numbers = _stream(cursor.bytes(stream_length), seen)
    cursor.align()
    table_length = 3 * operations + 8 * bases + words + constant_length + word_length
    templates, texts = _template_table(
        _stored(cursor, stored, table_length, compression, seen), operations, bases, constant_length, words, seen
    )
    cursor.align()
    rows: list[bytes] = []
    for text_length, value_length in vectors:
        demand(value_length % 8 == 0, f"values of {value_length} bytes")
        bits = int.from_bytes(cursor.bytes(value_length), "little")
        left = 8 * value_length
        lines = []
        for row in range(len(rows), min(len(rows) + VECTOR, len(valid))):
            line = b""
            for operation in templates[numbers[row]] if valid[row] else []:
                line += operation.append(bits & ((1 << operation.width) - 1), texts)
                bits >>= operation.width
                left -= operation.width
            lines.append(line)
        demand(0 <= left < 64 and bits == 0, f"{left} bits are left behind the values of a vector")
        demand(sum(map(len, lines)) == text_length, f"a vector has {text_length} bytes of text, its rows differ")
        rows += lines
    zeros(cursor.bytes(16), "guard")
    cursor.end()
    return rows


def _template_table(
    table: bytes, operations: int, bases: int, constant_length: int, words: int, seen: Seen
) -> tuple[list[list[Operation]], list[bytes]]:
    """The operations of each template, and the words."""
    cursor = Cursor(table)
    lengths, kinds, widths = zip(*(cursor.bytes(3) for _ in range(operations)), strict=True)
    unused = list(cursor.fields(f"{bases}Q"))
    sizes = list(cursor.bytes(words))
    constants = _cut(cursor.bytes(constant_length), list(lengths))
    texts = _cut(table[cursor.at :], sizes)
    demand(len(set(texts)) == words, "a word is twice in the table")
    templates: list[list[Operation]] = [[]]
    for constant, kind, width in zip(constants, kinds, widths, strict=True):
        operation = Operation(constant, kind, width, unused.pop(0) if kind & 8 else 0)
        templates[-1].append(operation)
        seen.note(f"slot {kind & 7}")
        if kind & 8:
            seen.note("slot with a base")
        if operation.is_end:
            templates.append([])
    demand(not unused and not templates.pop(), "bases are left, or a template has no end")
    return templates, texts


def _stored(cursor: Cursor, stored: int, length: int, compression: int, seen: Seen) -> bytes:
    data = cursor.bytes(stored)
    if stored == length:
        seen.note("text uncompressed")
        return data
    seen.note(f"text compression {compression}")
    return inflate(compression, data, length)


def _cut(content: bytes, lengths: list[int]) -> list[bytes]:
    demand(sum(lengths) == len(content), f"{len(content)} bytes of text for lengths of {sum(lengths)}")
    values, at = [], 0
    for length in lengths:
        values.append(content[at : at + length])
        at += length
    return values
