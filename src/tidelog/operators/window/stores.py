"""Slices that will not change any more, as far as windows that are still open need them, and the windows made of them.

They are written with the slices that rows may still be added to: what has changed since the last snapshot.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.aggregates.base import States
from tidelog.aggregates.contract import Fold
from tidelog.operators.base import Ints
from tidelog.operators.state import State
from tidelog.operators.window import kernels
from tidelog.operators.window.frames import Frames
from tidelog.operators.window.slice_log import SliceLog
from tidelog.operators.window.slices import KEY, PLACE, Slices
from tidelog.operators.window.sliding import Sliding, chosen, merge_ranges

IsOpen: TypeAlias = Callable[[Slices], npt.NDArray[np.bool_]]
"""Tells of slices to which of them rows may still be added."""


@dataclass(frozen=True, slots=True)
class Found:
    """Windows: their numbers, words of their first and of their last slices, and their states."""

    numbers: Ints
    first: Ints
    last: Ints
    states: list[States]


class SliceStore(ABC):
    """Slices in the order in which they were closed."""

    def __init__(self, folds: Sequence[Fold]) -> None:
        self._folds = tuple(folds)

    @property
    @abstractmethod
    def first_place(self) -> int | None:
        """The least place of all slices."""

    @abstractmethod
    def add(self, slices: Slices) -> None:
        """Put slices behind the others."""

    @abstractmethod
    def windows(self, frames: Frames, low: Ints, high: Ints) -> Found | None:
        """The windows of each key from number ``low`` to ``high`` (exclusive) that have slices; None if there are none.

        ``low`` never falls, and no window is asked for twice.
        """

    @abstractmethod
    def drop(self, frames: Frames, low: Ints) -> None:
        """Forget slices that are in no window of their key from number ``low`` on."""

    @abstractmethod
    def keys(self) -> Ints:
        """The numbers of keys that have slices."""

    @abstractmethod
    def renumber(self, keys: Ints) -> None:
        """Take other numbers for keys, by the old ones."""

    @abstractmethod
    def snapshot(self, open_: Slices) -> State:
        """All slices, and those that are open."""

    @abstractmethod
    def restore(self, state: State, is_open: IsOpen) -> Slices:
        """Have the same slices; gives those that are open. Some that have been dropped may be there again."""


def make_store(folds: Sequence[Fold], *, has_keys: bool) -> SliceStore:
    """A store for slices."""
    return KeyedStore(folds) if has_keys else PlainStore(folds)


@dataclass(slots=True)
class _Block:
    slices: Slices
    number: int
    chunk: pa.Buffer | None = None


class PlainStore(SliceStore):
    """Without keys: slices are in the order of their places, and windows share what they have in common from one call
    to the next. Slices are dropped as they were added, so each chunk is written once."""

    def __init__(self, folds: Sequence[Fold]) -> None:
        super().__init__(folds)
        self._blocks: list[_Block] = []
        self._next = 0
        self._sliding = Sliding(folds)
        self._bounds = [0]
        """How many slices stand before each block, and before the next one."""

    @property
    def first_place(self) -> int | None:
        """That of the first one."""
        return int(self._blocks[0].slices.words[PLACE, 0]) if self._blocks else None

    def add(self, slices: Slices) -> None:
        """Put slices behind the others."""
        if len(slices):
            self._put(_Block(slices, self._next))
            self._next += 1

    def _put(self, block: _Block) -> None:
        self._blocks.append(block)
        self._sliding.append(block.slices.states)
        self._bounds.append(self._bounds[-1] + len(block.slices))

    def windows(self, frames: Frames, low: Ints, high: Ints) -> Found | None:
        """By number."""
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
            numbers, begins, ends = _found(frames, keys, places, np.array([low]), np.array([high]))
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

    def drop(self, frames: Frames, low: Ints) -> None:
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
        """There is only one."""
        return np.zeros(1, np.int64)

    def renumber(self, keys: Ints) -> None:
        """There is only one."""

    def snapshot(self, open_: Slices) -> State:
        """Blocks, and what is open by itself."""
        chunks: dict[str, pa.Buffer] = {}
        for block in self._blocks:
            if block.chunk is None:
                block.chunk = block.slices.packed(self._folds)
            chunks[str(block.number)] = block.chunk
        core = {"next": self._next, "blocks": [block.number for block in self._blocks], "open": None}
        if len(open_):
            core["open"], self._next = self._next, self._next + 1
            core["next"] = self._next
            chunks[str(core["open"])] = open_.packed(self._folds)
        return State(core, chunks)

    def restore(self, state: State, is_open: IsOpen) -> Slices:
        """Have the same blocks."""
        self._next = state.core["next"]
        for number in state.core["blocks"]:
            self._put(_Block(Slices.unpacked(state.chunks[str(number)], self._folds), number))
        own = state.core["open"]
        return Slices.none(self._folds) if own is None else Slices.unpacked(state.chunks[str(own)], self._folds)


class KeyedStore(SliceStore):
    """With keys: windows share what they have in common within a call."""

    def __init__(self, folds: Sequence[Fold]) -> None:
        super().__init__(folds)
        self._slices = Slices.none(folds)
        self._fresh: list[Slices] = []
        self._log = SliceLog(folds)

    @property
    def first_place(self) -> int | None:
        """The least of all keys."""
        every = self._every()
        return int(every.words[PLACE].min()) if len(every) else None

    def add(self, slices: Slices) -> None:
        """Put slices behind the others."""
        if len(slices):
            self._fresh.append(slices)

    def _every(self) -> Slices:
        """All slices, by key and place."""
        if self._fresh:
            joined = Slices.joined([self._slices, *self._fresh])
            self._slices = joined.take(np.lexsort((joined.words[PLACE], joined.words[KEY])))
            self._fresh = []
        return self._slices

    def windows(self, frames: Frames, low: Ints, high: Ints) -> Found | None:
        """By key, then by number."""
        every = self._every()
        if not len(every):
            return None
        words = every.words
        numbers, begins, ends = _found(frames, words[KEY].copy(), words[PLACE].copy(), low, high)
        if not len(numbers):
            return None
        states = merge_ranges(self._folds, every.states, begins, ends)
        return Found(numbers, words[:, begins], words[:, ends - 1], states)

    def drop(self, frames: Frames, low: Ints) -> None:
        """Forget all of them, whichever keys were silent."""
        every = self._every()
        firsts, lasts = frames.numbers(every.words[PLACE])
        is_needed = np.maximum(firsts, low[every.words[KEY]]) <= lasts
        if not is_needed.all():
            self._slices = every.take(is_needed)

    def keys(self) -> Ints:
        """Those of slices."""
        return np.unique(self._every().words[KEY])

    def renumber(self, keys: Ints) -> None:
        """Everything is written anew then."""
        self._slices = self._every().renumbered(keys)

    def snapshot(self, open_: Slices) -> State:
        """What has changed."""
        return self._log.snapshot([self._every(), open_])

    def restore(self, state: State, is_open: IsOpen) -> Slices:
        """Tell open slices from others."""
        every = self._log.restore(state)
        mask = is_open(every)
        self._slices = every.take(~mask)
        return every.take(mask)


def _found(frames: Frames, keys: Ints, places: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints, Ints]:
    """The windows of slices in the order of key and place: numbers, and which slices."""
    firsts, lasts = frames.numbers(places)
    count = kernels.count_windows(keys, firsts, lasts, low, high)
    numbers, begins, ends = (np.empty(count, np.int64) for _ in range(3))
    kernels.find_windows(keys, firsts, lasts, low, high, numbers, begins, ends)
    return numbers, begins, ends
