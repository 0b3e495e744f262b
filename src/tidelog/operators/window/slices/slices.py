"""Slices of rows: what is known of the rows between two places where windows start or end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from tidelog.aggregates.base import States
from tidelog.aggregates.contract import Fold
from tidelog.operators.base import Ints
from tidelog.operators.state import bundled, unbundled

PLACE, KEY, FIRST_ROW, LAST_ROW, FIRST_TIME, LAST_TIME, WRITTEN = range(7)
"""What is known of a slice beside its states: where it begins, its key, the numbers and times of its rows, and the
number of the chunk that it was last written to."""
_WORDS: Final = 7
_KEPT: Final = WRITTEN
"""The words before this one are part of a snapshot."""
UNWRITTEN: Final = -1
"""Instead of the number of a chunk: it is in none, or has changed since."""


@dataclass(frozen=True, slots=True)
class Slices:
    """Some slices: a row of words for each of these, and the states of each aggregate."""

    words: Ints
    states: list[States]

    @classmethod
    def none(cls, folds: Sequence[Fold]) -> Slices:
        """No slices."""
        return cls(np.empty((_WORDS, 0), np.int64), [fold.start()[:0] for fold in folds])

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
        joined[WRITTEN, np.diff(cuts) > 1] = UNWRITTEN
        return Slices(joined, [fold.scan(own[order], cuts)[ends] for fold, own in zip(folds, self.states, strict=True)])

    def renumbered(self, keys: Ints) -> Slices:
        """The same with other numbers of keys, by the old ones."""
        words = self.words.copy()
        words[KEY] = keys[words[KEY]]
        words[WRITTEN] = UNWRITTEN
        return Slices(words, self.states)

    def packed(self, folds: Sequence[Fold]) -> pa.Buffer:
        """As bytes."""
        words = pa.py_buffer(np.ascontiguousarray(self.words[:_KEPT]).tobytes())
        return bundled([words, *(fold.pack(own) for fold, own in zip(folds, self.states, strict=True))])

    @classmethod
    def unpacked(cls, content: pa.Buffer, folds: Sequence[Fold], chunk: int = UNWRITTEN) -> Slices:
        """The slices of bytes, which are those of a chunk."""
        words, *states = unbundled(content)
        kept = np.frombuffer(words, np.int64).reshape(_KEPT, -1)
        own = np.concatenate([kept, np.full((1, kept.shape[1]), chunk, np.int64)])
        return cls(own, [fold.unpack(each) for fold, each in zip(folds, states, strict=True)])
