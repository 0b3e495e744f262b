"""Pieces whose bytes contradict themselves are reported, or decode to something: never a crash, never a stray write."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.profiles import scaled
from tidelog.model.errors import CorruptionError
from tidelog.storage.codec.arena import Arena, Bytes, Ints
from tidelog.storage.codec.chosen import Chosen
from tidelog.storage.codec.encodings import Encoding
from tidelog.storage.codec.numeric import (
    decode_integers,
    decode_number_rows,
    decode_numbers,
    encode_integers,
    encode_numbers,
)
from tidelog.storage.codec.numeric.columns import column_of
from tidelog.storage.codec.numeric.decoder import decode_blocks

ROWS = 2500
ZERO = np.zeros(1, np.int64)


def columns() -> dict[Encoding, pa.Array]:
    rng = np.random.default_rng(3)
    middle = rng.integers(0, 256, (2, ROWS), dtype=np.uint64)
    decimals = np.round(np.cumsum(rng.normal(size=ROWS)), 2)
    decimals[rng.random(ROWS) < 0.1] = np.nan
    decimals[rng.random(ROWS) < 0.01] = -0.0
    smooth = np.sin(np.arange(ROWS) / 1e4)
    smooth[::500] = np.inf
    return {
        Encoding.RAW: pa.array(rng.integers(-(1 << 63), (1 << 63) - 1, ROWS)),
        Encoding.PACKED: pa.array(np.where(rng.random(ROWS) < 0.02, 1 << 50, 1000 * rng.integers(0, 99, ROWS))),
        Encoding.DECIMAL: pa.array(decimals, from_pandas=False),
        Encoding.ORDERED: pa.array(smooth),
        Encoding.RUNS: pa.array(np.repeat(rng.normal(size=ROWS), 21)[:ROWS]),
        Encoding.DICTIONARY: pa.array(rng.choice(rng.normal(size=20), ROWS)),
        Encoding.HALVES: pa.array(rng.integers(0, 1 << 50, ROWS)).cast(pa.decimal128(30, 0)),
        Encoding.SHUFFLED: pa.array(middle[0] << np.uint64(56) | np.uint64(0x1234560000) | middle[1]),
    }


COLUMNS = columns()


def piece_of(array: pa.Array) -> Bytes:
    arena = Arena()
    pieces = encode_numbers(array, np.array([0, len(array)]), arena)
    return arena.data[pieces.offsets[0] : pieces.offsets[0] + pieces.lengths[0]].copy()


PIECES = {encoding: piece_of(array) for encoding, array in COLUMNS.items()}


def test_the_columns_have_their_encodings() -> None:
    assert {encoding: Encoding(int(piece[0])) for encoding, piece in PIECES.items()} == {e: e for e in PIECES}


def decode(type: pa.DataType, piece: Bytes, start: int = 0, stop: int = ROWS, rows: int | None = None) -> pa.Array:
    """Decode a piece that stands between other bytes."""
    length = len(piece) if rows is None else rows
    around = np.full(len(piece) + 128, 0xA5, np.uint8)
    around[64 : 64 + len(piece)] = piece
    offsets, lengths = np.array([64]), np.array([length])
    return decode_numbers(type, around, offsets, lengths, np.array([start]), np.array([stop]))


@pytest.mark.parametrize("encoding", PIECES, ids=lambda e: e.name)
@settings(max_examples=scaled(120))
@given(data=st.data())
def test_changed_bytes(encoding: Encoding, data: st.DataObject) -> None:
    piece, type = PIECES[encoding].copy(), COLUMNS[encoding].type
    early = st.integers(0, min(len(piece), 96) - 1)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(early | st.integers(0, len(piece) - 1))
        piece[place] = data.draw(st.integers(0, 255))
    keep = data.draw(st.just(len(piece)) | st.integers(0, len(piece)))
    some = np.array(sorted(data.draw(st.sets(st.integers(0, ROWS - 1), min_size=1, max_size=50))))
    chosen, _ = Chosen.of(some, np.array([ROWS]))
    rows = None
    with contextlib.suppress(CorruptionError):
        one = np.zeros((1, 1), np.int64)
        (rows,) = decode_number_rows([type], piece, one, one + keep, chosen)
        rows.validate()
    try:
        got = decode(type, piece[:keep])
    except CorruptionError:
        return
    assert len(got) == ROWS
    got.validate()
    assert rows is not None
    expected = got.take(pa.array(some))
    assert rows.is_valid().equals(expected.is_valid())
    assert repr(rows.to_pylist()) == repr(expected.to_pylist())  # NaN equals nothing


@pytest.mark.parametrize("encoding", PIECES, ids=lambda e: e.name)
@settings(max_examples=scaled(30))
@given(data=st.data())
def test_nothing_is_written_outside_the_output(encoding: Encoding, data: st.DataObject) -> None:
    piece, type = PIECES[encoding].copy(), COLUMNS[encoding].type
    for _ in range(data.draw(st.integers(0, 3))):
        piece[data.draw(st.integers(0, min(len(piece), 96) - 1))] = data.draw(st.integers(0, 255))
    width = type.bit_width // 8
    memory = np.full(ROWS * width + 128, 0x5A, np.uint8)
    out = memory[64 : 64 + ROWS * width]
    length = np.array([len(piece)])
    with contextlib.suppress(CorruptionError):
        decode_blocks(column_of(type), piece, ZERO, length, ZERO, ZERO + ROWS, out)
    assert (memory[:64] == 0x5A).all()
    assert (memory[64 + ROWS * width :] == 0x5A).all()


@pytest.mark.parametrize("encoding", PIECES, ids=lambda e: e.name)
def test_truncated_pieces(encoding: Encoding) -> None:
    piece, type = PIECES[encoding], COLUMNS[encoding].type
    for length in {0, 8, 15, 16, 24, 40, len(piece) // 2 & ~7, len(piece) - 8}:
        with pytest.raises(CorruptionError):
            decode(type, piece[:length])


def test_places_outside_the_buffer() -> None:
    piece, type = PIECES[Encoding.PACKED], pa.int64()
    everything = np.array([ROWS])
    for offset, length in (
        (8, len(piece)),
        (-8, len(piece)),
        (4, len(piece) - 8),
        (1 << 62, 16),
        (0, 1 << 62),
        (0, -8),
    ):
        with pytest.raises(CorruptionError, match="does not lie inside"):
            decode_numbers(type, piece, np.array([offset]), np.array([length]), ZERO, everything)


@pytest.mark.parametrize(("start", "stop"), [(0, ROWS + 1), (0, 1000), (1, 1024), (2048, 1024), (-1024, 1024)])
def test_rows_that_cannot_be_asked_for(start: int, stop: int) -> None:
    for encoding, piece in PIECES.items():
        with pytest.raises((CorruptionError, ValueError)):
            decode(COLUMNS[encoding].type, piece, start, stop)


@pytest.mark.parametrize(
    ("type", "encodings"),
    [
        (pa.int64(), [Encoding.DECIMAL, Encoding.ORDERED, Encoding.HALVES]),
        (pa.float64(), [Encoding.PACKED, Encoding.HALVES]),
        (pa.int8(), [Encoding.RAW, Encoding.DECIMAL, Encoding.ORDERED, Encoding.HALVES, Encoding.SHUFFLED]),
        (pa.decimal128(9, 0), [encoding for encoding in PIECES if encoding != Encoding.HALVES]),
    ],
)
def test_encodings_of_other_types(type: pa.DataType, encodings: list[Encoding]) -> None:
    for encoding in encodings:
        with pytest.raises(CorruptionError):
            decode(type, PIECES[encoding])


def stream(values: Any) -> Bytes:
    arena = Arena()
    pieces = encode_integers(np.array(values, np.int64), np.array([0, len(values)]), arena)
    return arena.data[pieces.offsets[0] : pieces.offsets[0] + pieces.lengths[0]].copy()


def pair(encoding: Encoding, rows: int, first: Bytes, second: Bytes) -> Bytes:
    head = np.array([encoding, 0, 0, 0], np.uint8).tobytes() + np.array([rows, 0, 16], "<u4").tobytes()
    return np.frombuffer(head + len(first).to_bytes(8, "little") + first.tobytes() + second.tobytes(), np.uint8)


@pytest.mark.parametrize(
    ("piece", "complaint"),
    [
        (pair(Encoding.DICTIONARY, 3, stream([5, 6]), stream([0, 2, 1])), "none of the 2 values"),
        (pair(Encoding.DICTIONARY, 3, stream([5, 6]), stream([0, -1, 1])), "none of the 2 values"),
        (pair(Encoding.DICTIONARY, 3, stream([5, 6]), stream([0, 1])), "does not hold the rows"),
        (pair(Encoding.RUNS, 3, stream([5, 6]), stream([2, 2])), "do not have its 3 rows"),
        (pair(Encoding.RUNS, 3, stream([5, 6]), stream([1, 1])), "do not have its 3 rows"),
        (pair(Encoding.RUNS, 3, stream([5, 6]), stream([4, -1])), "do not have its 3 rows"),
        (pair(Encoding.RUNS, 3, stream([5, 6]), stream([3])), "other numbers of values and of lengths"),
        (pair(Encoding.RUNS, 3, pair(Encoding.RUNS, 1, stream([5]), stream([1])), stream([3])), "packed or raw"),
        (pair(Encoding.RUNS, 3, stream([])[:8], stream([3])), "two streams"),
    ],
)
def test_contradicting_streams(piece: Bytes, complaint: str) -> None:
    with pytest.raises(CorruptionError, match=complaint):
        decode(pa.int64(), piece, 0, 3)


def test_streams_that_claim_too_much_are_not_allocated() -> None:
    huge = stream([1, 2, 3])
    huge[4:8] = 255
    with pytest.raises(CorruptionError, match="claims 4294967295 values"):
        decode(pa.int64(), pair(Encoding.DICTIONARY, 3, huge, stream([0, 0, 0])), 0, 3)


def test_integer_streams_with_nulls_are_refused() -> None:
    arena = Arena()
    pieces = encode_numbers(pa.array([1, None, 3]), np.array([0, 3]), arena)
    with pytest.raises(CorruptionError, match="nulls"):
        decode_integers(arena.data, pieces.offsets, pieces.lengths, ZERO, ZERO + 3, np.empty(3, np.int64))


def test_room_for_other_rows_is_refused() -> None:
    values = stream(range(100))
    for room in (99, 101):
        with pytest.raises(CorruptionError, match="room"):
            decode_integers(values, ZERO, np.array([len(values)]), ZERO, ZERO + 100, np.empty(room, np.int64))


def test_a_complaint_names_the_piece() -> None:
    good, bad = stream(range(100)), stream(range(100))
    bad[0] = Encoding.DECIMAL
    both = np.concatenate([good, good, bad])
    offsets: Ints = np.array([0, len(good), 2 * len(good)])
    lengths: Ints = np.full(3, len(good))
    with pytest.raises(CorruptionError, match="piece 2 of 3 has an encoding"):
        decode_integers(both, offsets, lengths, np.zeros(3, np.int64), np.full(3, 100), np.empty(300, np.int64))
