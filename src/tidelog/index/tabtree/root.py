"""The root of a closed tree, as it is kept in the metadata of a commit."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from tidelog.index.ids import NIL
from tidelog.model.errors import CorruptionError

_MAGIC = b"TLTR"
_VERSION = 1
_HEAD = struct.Struct("<4sHHIIqqqq")
_ALIAS = struct.Struct("<qq")


@dataclass(frozen=True, slots=True)
class Root:
    """Where a closed tree begins and what it consists of.

    ``id`` is NIL for a tree without rows; ``level`` is 0 if the root is the only leaf. ``closing`` has (level, id) for
    each node that was written when the tree was closed, bottom-up: on its level, such a node is the right neighbour of
    the last full one, whose link names the id that the next full one would have had.
    """

    id: int
    level: int
    fanout: int
    leaves: int
    rows: int
    blocks: int
    closing: tuple[tuple[int, int], ...]

    @property
    def nodes(self) -> int:
        """How many inner nodes there are."""
        return self.blocks - self.leaves

    def to_bytes(self) -> bytes:
        """The bytes that :meth:`from_bytes` reads (docs/format.md)."""
        counts = (self.level, self.fanout, len(self.closing), self.id, self.leaves, self.rows, self.blocks)
        return _HEAD.pack(_MAGIC, _VERSION, *counts) + b"".join(_ALIAS.pack(*alias) for alias in self.closing)

    @classmethod
    def from_bytes(cls, content: bytes) -> Root:
        """The root in ``content``. Raises :class:`CorruptionError` for other bytes."""
        if len(content) < _HEAD.size or content[:4] != _MAGIC:
            raise CorruptionError(f"found {content[:4]!r} and {len(content)} bytes, expected the root of a tree")
        _, version, level, fanout, aliases, id, leaves, rows, blocks = _HEAD.unpack_from(content)
        if version != _VERSION:
            raise CorruptionError(f"found a root of version {version}, this tidelog reads version {_VERSION}")
        sound = fanout >= 2 and 0 <= leaves <= min(rows, blocks) and NIL <= id < blocks and (id == NIL) == (leaves == 0)
        if not sound or len(content) != _HEAD.size + aliases * _ALIAS.size:
            raise CorruptionError(f"found a root of {len(content)} bytes whose numbers make no sense")
        closing = tuple(_ALIAS.iter_unpack(content[_HEAD.size :]))
        return cls(id, level, fanout, leaves, rows, blocks, closing)


def closing_levels(leaves: int, fanout: int) -> tuple[list[int], int]:
    """How a tree of so many leaves is closed: the levels of the nodes to be written, bottom-up, and that of the root.

    A level gets a node if something on the level below has none over it yet, until one block is over all. So if any are
    written, the last one is the root; otherwise it is the one leaf, or the last full node.
    """
    levels = []
    level, waiting, rest = 0, leaves % fanout, leaves // fanout
    while rest or waiting > 1:
        level += 1
        if waiting:
            levels.append(level)
        waiting, rest = rest % fanout + bool(waiting), rest // fanout
    return levels, level
