"""Sessions that may go on, or have not come out: a call costs as much as there are sessions that it changes or ends.

Sessions stand in slots. The newest one of each key is known by the number of the key. Ends are a queue: rows come in
the order of time, so whoever is touched last ends last, and an entry whose session has had other rows since is passed
over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from tidelog.aggregates.base import States
from tidelog.aggregates.contract import Fold
from tidelog.model.arrays import distinct
from tidelog.model.times.clock import INT64_MAX, INT64_MIN
from tidelog.operators.base import Ints
from tidelog.operators.columns.series import Series
from tidelog.operators.state import State
from tidelog.operators.window.slices.slices import FIRST_TIME, KEY, LAST_ROW, LAST_TIME, PLACE, WRITTEN, Slices
from tidelog.operators.window.slices.slot_log import FREE, SlotLog

_NONE: Final = -1
_ROOM: Final = 1024
"""Slots at the least, and entries of the queue that may be old."""
_STALE: Final = 4
"""Entries of the queue for each session, at the most."""
_AT_ONCE: Final = 256
"""Entries of the queue that are looked at together."""


class OpenSessions:
    """Sessions of keys; their places are the times of their first rows."""

    def __init__(self, folds: Sequence[Fold], gap: int) -> None:
        """A row further than ``gap`` ticks behind the one before it begins another session."""
        self._folds = tuple(folds)
        self._gap = gap
        self._log = SlotLog(folds)
        self._empty()

    def _empty(self) -> None:
        """Have no slots."""
        none = Slices.none(self._folds)
        self._words, self._states = none.words, list(none.states)
        self._free = np.empty(0, np.int64)
        self._left = 0
        """How many slots are free: the first ones of ``_free``."""
        self._newest = np.empty(0, np.int64)
        """The slot of the newest session of each key."""
        self._ends = Series(np.int64, 2)
        """The times of the last rows of sessions, which rise, and their slots."""
        self._log.clear()

    def __len__(self) -> int:
        return len(self._free) - self._left

    def add(self, slices: Slices) -> None:
        """Take in stretches of rows behind all others, by key and time: each goes on with a session or begins one."""
        if not len(slices):
            return
        words = slices.words
        keys = words[KEY]
        self._grow(int(keys[-1]) + 1, len(slices))
        is_first, is_last = np.ones((2, len(slices)), np.bool_)
        is_first[1:] = keys[1:] != keys[:-1]
        is_last[:-1] = is_first[1:]
        slots = self._newest[keys]
        goes_on = is_first & (slots >= 0)
        candidates = np.flatnonzero(goes_on)
        goes_on[candidates] = words[FIRST_TIME, candidates] - self._words[LAST_TIME, slots[candidates]] <= self._gap
        known, fresh = np.flatnonzero(goes_on), np.flatnonzero(~goes_on)
        at = slots[known]
        self._log.change(self._words, at)
        for word in (LAST_ROW, LAST_TIME):
            self._words[word, at] = words[word, known]
        for fold, states, more in zip(self._folds, self._states, slices.states, strict=True):
            if len(known):
                states[at] = fold.plus(states[at], more[known])
        self._left -= len(fresh)
        at = self._free[self._left : self._left + len(fresh)]
        slots[fresh] = at
        self._words[:, at] = words[:, fresh]
        for states, more in zip(self._states, slices.states, strict=True):
            states[at] = more[fresh]
        self._newest[keys[is_last]] = slots[is_last]
        self._log.note(slots)
        if len(self._ends) > _STALE * len(self) + _ROOM:
            self._queue()
        else:
            order = np.argsort(words[LAST_TIME], kind="stable")
            self._ends.append(np.stack([words[LAST_TIME, order], slots[order]]))

    def _grow(self, keys: int, slots: int) -> None:
        """Have room for so many keys, and so many more slots."""
        if keys > len(self._newest):
            more = max(keys, 2 * len(self._newest)) - len(self._newest)
            self._newest = np.concatenate([self._newest, np.full(more, _NONE, np.int64)])
        if slots <= self._left:
            return
        room = self._words.shape[1]
        more = max(slots - self._left, room, _ROOM)
        words = np.empty((len(self._words), room + more), np.int64)
        words[:, :room] = self._words
        words[WRITTEN, room:] = FREE
        self._words = words
        self._states = [_longer(states, more) for states in self._states]
        free = np.empty(room + more, np.int64)
        free[: self._left] = self._free[: self._left]
        free[self._left : self._left + more] = np.arange(room + more - 1, room - 1, -1)
        self._free = free
        self._left += more

    def _queue(self) -> None:
        """Have one entry for each session."""
        slots = np.flatnonzero(self._words[WRITTEN] != FREE)
        slots = slots[np.argsort(self._words[LAST_TIME, slots], kind="stable")]
        self._ends = Series(np.int64, 2)
        self._ends.append(np.stack([self._words[LAST_TIME, slots], slots]))

    def take_over(self, watermark: int) -> Slices:
        """The sessions that a watermark has passed, which are gone then."""
        times, slots = self._ends.lines
        # A row at the very end would still belong to one.
        bound = watermark - self._gap
        count = len(times) if watermark > INT64_MAX else int(np.searchsorted(times, bound)) if bound > INT64_MIN else 0
        if not count:
            return Slices.none(self._folds)
        slots = distinct(slots[:count][self._words[LAST_TIME, slots[:count]] == times[:count]])
        self._ends.drop(count)
        done = Slices(self._words, self._states).take(slots)
        keys = done.words[KEY]
        gone = keys[self._newest[keys] == slots]
        self._newest[gone] = _NONE
        self._log.free(self._words, slots)
        self._free[self._left : self._left + len(slots)] = slots
        self._left += len(slots)
        return done

    def first_end(self) -> int | None:
        """The least end of all sessions, a gap behind its last row."""
        while len(self._ends):
            times, slots = self._ends.lines[:, :_AT_ONCE]
            is_right = self._words[LAST_TIME, slots] == times
            first = int(np.argmax(is_right))
            if is_right[first]:
                self._ends.drop(first)
                return int(times[first]) + self._gap
            self._ends.drop(len(times))
        return None

    def keys(self) -> Ints:
        """The numbers of keys that have sessions."""
        return distinct(self._words[KEY, self._words[WRITTEN] != FREE])

    def renumber(self, keys: Ints) -> None:
        """Take other numbers for keys, by the old ones. Everything is written anew then."""
        every = Slices(self._words, self._states).take(self._words[WRITTEN] != FREE)
        self._log.forget(every.words[WRITTEN])
        self._put(every.renumbered(keys))

    def _put(self, every: Slices) -> None:
        """Have these sessions and no others."""
        self._empty()
        self.add(every.take(np.lexsort((every.words[PLACE], every.words[KEY]))))

    def snapshot(self) -> State:
        """What has changed."""
        return self._log.snapshot(self._words, self._states, len(self))

    def restore(self, state: State, watermark: int | None) -> None:
        """Have the same sessions, of which those before a watermark have come out."""
        self._put(self._log.restore(state))
        if watermark is not None:
            self.take_over(watermark)
        self._log.find(self._words)


def _longer(states: States, more: int) -> States:
    return np.concatenate([states, np.empty((more, *states.shape[1:]), states.dtype)])
