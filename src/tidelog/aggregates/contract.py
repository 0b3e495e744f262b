"""One contract for all aggregates: rows are lifted into states, states merged, and a state lowered to a value.

Calls of built-in aggregates and of user-defined ones fulfil it (:mod:`tidelog.expr.aggregates`), and so do the entries
of trees (:mod:`tidelog.store.read.aggregates.entry_fold`). Whoever answers goes through it, whether states come from
entries, were kept beside them, or are made of rows. :mod:`tidelog.aggregates.conformance` checks what is said here.

States are arrays of NumPy's, a state in each place of the first axis, so that they can be sliced, chosen and put one
behind the other. They belong to the fold that made them, and are never changed. Runs are given by ``cuts``, ascending
positions: run ``i`` is everything from ``cuts[i]`` to ``cuts[i + 1]`` (exclusive), from 0 to the length of what is cut.
Runs may be empty.

Nulls are as in SQL: rows in which an argument is null do not take part, unless the aggregate says otherwise, and
without rows that do there is no value, None; counts are 0 then.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final, TypeAlias, final

import numpy as np
import pyarrow as pa

from tidelog.aggregates.base import Cuts, States

UNKNOWN: Final = object()
"""Instead of a value: the state does not tell it, and rows have to be lifted."""

_WAITING: Final = 64
"""States that wait to be merged: a merge of many costs little more than one of two."""

Value: TypeAlias = Any
"""A plain Python value, None for null, or :data:`UNKNOWN`."""


class Fold(ABC):
    """An aggregate of rows with certain columns."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that are lifted, each once."""

    @property
    @abstractmethod
    def type(self) -> pa.DataType | None:
        """The type of the values, if that is known."""

    @property
    def is_ordered(self) -> bool:
        """Whether states are merged in the order of their rows only; all others may be merged in any order."""
        return False

    @abstractmethod
    def start(self) -> States:
        """One state, of no rows."""

    @abstractmethod
    def lift(self, rows: pa.RecordBatch, cuts: Cuts) -> States:
        """The states of runs of rows, which are in the order of (time, ``_seq``)."""

    @abstractmethod
    def merge(self, states: States, cuts: Cuts) -> States:
        """The states of runs of states, in any grouping."""

    @abstractmethod
    def lower(self, states: States) -> list[Value]:
        """The values of states."""

    def plus(self, states: States, others: States) -> States:
        """Each state merged with the one at the same place among others, whose rows come behind its own."""
        pairs = np.stack([states, others], axis=1).reshape(2 * len(states), *states.shape[1:])
        return self.merge(pairs, np.arange(len(states) + 1, dtype=np.int64) * 2)

    def scan(self, states: States, cuts: Cuts, *, backward: bool = False) -> States:
        """For each state of a run all from the first one to it merged; with ``backward`` all from it to the last one.

        The work is proportional to the number of states, whatever the length of runs.
        """
        return scanned(self.plus, states, cuts, backward)

    def lower_column(self, states: States) -> pa.Array:
        """The values of states, all of which tell them, as a column of :attr:`type`, which must be known."""
        return pa.array(self.lower(states), self.type)

    def pack(self, states: States) -> pa.Buffer:
        """States as bytes, for :meth:`unpack`."""
        return pa.py_buffer(np.ascontiguousarray(states).tobytes())

    def unpack(self, content: pa.Buffer) -> States:
        """The states that :meth:`pack` made bytes of."""
        start = self.start()
        return np.frombuffer(content, start.dtype).reshape(-1, *start.shape[1:])


def scanned(plus: Callable[[States, States], States], states: States, cuts: Cuts, backward: bool) -> States:
    """See :meth:`Fold.scan`: the scan of Brent and Kung over all runs at once.

    A state at the end of a stretch of a power of two is merged with the stretch before it, for stretches that double;
    then the states in between are merged with the end of the last whole stretch before them. Both take as many merges
    as there are states.
    """
    found = states.copy()
    lengths = np.diff(cuts)
    places = np.arange(1, len(states) + 1) - np.repeat(cuts[:-1], lengths)
    if backward:
        places = np.repeat(lengths, lengths) + 1 - places
    step = 1 if backward else -1

    def join(rows: Cuts, width: int) -> None:
        if len(rows):
            near, far = found[rows], found[rows + step * width]
            found[rows] = plus(near, far) if backward else plus(far, near)

    ends = np.arange(len(states))
    between: list[Cuts] = []
    width = 1
    while len(ends):
        is_even = places[ends] % (2 * width) == 0
        between.append(ends[~is_even & (places[ends] > width)])
        ends = ends[is_even]
        join(ends, width)
        width *= 2
    for rows in reversed(between):
        width //= 2
        join(rows, width)
    return found


@final
class Total:
    """The aggregate of rows that come batch by batch, in their order."""

    def __init__(self, fold: Fold) -> None:
        self._fold = fold
        self._states = [fold.start()]

    def add(self, rows: pa.RecordBatch) -> None:
        """Take in some more rows."""
        self._states.append(self._fold.lift(rows, np.array([0, rows.num_rows], np.int64)))
        if len(self._states) > _WAITING:
            self._states = [self._merged()]

    def value(self) -> Value:
        """The value of all rows so far."""
        return self._fold.lower(self._merged())[0]

    def _merged(self) -> States:
        return self._fold.merge(np.concatenate(self._states), np.array([0, len(self._states)], np.int64))
