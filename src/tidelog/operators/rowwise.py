"""Operators that look at each row by itself: filters and projections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.expr import Expression, parse, predicate
from tidelog.model.arrays import boolean_column
from tidelog.model.errors import SchemaError
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.operators.base import Batches, Needs, Operator, Shape
from tidelog.operators.properties import Order, Properties
from tidelog.operators.state import State


class Rowwise(Operator):
    """An operator that keeps nothing."""

    def __init__(self, shape: Shape, output: Shape) -> None:
        super().__init__([shape], output, Needs(order=False))

    def advance(self, watermark: int) -> Batches:
        """Nothing waits."""
        return []

    def skip(self, horizon: int) -> tuple[int, ...]:
        """Rows come out at the times at which they come in."""
        return (horizon,)

    def derive(self, inputs: Sequence[Properties]) -> Properties:
        """Order is kept; so is a key whose columns are, under whatever names."""
        (own,) = inputs
        names = {self.origin(name): name for name in reversed(self.output.schema.names)}
        key = None
        if own.key is not None and all(name in names for name in own.key):
            key = tuple(names[name] for name in own.key)
        elif own.order == Order.STRICT:
            key = ()
        return Properties(own.order, own.inserts_only, own.same_ties, key)

    def snapshot(self) -> State:
        """There is nothing to know."""
        return State()

    def restore(self, state: State) -> None:
        """There was nothing to know."""


class Filter(Rowwise):
    """The rows that satisfy a condition in SQL, as they are."""

    def __init__(self, shape: Shape, where: str) -> None:
        """Raises :class:`~tidelog.expr.ExpressionError` for what is no condition on such rows."""
        super().__init__(shape, shape)
        self._predicate = predicate(where, shape.schema)

    def push(self, port: int, batch: pa.RecordBatch) -> Batches:
        """The rows that satisfy the condition."""
        mask = self.mask(batch)
        kept = int(mask.sum())
        if kept == len(mask):
            return [batch] if kept else []
        return [batch.filter(boolean_column(mask))] if kept else []

    def mask(self, batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Which rows satisfy it."""
        return self._predicate.mask(batch)

    def origin(self, column: str) -> str | None:
        """All columns are as they were."""
        return column


class Projection(Rowwise):
    """A row of new columns for each row: expressions in SQL, by the names of the columns."""

    keeps_rows = True

    def __init__(self, shape: Shape, columns: Mapping[str, str], time: str | None = None) -> None:
        """``time`` is the one among the new columns that is their time; by default that of the same name as before.

        It has to be the time of the rows that come in, under whatever name, so that order stays what it is. ``_seq``
        is carried along. Raises :class:`~tidelog.expr.ExpressionError` for what is no expression of such rows.
        """
        self._columns: dict[str, str | Expression] = {}
        fields = []
        for name, text in columns.items():
            if text in shape.schema.names:  # as it is, whatever type SQL would make of it
                self._columns[name] = text
                fields.append(shape.schema.field(text).with_name(name))
                continue
            expression = parse(text, shape.schema)
            plain = str(expression).strip('"')
            if plain in shape.schema.names and expression.columns == (plain,):
                self._columns[name] = plain
                fields.append(shape.schema.field(plain).with_name(name))
            else:
                self._columns[name] = expression
                fields.append(pa.field(name, expression.type, expression.nullable))
        if shape.has_numbers and SEQUENCE_COLUMN not in self._columns:
            self._columns[SEQUENCE_COLUMN] = SEQUENCE_COLUMN
            fields.append(shape.schema.field(SEQUENCE_COLUMN))
        time = shape.time if time is None else time
        if self._columns.get(time) != shape.time:
            raise SchemaError(
                f"the column {time!r} is not the time of the rows, {shape.time!r}; name the column that is to carry it"
            )
        super().__init__(shape, Shape(pa.schema(fields), time))

    def push(self, port: int, batch: pa.RecordBatch) -> Batches:
        """The new columns."""
        if not batch.num_rows:
            return []
        arrays = [
            batch.column(each) if isinstance(each, str) else each.evaluate(batch) for each in self._columns.values()
        ]
        return [pa.RecordBatch.from_arrays(arrays, schema=self.output.schema)]

    def origin(self, column: str) -> str | None:
        """Some columns are as they were."""
        found = self._columns[column]
        return found if isinstance(found, str) else None


class Presented(Rowwise):
    """The same rows under other names, without columns that are not wanted, or nullable ones that were not."""

    keeps_rows = True

    def __init__(self, shape: Shape, columns: Sequence[str], output: Shape) -> None:
        """``columns`` are those that come in, in the order of those that come out, of the same types."""
        self._columns = [shape.schema.get_field_index(name) for name in columns]
        types = [shape.schema.field(place).type for place in self._columns]
        if types != output.schema.types:
            raise SchemaError(f"columns of the types {types} cannot be presented as {output.schema}")
        super().__init__(shape, output)

    def push(self, port: int, batch: pa.RecordBatch) -> Batches:
        """The same arrays."""
        return [pa.RecordBatch.from_arrays([batch.column(each) for each in self._columns], schema=self.output.schema)]

    def origin(self, column: str) -> str | None:
        """All columns are as they were."""
        return str(self.inputs[0].schema.names[self._columns[self.output.schema.get_field_index(column)]])
