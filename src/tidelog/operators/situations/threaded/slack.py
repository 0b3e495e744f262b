"""Rows that come nearly in order, put into order: so many are held back (K-slack)."""

from __future__ import annotations

import enum
import logging

import numpy as np
import pyarrow as pa

from tidelog.model.arrays import integer_column
from tidelog.operators.base import Batches, Ints, Shape

_log = logging.getLogger("tidelog")


class Late(enum.Enum):
    """What becomes of rows that come when later ones have come out already."""

    FORWARD = "FORWARD"
    """They come out all the same, out of order."""
    DISCARD = "DISCARD"
    """They do not; the log says so once."""


class Slack:
    """Holds back so many rows, and lets those with the earliest times go; of equal times the one that came first."""

    def __init__(self, shape: Shape, size: int, late: Late = Late.FORWARD) -> None:
        self._shape = shape
        self.size = size
        """How many are held back; may be changed at any time."""
        self._late = late
        self._held = shape.empty()
        self._newest: int | None = None
        """The latest time that has come out."""
        self._latest: int | None = None
        """The latest time that has come."""
        self.late_rows = 0
        """How many were late."""
        self.disordered_rows = 0
        """How many came behind later ones: what would have been out of order without slack."""

    def push(self, batch: pa.RecordBatch) -> Batches:
        """Take rows, and give those that go."""
        if batch.num_rows:
            self._count(self._shape.times(batch))
        return self._let_go(pa.concat_batches([self._held, batch]), self.size)

    def finish(self) -> Batches:
        """All rows that are held back."""
        return self._let_go(self._held, 0)

    def _count(self, times: Ints) -> None:
        before = times[0] if self._latest is None else self._latest
        latest = np.maximum.accumulate(np.append(before, times))
        self.disordered_rows += int((times < latest[:-1]).sum())
        self._latest = int(latest[-1])

    def _let_go(self, rows: pa.RecordBatch, kept: int) -> Batches:
        order = np.argsort(self._shape.times(rows), kind="stable")
        count = max(len(order) - kept, 0)
        # Those that stay keep the order in which they came.
        self._held = rows.take(integer_column(np.sort(order[count:])))
        going = rows.take(integer_column(order[:count]))
        if not going.num_rows:
            return []
        times = self._shape.times(going)
        late = 0 if self._newest is None else int(np.searchsorted(times, self._newest))
        self._newest = max(int(times[-1]), times[-1] if self._newest is None else self._newest)
        if late:
            if self._late is Late.DISCARD:
                if not self.late_rows:
                    _log.warning("matches that came too late to be in order are left out; more slack would keep them")
                going = going.slice(late)
            self.late_rows += late
        return [going] if going.num_rows else []
