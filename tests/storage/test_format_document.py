"""docs/format.md is complete: a reader written from it alone finds in files what was written to them."""

from __future__ import annotations

import math
import random
import re
import struct
from dataclasses import dataclass, field
from itertools import cycle
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from support.documents.markdown import ROOT
from support.format.pieces import Seen, Type, decode
from support.format.reader import FormatReader, Leaf, Summary, read_journal
from support.format.samples import FLOATS, INTEGERS, NULLS, SCHEMA, TEXTS, Sample, Value, sample
from support.format.units import DATA, MOVED, STRIDE, commit_record, macro_block
from support.media.recording import RecordingMedium
from support.storage.containers import NAME, TINY, History
from tidelog.storage import Container, Medium, Options
from tidelog.storage.codec.arena import Arena
from tidelog.storage.codec.text import encode_text
from tidelog.storage.journal.journal import Journal

SMALL = Options(leaf_rows=4096, run_rows=8192, macro_size=32768, fanout=3, commit_every=1 << 30)
"""Leaves of several vectors that span macro blocks, under address pages of three levels."""

NOTES = {"note": "é" * 1000}
"""So long that the description does not end in its first stride."""


def content(medium: Medium, name: str = NAME) -> bytes:
    with medium.open(name) as file:
        return bytes(file.read(0, file.size()))


def encodings_in_the_page() -> set[int]:
    """The numbers in the table of encodings."""
    pieces = (ROOT / "docs" / "format.md").read_text().split("| number | encoding | of |")[1].split("\n\n")[0]
    return {int(number) for number in re.findall(r"^\| (\d+) \|", pieces, re.MULTILINE)}


@dataclass
class Written:
    """A container file, what it must contain, and how it was read."""

    reader: FormatReader
    blocks: list[Sample | bytes]
    found: list[Leaf | bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.found = self.reader.blocks()


@pytest.fixture(scope="module")
def written() -> Written:
    """Every type in every shape with every pattern of nulls; nodes; updates of both, before and behind flushes."""
    dice = random.Random(21)
    shapes = [*zip(INTEGERS, cycle(FLOATS), cycle(TEXTS), strict=False)]
    blocks: list[Sample | bytes] = [sample(dice, 1030, *shape, "none") for shape in shapes]
    blocks += [sample(dice, 1100, *shape, nulls) for shape, nulls in zip(shapes[3:], NULLS, strict=False)]
    blocks += [
        sample(dice, 2100, "random", "uniform", "long", "few"),
        sample(dice, 2100, "short runs", "runs", "empty", "none"),
        sample(dice, 1, "random", "huge", "long", "none"),
        sample(dice, 17, "small", "zeros", "few", "half"),
        b"",
        b"node " * 1000,
        dice.randbytes(3000),
    ]
    dice.shuffle(blocks)
    # Nodes and every fifth leaf start as something else; updates, some of them repeated, give them their content.
    late = {id: sample(dice, 40, "few", "cents", "short", "half") for id in range(1, len(blocks), 5)}
    medium = RecordingMedium()
    with Container.create(medium, NAME, SCHEMA, SMALL, NOTES) as container:
        for id, block in enumerate(blocks):
            first = late.get(id, block) if isinstance(block, Sample) else block[::-1]
            assert container.append(payload(first)) == id
            if id % 6 == 5:
                container.flush(meta=b"meta %d" % id)
            if id % 3 == 2:
                container.update(id - 2, payload(blocks[id - 2]))
        for id in late:
            container.update(id, payload(blocks[id]))
        for id, block in enumerate(blocks):
            if isinstance(block, bytes):
                container.update(id, block)
    return Written(FormatReader(content(medium)), blocks)


def payload(block: Sample | bytes) -> pa.RecordBatch | bytes:
    return block if isinstance(block, bytes) else block.batch


class TestContainer:
    def test_every_value_is_found(self, written: Written) -> None:
        assert len(written.found) == len(written.blocks)
        for id, (found, block) in enumerate(zip(written.found, written.blocks, strict=True)):
            if isinstance(block, bytes):
                assert found == block, f"node {id}"
                continue
            assert isinstance(found, Leaf)
            assert found.rows == len(block.batch)
            for name, values, expected in zip(SCHEMA.names, found.columns, block.columns, strict=True):
                assert values == expected, f"leaf {id}, column {name}"

    def test_every_summary_is_found(self, written: Written) -> None:
        for found, block in zip(written.found, written.blocks, strict=True):
            if isinstance(block, bytes):
                continue
            assert isinstance(found, Leaf)
            for type, summary, values in zip(SCHEMA.types, found.summaries, block.columns, strict=True):
                assert_summarises(summary, type, values)

    def test_every_encoding_of_the_page_occurred(self, written: Written) -> None:
        assert written.reader.seen.encodings == encodings_in_the_page() == {*range(8), *range(32, 36)}

    def test_every_feature_of_the_page_occurred(self, written: Written) -> None:
        expected = {
            *(f"validity {kind}" for kind in range(4)),
            *(f"order {order}" for order in range(4)),
            *(f"exceptions of {size}" for size in (1, 2, 4, 8)),
            *("wide reference", "factor", "stream 0", "stream 1", "patch bitmap", "listed patches"),
            *("text uncompressed", "text compression 2", "one segment", "several segments"),
            *(f"slot {kind}" for kind in range(7)),
            "slot with a base",
            *("node codec 0", "node codec 1", "whole frame", "frame in two parts", "frame in many parts"),
            *("chained relocations", "3 levels"),
            *(f"{type} as {encoding}" for type in ("float32", "float64") for encoding in (0, 2, 3, 4, 5, 7)),
            *(f"int64 as {encoding}" for encoding in (0, 1, 4, 5, 7)),
            *("bool as 1", "bool as 4", "int16 as 4", "int16 as 5", "decimal128 as 0", "decimal128 as 6"),
        }
        assert expected - written.reader.seen.features == set()

    def test_the_description_names_columns_and_notes(self, written: Written) -> None:
        description = written.reader.preface.description
        assert description["notes"] == NOTES
        assert written.reader.preface.units_at > 4 * STRIDE
        columns = description["columns"]
        assert [(column["name"], column["nullable"]) for column in columns] == [(name, True) for name in SCHEMA.names]
        for column, type in zip(columns, SCHEMA.types, strict=True):
            expected = {"type": str(type)}
            if pa.types.is_timestamp(type):
                expected = {"type": "timestamp", "unit": type.unit} | ({"zone": type.tz} if type.tz else {})
            elif pa.types.is_decimal(type):
                expected = {"type": "decimal128", "precision": type.precision, "scale": type.scale}
            elif pa.types.is_date(type):
                expected = {"type": f"date{type.bit_width}"}
            elif pa.types.is_floating(type):
                expected = {"type": f"float{type.bit_width}"}
            assert {key: value for key, value in column.items() if key not in ("name", "nullable")} == expected

    def test_units_fill_the_file_to_its_end(self, written: Written) -> None:
        units = written.reader.units()
        assert units[-1].end == len(written.reader.file)
        assert units[-1].kind == "commit record"
        assert {unit.kind for unit in units} == {"macro block", "address page", "commit record"}
        assert max(len(unit.data) for unit in units if unit.kind == "macro block") == SMALL.macro_size

    def test_the_commit_counts_rows_and_replaced_bytes(self, written: Written) -> None:
        leaves = [block for block in written.blocks if isinstance(block, Sample)]
        assert written.reader.commit.rows == sum(len(leaf.batch) for leaf in leaves)
        # Frames have unequal sizes, so what a commit says it replaced are really the images no longer reachable.
        images: dict[int, list[int]] = {}
        for unit in written.reader.units():
            if unit.kind == "macro block":
                for slot in macro_block(unit).slots:
                    if slot.kind in (DATA, MOVED):
                        images.setdefault(slot.id, []).append(struct.unpack_from("<I", slot.content, 16)[0])
        assert written.reader.commit.dead == sum(sum(lengths[:-1]) for lengths in images.values()) > 0


class TestOpening:
    def test_a_new_container_is_empty(self) -> None:
        medium = RecordingMedium()
        with Container.create(medium, NAME, SCHEMA, SMALL):
            reader = FormatReader(content(medium))
        assert (reader.commit.number, reader.blocks()) == (0, [])

    @pytest.mark.parametrize("seed", [1, 3])
    def test_every_commit_is_found_when_the_file_ends_behind_it(self, seed: int) -> None:
        medium = RecordingMedium()
        expected = History(medium, seed, TINY).run(60)
        file = content(medium)
        commits = [commit_record(unit) for unit in FormatReader(file).units() if unit.kind == "commit record"]
        ends = [commit.offset + STRIDE for commit in commits]
        features: set[str] = set()
        for commit, end, following in zip(commits, ends, [*ends[1:], len(file)], strict=True):
            # Without slots, and with half of what came before the next commit.
            reader = FormatReader(file[:4096] + bytes(8192) + file[12288 : end + (following - end) // 2])
            features |= reader.seen.features
            assert reader.commit == commit
            blocks = expected.at(SimpleNamespace(number=commit.number, next_id=commit.blocks))  # type: ignore[arg-type]
            for found, block in zip(reader.blocks(), blocks, strict=True):
                assert_equal(found, block)
        assert {"full page of level 1", "full page of level 2", "chained relocations"} <= features

    def test_slots_name_the_two_newest_commits(self) -> None:
        medium = RecordingMedium()
        History(medium, 2, TINY).run(40)
        reader = FormatReader(content(medium))
        records = [unit for unit in reader.units() if unit.kind == "commit record"][-2:]
        named = sorted(slot for slot in reader.preface.slots if slot is not None)
        assert named == [(commit_record(unit).number, unit.offset, unit.crc) for unit in records]


class TestPieces:
    def test_text_compressed_by_lz4(self) -> None:
        """Containers compress text by Zstandard; the other number of the page is for those who choose it."""
        plain = [f"{row} says {row * row}".translate(str.maketrans("0123456789", "ghijklmnop")) for row in range(1100)]
        few = [f"value {row % 300} " * 8 for row in range(1100)]
        for texts in (plain, few):
            arena, seen = Arena(), Seen()
            pieces = encode_text(pa.array(texts), np.array([0, len(texts)]), arena, level=0)
            piece = arena.data[int(pieces.offsets[0]) :][: int(pieces.lengths[0])].tobytes()
            assert decode(piece, Type("string"), seen) == [text.encode() for text in texts]
            assert "text compression 1" in seen.features


class TestJournal:
    def test_every_record_is_found(self) -> None:
        medium = RecordingMedium()
        dice = random.Random(5)
        payloads = [dice.randbytes(length) for length in (0, 1, 7, 8, 9, 5000, 16)]
        with Journal.create(medium, "journal") as journal:
            for payload in payloads[:4]:
                journal.append(payload)
        with Journal.open(medium, "journal") as journal:
            for payload in payloads[4:]:
                journal.append(payload)
        file = content(medium, "journal")
        assert read_journal(file) == payloads
        assert read_journal(bytes(32) + file[32:]) == payloads, "by the second header alone"
        assert read_journal(file[:-17]) == payloads[:-1], "with a record cut off"
        damaged = bytearray(file)
        damaged[file.index(payloads[5]) + 100] ^= 1
        assert read_journal(bytes(damaged)) == payloads[:5]


def assert_equal(found: Leaf | bytes, block: pa.RecordBatch | bytes) -> None:
    """A block of :class:`support.storage.containers.History` was read as it was written."""
    if isinstance(block, bytes):
        assert found == block
        return
    assert isinstance(found, Leaf)
    times, floats, texts = (column.to_pylist() for column in (block[0].cast(pa.int64()), block[1], block[2]))
    assert found.columns == [
        times,
        [None if value is None else int.from_bytes(struct.pack("<d", value), "little") for value in floats],
        [None if text is None else text.encode() for text in texts],
    ]


def assert_summarises(summary: Summary, type: pa.DataType, values: list[Value]) -> None:
    """What the page says about summaries, computed once more."""
    valid = [value for value in values if value is not None]
    assert summary.nulls == len(values) - len(valid)
    if pa.types.is_floating(type):
        assert_summarises_floats(summary, type, [value for value in valid if isinstance(value, int)])
        return
    assert summary.nans == 0
    texts = [value for value in valid if isinstance(value, bytes)]
    if texts:
        low, high = min(texts), max(texts)
        truncated = [bound != bound[:8].rstrip(b"\0") for bound in (low, high)]
        assert summary.flags == 1 | 8 * truncated[0] | 16 * truncated[1]
        assert (summary.min, summary.max, summary.sum) == (low[:8].ljust(8, b"\0"), high[:8].ljust(8, b"\0"), bytes(16))
        return
    integers = [value for value in valid if isinstance(value, int)]
    fits = bool(integers) and (not pa.types.is_decimal(type) or all(-(2**63) <= value < 2**63 for value in integers))
    has_sum = bool(integers) and not pa.types.is_temporal(type) and -(2**127) <= sum(integers) < 2**127
    assert summary.flags == 1 * fits | 6 * has_sum
    bounds = (min(integers), max(integers)) if fits else (0, 0)
    assert (summary.min, summary.max) == tuple((bound & (2**64 - 1)).to_bytes(8, "little") for bound in bounds)
    assert summary.sum == (sum(integers) if has_sum else 0).to_bytes(16, "little", signed=True)


def assert_summarises_floats(summary: Summary, type: pa.DataType, patterns: list[int]) -> None:
    layout = "<f" if type == pa.float32() else "<d"
    numbers = [struct.unpack(layout, pattern.to_bytes(type.bit_width // 8, "little"))[0] for pattern in patterns]
    real = [number for number in numbers if not math.isnan(number)]
    assert summary.nans == len(numbers) - len(real)
    assert summary.flags == (3 if real else 0)
    if not real:
        assert summary.min + summary.max + summary.sum == bytes(32)
        return
    by_order = sorted(real, key=lambda number: (number, math.copysign(1, number)))
    assert summary.min + summary.max == struct.pack("<dd", by_order[0], by_order[-1])
    total, rest = struct.unpack("<d8s", summary.sum)
    assert rest == bytes(8)
    if math.inf in real and -math.inf in real:
        assert math.isnan(total)
    elif math.inf in real or -math.inf in real:
        assert total == (math.inf if math.inf in real else -math.inf)
    elif max(map(abs, real)) < 1e300:  # others overflow or not, as the order of summation has it
        assert total == pytest.approx(math.fsum(real), rel=1e-9, abs=1e-9 * max(map(abs, real)))
