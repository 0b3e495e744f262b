"""The address translation tree: from block ids to addresses (spec/event-store.md 2.4, 2.5, 8.2).

Ids are dense, so pages hold addresses only and routing is arithmetic: entry ``id mod b`` of page ``id // b`` on
level 0 is the block's address, and a page on level ``i + 1`` holds the positions of ``b`` pages of level ``i``. A page
is a unit (``units``) that is written when it is full, behind the macro block that filled it; a parent that
becomes full directly follows its last child. The right flank exists only in memory. Behind the unit
header a page is::

    32  u64 prev          position of the page before it on its level, or NIL
    40  u64 prev parent   position of the page before its parent on the parent's level, or NIL
    48  u32 level
    52  u32 index         number of the page on its level
    56  u32 entries
    60  u32 zero
    64  u64 for each entry: an address on level 0, a position (in strides) above

``prev`` and ``prev parent`` are what the flank is rebuilt from after a crash.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidelog.model.errors import CorruptionError
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

MAGIC = b"TLAP"

Addresses = npt.NDArray[np.uint64]

_HEAD = struct.Struct("<QQIIII")
_ENTRIES_AT = HEADER_SIZE + _HEAD.size

PAGE_SIZE = 8192
FANOUT = (PAGE_SIZE - _ENTRIES_AT) // 8
"""Entries of a page of the regular size (spec/event-store.md 2.4 has 1020 with a smaller header)."""


def page_length(fanout: int) -> int:
    """Bytes of a page unit."""
    return round_to_stride(_ENTRIES_AT + 8 * fanout)


@dataclass(frozen=True, slots=True)
class Page:
    """A full page and where it stands, in strides."""

    position: int
    level: int
    index: int
    prev: int
    prev_parent: int
    entries: Addresses

    def write(self, file: File, place: Place) -> Place:
        """Write the page at ``place``, which must be its position; returns the place behind it."""
        head = bytearray(_ENTRIES_AT)
        _HEAD.pack_into(head, HEADER_SIZE, self.prev, self.prev_parent, self.level, self.index, len(self.entries), 0)
        head += self.entries.tobytes()
        length = page_length(len(self.entries))
        crc = seal_head(head, MAGIC, length, place)
        file.write(place.offset, head, bytes(length - len(head)))
        return Place(place.offset + length, place.ordinal + 1, crc)


def parse_page(unit: Unit) -> Page:
    """The page in a unit whose head was verified; raises InvalidUnit if it is none."""
    if unit.magic != MAGIC or len(unit.head) < _ENTRIES_AT:
        raise InvalidUnit(f"the unit at offset {unit.offset} is not an address page")
    prev, prev_parent, level, index, count, _ = _HEAD.unpack_from(unit.head, HEADER_SIZE)
    if len(unit.head) != _ENTRIES_AT + 8 * count:
        raise InvalidUnit(f"the address page at offset {unit.offset} has an impossible number of entries")
    entries = np.frombuffer(unit.head, "<u8", count, _ENTRIES_AT)
    return Page(unit.offset // STRIDE, level, index, prev, prev_parent, entries)


def read_page(file: File, position: int, limit: int) -> Page:
    """The page at ``position`` (in strides)."""
    try:
        return parse_page(read_unit(file, position * STRIDE, limit))
    except InvalidUnit as error:
        raise CorruptionError(f"{file.name}: {error}") from None


class Translation:
    """Translates the ids below ``next_id``; fixed, and safe to use from several threads."""

    def __init__(
        self, fanout: int, flank: list[list[int]], written: list[int], load: Callable[[int], Addresses]
    ) -> None:
        """``flank[i]``: entries of level ``i`` behind its ``written[i]`` pages; ``load`` reads a page's entries."""
        self.fanout = fanout
        self._flank = flank
        self._written = written
        self._load = load

    @property
    def covered(self) -> int:
        """Ids below this stand in written pages."""
        return self._written[0] * self.fanout

    @property
    def next_id(self) -> int:
        """The first id without an address."""
        return self.covered + len(self._flank[0])

    def lookup(self, first: int, last: int) -> Addresses:
        """The addresses of the ids ``first`` to ``last`` (exclusive), all below ``next_id``."""
        covered = self.covered
        if last - first == 1 and first < covered:  # the most frequent question
            page, entry = divmod(first, self.fanout)
            return self._load(self._page_position(0, page))[entry : entry + 1]
        parts = []
        at = first
        while at < min(last, covered):
            page, entry = divmod(at, self.fanout)
            stop = min(last, (page + 1) * self.fanout)
            entries = self._load(self._page_position(0, page))
            parts.append(entries[entry : entry + stop - at])
            at = stop
        if last > covered:
            parts.append(np.array(self._flank[0][max(first, covered) - covered : last - covered], np.uint64))
        return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, np.uint64), *parts])

    def _page_position(self, level: int, index: int) -> int:
        written = self._written[level + 1]
        parent, entry = divmod(index, self.fanout)
        if parent >= written:
            return self._flank[level + 1][index - written * self.fanout]
        return int(self._load(self._page_position(level + 1, parent))[entry])


class TranslationTree(Translation):
    """The writer's tree: grows by addresses and gives out pages as they fill."""

    def __init__(self, fanout: int, load: Callable[[int], Addresses]) -> None:
        super().__init__(fanout, [[], []], [0, 0], load)
        self._last = [NIL, NIL]

    @property
    def last_page(self) -> int:
        """Position of the last page written on level 0, or NIL."""
        return self._last[0]

    def first_position(self, default: int) -> int:
        """Position of the macro block where the first id behind the written pages stands; ``default`` if none does."""
        return self._flank[0][0] >> 16 if self._flank[0] else default

    def add(self, address: int) -> None:
        """Set the address of ``next_id``."""
        self._flank[0].append(address)

    def extend(self, addresses: Iterable[int]) -> None:
        """Set the addresses of ``next_id`` and those behind it."""
        self._flank[0].extend(addresses)

    def take_pages(self, position: int) -> list[Page]:
        """The pages that are full now, in the order in which they must be written from ``position`` (strides) on."""
        pages: list[Page] = []
        while len(self._flank[0]) >= self.fanout:
            self._take_page(0, position, pages)
        return pages

    def _take_page(self, level: int, position: int, pages: list[Page]) -> None:
        if level + 2 > len(self._flank):
            self._add_level()
        strides = page_length(self.fanout) // STRIDE
        here = position + strides * len(pages)
        full, self._flank[level] = self._flank[level][: self.fanout], self._flank[level][self.fanout :]
        pages.append(
            Page(
                here,
                level,
                self._written[level],
                self._last[level],
                self._last[level + 1],
                np.array(full, "<u8"),
            )
        )
        self._last[level] = here
        self._written[level] += 1
        self._flank[level + 1].append(here)
        if len(self._flank[level + 1]) == self.fanout:
            self._take_page(level + 1, position, pages)

    def _add_level(self) -> None:
        self._flank.append([])
        self._written.append(0)
        self._last.append(NIL)

    def freeze(self, load: Callable[[int], Addresses]) -> Translation:
        """A copy that stays as it is while this tree grows; ``load`` reads a page's entries for it."""
        return Translation(self.fanout, [list(level) for level in self._flank], list(self._written), load)

    @classmethod
    def recover(
        cls,
        fanout: int,
        last_page: int,
        read: Callable[[int], Page | None],
        load: Callable[[int], Addresses],
    ) -> TranslationTree:
        """Rebuild the flank above level 0 from the last page of level 0 (spec/event-store.md 8.2).

        ``read`` gives the page at a position, or None if no page stands there. The entries of level 0 behind its
        last page are then to be added by the caller, who finds them in the macro blocks.
        """
        tree = cls(fanout, load)
        if last_page == NIL:
            return tree
        strides = page_length(fanout) // STRIDE
        level, page = 0, _existing(read, last_page)
        while True:
            if level + 2 > len(tree._flank):
                tree._add_level()
            tree._last[level] = page.position
            tree._written[level] = page.index + 1
            parent = read(page.position + strides)
            if parent is not None and parent.level == level + 1 and int(parent.entries[-1]) == page.position:
                level, page = level + 1, parent  # its parent is full and written: that level's flank is empty
                continue
            siblings = [page.position]
            current = page
            while current.prev != NIL:
                before = _existing(read, current.prev)
                if before.prev_parent != current.prev_parent:
                    break  # belongs to an older parent, which is written
                siblings.append(before.position)
                current = before
            tree._flank[level + 1] = siblings[::-1]
            if page.prev_parent == NIL:
                return tree
            level, page = level + 1, _existing(read, page.prev_parent)


def _existing(read: Callable[[int], Page | None], position: int) -> Page:
    page = read(position)
    if page is None:
        raise CorruptionError(f"no address page at offset {position * STRIDE}, where another page refers to")
    return page
