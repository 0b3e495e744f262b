"""Slices by key as they are kept: a snapshot writes those that have changed, whatever else there is.

Chunks are in the order in which they were written; of several images of a slice, which has a key and a place, the last
one counts. Chunks of which no image counts any more are dropped. So that there are never many more images than slices,
some that still count are written once more with those that have changed: those of chunks with few of them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from tidelog.aggregates.contract import Fold
from tidelog.operators.base import Ints
from tidelog.operators.state import State
from tidelog.operators.window.slices.slices import KEY, PLACE, UNWRITTEN, WRITTEN, Slices

_IMAGES: Final = 3
"""For each slice: from how many images on some are cleaned up, as far as little is to be written again for it."""
_MOST_IMAGES: Final = 8
"""The same, whatever that takes."""
_CHUNKS: Final = 64
_MOST_CHUNKS: Final = 256
"""The same of chunks."""
_FEW: Final = 64
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
        self._live: dict[int, int] = {}
        """How many slices of each chunk still count."""
        self._next = 0

    @property
    def chunks(self) -> Collection[int]:
        """The numbers of chunks that are kept."""
        return self._chunks.keys()

    def forget(self, written: Ints) -> None:
        """Slices with these chunks are gone, or have changed."""
        numbers, counts = np.unique(written, return_counts=True)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            if number in self._live:
                self._live[number] -= count

    def begin(self, slices: int, changed: int) -> list[int]:
        """Begin a snapshot of so many slices, some of which have changed, or are new.

        Gives the chunks whose slices are to be written again, with all that have changed.
        """
        for number in [number for number, count in self._live.items() if not count]:
            del self._live[number], self._chunks[number]
        return self._cleaned(slices, changed)

    def write(self, slices: Slices) -> int:
        """Write these; gives the number of their chunk."""
        number, self._next = self._next, self._next + 1
        self._chunks[number] = _Chunk(slices.packed(self._folds), len(slices))
        self._live[number] = len(slices)
        return number

    def state(self) -> State:
        """All chunks."""
        return State(
            {"next": self._next},
            {str(number): chunk.content for number, chunk in self._chunks.items()},
        )

    def snapshot(self, slices: Slices) -> State:
        """Some slices, all that there are; it notes in them where they were written."""
        written = slices.words[WRITTEN]
        numbers, counts = np.unique(written, return_counts=True)
        live = dict(zip(numbers.tolist(), counts.tolist(), strict=True))
        self._live = {number: live.get(number, 0) for number in self._chunks}
        again = self.begin(len(slices), live.get(UNWRITTEN, 0))
        chosen = np.isin(written, [UNWRITTEN, *again])
        if chosen.any():
            slices.words[WRITTEN, chosen] = self.write(slices.take(chosen))
        return self.state()

    def _cleaned(self, slices: int, changed: int) -> list[int]:
        """Chunks with few slices that count, which are to be written again: these chunks are dropped here."""
        images = changed + sum(chunk.rows for chunk in self._chunks.values())
        room = max(changed // 2, _FEW)
        again: list[int] = []
        for number in sorted(self._chunks, key=self._live.__getitem__):
            chunks = len(self._chunks) + 1
            if images <= _IMAGES * slices + _FEW and chunks <= _CHUNKS:
                break
            room -= self._live[number]
            if room < 0 and images <= _MOST_IMAGES * slices + _FEW and chunks <= _MOST_CHUNKS:
                break
            images += self._live[number] - self._chunks[number].rows
            del self._chunks[number], self._live[number]
            again.append(number)
        return again

    def restore(self, state: State) -> Slices:
        """The slices, by key and place. Some that were dropped before the snapshot may be among them."""
        self._next = state.core["next"]
        parts = [Slices.none(self._folds)]
        for number in sorted(map(int, state.chunks)):
            content = state.chunks[str(number)]
            parts.append(Slices.unpacked(content, self._folds, number))
            self._chunks[number] = _Chunk(content, len(parts[-1]))
        every = Slices.joined(parts)
        words = every.words
        order = np.lexsort((words[WRITTEN], words[PLACE], words[KEY]))
        is_last = np.ones(len(order), np.bool_)
        keys, places = words[KEY, order], words[PLACE, order]
        is_last[:-1] = (keys[1:] != keys[:-1]) | (places[1:] != places[:-1])
        found = every.take(order[is_last])
        numbers, counts = np.unique(found.words[WRITTEN], return_counts=True)
        self._live = dict.fromkeys(self._chunks, 0) | dict(zip(numbers.tolist(), counts.tolist(), strict=True))
        return found
