"""The sequence numbers that a tail gives its rows: blocks of them, which the manifest reserves."""

from __future__ import annotations

from typing import Final

from tidelog.store.manifest.manifest import Change, Manifest, ManifestLog
from tidelog.store.manifest.sequence_set import Span

RESERVED: Final = 1 << 32
"""How many sequence numbers a tail reserves at a time."""


class TailNumbers:
    """The next number and the block it is from. Calls must take turns."""

    def __init__(self, manifests: ManifestLog) -> None:
        """Without numbers as yet: see :meth:`go_on_from`."""
        self._manifests = manifests
        self.next = 0
        """The number of the next row."""
        self.block: Span = (0, 0)
        """The reserved numbers that rows get now, ``[first, last)``."""

    def go_on_from(self, number: int, manifest: Manifest) -> None:
        """Go on with a number, or a greater one, in the tail's block if it may still be used.

        It may not if others have committed rows since it was reserved: rows that come later have greater numbers.
        """
        block = manifest.tail_block
        if block is None or number >= block[1] or manifest.next_seq > block[1]:
            block = self._reserved(number, 0)
        self.block = block
        self.next = max(number, block[0])

    def has_room(self, rows: int) -> bool:
        """Whether the block has numbers for so many rows."""
        return self.next + rows <= self.block[1]

    def begin_block(self, rows: int) -> None:
        """Go on with another block, which has numbers for so many rows."""
        self.block = self._reserved(self.next, rows)
        self.next = self.block[0]

    def _reserved(self, number: int, rows: int) -> Span:
        """A new block from ``number`` on, large enough for so many rows."""

        def change(manifest: Manifest) -> Change:
            first = max(number, manifest.next_seq)
            return Change(tail_block=(first, first + max(rows, RESERVED)))

        block = self._manifests.commit(change).tail_block
        assert block is not None
        return block
