"""Slices without keys."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidelog.aggregates.contract import Fold
from tidelog.operators.base import Ints
from tidelog.operators.state import State
from tidelog.operators.window import kernels
from tidelog.operators.window.frames import Frames
from tidelog.operators.window.slices.slices import PLACE, Slices
from tidelog.operators.window.slices.store import Found, SliceStore, found_windows, in_windows
from tidelog.operators.window.sliding import Sliding, chosen


@dataclass(slots=True)
class _Block:
    slices: Slices
    number: int
    chunk: pa.Buffer | None = None


class PlainStore(SliceStore):
    """Slices in the order of their places, which are dropped as they were added, so each chunk is written once.

    The newest one, to which rows may be added, is by itself until another one comes, or a window of it is asked for.
    """

    def __init__(self, folds: Sequence[Fold]) -> None:
        super().__init__(folds)
        self._blocks: list[_Block] = []
        self._open = Slices.none(folds)
        self._next = 0
        self._sliding = Sliding(folds)
        self._bounds = [0]
        """How many slices stand before each block, and before the next one."""

    def __len__(self) -> int:
        return self._bounds[-1] - self._bounds[0] + len(self._open)

    @property
    def first_place(self) -> int | None:
        """That of the first one."""
        first = self._blocks[0].slices if self._blocks else self._open
        return int(first.words[PLACE, 0]) if len(first) else None

    def add(self, frames: Frames, slices: Slices) -> None:
        """The last one stays open."""
        slices = in_windows(frames, self._open.continued(slices, self._folds))
        if len(slices) > 1:
            self._close(slices.take(slice(0, -1)))
            slices = slices.take(slice(-1, None))
        self._open = slices

    def _close(self, slices: Slices) -> None:
        self._put(_Block(slices, self._next))
        self._next += 1

    def _put(self, block: _Block) -> None:
        self._blocks.append(block)
        self._sliding.append(block.slices.states)
        self._bounds.append(self._bounds[-1] + len(block.slices))

    def windows(self, frames: Frames, keys: Ints, low: Ints, high: Ints) -> Found | None:
        """By number."""
        if not len(keys):
            return None
        if len(self._open) and frames.numbers(self._open.words[PLACE])[0][0] < high[0]:
            self._close(self._open)
            self._open = Slices.none(self._folds)
        return self._numbered(frames, int(low[0]), int(high[0])) if self._blocks else None

    def _numbered(self, frames: Frames, low: int, high: int) -> Found | None:
        first, last = self._blocks[0].slices.words[PLACE, 0], self._blocks[-1].slices.words[PLACE, -1]
        bounds = frames.numbers(np.array([first, last]))
        low, high = max(low, int(bounds[0][0])), min(high, int(bounds[1][1]) + 1)
        if low >= high:
            return None
        if high - low <= 4 * (self._bounds[-1] - self._bounds[0]) + 64:
            numbers = np.arange(low, high, dtype=np.int64)
            begins, ends = self._counts_below(frames.starts(numbers)), self._counts_below(frames.ends(numbers))
            known = begins < ends
            if not known.all():
                numbers, begins, ends = numbers[known], begins[known], ends[known]
        else:  # most have no slices
            places = self._words(self._bounds[0], self._bounds[-1])[PLACE]
            keys = np.zeros(len(places), np.int64)
            numbers, begins, ends = found_windows(*frames.numbers(places), keys, np.array([low]), np.array([high]))
            begins, ends = begins + self._bounds[0], ends + self._bounds[0]
        if not len(numbers):
            return None
        states = self._sliding.merged(begins, ends)
        return Found(numbers, self._words_at(begins), self._words_at(ends - 1), states)

    def _counts_below(self, bounds: Ints) -> Ints:
        """How many slices have places below bounds, which rise. Only those between the bounds are looked at."""
        first, last = (self._count_below(int(bound)) for bound in bounds[[0, -1]])
        places = np.ascontiguousarray(self._words(first, last)[PLACE])
        if 8 * len(bounds) < len(places):
            return np.searchsorted(places, bounds) + first
        counts = np.empty(len(bounds), np.int64)
        kernels.count_below(places, bounds, counts)
        return counts + first

    def _count_below(self, bound: int) -> int:
        block = bisect_left(self._blocks, bound, key=lambda each: int(each.slices.words[PLACE, 0])) - 1
        if block < 0:
            return self._bounds[0]
        return self._bounds[block] + int(np.searchsorted(self._blocks[block].slices.words[PLACE], bound))

    def _words(self, first: int, last: int) -> Ints:
        """The words of slices from one number to another."""
        if first == last:
            return Slices.none(self._folds).words
        low, high = bisect_right(self._bounds, first) - 1, bisect_left(self._bounds, last)
        parts = [block.slices.words for block in self._blocks[low:high]]
        whole = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        return whole[:, first - self._bounds[low] : last - self._bounds[low]]

    def _words_at(self, numbers: Ints) -> Ints:
        """The words of some slices, whose numbers rise."""
        first = int(numbers[0])
        return chosen(self._words(first, int(numbers[-1]) + 1).T, numbers - first).T

    def drop(self, frames: Frames, keys: Ints, low: Ints) -> None:
        """Forget whole blocks from the front."""
        gone = 0
        if not len(low):
            return
        for block in self._blocks:
            if frames.numbers(block.slices.words[PLACE, -1:])[1][0] >= low[0]:
                break
            gone += 1
        if gone:
            del self._bounds[:gone]
            self._sliding.drop(self._bounds[0])
            del self._blocks[:gone]

    def keys(self) -> Ints:
        """There is only one, if it has any."""
        return np.zeros(1 if self._blocks or len(self._open) else 0, np.int64)

    def renumber(self, frames: Frames, keys: Ints) -> None:
        """There is only one."""

    def snapshot(self) -> State:
        """Blocks, and what is open by itself."""
        chunks: dict[str, pa.Buffer] = {}
        for block in self._blocks:
            if block.chunk is None:
                block.chunk = block.slices.packed(self._folds)
            chunks[str(block.number)] = block.chunk
        core = {"next": self._next, "blocks": [block.number for block in self._blocks], "open": None}
        if len(self._open):
            core["open"], self._next = self._next, self._next + 1
            core["next"] = self._next
            chunks[str(core["open"])] = self._open.packed(self._folds)
        return State(core, chunks)

    def restore(self, frames: Frames | None, state: State) -> None:
        """Have the same blocks."""
        self._next = state.core["next"]
        for number in state.core["blocks"]:
            self._put(_Block(Slices.unpacked(state.chunks[str(number)], self._folds), number))
        if state.core["open"] is not None:
            self._open = Slices.unpacked(state.chunks[str(state.core["open"])], self._folds)
