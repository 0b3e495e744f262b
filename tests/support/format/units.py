"""Preface and units of container files as docs/format.md describes them, without any code of the project."""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import dataclass, field
from typing import Any

from support.format.pieces import WORD, Cursor, aligned, demand, zeros

STRIDE = 4096
NIL = (1 << 64) - 1
DATA, CONTINUATION, MOVED = range(3)


def hash64(data: bytes) -> int:
    p1, p2, p3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
    words = struct.unpack(f"<{aligned(len(data)) // 8}Q", data + bytes(aligned(len(data)) - len(data)))
    h = len(words) * p3 & WORD
    for j in range(8):
        lane = p2 * (j + 1) & WORD
        for word in words[j::8]:
            lane ^= word
            lane = ((lane << 29 | lane >> 35) & WORD) * p1 & WORD
        h = (h ^ lane) * p1 & WORD
        h ^= h >> 32
    h = h * p2 & WORD
    return h ^ (h >> 29)


def crc_without(data: bytes, at: int) -> int:
    """CRC-32 of bytes, with the field of the checksum taken as zero."""
    return zlib.crc32(data[:at] + bytes(4) + data[at + 4 :])


@dataclass(frozen=True)
class Preface:
    """The fixed part of a file and its description."""

    crc: int
    macro_size: int
    fanout: int
    description: dict[str, Any]
    slots: tuple[tuple[int, int, int] | None, ...]
    """For each publication slot number, offset and CRC of a commit, if it is intact."""
    units_at: int


def read_preface(file: bytes) -> Preface:
    magic, version, crc, macro_size, fanout, length, description_crc = struct.unpack_from("<8s6I", file)
    demand(magic == b"TIDELOG\0" and version == 1, f"{magic!r} version {version} is no container")
    demand(crc_without(file[:64], 12) == crc, "CRC of the preface")
    zeros(file[48:64], "the end of the preface")
    description = file[12288 : 12288 + length]
    demand(zlib.crc32(description) == description_crc, "CRC of the description")
    units_at = -(-(12288 + length) // STRIDE) * STRIDE
    slots = tuple(_slot(file[4096 * (i + 1) :][:32], i) for i in range(2))
    return Preface(crc, macro_size, fanout, json.loads(description.decode()), slots, units_at)


def _slot(slot: bytes, index: int) -> tuple[int, int, int] | None:
    magic, crc, number, position, record_crc, zero = struct.unpack("<4sIQQII", slot)
    if magic != b"TLSL" or crc != crc_without(slot, 4):
        return None
    demand(number % 2 == index and zero == 0, f"commit {number} is named in slot {index}")
    return number, position * STRIDE, record_crc


@dataclass(frozen=True)
class Unit:
    """A unit with an intact head."""

    offset: int
    kind: str
    data: bytes
    ordinal: int
    chain: int
    head_length: int
    crc: int

    @property
    def end(self) -> int:
        return self.offset + len(self.data)

    @property
    def position(self) -> int:
        return self.offset // STRIDE


def read_unit(file: bytes, offset: int) -> Unit:
    demand(offset % STRIDE == 0 and offset + 32 <= len(file), f"no unit at {offset}")
    magic, length, ordinal, chain, head_length, crc, zero = struct.unpack_from("<4sIQIIII", file, offset)
    kind = {b"TLMB": "macro block", b"TLAP": "address page", b"TLCM": "commit record"}.get(magic)
    demand(kind is not None, f"{magic!r} at {offset} is no unit")
    data = file[offset : offset + length]
    demand(
        len(data) == length and length % STRIDE == 0 and 32 <= head_length <= length, f"the unit at {offset} is cut off"
    )
    demand(crc_without(struct.pack("<Q", offset) + data[:head_length], 32) == crc, f"CRC of the {kind} at {offset}")
    demand(zero == 0, "the end of a head's common part")
    return Unit(offset, str(kind), data, ordinal, chain, head_length, crc)


@dataclass(frozen=True)
class Slot:
    """A slot of a macro block."""

    id: int
    kind: int
    content: bytes


@dataclass(frozen=True)
class MacroBlock:
    slots: list[Slot]
    continues_at: int


def macro_block(unit: Unit) -> MacroBlock:
    """A macro block with an intact payload."""
    demand(unit.kind == "macro block", f"a {unit.kind} at {unit.offset}, a macro block expected")
    cursor = Cursor(unit.data, 32)
    count, payload_length, continues_at = cursor.fields("IIQ")
    directory = [cursor.fields("QIIQ") for _ in range(count)]
    demand(cursor.at == unit.head_length, f"a head of {unit.head_length} bytes, {cursor.at} expected")
    demand(sum(length for _, length, _, _ in directory) == payload_length, "the slots are not the payload")
    slots = []
    for index, (id, length, kind, digest) in enumerate(directory):
        demand(length % 8 == 0 and kind <= MOVED, f"slot of {length} bytes and kind {kind}")
        demand(kind != CONTINUATION or index == 0, f"a continuation in slot {index}")
        content = cursor.bytes(length)
        demand(hash64(content) == digest, f"hash of slot {index} of macro block {unit.ordinal}")
        slots.append(Slot(id, kind, content))
    zeros(unit.data[cursor.at :], "what follows a payload")
    return MacroBlock(slots, continues_at)


@dataclass(frozen=True)
class Page:
    """An address page."""

    before: int
    above: int
    level: int
    number: int
    entries: tuple[int, ...]


def address_page(unit: Unit, fanout: int) -> Page:
    demand(unit.kind == "address page", f"a {unit.kind} at {unit.offset}, an address page expected")
    cursor = Cursor(unit.data, 32)
    before, above, level, number, count, zero = cursor.fields("QQIIII")
    demand(count == fanout and zero == 0, f"{count} entries in a page of {fanout}")
    entries = cursor.fields(f"{count}Q")
    demand(cursor.at == unit.head_length, f"a head of {unit.head_length} bytes, {cursor.at} expected")
    zeros(unit.data[cursor.at :], "what follows a page")
    return Page(before, above, level, number, entries)


@dataclass(frozen=True)
class Commit:
    number: int
    offset: int
    """Of its record."""
    blocks: int = 0
    last_page: int = NIL
    tail: int = 0
    rows: int = 0
    dead: int = 0
    relocations_before: int = NIL
    relocations: dict[int, int] = field(default_factory=dict)
    meta: bytes = b""


def commit_record(unit: Unit) -> Commit:
    demand(unit.kind == "commit record", f"a {unit.kind} at {unit.offset}, a commit record expected")
    cursor = Cursor(unit.data, 32)
    number, blocks, last_page, tail, rows, dead, before, count, meta_length = cursor.fields("7QII")
    pairs = [cursor.fields("QQ") for _ in range(count)]
    demand(pairs == sorted(pairs) and len(dict(pairs)) == count, "the order of relocations")
    meta = cursor.bytes(meta_length)
    demand(cursor.at == unit.head_length, f"a head of {unit.head_length} bytes, {cursor.at} expected")
    zeros(unit.data[cursor.at :], "what follows a commit")
    return Commit(number, unit.offset, blocks, last_page, tail, rows, dead, before, dict(pairs), meta)
