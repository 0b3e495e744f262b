"""Aggregates that depend on the order of rows: the values of the first and the last one by (time, ``_seq``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidelog.aggregates.base import Column, Cuts, Incremental, States, number_type, plain
from tidelog.aggregates.binding import register
from tidelog.aggregates.runs import spread

_MODULE = "tidelog.aggregates"


class _AtEnd(Incremental):
    """The value of the row at an end of the order, None if it is null there."""

    by_value = True
    by_place = True
    sees_nulls = True
    last = True

    def __init__(self, types: Sequence[pa.DataType], **parameters: Any) -> None:
        super().__init__(types, **parameters)
        self._number = number_type(self.name, types[0])
        self.state = np.dtype([("time", "<i8"), ("seq", "<i8"), ("value", self._number), ("valid", "<u8")])

    def init(self, columns: Sequence[Column], cuts: Cuts) -> States:
        """The rows at the ends of runs, which are in order."""
        values, times, numbers = columns
        rows = cuts[1:] - 1 if self.last else cuts[:-1]
        states = np.zeros(len(rows), self.state)
        ends = values[rows]
        states["time"], states["seq"] = times[rows], numbers[rows]
        states["valid"] = ~np.ma.getmaskarray(ends)
        states["value"] = np.where(states["valid"] != 0, np.ma.getdata(ends), 0)
        return states

    def merge(self, states: States, cuts: Cuts) -> States:
        """The first or last places of runs, wherever they stand."""
        runs = spread(np.arange(len(cuts) - 1), cuts)
        order = np.lexsort((states["seq"], states["time"], runs))
        merged: States = states[order[cuts[1:] - 1 if self.last else cuts[:-1]]]
        return merged

    def result_type(self) -> pa.DataType | None:
        """That of results."""
        return self.types[0]

    def eval(self, state: Any) -> Any:
        """The value."""
        return plain(state["value"], self.types[0]) if state["valid"] else None

    def shifted(self, states: States, base: int) -> States:
        """States with other sequence numbers."""
        moved = states.copy()
        moved["seq"] += base
        return moved


@register
class First(_AtEnd):
    """The value of the first row by (time, ``_seq``), null or not, as SQL's ``first``."""

    name = "first"
    id = f"{_MODULE}:first"
    last = False


@register
class Last(_AtEnd):
    """The value of the last row by (time, ``_seq``), null or not, as SQL's ``last``."""

    name = "last"
    id = f"{_MODULE}:last"
