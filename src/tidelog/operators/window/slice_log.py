"""Slices by key as they are kept: a snapshot writes those that have changed, whatever else there is.

Chunks are in the order in which they were written; of several images of a slice, which has a key and a place, the last
one counts. Chunks of which no image counts any more are dropped. So that there are never many more images than slices,
some that still count are written once more with those that have changed: those of the oldest chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from tidelog.aggregates.contract import Fold
from tidelog.operators.state import State
from tidelog.operators.window.slices import KEY, PLACE, UNWRITTEN, WRITTEN, Slices

_IMAGES: Final = 3
"""For each slice: from how many images on some are cleaned up, as far as little is to be written again for it."""
_MOST_IMAGES: Final = 8
"""The same, whatever that takes."""
_CHUNKS: Final = 64
_MOST_CHUNKS: Final = 256
"""The same of chunks."""
_FEW: Final = 256
"""Slices that may be written again in any snapshot."""


@dataclass(frozen=True, slots=True)
class _Chunk:
    content: pa.Buffer
    rows: int


class SliceLog:
    """What was written of slices, and is still needed."""

    def __init__(self, folds: Sequence[Fold]) -> None:
        self._folds = tuple(folds)
        self._chunks: dict[int, _Chunk] = {}
        self._next = 0

    def snapshot(self, parts: Sequence[Slices]) -> State:
        """All slices, of several parts; it notes in them where they were written."""
        whole = Slices.joined(parts)
        written = whole.words[WRITTEN]
        numbers, counts = np.unique(written, return_counts=True)
        live = dict(zip(numbers.tolist(), counts.tolist(), strict=True))
        self._chunks = {number: chunk for number, chunk in self._chunks.items() if number in live}
        changed = live.get(UNWRITTEN, 0)
        again = self._cleaned(len(whole), changed, live)
        chosen = written <= again if again >= 0 else written == UNWRITTEN
        if chosen.any():
            rows = whole.take(chosen)
            self._chunks[self._next] = _Chunk(rows.packed(self._folds), len(rows))
            written[chosen] = self._next
            self._next += 1
        first = 0
        for part in parts:
            part.words[WRITTEN] = written[first : first + len(part)]
            first += len(part)
        return State(
            {"next": self._next, "chunks": list(self._chunks)},
            {str(number): chunk.content for number, chunk in self._chunks.items()},
        )

    def _cleaned(self, slices: int, changed: int, live: dict[int, int]) -> int:
        """The last one of the oldest chunks, whose slices are to be written again: these chunks are dropped here."""
        images = changed + sum(chunk.rows for chunk in self._chunks.values())
        room = max(changed // 2, _FEW)
        last = UNWRITTEN
        for number, chunk in list(self._chunks.items()):
            chunks = len(self._chunks) + 1
            if images <= _IMAGES * slices + _FEW and chunks <= _CHUNKS:
                break
            room -= live[number]
            if room < 0 and images <= _MOST_IMAGES * slices + _FEW and chunks <= _MOST_CHUNKS:
                break
            images += live[number] - chunk.rows
            del self._chunks[number]
            last = number
        return last

    def restore(self, state: State) -> Slices:
        """The slices, by key and place. Some that were dropped before the snapshot may be among them."""
        self._next = state.core["next"]
        parts = [Slices.none(self._folds)]
        for number in state.core["chunks"]:
            content = state.chunks[str(number)]
            parts.append(Slices.unpacked(content, self._folds, number))
            self._chunks[number] = _Chunk(content, len(parts[-1]))
        every = Slices.joined(parts)
        words = every.words
        order = np.lexsort((words[WRITTEN], words[PLACE], words[KEY]))
        is_last = np.ones(len(order), np.bool_)
        keys, places = words[KEY, order], words[PLACE, order]
        is_last[:-1] = (keys[1:] != keys[:-1]) | (places[1:] != places[:-1])
        return every.take(order[is_last])
