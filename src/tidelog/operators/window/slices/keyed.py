"""Slices by key, and windows that share what they have in common from one call to the next.

Slices stand in slots; those of a key are a chain in the order of their places. Each key has a point: the end of some
window of it. In front of the point every slice has all from it to the point merged, behind it all slices so far are
merged into one state of the key. So a window around the point takes one merge, and a slice is looked at again only when
windows begin behind the point, which is then put at the end of the first of these. A call costs as much as there are
windows that come out and slices that are new, not as many as are kept (:mod:`tidelog.operators.window.sliding` does the
same without keys).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from tidelog.aggregates.base import States
from tidelog.aggregates.contract import Fold
from tidelog.model.times.clock import INT64_MIN
from tidelog.operators.base import Ints
from tidelog.operators.state import State
from tidelog.operators.window import kernels
from tidelog.operators.window.frames import Frames
from tidelog.operators.window.slices.slices import KEY, LAST_ROW, LAST_TIME, PLACE, WRITTEN, Slices
from tidelog.operators.window.slices.slot_log import FREE, SlotLog
from tidelog.operators.window.slices.store import Found, SliceStore, found_windows, in_windows
from tidelog.operators.window.sliding import Groups, merge_groups

_NONE: Final = -1
_ROOM: Final = 1024
"""Slots at the least."""

_HEAD, _TAIL, _FRONT, _BACK, _REACHED, _LIMIT = range(6)
"""What is known of a key: its first slice and its last one, the last one in front of its point, the first one behind it
and the last one of those that were merged, and the last window around the point. -1 stands for no slice."""


class KeyedStore(SliceStore):
    """Slices of many keys."""

    def __init__(self, folds: Sequence[Fold]) -> None:
        super().__init__(folds)
        self._keys = _no_keys(0)
        self._backs = [fold.start()[:0] for fold in folds]
        """For each aggregate and key what is merged behind its point."""
        self._log = SlotLog(folds)
        self._empty()

    def _empty(self) -> None:
        """Have no slots."""
        none = Slices.none(self._folds)
        self._words, self._states = none.words, none.states
        self._fronts = list(none.states)
        """For each aggregate and slice in front of a point all from it to the point merged."""
        self._following, self._firsts, self._lasts, self._free = (np.empty(0, np.int64) for _ in range(4))
        """The next slice of the same key; the first and the last window of a slice; slots that are free, from 0 on."""
        self._left = 0
        """How many slots are free."""
        self._log.clear()

    def __len__(self) -> int:
        return len(self._following) - self._left

    @property
    def first_place(self) -> int | None:
        """The least of all keys."""
        heads = self._keys[_HEAD]
        heads = heads[heads >= 0]
        return int(self._words[PLACE, heads].min()) if len(heads) else None

    def add(self, frames: Frames, slices: Slices) -> None:
        """Merge those that go on with the last one of their key into it."""
        slices = in_windows(frames, slices)
        if not len(slices):
            return
        keys = np.ascontiguousarray(slices.words[KEY])
        self._grow(int(keys.max()) + 1, len(slices))
        slots, is_old = np.empty((2, len(slices)), np.int64)
        own, places = self._keys, np.ascontiguousarray(slices.words[PLACE])
        chains = (self._words[PLACE], self._following, own[_HEAD], own[_TAIL])
        self._left = kernels.link_slices(keys, places, *chains, self._free, self._left, slots, is_old)
        fresh, known = np.flatnonzero(is_old == 0), np.flatnonzero(is_old)
        at = slots[fresh]
        self._words[:, at] = slices.words[:, fresh]
        self._firsts[at], self._lasts[at] = frames.numbers(places[fresh])
        for states, own_states in zip(self._states, slices.states, strict=True):
            states[at] = own_states[fresh]
        if len(known):
            at = slots[known]
            self._log.change(self._words, at)
            for word in (LAST_ROW, LAST_TIME):
                self._words[word, at] = slices.words[word, known]
            for fold, states, more in zip(self._folds, self._states, slices.states, strict=True):
                states[at] = fold.plus(states[at], more[known])
        self._log.note(slots)

    def _grow(self, keys: int, slots: int) -> None:
        """Have room for so many keys, and so many more slots."""
        if keys > self._keys.shape[1]:
            more = max(keys, 2 * self._keys.shape[1]) - self._keys.shape[1]
            self._keys = np.concatenate([self._keys, _no_keys(more)], axis=1)
            self._backs = [np.concatenate([own, np.empty((more, *own.shape[1:]), own.dtype)]) for own in self._backs]
        if slots <= self._left:
            return
        room = len(self._following)
        more = max(slots - self._left, room, _ROOM)

        def longer(array: States) -> States:
            return np.concatenate([array, np.empty((more, *array.shape[1:]), array.dtype)])

        words = np.empty((len(self._words), room + more), np.int64)
        words[:, :room] = self._words
        words[WRITTEN, room:] = FREE
        self._words = words
        self._following, self._firsts, self._lasts = map(longer, (self._following, self._firsts, self._lasts))
        self._states, self._fronts = [*map(longer, self._states)], [*map(longer, self._fronts)]
        free = np.empty(room + more, np.int64)
        free[: self._left] = self._free[: self._left]
        free[self._left : self._left + more] = np.arange(room + more - 1, room - 1, -1)
        self._free = free
        self._left += more

    def windows(self, frames: Frames, keys: Ints, low: Ints, high: Ints) -> Found | None:
        """Those around points, then those behind them."""
        is_known = keys < self._keys.shape[1]
        keys, low, high = keys[is_known], low[is_known], high[is_known]
        parts = [self._around(keys, low, high), self._behind(frames, keys, low, high)]
        found = [part for part in parts if part is not None]
        if len(found) < 2:
            return found[0] if found else None
        one, other = found
        return Found(
            np.concatenate([one.numbers, other.numbers]),
            np.concatenate([one.first, other.first], axis=1),
            np.concatenate([one.last, other.last], axis=1),
            [np.concatenate(states) for states in zip(one.states, other.states, strict=True)],
        )

    def _around(self, keys: Ints, low: Ints, high: Ints) -> Found | None:
        own = self._keys
        counts = np.zeros(3, np.int64)
        bounds = (low, high, self._firsts, self._lasts, self._following)
        points = (own[_HEAD], own[_FRONT], own[_LIMIT], own[_BACK], own[_REACHED])
        nothing = np.empty((6, 0), np.int64)
        kernels.find_around(False, keys, *bounds, *points, counts, nothing, nothing, nothing[0])
        total, stretches, merged = counts.tolist()
        if not total:
            return None
        windows, ends = np.empty((6, total), np.int64), np.empty((3, stretches), np.int64)
        fresh = np.empty(merged, np.int64)
        kernels.find_around(True, keys, *bounds, *points, counts, windows, ends, fresh)
        owners, numbers, firsts, lasts, fronts, backs = windows
        owners, grown = keys[owners], keys[ends[0]]
        cuts = np.concatenate([[0], ends[1]])
        goes_on = np.flatnonzero(np.repeat(ends[2], np.diff(cuts)))
        before = np.repeat(grown, np.diff(cuts))[goes_on]
        has_front, is_new, is_known = fronts >= 0, backs >= 0, backs == -2
        is_both, is_back = has_front & (backs != _NONE), np.flatnonzero(~has_front)
        has_back = np.flatnonzero(backs != _NONE)
        states = []
        for place, fold in enumerate(self._folds):
            back = np.empty((total, *self._backs[place].shape[1:]), self._backs[place].dtype)
            back[is_known] = self._backs[place][owners[is_known]]
            if merged:
                run = self._states[place][fresh]
                if merged > stretches:
                    run = fold.scan(run, cuts)
                if len(goes_on):
                    run[goes_on] = fold.plus(self._backs[place][before], run[goes_on])
                back[is_new] = run[backs[is_new]]
                self._backs[place][grown] = run[ends[1] - 1]
            if len(has_back) < total or len(is_back):
                made = np.empty_like(back)
                made[is_back] = back[is_back]
                made[has_front] = self._fronts[place][fronts[has_front]]
                made[is_both] = fold.plus(made[is_both], back[is_both])
            else:
                made = fold.plus(self._fronts[place][fronts], back)
            states.append(made)
        return Found(numbers, self._words[:, firsts], self._words[:, lasts], states)

    def _behind(self, frames: Frames, keys: Ints, low: Ints, high: Ints) -> Found | None:
        """Windows that are not around the points of their keys, which get new ones."""
        own = self._keys
        chosen = np.flatnonzero(own[_LIMIT, keys] < high - 1)
        keys, high = keys[chosen], high[chosen]
        low = np.maximum(low[chosen], own[_LIMIT, keys] + 1)
        nothing = np.empty(0, np.int64)
        chain = (keys, low, high, self._firsts, self._lasts, self._following, own[_HEAD])
        count = kernels.list_slices(False, *chain, nothing, nothing)
        own[_LIMIT, keys], own[_FRONT, keys], own[_BACK, keys] = INT64_MIN, _NONE, _NONE
        if not count:
            return None
        owners, slots = np.empty((2, count), np.int64)
        kernels.list_slices(True, *chain, owners, slots)
        numbers, begins, ends = found_windows(self._firsts[slots], self._lasts[slots], owners, low, high)
        if not len(numbers):
            return None
        states = [states[slots] for states in self._states]
        if (ends - begins == 1).all():  # nothing to merge
            made = [each[begins] for each in states]
        else:
            made, groups = merge_groups(self._folds, states, begins, ends)
            self._point(frames, groups, numbers, keys[owners], slots, high[owners])
        return Found(numbers, self._words[:, slots[begins]], self._words[:, slots[ends - 1]], made)

    def _point(self, frames: Frames, groups: Groups, numbers: Ints, keys: Ints, slots: Ints, high: Ints) -> None:
        """Keep the last point of each key, if windows that are still to come may be around it."""
        of_group = keys[groups.begins]
        is_last = np.ones(len(of_group), np.bool_)
        is_last[:-1] = of_group[1:] != of_group[:-1]
        at = np.flatnonzero(is_last)
        ends = frames.ends(numbers[np.searchsorted(groups.of, at)])
        limits = frames.numbers(ends - 1)[1]
        is_used = limits >= high[groups.begins[at]]
        at, limits = at[is_used], limits[is_used]
        if not len(at):
            return
        begins, points, ends = groups.begins[at], groups.points[at], groups.ends[at]
        own, known = self._keys, keys[begins]
        own[_LIMIT, known], own[_FRONT, known] = limits, slots[points - 1]
        has_back = ends > points
        behind = known[has_back]
        own[_BACK, behind], own[_REACHED, behind] = slots[points[has_back]], slots[ends[has_back] - 1]
        lengths = points - begins
        places = np.arange(int(lengths.sum())) + np.repeat(begins - np.cumsum(lengths) + lengths, lengths)
        front_slots = slots[places]
        for place in range(len(self._folds)):
            self._fronts[place][front_slots] = groups.fronts[place][places]
            self._backs[place][behind] = groups.backs[place][ends[has_back] - 1]

    def drop(self, frames: Frames, keys: Ints, low: Ints) -> None:
        """From the fronts of chains."""
        own = self._keys
        is_known = keys < own.shape[1]
        if not is_known.all():
            keys, low = keys[is_known], low[is_known]
        left = self._left
        links = (self._following, own[_HEAD], own[_TAIL], own[_FRONT], own[_BACK], own[_LIMIT])
        self._left = kernels.drop_slices(keys, low, self._lasts, *links, self._free, left)
        gone = self._free[left : self._left]
        if len(gone):
            self._log.free(self._words, gone)

    def keys(self) -> Ints:
        """Those whose chains are not empty."""
        return np.flatnonzero(self._keys[_HEAD] >= 0)

    def renumber(self, frames: Frames, keys: Ints) -> None:
        """Put everything in again. It is written anew then."""
        every = self._every()
        self._log.forget(every.words[WRITTEN])
        self._put(frames, every.renumbered(keys))

    def _every(self) -> Slices:
        """All slices, in no order."""
        used = np.flatnonzero(self._words[WRITTEN] != FREE)
        return Slices(self._words, self._states).take(used)

    def _put(self, frames: Frames, every: Slices) -> None:
        """Have these slices and no others."""
        self._keys = _no_keys(0)
        self._backs = [fold.start()[:0] for fold in self._folds]
        self._empty()
        self.add(frames, every.take(np.lexsort((every.words[PLACE], every.words[KEY]))))

    def snapshot(self) -> State:
        """What has changed."""
        return self._log.snapshot(self._words, self._states, len(self))

    def restore(self, frames: Frames | None, state: State) -> None:
        """Link the same slices."""
        every = self._log.restore(state)
        if frames is None:
            return
        self._put(frames, every)
        self._log.find(self._words)


def _no_keys(count: int) -> Ints:
    keys = np.full((_LIMIT + 1, count), _NONE, np.int64)
    keys[_LIMIT] = INT64_MIN
    return keys
