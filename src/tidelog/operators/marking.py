"""Rows that are left out in front of an operator, kept as marks: where rows are looked at by others than who decides
how late they are, each of them still tells how far time is.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from tidelog.model.arrays import boolean_column
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.operators.base import Batches, Operator, Shape
from tidelog.operators.composed import chain, steps
from tidelog.operators.rowwise import Filter, Presented, Projection, Rowwise

KEPT: Final = "#kept"
"""The column that is false for rows which are left out."""


def marked(operator: Operator, behind: Operator) -> tuple[Operator, Operator] | None:
    """Two operators that do what two do behind one another; the first one leaves no row out, whatever filters it has.

    None if the first one is something else than filters and projections.
    """
    found = steps(operator)
    if found is None or not all(isinstance(each, Filter | Projection | Presented) for each in found):
        return None
    return Marked(operator), chain(Unmarked(operator.output), behind)


class Marked(Rowwise):
    """What filters and projections give, and for each row that they leave out its time, its number, and nulls."""

    keeps_rows = True

    def __init__(self, operator: Operator) -> None:
        own = operator.output
        stays = (own.time, SEQUENCE_COLUMN)
        fields = [each if each.name in stays else each.with_nullable(True) for each in own.schema]
        super().__init__(operator.inputs[0], Shape(pa.schema([*fields, pa.field(KEPT, pa.bool_())]), own.time))
        self._steps = steps(operator) or []
        self._given = {own.time: self.inputs[0].time, SEQUENCE_COLUMN: SEQUENCE_COLUMN}

    def push(self, port: int, batch: pa.RecordBatch) -> Batches:
        """A row for each."""
        if not batch.num_rows:
            return []
        rows, kept = batch, np.arange(batch.num_rows)
        for step in self._steps:
            if isinstance(step, Filter):
                mask = step.mask(rows)
                rows, kept = rows.filter(boolean_column(mask)), kept[mask]
            else:
                (rows,) = step.push(0, rows)
            if not rows.num_rows:
                break
        is_kept = np.zeros(batch.num_rows, np.bool_)
        is_kept[kept] = True
        places = pa.array(np.cumsum(is_kept) - 1, mask=~is_kept)
        columns = []
        for field in self.output.schema.remove(len(self.output.schema) - 1):
            if field.name in self._given:
                columns.append(batch.column(self._given[field.name]))
            elif rows.num_rows:
                columns.append(rows.column(field.name).take(places))
            else:
                columns.append(pa.nulls(batch.num_rows, field.type))
        return [pa.RecordBatch.from_arrays([*columns, boolean_column(is_kept)], schema=self.output.schema)]


class Unmarked(Rowwise):
    """The rows that were kept, of those that :class:`Marked` gives."""

    def __init__(self, shape: Shape) -> None:
        """``shape`` is that of the rows that come out."""
        stays = (shape.time, SEQUENCE_COLUMN)
        fields = [each if each.name in stays else each.with_nullable(True) for each in shape.schema]
        super().__init__(Shape(pa.schema([*fields, pa.field(KEPT, pa.bool_())]), shape.time), shape)

    def push(self, port: int, batch: pa.RecordBatch) -> Batches:
        """Without the others."""
        rows = batch.filter(batch.column(KEPT))
        if not rows.num_rows:
            return []
        return [pa.RecordBatch.from_arrays(rows.columns[:-1], schema=self.output.schema)]

    def origin(self, column: str) -> str | None:
        """All columns are as they were."""
        return column
