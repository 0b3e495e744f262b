"""The inputs of a merge: what comes in by them as elements, and whether it is what they promise."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tidelog.model.arrays import boolean_column
from tidelog.model.errors import InputError
from tidelog.model.times.clock import INT64_MIN
from tidelog.operators.arrivals import late_rows
from tidelog.operators.base import Shape
from tidelog.operators.merge.algorithms import Algorithm
from tidelog.operators.merge.batches.engine import Rows
from tidelog.operators.merge.codes import ADJUST, BEFORE, END, INSERT, KIND, OLD, STABLE, START
from tidelog.operators.merge.columns import element_rows, event_rows, is_elements
from tidelog.operators.merge.errors import BehindStableError, OrderError, RevisionError
from tidelog.operators.merge.reference.driver import Counters, Phase


@dataclass(frozen=True)
class Input:
    """An input of a merge.

    Rows are elements, by the names of their columns, with stables among them, or else plain events: each is valid for
    one tick of the clock. How far an input of plain events has come is told by watermarks, by ``MergeOperator.stable``
    or, with ``delay``, by its newest time less so many ticks: rows farther behind are late, dropped and counted.
    """

    name: str
    shape: Shape
    delay: int | None = None
    join: int | None = None
    """The time from which on the input has all events: those that end at it or later. None: it has all there are."""

    def __post_init__(self) -> None:
        if self.delay is not None and self.is_elements:
            raise InputError(f"input {self.name!r} has elements, which have stables among them; expected no delay")
        if self.delay is not None and self.delay < 0:
            raise InputError(f"input {self.name!r} has the delay {self.delay}; expected none below zero")

    @property
    def is_elements(self) -> bool:
        """Whether rows are elements; else they are plain events."""
        return is_elements(self.shape.schema)


@dataclass(frozen=True)
class InputState:
    """What is known of an input of a merge."""

    name: str
    phase: Phase
    stable: int | None
    """How far it has come; None for nowhere yet."""
    rows: int
    """How many rows have come."""
    late: int
    """Plain events that were dropped because they were farther behind than the delay allows."""
    counters: Counters
    """What does not fit: where these rise, the input is no copy of the others."""


class Port(ABC):
    """What is known of an input besides what the merge itself knows."""

    def __init__(self, spec: Input) -> None:
        self.spec = spec
        self.rows = 0
        self.late = 0
        """Plain events that were behind the delay."""
        self.last_start = BEFORE
        """The start of the last insert, where order matters."""
        self.is_detached = False

    @property
    def name(self) -> str:
        """Its name."""
        return self.spec.name

    @abstractmethod
    def elements(self, batch: pa.RecordBatch, algorithm: Algorithm, reached: int) -> tuple[pa.RecordBatch, Rows]:
        """Rows that are taken, and their elements; ``reached`` is the last stable of the input."""

    def _check_order(self, starts: Rows, algorithm: Algorithm) -> None:
        if not algorithm.is_ordered or not len(starts):
            return
        before = np.concatenate([[self.last_start], starts[:-1]])
        wrong = starts < before
        if algorithm.is_strict:
            wrong |= (starts == before) & (before != BEFORE)
            if int(starts.min()) == BEFORE:
                raise InputError(
                    f"found an event at the least time there is, which {algorithm.name} cannot tell from none; choose "
                    "another algorithm"
                )
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise OrderError(
                f"an event that starts at {starts[row]} came behind one that starts at {before[row]}; {algorithm.name} "
                f"is for {algorithm.text}: choose another algorithm, or put the input in order",
                input=self.name,
            )
        self.last_start = int(starts[-1])

    def snapshot(self) -> dict[str, Any]:
        """What is known."""
        return {
            "name": self.name,
            "delay": self.spec.delay,
            "join": self.spec.join,
            "rows": self.rows,
            "late": self.late,
            "last": self.last_start,
            "detached": self.is_detached,
        }

    def restore(self, core: dict[str, Any]) -> None:
        """Know the same."""
        self.rows, self.late, self.last_start = core["rows"], core["late"], core["last"]
        self.is_detached = core["detached"]


class ElementPort(Port):
    """Elements as they are."""

    def elements(self, batch: pa.RecordBatch, algorithm: Algorithm, reached: int) -> tuple[pa.RecordBatch, Rows]:
        """All of them; raises :class:`~.errors.MergeError` if one breaks a promise of the input."""
        rows = element_rows(batch)
        kinds = rows[KIND]
        is_adjust = kinds == ADJUST
        if not algorithm.takes_adjusts and is_adjust.any():
            raise RevisionError(
                f"row {int(np.flatnonzero(is_adjust)[0])} adjusts an event; {algorithm.name} is for {algorithm.text}: "
                "choose R3 or R4 for revisions",
                input=self.name,
            )
        stables = np.maximum.accumulate(np.where(kinds == STABLE, rows[END], BEFORE))
        settled = np.maximum(np.concatenate([[BEFORE], stables[:-1]]), reached)
        speaks_of = np.where(is_adjust, np.minimum(rows[OLD], rows[END]), rows[START])
        wrong = (kinds != STABLE) & (speaks_of < settled) & ~(is_adjust & (rows[OLD] == rows[END]))
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise BehindStableError(
                f"row {row} speaks of the time {speaks_of[row]}, behind its own stable {settled[row]}; expected no "
                "insert that starts, and no adjust with an end, before a stable that the input has given",
                input=self.name,
                row=row,
            )
        self._check_order(rows[START, kinds == INSERT], algorithm)
        return batch, rows


class EventPort(Port):
    """Plain events; each is valid for one tick."""

    def __init__(self, spec: Input) -> None:
        super().__init__(spec)
        self._newest: int | None = None

    def elements(self, batch: pa.RecordBatch, algorithm: Algorithm, reached: int) -> tuple[pa.RecordBatch, Rows]:
        """Those that are not late, and a stable behind them if there is a delay."""
        times, delay = self.spec.shape.times(batch), self.spec.delay
        self._check_order(times, algorithm)
        late = None
        if delay is not None and not algorithm.is_ordered:
            late = late_rows(times, self._newest, delay)
        if reached > BEFORE and (behind := times < reached).any():
            late = behind if late is None else late | behind
        if late is not None and late.any():
            self.late += int(late.sum())
            batch = batch.filter(boolean_column(~late))
            times = self.spec.shape.times(batch)
        stable = None
        if delay is not None and len(times):
            top = int(times.max())
            self._newest = top if self._newest is None else max(self._newest, top)
            stable = max(self._newest - delay, INT64_MIN)
        return batch, event_rows(times, stable)

    def snapshot(self) -> dict[str, Any]:
        """With the newest time."""
        return super().snapshot() | {"newest": self._newest}

    def restore(self, core: dict[str, Any]) -> None:
        """Know the same."""
        super().restore(core)
        self._newest = core["newest"]


def port_of(spec: Input) -> Port:
    """What takes the rows of an input."""
    return ElementPort(spec) if spec.is_elements else EventPort(spec)
