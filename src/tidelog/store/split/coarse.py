"""Coarse splits: of a split's tree the entries of one level, and nothing below them (spec/event-store.md 5.4).

The file, little-endian, is made whole and synced before a manifest names it, and never changes:

.. code-block:: text

    0   magic ``TLRD``, u32 version (1), u32 length of the notes, u32 CRC-32 of everything behind this head
    16  u32 number of entries, u32 bytes of an entry, u32 level, u32 zero
    32  notes: the layout of the tree (:meth:`Layout.to_notes`) as JSON, padded with spaces to a multiple of 8
    ..  the entries, in order of time, with the states of user-defined aggregates that the layout names

An entry that has no room for states has none, whatever the layout says. Entries that were cut where those of other
splits are (:mod:`tidelog.store.upkeep.alignment`) have no child.
"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from tidelog.index.entries import Entries, Words, entry_dtype, states_of, words_of
from tidelog.index.layout import Layout
from tidelog.index.tabtree.reader import TreeReader
from tidelog.model.errors import CorruptionError
from tidelog.storage.media.medium import Medium
from tidelog.store.rows.stored import Ints

MAGIC: Final = b"TLRD"
VERSION: Final = 1
SUFFIX: Final = ".coarse"
_HEAD: Final = struct.Struct("<4sIIIIIII")


@dataclass(frozen=True)
class CoarseEntries:
    """The entries of one level of a tree, in order of time."""

    layout: Layout
    level: int
    """1: an entry stands for a leaf; 2: for a node of leaves; and so on; or for a part of it, where it was cut."""
    entries: Entries

    @classmethod
    def of_tree(cls, tree: TreeReader, level: int) -> CoarseEntries:
        """The entries of a closed tree at a level; those above it where the tree is not that high."""
        return cls(tree.layout, level, tree.level_entries(level))

    @cached_property
    def words(self) -> Words:
        """The entries as a table of words."""
        return words_of(self.entries)

    @property
    def states(self) -> Words:
        """The states of user-defined aggregates in the entries, a row for each."""
        return states_of(self.layout, self.entries)

    @cached_property
    def lows(self) -> Ints:
        """The first time of each entry; they never fall."""
        return self._bounds("min")

    @cached_property
    def highs(self) -> Ints:
        """The last time of each entry, included; they never fall."""
        return self._bounds("max")

    def _bounds(self, which: str) -> Ints:
        found: Ints = self.entries["columns"][:, self.layout.time][which].astype(np.int64)
        return found

    @cached_property
    def before(self) -> Ints:
        """How many rows are before each entry, and in all."""
        found: Ints = np.concatenate([[0], np.cumsum(self.entries["rows"])]).astype(np.int64)
        return found

    @property
    def widest(self) -> int:
        """The length of time of the longest entry, in ticks."""
        return int((self.highs.view(np.uint64) - self.lows.view(np.uint64)).max()) + 1  # which may be 64 bits long

    def cut_by(self, time: int) -> int | None:
        """The entry that has events before a time and others that are not; None if there is none."""
        place = int(np.searchsorted(self.lows, time)) - 1
        return place if place >= 0 and self.highs[place] >= time else None

    def to_bytes(self) -> bytes:
        """The content of the file."""
        notes = json.dumps(self.layout.to_notes(), ensure_ascii=False).encode()
        notes += b" " * (-len(notes) % 8)
        count, size = len(self.entries), self.entries.dtype.itemsize
        body = notes + self.entries.tobytes()
        tail = struct.pack("<IIII", count, size, self.level, 0) + body
        return _HEAD.pack(MAGIC, VERSION, len(notes), zlib.crc32(tail), count, size, self.level, 0) + body

    @classmethod
    def from_bytes(cls, name: str, content: bytes) -> CoarseEntries:
        """What :meth:`to_bytes` wrote; raises :class:`CorruptionError`, with the file's name, for anything else."""
        if len(content) < _HEAD.size:
            raise CorruptionError(f"{name} has {len(content)} bytes, its head alone has {_HEAD.size}; {_RESTORE}")
        magic, version, notes, check, count, size, level, _ = _HEAD.unpack_from(content)
        if magic != MAGIC or version != VERSION:
            raise CorruptionError(
                f"{name} starts with {magic!r} and version {version}; expected {MAGIC!r} and {VERSION}; {_RESTORE}"
            )
        start = _HEAD.size + notes
        if len(content) != start + count * size or zlib.crc32(content[16:]) != check:
            raise CorruptionError(f"{name} is damaged: its length or its checksum does not fit; {_RESTORE}")
        try:
            layout = Layout.of({"notes": json.loads(content[_HEAD.size : start])})
        except (ValueError, RecursionError) as error:
            raise CorruptionError(f"{name} makes no sense: {error}; {_RESTORE}") from error
        if size == entry_dtype(len(layout.kinds)).itemsize:
            layout = layout.with_states(())
        dtype = entry_dtype(len(layout.kinds), layout.states.words)
        if dtype.itemsize != size or not count:
            raise CorruptionError(
                f"{name} has {count} entries of {size} bytes; expected some of {dtype.itemsize}; {_RESTORE}"
            )
        return cls(layout, level, np.frombuffer(content, dtype, count, start))


_RESTORE: Final = "restore it from a backup"


def write_coarse(medium: Medium, path: str, coarse: CoarseEntries) -> int:
    """Make the file of a coarse split, durably; returns its length."""
    content = coarse.to_bytes()
    with medium.create(path) as file:
        file.write(0, content)
        file.sync()
    medium.sync_names(path.rpartition("/")[0])
    return len(content)


def read_coarse(medium: Medium, path: str) -> CoarseEntries:
    """The coarse split in a file."""
    with medium.open(path) as file:
        return CoarseEntries.from_bytes(path, bytes(file.read(0, file.size())))
