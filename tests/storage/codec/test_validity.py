"""Null slots: Arrow's bitmaps to validity bytes and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.profiles import scaled
from tidelog.model.errors import CorruptionError
from tidelog.storage.codec.encodings import Encoding, ValidityKind
from tidelog.storage.codec.piece import Heads, read_heads, write_head
from tidelog.storage.codec.validity import decode_validity, encode_validity, no_nulls, valid_bits


def array_of(valid: Any) -> pa.Array:
    """An array that is null where ``valid`` is false; its null count is not known yet."""
    bitmap = pa.py_buffer(np.packbits(np.array(valid, bool), bitorder="little"))
    return pa.Array.from_buffers(pa.int8(), len(valid), [bitmap, pa.py_buffer(bytes(len(valid)))])


def pieces_of(array: pa.Array, cuts: list[int]) -> tuple[np.ndarray, np.ndarray, Heads]:
    """Heads with validity, one per block, one behind the other."""
    validity = encode_validity(array, np.array(cuts, np.int64))
    assert len(validity.kinds) == len(cuts) - 1
    parts, offsets, lengths, at = [], [], [], 0
    for block in range(len(cuts) - 1):
        kind, content = validity.of_block(block)
        target = np.zeros(16 + len(content) + 8, np.uint8)
        body = write_head(target, Encoding.RAW, 0, cuts[block + 1] - cuts[block], kind, content)
        parts.append(target[:body])
        offsets.append(at)
        lengths.append(body)
        at += body
    buffer = np.concatenate(parts) if parts else np.zeros(0, np.uint8)
    places = np.array(offsets, np.int64)
    return buffer, places, read_heads(buffer, places, np.array(lengths, np.int64))


def decoded(buffer: np.ndarray, offsets: np.ndarray, heads: Heads, starts: Any, stops: Any) -> list[bool]:
    starts, stops = np.array(starts, np.int64), np.array(stops, np.int64)
    bitmap, nulls = decode_validity(buffer, offsets, heads, starts, stops)
    rows = int((stops - starts).sum())
    if bitmap is None:
        assert nulls == 0
        return [True] * rows
    bits = np.unpackbits(np.frombuffer(bitmap, np.uint8), bitorder="little")
    assert len(bits) == (rows + 7) // 8 * 8
    assert not bits[rows:].any()
    assert nulls == rows - int(bits.sum())
    return bits[:rows].astype(bool).tolist()


@st.composite
def patterns(draw: st.DrawFn) -> list[bool]:
    stretches = draw(st.lists(st.tuples(st.booleans(), st.integers(1, 40) | st.integers(1, 3000)), max_size=6))
    valid = [flag for flag, length in stretches for _ in range(length)]
    for place in draw(st.lists(st.integers(0, 10_000), max_size=5)):
        if valid:
            valid[place % len(valid)] ^= True
    return valid


@settings(max_examples=scaled(150))
@given(patterns(), st.data())
def test_round_trip(valid: list[bool], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(valid)))
    array = array_of(valid).slice(first, data.draw(st.integers(0, len(valid) - first)))
    expected = valid[first : first + len(array)]
    cuts = [0, *data.draw(st.lists(st.integers(0, len(array)), max_size=4).map(sorted)), len(array)]
    buffer, offsets, heads = pieces_of(array, cuts)
    rows = np.diff(cuts)
    assert decoded(buffer, offsets, heads, np.zeros_like(rows), rows) == expected
    for block, kind in enumerate(heads.validity):
        part = expected[cuts[block] : cuts[block + 1]]
        if all(part):
            assert kind == ValidityKind.NO_NULLS
        elif not any(part):
            assert kind == ValidityKind.ALL_NULL
        else:
            assert kind in (ValidityKind.BITMAP, ValidityKind.BITMAP_LZ4)


@settings(max_examples=scaled(50))
@given(st.data())
def test_ranges(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    counts = [data.draw(st.sampled_from([1, 1024, 2000, 4096])) for _ in range(3)]
    valid = rng.random(sum(counts)) < data.draw(st.sampled_from([0.0, 0.5, 0.99, 1.0]))
    cuts = [0, *np.cumsum(counts).tolist()]
    buffer, offsets, heads = pieces_of(array_of(valid), cuts)
    starts = [1024 * data.draw(st.integers(0, count // 1024)) for count in counts]
    stops = [data.draw(st.sampled_from(sorted({start, count}))) for start, count in zip(starts, counts, strict=True)]
    expected = [
        flag
        for first, start, stop in zip(cuts, starts, stops, strict=False)
        for flag in valid[first + start : first + stop].tolist()
    ]
    assert decoded(buffer, offsets, heads, starts, stops) == expected


def test_long_stretches_are_compressed() -> None:
    valid = np.arange(8192) % 4096 < 3000
    buffer, _, heads = pieces_of(array_of(valid), [0, 4096, 8192])
    assert heads.validity.tolist() == [ValidityKind.BITMAP_LZ4] * 2
    assert len(buffer) < 100


def test_noise_stays_a_bitmap() -> None:
    valid = np.random.default_rng(0).random(4096) < 0.5
    _, _, heads = pieces_of(array_of(valid), [0, 4096])
    assert heads.validity.tolist() == [ValidityKind.BITMAP]
    assert heads.validity_bytes.tolist() == [512]


def test_arrays_without_a_bitmap() -> None:
    assert encode_validity(pa.array([1, 2, 3]), np.array([0, 1, 3])).kinds.tolist() == [0, 0]
    assert no_nulls(2).of_block(1)[0] == ValidityKind.NO_NULLS
    assert valid_bits(pa.array([1, 2, 3])).tolist() == [1, 1, 1]
    assert valid_bits(pa.nulls(3)).tolist() == [0, 0, 0]
    assert valid_bits(pa.array([1, None, 3, None, 5]).slice(1, 3)).tolist() == [0, 1, 0]


def compressed_piece() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    buffer, offsets, heads = pieces_of(array_of(np.arange(4096) < 3000), [0, 4096])
    assert heads.validity.tolist() == [ValidityKind.BITMAP_LZ4]
    return buffer, offsets, np.array([len(buffer)], np.int64)


def test_bitmaps_that_cannot_be_decompressed() -> None:
    buffer, offsets, lengths = compressed_piece()
    heads = read_heads(buffer, offsets, lengths)
    buffer[16 : 16 + int(heads.validity_bytes[0])] = 0xFF
    with pytest.raises(CorruptionError, match="validity bitmap of piece 0 cannot be decompressed"):
        decoded(buffer, offsets, heads, [0], [4096])


def test_bitmaps_of_another_length() -> None:
    buffer, offsets, lengths = compressed_piece()
    buffer[1] = ValidityKind.BITMAP
    with pytest.raises(CorruptionError, match="4096 rows need 512"):
        decoded(buffer, offsets, read_heads(buffer, offsets, lengths), [0], [4096])
