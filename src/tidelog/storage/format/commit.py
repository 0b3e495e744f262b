"""Commit records, and the preface of a container file with its two publication slots.

The preface::

    0      page 0: "TIDELOG\\0", u32 version, u32 CRC-32 of the 64-byte page head (this field as zero),
           u32 macro block size, u32 entries of an address page, u32 length and u32 CRC-32 of the description,
           16 bytes file id, 16 zero bytes
    4096   slot 0      8192   slot 1
    12288  the description: JSON, UTF-8 (schema and whatever the creator adds), zeros up to the next stride

A slot: "TLSL", u32 CRC-32 of the slot (this field as zero), u64 commit number, u64 position of the commit in strides,
u32 CRC of the commit record's unit, u32 zero. Commit ``n`` is published in slot ``n mod 2`` after it was synced.

A commit record is a unit (``units``) whose head continues::

    32  u64 number            48  u64 position of the last address page of level 0, or NIL
    40  u64 next block id     56  u64 position of the first macro block with an id that page does not cover
    64  u64 rows in leaves    72  u64 bytes of replaced images
    80  u64 position of the commit before it that carries relocations, or NIL
    88  u32 relocations       92  u32 length of the metadata
    96  for each relocation  u64 id, u64 address; then the metadata

The relocations of a commit are its own and those found along the chain of positions at 80.
"""

from __future__ import annotations

import functools
import hashlib
import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tidelog.model.errors import NONSENSE, CorruptionError, NewerReleaseError
from tidelog.storage.format.units import (
    HEADER_SIZE,
    NIL,
    STRIDE,
    InvalidUnit,
    Place,
    Unit,
    read_unit,
    round_to_stride,
    seal_head,
)
from tidelog.storage.media.medium import Content, File

MAGIC = b"TLCM"
VERSION = 1

_PREFACE = struct.Struct("<8sIIIIII16s16s")
_PREFACE_MAGIC = b"TIDELOG\0"
_PREFACE_CRC_AT = 12
_SLOT_MAGIC = b"TLSL"
_SLOT = struct.Struct("<4sIQQII")
_SLOT_CRC_AT = 4
_SLOT_OFFSETS = (STRIDE, 2 * STRIDE)
_SLOT_ATTEMPTS = 3
"""A slot that looks torn may be one that a writer is just writing: it is read again."""
_DESCRIPTION_AT = 3 * STRIDE
_LARGEST_FANOUT = 1 << 20
_LARGEST_MACRO_BLOCK = 1 << 30

_COMMIT = struct.Struct("<QQQQQQQII")
_RELOCATIONS_AT = HEADER_SIZE + _COMMIT.size
_RELOCATION = np.dtype([("id", "<u8"), ("address", "<u8")])


@dataclass(frozen=True, slots=True)
class Preface:
    """What a container file says about itself before its first unit."""

    macro_size: int
    fanout: int
    file_id: bytes
    description: Mapping[str, Any]
    data_start: int
    crc: int

    @property
    def first_place(self) -> Place:
        """Where the first unit stands."""
        return Place(self.data_start, 0, self.crc)


def file_id_of(name: str) -> bytes:
    """What the preface of a file says by which it is known again; ``name`` may have a directory, which does not count.

    Names are given once. So a file that was put in the place of another one, of any store, is noticed.
    """
    return hashlib.blake2b(name.rpartition("/")[2].encode("utf-8", "surrogateescape"), digest_size=16).digest()


def write_preface(file: File, name: str, macro_size: int, fanout: int, description: Mapping[str, Any]) -> Preface:
    """Write the preface of a new file that will be called ``name`` (not synced)."""
    text = json.dumps(description).encode()
    fields = (
        _PREFACE_MAGIC,
        VERSION,
        0,
        macro_size,
        fanout,
        len(text),
        zlib.crc32(text),
        file_id_of(name),
        bytes(16),
    )
    head = bytearray(_PREFACE.pack(*fields))
    crc = zlib.crc32(head)
    struct.pack_into("<I", head, _PREFACE_CRC_AT, crc)
    data_start = round_to_stride(_DESCRIPTION_AT + len(text))
    padding = bytes(data_start - _DESCRIPTION_AT - len(text))
    file.write(0, head, bytes(_DESCRIPTION_AT - len(head)), text, padding)
    return Preface(macro_size, fanout, fields[7], description, data_start, crc)


def read_preface(file: Content) -> Preface:
    """The preface of an existing file; raises CorruptionError if it is not a container's or is damaged.

    Raises NewerReleaseError if a newer release wrote it.
    """
    head = bytearray(file.read(0, _PREFACE.size))
    if len(head) < _PREFACE.size or not head.startswith(_PREFACE_MAGIC):
        raise CorruptionError(
            f"{file.name} is not a container: it starts with {bytes(head[:8])!r}, expected {_PREFACE_MAGIC!r}; "
            "if it should be one, restore it from a backup"
        )
    _, version, crc, macro_size, fanout, size, text_crc, file_id, _ = _PREFACE.unpack(head)
    struct.pack_into("<I", head, _PREFACE_CRC_AT, 0)
    if zlib.crc32(head) != crc:
        raise CorruptionError(f"{file.name}: the file header is damaged; restore the file from a backup")
    if version != VERSION:
        raise NewerReleaseError(
            f"{file.name} has format version {version}, this release reads version {VERSION}; use a newer release"
        )
    if file_id != file_id_of(file.name):
        raise CorruptionError(
            f"{file.name} is another file than the one that was written under this name; put back the one that belongs "
            "there, or restore it from a backup"
        )
    text = file.read(_DESCRIPTION_AT, size)
    if zlib.crc32(text) != text_crc:
        raise CorruptionError(f"{file.name}: the description behind the file header is damaged; restore a backup")
    data_start = round_to_stride(_DESCRIPTION_AT + size)
    try:
        description = _description(text)
        if not 2 <= fanout <= _LARGEST_FANOUT or not 2 * STRIDE <= macro_size <= _LARGEST_MACRO_BLOCK:
            raise ValueError(f"pages of {fanout} entries and macro blocks of {macro_size} bytes")
    except NONSENSE as error:
        raise CorruptionError(f"{file.name}: the file header makes no sense: {error}; restore a backup") from error
    return Preface(macro_size, fanout, file_id, description, data_start, crc)


@functools.lru_cache(maxsize=16)
def _description(text: bytes) -> Mapping[str, Any]:
    """A description from its JSON. Thousands of files of one stream have the same; nobody changes it."""
    content: Mapping[str, Any] = json.loads(text)
    columns, notes = content["columns"], content["notes"]
    if not (isinstance(columns, list) and all(isinstance(each, dict) for each in columns) and isinstance(notes, dict)):
        raise TypeError(f"columns {columns!r:.80} and notes {notes!r:.80}")
    return content


@dataclass(frozen=True, slots=True)
class Commit:
    """A state of the container that readers can pin: everything before ``end``, as the record says.

    Commit number 0 is the empty container and has no record.
    """

    number: int
    end: int
    place: Place
    next_id: int = 0
    last_page: int = NIL
    scan_from: int = NIL
    rows: int = 0
    dead_bytes: int = 0
    relocations_before: int = NIL
    relocations: Mapping[int, int] = field(default_factory=dict)
    meta: bytes = b""
    offset: int = 0

    @property
    def position(self) -> int:
        """Where the record stands, in strides."""
        return self.offset // STRIDE

    @classmethod
    def empty(cls, preface: Preface) -> Commit:
        """The state of a file without any commit."""
        return cls(0, preface.data_start, preface.first_place, scan_from=preface.data_start // STRIDE)


def write_commit(file: File, place: Place, **fields: Any) -> Commit:
    """Write a commit record at ``place``; ``fields`` are those of :class:`Commit` that describe the state."""
    draft = Commit(end=0, place=place, offset=place.offset, **fields)
    table = np.array(sorted(draft.relocations.items()), "<u8").tobytes()
    head = bytearray(_RELOCATIONS_AT)
    _COMMIT.pack_into(
        head,
        HEADER_SIZE,
        draft.number,
        draft.next_id,
        draft.last_page,
        draft.scan_from,
        draft.rows,
        draft.dead_bytes,
        draft.relocations_before,
        len(draft.relocations),
        len(draft.meta),
    )
    head += table
    head += draft.meta
    length = round_to_stride(len(head))
    crc = seal_head(head, MAGIC, length, place)
    file.write(place.offset, head, bytes(length - len(head)))
    end = place.offset + length
    behind = Place(end, place.ordinal + 1, crc)
    return Commit(end=end, place=behind, offset=place.offset, **fields)


def parse_commit(unit: Unit) -> Commit:
    """The commit in a unit whose head was verified; raises InvalidUnit if it is none."""
    if unit.magic != MAGIC or len(unit.head) < _RELOCATIONS_AT:
        raise InvalidUnit(f"the unit at offset {unit.offset} is not a commit record")
    number, next_id, last_page, scan_from, rows, dead, before, count, meta_size = _COMMIT.unpack_from(
        unit.head, HEADER_SIZE
    )
    meta_at = _RELOCATIONS_AT + count * _RELOCATION.itemsize
    if len(unit.head) != meta_at + meta_size:
        raise InvalidUnit(f"the commit record at offset {unit.offset} has impossible lengths")
    table = np.frombuffer(unit.head, _RELOCATION, count, _RELOCATIONS_AT)
    relocations = dict(zip(table["id"].tolist(), table["address"].tolist(), strict=True))
    meta = bytes(unit.head[meta_at:])
    return Commit(
        number,
        unit.end,
        Place.behind(unit),
        next_id,
        last_page,
        scan_from,
        rows,
        dead,
        before,
        relocations,
        meta,
        unit.offset,
    )


def read_commit(file: Content, position: int, limit: int) -> Commit:
    """The commit record at ``position`` (in strides)."""
    try:
        return parse_commit(read_unit(file, position * STRIDE, limit))
    except InvalidUnit as error:
        raise CorruptionError(f"{file.name}: {error}") from None


def commit_at(file: Content, preface: Preface, number: int, position: int) -> Commit:
    """Commit ``number``, whose record stands at ``position``; number 0 is the empty container."""
    if number == 0:
        return Commit.empty(preface)
    commit = read_commit(file, position, file.size())
    if commit.number != number:
        raise CorruptionError(f"{file.name}: commit {commit.number} stands at position {position}, expected {number}")
    return commit


def all_relocations(file: Content, commit: Commit) -> dict[int, int]:
    """Every relocation in force at a commit: its own, and those along the chain where it has none."""
    result = dict(commit.relocations)
    before = commit.relocations_before
    limit = commit.offset
    while before != NIL:
        older = read_commit(file, before, limit)
        for id, address in older.relocations.items():
            result.setdefault(id, address)
        before, limit = older.relocations_before, older.offset
    return result


def publish(file: File, commit: Commit) -> None:
    """Name a durable commit in its slot, for readers and for recovery (not synced)."""
    slot = bytearray(_SLOT.pack(_SLOT_MAGIC, 0, commit.number, commit.position, commit.place.chain, 0))
    struct.pack_into("<I", slot, _SLOT_CRC_AT, zlib.crc32(slot))
    file.write(_SLOT_OFFSETS[commit.number % 2], slot)


def clear_slot(file: File, index: int) -> None:
    """Make a slot as if it had never been written (not synced)."""
    file.write(_SLOT_OFFSETS[index], bytes(_SLOT.size))


@dataclass(frozen=True, slots=True)
class SlotFinding:
    """What is wrong with a slot. One that is torn may come from a crash; one that names a lost commit may not."""

    index: int
    message: str
    names_lost_commit: bool


def published_commits(file: Content) -> tuple[list[Commit], list[SlotFinding]]:
    """The commits that the slots name and that are readable, newest first, and what is wrong with the others."""
    commits = []
    findings = []
    for index in range(len(_SLOT_OFFSETS)):
        try:
            named = _read_slot(file, index)
        except InvalidUnit as error:
            findings.append(SlotFinding(index, str(error), False))
            continue
        if named is None:
            continue
        number, position, crc = named
        try:
            # The length is asked for after the slot was read: a writer may be adding to the file.
            commit = parse_commit(read_unit(file, position * STRIDE, file.size()))
            if (commit.number, commit.place.chain) != (number, crc):
                raise InvalidUnit(f"commit {commit.number} stands there")
            commits.append(commit)
        except InvalidUnit as error:
            findings.append(SlotFinding(index, f"publication slot {index} names commit {number}, but {error}", True))
    return sorted(commits, key=lambda c: -c.number), findings


def _read_slot(file: Content, index: int) -> tuple[int, int, int] | None:
    """Number, position and CRC of the commit a slot names; None if it was never written."""
    for _ in range(_SLOT_ATTEMPTS):
        slot = bytearray(file.read(_SLOT_OFFSETS[index], _SLOT.size))
        if not any(slot):
            return None
        magic, crc, number, position, unit_crc, _ = _SLOT.unpack(slot)
        struct.pack_into("<I", slot, _SLOT_CRC_AT, 0)
        if magic == _SLOT_MAGIC and zlib.crc32(slot) == crc and number % 2 == index:
            return number, position, unit_crc
    raise InvalidUnit(f"publication slot {index} is damaged")
