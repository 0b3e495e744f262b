"""A schema for data that has none yet, for tools that create streams from files and frames."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from itertools import chain
from typing import Any

import pyarrow as pa

from tidelog.model.conversion.columns import is_column
from tidelog.model.conversion.families import value_type
from tidelog.model.errors import SchemaError
from tidelog.model.schema import Schema


def infer_schema(data: Any, time: str) -> Schema:
    """The schema that Arrow sees in ``data``, with event time in column ``time``.

    Takes what :func:`tidelog.model.conversion.convert.to_batches` takes. A reader is left untouched; exporters of
    one-shot Arrow streams are spent, so make a reader of them first. Python values get Arrow's default types (int64,
    float64, string, timestamps in microseconds). The index of a pandas frame counts as columns only when a level of it
    is the time. Raises :class:`SchemaError` when there is no such time column, or a column that cannot be stored.
    """
    try:
        found = _arrow_schema(data, time)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise SchemaError(f"no schema can be told from a {type(data).__name__}: {error}") from error
    if isinstance(time, str) and time in found.names and pa.types.is_string(value_type(found.field(time).type)):
        raise SchemaError(
            f"the time column {time!r} has texts, which are read as times where a schema says so; give one, such as "
            f"schema=pyarrow.schema([({time!r}, pyarrow.timestamp('us')), ...])"
        )
    return Schema(found, time)


def _arrow_schema(data: Any, time: str) -> pa.Schema:
    if isinstance(data, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
        return data.schema
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if pandas is not None and isinstance(data, pandas.DataFrame):
        index_counts = time in data.index.names and time not in data.columns
        return _with_small_offsets(pa.Schema.from_pandas(data, preserve_index=index_counts))
    if polars is not None and isinstance(data, polars.DataFrame):
        return _with_small_offsets(data.to_arrow(compat_level=polars.CompatLevel.oldest()).schema)
    if isinstance(data, Mapping):
        return _schema_of_columns({name: each if is_column(each) else [each] for name, each in data.items()})
    if isinstance(data, list) and all(isinstance(row, Mapping) for row in data):
        # Any row may leave columns out, the first one too.
        names = dict.fromkeys(chain.from_iterable(data))
        return _schema_of_columns({name: [row.get(name) for row in data] for name in names})
    if hasattr(data, "__arrow_c_array__"):
        return pa.record_batch(data).schema
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data).schema
    raise TypeError("expected an Arrow table, batch or reader, a data frame, a dict or a list of dicts")


def _schema_of_columns(columns: Mapping[str, Any]) -> pa.Schema:
    return pa.schema([(name, pa.array(values).type) for name, values in columns.items()])


def _with_small_offsets(schema: pa.Schema) -> pa.Schema:
    """Data frames have 64-bit offsets for all text, which says nothing about the data."""
    small = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
    return pa.schema([field.with_type(small.get(value_type(field.type), field.type)) for field in schema])
