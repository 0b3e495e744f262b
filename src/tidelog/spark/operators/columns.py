"""Rows of operators as rows of Spark, and back: whatever types operators have, none of their values changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark

from tidelog.model.errors import SchemaError, did_you_mean
from tidelog.operators.base import Shape
from tidelog.spark.datasource.types import TIME_MARK, ToSpark, arrow_schema, spark_type
from tidelog.spark.runtime.errors import UnrepresentableError

_LENGTH: Final = pa.duration("us")
_INTERVAL: Final = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanoseconds", "<i8")])
_DAY: Final = np.int64(86_400_000_000)
WATERMARK: Final = "spark.watermarkDelayMs"
"""The key in the metadata of a column under which Spark notes the delay of its watermark."""


def declared_type(type_: pa.DataType) -> spark.DataType:
    """The type of Spark's that has the values of one of Arrow's; nanoseconds are counted in a bigint."""
    from pyspark.sql.pandas.types import from_arrow_type

    if pa.types.is_interval(type_):
        return spark.DayTimeIntervalType()
    try:
        return spark_type(type_, "long")
    except KeyError:
        found: spark.DataType = from_arrow_type(type_)
        return found


def declared(schema: pa.Schema) -> spark.StructType:
    """Columns as Spark has them."""
    return spark.StructType([spark.StructField(each.name, declared_type(each.type)) for each in schema])


def given(schema: pa.Schema) -> ToSpark:
    """What turns rows of some columns into rows of :func:`declared`."""
    return ToSpark(_with_lengths(schema), declared(schema), "long")


def _with_lengths(schema: pa.Schema) -> pa.Schema:
    """Columns with lengths of time as Spark counts them."""
    return pa.schema([each.with_type(_LENGTH) if _is_length(each.type) else each for each in schema])


def _is_length(type_: pa.DataType) -> bool:
    return bool(pa.types.is_interval(type_) or pa.types.is_duration(type_))


def _lengths(array: pa.Array) -> pa.Array:
    """Lengths of time in microseconds; what is shorter is cut off."""
    if not pa.types.is_interval(array.type):
        return array.cast(_LENGTH, safe=False)
    parts = np.frombuffer(array.buffers()[1], _INTERVAL)[array.offset : array.offset + len(array)]
    is_null = np.asarray(array.is_null())
    if (parts["months"][~is_null] != 0).any():
        raise UnrepresentableError(
            "found a length of time in months, which Spark's type interval day to second cannot hold; leave it out"
        )
    return pa.array(parts["days"] * _DAY + parts["nanoseconds"] // 1000, mask=is_null).view(_LENGTH)


def converted(arrays: Sequence[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    """Columns that Spark brings as rows of the columns that an operator takes."""
    own = [_inward(array, field.type) for array, field in zip(arrays, schema, strict=True)]
    return pa.RecordBatch.from_arrays(own, schema=schema)


def _inward(array: pa.Array, target: pa.DataType) -> pa.Array:
    if array.type == target:
        return array
    if pa.types.is_timestamp(target) and array.type == pa.int64():  # nanoseconds
        return array.view(target)
    if pa.types.is_interval(target):
        days, rest = np.divmod(np.asarray(array.cast(_LENGTH).view(pa.int64()).fill_null(0)), _DAY)
        parts = np.zeros(len(array), _INTERVAL)
        parts["days"], parts["nanoseconds"] = days, rest * 1000
        intervals = pa.Array.from_buffers(target, len(array), [None, pa.py_buffer(parts)])
        return pc.if_else(array.is_valid(), intervals, None)
    return array.cast(target)


def shape_of(brought: spark.StructType, time: str | None, what: str = "the DataFrame") -> Shape:
    """What rows of Spark look like to an operator.

    Without ``time`` it is the column that has a watermark, the time of a stream that was read, or the only timestamp.
    Raises :class:`SchemaError` if there is none, or more than one.
    """
    if time is None:
        time = _only_time(brought, what)
    elif time not in brought.names:
        raise SchemaError(f"{what} has no column {time!r} for time; {did_you_mean(time, brought.names)}")
    # Whether Spark says that a column has no nulls depends on how a query was written.
    fields = [pa.field(each.name, each.type, nullable=each.name != time) for each in arrow_schema(brought)]
    return Shape(pa.schema(fields), time)


def _only_time(brought: spark.StructType, what: str) -> str:
    kinds = (spark.TimestampType, spark.TimestampNTZType)
    times = [each for each in brought if isinstance(each.dataType, kinds)]
    for found in (
        [each.name for each in brought if WATERMARK in (each.metadata or {})],
        [each.name for each in brought if (each.metadata or {}).get(TIME_MARK)],
        [each.name for each in times],
    ):
        if len(found) == 1:
            return found[0]
        if found:
            break
    told = f"the timestamps {', '.join(map(repr, found))}" if found else "no timestamp"
    raise SchemaError(f"{what} has {told} among its columns; say which one is the time of its rows")


def delay_of(brought: spark.StructType, time: str) -> int | None:
    """The delay of Spark's watermark for a column, in microseconds; None if it has none."""
    found = (brought[time].metadata or {}).get(WATERMARK)
    return None if found is None else int(found) * 1000


def outward(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows that come out of an operator, as Spark takes them."""
    convert, plain = given(schema).convert, _with_lengths(schema)
    for batch in batches:
        if batch.num_rows:
            columns = [_lengths(each) if _is_length(each.type) else each for each in batch.columns]
            yield from convert(pa.RecordBatch.from_arrays(columns, schema=plain))
