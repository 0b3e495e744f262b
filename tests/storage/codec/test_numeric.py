"""Numbers and integer streams survive encoding bit by bit, whatever their type, nulls, blocks and range read."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.profiles import scaled
from tidelog.model.errors import SchemaError
from tidelog.storage.codec.arena import Arena, Bytes, Ints, Pieces
from tidelog.storage.codec.chosen import Chosen
from tidelog.storage.codec.encodings import Encoding
from tidelog.storage.codec.numeric import (
    decode_integers,
    decode_number_rows,
    decode_numbers,
    encode_integers,
    encode_numbers,
)

TYPES = [
    pa.bool_(),
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64()),
    *(pa.timestamp("us"), pa.timestamp("ns", "UTC"), pa.date32(), pa.date64(), pa.time32("s"), pa.duration("ms")),
    *(pa.decimal128(38, 5), pa.decimal128(9, 2)),
]
CUTS = [1, 2, 15, 16, 17, 1023, 1024, 1025, 2048, 4096]


def words(type: pa.DataType, values: Any) -> Bytes:
    """Values as Arrow lays them out, from whole numbers (taken modulo the width) or from an array of bytes."""
    width = 1 if pa.types.is_boolean(type) else type.bit_width // 8
    if pa.types.is_boolean(type):
        return np.packbits(np.array(values, np.int64) & 1, bitorder="little")
    low = np.array(values, np.int64)
    if width == 16:
        return np.stack([low, low >> 63], axis=1).view(np.uint8).ravel()
    return low.astype(f"<i{width}").view(np.uint8)


def make(type: pa.DataType, raw: Bytes, valid: Any = None) -> pa.Array:
    """An array of these very bytes; ``valid`` says which rows are not null (booleans: needed for their number)."""
    rows = len(valid) if valid is not None else len(raw) * 8 // type.bit_width
    bitmap = None if valid is None else pa.py_buffer(np.packbits(np.array(valid, bool), bitorder="little"))
    return pa.Array.from_buffers(type, rows, [bitmap, pa.py_buffer(raw)])


def same(got: pa.Array, expected: pa.Array) -> None:
    """Equal validity, and equal bits (of NaN too) at valid slots."""
    got.validate()
    assert got.type == expected.type
    assert got.null_count == expected.null_count
    assert got.is_valid().equals(expected.is_valid())
    if pa.types.is_boolean(expected.type):
        assert got.equals(expected)
        return
    width = expected.type.bit_width // 8
    valid = expected.is_valid().to_numpy(zero_copy_only=False)

    def rows(array: pa.Array) -> Any:
        raw = np.frombuffer(array.buffers()[1] or b"", np.uint8)
        return raw[array.offset * width : (array.offset + len(array)) * width].reshape(-1, width)[valid]

    assert np.array_equal(rows(got), rows(expected))


def encode(array: pa.Array, cuts: Any) -> tuple[Bytes, Pieces, Ints]:
    cuts = np.array(cuts, np.int64)
    arena = Arena(1 << 10)
    arena.put(b"something else")
    pieces = encode_numbers(array, cuts, arena)
    assert len(pieces.offsets) == len(pieces.lengths) == len(cuts) - 1
    assert not (pieces.offsets & 7).any()
    assert not (pieces.lengths & 7).any()
    assert arena.data[:14].tobytes() == b"something else"
    if len(cuts) > 1:
        assert int((pieces.offsets + pieces.lengths).max()) <= arena.used
    return arena.data, pieces, cuts


def rows_of(type: pa.DataType, data: Bytes, pieces: Pieces, rows: Ints, places: Ints) -> pa.Array:
    """Some rows, given by rising numbers, of pieces of so many rows."""
    chosen, own = Chosen.of(places, rows)
    return decode_number_rows([type], data, pieces.offsets[own][None, :], pieces.lengths[own][None, :], chosen)[0]


def check(array: pa.Array, cuts: Any) -> list[Encoding]:
    """Round trip of all rows; returns the encodings."""
    data, pieces, cuts = encode(array, cuts)
    rows = np.diff(cuts)
    got = decode_numbers(array.type, data, pieces.offsets, pieces.lengths, np.zeros_like(rows), rows)
    same(got, array)
    for count in (1, 40, len(array) // 3):
        some = np.sort(np.random.default_rng(len(array)).permutation(len(array))[:count])
        same(rows_of(array.type, data, pieces, rows, some), array.take(pa.array(some)))
    width = max(1, array.type.bit_width // 8)
    # Never more than the raw values, the head and the bitmap.
    assert (pieces.lengths <= 16 + 8 + (rows + 7) // 8 + rows * width + 7).all()
    return [Encoding(int(data[offset])) for offset in pieces.offsets]


def blocks(rows: int, size: int) -> list[int]:
    return [*range(0, rows, size), rows]


# Shapes of columns: what real ones look like, and what the encodings must not trip over.

wild = st.integers(-(1 << 63), (1 << 63) - 1)
edges = st.sampled_from([0, 1, -1, (1 << 63) - 1, -(1 << 63), 1 << 62, 255, 256, -129, 1 << 31, 1 << 32])


@st.composite
def columns(draw: st.DrawFn, most: int = 3000) -> list[int]:
    """Whole numbers of many shapes: long ones from a seed, with a few drawn ones put in."""
    rows = draw(st.sampled_from([*CUTS, 0, 3, 100, 2047, 3000]).filter(lambda n: n <= most))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    shape = draw(st.sampled_from(["constant", "noise", "walk", "regular", "square", "runs", "few", "random"]))
    bits = draw(st.sampled_from([1, 3, 8, 17, 31, 40, 62]))
    start, step = draw(wild), draw(st.sampled_from([1, 2, 1000, 3 << 20, 1 << 40]))
    noise = rng.integers(0, 1 << bits, rows)
    index = np.arange(rows)
    with np.errstate(over="ignore"):
        values = {
            "constant": np.full(rows, start),
            "noise": start + noise * step,
            "walk": start + np.cumsum(noise - (1 << (bits - 1))),
            "regular": start + index * step,
            "square": start + index * index * step,
            "runs": start + np.repeat(noise, 1 + rows // 20)[:rows],
            "few": start + rng.choice(noise[:20], rows) if rows else noise,
            "random": rng.integers(-(1 << 63), (1 << 63) - 1, rows),
        }[shape]
    for place, value in draw(st.lists(st.tuples(st.integers(0, 1 << 20), wild | edges), max_size=4)):
        if rows:
            values[place % rows] = value
    return values.tolist()


@st.composite
def validities(draw: st.DrawFn, rows: int) -> Any:
    """None, or which rows are valid."""
    kind = draw(
        st.sampled_from(["none", "bitmap without nulls", "all", "one", "head", "tail", "some", "many", "stretches"])
    )
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    valid = np.ones(rows, bool)
    if kind == "none":
        return None
    if kind == "all":
        valid[:] = False
    elif kind == "one":
        valid[rng.integers(0, rows) if rows else 0 :][:1] = False
    elif kind == "head":
        valid[: rows // 2] = False
    elif kind == "tail":
        valid[rows // 2 :] = False
    elif kind in ("some", "many"):
        valid = rng.random(rows) < (0.95 if kind == "some" else 0.1)
    elif kind == "stretches":
        valid = np.arange(rows) // 300 % 2 == 0
    return valid


@pytest.mark.parametrize("type", TYPES, ids=str)
@settings(max_examples=scaled(25))
@given(data=st.data())
def test_round_trip(type: pa.DataType, data: st.DataObject) -> None:
    values = data.draw(columns())
    valid = data.draw(validities(len(values)))
    array = make(type, words(type, values), valid if valid is not None else np.ones(len(values), bool))
    if valid is None:
        array = pa.Array.from_buffers(type, len(values), [None, array.buffers()[1]])
    first = data.draw(st.integers(0, len(values)))
    array = array.slice(first, data.draw(st.integers(0, len(values) - first)))
    check(array, blocks(len(array), data.draw(st.sampled_from(CUTS[3:]))))


@settings(max_examples=scaled(60))
@given(st.data())
def test_any_ascending_cuts(data: st.DataObject) -> None:
    values = data.draw(columns(most=300))
    inner = data.draw(st.lists(st.integers(0, len(values)), max_size=6).map(sorted))
    check(pa.array(values, pa.int64()), [0, *inner, len(values)])


@pytest.mark.parametrize("rows", CUTS)
@pytest.mark.parametrize("block", CUTS)
def test_block_sizes(rows: int, block: int) -> None:
    if rows <= 300 * block:
        check(pa.array(np.arange(rows) * 0.25), blocks(rows, block))


def test_no_blocks_and_empty_blocks() -> None:
    for type in TYPES:
        check(make(type, words(type, [])), [0])
        check(make(type, words(type, [])), [0, 0, 0])
        check(make(type, words(type, [5]), [True]), [0, 0, 1, 1])


@pytest.mark.parametrize("type", [pa.float32(), pa.float64()], ids=str)
@settings(max_examples=scaled(60))
@given(data=st.data())
def test_floats_of_many_kinds(type: pa.DataType, data: st.DataObject) -> None:
    """Decimals, smooth signals and noise, with every kind of special value put in, keep all their bits."""
    bits = type.bit_width
    rows = data.draw(st.sampled_from([0, 1, 2, 100, 1024, 2500]))
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    digits = data.draw(st.integers(0, 15))
    shape = data.draw(st.sampled_from(["decimals", "whole", "smooth", "noise", "narrow", "patterns", "zeros", "few"]))
    values: Any = {
        "decimals": lambda: np.round(rng.normal(0, 10.0 ** rng.integers(-3, 6), rows), digits),
        "whole": lambda: rng.integers(-(1 << 60), 1 << 60, rows).astype(float),
        "smooth": lambda: np.sin(np.arange(rows) / 1e4),
        "noise": lambda: rng.normal(size=rows),
        "narrow": lambda: rng.normal(size=rows).astype(np.float32).astype(float),
        "patterns": lambda: rng.integers(0, (1 << 64) - 1, rows, np.uint64).view(np.float64),
        "zeros": lambda: np.where(rng.random(rows) < 0.5, 0.0, -0.0),
        "few": lambda: rng.choice(rng.normal(size=9), rows),
    }[shape]()
    with np.errstate(all="ignore"):
        raw = values.astype(f"<f{bits // 8}").view(f"<u{bits // 8}")
    special = st.integers(0, (1 << bits) - 1) | st.sampled_from(specials(bits))
    for share, pattern in data.draw(
        st.lists(st.tuples(st.sampled_from([0.001, 0.01, 0.1, 0.4, 1.0]), special), max_size=3)
    ):
        raw[rng.random(rows) < share] = pattern
    array = make(type, raw.view(np.uint8), data.draw(validities(rows)))
    check(array, blocks(rows, 1100))


def specials(bits: int) -> list[int]:
    """Signed zeros, infinities, quiet and signalling NaNs with payloads, subnormals and the largest numbers."""
    mantissa = 52 if bits == 64 else 23
    infinity = ((1 << (bits - 1)) - 1) ^ ((1 << mantissa) - 1)
    quiet = infinity | 1 << (mantissa - 1)
    positive = [0, 1, (1 << mantissa) - 1, 1 << mantissa, infinity - 1, infinity, infinity | 1, quiet, quiet | 77]
    return positive + [pattern | 1 << (bits - 1) for pattern in positive]


@settings(max_examples=scaled(60))
@given(st.data())
def test_ranges_of_vectors(data: st.DataObject) -> None:
    """Any whole vectors of any of the pieces come back alone."""
    type = data.draw(st.sampled_from([pa.float64(), pa.int32(), pa.bool_(), pa.decimal128(20, 0)]))
    rows = [data.draw(st.sampled_from([1, 1000, 1024, 2048, 2500, 4096])) for _ in range(3)]
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    shape = data.draw(st.sampled_from(["walk", "few", "runs", "random"]))
    total = sum(rows)
    values = {
        "walk": lambda: np.cumsum(rng.integers(-5, 6, total)),
        "few": lambda: rng.choice(rng.integers(0, 1 << 30, 12), total),
        "runs": lambda: np.repeat(rng.integers(0, 1 << 30, total), 37)[:total],
        "random": lambda: rng.integers(-(1 << 63), (1 << 63) - 1, total),
    }[shape]()
    array = make(type, words(type, values), data.draw(validities(total)))
    encoded, pieces, cuts = encode(array, np.cumsum([0, *rows]))
    starts, stops, expected = [], [], []
    for block, count in enumerate(rows):
        vectors = -(-count // 1024)
        first = data.draw(st.integers(0, vectors))
        last = data.draw(st.integers(first, vectors))
        starts.append(min(first * 1024, count // 1024 * 1024))
        stops.append(max(starts[-1], min(last * 1024, count)))
        expected.append(array.slice(int(cuts[block]) + starts[-1], stops[-1] - starts[-1]))
    ranges = np.array([starts, stops], np.int64)
    got = decode_numbers(type, encoded, pieces.offsets, pieces.lengths, ranges[0], ranges[1])
    same(got, pa.concat_arrays(expected))


def test_unaligned_foreign_buffers() -> None:
    rng = np.random.default_rng(5)
    for type in (pa.int16(), pa.float64(), pa.decimal128(30, 2)):
        width = type.bit_width // 8
        raw = np.frombuffer(b"?" + rng.integers(0, 50, 3000).astype("<i8").tobytes(), np.uint8)[1:]
        array = pa.Array.from_buffers(type, len(raw) // width, [None, pa.py_buffer(raw)])
        assert array.buffers()[1].address % 2 == 1
        data, pieces, _ = encode(array, [0, len(array)])
        shifted = np.frombuffer(b"???" + data.tobytes(), np.uint8)[3:]
        zero = np.zeros(1, np.int64)
        got = decode_numbers(type, shifted, pieces.offsets, pieces.lengths, zero, zero + len(array))
        same(got, array)


def test_input_is_never_changed() -> None:
    rng = np.random.default_rng(6)
    for values in (rng.normal(size=5000), np.round(rng.normal(size=5000), 2), rng.integers(0, 9, 5000)):
        before = values.copy()
        array = pa.array(values, mask=rng.random(5000) < 0.1)
        wanted = array.buffers()[1].to_pybytes()
        check(array, [0, 4096, 5000])
        assert array.buffers()[1].to_pybytes() == wanted
        assert np.array_equal(values, before)


def test_null_slots_do_not_show_in_the_bytes() -> None:
    """What happens to stand in null slots changes nothing: equal columns have equal pieces."""
    rng = np.random.default_rng(7)
    valid = rng.random(3000) < 0.7
    for kind in (pa.float64(), pa.int64(), pa.int16(), pa.decimal128(30, 0)):
        width = kind.bit_width // 8
        images = set()
        for filler in (0, 0x5A, 0xFF):
            raw = np.random.default_rng(8).integers(0, 256, (3000, width), dtype=np.uint8)
            raw[~valid] = filler
            data, pieces, _ = encode(make(kind, raw.ravel(), valid), [0, 3000])
            images.add(data[pieces.offsets[0] : pieces.offsets[0] + pieces.lengths[0]].tobytes())
        assert len(images) == 1


def test_all_null_blocks_are_a_head() -> None:
    for type in TYPES:
        _, pieces, _ = encode(make(type, words(type, [7] * 2000), np.zeros(2000, bool)), [0, 1500, 2000])
        assert pieces.lengths.tolist() == [16, 16]


@pytest.mark.parametrize("type", [pa.string(), pa.list_(pa.int8()), pa.decimal256(50, 2), pa.month_day_nano_interval()])
def test_other_types_are_refused(type: pa.DataType) -> None:
    with pytest.raises(SchemaError, match="cannot be stored as numbers"):
        encode_numbers(pa.array([], type), np.array([0]), Arena())


# Sizes: the reason for all this.


@pytest.mark.parametrize(
    ("ratio", "make_values"),
    [
        (10, lambda rng, n: np.round(100 + np.cumsum(rng.normal(0, 0.1, n)), 2)),
        (8.8, lambda rng, n: np.cumsum(rng.integers(950, 1051, n))),
        (8.8, lambda rng, n: 1000 * np.cumsum(rng.integers(950, 1051, n))),
        (300, lambda rng, n: 17 + 1000 * np.arange(n)),
        (9, lambda rng, n: np.sin(np.arange(n) * 2 * np.pi / 1e6)),
        (1.75, lambda rng, n: rng.normal(size=n).astype(np.float32).astype(float)),
        (7.5, lambda rng, n: np.where(rng.random(n) < 0.01, 1 << 50, rng.integers(0, 100, n))),
        (7.5, lambda rng, n: np.where(rng.random(n) < 0.01, -(1 << 50), rng.integers(0, 100, n))),
        (7.5, lambda rng, n: np.where(rng.random(n) < 0.3, np.nan, np.round(np.cumsum(rng.normal(0, 0.1, n)), 2))),
        (10, lambda rng, n: rng.choice(rng.normal(size=30), n)),
        (5.7, lambda rng, n: rng.choice(rng.normal(size=150), n)),
        (12, lambda rng, n: np.repeat(rng.normal(size=n), 16)[:n]),
        (300, lambda rng, n: np.full(n, 20.5)),
        (3, lambda rng, n: (rng.integers(-128, 128, n) << 56) + rng.integers(0, 256, n) + 0x123456789A00),
    ],
)
def test_sizes(ratio: float, make_values: Any) -> None:
    rows = 1 << 16
    values = make_values(np.random.default_rng(1), rows)
    _, pieces, _ = encode(pa.array(values), blocks(rows, 4096))
    assert 8 * rows / pieces.lengths.sum() >= ratio


@pytest.mark.parametrize("type", [np.float32, np.float64])
def test_missing_values_as_nan_cost_a_bit(type: Any) -> None:
    """The NaN of missing values is one pattern, also where the first value without an integer is another."""
    rng = np.random.default_rng(2)
    values = np.round(50 + np.cumsum(rng.normal(0, 0.05, 4096)), 2)
    whole = len(piece(values.astype(type)))
    values[rng.random(4096) < 0.3] = np.nan
    values[:2] = -0.0
    assert len(piece(values.astype(type))) <= whole + 4096 // 8 + 400


def test_a_noisy_start_does_not_give_up_a_large_block() -> None:
    values = np.arange(1 << 16)
    values[:3000] = np.random.default_rng(3).integers(-(1 << 63), (1 << 63) - 1, 3000)
    assert len(piece(values)) < 8 * 3072 + 64 * 64


def piece(values: Any) -> Bytes:
    """The piece of a block of these values."""
    data, pieces, _ = encode(pa.array(values, from_pandas=False), [0, len(values)])
    return data[pieces.offsets[0] : pieces.offsets[0] + pieces.lengths[0]]


# Integer streams.


@settings(max_examples=scaled(60))
@given(columns(), st.sampled_from(CUTS[3:]))
@example([], 16)
@example([-(1 << 63), (1 << 63) - 1] * 600, 1023)
def test_integer_streams(values: list[int], size: int) -> None:
    cuts = np.array(blocks(len(values), size), np.int64)
    arena = Arena(1 << 10)
    pieces = encode_integers(np.array(values, np.int64), cuts, arena)
    out = np.empty(len(values), np.int64)
    decode_integers(arena.data, pieces.offsets, pieces.lengths, np.zeros(len(cuts) - 1, np.int64), np.diff(cuts), out)
    assert out.tolist() == values


def test_integer_streams_of_strided_and_narrow_arrays() -> None:
    values = np.arange(3000, dtype=np.int32)[::3]
    arena = Arena()
    pieces = encode_integers(values, np.array([0, 1000]), arena)
    out = np.empty(1000, np.int64)
    decode_integers(arena.data, pieces.offsets, pieces.lengths, np.zeros(1, np.int64), np.array([1000]), out)
    assert np.array_equal(out, values)


def test_threads_do_not_share_scratch() -> None:
    """Threads that encode and decode at once, each with its own arena, get what they put in."""
    rng = np.random.default_rng(9)
    rows = 1 << 15
    tables = [
        [
            pa.array(np.round(np.cumsum(rng.normal(0, 1, rows)), 3)),
            pa.array(rng.choice(rng.normal(size=30), rows)),
            pa.array(np.repeat(rng.integers(0, 1 << 60, rows), 20)[:rows]),
            pa.array(rng.integers(0, 1 << 40, rows), mask=rng.random(rows) < 0.2),
            pa.array(rng.integers(0, 1 << 40, rows)).cast(pa.decimal128(20, 0)),
            pa.array(rng.normal(size=rows)),
        ]
        for _ in range(2)
    ]
    failures: list[BaseException] = []
    gate = threading.Barrier(len(tables))

    def work(arrays: list[pa.Array]) -> None:
        try:
            gate.wait(60)
            for _ in range(3):
                for array in arrays:
                    check(array, blocks(rows, 4096))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(arrays,)) for arrays in tables]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failures
    assert not any(thread.is_alive() for thread in threads)
