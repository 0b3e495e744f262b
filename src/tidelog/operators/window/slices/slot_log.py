"""Slices that stand in slots as they are kept: a snapshot looks at the slots that have changed alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from tidelog.aggregates.base import States
from tidelog.aggregates.contract import Fold
from tidelog.model.arrays import distinct
from tidelog.operators.base import Ints
from tidelog.operators.state import State
from tidelog.operators.window.slices.log import SliceLog
from tidelog.operators.window.slices.slices import UNWRITTEN, WRITTEN, Slices

FREE: Final = -2
"""Instead of the number of a chunk: nothing stands in the slot."""
_MOST_NOTES: Final = 1024
"""Calls between two snapshots whose slots are noted."""


class SlotLog:
    """What was written of slots. ``words`` and ``states`` are always those of all slots."""

    def __init__(self, folds: Sequence[Fold]) -> None:
        self._log = SliceLog(folds)
        self.clear()

    def clear(self) -> None:
        """There are no slots any more."""
        self._changed: list[Ints] | None = None
        """Slots that have changed since the last snapshot; None if that is not known."""
        self._written: dict[int, Ints] = {}
        """The slots that were written to chunks. They may have changed since."""

    def note(self, slots: Ints) -> None:
        """Slices were put into slots, or have changed."""
        if self._changed is not None:
            self._changed.append(slots)
            if len(self._changed) > _MOST_NOTES:  # nobody takes snapshots any more, or more is to be written than read
                self._changed = None

    def change(self, words: Ints, slots: Ints) -> None:
        """The slices in some slots change."""
        self.forget(words[WRITTEN, slots])
        words[WRITTEN, slots] = UNWRITTEN

    def free(self, words: Ints, slots: Ints) -> None:
        """The slices in some slots are gone."""
        self.forget(words[WRITTEN, slots])
        words[WRITTEN, slots] = FREE

    def forget(self, written: Ints) -> None:
        """Slices with these chunks are gone."""
        self._log.forget(written)

    def snapshot(self, words: Ints, states: Sequence[States], count: int) -> State:
        """What has changed; ``count`` slots are taken."""
        written = words[WRITTEN]
        if self._changed is None:
            chosen = np.flatnonzero(written == UNWRITTEN)
        else:
            chosen = distinct(np.concatenate([np.empty(0, np.int64), *self._changed]))
            chosen = chosen[written[chosen] == UNWRITTEN]
        self._changed = []
        parts = [chosen]
        for number in self._log.begin(count, len(chosen)):
            slots = self._written.pop(number)
            parts.append(slots[written[slots] == number])
        every = np.concatenate(parts)
        if len(every):
            number = self._log.write(Slices(words, list(states)).take(every))
            written[every] = number
            self._written[number] = every
        self._written = {number: slots for number, slots in self._written.items() if number in self._log.chunks}
        return self._log.state()

    def restore(self, state: State) -> Slices:
        """The slices, by key and place, to be put into slots. Some that were dropped may be among them."""
        return self._log.restore(state)

    def find(self, words: Ints) -> None:
        """Slices that were restored have been put into slots."""
        written = words[WRITTEN]
        order = np.argsort(written, kind="stable")
        numbers, begins = np.unique(written[order], return_index=True)
        parts = np.split(order, begins)[1:]
        self._written = {number: part for number, part in zip(numbers.tolist(), parts, strict=True) if number >= 0}
        self._changed = []
