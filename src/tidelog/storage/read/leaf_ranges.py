"""The rows at the ends of a time range: those of a leaf or two that are in it, without decoding the whole leaves.

Vectors can be decoded one by one. So one vector of the times tells where a leaf is cut, and of the other columns only
vectors with rows in the range are decoded. What that takes depends on how many rows are in the range, and hardly on how
many the leaf has: one that took a burst of late rows has up to four times as many as others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tidelog.storage.codec import Ints
from tidelog.storage.codec.numeric.columns import Words
from tidelog.storage.codec.numeric.decoder import cut_located, decode_located
from tidelog.storage.read.leaf_pieces import LeafPieces, NumberMemory, Numbers


class LeafRanges:
    """Decodes, of a few leaves at a time, some columns of the rows whose times are in a range. For one thread.

    Columns are given by their positions and types; the first has the times, and only tells which rows are wanted.
    """

    def __init__(self, columns: tuple[int, ...], types: Sequence[pa.DataType], leaves: int) -> None:
        """``leaves`` is how many are decoded with each call."""
        self.pieces = LeafPieces(columns, leaves)
        self._memory = NumberMemory(types[1:])
        shape = len(columns) - 1, leaves
        self._bounds = np.zeros((leaves, 2), np.int64)
        self._cuts = np.zeros(2 * leaves, np.int64)
        self._starts, self._stops, self._targets = (np.zeros(shape, np.int64) for _ in range(3))
        self._flat = [
            each.ravel()
            for each in (self.pieces.offsets[1:], self.pieces.lengths[1:], self._starts, self._stops, self._targets)
        ]
        self._floats = np.repeat(self._memory.floats, leaves)
        self._widths = np.repeat(self._memory.widths, leaves)
        self._remarks = np.empty(len(self._floats), np.uint8)

    def read(
        self,
        words: Words,
        places: Sequence[int],
        sizes: Sequence[int],
        ids: Sequence[int],
        ranges: Sequence[tuple[int, int]],
    ) -> tuple[Numbers, Ints] | None:
        """Columns of leaves whose frames stand at byte ``places`` of ``words``, and where the rows wanted are in them.

        ``ranges`` are the first and the last time wanted of each leaf. Wanted of leaf i are rows ``cuts[2 * i]`` to
        ``cuts[2 * i + 1]`` (exclusive) of the arrays, one for each column but the times; what stands elsewhere in them
        has no meaning, and nothing is valid any more after the next call. None if there are nulls, or an encoding that
        only Arrow arrays are made of. Raises :class:`CorruptionError` if a head or a column is not as it was written.
        """
        pieces, memory = self.pieces, self._memory
        pieces.locate(words, places, sizes, ids)
        if memory.make_room(sum(pieces.rows.tolist())):
            self._targets[:, 0] = memory.bases
        self._bounds[:] = ranges
        arranged = self._starts, self._stops, self._targets
        if cut_located(
            words, pieces.offsets, pieces.lengths, pieces.rows, self._bounds, memory.widths, arranged, self._cuts
        ):
            return None
        offsets, lengths, starts, stops, targets = self._flat
        if len(memory.columns) and decode_located(
            words,
            offsets,
            lengths,
            starts,
            stops,
            self._floats,
            self._widths,
            targets,
            memory.views,
            self._remarks,
        ):
            return None
        return memory.columns, self._cuts
