"""Slices of rows, as far as windows that are still open need them, and the windows made of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidelog.aggregates.base import States
from tidelog.aggregates.contract import Fold
from tidelog.model.arrays import integer_column, integers
from tidelog.operators.base import Ints
from tidelog.operators.state import State, packed, unpacked
from tidelog.operators.window import kernels
from tidelog.operators.window.frames import Frames
from tidelog.operators.window.sliding import Sliding, chosen, merge_ranges

WORDS = ("place", "key", "first_row", "last_row", "first_time", "last_time")
"""What is known of a slice beside its states: where it begins, its key, and the numbers and times of its rows."""
PLACE, KEY, FIRST_ROW, LAST_ROW, FIRST_TIME, LAST_TIME = range(len(WORDS))

_SCHEMA = pa.schema([(name, pa.int64()) for name in WORDS])


@dataclass(frozen=True, slots=True)
class Slices:
    """Some slices: a row of :data:`WORDS` for each of these, and the states of each aggregate."""

    words: Ints
    states: list[States]

    @classmethod
    def none(cls, folds: Sequence[Fold]) -> Slices:
        """No slices."""
        return cls(np.empty((len(WORDS), 0), np.int64), [fold.start()[:0] for fold in folds])

    def __len__(self) -> int:
        return int(self.words.shape[1])

    def take(self, chosen: Ints | slice | np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Slices:
        """Some of them, by places or by a mask."""
        return Slices(self.words[:, chosen], [states[chosen] for states in self.states])

    @classmethod
    def joined(cls, parts: Sequence[Slices]) -> Slices:
        """Several one behind the other; there is at least one."""
        if len(parts) == 1:
            return parts[0]
        words = np.concatenate([part.words for part in parts], axis=1)
        return cls(words, [np.concatenate(states) for states in zip(*(part.states for part in parts), strict=True)])

    def continued(self, others: Slices, folds: Sequence[Fold]) -> Slices:
        """These, which are open, and others, whose rows come behind theirs: those of the same key and place as one."""
        if not len(self) or not len(others):
            return others if len(others) else self
        if len(self) == 1 and not others.words[KEY].any():  # without keys: in order, and only the first can go on
            joined = Slices.joined([self, others.take(slice(0, 1))]).united(folds)
            return Slices.joined([joined, others.take(slice(1, None))])
        return Slices.joined([self, others]).united(folds)

    def united(self, folds: Sequence[Fold]) -> Slices:
        """Those with the same key and place, whose rows are in the order in which they stand here, as one."""
        order = np.lexsort((self.words[PLACE], self.words[KEY]))
        words = self.words[:, order]
        is_new = np.ones(len(order), np.bool_)
        is_new[1:] = (words[PLACE, 1:] != words[PLACE, :-1]) | (words[KEY, 1:] != words[KEY, :-1])
        if is_new.all():
            return self
        cuts = np.append(np.flatnonzero(is_new), len(order))
        joined = words[:, cuts[:-1]]
        ends = cuts[1:] - 1
        joined[LAST_ROW], joined[LAST_TIME] = words[LAST_ROW, ends], words[LAST_TIME, ends]
        return Slices(joined, [fold.scan(own[order], cuts)[ends] for fold, own in zip(folds, self.states, strict=True)])

    def renumbered(self, keys: Ints) -> Slices:
        """The same with other numbers of keys, by the old ones."""
        words = self.words.copy()
        words[KEY] = keys[words[KEY]]
        return Slices(words, self.states)

    def snapshot(self, folds: Sequence[Fold]) -> dict[str, pa.Buffer]:
        """As chunks."""
        batch = pa.RecordBatch.from_arrays([integer_column(each) for each in self.words], schema=_SCHEMA)
        states = {str(place): fold.pack(own) for place, (fold, own) in enumerate(zip(folds, self.states, strict=True))}
        return {"words": packed(batch), **states}

    @classmethod
    def restored(cls, state: State, name: str, folds: Sequence[Fold]) -> Slices:
        """The slices of chunks."""
        batch = unpacked(state.chunks[f"{name}/words"], _SCHEMA)
        words = np.stack([integers(column) for column in batch.columns])
        return cls(words, [fold.unpack(state.chunks[f"{name}/{place}"]) for place, fold in enumerate(folds)])


@dataclass(slots=True)
class _Block:
    slices: Slices
    number: int
    chunks: dict[str, pa.Buffer] | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """Windows: their numbers, words of their first and of their last slices, and their states."""

    numbers: Ints
    first: Ints
    last: Ints
    states: list[States]


class SliceStore:
    """Slices that will not change any more, in order, and the windows that they are part of.

    Without keys slices are in the order of their places, and windows share what they have in common from one call to
    the next. With keys they share it within a call.
    """

    def __init__(self, folds: Sequence[Fold], *, has_keys: bool) -> None:
        self._folds = tuple(folds)
        self._has_keys = has_keys
        self._blocks: list[_Block] = []
        self._next = 0
        self._sliding = Sliding(folds)
        self._bounds = [0]
        """Without keys: how many slices stand before each block, and before the next one."""

    @property
    def rows(self) -> int:
        """How many slices there are."""
        return sum(len(block.slices) for block in self._blocks)

    @property
    def first_place(self) -> int | None:
        """The least place of all slices, without keys; with keys that of the oldest slices."""
        return int(self._blocks[0].slices.words[PLACE].min()) if self._blocks else None

    @property
    def last_place(self) -> int | None:
        """The greatest place of the newest slices."""
        return int(self._blocks[-1].slices.words[PLACE].max()) if self._blocks else None

    def add(self, slices: Slices) -> None:
        """Put slices behind the others."""
        if len(slices):
            self._put(_Block(slices, self._next))
            self._next += 1

    def _put(self, block: _Block) -> None:
        self._blocks.append(block)
        if not self._has_keys:
            self._sliding.append(block.slices.states)
            self._bounds.append(self._bounds[-1] + len(block.slices))

    def windows(self, frames: Frames, low: Ints, high: Ints) -> Found | None:
        """The windows of each key from number ``low`` to ``high`` (exclusive) that have slices; None if there are none.

        By key, then by number. ``low`` never falls, and no window is asked for twice.
        """
        if not self._blocks:
            return None
        return self._keyed(frames, low, high) if self._has_keys else self._plain(frames, int(low[0]), int(high[0]))

    def _plain(self, frames: Frames, low: int, high: int) -> Found | None:
        first, last = self._blocks[0].slices.words[PLACE, 0], self._blocks[-1].slices.words[PLACE, -1]
        bounds = frames.numbers(np.array([first, last]))
        low, high = max(low, int(bounds[0][0])), min(high, int(bounds[1][1]) + 1)
        if low >= high:
            return None
        if high - low <= 4 * self.rows + 64:
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
            return np.empty((len(WORDS), 0), np.int64)
        low, high = bisect_right(self._bounds, first) - 1, bisect_left(self._bounds, last)
        parts = [block.slices.words for block in self._blocks[low:high]]
        whole = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        return whole[:, first - self._bounds[low] : last - self._bounds[low]]

    def _words_at(self, numbers: Ints) -> Ints:
        """The words of some slices, whose numbers rise."""
        first = int(numbers[0])
        return chosen(self._words(first, int(numbers[-1]) + 1).T, numbers - first).T

    def _keyed(self, frames: Frames, low: Ints, high: Ints) -> Found | None:
        every = Slices.joined([block.slices for block in self._blocks])
        order = np.lexsort((every.words[PLACE], every.words[KEY]))
        words = every.words[:, order]
        numbers, begins, ends = _found(frames, words[KEY].copy(), words[PLACE].copy(), low, high)
        if not len(numbers):
            return None
        states = merge_ranges(self._folds, [own[order] for own in every.states], begins, ends)
        return Found(numbers, words[:, begins], words[:, ends - 1], states)

    def drop(self, frames: Frames, low: Ints) -> None:
        """Forget slices that are in no window of their key from number ``low`` on."""
        gone = 0
        for block in self._blocks:
            words = block.slices.words if self._has_keys else block.slices.words[:, -1:]
            if (frames.numbers(words[PLACE])[1] >= low[words[KEY]]).any():
                break
            gone += 1
        if not gone:
            return
        if not self._has_keys:
            del self._bounds[:gone]
            self._sliding.drop(self._bounds[0])
        del self._blocks[:gone]

    def keys(self) -> Ints:
        """The numbers of keys that have slices."""
        found = [np.unique(block.slices.words[KEY]) for block in self._blocks]
        return np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)

    def renumber(self, keys: Ints) -> None:
        """Take other numbers for keys, by the old ones."""
        for block in self._blocks:
            block.slices, block.chunks, block.number = block.slices.renumbered(keys), None, self._next
            self._next += 1

    def snapshot(self) -> State:
        """All slices."""
        chunks: dict[str, pa.Buffer] = {}
        for block in self._blocks:
            if block.chunks is None:
                block.chunks = block.slices.snapshot(self._folds)
            chunks |= {f"{block.number}/{name}": content for name, content in block.chunks.items()}
        return State({"next": self._next, "blocks": [block.number for block in self._blocks]}, chunks)

    def restore(self, state: State) -> None:
        """Have the same slices."""
        self._next = state.core["next"]
        for number in state.core["blocks"]:
            self._put(_Block(Slices.restored(state, str(number), self._folds), number))


def _found(frames: Frames, keys: Ints, places: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints, Ints]:
    """The windows of slices in the order of key and place: numbers, and which slices."""
    firsts, lasts = frames.numbers(places)
    count = kernels.count_windows(keys, firsts, lasts, low, high)
    numbers, begins, ends = (np.empty(count, np.int64) for _ in range(3))
    kernels.find_windows(keys, firsts, lasts, low, high, numbers, begins, ends)
    return numbers, begins, ends
