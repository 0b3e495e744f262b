"""The head of pieces."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.model.errors import CorruptionError
from tidelog.storage.codec.piece import (
    Encoding,
    ValidityKind,
    body_offset,
    check_ranges,
    read_heads,
    write_head,
)


@given(
    encoding=st.sampled_from(Encoding),
    kind=st.sampled_from(ValidityKind),
    parameter=st.integers(0, 65535),
    rows=st.integers(0, (1 << 32) - 1),
    validity=st.binary(max_size=40),
)
def test_layout(encoding: Encoding, kind: ValidityKind, parameter: int, rows: int, validity: bytes) -> None:
    target = np.full(80, 0xEE, np.uint8)
    body = write_head(target, encoding, parameter, rows, kind, np.frombuffer(validity, np.uint8))
    padding = bytes(-len(validity) % 8)
    head = struct.pack("<BBHIII", encoding, kind, parameter, rows, len(validity), 16 + len(validity + padding))
    assert target[:body].tobytes() == head + validity + padding
    assert (target[body:] == 0xEE).all()
    assert body == body_offset(len(validity))


def test_numbers_of_the_format_never_change() -> None:
    assert [(e.name, e.value) for e in Encoding] == [
        ("RAW", 0),
        ("PACKED", 1),
        ("DECIMAL", 2),
        ("ORDERED", 3),
        ("RUNS", 4),
        ("DICTIONARY", 5),
        ("HALVES", 6),
        ("SHUFFLED", 7),
        ("TEXT_PLAIN", 32),
        ("TEXT_DICTIONARY", 33),
        ("TEXT_CONSTANT", 34),
        ("TEXT_TEMPLATE", 35),
    ]
    assert [kind.value for kind in ValidityKind] == [0, 1, 2, 3]


def two_pieces() -> np.ndarray:
    buffer = np.zeros(64, np.uint8)
    write_head(buffer[8:], Encoding.PACKED, 7, 100, ValidityKind.BITMAP, np.arange(5, dtype=np.uint8))
    write_head(buffer[40:], Encoding.RAW, 0, 3, ValidityKind.NO_NULLS, np.zeros(0, np.uint8))
    return buffer


def test_heads_are_gathered() -> None:
    heads = read_heads(two_pieces(), np.array([8, 40]), np.array([32, 24]))
    assert heads.encoding.tolist() == [Encoding.PACKED, Encoding.RAW]
    assert heads.validity.tolist() == [ValidityKind.BITMAP, ValidityKind.NO_NULLS]
    assert heads.parameter.tolist() == [7, 0]
    assert heads.rows.tolist() == [100, 3]
    assert heads.validity_bytes.tolist() == [5, 0]
    assert heads.body.tolist() == [24, 16]
    assert heads.select(np.array([1])).rows.tolist() == [3]
    assert len(read_heads(two_pieces(), np.array([], np.int64), np.array([], np.int64)).rows) == 0


@pytest.mark.parametrize(("offset", "length"), [(8, 15), (-8, 32), (40, 25), (1 << 62, 16), (8, 1 << 62), (60, 16)])
def test_pieces_outside_the_buffer(offset: int, length: int) -> None:
    with pytest.raises(CorruptionError, match="piece 1 claims"):
        read_heads(two_pieces(), np.array([8, offset]), np.array([32, length]))


@pytest.mark.parametrize(("place", "value"), [(9, 4), (16, 6 + 8), (20, 16), (20, 32), (23, 1)])
def test_heads_that_contradict_themselves(place: int, value: int) -> None:
    buffer = two_pieces()
    buffer[place] = value
    with pytest.raises(CorruptionError, match="head of piece 0"):
        read_heads(buffer, np.array([8, 40]), np.array([32, 24]))


def test_body_must_start_inside_the_piece() -> None:
    with pytest.raises(CorruptionError, match="head of piece 0"):
        read_heads(two_pieces(), np.array([8]), np.array([16]))


def test_ranges() -> None:
    heads = read_heads(two_pieces(), np.array([8, 40]), np.array([32, 24]))
    check_ranges(heads, np.array([0, 0]), np.array([100, 3]))
    check_ranges(heads, np.array([0, 3]), np.array([0, 3]))
    for start, stop in ((0, 4), (-1, 2), (2, 1)):
        with pytest.raises(CorruptionError, match="piece 1, which holds 3 rows"):
            check_ranges(heads, np.array([0, start]), np.array([100, stop]))
