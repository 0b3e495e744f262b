"""Rows put into order, and several inputs as one in the order of time."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tidelog.model.errors import SchemaError
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.operators.base import Batches, Needs, Operator, Shape
from tidelog.operators.properties import Order, Properties
from tidelog.operators.state import State
from tidelog.operators.waiting import Waiting


class _Ordered(Operator):
    """Rows that wait until the watermark has passed their time, and leave in order."""

    def __init__(self, inputs: Sequence[Shape], output: Shape, needs: Needs) -> None:
        super().__init__(inputs, output, needs)
        self._waiting = Waiting(output)

    def advance(self, watermark: int) -> Batches:
        """The rows before the watermark."""
        rows = self._waiting.take(watermark)
        return [] if rows is None else [rows]

    def skip(self, horizon: int) -> tuple[int, ...]:
        """Rows come out at the times at which they come in; those that wait and are not wanted are gone."""
        self._waiting.take(horizon)
        return (horizon,) * len(self.inputs)

    def next_deadline(self) -> int | None:
        """When the first row may leave."""
        first = self._waiting.first
        return None if first is None else first + 1

    def snapshot(self) -> State:
        """What waits."""
        return self._waiting.snapshot()

    def restore(self, state: State) -> None:
        """Let wait what waited."""
        self._waiting.restore(state)


class Reorder(_Ordered):
    """The same rows in order: each waits until the watermark has passed its time."""

    gives_order = True

    def __init__(self, shape: Shape) -> None:
        super().__init__([shape], shape, Needs(order=False))

    def derive(self, inputs: Sequence[Properties]) -> Properties:
        """In order; rows of one time in that of arrival, unless they have numbers that every copy has."""
        (own,) = inputs
        return Properties(max(own.order, Order.RISING), own.inserts_only, own.is_determined, own.key)

    def push(self, port: int, batch: pa.RecordBatch) -> Batches:
        """Let rows wait."""
        self._waiting.add(batch)
        return []


class Union(_Ordered):
    """The rows of all inputs in the order of time; those of one time in the order of the inputs.

    All inputs have the same columns, apart from ``_seq``, which numbers the rows of each by themselves: it decides
    between rows of one time and input, and is not part of the output.
    """

    def __init__(self, shapes: Sequence[Shape]) -> None:
        plain = [_without_numbers(shape) for shape in shapes]
        for number, shape in enumerate(plain):
            if shape.time != plain[0].time or not shape.schema.equals(plain[0].schema):
                raise SchemaError(
                    f"input {number} of a union has the columns {shapes[number].schema}, in time by "
                    f"{shapes[number].time!r}; expected those of the first, {shapes[0].schema}"
                )
        super().__init__(shapes, plain[0], Needs())

    def push(self, port: int, batch: pa.RecordBatch) -> Batches:
        """Let rows wait for those of other inputs."""
        self._waiting.add(batch.select(self.output.schema.names), port)
        return []


def _without_numbers(shape: Shape) -> Shape:
    if not shape.has_numbers:
        return shape
    return Shape(pa.schema([each for each in shape.schema if each.name != SEQUENCE_COLUMN]), shape.time)
