"""Where the frames of blocks stand in a container file, and opening them there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tidelog.model.errors import CorruptionError, InputError
from tidelog.storage.codec import Bytes, Ints
from tidelog.storage.format import block
from tidelog.storage.format.macro_block import Directory, read_directory
from tidelog.storage.format.meter import ReadMeter
from tidelog.storage.format.units import NIL, STRIDE
from tidelog.storage.media.medium import File
from tidelog.storage.read.addresses import AddressBook
from tidelog.storage.read.cache import Cache

_DENSE: Final = 16
"""Ids that are, on average, at most so far apart are translated as one range."""

_CACHED_DIRECTORIES: Final = 8 << 20
"""Of one file; those of a hundred million rows of eight numbers fit."""
_KEPT_BUFFER: Final = 64 << 20
"""A thread's read buffer is kept for the next read up to this size."""

_scratch = threading.local()


@dataclass(frozen=True, slots=True)
class _Extents:
    """Where the frames of a run of blocks stand in the file."""

    starts: Ints
    sizes: Ints
    rests: dict[int, list[tuple[int, int]]]
    """For frames split over macro blocks, by index in the run: (start, size) of each further part."""

    def lengths(self) -> Ints:
        """The frames' lengths, all parts together."""
        lengths = self.sizes.copy()
        for index, parts in self.rests.items():
            lengths[index] += sum(size for _, size in parts)
        return lengths


class FrameSource:
    """Opens the frames of a file, given the translation of block ids. May be used from several threads."""

    def __init__(self, file: File, addresses: AddressBook, limit: int) -> None:
        """``addresses`` translates ids; no byte at or behind ``limit`` is read."""
        self._file = file
        self._addresses = addresses
        self.limit = limit
        """For whoever writes to the file meanwhile: it may grow."""
        self.meter = ReadMeter()
        """Counts what is decoded; may be replaced by one that others use too."""
        self._directories: Cache[Directory] = Cache(_CACHED_DIRECTORIES)
        self._mapped: npt.NDArray[np.uint64] = np.empty(0, np.uint64)

    def address(self, id: int) -> int:
        """The address of a block."""
        return self._addresses.one(id)

    def words(self, end: int) -> npt.NDArray[np.uint64]:
        """The words of a mapped file where they stand, up to byte ``end`` at least, which must be committed."""
        if end > 8 * len(self._mapped):
            octets = np.frombuffer(self._file.view(0, max(self.limit & ~7, end)), np.uint8)
            if len(octets) < end:
                raise self._cut_off(len(octets), end)
            self._mapped = octets[: len(octets) & ~7].view(np.uint64)
        return self._mapped

    def lengths(self, ids: Ints) -> Ints:
        """The bytes of the frames of blocks with rising ids."""
        return self._extents(ids).lengths()

    def open(self, ids: Ints) -> block.OpenFrames:
        """Open the frames of blocks with ascending ids, where they stand if the file is mapped and none is split.

        Otherwise they are read into a buffer the calling thread uses again.
        """
        extents = self._extents(ids)
        lengths = extents.lengths()
        low, high = int(extents.starts.min()), int((extents.starts + extents.sizes).max())
        if self._file.maps and not extents.rests:
            frames = np.frombuffer(self._file.view(low, high - low), np.uint8)
            if len(frames) < high - low:
                raise self._cut_off(low + len(frames), high)
            return block.open_frames(frames, extents.starts - low, lengths, ids, self.meter)
        if high - low <= 2 * int(extents.sizes.sum()) + (1 << 16):
            offsets, used = extents.starts - low, high - low
            buffer = _buffer(used + sum(int(lengths[i]) for i in extents.rests))
            self._fill(low, buffer[:used])
        else:
            offsets = np.cumsum(lengths) - lengths
            used = int(lengths.sum())
            buffer = _buffer(used + sum(int(lengths[i]) for i in extents.rests))
            for at, start, size in _rows(offsets, extents.starts, extents.sizes):
                self._fill(start, buffer[at : at + size])
        for index, parts in extents.rests.items():
            at, size = int(offsets[index]), int(extents.sizes[index])
            buffer[used : used + size] = buffer[at : at + size]
            offsets[index] = used
            used += size
            for start, size in parts:
                self._fill(start, buffer[used : used + size])
                used += size
        return block.open_frames(buffer[:used], offsets, lengths, ids, self.meter)

    def measure(self, id: int) -> tuple[int, int]:
        """Rows and stored bytes of a block."""
        ids = np.array([id])
        return int(self.open(ids).rows[0]), int(self.lengths(ids)[0])

    def open_leaf(self, id: int) -> block.OpenFrames:
        """Open the frame of a leaf; :class:`InputError` if the block is a node."""
        leaf = self.open(np.array([id]))
        if leaf.kind(0) != block.LEAF:
            raise InputError(f"block {id} is a node, not a leaf with columns; use read_node")
        return leaf

    def read_node(self, id: int) -> bytes:
        """The bytes of a node; :class:`InputError` if the block is a leaf."""
        node = self.open(np.array([id]))
        if node.kind(0) != block.NODE:
            raise InputError(f"block {id} is a leaf, not a node; use read")
        return block.decode_node(node, 0)

    def _fill(self, offset: int, target: Bytes) -> None:
        read = self._file.read_into(offset, target.data)
        if read < len(target):
            raise self._cut_off(offset + read, offset + len(target))

    def _cut_off(self, end: int, expected: int) -> CorruptionError:
        return CorruptionError(f"{self._file.name} ends at {end}, but bytes up to {expected} were committed")

    def _extents(self, ids: Ints) -> _Extents:
        first, last = int(ids[0]), int(ids[-1]) + 1
        if len(ids) == 1:
            return self._extent(first)
        if last - first <= _DENSE * len(ids):
            addresses = self._addresses.several(first, last)[ids - first]
        else:
            cuts = np.flatnonzero(np.diff(ids) > 1) + 1
            addresses = np.concatenate(
                [self._addresses.several(int(run[0]), int(run[-1]) + 1) for run in np.split(ids, cuts)]
            )
        positions = (addresses >> np.uint64(16)).astype(np.int64)
        slots = (addresses & np.uint64(0xFFFF)).astype(np.int64)
        # Many stand in the same macro block: the directories of all of these become one table.
        blocks, owners = np.unique(positions, return_inverse=True)
        directories = [self._directory(position) for position in blocks.tolist()]
        counts = np.array([len(directory.ids) for directory in directories], np.int64)
        places = slots + (np.cumsum(counts) - counts)[owners]
        outside = slots >= counts[owners]
        if outside.any() or (np.concatenate([each.ids for each in directories])[places] != ids).any():
            raise CorruptionError(
                f"{self._file.name}: the macro blocks at offsets {directories[0].offset} to {directories[-1].offset} "
                f"do not hold the blocks that the address tree places there (among blocks {first} to {last - 1})"
            )
        starts = np.concatenate([each.starts for each in directories])[places]
        sizes = np.concatenate([each.sizes for each in directories])[places]
        rests: dict[int, list[tuple[int, int]]] = {}
        for owner, directory in enumerate(directories):
            if directory.next != NIL:
                for index in np.flatnonzero((owners == owner) & (slots == len(directory.ids) - 1)).tolist():
                    rests[index] = self._continuations(directory)
        return _Extents(starts, sizes, rests)

    def _extent(self, id: int) -> _Extents:
        """Where the frame of one block stands."""
        start, size, is_split = self.place(id)
        rests = {0: self._continuations(self._directory(self._addresses.one(id) >> 16))} if is_split else {}
        return _Extents(np.array([start]), np.array([size]), rests)

    def place(self, id: int) -> tuple[int, int, bool]:
        """Where the frame of one block starts, its size there, and whether it goes on in another macro block."""
        address = self._addresses.one(id)
        directory, slot = self._directory(address >> 16), address & 0xFFFF
        count = len(directory.ids)
        if slot >= count or directory.ids.item(slot) != id:
            raise CorruptionError(
                f"{self._file.name}: the macro block at offset {directory.offset} does not hold block {id}, which the "
                "address tree places there"
            )
        is_split = directory.next != NIL and slot == count - 1
        return directory.starts.item(slot), directory.sizes.item(slot), is_split

    def _continuations(self, directory: Directory) -> list[tuple[int, int]]:
        id = directory.ids[-1]
        parts = []
        while directory.next != NIL:
            if directory.next * STRIDE <= directory.offset:
                raise CorruptionError(f"{self._file.name}: the macro block at {directory.offset} continues backwards")
            directory = self._directory(directory.next)
            if not len(directory.ids) or directory.ids[0] != id:
                raise CorruptionError(
                    f"{self._file.name}: the macro block at offset {directory.offset} does not continue block {id}"
                )
            parts.append((int(directory.starts[0]), int(directory.sizes[0])))
            if len(directory.ids) > 1:
                break
        return parts

    def _directory(self, position: int) -> Directory:
        directory = self._directories.find(position)
        if directory is None:
            directory = read_directory(self._file, position, self.limit)
            self._directories.put(position, directory, 200 + 40 * len(directory.ids))
        return directory


def _rows(*columns: Ints) -> Iterator[tuple[int, ...]]:
    return zip(*(column.tolist() for column in columns), strict=True)


def _buffer(size: int) -> Bytes:
    """The calling thread's read buffer, at least ``size`` bytes."""
    buffer: Bytes | None = getattr(_scratch, "buffer", None)
    if buffer is None or len(buffer) < size:
        # Whole words, aligned: kernels look at the buffer as 64-bit words.
        buffer = np.empty((size + size // 4 + 7) // 8, np.uint64).view(np.uint8)
        if len(buffer) <= _KEPT_BUFFER:
            _scratch.buffer = buffer
    return buffer[: (size + 7) & ~7]
