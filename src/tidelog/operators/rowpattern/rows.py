"""Rows of partitions, one behind the other, and expressions over them."""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.expr import Expression, ExpressionError, parse
from tidelog.expr.aggregates import database
from tidelog.model.arrays import batch_of, integer_column
from tidelog.model.times.clock import INT64_MAX, INT64_MIN
from tidelog.operators.base import Ints
from tidelog.operators.keys import comparable
from tidelog.operators.rowpattern.syntax import CLASSIFIER_COLUMN, MATCH_NUMBER_COLUMN, OrderKey

Mask = npt.NDArray[np.bool_]


class Rows:
    """Rows that a search runs over, and what was computed of them."""

    def __init__(self, batch: pa.RecordBatch, cuts: Ints) -> None:
        """``cuts`` are where partitions begin, and the number of rows."""
        self.batch = batch
        self.cuts = cuts
        self._values: dict[str, pa.Array] = {}
        self._shifted: dict[tuple[str, int], pa.Array] = {}

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def values(self, expression: str) -> pa.Array:
        """The value of an expression for each row."""
        found = self._values.get(expression)
        if found is None:
            found = self._values[expression] = evaluated(expression, self.batch)
        return found

    def shifted(self, expression: str, offset: int) -> pa.Array:
        """The value of an expression at the row so many rows behind each one in its partition, or NULL."""
        if offset == 0:
            return self.values(expression)
        found = self._shifted.get((expression, offset))
        if found is None:
            found = self._shift(self.values(expression), offset)
            self._shifted[expression, offset] = found
        return found

    def _shift(self, values: pa.Array, offset: int) -> pa.Array:
        count = len(self)
        gap = pa.nulls(min(abs(offset), count), values.type)
        inner = values.slice(max(offset, 0), max(count - abs(offset), 0))
        whole = pa.concat_arrays([gap, inner] if offset < 0 else [inner, gap])
        if len(self.cuts) == 2:
            return whole
        if offset < 0:
            borders = self.cuts[1:-1, None] + np.arange(-offset)
            outside = np.minimum(borders, self.cuts[2:, None] - 1)
        else:
            borders = self.cuts[1:-1, None] - 1 - np.arange(offset)
            outside = np.maximum(borders, self.cuts[:-2, None])
        mask = np.zeros(count, np.bool_)
        mask[outside.ravel()] = True
        return pc.if_else(pa.array(mask), pa.scalar(None, values.type), whole)

    @cached_property
    def partitions(self) -> Ints:
        """The partition of each row."""
        return np.repeat(np.arange(len(self.cuts) - 1), np.diff(self.cuts))


@lru_cache(256)
def parsed(expression: str, schema: pa.Schema) -> Expression:
    """An expression over columns of some schema."""
    return parse(expression, schema)


def expression_over(text: str, schema: pa.Schema) -> Expression | None:
    """An expression over columns of some schema; None if DuckDB alone knows what it says, or its columns."""
    try:
        return parsed(text, schema)
    except ExpressionError:
        return None


def names_in(text: str, schema: pa.Schema) -> list[str]:
    """The columns that a text may name, and perhaps others."""
    return [name for name in schema.names if name.replace('"', '""') in text]


def column_of(text: str, schema: pa.Schema) -> str | None:
    """The column that an expression is; None if it is none."""
    name = text[1:-1].replace('""', '"') if text.startswith('"') else text
    return name if name in schema.names else None


def evaluated(text: str, batch: pa.RecordBatch) -> pa.Array:
    """The value of an expression for each row of a batch. Raises :class:`EvaluationError`."""
    known = expression_over(text, batch.schema)
    if known is not None:
        return known.evaluate(batch)
    name = column_of(text, batch.schema)
    return batch.column(name) if name is not None else asked(text, batch)


def asked(text: str, batch: pa.RecordBatch) -> pa.Array:
    """The same as DuckDB computes it, of columns named in the text."""
    names = names_in(text, batch.schema)
    own = batch.select(names)
    if not names:  # of which DuckDB takes no table
        own = pa.record_batch([integer_column(np.arange(batch.num_rows))], names=["#row"])
    return database.asked(f"SELECT {text} AS x FROM input", own)


@lru_cache(256)
def type_over(text: str, schema: pa.Schema) -> pa.DataType:
    """The type of an expression over columns of some schema."""
    known = expression_over(text, schema)
    if known is not None:
        return known.type
    none = pa.RecordBatch.from_arrays([pa.nulls(0, each.type) for each in schema], schema=schema)
    return evaluated(text, none).type


def schema_of_terms(schema: pa.Schema) -> pa.Schema:
    """The columns that expressions within terms may use."""
    return pa.schema([*schema, pa.field(CLASSIFIER_COLUMN, pa.string()), pa.field(MATCH_NUMBER_COLUMN, pa.int64())])


def partition_cuts(batch: pa.RecordBatch, columns: tuple[str, ...]) -> Ints:
    """Where partitions begin among rows in their order, and the number of rows."""
    count = batch.num_rows
    if not columns or not count:
        return np.array([0, count] if count else [0], np.int64)
    differs = np.zeros(count - 1, np.bool_)
    for name in columns:
        column = comparable(batch.column(name))
        codes = np.asarray(pc.dictionary_encode(column, null_encoding="encode").indices)
        differs |= codes[1:] != codes[:-1]
    return np.concatenate([[0], np.flatnonzero(differs) + 1, [count]]).astype(np.int64)


def order_times(batch: pa.RecordBatch, key: OrderKey) -> Ints:
    """The values of the first key of the order as integers that do not fall, with the same differences."""
    column = batch.column(key.column)
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int64())
    if pa.types.is_uint64(column.type):
        values = (np.asarray(pc.fill_null(column, 0)) ^ np.uint64(1 << 63)).view(np.int64)
    else:
        values = np.asarray(pc.fill_null(column.cast(pa.int64()), 0))
    if column.null_count:
        null = INT64_MIN if key.nulls_first != key.is_descending else INT64_MAX
        values = np.where(np.asarray(column.is_null()), null, values)
    return np.ascontiguousarray(~values if key.is_descending else values)


def taken(batch: pa.RecordBatch, names: list[str] | tuple[str, ...], indices: pa.Array) -> pa.RecordBatch:
    """Some columns of some rows."""
    schema = pa.schema([batch.schema.field(name) for name in names])
    return batch_of([batch.column(name).take(indices) for name in names], schema, len(indices))


def index_array(rows: Ints, missing: Mask | None) -> pa.Array:
    """Numbers of rows, NULL where they are missing."""
    if missing is None or not missing.any():
        return integer_column(rows)
    bits = np.packbits(~missing, bitorder="little")
    content = pa.py_buffer(np.ascontiguousarray(np.where(missing, 0, rows)))
    return pa.Array.from_buffers(pa.int64(), len(rows), [pa.py_buffer(bits), content], int(missing.sum()))
