"""What takes the rows of other models, a batch at a time, and tells their elements.

Payloads are told by two words of hash each, of which the first, as a number, finds what is known of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Final, NamedTuple

import numpy as np

from tidelog.merging.adapting import kernels
from tidelog.merging.adapting.codes import DELETE, FINALIZE, NOTHING, SAME_NUMBER, UNKNOWN
from tidelog.merging.adapting.known import Known
from tidelog.model.errors import InputError
from tidelog.operators.base import Ints
from tidelog.operators.merge.batches.engine import Rows
from tidelog.operators.merge.codes import ADJUST, BEFORE, CAUSE, DONE, END, INSERT, KIND, NEVER, OLD, STABLE, START

_INSERTED: Final = np.array([INSERT, ADJUST, STABLE], np.int64)


class Told(NamedTuple):
    """What rows say, as columns."""

    kinds: Ints
    """The places of their kinds among the names of the model."""
    payloads: Ints
    checks: Ints
    times: Ints
    """The start of an event, or the time at which something happens to it."""
    ends: Ints
    """Where the model has an end in the same row, that; else the times."""


class Model(ABC):
    """A model of events."""

    names: ClassVar[tuple[str, ...]]
    """Of the kinds of rows."""

    def __init__(self, columns: int = 0) -> None:
        self._known = Known(columns)
        self._rows = 0

    def elements(self, told: Told) -> Rows:
        """The elements of the next rows, in their order; their cause is the row.

        Raises :class:`InputError` for the first row of an event that is not there.
        """
        self._known.make_room(len(told.kinds))
        found = self._elements(told)
        self._rows += len(told.kinds)
        return found[:, (found[KIND] != STABLE) | (found[END] != NEVER)]

    @abstractmethod
    def _elements(self, told: Told) -> Rows: ...

    @abstractmethod
    def _reason(self, kind: int, time: int) -> str:
        """What is wrong with a row of a kind that there is."""

    def _check_order(self, times: Ints, reached: int) -> None:
        before = np.concatenate([[reached], times[:-1]])
        if (falls := times < before).any():
            at = int(np.flatnonzero(falls)[0])
            raise InputError(
                f"row {self._rows + at} has the time {times[at]}, and stands behind one of {before[at]}; expected rows "
                "in the order of time: sort them",
                row=self._rows + at,
            )

    def _check(self, why: int, places: Ints, told: Told) -> None:
        if why == DONE:
            return
        at = int(places[0])
        row, kind = self._rows + at, int(told.kinds[at])
        if why == SAME_NUMBER:
            raise InputError(f"row {row}: two payloads have the same hash of 63 bits; add a column to them", row=row)
        assert why == UNKNOWN
        raise InputError(f"row {row} {self._reason(kind, int(told.times[at]))}", row=row)


class AddModifyFinalize(Model):
    """Rows that add an event, give one another end, or say that ends before a time are final.

    Finalising does not say that no event starts before the time any more; ``slack`` is how far before it starts may be.
    """

    names = ("a", "m", "f")

    def __init__(self, slack: int = 0) -> None:
        super().__init__()
        self._slack = slack

    def _elements(self, told: Told) -> Rows:
        known, olds, places = self._known, np.empty(len(told.kinds), np.int64), np.zeros(1, np.int64)
        why = kernels.find_old_ends(
            told.kinds, told.payloads, told.checks, told.times, told.ends, known.nodes, known.ends, known.slots,
            known.free, known.merge, olds, places,
        )  # fmt: skip
        self._check(why, places, told)
        found = _rows(len(told.kinds))
        is_stable = told.kinds == FINALIZE
        found[KIND] = _INSERTED[told.kinds]
        found[START] = np.where(is_stable, BEFORE, told.times)
        stables = np.maximum(told.times, BEFORE + self._slack) - self._slack
        stables[told.times == NEVER] = NEVER
        found[END], found[OLD] = np.where(is_stable, stables, told.ends), olds
        return found

    def _reason(self, kind: int, time: int) -> str:
        return f"modifies an event that starts at {time} and was never added"


class OpenClose(Model):
    """Rows that open and close an event; a payload has at most one open event at a time.

    A close is of the event with the last start before it, and may be another one for the same event. With ``in_order``
    rows come in the order of time, and each time that is new is a stable.
    """

    names = ("open", "close")

    def __init__(self, *, in_order: bool = False) -> None:
        super().__init__()
        self._in_order = in_order
        self._reached = BEFORE

    def _elements(self, told: Told) -> Rows:
        known, count, places = self._known, len(told.kinds), np.zeros(1, np.int64)
        if self._in_order:
            self._check_order(told.times, self._reached)
        said = np.empty((3, count), np.int64)
        why = kernels.match_closes(
            told.kinds, told.payloads, told.checks, told.times, int(self._in_order), known.nodes, known.ends,
            known.slots, known.free, known.merge, known.entries, known.unused, said, places,
        )  # fmt: skip
        self._check(why, places, told)
        found = _rows(count)
        found[KIND], found[START], found[OLD] = said
        found[END] = np.where(said[0] == INSERT, NEVER, told.times)
        if self._in_order:
            found, self._reached = _with_stables(found, told.times, self._reached)
        return found[:, found[KIND] != NOTHING]

    def _reason(self, kind: int, time: int) -> str:
        return f"closes an event at {time}, and none of the payload was opened before"


class Changes(Model):
    """Change data in the order of time: rows that are inserted and deleted; each time that is new is a stable.

    A row is valid from its insert to its delete. Equal rows are deleted in the order in which they were inserted.
    """

    names = ("insert", "delete")

    def __init__(self) -> None:
        super().__init__(columns=1)
        self._reached = BEFORE

    def _elements(self, told: Told) -> Rows:
        known, count, places = self._known, len(told.kinds), np.zeros(1, np.int64)
        self._check_order(told.times, self._reached)
        starts = np.empty(count, np.int64)
        why = kernels.match_deletes(
            told.kinds, told.payloads, told.checks, told.times, known.nodes, known.ends, known.slots, known.free,
            known.merge, known.entries, known.unused, starts, places,
        )  # fmt: skip
        self._check(why, places, told)
        is_delete = told.kinds == DELETE
        found = _rows(count)
        found[KIND], found[START] = np.where(is_delete, ADJUST, INSERT), starts
        found[END], found[OLD] = np.where(is_delete, told.times, NEVER), np.where(is_delete, NEVER, BEFORE)
        found, self._reached = _with_stables(found, told.times, self._reached)
        return found

    def _reason(self, kind: int, time: int) -> str:
        return f"deletes, at {time}, what is not there"


def _rows(count: int) -> Rows:
    found = np.zeros((CAUSE + 1, count), np.int64)
    found[CAUSE] = np.arange(count)
    return found


def _with_stables(found: Rows, times: Ints, reached: int) -> tuple[Rows, int]:
    """A stable in front of each row whose time is new, and how far that is."""
    if not len(times):
        return found, reached
    highest = np.maximum.accumulate(np.maximum(times, reached))
    before = np.concatenate([[reached], highest[:-1]])
    at = np.flatnonzero(highest > before)
    stables = np.zeros((CAUSE + 1, len(at)), np.int64)
    stables[KIND], stables[START], stables[END], stables[OLD], stables[CAUSE] = STABLE, BEFORE, times[at], BEFORE, at
    return np.insert(found, at, stables, axis=1), int(highest[-1])
