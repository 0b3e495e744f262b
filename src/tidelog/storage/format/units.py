"""Units: the self-checking records a container file is made of.

Behind its preface a container file is a sequence of units, each a multiple of ``STRIDE`` bytes long. A unit
starts with a header that every kind shares::

    0   4   magic         which kind of unit
    4   u32 length        bytes of the whole unit, a multiple of STRIDE
    8   u64 ordinal       number of the unit in its file, from 0
    16  u32 chain         CRC of the unit before it (of the file header for the first one)
    20  u32 head length   bytes, from 0, that the CRC covers
    24  u32 CRC           CRC-32 of the unit's offset in the file (u64) and then the head, this field taken as zero
    28  u32 zero

Because each CRC covers the CRC before it, bytes left over from an earlier life of the file can never be
taken for the continuation of a newer one; because it covers the offset, a unit that a device wrote to or
read from the wrong place is not taken for the right one.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from tidelog.storage.media.medium import Content

STRIDE = 4096
"""Granularity of positions in a container file; units start and end at multiples of it."""

NIL = (1 << 64) - 1
"""No position."""

_HEADER = struct.Struct("<4sIQIIII")
HEADER_SIZE = _HEADER.size
_CRC_AT = 24
_NO_CRC = bytes(4)


def _offset_crc(offset: int) -> int:
    return zlib.crc32(offset.to_bytes(8, "little"))


def round_to_stride(size: int) -> int:
    """``size`` rounded up to a multiple of the stride."""
    return (size + STRIDE - 1) & -STRIDE


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit's header, its place, and the bytes of its head (header included), verified against the CRC."""

    magic: bytes
    offset: int
    length: int
    ordinal: int
    chain: int
    crc: int
    head: memoryview

    @property
    def end(self) -> int:
        """Where the next unit starts."""
        return self.offset + self.length


@dataclass(frozen=True, slots=True)
class Place:
    """Where the next unit of a file goes and what its header continues."""

    offset: int
    ordinal: int
    chain: int

    @classmethod
    def behind(cls, unit: Unit) -> Place:
        """The place directly behind a unit."""
        return cls(unit.end, unit.ordinal + 1, unit.crc)


def seal_head(head: bytearray, magic: bytes, length: int, place: Place) -> int:
    """Fill in the header at the start of ``head``; returns the CRC."""
    _HEADER.pack_into(head, 0, magic, length, place.ordinal, place.chain, len(head), 0, 0)
    crc = zlib.crc32(head, _offset_crc(place.offset))
    struct.pack_into("<I", head, _CRC_AT, crc)
    return crc


class InvalidUnit(Exception):
    """What stands at an offset is not an intact unit; the message says why. Callers translate it."""


def read_unit(file: Content, offset: int, limit: int) -> Unit:
    """The unit at ``offset``, its head verified; raises :class:`InvalidUnit` if there is none before ``limit``."""
    if offset + STRIDE > limit:
        raise InvalidUnit(f"no whole unit at offset {offset}: the file ends at {limit}")
    head = file.read(offset, STRIDE)
    if len(head) < HEADER_SIZE:
        raise InvalidUnit(f"only {len(head)} bytes at offset {offset}, a unit header has {HEADER_SIZE}")
    magic, length, ordinal, chain, head_length, crc, zero = _HEADER.unpack_from(head)
    if length < STRIDE or length % STRIDE or offset + length > limit:
        raise InvalidUnit(f"the unit at offset {offset} claims {length} bytes, {limit - offset} remain")
    if not HEADER_SIZE <= head_length <= length or zero:
        raise InvalidUnit(f"the unit at offset {offset} claims a head of {head_length} bytes in {length}")
    if head_length > len(head):
        head = file.read(offset, head_length)
        if len(head) < head_length:
            raise InvalidUnit(f"the head of the unit at offset {offset} is cut off")
    view = memoryview(head)[:head_length]
    found = zlib.crc32(view[:_CRC_AT], _offset_crc(offset))
    found = zlib.crc32(view[_CRC_AT + 4 :], zlib.crc32(_NO_CRC, found))
    if found != crc:
        raise InvalidUnit(f"the head of the unit at offset {offset} has CRC {found:08x}, its header says {crc:08x}")
    return Unit(magic, offset, length, ordinal, chain, crc, view)


def read_units(file: Content, place: Place, limit: int) -> Iterator[Unit]:
    """Intact, properly chained units from ``place`` on; ends silently at ``limit``.

    Raises :class:`InvalidUnit` at the first one that is not intact or does not continue the chain.
    """
    while place.offset < limit:
        unit = read_unit(file, place.offset, limit)
        if (unit.ordinal, unit.chain) != (place.ordinal, place.chain):
            raise InvalidUnit(
                f"the unit at offset {unit.offset} is number {unit.ordinal} behind {unit.chain:08x}, "
                f"expected number {place.ordinal} behind {place.chain:08x}"
            )
        yield unit
        place = Place.behind(unit)
