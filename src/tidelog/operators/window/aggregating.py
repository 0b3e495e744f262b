"""What windows have in common: keys, aggregates, how rows become slices, and how windows become rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from tidelog.aggregates.base import States
from tidelog.expr import parse_aggregate
from tidelog.model.arrays import integer_column
from tidelog.model.errors import SchemaError
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.operators.base import Ints, Shape
from tidelog.operators.keys import Keys
from tidelog.operators.window.lifting import Lifting
from tidelog.operators.window.slices.keyed import KeyedStore
from tidelog.operators.window.slices.slices import KEY, UNWRITTEN, Slices
from tidelog.operators.window.slices.store import SliceStore
from tidelog.operators.window.slices.unkeyed import PlainStore

START: Final = "window_start"
END: Final = "window_end"
REVISION: Final = "revision"

_NARROW: Final = 1 << 16


class Aggregates:
    """Aggregates by keys, and the shape of the rows of windows: keys, start, end, values.

    The time of these rows is the end of their windows.
    """

    def __init__(
        self, shape: Shape, aggregates: Mapping[str, str], by: Sequence[str], *, revised: bool = False
    ) -> None:
        """``aggregates`` are calls in SQL such as ``avg(price)``, by the names of their columns.

        With ``revised`` there is a column for the revision behind start and end.
        Raises :class:`~tidelog.expr.ExpressionError` for what is no aggregate of such rows, and :class:`SchemaError`
        for one that does not tell the type of its values.
        """
        self.shape = shape
        self.keys = Keys(shape, by)
        schema = shape.schema
        if not shape.has_numbers:
            schema = schema.append(pa.field(SEQUENCE_COLUMN, pa.int64(), nullable=False))
        self.folds = [parse_aggregate(text, schema, shape.time) for text in aggregates.values()]
        self.lifting = Lifting(self.folds)
        fields = [*self.keys.schema, *(pa.field(name, shape.time_type, nullable=False) for name in (START, END))]
        self.is_revised = revised
        if revised:
            fields.append(pa.field(REVISION, pa.int64(), nullable=False))
        for (name, text), fold in zip(aggregates.items(), self.folds, strict=True):
            if fold.type is None:
                raise SchemaError(
                    f"{text} cannot be a column of a window: its code does not tell the type of its values; have its "
                    "result_type() say it"
                )
            fields.append(pa.field(name, fold.type))
        names = [field.name for field in fields]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise SchemaError(f"several columns of a window are called {', '.join(map(repr, twice))}; rename some")
        self.output = Shape(pa.schema(fields), END)
        self._columns = list(dict.fromkeys(name for fold in self.folds for name in fold.columns))
        self.rows = 0
        """How many rows there have been: each has its number."""

    def make_store(self) -> SliceStore:
        """A store for slices."""
        return KeyedStore(self.folds) if self.keys.columns else PlainStore(self.folds)

    def slices(self, batch: pa.RecordBatch, order: Ints | None, places: Ints, codes: Ints) -> Slices:
        """Rows, in an order, as slices: one for each stretch of rows of the same place and key.

        None is the order in which they stand.
        """
        at = np.arange(batch.num_rows) if order is None else order
        sorted_places, sorted_codes = places[at], codes[at]
        is_new = np.ones(len(at), np.bool_)
        is_new[1:] = (sorted_places[1:] != sorted_places[:-1]) | (sorted_codes[1:] != sorted_codes[:-1])
        begins = np.flatnonzero(is_new)
        cuts = np.append(begins, len(at))
        firsts, lasts = at[begins], at[cuts[1:] - 1]
        return self._lifted(batch, order, cuts, sorted_places[begins], sorted_codes[begins], firsts, lasts)

    def plain_slices(self, batch: pa.RecordBatch, cuts: Ints, starts: Ints) -> Slices:
        """:meth:`slices` without keys, by the cuts between runs."""
        return self._lifted(batch, None, cuts, starts, np.zeros(len(starts), np.int64), cuts[:-1], cuts[1:] - 1)

    def _lifted(
        self,
        batch: pa.RecordBatch,
        order: Ints | None,
        cuts: Ints,
        places: Ints,
        codes: Ints,
        firsts: Ints,
        lasts: Ints,
    ) -> Slices:
        rows = self._needed(batch)
        if order is not None:
            rows = rows.take(integer_column(order))
        times = self.shape.times(batch)
        base = self.rows
        unwritten = np.full(len(places), UNWRITTEN, np.int64)
        words = np.stack([places, codes, firsts + base, lasts + base, times[firsts], times[lasts], unwritten])
        self.rows += batch.num_rows
        return Slices(words, self.lifting.lift(rows, cuts))

    def _needed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if SEQUENCE_COLUMN in self._columns and not self.shape.has_numbers:
            numbers = integer_column(np.arange(self.rows, self.rows + batch.num_rows))
            batch = batch.append_column(pa.field(SEQUENCE_COLUMN, pa.int64(), nullable=False), numbers)
        # Rows are counted even where no column of theirs is looked at.
        return batch.select(self._columns or [self.shape.time])

    def batch(
        self,
        words: Ints,
        starts: Ints,
        ends: Ints,
        states: Sequence[States],
        order: Ints | slice,
        revisions: Ints | None = None,
    ) -> pa.RecordBatch:
        """The rows of windows in an order: those of which ``words`` are the first slices, for instance."""
        columns = self.keys.values(words[KEY, order]) if self.keys.columns else []
        for times in (starts, ends):
            column = integer_column(times[order])
            columns.append(column if self.shape.time_type == pa.int64() else column.view(self.shape.time_type))
        if self.is_revised:
            assert revisions is not None
            columns.append(integer_column(revisions[order]))
        columns += [fold.lower_column(own[order]) for fold, own in zip(self.folds, states, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=self.output.schema)


def order_of(groups: Ints) -> Ints | None:
    """The order of rows by group; None if they are in it."""
    if len(groups) < 2 or (groups[1:] >= groups[:-1]).all():
        return None
    low, high = int(groups.min()), int(groups.max())
    if high - low < _NARROW:  # by counting
        return np.argsort((groups - low).astype(np.uint16), kind="stable")
    return np.argsort(groups, kind="stable")
