"""The bytes of numeric pieces, read by a decoder of its own: plain Python integers, straight from the layout."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.profiles import scaled
from tidelog.storage.codec.arena import Arena
from tidelog.storage.codec.encodings import Encoding, ValidityKind
from tidelog.storage.codec.numeric import encode_integers, encode_numbers

MASK = (1 << 64) - 1


def signed(value: int, bits: int = 64) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


@dataclass
class Reader:
    """Little-endian numbers from bytes, one after the other."""

    data: bytes
    at: int = 0

    def number(self, size: int) -> int:
        assert self.at + size <= len(self.data)
        value = int.from_bytes(self.data[self.at : self.at + size], "little")
        self.at += size
        return value

    def align(self) -> None:
        padding = -self.at % 8
        assert self.number(padding) == 0


def read_vector(reader: Reader, n: int) -> list[int]:
    """``n`` words of a packed vector."""
    assert reader.at % 8 == 0
    width, flags, exceptions = reader.number(1), reader.number(1), reader.number(2)
    reference = signed(reader.number(4), 32)
    order, log_bytes = flags & 3, flags >> 4
    if flags & 4:
        reference = reader.number(8)
    state = [reader.number(8) for _ in range(order)]
    factor = reader.number(8) if flags & 8 else 1

    rows = -(-n // 16)
    words_per_lane = -(-rows * width // 64)
    lanes = [0] * 16
    for word in range(words_per_lane):
        for lane in range(16):
            lanes[lane] |= reader.number(8) << (64 * word)
    residuals = [lanes[i % 16] >> (width * (i // 16)) & ((1 << width) - 1) for i in range(n)]

    positions = [reader.number(2) for _ in range(exceptions)]
    reader.align()
    for position in positions:
        residuals[position] += signed(reader.number(1 << log_bytes), 8 << log_bytes) << width
    reader.align()

    values = []
    for residual in residuals:
        carry = reference + factor * residual
        for level in reversed(range(order)):
            state[level] += carry
            carry = state[level]
        values.append(carry & MASK)
    return values


def read_vectors(reader: Reader, rows: int) -> list[int]:
    values: list[int] = []
    while len(values) < rows:
        values += read_vector(reader, min(1024, rows - len(values)))
    return values


def bits_of_float(value: float, width: int) -> int:
    return int.from_bytes(struct.pack("<d" if width == 8 else "<f", value), "little")


def bits_of_ordered(value: int, width: int) -> int:
    lowest = -(1 << (8 * width - 1))
    value = signed(value)
    return value if value >= 0 or value == lowest else lowest - value


def apply_patches(reader: Reader, body: int, values: list[int]) -> None:
    head = Reader(reader.data, body)
    listed, offset = head.number(4), head.number(4)
    if offset == 0:
        assert listed == 0
        return
    assert reader.at == body + offset
    if reader.number(8):
        common = reader.number(8)
        bitmap = reader.number(8 * -(-len(values) // 64))
        for row in range(len(values)):
            if bitmap >> row & 1:
                values[row] = common
    patterns = [reader.number(8) for _ in range(listed)]
    for pattern in patterns:
        values[reader.number(4)] = pattern
    reader.align()


def read_stream(data: bytes) -> list[int]:
    encoding, values, _ = read_piece(data, 8, floats=False)
    assert encoding in (Encoding.RAW, Encoding.PACKED)
    return values


def read_pair(reader: Reader) -> tuple[list[int], list[int]]:
    length = reader.number(8)
    middle = reader.at + length
    first, second = read_stream(reader.data[reader.at : middle]), read_stream(reader.data[middle:])
    reader.at = len(reader.data)
    return first, second


def read_piece(data: bytes, width: int, *, floats: bool) -> tuple[Encoding, list[int], list[bool]]:
    """Encoding, words of ``width`` bytes (null slots too) and validity of a piece."""
    reader = Reader(data)
    encoding, kind = Encoding(reader.number(1)), ValidityKind(reader.number(1))
    parameter, rows, validity_bytes, body = (reader.number(size) for size in (2, 4, 4, 4))
    valid = [kind != ValidityKind.ALL_NULL] * rows
    if validity_bytes:
        bitmap = data[16 : 16 + validity_bytes]
        if kind == ValidityKind.BITMAP_LZ4:
            bitmap = pa.Codec("lz4_raw").decompress(bitmap, -(-rows // 8), asbytes=True)
        assert len(bitmap) == -(-rows // 8)
        valid = [bool(bitmap[row // 8] >> (row % 8) & 1) for row in range(rows)]
    reader.at = 16 + validity_bytes
    reader.align()
    assert reader.at == body
    if rows == 0 or kind == ValidityKind.ALL_NULL:
        assert len(data) == 16
        return encoding, [0] * rows, valid
    values: list[int] = []
    if encoding == Encoding.RAW:
        values = [reader.number(width) for _ in range(rows)]
        reader.align()
    elif encoding == Encoding.PACKED:
        assert not floats
        values = read_vectors(reader, rows)
    elif encoding == Encoding.DECIMAL:
        reader.number(8)
        scaled = [signed(value) / 10**parameter for value in read_vectors(reader, rows)]
        values = [bits_of_float(value, width) for value in scaled]
        apply_patches(reader, body, values)
    elif encoding == Encoding.ORDERED:
        reader.number(8)
        values = [bits_of_ordered(value, width) for value in read_vectors(reader, rows)]
        apply_patches(reader, body, values)
    elif encoding == Encoding.RUNS:
        values = [value for value, length in zip(*read_pair(reader), strict=True) for _ in range(length)]
    elif encoding == Encoding.DICTIONARY:
        distinct, numbers = read_pair(reader)
        values = [distinct[number] for number in numbers]
    elif encoding == Encoding.HALVES:
        values = [low | high << 64 for low, high in zip(*read_pair(reader), strict=True)]
    elif encoding == Encoding.SHUFFLED:
        assert parameter == 1
        length = reader.number(8)
        plain = pa.Codec("lz4_raw").decompress(data[reader.at : reader.at + length], rows * width, asbytes=True)
        values = [int.from_bytes(plain[row::rows], "little") for row in range(rows)]
        reader.at += length
        reader.align()
    assert reader.at == len(data)
    return encoding, [value & ((1 << (8 * width)) - 1) for value in values], valid


def check_format(array: pa.Array, cuts: list[int]) -> list[Encoding]:
    """Encode ``array`` and compare what the reference decoder reads with its words; returns the encodings."""
    arena = Arena(1 << 12)
    pieces = encode_numbers(array, np.array(cuts, np.int64), arena)
    width = max(1, array.type.bit_width // 8)
    if pa.types.is_boolean(array.type):
        words = [int(value) if value is not None else 0 for value in array.to_pylist()]
    else:
        raw = array.buffers()[1].to_pybytes()
        starts = range(width * array.offset, width * (array.offset + len(array)), width)
        words = [int.from_bytes(raw[start : start + width], "little") for start in starts]
    validity = array.is_valid().to_pylist()
    encodings = []
    for block, (first, last) in enumerate(itertools.pairwise(cuts)):
        offset, length = int(pieces.offsets[block]), int(pieces.lengths[block])
        assert offset % 8 == 0
        data = arena.data[offset : offset + length].tobytes()
        encoding, values, valid = read_piece(data, width, floats=pa.types.is_floating(array.type))
        assert valid == validity[first:last]
        assert [v for v, ok in zip(values, valid, strict=True) if ok] == [
            w for w, ok in zip(words[first:last], valid, strict=True) if ok
        ]
        encodings.append(encoding)
    return encodings


def rng() -> np.random.Generator:
    return np.random.default_rng(20)


def decimal_walk(rows: int) -> np.ndarray:
    return np.round(100 + np.cumsum(rng().normal(0, 0.1, rows)), 2)


def f32_as_f64(rows: int) -> np.ndarray:
    return rng().normal(size=rows).astype(np.float32).astype(np.float64)


def smooth(rows: int) -> np.ndarray:
    return np.sin(0.3 + np.arange(rows) * 2 * np.pi / 1e6)


def equal_middle_bytes(rows: int) -> np.ndarray:
    noise = rng().integers(0, 256, (2, rows), dtype=np.uint64)
    return noise[0] << np.uint64(56) | np.uint64(0x123456789ABC00) | noise[1]


def with_some(values: np.ndarray, share: float, other: float) -> np.ndarray:
    values = values.copy()
    values[rng().random(len(values)) < share] = other
    return values


CASES: dict[str, tuple[Callable[[int], pa.Array], Encoding]] = {
    "steps": (lambda n: pa.array(np.cumsum(rng().integers(950, 1051, n))), Encoding.PACKED),
    "steps of thousands": (lambda n: pa.array(1000 * np.cumsum(rng().integers(950, 1051, n))), Encoding.PACKED),
    "far outliers": (lambda n: pa.array(with_some(rng().integers(0, 99, n), 0.02, 1 << 40)), Encoding.PACKED),
    "low outliers": (lambda n: pa.array(with_some(rng().integers(0, 99, n), 0.02, -(1 << 40))), Encoding.PACKED),
    "cubic": (lambda n: pa.array(np.arange(n) ** 3 * 7 - 5 * np.arange(n)), Encoding.PACKED),
    "random words": (lambda n: pa.array(rng().integers(-(1 << 63), (1 << 63) - 1, n)), Encoding.RAW),
    "random bytes": (lambda n: pa.array(rng().integers(-128, 128, n).astype(np.int8)), Encoding.RAW),
    "decimals": (lambda n: pa.array(decimal_walk(n)), Encoding.DECIMAL),
    "decimals and NaN": (
        lambda n: pa.array(with_some(decimal_walk(n), 0.3, np.nan), from_pandas=False),
        Encoding.DECIMAL,
    ),
    "decimals and -0": (lambda n: pa.array(with_some(decimal_walk(n), 0.02, -0.0)), Encoding.DECIMAL),
    "short decimals": (lambda n: pa.array(decimal_walk(n).astype(np.float32)), Encoding.DECIMAL),
    "smooth": (lambda n: pa.array(smooth(n)), Encoding.ORDERED),
    "smooth and infinite": (lambda n: pa.array(with_some(smooth(n), 0.02, -np.inf)), Encoding.ORDERED),
    "short smooth": (lambda n: pa.array((smooth(n) / 3).astype(np.float32)), Encoding.ORDERED),
    "f32 as f64": (lambda n: pa.array(f32_as_f64(n)), Encoding.ORDERED),
    "runs": (lambda n: pa.array(np.repeat(rng().integers(0, 1 << 60, n), 19)[:n]), Encoding.RUNS),
    "float runs": (lambda n: pa.array(np.repeat(rng().normal(size=n), 19)[:n]), Encoding.RUNS),
    "few values": (lambda n: pa.array(rng().choice(rng().integers(0, 1 << 60, 20), n)), Encoding.DICTIONARY),
    "few floats": (lambda n: pa.array(rng().choice(rng().normal(size=40), n).astype(np.float32)), Encoding.DICTIONARY),
    "sums": (lambda n: pa.array(rng().integers(-(10**6), 10**6, n)).cast(pa.decimal128(30, 0)), Encoding.HALVES),
    "equal middle bytes": (lambda n: pa.array(equal_middle_bytes(n)), Encoding.SHUFFLED),
    "flags": (lambda n: pa.array(rng().random(n) < 0.5), Encoding.PACKED),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("nulls", [0, 0.2])
def test_layout_of_each_encoding(name: str, nulls: float) -> None:
    make, expected = CASES[name]
    array = make(1300)
    if nulls:
        array = pc.if_else(pa.array(rng().random(len(array)) < nulls), pa.scalar(None, array.type), array)
    encodings = check_format(array, [0, 1300])
    # Null slots repeat a neighbour, which may make packing pay after all.
    assert encodings == [expected] or (nulls and expected in (Encoding.RAW, Encoding.RUNS))


@settings(max_examples=scaled(40))
@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-3, 3), max_size=80), st.data())
def test_any_integers_in_any_blocks(values: list[int], data: st.DataObject) -> None:
    inner = data.draw(st.lists(st.integers(0, len(values)), max_size=3).map(sorted))
    check_format(pa.array(values, pa.int64()), [0, *inner, len(values)])


@settings(max_examples=scaled(40))
@given(st.lists(st.integers(0, (1 << 64) - 1), max_size=80))
def test_any_float_bits(bits: list[int]) -> None:
    check_format(pa.array(np.array(bits, np.uint64).view(np.float64)), [0, len(bits)])


def test_integer_streams_are_packed_or_raw() -> None:
    arena = Arena()
    values = np.concatenate([np.repeat([1 << 60, -(1 << 60)], 2000), rng().integers(-(1 << 63), (1 << 63) - 1, 100)])
    pieces = encode_integers(values, np.array([0, 4000, 4100]), arena)
    got = [
        signed(value)
        for offset, length in zip(pieces.offsets, pieces.lengths, strict=True)
        for value in read_stream(arena.data[offset : offset + length].tobytes())
    ]
    assert got == values.tolist()
