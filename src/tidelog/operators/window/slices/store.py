"""Slices that windows are made of: what stores of them have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tidelog.aggregates.base import States
from tidelog.aggregates.contract import Fold
from tidelog.operators.base import Ints
from tidelog.operators.state import State
from tidelog.operators.window import kernels
from tidelog.operators.window.frames import Frames
from tidelog.operators.window.slices.slices import PLACE, Slices


@dataclass(frozen=True, slots=True)
class Found:
    """Windows: their numbers, words of their first and of their last slices, and their states."""

    numbers: Ints
    first: Ints
    last: Ints
    states: list[States]


class SliceStore(ABC):
    """Slices as far as windows that have not come out need them. Rows may be added to the last one of each key."""

    def __init__(self, folds: Sequence[Fold]) -> None:
        self._folds = tuple(folds)

    @abstractmethod
    def __len__(self) -> int:
        """How many slices there are."""

    @property
    @abstractmethod
    def first_place(self) -> int | None:
        """The least place of all slices."""

    @abstractmethod
    def add(self, frames: Frames, slices: Slices) -> None:
        """Put slices behind the others, those of each key in the order of their places.

        The first one of a key may go on with its last one. Slices that are in no window are left out.
        """

    @abstractmethod
    def windows(self, frames: Frames, keys: Ints, low: Ints, high: Ints) -> Found | None:
        """The windows of each key from its ``low`` to its ``high`` (exclusive) that have slices; None if there are
        none.

        No rows will be added to these. A ``low`` never falls, and no window is asked for twice.
        """

    @abstractmethod
    def drop(self, frames: Frames, keys: Ints, low: Ints) -> None:
        """Forget slices of keys that are in no window from their ``low`` on."""

    @abstractmethod
    def keys(self) -> Ints:
        """The numbers of keys that have slices."""

    @abstractmethod
    def renumber(self, frames: Frames, keys: Ints) -> None:
        """Take other numbers for keys, by the old ones."""

    @abstractmethod
    def snapshot(self) -> State:
        """All slices."""

    @abstractmethod
    def restore(self, frames: Frames | None, state: State) -> None:
        """Have the same slices. Some that have been dropped may be there again."""


def found_windows(firsts: Ints, lasts: Ints, keys: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints, Ints]:
    """The windows of slices in the order of key and place, each of which is in some: numbers, and which slices.

    ``low`` and ``high`` are those of keys.
    """
    count = kernels.count_windows(keys, firsts, lasts, low, high)
    numbers, begins, ends = (np.empty(count, np.int64) for _ in range(3))
    kernels.find_windows(keys, firsts, lasts, low, high, numbers, begins, ends)
    return numbers, begins, ends


def in_windows(frames: Frames, slices: Slices) -> Slices:
    """Those that are part of some window; there may be gaps between windows."""
    if not frames.has_gaps or not len(slices):
        return slices
    firsts, lasts = frames.numbers(slices.words[PLACE])
    return slices if (firsts <= lasts).all() else slices.take(firsts <= lasts)
