"""Text by templates: what is taken for a slot, that every value comes back, and that no damage does harm."""

from __future__ import annotations

import random
import re
import struct
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.format.pieces import Seen, Type
from support.format.pieces import decode as decode_by_the_book
from support.profiles import scaled
from support.storage.guarded_memory import GuardedMemory
from tidelog.model.errors import CorruptionError
from tidelog.storage.codec.arena import Arena, Pieces
from tidelog.storage.codec.encodings import VECTOR, Encoding
from tidelog.storage.codec.numeric import encode_integers
from tidelog.storage.codec.piece import body_offset, write_head
from tidelog.storage.codec.text import decode_text, encode_text
from tidelog.storage.codec.text.compression import Compressor
from tidelog.storage.codec.text.template.encoder import Text, find_templates
from tidelog.storage.codec.validity import encode_validity, valid_bits

TYPES = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]
MEMORY = GuardedMemory(1 << 20)


def text_of(array: pa.Array) -> Text:
    """The memory of an array, its data ending where no byte may be read."""
    _, places, content = array.buffers()
    wide = array.type in (pa.large_string(), pa.large_binary())
    item = np.dtype("<i8" if wide else "<i4")
    offsets = np.frombuffer(places, item, len(array) + 1, array.offset * item.itemsize).astype(np.int64)
    data = MEMORY.at_end(b"" if content is None else content.to_pybytes())
    mask = valid_bits(array) if array.null_count else np.empty(0, np.uint8)
    sizes = np.diff(offsets)
    return Text(data, offsets, mask, int(sizes[mask != 0].sum() if len(mask) else sizes.sum()))


def encode_by_templates(array: pa.Array, level: int = 1) -> bytes | None:
    """The piece of an array encoded by templates whether that pays or not; None if it cannot be."""
    found = find_templates(text_of(array), allowance=len(array))
    if found is None:
        return None
    parts = [bytes(part) for part in found.body(Compressor(level))]
    kind, bits = encode_validity(array, np.array([0, len(array)])).of_block(0)
    piece = np.zeros(body_offset(len(bits)), np.uint8)
    write_head(piece, Encoding.TEXT_TEMPLATE, 0, len(array), kind, bits)
    return piece.tobytes() + b"".join(padded(part) for part in parts)


def padded(part: bytes) -> bytes:
    return part + bytes(-len(part) % 8)


def decode(piece: bytes, type: pa.DataType, start: int, stop: int) -> pa.Array:
    """Decode a piece that ends where no byte may be read."""
    buffer = MEMORY.at_end(b"\xa5" * 64 + piece)
    array = decode_text(type, buffer, *(np.array([number]) for number in (64, len(piece), start, stop)))
    array.validate(full=True)
    return array


def round_trip(array: pa.Array, level: int = 1) -> Seen:
    """Encode by templates, decode with both readers and compare; returns what occurred."""
    piece = encode_by_templates(array, level)
    assert piece is not None
    seen = Seen()
    expected = [value.encode() if isinstance(value, str) else value for value in array.to_pylist()]
    assert decode_by_the_book(piece, Type(str(array.type)), seen) == expected
    found = decode(piece, array.type, 0, len(array))
    assert found.equals(array)
    return seen


def slots(*values: str) -> set[int]:
    """Kinds of the slots of values, each of them repeated so that slots that never change are seen."""
    return {
        int(feature[5:]) for feature in round_trip(pa.array(values)).features if re.fullmatch("slot [2-6]", feature)
    }


DECIMAL, DIGITS, LOWER, UPPER, WORD = 2, 3, 4, 5, 6

tokens = st.one_of(
    st.integers(0, 300).map(str),
    st.from_regex("[0-9]{1,21}", fullmatch=True),
    st.from_regex("[0-9a-f]{1,40}", fullmatch=True),
    st.from_regex("[0-9A-F]{1,18}", fullmatch=True),
    st.from_regex("[a-zA-Z]{1,3}[0-9]{1,4}[a-z]{0,2}", fullmatch=True),
    st.from_regex("[0-9A-Za-z]{1,130}", fullmatch=True),
    st.text(max_size=10),
    st.sampled_from(["", "0", "00", "feed", "FEED", "Feed", "beef1", "\0", "ÿ", "é1é", "18446744073709551615"]),
)
lines = st.lists(tokens, max_size=6).flatmap(
    lambda parts: st.sampled_from(["", " ", "-", ".", "=", "é", "x"]).map(lambda between: between.join(parts))
)


def filled(template: str, dice: random.Random) -> str:
    """The template with something else in the place of every digit."""
    return re.sub("[0-9]", lambda _: str(dice.randint(0, 9)), template)


class TestRoundTrip:
    @given(st.data())
    @settings(max_examples=scaled(250))
    def test_any_lines(self, data: st.DataObject) -> None:
        type = data.draw(st.sampled_from([pa.string(), pa.large_string()]))
        values: list[str | None] = data.draw(st.lists(lines | st.none(), min_size=1, max_size=30))
        dice = random.Random(data.draw(st.integers(0, 1000)))
        values += [value and filled(value, dice) for value in values for _ in range(2)]
        array = pa.array(values, type)
        if encode_by_templates(array) is None:
            assert not any(values)
        else:
            round_trip(array, data.draw(st.sampled_from([0, 1])))

    @given(st.lists(st.binary(max_size=40), min_size=1, max_size=20), st.sampled_from([pa.binary(), pa.large_binary()]))
    def test_any_bytes(self, values: list[bytes], type: pa.DataType) -> None:
        array = pa.array([*values, *(value + b" 17" for value in values)], type)
        if any(b"\xff" in value for value in values):
            assert encode_by_templates(array) is None
        else:
            round_trip(array)

    @pytest.mark.parametrize("size", range(1, 40))
    def test_numbers_of_every_length(self, size: int) -> None:
        dice = random.Random(size)
        for alphabet in ("0123456789", "0123456789abcdef", "0123456789ABCDEF", "09", "0f", "123456789abcdefABCDEFxyz"):
            strings = ["".join(dice.choices(alphabet, k=size)) for _ in range(40)]
            for value in (strings, [f"a {text}" for text in strings], [f"-{text}: {text[::-1]} " for text in strings]):
                round_trip(pa.array(value))

    @pytest.mark.parametrize("power", range(1, 20))
    def test_numbers_around_powers_of_ten(self, power: int) -> None:
        values = [10**power + step for step in (-2, -1, 0, 1)]
        round_trip(pa.array([f"n={value};" for value in values]))
        round_trip(pa.array([f"n={value:0{power + 3}};" for value in values]))
        round_trip(pa.array([f"n={value};" for value in values for _ in range(200)]))

    @pytest.mark.parametrize("size", [50, 55, 56, 57, 63, 64, 65, 111, 112, 113, 128, 200, 1000])
    def test_long_tokens(self, size: int) -> None:
        dice = random.Random(size)
        for alphabet in ("0123456789", "0123456789abcdef", "abcdef", "g", "abcdefghijklmnopqrstuvwxyz0123456789"):
            values = ["<" + "".join(dice.choices(alphabet, k=size)) + ">" for _ in range(20)]
            round_trip(pa.array(values))
            round_trip(pa.array([value + "17" for value in values]))

    @pytest.mark.parametrize("size", [15, 16, 17, 31, 32, 33, 63, 64, 65, 254, 255, 256, 257, 510, 511, 1000, 8000])
    def test_long_constants(self, size: int) -> None:
        text = ("lorem ipsum dolor sit amet, " * (size // 28 + 1))[:size]
        values = [shape.format(text, row) for row in range(30) for shape in ("{0}{1}", "{1}{0}", "{1} {0} {1}")]
        round_trip(pa.array(values))

    def test_lines_at_the_edges_of_words_of_64_characters(self) -> None:
        for before in range(48, 80):
            for token in ("7", "1234567", "deadbeef", "12ab34", "ab12", "x1", "1x", "a1z2y3x4w5", "feedfeed", "9" * 20):
                values = ["." * before + filled(token, random.Random(row)) + " end" for row in range(4)]
                round_trip(pa.array(values))

    def test_neighbouring_rows_do_not_touch(self) -> None:
        round_trip(pa.array(["12", "34ab", "cd", "ef", "ab", "cdef", "", "5", "6", "feed", "beef", "g7", "8g"] * 9))
        round_trip(pa.array(["a" * 64, "1" * 64, "b" * 64, "2" * 63, "c" * 65, "3" * 65] * 3))

    def test_text_that_looks_like_the_image_of_a_template(self) -> None:
        assert encode_by_templates(pa.array([b"a\xffb", b"a1b ", b"a2b "], pa.binary())) is None
        assert encode_by_templates(pa.array([b"=1=", b"=\xff=", b"=2="], pa.binary())) is None
        round_trip(pa.array(["a\x00b", "a1b", "\x01", "a2b", "{}", "<1>", "\u00ff 1"]))

    def test_hashes_alone_do_not_tell_templates_apart(self) -> None:
        values = []
        for number in range(4000):
            first = (b"%07d " % number).translate(bytes.maketrans(b"0123456789", b"ghijklmnop"))
            value = first + second_word(first)
            if not re.search(rb"[0-9\xff]|[a-fA-F]{4}", value):
                values.append(value)
        assert len({digest(value) for value in values}) == 1
        assert len(values) > 100
        round_trip(pa.array(values * 2, pa.binary()))

    def test_nulls_have_no_bits(self) -> None:
        lines = [f"request {row} of {row * row}" for row in range(3000)]
        for null in (lambda row: row == 0, lambda row: row % 3 == 1, lambda row: row // 700 % 2, lambda row: row != 5):
            round_trip(pa.array([None if null(row) else line for row, line in enumerate(lines)]))
        few = encode_by_templates(pa.array([line if row % 10 == 0 else None for row, line in enumerate(lines)]))
        all_of_them = encode_by_templates(pa.array(lines))
        assert few is not None
        assert all_of_them is not None
        assert 5 * len(few) < len(all_of_them)

    def test_bytes_of_null_slots_are_left_behind(self) -> None:
        rows = 2100
        words = [b"SECRET 17" if row % 2 else b"line %d" % row for row in range(rows)]
        ends = np.cumsum([0, *map(len, words)]).astype(np.int32)
        valid = np.packbits(np.arange(rows) % 2 == 0, bitorder="little")
        buffers = [pa.py_buffer(valid), pa.py_buffer(ends), pa.py_buffer(b"".join(words))]
        array = pa.Array.from_buffers(pa.string(), rows, buffers).slice(3)
        piece = encode_by_templates(array)
        assert piece is not None
        assert b"SECRET" not in piece
        assert decode(piece, pa.string(), 0, len(array)).to_pylist() == array.to_pylist()

    def test_pieces_do_not_depend_on_what_was_in_memory(self) -> None:
        dice = random.Random(3)
        array = pa.array(
            [f"{dice.random()} {dice.getrandbits(70):x} {dice.getrandbits(9)}t1t1t1t1" for _ in range(3000)]
        )
        first = encode_by_templates(array)
        encode_by_templates(pa.array([f"{row:x}0 something else {row}" for row in range(5000)]))
        assert encode_by_templates(array) == first


MULTIPLIER = 0x9E3779B97F4A7C15
WORD_MASK = (1 << 64) - 1


def lane(state: int, word: bytes) -> int:
    state = (state ^ int.from_bytes(word, "little")) * MULTIPLIER & WORD_MASK
    return state ^ state >> 29


def digest(image: bytes) -> int:
    """The hash of images of sixteen bytes."""
    one, other = lane(16, image[:8]), lane(MULTIPLIER, image[8:])
    return one ^ (other << 32 & WORD_MASK | other >> 32)


def second_word(first: bytes) -> bytes:
    """What behind ``first`` gives the same hash for every ``first``: the second lane makes up for the first."""
    other = lane(16, first) ^ 0x0123456789ABCDEF
    other = other << 32 & WORD_MASK | other >> 32
    other ^= other >> 29 ^ other >> 58
    return (other * pow(MULTIPLIER, -1, 1 << 64) & WORD_MASK ^ MULTIPLIER).to_bytes(8, "little")


class TestSlots:
    def test_kinds(self) -> None:
        assert slots("took 1ms", "took 22ms") == {DECIMAL}
        assert slots("at 1.05", "at 1.5") == {DIGITS}
        assert slots("id 00ab", "id 17cd") == {LOWER}
        assert slots("id 00AB", "id 17CD") == {UPPER}
        assert slots("id 1a", "id 1ab") == {WORD}
        assert slots("id 1a", "id 1A") == {WORD}
        assert slots("q1w2e3r4t", "q2w2e3r4t") == {WORD}
        assert slots("01T12", "02T13") == {DIGITS, DECIMAL}
        assert slots("user17", "user18") == {DECIMAL}

    def test_what_never_changes_is_no_slot(self) -> None:
        assert slots("HTTP/1.1 200", "HTTP/1.1 304") == {DECIMAL}
        assert slots("app.4f1c2e.js", "app.4f1c2e.js") == set()
        assert slots("0x1F", "0x1F") == set()

    def test_words_of_hexadecimal_letters_are_slots(self) -> None:
        assert slots("id dead", "id beef") == {LOWER}
        assert slots("id abc", "id abd") == set()
        assert slots("id gate", "id face") == set()

    def test_leading_zeros_of_hexadecimal_numbers_take_no_space(self) -> None:
        short = encode_by_templates(pa.array([f"{row:04x}." for row in range(1000, 3000)]))
        long = encode_by_templates(pa.array([f"{row:016x}." for row in range(1000, 3000)]))
        assert short is not None
        assert long is not None
        assert len(long) == len(short)


class TestChoice:
    @staticmethod
    def encodings(values: list[str], cuts: list[int] | None = None) -> list[Encoding]:
        array, arena = pa.array(values), Arena()
        cuts = cuts or [0, len(values)]
        pieces = encode_text(array, np.array(cuts), arena)
        stops = np.diff(cuts)
        assert decode_text(array.type, arena.data, pieces.offsets, pieces.lengths, np.zeros_like(stops), stops).equals(
            array
        )
        return [Encoding(int(arena.data[offset])) for offset in pieces.offsets]

    def test_identifiers_alone_are_compressed_nearly_as_well(self) -> None:
        dice = random.Random(1)
        values = [f"{dice.getrandbits(32):08x}-{dice.getrandbits(48):012x}" for _ in range(4096)]
        assert self.encodings(values) == [Encoding.TEXT_PLAIN]

    def test_log_lines(self) -> None:
        dice = random.Random(1)
        lines = [f"{dice.choice(['GET', 'PUT'])} /{row} took {dice.randint(1, 999)}ms" for row in range(4096)]
        assert self.encodings(lines, [0, 1000, 4096]) == [Encoding.TEXT_TEMPLATE] * 2

    def test_prose(self) -> None:
        dice = random.Random(1)
        words = ["".join(dice.choices("etaoinshrdlu", k=dice.randint(1, 9))) for _ in range(500)]
        assert self.encodings([" ".join(dice.choices(words, k=8)) for _ in range(4096)]) == [Encoding.TEXT_PLAIN]

    def test_numbers_that_repeat_are_better_compressed(self) -> None:
        dice = random.Random(1)
        numbers = [f"{dice.getrandbits(250):063x}" for _ in range(20)]
        values = [f"{row} {' '.join(dice.choices(numbers, k=4))}" for row in range(4096)]
        assert self.encodings(values) == [Encoding.TEXT_PLAIN]

    def test_few_bytes_are_not_worth_it(self) -> None:
        assert self.encodings([f"line {row}" for row in range(100)]) == [Encoding.TEXT_PLAIN]

    def test_too_many_slots(self) -> None:
        many = " ".join(str(number) for number in range(5000))
        values = [f"{many} {row}" for row in range(30)]
        assert find_templates(text_of(pa.array(values)), allowance=30) is None
        assert self.encodings(values) == [Encoding.TEXT_PLAIN]


@pytest.fixture(scope="module")
def mixed() -> tuple[pa.Array, list[int], np.ndarray, Pieces]:
    """Pieces of all encodings of text, templates between the others, and the array they come from."""
    dice = random.Random(8)
    shapes = {
        Encoding.TEXT_TEMPLATE: lambda row: (
            f"{row} and {dice.random():.5f} by {dice.getrandbits(64):016X}" + "!" * (row % 40)
        ),
        Encoding.TEXT_DICTIONARY: lambda row: f"value {row % 13}",
        Encoding.TEXT_CONSTANT: lambda row: "constant",
        Encoding.TEXT_PLAIN: lambda row: "".join(dice.choices("ghijklmnop", k=20)),
    }
    t, d, c, p = shapes
    order = [t, t, d, t, c, t, p, t, p, d, t]
    values: list[str | None] = []
    cuts = [0]
    for number, encoding in enumerate(order):
        values += [
            None if number % 2 and row % 5 == 3 else shapes[encoding](row) for row in range(1500 + 600 * (number % 3))
        ]
        cuts.append(len(values))
    array, arena = pa.array(values), Arena()
    pieces = encode_text(array, np.array(cuts), arena)
    assert [Encoding(int(arena.data[offset])) for offset in pieces.offsets] == order
    return array, cuts, arena.data[: arena.used].copy(), pieces


class TestPartialReads:
    def test_all_ranges_of_vectors(self) -> None:
        dice = random.Random(5)
        array = pa.array([f"{row} {dice.getrandbits(dice.randint(1, 60))}" for row in range(4 * VECTOR + 100)])
        piece = encode_by_templates(array)
        assert piece is not None
        edges = [*range(0, len(array), VECTOR), len(array)]
        for start in edges[:-1]:
            for stop in [edge for edge in edges if edge >= start]:
                assert decode(piece, array.type, start, stop).equals(array.slice(start, stop - start))

    @pytest.mark.parametrize("type", TYPES, ids=str)
    def test_pieces_of_all_kinds_in_one_call(
        self, mixed: tuple[pa.Array, list[int], np.ndarray, Pieces], type: pa.DataType
    ) -> None:
        array, cuts, image, pieces = mixed
        array = array.cast(type)
        dice = random.Random(6)
        for _ in range(12):
            ranges, expected = [], []
            for first, last in pairwise(cuts):
                edges = [*range(0, last - first, VECTOR), last - first]
                start, stop = sorted(dice.choices(edges, k=2))
                start -= start % VECTOR
                ranges.append((start, stop))
                expected.append(array.slice(first + start, stop - start))
            starts, stops = np.array(ranges).T
            found = decode_text(type, image, pieces.offsets, pieces.lengths, starts, stops)
            found.validate(full=True)
            assert found.equals(pa.concat_arrays(expected))

    def test_other_vectors_may_be_damaged(self) -> None:
        array = pa.array([f"{row} {row * 7919 % 100_003}" for row in range(3 * VECTOR)])
        piece = bytearray(encode_by_templates(array) or b"")
        (size,) = struct.unpack_from("<I", piece, 16 + 32 + 4)
        at = len(piece) - 16 - 3 * size + size // 2
        piece[at : at + 64] = bytes(64)
        assert decode(bytes(piece), array.type, 2 * VECTOR, 3 * VECTOR).equals(array.slice(2 * VECTOR))


def stream(numbers: list[int]) -> bytes:
    arena = Arena()
    pieces = encode_integers(np.array(numbers, np.int64), np.array([0, len(numbers)], np.int64), arena)
    return padded(arena.data[: int(pieces.lengths[0])].tobytes())


class Table:
    """A table of templates in the making."""

    def __init__(self) -> None:
        self.operations = bytearray()
        self.bases: list[int] = []
        self.constants = b""
        self.words: list[bytes] = []

    def add(self, constant: bytes, kind: int = 0, width: int = 0, base: int | None = None, length: int = -1) -> Table:
        self.constants += constant
        self.operations += bytes([len(constant) if length < 0 else length, kind if base is None else kind | 8, width])
        self.bases += [] if base is None else [base]
        return self

    def piece(self, templates: list[int], text: int, content: bytes, **head: int) -> bytes:
        """A piece of one vector; ``head`` replaces what it says about its table."""
        table = bytes(self.operations) + struct.pack(f"<{len(self.bases)}Q", *self.bases)
        table += bytes(map(len, self.words)) + self.constants + b"".join(self.words)
        fields = {
            "operations": len(self.operations) // 3,
            "bases": len(self.bases),
            "constants": len(self.constants),
            "words": len(self.words),
            "word_bytes": sum(map(len, self.words)),
            "stored": len(table),
            "compression": 1,
            "stream": len(stream(templates)),
            "text": text,
            "values": len(padded(content)),
        } | head
        parts = [struct.pack("<10I", *fields.values()), stream(templates), padded(table), padded(content), bytes(16)]
        return struct.pack("<BBHIII", Encoding.TEXT_TEMPLATE, 0, 0, len(templates), 0, 16) + b"".join(parts)


def decode_bytes(piece: bytes, rows: int) -> list[bytes]:
    values: list[bytes] = decode(piece, pa.large_binary(), 0, rows).to_pylist()
    return values


class TestHandmadePieces:
    def test_every_kind(self) -> None:
        table = Table().add(b"a", 2, 8).add(b"", 3, 8, base=100).add(b"-", 4 | 3 << 4, 16).add(b"", 5 | 15 << 4, 64)
        table.add(b"long " * 10, 1).add(b"", 6, 1).add(b"z").add(b"second")
        table.words = [b"one", b"two"]
        bits = 17 | (10 << 8) | (0xBEE << 16) | (0xFEEDFEEDFEEDFEED << 32) | (1 << 96)
        expected = b"a17000-0beeFEEDFEEDFEEDFEED" + b"long " * 10 + b"twoz"
        piece = table.piece([0, 1], len(expected) + 6, bits.to_bytes(13, "little"))
        assert decode_bytes(piece, 2) == [expected, b"second"]
        assert decode_by_the_book(piece, Type("binary"), Seen()) == [expected, b"second"]

    @pytest.mark.parametrize("change", ["operations", "bases", "constants", "words", "word_bytes"])
    @pytest.mark.parametrize("step", [-1, 1, 1 << 20, (1 << 32) - 3])
    def test_sizes_of_the_table(self, change: str, step: int) -> None:
        table = Table().add(b"abc", 2, 8, base=7).add(b"def", 6, 1).add(b"")
        table.words = [b"one", b"two"]
        sizes = {"operations": 3, "bases": 1, "constants": 6, "words": 2, "word_bytes": 6}
        with pytest.raises(CorruptionError):
            decode_bytes(table.piece([0], 10, bytes(2), **{change: (sizes[change] + step) % (1 << 32)}), 1)

    @pytest.mark.parametrize(
        "table",
        [
            Table().add(b"no end", 1),
            Table().add(b"unknown", 7, 1).add(b""),
            Table().add(b"wide", 2, 58).add(b""),
            Table().add(b"wide", 6, 64).add(b""),
            Table().add(b"wide", 4, 65).add(b""),
            Table().add(b"long", 2, 8, length=200).add(b""),
            Table().add(b"long", length=5),
            Table().add(b"short", length=4),
            Table().add(b"no base", 2 | 8, 8).add(b""),
        ],
        ids=lambda table: table.constants.decode(),
    )
    def test_tables_that_contradict_themselves(self, table: Table) -> None:
        with pytest.raises(CorruptionError, match=r"the table of text piece 0, of .* contradicts itself"):
            decode_bytes(table.piece([0], 1, bytes(64)), 1)

    @pytest.mark.parametrize(
        ("template", "text", "values", "message"),
        [
            (2, 5, 8, "a template that does not exist"),
            (-1, 5, 8, "a template that does not exist"),
            (1 << 40, 5, 8, "a template that does not exist"),
            (0, 5, 0, "more bits than the vector"),
            (0, 4, 8, "other bytes than its directory says"),
            (0, 6, 8, "other bytes than its directory says"),
            (0, 0, 8, "other bytes than its directory says"),
            (1, 5, 8, "a word that does not exist"),
        ],
    )
    def test_rows_that_contradict_the_rest(self, template: int, text: int, values: int, message: str) -> None:
        table = Table().add(b"row ", 2, 8).add(b"").add(b"word", 6, 3, base=1).add(b"")
        table.words = [b"!"]
        with pytest.raises(CorruptionError, match=message):
            decode_bytes(table.piece([template], text, bytes(values)), 1)

    def test_too_much_text(self) -> None:
        with pytest.raises(CorruptionError, match="names parts that do not fit"):
            decode_bytes(Table().add(b"a").piece([0], 1 << 25, b""), 1)

    def test_values_behind_the_end(self) -> None:
        with pytest.raises(CorruptionError, match="names parts that do not fit"):
            decode_bytes(Table().add(b"a", 2, 8).add(b"").piece([0], 2, bytes(8), values=16), 1)

    @given(st.data())
    @settings(max_examples=scaled(300))
    def test_any_table_and_any_bits(self, data: st.DataObject) -> None:
        table = Table()
        table.words = data.draw(st.lists(st.binary(max_size=255), max_size=5))
        numbers = st.sampled_from([0, 1, 990, 10**8 - 1, 10**16, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1)
        count = data.draw(st.integers(1, 4))
        for _ in range(count):
            for _ in range(data.draw(st.integers(0, 5))):
                kind = data.draw(st.integers(1, 6))
                width = data.draw(st.integers(0, 64 if kind in (4, 5) else 57))
                base = data.draw(st.none() | numbers)
                constant = data.draw(st.binary(max_size=8)) * data.draw(st.sampled_from([1, 1, 31]))
                table.add(constant, kind | data.draw(st.integers(0, 15)) << 4, width, base)
            table.add(data.draw(st.binary(max_size=40)))
        templates = data.draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=20))
        values = data.draw(st.binary(max_size=200))
        text = data.draw(st.integers(0, 2000))
        try:
            found = decode_bytes(table.piece(templates, text, values), len(templates))
        except CorruptionError:
            return
        assert sum(map(len, found)) == text
