"""The text codec: every value comes back, in every encoding, shape and range."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.profiles import scaled
from support.storage.guarded_memory import GuardedMemory
from tidelog.model.errors import InputError
from tidelog.storage.codec.arena import Arena, Pieces
from tidelog.storage.codec.chosen import Chosen
from tidelog.storage.codec.encodings import VECTOR, Encoding, ValidityKind
from tidelog.storage.codec.numeric import decode_integers
from tidelog.storage.codec.text import (
    TextOverflowError,
    compression,
    decode_coded_text,
    decode_text,
    decode_text_rows,
    encode_text,
    encoder,
)

TYPES = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]
PLAIN, DICTIONARY, CONSTANT = Encoding.TEXT_PLAIN, Encoding.TEXT_DICTIONARY, Encoding.TEXT_CONSTANT
TEMPLATE = Encoding.TEXT_TEMPLATE


def encode(array: pa.Array, cuts: list[int], level: int = 1) -> tuple[np.ndarray, Pieces]:
    arena = Arena(64)  # grows under way
    pieces = encode_text(array, np.array(cuts, np.int64), arena, level)
    assert not (pieces.offsets % 8).any()
    assert arena.used == int((pieces.offsets + pieces.lengths).max(initial=0))
    return arena.data[: arena.used].copy(), pieces


def decode(type: pa.DataType, image: np.ndarray, pieces: Pieces, ranges: list[tuple[int, int]]) -> pa.Array:
    starts, stops = np.array(ranges, np.int64).reshape(-1, 2).T
    array = decode_text(type, image, pieces.offsets, pieces.lengths, starts, stops)
    array.validate(full=True)
    assert array.type == type
    if pa.types.is_string(type):
        coded = decode_coded_text(image, pieces.offsets, pieces.lengths, starts, stops)
        coded.validate(full=True)
        assert coded.to_pylist() == array.to_pylist()
        assert coded.null_count == array.null_count
        kinds = {Encoding(int(image[offset])) for offset in pieces.offsets}
        assert pa.types.is_dictionary(coded.type) == (kinds <= {DICTIONARY, CONSTANT})
        if pa.types.is_dictionary(coded.type):
            assert len(set(coded.dictionary.to_pylist())) == len(coded.dictionary)
        listed = decode_coded_text(image, pieces.offsets, pieces.lengths, starts, stops, united=False)
        listed.validate(full=True)
        assert listed.to_pylist() == array.to_pylist()
    return array


def check_rows(array: pa.Array, cuts: list[int], image: np.ndarray, pieces: Pieces) -> None:
    """Single rows, by themselves where all pieces are dictionaries."""
    for count in (1, 40, len(array) // 3):
        places = np.sort(np.random.default_rng(len(array)).permutation(len(array))[:count])
        chosen, own = Chosen.of(places, np.diff(np.array(cuts, np.int64)))
        offsets, lengths = pieces.offsets[own], pieces.lengths[own]
        expected = array.take(pa.array(places))
        for coded in (False, True):
            found = decode_text_rows(image, offsets, lengths, chosen, coded=coded)
            if not {Encoding(int(image[offset])) for offset in offsets} <= {DICTIONARY, CONSTANT}:
                assert found is None
                continue
            found.validate(full=True)
            assert pa.types.is_dictionary(found.type) == coded
            assert (found.to_pylist(), found.null_count) == (expected.to_pylist(), expected.null_count)
            if coded and not expected.null_count:
                assert sorted(found.dictionary.to_pylist()) == sorted(set(expected.to_pylist()))


def round_trip(array: pa.Array, cuts: list[int], level: int = 1) -> list[Encoding]:
    """Encode, decode whole and compare; returns the encodings chosen."""
    image, pieces = encode(array, cuts, level)
    if pa.types.is_string(array.type):
        check_rows(array.slice(cuts[0], cuts[-1] - cuts[0]), cuts, image, pieces)
    found = decode(array.type, image, pieces, [(0, last - first) for first, last in pairwise(cuts)])
    expected = array.slice(cuts[0], cuts[-1] - cuts[0])
    assert found.to_pylist() == expected.to_pylist()
    assert found.null_count == expected.null_count
    return [Encoding(int(image[offset])) for offset in pieces.offsets]


def as_type(values: list[str | None], type: pa.DataType, encoding: str = "utf-16") -> pa.Array:
    if pa.types.is_binary(type) or pa.types.is_large_binary(type):
        return pa.array([None if value is None else value.encode(encoding) for value in values], type)
    return pa.array(values, type)


def spelled(number: int) -> str:
    """A different word for every number, without a digit that would make it the slot of a template."""
    return str(number).translate(str.maketrans("0123456789", "ghijklmnop"))


# Values that make each encoding the right choice, by number of the row.
SHAPES: dict[Encoding, Callable[[int], str]] = {
    CONSTANT: lambda row: "the same for all",
    DICTIONARY: lambda row: f"sensor-{row * row % 13}",
    PLAIN: lambda row: f"line {spelled(row)} that says {spelled(row * 7919 % 10007)} about user {spelled(row % 97)}",
    TEMPLATE: lambda row: f"line {row} of a log that says {row * 7919 % 10007} about user {row % 97}",
}
NULLS: dict[str, Callable[[int], bool]] = {
    "none": lambda row: False,
    "first": lambda row: row == 0,
    "some": lambda row: row % 3 == 1,
    "runs": lambda row: row // 700 % 2 == 1,
    "all but one": lambda row: row != 5,
}


class TestRoundTrip:
    @given(st.data())
    def test_any_values_nulls_cuts_and_slices(self, data: st.DataObject) -> None:
        type = data.draw(st.sampled_from(TYPES))
        unicode = pa.types.is_string(type) or pa.types.is_large_string(type)
        values = st.text(max_size=20) if unicode else st.binary(max_size=20)
        few = data.draw(st.lists(values, min_size=1, max_size=4))
        value = values if data.draw(st.booleans()) else st.sampled_from(few)
        least = data.draw(st.sampled_from([0, 1, 10]))
        content = data.draw(
            st.lists(st.none() | value if data.draw(st.booleans()) else value, min_size=least, max_size=60)
        )
        before = data.draw(st.integers(0, len(content)))
        array = pa.array(content, type).slice(before)
        cuts = sorted(data.draw(st.lists(st.integers(0, len(array)), min_size=1, max_size=5)))
        round_trip(array, cuts, data.draw(st.sampled_from([0, 1, 3])))

    @pytest.mark.parametrize("type", TYPES, ids=str)
    @pytest.mark.parametrize("expected", SHAPES)
    @pytest.mark.parametrize("nulls", NULLS)
    def test_every_encoding(self, type: pa.DataType, expected: Encoding, nulls: str) -> None:
        rows = 5000
        values = [None if NULLS[nulls](row) else SHAPES[expected](row) for row in range(rows)]
        array = as_type(values, type, "ascii" if expected == TEMPLATE else "utf-16")
        cuts = [0, 1024, 2047, 3072, 5000] if nulls != "all but one" else [0, 5000]
        found = set(round_trip(array, cuts))
        assert found == ({CONSTANT} if nulls == "all but one" else {expected})

    @pytest.mark.parametrize("rows", [1, 2, 1023, 1024, 1025, 4096])
    @pytest.mark.parametrize("expected", SHAPES)
    def test_edges_of_vectors(self, rows: int, expected: Encoding) -> None:
        array = pa.array([SHAPES[expected](row) for row in range(3 * rows)])
        found = round_trip(array, [0, rows, 2 * rows, 3 * rows])
        if rows > 2:
            assert found == [expected] * 3

    @pytest.mark.parametrize("type", TYPES, ids=str)
    def test_no_rows_and_only_nulls_are_a_bare_head(self, type: pa.DataType) -> None:
        for array, cuts in (
            (pa.array([], type), [0, 0]),
            (pa.nulls(3000, type), [0, 2000, 3000]),
            (pa.nulls(3, type), [1, 1]),
        ):
            _, pieces = encode(array, cuts)
            assert pieces.lengths.tolist() == [16] * (len(cuts) - 1)
            round_trip(array, cuts)

    def test_an_array_without_offsets(self) -> None:
        array = pa.Array.from_buffers(pa.string(), 0, [None, pa.py_buffer(b""), pa.py_buffer(b"")])
        round_trip(array, [0, 0])

    def test_no_blocks(self) -> None:
        image, pieces = encode(pa.array(["a"]), [0])
        assert len(pieces.offsets) == len(image) == 0

    def test_only_empty_strings(self) -> None:
        assert round_trip(pa.array([""] * 2000), [0, 1000, 2000]) == [CONSTANT] * 2
        assert round_trip(pa.array(["", None] * 1000), [0, 1001, 2000]) == [CONSTANT] * 2

    def test_values_that_differ_in_one_place_only(self) -> None:
        # Lengths around the words of eight bytes that values are hashed, compared and copied in.
        values = []
        for size in [1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49, 64, 65]:
            values.append(b"x" * size)
            values += [b"x" * at + b"y" + b"x" * (size - at - 1) for at in range(size)]
        array = pa.array(values * 9, pa.binary())
        assert round_trip(array, [0, len(array)]) == [DICTIONARY]

    def test_padding_does_not_hide_differences(self) -> None:
        values = [b"", b"\0", b"\0\0", b"a", b"a\0", b"a" + bytes(7), b"a" + bytes(8), b"a" + bytes(16)]
        array = pa.array(values * 200, pa.binary())
        assert round_trip(array, [0, len(array)]) == [DICTIONARY]

    def test_zeros_of_different_lengths(self) -> None:
        for one in range(10):
            for other in range(one + 1, 10):
                round_trip(pa.array([bytes(one), bytes(other)] * 2, pa.binary()), [0, 4])

    def test_values_that_hash_alike(self) -> None:
        values = [hashing_alike(first) for first in range(50)]
        assert len({digest(value) for value in values}) == 1
        assert round_trip(pa.array(values * 50, pa.binary()), [0, 2500]) == [DICTIONARY]

    def test_bytes_that_are_not_text(self) -> None:
        values = [bytes([i, 255 - i, 0xC3, 0x28]) for i in range(256)]
        assert round_trip(pa.array(values * 16, pa.binary()), [0, 4096]) == [DICTIONARY]
        assert round_trip(pa.array(values, pa.large_binary()), [0, 256]) == [PLAIN]

    def test_multi_byte_characters(self) -> None:
        values = [f"{chr(0x4E00 + row % 5000)}é\U0001f600{row}" for row in range(3000)]
        assert round_trip(pa.array(values), [0, 1500, 3000]) == [PLAIN] * 2

    @pytest.mark.parametrize("level", [0, 1])
    def test_single_large_values(self, level: int) -> None:
        random = np.random.default_rng(4)
        noise = random.bytes(1 << 20)
        pattern = bytes(range(256)) * 4096
        array = pa.array([noise, None, pattern, noise, b"", pattern[:-1]], pa.binary())
        assert round_trip(array, [0, 1, 2, 4, 6], level) == [CONSTANT, CONSTANT, PLAIN, PLAIN]
        _, pieces = encode(array, [0, 1, 3, 6], level)
        assert pieces.lengths[0] < (1 << 20) + 64  # noise is kept as it is
        assert pieces.lengths[1] < 1 << 14

    def test_bytes_of_null_slots_are_left_behind(self) -> None:
        rows = 3000
        secret = b"SECRET"
        words = [secret if row % 2 else b"word %d" % row for row in range(rows)]
        ends = np.cumsum([0, *map(len, words)]).astype(np.int32)
        valid = np.packbits(np.arange(rows) % 2 == 0, bitorder="little")
        buffers = [pa.py_buffer(valid), pa.py_buffer(ends), pa.py_buffer(b"".join(words))]
        array = pa.Array.from_buffers(pa.string(), rows, buffers).slice(3)
        assert round_trip(array, [0, 1500, rows - 3]) == [PLAIN] * 2
        image, _ = encode(array, [0, 1500, rows - 3], level=0)
        assert secret not in image.tobytes()

    @pytest.mark.parametrize("last", [*range(10), 15, 16, 17, 32, 33])
    def test_no_byte_behind_the_data_is_read(self, last: int) -> None:
        data = pa.py_buffer(GuardedMemory(100).at_end(b"abcabcdefghi" + b"x" * last))
        places = pa.py_buffer(np.array([0, 1, 3, 12, 12 + last], np.int32))
        array = pa.Array.from_buffers(pa.binary(), 4, [None, places, data])
        round_trip(array, [0, 4])
        round_trip(array, [1, 2, 3, 4])


class TestChoice:
    def test_many_distinct_values_are_plain(self) -> None:
        random = np.random.default_rng(2)
        values = [spelled(value) for value in random.integers(0, 10**8, 4096)]
        assert round_trip(pa.array(values), [0, 4096]) == [PLAIN]

    @pytest.mark.parametrize("number", [lambda row: row % 1021, lambda row: row // 4], ids=["in turn", "in runs"])
    def test_order_does_not_hide_repetition(self, number: Callable[[int], int]) -> None:
        array = pa.array([f"device-{number(row):06d}" for row in range(8192)])
        assert round_trip(array, [0, 4096, 8192]) == [DICTIONARY] * 2

    def test_a_large_dictionary_is_kept_if_values_repeat(self) -> None:
        random = np.random.default_rng(2)
        values = [f"customer-number-{value:08d}" for value in random.integers(0, 1500, 8192)]
        assert round_trip(pa.array(values), [0, 4096, 8192]) == [DICTIONARY] * 2

    def test_single_characters_of_a_wide_range_are_plain(self) -> None:
        random = np.random.default_rng(2)
        array = pa.array([bytes([value]) for value in random.integers(0, 256, 4096)], pa.binary())
        assert round_trip(array, [0, 4096]) == [PLAIN]

    def test_a_dictionary_too_long_for_partial_reads_is_not_made(self) -> None:
        random = np.random.default_rng(2)
        values = [random.bytes(1000) for _ in range(900)]
        array = pa.array(values + values, pa.binary())
        assert round_trip(array, [0, 1800]) == [PLAIN]

    def test_blocks_are_judged_one_by_one(self) -> None:
        shapes = [CONSTANT, PLAIN, DICTIONARY, PLAIN, CONSTANT, DICTIONARY]
        array = pa.array([SHAPES[shapes[row // 1500]](row) for row in range(9000)])
        assert round_trip(array, list(range(0, 9001, 1500))) == shapes

    @pytest.mark.parametrize("level", [0, 1, 9])
    def test_compression_is_used_where_it_saves(self, level: int) -> None:
        lines = pa.array([SHAPES[PLAIN](row) for row in range(4096)])
        size = lines.get_total_buffer_size() - 4 * 4097
        assert encode(lines, [0, 4096], level)[1].lengths[0] < size / (2 if level else 1.5)
        noise = pa.array([np.random.default_rng(row).bytes(16) for row in range(2048)], pa.binary())
        assert encode(noise, [0, 2048], level)[1].lengths[0] < 16 * 2048 + 200

    @pytest.mark.parametrize("level", [-1, 23])
    def test_unknown_levels_are_refused(self, level: int) -> None:
        with pytest.raises(ValueError, match=f"compression level {level} is not one of 0"):
            encode_text(pa.array(["a"]), np.array([0, 1]), Arena(), level)

    def test_too_much_text_for_a_block_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(encoder, "LARGEST_TEXT", 1000)
        arena = Arena()
        with pytest.raises(InputError, match="block 1 has 2 rows with 1002 bytes of text"):
            encode_text(pa.array(["a" * 1000, "b" * 501, "c" * 501]), np.array([0, 1, 3]), arena)
        assert arena.used == 0


@pytest.fixture(scope="module")
def mixed() -> tuple[pa.Array, list[int]]:
    """Blocks of all encodings, with and without nulls, several segments in some."""
    shapes = [PLAIN, DICTIONARY, CONSTANT, PLAIN, DICTIONARY]
    values: list[str | None] = []
    cuts = [0]
    for number, shape in enumerate(shapes):
        for row in range(4500 + 100 * number):
            null = number > 1 and NULLS["some"](row)
            values.append(None if null else SHAPES[shape](row) * (3 if number == 3 else 1))
        cuts.append(len(values))
    values += [None] * 2000
    return pa.array(values), [*cuts, len(values)]


class TestPartialReads:
    @given(st.data())
    @settings(max_examples=scaled(40))
    def test_any_ranges_of_vectors(self, mixed: tuple[pa.Array, list[int]], data: st.DataObject) -> None:
        array, cuts = mixed
        image, pieces = self.encoded(array, cuts)
        ranges, expected = [], []
        for first, last in pairwise(cuts):
            rows = last - first
            edges = st.sampled_from([*range(0, rows, VECTOR), rows])
            start, stop = sorted([data.draw(edges), data.draw(edges)])
            start -= start % VECTOR
            ranges.append((start, stop))
            expected += array.slice(first + start, stop - start).to_pylist()
        chosen = sorted(data.draw(st.sets(st.integers(0, len(ranges) - 1))))
        assert decode(array.type, image, pieces, ranges).to_pylist() == expected
        some = Pieces(pieces.offsets[chosen], pieces.lengths[chosen])
        expected = [
            value
            for i in chosen
            for value in array.slice(cuts[i] + ranges[i][0], ranges[i][1] - ranges[i][0]).to_pylist()
        ]
        assert decode(array.type, image, some, [ranges[i] for i in chosen]).to_pylist() == expected

    _encoded: tuple[np.ndarray, Pieces] | None = None

    def encoded(self, array: pa.Array, cuts: list[int]) -> tuple[np.ndarray, Pieces]:
        if TestPartialReads._encoded is None:
            TestPartialReads._encoded = encode(array, cuts)
        return TestPartialReads._encoded

    def test_only_segments_with_wanted_rows_are_expanded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        array = pa.array([SHAPES[PLAIN](row) * 4 for row in range(8 * VECTOR)], pa.large_string())
        image, pieces = encode(array, [0, len(array)])
        expanded: list[int] = []
        original = compression.expand

        def counting(stored: np.ndarray, size: int, method: int) -> np.ndarray:
            expanded.append(size)
            return original(stored, size, method)

        monkeypatch.setattr("tidelog.storage.codec.text.decoder.expand", counting)
        found = decode(array.type, image, pieces, [(3 * VECTOR, 4 * VECTOR)])
        assert found.to_pylist() == array.slice(3 * VECTOR, VECTOR).to_pylist()
        assert len(expanded) == 1
        assert expanded[0] <= 1 << 18
        expanded.clear()
        decode(array.type, image, pieces, [(0, len(array))])
        assert len(expanded) > 4

    def test_no_pieces(self) -> None:
        nothing = Pieces(np.empty(0, np.int64), np.empty(0, np.int64))
        assert decode(pa.string(), np.empty(0, np.uint8), nothing, []).to_pylist() == []

    def test_more_than_32_bit_offsets_can_say(self) -> None:
        rows = 2100
        array = pa.array(["x" * (1 << 20)]).take(pa.array(np.zeros(rows // 100, np.int64)))
        image, pieces = encode(array, [0, len(array)])
        many = Pieces(np.repeat(pieces.offsets, 100), np.repeat(pieces.lengths, 100))
        with pytest.raises(TextOverflowError, match=r"2100 rows hold 2202009600 bytes.*read fewer rows"):
            decode(pa.string(), image, many, [(0, rows // 100)] * 100)
        few = Pieces(many.offsets[:1], many.lengths[:1])
        assert decode(pa.string(), image, few, [(0, rows // 100)]).equals(array)


class TestBytes:
    def test_pieces_do_not_depend_on_what_was_in_memory(self, mixed: tuple[pa.Array, list[int]]) -> None:
        array, cuts = mixed
        images = []
        for fill in (0, 255):
            arena = Arena(1 << 20)
            arena.data[:] = fill
            pieces = encode_text(array, np.array(cuts, np.int64), arena)
            images.append(
                [
                    arena.data[offset : offset + length].tobytes()
                    for offset, length in zip(pieces.offsets, pieces.lengths, strict=True)
                ]
            )
            encode_text(array.slice(0, 3000), np.array([0, 3000], np.int64), arena)  # leaves other scratch behind
        assert images[0] == images[1]

    @pytest.mark.parametrize("level", [0, 1])
    def test_layout_is_the_documented_one(self, mixed: tuple[pa.Array, list[int]], level: int) -> None:
        array, cuts = mixed
        image, pieces = encode(array, cuts, level)
        for block, (first, last) in enumerate(pairwise(cuts)):
            start, length = int(pieces.offsets[block]), int(pieces.lengths[block])
            found = read_by_the_book(image[start : start + length].tobytes())
            expected = array.slice(first, last - first).to_pylist()
            assert found == [None if value is None else value.encode() for value in expected]

    def test_threads_do_not_disturb_each_other(self, mixed: tuple[pa.Array, list[int]]) -> None:
        array, cuts = mixed
        other = pa.array([f"{value}!" for value in reversed(array.to_pylist())])
        failures: list[BaseException] = []

        def work(array: pa.Array) -> None:
            try:
                for _ in range(4):
                    image, pieces = encode(array, cuts)
                    ranges = [(0, last - first) for first, last in pairwise(cuts)]
                    assert decode(array.type, image, pieces, ranges).equals(array)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(each,)) for each in (array, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures


MULTIPLIER = 0x9E3779B97F4A7C15
WORD = (1 << 64) - 1


def digest(value: bytes) -> int:
    """The hash the encoder uses for values of more than eight bytes."""
    word = len(value)
    for at in range(0, len(value) - 8, 8):
        word = (word ^ int.from_bytes(value[at : at + 8], "little")) * MULTIPLIER & WORD
        word ^= word >> 29
    return (word ^ int.from_bytes(value[-8:], "little")) * MULTIPLIER & WORD


def hashing_alike(first: int) -> bytes:
    """Sixteen bytes, different for every ``first``, that all have one hash."""
    word = (16 ^ first) * MULTIPLIER & WORD
    last = (word ^ word >> 29) ^ 0x1234567890ABCDEF
    return first.to_bytes(8, "little") + last.to_bytes(8, "little")


def read_by_the_book(piece: bytes) -> list[bytes | None]:
    """A reader of one piece that follows the documentation of the format, value by value."""
    encoding, validity, parameter, rows, validity_bytes, body = struct.unpack_from("<BBHIII", piece)
    if validity == ValidityKind.ALL_NULL:
        return [None] * rows
    bits = piece[16 : 16 + validity_bytes]
    if validity == ValidityKind.BITMAP_LZ4:
        bits = pa.Codec("lz4_raw").decompress(bits, -(-rows // 8), asbytes=True)
    valid = [validity == ValidityKind.NO_NULLS or bool(bits[row // 8] >> row % 8 & 1) for row in range(rows)]
    if encoding == PLAIN:
        return plain_by_the_book(piece, body, rows, parameter, valid)
    entries, size, stored, method, index_bytes, sizes_bytes = struct.unpack_from("<6I", piece, body)
    indexes_at = body + 24
    sizes_at = indexes_at + up(index_bytes)
    values_at = sizes_at + up(sizes_bytes)
    assert len(piece) == values_at + up(stored)
    values = expanded(piece[values_at : values_at + stored], size, method)
    if encoding == CONSTANT:
        assert (entries, index_bytes, sizes_bytes) == (1, 0, 0)
        return [values if here else None for here in valid]
    distinct, at = [], 0
    for length in integers(piece, sizes_at, sizes_bytes, entries):
        distinct.append(values[at : at + length])
        at += length
    assert at == size
    assert len(set(distinct)) == entries
    indexes = integers(piece, indexes_at, index_bytes, rows)
    return [distinct[index] if here else None for index, here in zip(indexes, valid, strict=True)]


def plain_by_the_book(piece: bytes, body: int, rows: int, per_segment: int, valid: list[bool]) -> list[bytes | None]:
    stream_bytes, method = struct.unpack_from("<II", piece, body)
    vectors = -(-rows // 1024)
    segments = -(-vectors // per_segment)
    vector_bytes = struct.unpack_from(f"<{vectors}I", piece, body + 8)
    stored_bytes = struct.unpack_from(f"<{segments}I", piece, body + 8 + 4 * vectors)
    stream_at = body + up(8 + 4 * (vectors + segments))
    at = stream_at + up(stream_bytes)
    text = b""
    for segment, stored in enumerate(stored_bytes):
        size = sum(vector_bytes[segment * per_segment : (segment + 1) * per_segment])
        text += expanded(piece[at : at + stored], size, method)
        at += up(stored)
    assert at == len(piece)
    result: list[bytes | None] = []
    at = 0
    for length, here in zip(integers(piece, stream_at, stream_bytes, rows), valid, strict=True):
        result.append(text[at : at + length] if here else None)
        at += length if here else 0
    assert at == len(text) == sum(vector_bytes)
    return result


def up(size: int) -> int:
    return -(-size // 8) * 8


def expanded(stored: bytes, size: int, method: int) -> bytes:
    if len(stored) == size:
        return stored
    codec = pa.Codec({1: "lz4_raw", 2: "zstd"}[method])
    text: bytes = codec.decompress(stored, size, asbytes=True)
    return text


def integers(piece: bytes, at: int, size: int, count: int) -> list[int]:
    out = np.empty(count, np.int64)
    one = [np.array([value], np.int64) for value in (at, size, 0, count)]
    decode_integers(np.frombuffer(piece, np.uint8), *one, out)
    return list(map(int, out))


@pytest.mark.parametrize("seed", range(6))
def test_values_of_blocks_are_listed_as_they_come(seed: int) -> None:
    """Dictionaries that are not united have the same values, block by block."""
    rng = np.random.default_rng(seed)
    blocks = [
        [None if rng.random() < 0.1 * seed else f"value {int(rng.integers(distinct))} é" for _ in range(3000)]
        for distinct in (1, 5, 40)
    ]
    blocks.append([None] * 3000)
    array = pa.array([value for block in blocks for value in block], pa.string())
    pieces = encode_text(array, np.arange(5) * 3000, arena := Arena())
    starts = np.array([0, 1024, 0, 2048])
    stops = np.array([3000, 3000, 2048, 3000])
    found = decode_coded_text(arena.data, pieces.offsets, pieces.lengths, starts, stops, united=False)
    expected = [blocks[b][row] for b in range(4) for row in range(starts[b], stops[b])]
    assert pa.types.is_dictionary(found.type)
    assert found.to_pylist() == expected
    assert set(found.dictionary.to_pylist()) <= {value for block in blocks for value in block}


def test_values_that_are_not_looked_up_have_numbers_of_their_own() -> None:
    """Of many values in no order only some are looked up, unless each is to be in the dictionary once."""
    rng = np.random.default_rng(7)
    known = [f"a value that is long enough {k}" for k in range(700)]
    blocks = [[known[k] for k in [*rng.permutation(700), *rng.integers(0, 700, 2300)]] for _ in range(4)]
    array = pa.array([value for block in blocks for value in block], pa.string())
    pieces = encode_text(array, np.arange(5) * 3000, arena := Arena())
    bounds = np.zeros(4, np.int64), np.full(4, 3000, np.int64)
    found = decode_coded_text(arena.data, pieces.offsets, pieces.lengths, *bounds, united=False)
    assert found.to_pylist() == array.to_pylist()
    assert 700 < len(found.dictionary) < 4 * 700
    united = decode_coded_text(arena.data, pieces.offsets, pieces.lengths, *bounds)
    assert united.to_pylist() == array.to_pylist()
    assert len(united.dictionary) == 700
