"""Several operators as one, so that one job runs many cases: for checks of runtimes that take long to start.

Rows say which case they belong to, and which row of it they are; what comes out is packed, with its case.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from tidelog.model.arrays import distinct, integer_column, integers
from tidelog.operators.arrivals import Arrivals
from tidelog.operators.base import FOREVER, Batches, Needs, Operator, Shape
from tidelog.operators.conformance import Case, in_order, timely
from tidelog.operators.state import State, packed, together, unpacked

TIME, CASE, KEY, ROW = "time", "case", "key", "row"
_INPUT: Final = pa.schema(
    [pa.field(TIME, pa.int64(), nullable=False), (CASE, pa.int32()), (KEY, pa.int64()), (ROW, pa.int64())]
)
_ARRIVING: Final = _INPUT.append(pa.field("port", pa.int64()))
OUTPUT: Final = pa.schema([pa.field(TIME, pa.int64(), nullable=False), (CASE, pa.int32()), ("rows", pa.binary())])


class Several(Operator):
    """Operators of many cases, whose rows are in time, and come in order."""

    def __init__(self, cases: Sequence[Case], *, by_time: bool = False) -> None:
        """Divided by case and key; or with ``by_time`` by time, as far behind and ahead as one of them looks."""
        self._rows = [[_in_time(case, port) for port in range(len(case.rows))] for case in cases]
        self._operators = [case.make() for case in cases]
        ports = max(len(case.rows) for case in cases)
        needs = Needs(keys=((CASE, KEY),) * ports)
        if by_time:
            reach = [(each.needs.behind or 0, each.needs.ahead or 0) for each in self._operators]
            needs = Needs(keys=None, behind=max(behind for behind, _ in reach), ahead=max(ahead for _, ahead in reach))
        super().__init__([Shape(_INPUT, TIME)] * ports, Shape(OUTPUT, TIME), needs)

    def table(self, port: int) -> pa.Table:
        """The rows of an input."""
        parts = []
        for number, (operator, rows) in enumerate(zip(self._operators, self._rows, strict=True)):
            if port < len(rows):
                times = operator.inputs[port].times(rows[port])
                parts.append(
                    (times, np.full(len(times), number), _keys(operator, port, rows[port]), np.arange(len(times)))
                )
        columns = [np.concatenate(each) for each in zip(*parts, strict=True)]
        return pa.Table.from_arrays(
            [pa.array(each, kind) for each, kind in zip(columns, _INPUT.types, strict=True)], _INPUT.names
        )

    def push(self, port: int, batch: pa.RecordBatch) -> Batches:
        """Push rows of cases to their operators."""
        found: Batches = []
        numbers, rows = np.asarray(batch.column(CASE)), integers(batch.column(ROW))
        for number in distinct(numbers).tolist():
            own = self._rows[number][port].take(integer_column(rows[numbers == number]))
            found += self._given(number, self._operators[number].push(port, own))
        return found

    def advance(self, watermark: int) -> Batches:
        """Advance all operators."""
        return [
            batch
            for number, each in enumerate(self._operators)
            for batch in self._given(number, each.finish() if watermark == FOREVER else each.advance(watermark))
        ]

    def _given(self, number: int, batches: Batches) -> Batches:
        return [given for batch in batches for given in _rows_given(number, batch, self._operators[number].output)]

    def snapshot(self) -> State:
        """The states of all of them."""
        return together({str(number): each.snapshot() for number, each in enumerate(self._operators)})

    def restore(self, state: State) -> None:
        """Go on with all of them."""
        for number, each in enumerate(self._operators):
            each.restore(state.part(str(number)))


class SeveralArriving(Operator):
    """Operators of many cases, whose rows come as they arrive; each has an idea of time of its own."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self._cases = cases
        self._arrivals: dict[int, Arrivals] = {}
        super().__init__([Shape(_ARRIVING, TIME)], Shape(OUTPUT, TIME), Needs(order=False, keys=((CASE,),)))

    def _of(self, number: int) -> Arrivals:
        if number not in self._arrivals:
            case = self._cases[number]
            self._arrivals[number] = Arrivals(case.make(), case.lateness)
        return self._arrivals[number]

    def push(self, port: int, batch: pa.RecordBatch) -> Batches:
        """Push rows of cases to their operators, run by run of one input."""
        found: Batches = []
        numbers, ports, rows = (np.asarray(batch.column(name)) for name in (CASE, "port", ROW))
        for number in distinct(numbers).tolist():
            own, places = ports[numbers == number], rows[numbers == number]
            cuts = [0, *(np.flatnonzero(np.diff(own)) + 1).tolist(), len(own)]
            for first, last in pairwise(cuts):
                run = self._cases[number].rows[int(own[first])].take(integer_column(places[first:last]))
                found += self._given(number, self._of(number).push(int(own[first]), run))
            self._of(number).take_late()
        return found

    def advance(self, watermark: int) -> Batches:
        """Only the end is told to all."""
        if watermark < FOREVER:
            return []
        return [batch for number in sorted(self._arrivals) for batch in self._given(number, self._of(number).finish())]

    def _given(self, number: int, batches: Batches) -> Batches:
        return [given for batch in batches for given in _rows_given(number, batch, self._of(number).operator.output)]

    def snapshot(self) -> State:
        """The states of those that rows have come to."""
        parts = {str(number): each.snapshot() for number, each in self._arrivals.items()}
        return together(parts, {"cases": sorted(self._arrivals)})

    def restore(self, state: State) -> None:
        """Go on with these."""
        for number in state.core["cases"]:
            self._of(number).restore(state.part(str(number)))


def results(cases: Sequence[Case], table: pa.Table) -> list[Batches]:
    """What has come out for each case."""
    found: list[Batches] = [[] for _ in cases]
    shapes = [case.make().output for case in cases]
    for number, content in zip(table.column(CASE).to_pylist(), table.column("rows"), strict=True):
        found[number].append(unpacked(content.as_buffer(), shapes[number].schema))
    return found


def _in_time(case: Case, port: int) -> pa.RecordBatch:
    shape = case.make().inputs[port]
    return in_order(shape, timely(shape, case.rows[port], case.lateness[port]))


def _rows_given(number: int, batch: pa.RecordBatch, shape: Shape) -> Batches:
    """Rows that come out of a case, each by itself, because each has a time."""
    if not batch.num_rows:
        return []
    contents = [packed(batch.slice(row, 1)).to_pybytes() for row in range(batch.num_rows)]
    columns = [integer_column(shape.times(batch)), pa.repeat(pa.scalar(number, pa.int32()), batch.num_rows)]
    return [pa.RecordBatch.from_arrays([*columns, pa.array(contents, pa.binary())], schema=OUTPUT)]


def _keys(operator: Operator, port: int, rows: pa.RecordBatch) -> np.ndarray:
    """A number for each row by which keys may be told apart; equal keys have equal ones."""
    keys = operator.needs.keys
    if not keys:
        return np.zeros(rows.num_rows, np.int64)
    values = zip(*(rows.column(name).to_pylist() for name in keys[port]), strict=True)
    return np.array([zlib.crc32(repr(each).encode()) for each in values], np.int64)
