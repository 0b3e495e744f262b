"""Inconsistent text pieces: refused, or decoded to some array; never a crash, never foreign memory touched."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.profiles import scaled
from support.storage.guarded_memory import GuardedMemory
from tidelog.model.errors import CorruptionError
from tidelog.storage.codec.arena import Arena
from tidelog.storage.codec.chosen import Chosen
from tidelog.storage.codec.encodings import Encoding
from tidelog.storage.codec.numeric import encode_integers
from tidelog.storage.codec.text import decode_coded_text, decode_text, decode_text_rows, encode_text

ROWS = 2500
LETTERS = str.maketrans("01", "xy")
SHAPES: dict[Encoding, Callable[[int], str]] = {
    Encoding.TEXT_PLAIN: lambda row: f"line {row:b} with words: {row * 7919 % 10007:b}".translate(LETTERS),
    Encoding.TEXT_TEMPLATE: lambda row: (
        f"{row % 256}.{row // 10} took {row * 7919 % 10007 / 1000:.3f}ms {row * 7919**4 % 2**64:016x} "
        f"{row % 53}q1q2q3q4q" + (" and so on" * 30 if row % 7 == 0 else "")
    ),
    Encoding.TEXT_DICTIONARY: lambda row: f"value number {row * row % 173} of a dictionary {'worth compressing ' * 9}",
    Encoding.TEXT_CONSTANT: lambda row: "always the same " * 600,
}
BEFORE = 64
MEMORY = GuardedMemory(1 << 18)


def piece(encoding: Encoding, nulls: bool = False, level: int = 1) -> bytearray:
    array = pa.array([None if nulls and row % 5 == 2 else SHAPES[encoding](row) for row in range(ROWS)])
    arena = Arena()
    pieces = encode_text(array, np.array([0, ROWS]), arena, level)
    image = bytearray(arena.data[: int(pieces.lengths[0])])
    assert image[0] == encoding
    return image


def decode(image: bytes, rows: int = ROWS) -> pa.Array:
    """Decode a piece at the very end of memory, behind other bytes."""
    buffer = MEMORY.at_end(b"\xa5" * BEFORE + bytes(image))
    one = [np.array([value], np.int64) for value in (BEFORE, len(image), 0, rows)]
    try:
        coded = decode_coded_text(buffer, *one)
        listed = decode_coded_text(buffer, *one, united=False)
    except CorruptionError:
        with pytest.raises(CorruptionError):
            decode_coded_text(buffer, *one, united=False)
        with pytest.raises(CorruptionError):  # neither way lets pass what the other one does not
            decode_text(pa.large_binary(), buffer, *one)
    else:
        assert listed.cast(pa.large_binary()).equals(coded.cast(pa.large_binary()))
        check_rows(buffer, len(image), coded)
        assert coded.cast(pa.large_binary()).to_pylist() == decode_text(pa.large_binary(), buffer, *one).to_pylist()
    return decode_text(pa.large_binary(), buffer, *one)


def check_rows(buffer: np.ndarray, length: int, whole: pa.Array) -> None:
    """Some rows by themselves are those among all of them."""
    places = np.arange(0, len(whole), 37)
    chosen, own = Chosen.of(places, np.array([len(whole)]))
    one = np.array([BEFORE])[own], np.array([length])[own]
    rows = decode_text_rows(buffer, *one, chosen, coded=True)
    if rows is not None:
        expected = whole.take(pa.array(places))
        assert rows.cast(pa.large_binary()).to_pylist() == expected.cast(pa.large_binary()).to_pylist()


def stream(numbers: list[int]) -> bytes:
    arena = Arena()
    pieces = encode_integers(np.array(numbers, np.int64), np.array([0, len(numbers)], np.int64), arena)
    return padded(arena.data[: int(pieces.lengths[0])].tobytes())


def padded(part: bytes) -> bytes:
    return part + bytes(-len(part) % 8)


def head(encoding: Encoding, rows: int) -> bytes:
    return struct.pack("<BBHIII", encoding, 0, 1, rows, 0, 16)


def dictionary_piece(indexes: list[int], sizes: list[int], values: bytes) -> bytes:
    parts = stream(indexes), stream(sizes)
    body = struct.pack("<6I", len(sizes), len(values), len(values), 1, len(parts[0]), len(parts[1]))
    return head(Encoding.TEXT_DICTIONARY, len(indexes)) + body + parts[0] + parts[1] + padded(values)


def plain_piece(lengths: list[int], text: bytes) -> bytes:
    part = stream(lengths)
    body = struct.pack("<4I", len(part), 1, len(text), len(text))
    return head(Encoding.TEXT_PLAIN, len(lengths)) + body + part + padded(text)


IMAGES = {
    (encoding, nulls, level): bytes(piece(encoding, nulls, level))
    for encoding in SHAPES
    for nulls in (False, True)
    for level in (0, 1)
}


class TestAnyDamage:
    @given(st.sampled_from(sorted(IMAGES)), st.data())
    @settings(max_examples=scaled(150))
    def test_changed_bytes(self, which: tuple[Encoding, bool, int], data: st.DataObject) -> None:
        image = bytearray(IMAGES[which])
        # Heads, directories and streams stand in front: that is where damage can mislead.
        places = st.integers(0, min(200, len(image) - 1)) | st.integers(0, len(image) - 1)
        for _ in range(data.draw(st.integers(1, 4))):
            image[data.draw(places)] = data.draw(st.sampled_from([0, 1, 127, 128, 255]) | st.integers(0, 255))
        self.survive(image)

    @given(st.sampled_from(sorted(IMAGES)), st.data())
    @settings(max_examples=scaled(100))
    def test_changed_numbers(self, which: tuple[Encoding, bool, int], data: st.DataObject) -> None:
        image = bytearray(IMAGES[which])
        body = struct.unpack_from("<I", image, 12)[0]
        at = body + 4 * data.draw(st.integers(0, 12))
        value = data.draw(st.integers(0, 64) | st.sampled_from([2**31 - 1, 2**31, 2**32 - 1, len(image)]))
        struct.pack_into("<I", image, at, value)
        self.survive(image)

    @given(st.sampled_from(sorted(IMAGES)), st.data())
    @settings(max_examples=scaled(60))
    def test_lost_bytes(self, which: tuple[Encoding, bool, int], data: st.DataObject) -> None:
        image = IMAGES[which]
        kept = data.draw(st.integers(0, len(image) - 9))
        with pytest.raises(CorruptionError):
            decode(image[:kept])

    @staticmethod
    def survive(image: bytearray) -> None:
        try:
            array = decode(image)
        except CorruptionError:
            return
        array.validate(full=True)
        assert len(array) == ROWS


class TestImpossibleNumbers:
    """Well-formed pieces whose streams say what cannot be; the sums are right, so nothing else gives them away."""

    def test_possible_ones(self) -> None:
        image = dictionary_piece([1, 0, 1, 2], [3, 2, 0], b"abcde")
        assert decode(image, 4).to_pylist() == [b"de", b"abc", b"de", b""]
        assert decode(plain_piece([3, 0, 2], b"abcde"), 3).to_pylist() == [b"abc", b"", b"de"]

    @pytest.mark.parametrize("index", [-1, 3, 1 << 40, -(1 << 63)])
    def test_indexes(self, index: int) -> None:
        with pytest.raises(CorruptionError, match="text piece 0 contradicts itself"):
            decode(dictionary_piece([1, 0, index, 2], [3, 2, 0], b"abcde"), 4)

    @pytest.mark.parametrize("sizes", [[-1, 3, 3], [6, -1, 0], [1 << 40, 5 - (1 << 40), 0], [3, 2, 1], [3, 1, 0]])
    def test_sizes_of_distinct_values(self, sizes: list[int]) -> None:
        with pytest.raises(CorruptionError, match="text piece 0 contradicts itself"):
            decode(dictionary_piece([0, 1, 2, 1], sizes, b"abcde"), 4)

    @pytest.mark.parametrize("lengths", [[-1, 6], [6, -1], [1 << 40, 5 - (1 << 40)], [1 << 31, 5 - (1 << 31)]])
    def test_lengths(self, lengths: list[int]) -> None:
        with pytest.raises(CorruptionError, match="text piece 0 contradicts itself"):
            decode(plain_piece(lengths, b"abcde"), 2)


class TestMessages:
    def test_foreign_encoding(self) -> None:
        image = piece(Encoding.TEXT_CONSTANT)
        image[0] = Encoding.PACKED
        with pytest.raises(CorruptionError, match=r"piece 0 has encoding 1 .* one of the encodings of text"):
            decode(image)

    def test_missing_body(self) -> None:
        head = struct.pack("<BBHIII", Encoding.TEXT_PLAIN, 0, 1, ROWS, 0, 16)
        with pytest.raises(CorruptionError, match=f"0 bytes of body for {ROWS} rows"):
            decode(head)

    def test_too_many_entries(self) -> None:
        image = piece(Encoding.TEXT_DICTIONARY)
        struct.pack_into("<I", image, 16, ROWS + 1)
        with pytest.raises(CorruptionError, match="a number of distinct values that cannot be"):
            decode(image)

    @pytest.mark.parametrize(("encoding", "field"), [(Encoding.TEXT_PLAIN, 0), (Encoding.TEXT_DICTIONARY, 16)])
    def test_stream_that_does_not_fit(self, encoding: Encoding, field: int) -> None:
        image = piece(encoding)
        struct.pack_into("<I", image, 16 + field, len(image))
        with pytest.raises(CorruptionError, match="names parts that do not fit into it"):
            decode(image)

    def test_values_longer_than_their_lengths_say(self) -> None:
        image = piece(Encoding.TEXT_DICTIONARY)
        (size,) = struct.unpack_from("<I", image, 20)
        struct.pack_into("<I", image, 20, size + 1)
        with pytest.raises(CorruptionError, match="do not add up to their bytes"):
            decode(image)

    def test_unknown_compression(self) -> None:
        image = piece(Encoding.TEXT_CONSTANT)
        struct.pack_into("<I", image, 28, 9)
        with pytest.raises(CorruptionError, match=r"compressed by method 9; known are 1 \(LZ4\)"):
            decode(image)

    def test_compressed_bytes_that_do_not_expand(self) -> None:
        image = piece(Encoding.TEXT_CONSTANT)
        image[16 + 24 : 16 + 28] = b"\0\0\0\0"
        with pytest.raises(CorruptionError, match="do not expand to 9600"):
            decode(image)

    def test_directory_against_lengths(self) -> None:
        image = piece(Encoding.TEXT_PLAIN)
        (size,) = struct.unpack_from("<I", image, 24)
        struct.pack_into("<I", image, 24, size + 1)
        with pytest.raises(CorruptionError, match=r"bytes by its directory, of .* by the lengths of its rows"):
            decode(image)

    def test_segment_behind_the_end(self) -> None:
        image = piece(Encoding.TEXT_PLAIN)
        image = image[:-16]
        with pytest.raises(CorruptionError, match=r"text piece 0 ends at byte .* the piece ends at"):
            decode(image)

    def test_more_rows_than_there_are(self) -> None:
        with pytest.raises(CorruptionError, match=f"rows 0 to {ROWS + 1} were asked of piece 0"):
            decode(piece(Encoding.TEXT_PLAIN), ROWS + 1)

    def test_rows_of_the_piece_against_its_stream(self) -> None:
        image = piece(Encoding.TEXT_DICTIONARY)
        struct.pack_into("<I", image, 4, ROWS + 1)
        with pytest.raises(CorruptionError):
            decode(image, ROWS + 1)
