"""What a continuous query is: the streams that it reads, and operators for these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.operators.base import Operator, Shape
from tidelog.operators.composed import chain
from tidelog.operators.rowwise import Filter, Presented
from tidelog.sql.text.tree import Node


@dataclass(frozen=True)
class Continuous:
    """A continuous query."""

    text: str
    """As it was written."""
    meaning: str
    """As it was understood: equal for texts that say the same of the same columns."""
    streams: tuple[str, ...]
    """The streams that are read, one for each input; one that is mentioned twice is two inputs."""
    columns: tuple[str, ...]
    """The columns that come out."""
    make: Callable[[], Operator]
    """Gives a new operator, always an equal one. Its inputs have the columns that are needed of the streams."""

    def presented(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of the operator as they are handed out."""
        return batch if len(self.columns) == batch.num_columns else batch.select(list(self.columns))


@dataclass(frozen=True)
class Plan:
    """A part of a query: what it reads, and an operator for that."""

    streams: tuple[str, ...]
    make: Callable[[], Operator]
    columns: tuple[str, ...]
    node: Node


def filters(shape: Shape, condition: str | None) -> list[Operator]:
    """An operator for a condition, if there is one."""
    return [] if condition is None else [Filter(shape, condition)]


def presented(operator: Operator, columns: Sequence[str], output: Shape) -> Operator:
    """An operator whose columns are named, and may be null, as those of a union; with the numbers of rows, if any."""
    shape = operator.output
    fields = list(output.schema)
    names = list(columns)
    if shape.has_numbers and SEQUENCE_COLUMN not in names:
        names.append(SEQUENCE_COLUMN)
        fields.append(shape.schema.field(SEQUENCE_COLUMN))
    wanted = Shape(pa.schema(fields), output.time)
    return operator if wanted == shape else chain(operator, Presented(shape, names, wanted))
