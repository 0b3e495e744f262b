"""Macro blocks: the units that hold frames, densely packed, with a directory.

Behind the common unit header (``units``) the head of a macro block is::

    32  u32 slots
    36  u32 bytes of payload, a multiple of 8
    40  u64 position, in strides, of the next macro block if the last slot continues there, else NIL
    48  directory: for each slot  u64 block id, u32 bytes, u32 kind (0 data, 1 continuation, 2 moved),
        u64 hash of its bytes (``kernels.hash64``)

and the payload follows directly: the slots' bytes one behind the other, then zeros up to the unit's length. A
frame too long for one macro block is split: its rest is slot 0 of the next one, and so on (spec/event-store.md
2.3, M2); one that would fit into an empty macro block is not split, so that a reader finds it in one piece. The kind
``moved`` marks the new image of an updated block. An address is the macro block's position in strides (48 bits) and the
slot (16 bits); byte positions follow from the directory.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, repeat

import numpy as np
import numpy.typing as npt

from tidelog.model.errors import CorruptionError
from tidelog.storage.format import kernels
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
from tidelog.storage.media.medium import File

MAGIC = b"TLMB"

DATA, CONTINUATION, MOVED = 0, 1, 2

_HEAD = struct.Struct("<IIQ")
_HEAD_SIZE = HEADER_SIZE + _HEAD.size
_SLOT = np.dtype([("id", "<u8"), ("size", "<u4"), ("kind", "<u4"), ("hash", "<u8")])
_SLOT_SIZE = _SLOT.itemsize
_MOST_SLOTS = 1 << 16

_WORTH_WRITING = 1 << 19
"""Bytes of payload from which on a macro block is written rather than copied to wait for more."""


def address_of(position: int, slot: int) -> int:
    """The address of a slot of the macro block at ``position`` (in strides)."""
    return position << 16 | slot


@dataclass(frozen=True, slots=True)
class Directory:
    """What the head of a macro block says: which bytes of which block stand where."""

    offset: int
    end: int
    ids: npt.NDArray[np.uint64]
    kinds: npt.NDArray[np.uint32]
    sizes: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    """File offset of each slot."""
    hashes: npt.NDArray[np.uint64]
    next: int
    payload_size: int

    @property
    def payload_offset(self) -> int:
        """File offset of the first slot's bytes, directly behind the directory."""
        return self.offset + _HEAD_SIZE + _SLOT_SIZE * len(self.ids)


def parse_directory(unit: Unit) -> Directory:
    """The directory of a macro block whose head was verified; raises InvalidUnit if it makes no sense."""
    if unit.magic != MAGIC or len(unit.head) < _HEAD_SIZE:
        raise InvalidUnit(f"the unit at offset {unit.offset} is not a macro block")
    slots, payload, following = _HEAD.unpack_from(unit.head, HEADER_SIZE)
    if len(unit.head) != _HEAD_SIZE + slots * _SLOT_SIZE or len(unit.head) + payload > unit.length:
        raise InvalidUnit(f"the macro block at offset {unit.offset} has an impossible directory")
    table = np.frombuffer(unit.head, _SLOT, slots, _HEAD_SIZE)
    sizes = table["size"].astype(np.int64)
    if int(sizes.sum()) != payload or (sizes & 7).any():
        raise InvalidUnit(f"the macro block at offset {unit.offset} has slots of {int(sizes.sum())} bytes in {payload}")
    starts = np.cumsum(sizes) - sizes + (unit.offset + len(unit.head))
    return Directory(
        unit.offset, unit.end, table["id"], table["kind"], sizes, starts, table["hash"], following, payload
    )


def read_directory(file: File, position: int, limit: int) -> Directory:
    """The directory of the macro block at ``position`` (in strides), which must end before ``limit``."""
    try:
        return parse_directory(read_unit(file, position * STRIDE, limit))
    except InvalidUnit as error:
        raise CorruptionError(f"{file.name}: {error}") from None


def payload_is_intact(file: File, directory: Directory) -> bool:
    """Whether the bytes behind the directory are the ones written."""
    words = np.empty(directory.payload_size // 8, np.uint64)
    if file.read_into(directory.payload_offset, words.view(np.uint8).data) < words.nbytes:
        return False
    counts = directory.sizes // 8
    firsts = np.cumsum(counts) - counts
    found = [kernels.hash64(words, first, count) for first, count in zip(firsts.tolist(), counts.tolist(), strict=True)]
    return bool((np.array(found, np.uint64) == directory.hashes).all())


class MacroBuilder:
    """The open macro block: frames are put in until it is full, then it is sealed and written.

    What is put in is not copied before :meth:`keep`, so that most frames go straight from the memory they were encoded
    in to the file.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._slots: list[tuple[int, int, int, int]] = []
        self._parts: list[memoryview] = []
        """What was put in and not copied."""
        self._copied = bytearray()
        """What was put in before that."""
        self._used = 0
        self._continues = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing was put in since the last seal."""
        return not self._slots

    @property
    def is_worth_writing(self) -> bool:
        """Whether so much is in it that copying it would cost more than a shorter macro block does."""
        return self._used >= _WORTH_WRITING

    def holds(self, id: int) -> bool:
        """Whether it holds a part of a block."""
        return any(each == id for each, _, _, _ in self._slots)

    def room(self) -> int:
        """Payload bytes the next slot may have."""
        if len(self._slots) == _MOST_SLOTS:
            return 0
        return (self._size - _HEAD_SIZE - _SLOT_SIZE * (len(self._slots) + 1) - self._used) & ~7

    def fitting(self, bounds: Sequence[int], first: int) -> int:
        """How many frames, between consecutive ``bounds`` and from number ``first`` on, fit: up to which number."""
        room = self._size - _HEAD_SIZE - _SLOT_SIZE * len(self._slots) - self._used + bounds[first]
        last, most = first, min(len(bounds) - 1, first + _MOST_SLOTS - len(self._slots))
        while last < most and bounds[last + 1] + _SLOT_SIZE * (last + 1 - first) <= room:
            last += 1
        return last

    def put_run(
        self, ids: Sequence[int], frames: memoryview, bounds: Sequence[int], kind: int, digests: Sequence[int]
    ) -> None:
        """Add frames, one behind the other and between consecutive bounds, as the next slots.

        Like :meth:`put` for each of them: they fit, and are not to change.
        """
        sizes = [end - start for start, end in pairwise(bounds)]
        self._parts.append(frames)
        self._slots += zip(ids, sizes, repeat(kind), digests, strict=False)
        self._used += len(frames)
        self._continues = False

    def put(self, id: int, part: memoryview, kind: int, digest: int) -> None:
        """Add a frame that fits as the next slot; ``digest`` is its hash. It must not change before :meth:`keep`."""
        self._add(id, part, kind, digest)
        self._continues = False

    def put_first_part(self, id: int, part: memoryview, kind: int) -> int:
        """Add as much of a frame as fits, the rest of which goes to the next macro block; returns how many bytes."""
        taken = min(len(part), self.room())
        words = np.frombuffer(part[:taken], np.uint64)
        self._add(id, part[:taken], kind, int(kernels.hash64(words, 0, len(words))))
        self._continues = taken < len(part)
        return taken

    def _add(self, id: int, part: memoryview, kind: int, digest: int) -> None:
        self._parts.append(part)
        self._slots.append((id, len(part), kind, digest))
        self._used += len(part)

    @property
    def last_slot(self) -> int:
        """The number of the slot put in last."""
        return len(self._slots) - 1

    def keep(self) -> None:
        """Copy what was put in and not written: its memory is used for something else from now on."""
        for part in self._parts:
            self._copied += part
        self._parts.clear()

    def length(self) -> int:
        """Bytes the unit will have when sealed now."""
        return round_to_stride(_HEAD_SIZE + _SLOT_SIZE * len(self._slots) + self._used)

    def seal(self, file: File, place: Place, next_position: int) -> Place:
        """Write the macro block at ``place`` and start an empty one; returns the place behind it."""
        length = self.length()
        head = bytearray(_HEAD_SIZE + _SLOT_SIZE * len(self._slots))
        following = next_position if self._continues else NIL
        _HEAD.pack_into(head, HEADER_SIZE, len(self._slots), self._used, following)
        head[_HEAD_SIZE:] = np.array(self._slots, _SLOT).tobytes()
        crc = seal_head(head, MAGIC, length, place)
        padding = bytes(length - len(head) - self._used)
        file.write(place.offset, head, self._copied, *self._parts, padding)
        self._slots.clear()
        self._parts.clear()
        self._copied.clear()
        self._used = 0
        self._continues = False
        return Place(place.offset + length, place.ordinal + 1, crc)
