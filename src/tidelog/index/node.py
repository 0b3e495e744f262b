"""The bytes of an inner node, and its entries made ready for searching.

A node::

    0   4   "TLTN"
    4   u16 version: 1, or 2 if there are states of user-defined aggregates
    6   u16 flags: 1 written when the tree was closed; such a node need not be full and has no right neighbour
    8   u32 level, from 1 on
    12  u32 number of entries
    16  u32 number of columns
    20  u32 number of words of states at the end of each entry; 0 in version 1
    24  u64 its block id
    32  u64 id of the node left of it on its level, NIL (2**64 - 1) for the first one
    40  u64 id of the node right of it, known by arithmetic when this one is written; NIL if the tree was closed
    48  u64 ordinal of the first leaf below it
    56  entries (:mod:`tidelog.index.entries`)

Its container keeps a checksum of these bytes, so what is checked here is that they are a node of this tree.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from tidelog.index.entries import Entries, entry_dtype, words_of
from tidelog.index.ids import NIL
from tidelog.index.layout import Layout
from tidelog.model.errors import CorruptionError

MAGIC = b"TLTN"
VERSION = 1
VERSION_WITH_STATES = 2
CLOSING = 1

_HEAD = struct.Struct("<4sHHIIIIqqqq")
HEAD_SIZE = _HEAD.size


class Children:
    """Entries in order of time, with what a search needs of them in lists, which Python searches fastest.

    ``lows`` and ``highs`` are the smallest and largest time of each child (closed intervals: one time may be in two of
    them), ``before[i]`` the rows of the children before ``i`` (with one more for all), ``levels`` and ``leaves`` each
    child's level and the ordinal of its first leaf. Never changed once made.
    """

    __slots__ = ("before", "entries", "highs", "ids", "leaves", "levels", "lows", "words")

    def __init__(self, layout: Layout, entries: Entries, levels: Sequence[int], leaves: Sequence[int]) -> None:
        self.entries = entries
        self.words = words_of(entries)
        times = entries["columns"][:, layout.time]
        self.ids: list[int] = entries["child"].tolist()
        self.lows: list[int] = times["min"].astype(np.int64).tolist()
        self.highs: list[int] = times["max"].astype(np.int64).tolist()
        self.before = list(accumulate(entries["rows"].tolist(), initial=0))
        self.levels = levels
        self.leaves = leaves

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def nbytes(self) -> int:
        """About how much memory this takes."""
        return self.entries.nbytes + 200 * len(self.ids)


@dataclass(frozen=True, slots=True)
class Node:
    """An inner node."""

    level: int
    id: int
    previous: int
    next: int
    first_leaf: int
    closing: bool
    entries: Entries

    def to_bytes(self) -> bytes:
        """The bytes that :func:`parse` reads."""
        dtype = self.entries.dtype
        columns = dtype["columns"].shape[0]
        states = dtype["states"].shape[0] if "states" in (dtype.names or ()) else 0
        flags = CLOSING if self.closing else 0
        head = _HEAD.pack(
            MAGIC,
            VERSION_WITH_STATES if states else VERSION,
            flags,
            self.level,
            len(self.entries),
            columns,
            states,
            self.id,
            self.previous,
            self.next,
            self.first_leaf,
        )
        return head + self.entries.tobytes()

    def children(self, layout: Layout) -> Children:
        """Its entries made ready for searching. All children but the last have all the leaves they can have."""
        count, step = len(self.entries), layout.fanout ** (self.level - 1)
        leaves = range(self.first_leaf, self.first_leaf + count * step, step)
        return Children(layout, self.entries, [self.level - 1] * count, leaves)


def parse(content: bytes, id: int, layout: Layout) -> Node:
    """The node in ``content``, which was read as block ``id``; its entries share the memory of ``content``.

    Raises :class:`CorruptionError` for bytes that are not a node of such a tree.
    """
    if len(content) < HEAD_SIZE:
        raise _damaged(id, f"it has {len(content)} bytes, its head alone has {HEAD_SIZE}")
    magic, version, flags, level, count, columns, states, own_id, previous, following, first = _HEAD.unpack_from(
        content
    )
    if magic != MAGIC:
        raise _damaged(id, f"it starts with {magic!r} instead of {MAGIC!r}")
    if version not in (VERSION, VERSION_WITH_STATES):
        raise _damaged(id, f"it is of version {version}, this tidelog reads versions up to {VERSION_WITH_STATES}")
    if own_id != id:
        raise _damaged(id, f"it says that it is node {own_id}")
    if columns != len(layout.kinds):
        raise _damaged(id, f"it has {columns} columns, the tree has {len(layout.kinds)}")
    if states != layout.states.words or (version == VERSION) == bool(states):
        expected = layout.states.words
        raise _damaged(id, f"it is of version {version} and has {states} words of states, the tree has {expected}")
    if not 0 < count <= layout.fanout or not level or flags & ~CLOSING or min(previous, following) < NIL:
        raise _damaged(id, f"level {level}, {count} entries and flags {flags} make no sense")
    dtype = entry_dtype(columns, states)
    if len(content) != HEAD_SIZE + count * dtype.itemsize:
        expected = HEAD_SIZE + count * dtype.itemsize
        raise _damaged(id, f"it has {len(content)} bytes, {count} entries of {columns} columns need {expected}")
    entries: Entries = np.frombuffer(content, dtype, count, HEAD_SIZE)
    if not entries.flags.aligned or entries.ctypes.data % 8:
        entries = entries.copy()  # kernels read whole words
    return Node(level, id, previous, following, first, bool(flags & CLOSING), entries)


def _damaged(id: int, what: str) -> CorruptionError:
    return CorruptionError(f"block {id} is not a node of this tree: {what}")
