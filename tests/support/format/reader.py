"""Reads container and journal files as docs/format.md describes them and without any code of the project.

Slow and strict: every checksum is verified, and whatever the page says is zero, aligned or in order is checked.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from support.format.pieces import Cursor, Seen, Type, Value, Violation, aligned, decode, demand, inflate, zeros
from support.format.units import (
    CONTINUATION,
    DATA,
    MOVED,
    NIL,
    STRIDE,
    Commit,
    Page,
    Unit,
    address_page,
    commit_record,
    crc_without,
    hash64,
    macro_block,
    read_preface,
    read_unit,
)


@dataclass(frozen=True)
class Summary:
    flags: int
    nulls: int
    nans: int
    min: bytes
    max: bytes
    sum: bytes


@dataclass(frozen=True)
class Leaf:
    rows: int
    columns: list[list[Value]]
    summaries: list[Summary]


@dataclass
class FormatReader:
    """A container as of its newest commit."""

    file: bytes
    seen: Seen = field(default_factory=Seen)

    def __post_init__(self) -> None:
        self.preface = read_preface(self.file)
        self.types = [Type(column["type"]) for column in self.preface.description["columns"]]
        self.commit = self._newest_commit()
        self.relocations = self._relocations()
        self.addresses = self._addresses()

    def unit_at(self, position: int) -> Unit:
        return read_unit(self.file, position * STRIDE)

    def units(self) -> list[Unit]:
        """All intact units, from the first on."""
        return [*self._units_from(self.preface.units_at, 0, self.preface.crc)]

    def _units_from(self, offset: int, ordinal: int, chain: int) -> Iterator[Unit]:
        while True:
            try:
                unit = read_unit(self.file, offset)
                demand(unit.ordinal == ordinal and unit.chain == chain, f"the unit at {offset} is out of the chain")
                if unit.kind == "macro block":
                    macro_block(unit)
            except Violation:
                return
            yield unit
            offset, ordinal, chain = unit.end, ordinal + 1, unit.crc

    def _newest_commit(self) -> Commit:
        offset, ordinal, chain = self.preface.units_at, 0, self.preface.crc
        commit = Commit(0, offset)
        slots = [slot for slot in self.preface.slots if slot is not None]
        if slots:
            number, at, crc = max(slots)
            unit = read_unit(self.file, at)
            commit = commit_record(unit)
            demand((commit.number, unit.crc) == (number, crc), f"commit {number} is not where its slot says")
            offset, ordinal, chain = unit.end, unit.ordinal + 1, unit.crc
        for unit in self._units_from(offset, ordinal, chain):
            if unit.kind == "commit record":
                following = commit_record(unit)
                demand(following.number == commit.number + 1, f"commit {following.number} behind {commit.number}")
                commit = following
        return commit

    def _relocations(self) -> dict[int, int]:
        relocations = dict(self.commit.relocations)
        position = self.commit.relocations_before
        while position != NIL:
            commit = commit_record(self.unit_at(position))
            for id, address in commit.relocations.items():
                relocations.setdefault(id, address)
            position = commit.relocations_before
            self.seen.note("chained relocations")
        return relocations

    def _addresses(self) -> list[int]:
        """The address of every block, relocations aside."""
        if self.commit.number == 0:
            return []
        fanout = self.preface.fanout
        flank = self._flank()
        pages_of_level = flank[-1] if flank else []
        # From the top down: what all pages of a level contain is where all pages of the level below are.
        for level in reversed(range(len(flank))):
            entries: list[int] = []
            for number, position in enumerate(pages_of_level):
                page = address_page(self.unit_at(position), fanout)
                demand((page.level, page.number) == (level, number), f"page {page.number} of level {page.level}")
                entries.extend(page.entries)
            pages_of_level = entries + (flank[level - 1] if level else [])
        return self._with_tail(pages_of_level)

    def _flank(self) -> list[list[int]]:
        """For each level, the positions of its pages that no written page has as entries."""
        flank: list[list[int]] = []
        position = self.commit.last_page
        while position != NIL:
            unit = self.unit_at(position)
            page = address_page(unit, self.preface.fanout)
            demand(page.level == len(flank), f"a page of level {page.level} on level {len(flank)}")
            behind = self._page_behind(unit)
            if behind is not None and behind[1].level == page.level + 1 and behind[1].entries[-1] == position:
                flank.append([])
                position = behind[0]
                self.seen.note(f"full page of level {page.level + 1}")
                continue
            unwritten: list[int] = []
            before, above = position, page.above
            while before != NIL:
                page = address_page(self.unit_at(before), self.preface.fanout)
                if page.above != above:
                    break
                unwritten.insert(0, before)
                before = page.before
            flank.append(unwritten)
            position = above
        self.seen.note(f"{len(flank)} levels")
        return flank

    def _page_behind(self, unit: Unit) -> tuple[int, Page] | None:
        try:
            behind = read_unit(self.file, unit.end)
        except Violation:
            return None
        if behind.kind != "address page" or behind.chain != unit.crc or behind.offset > self.commit.offset:
            return None
        return behind.position, address_page(behind, self.preface.fanout)

    def _with_tail(self, addresses: list[int]) -> list[int]:
        """Add the addresses behind the last page, from the macro blocks."""
        known = len(addresses)
        tail: dict[int, int] = {}
        offset = self.commit.tail * STRIDE
        while offset < self.commit.offset:
            unit = read_unit(self.file, offset)
            if unit.kind == "macro block":
                for index, slot in enumerate(macro_block(unit).slots):
                    if slot.kind == DATA and slot.id >= known:
                        tail[slot.id] = unit.position << 16 | index
            offset = unit.end
        demand(list(tail) == list(range(known, self.commit.blocks)), f"ids {list(tail)} behind the pages")
        starts_at = tail[known] >> 16 if tail else self.commit.offset // STRIDE
        demand(self.commit.tail == starts_at, f"the commit names {self.commit.tail}, blocks begin at {starts_at}")
        return addresses + list(tail.values())

    def blocks(self) -> list[Leaf | bytes]:
        """All blocks: leaves, and the content of nodes."""
        return [self._block(id) for id in range(self.commit.blocks)]

    def _block(self, id: int) -> Leaf | bytes:
        moved = id in self.relocations
        frame = self._frame(id, self.relocations.get(id, self.addresses[id]), MOVED if moved else DATA)
        cursor = Cursor(frame)
        head_hash, frame_id, length, head_length, rows, pieces, kind = cursor.fields("QQIIIHH")
        demand(hash64(frame[8:head_length]) == head_hash, f"hash of the head of block {id}")
        demand(frame_id == id and length == len(frame), f"frame of block {frame_id} with {length} bytes")
        directory = [cursor.fields("IIQ") for _ in range(pieces)]
        summaries = [_summary(cursor) for _ in range(pieces)] if kind == 0 else []
        demand(cursor.at == head_length, f"a head of {head_length} bytes, {cursor.at} expected")
        contents = []
        for offset, size, piece_hash in directory:
            demand(offset == cursor.at, f"a piece at {offset}, {cursor.at} expected")
            contents.append(cursor.bytes(size))
            demand(hash64(contents[-1]) == piece_hash, f"hash of a piece of block {id}")
            cursor.align()
        cursor.end()
        if kind == 1:
            demand(pieces == 1 and rows == 0, "a node with rows, or not of one piece")
            return _node(contents[0], self.seen)
        demand(kind == 0 and pieces == len(self.types), f"kind {kind} with {pieces} pieces")
        columns = [decode(content, type, self.seen) for content, type in zip(contents, self.types, strict=True)]
        demand(all(len(column) == rows for column in columns), f"not {rows} rows in each column of block {id}")
        return Leaf(rows, columns, summaries)

    def _frame(self, id: int, address: int, kind: int) -> bytes:
        macro = macro_block(self.unit_at(address >> 16))
        index = address & 0xFFFF
        slot = macro.slots[index]
        demand((slot.id, slot.kind) == (id, kind), f"block {slot.id} of kind {slot.kind}, {id} of kind {kind} expected")
        frame = slot.content
        parts = 1
        while index == len(macro.slots) - 1 and macro.continues_at != NIL:
            demand(macro.continues_at > address >> 16, "a frame continues before its beginning")
            macro = macro_block(self.unit_at(macro.continues_at))
            index = 0
            demand(macro.slots[0].kind == CONTINUATION and macro.slots[0].id == id, f"no continuation of block {id}")
            frame += macro.slots[0].content
            parts += 1
        self.seen.note({1: "whole frame", 2: "frame in two parts"}.get(parts, "frame in many parts"))
        return frame


def _summary(cursor: Cursor) -> Summary:
    flags, nulls, nans, zero, least, greatest, total = cursor.fields("4I8s8s16s")
    demand(flags < 32 and zero == 0, f"flags {flags} of a summary")
    return Summary(flags, nulls, nans, least, greatest, total)


def _node(piece: bytes, seen: Seen) -> bytes:
    codec, zero, length = struct.unpack_from("<B7sQ", piece)
    zeros(zero, "what follows a codec")
    demand(codec in (0, 1), f"codec {codec} of a node")
    seen.note(f"node codec {codec}")
    content = piece[16:] if codec == 0 else inflate(1, piece[16:], length)
    demand(len(content) == length, f"{len(content)} bytes of a node, {length} expected")
    return content


def read_journal(file: bytes) -> list[bytes]:
    """The payloads of a journal's records."""
    for at in (0, 32):
        header = file[at : at + 32]
        magic, version, crc, salt = struct.unpack("<8sII16s", header)
        if magic == b"TLJOURNL" and version == 1 and crc_without(header, 12) == crc:
            break
    else:
        raise Violation("neither header of the journal is intact")
    payloads: list[bytes] = []
    checksum, at = zlib.crc32(salt), 64
    while at + 32 <= len(file):
        length, stored, number, synced, chain, found = struct.unpack_from("<IIQQII", file, at)
        payload = file[at + 32 : at + 32 + length]
        if found != zlib.crc32(salt + file[at : at + 28]) or (number, chain) != (len(payloads) + 1, checksum):
            break
        if not 64 <= synced <= at:
            raise Violation(f"record {number} at {at} says that {synced} bytes were durable")
        if len(payload) < length or stored != zlib.crc32(payload):
            break
        payloads.append(payload)
        checksum = found
        at += aligned(32 + length)
    return payloads
