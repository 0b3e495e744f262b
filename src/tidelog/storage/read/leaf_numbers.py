"""The numbers of a few leaves, decoded into memory that is used again, by the kernels that make Arrow arrays too."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tidelog.storage.codec.numeric.columns import Words
from tidelog.storage.codec.numeric.decoder import decode_located
from tidelog.storage.read.leaf_pieces import LeafPieces, NumberMemory, Numbers


class LeafNumbers:
    """Decodes some columns, given by their positions and types, of a few leaves at a time. For one thread."""

    def __init__(self, columns: tuple[int, ...], types: Sequence[pa.DataType], leaves: int) -> None:
        """``leaves`` is how many are decoded with each call."""
        self.pieces = LeafPieces(columns, leaves)
        self._memory = NumberMemory(types)
        shape = len(columns), leaves
        self._flat = self.pieces.offsets.ravel(), self.pieces.lengths.ravel()
        self._floats = np.repeat(self._memory.floats, leaves)
        self._widths = np.repeat(self._memory.widths, leaves)
        self._starts, self._stops, self._targets = (np.zeros(shape, np.int64) for _ in range(3))
        self._remarks = np.empty(len(columns) * leaves, np.uint8)
        self._arranged: list[int] = []
        """The rows of the leaves that the memory is laid out for; mostly the same as the time before."""

    def _arrange(self, rows: list[int], total: int) -> None:
        """Have the rows of each leaf stand behind those of the one before it."""
        memory = self._memory
        memory.make_room(total)
        before = 0
        for leaf, count in enumerate(rows):
            self._stops[:, leaf] = count
            self._targets[:, leaf] = memory.bases + before * memory.widths
            before += count
        self._arranged = rows

    def read(
        self, words: Words, places: Sequence[int], sizes: Sequence[int], ids: Sequence[int]
    ) -> tuple[Numbers, list[int]] | None:
        """The columns of leaves whose frames stand at byte ``places`` of ``words``, and the rows of each leaf.

        The rows of all leaves, one behind the other, in an array for each column; valid until the next call. None if
        there are nulls, or an encoding that only Arrow arrays are made of. Raises :class:`CorruptionError` if a head or
        a column is not as it was written.
        """
        self.pieces.locate(words, places, sizes, ids)
        rows: list[int] = self.pieces.rows.tolist()
        total = sum(rows)
        if rows != self._arranged:
            self._arrange(rows, total)
        remarks = decode_located(
            words,
            *self._flat,
            self._starts.ravel(),
            self._stops.ravel(),
            self._floats,
            self._widths,
            self._targets.ravel(),
            self._memory.views,
            self._remarks,
        )
        return None if remarks else ([column[:total] for column in self._memory.columns], rows)
