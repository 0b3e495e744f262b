"""Lookup joins: each row beside the rows of a table, which does not change, that have its key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.model.arrays import distinct, integer_column
from tidelog.model.errors import SchemaError, did_you_mean
from tidelog.operators.base import Batches, Ints, Shape
from tidelog.operators.properties import Order, Properties
from tidelog.operators.rowwise import Rowwise


class Lookup(Rowwise):
    """Rows with the columns of a table behind their own; several times if several rows of the table fit.

    These come in the order of the table. Null matches nothing. Rows that none fits come out with nulls if ``outer``,
    else not at all.
    """

    def __init__(self, shape: Shape, table: pa.Table, by: Mapping[str, str], *, outer: bool = False) -> None:
        """``by`` are columns of the table by those of the rows that they have to equal."""
        for name, other in by.items():
            for names, each in ((shape.schema.names, name), (table.schema.names, other)):
                if each not in names:
                    raise SchemaError(f"there is no column {each!r} to join by; {did_you_mean(each, names)}")
            types = shape.schema.field(name).type, table.schema.field(other).type
            if types[0] != types[1]:
                raise SchemaError(
                    f"the keys {name!r} and {other!r} have the types {types[0]} and {types[1]}; expected the same one: "
                    "cast either before the join"
                )
        twice = [name for name in table.schema.names if name in shape.schema.names]
        if twice:
            raise SchemaError(f"both sides of a join have a column {twice[0]!r}; name one of them otherwise")
        self._outer = outer
        self._by = dict(by)
        fields = [field.with_nullable(True) if outer else field for field in table.schema]
        super().__init__(shape, Shape(pa.schema([*shape.schema, *fields]), shape.time))
        valid = np.ones(table.num_rows, np.bool_)
        for name in by.values():
            valid &= np.asarray(table.column(name).is_valid())
        table = table.filter(pa.array(valid))
        self._steps: list[tuple[pa.Array, Ints]] = []
        """For each key its values, and which numbers of all keys up to it there are."""
        codes = np.zeros(table.num_rows, np.int64)
        for name in by.values():
            column = _whole(table.column(name))
            values = pc.unique(column)
            places = codes * len(values) + _places(column, values)
            known = distinct(places)
            self._steps.append((values, known))
            codes = np.searchsorted(known, places)
        order = np.argsort(codes, kind="stable")
        self._codes = codes[order]
        self._columns = [_whole(column).take(integer_column(order)) for column in table.columns]

    def derive(self, inputs: Sequence[Properties]) -> Properties:
        """Several rows may come out for one, in the order of the table."""
        (own,) = inputs
        return Properties(min(own.order, Order.RISING), own.inserts_only, own.is_determined)

    def push(self, port: int, batch: pa.RecordBatch) -> Batches:
        """Rows with what is found for them."""
        codes = np.zeros(batch.num_rows, np.int64)
        for name, (values, known) in zip(self._by, self._steps, strict=True):
            found = _places(batch.column(name), values)
            places = codes * max(len(values), 1) + found
            at = np.minimum(np.searchsorted(known, places), max(len(known) - 1, 0))
            is_known = (codes >= 0) & (found >= 0) & ((known[at] == places) if len(known) else False)
            codes = np.where(is_known, at, -1)
        firsts = np.searchsorted(self._codes, codes)
        counts = np.where(codes >= 0, np.searchsorted(self._codes, codes, side="right") - firsts, 0)
        is_missing = counts == 0
        shown = np.where(is_missing, 1, counts) if self._outer else counts
        rows = np.repeat(np.arange(batch.num_rows), shown)
        if not len(rows):
            return []
        behind = np.arange(len(rows)) - np.repeat(np.cumsum(shown) - shown, shown)
        partners = pa.array(firsts[rows] + behind, mask=is_missing[rows])
        own = batch.take(integer_column(rows))
        others = [each.take(partners) for each in self._columns]
        return [pa.RecordBatch.from_arrays([*own.columns, *others], schema=self.output.schema)]


def _places(column: pa.Array, values: pa.Array) -> Ints:
    """Where values of a column are among others, -1 for those that are not, and for nulls."""
    found = pc.index_in(column, value_set=values, skip_nulls=True)
    return np.asarray(found.fill_null(-1)).astype(np.int64)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)
