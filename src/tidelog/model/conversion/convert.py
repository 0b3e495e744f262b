"""Whatever users append, as record batches of exactly the stream's schema.

Accepted are Arrow tables, batches and readers, anything that exports Arrow data (``__arrow_c_stream__``,
``__arrow_c_array__``), pandas and Polars data frames, dicts of columns (lists, NumPy, Arrow; single values are
repeated), one dict (an event) and lists of dicts.

**Columns** are matched by name, in any order. A nullable column may be missing and is then null; other columns
must be there, and there must be no unknown ones. The index of a pandas frame is ignored, except for levels that
are named like a column of the schema.

**Values** must arrive as they are. Casts happen where no value changes: integers of any width, floats without
fraction to integers and integers to floats if exact, units of time, midnights to dates and dates to midnights,
decimals of other precision, large and small offsets, dictionaries by value, null columns to anything nullable.
Integers for a timestamp column count its unit. Aware, naive and zoned times are treated as
:mod:`tidelog.model.times.clock` says. Python values may also be datetimes and ISO 8601 strings for timestamps, and a
Python float is rounded to float32 where the column is that narrow. Nothing else is converted.

**Missing values** are None, pandas' NA and NaT, NumPy's NaT, masked values and Arrow nulls. NaN is a number and
stays, except in what belongs to pandas (data frames, Series, indexes, arrays of it): there it stands for a missing
value, as it does for PyArrow.

**Text** from Arrow is trusted to be UTF-8, as Arrow's format demands: what is stored is the bytes, whatever they
are, and looking at each of them again would slow down the ingestion of text by a tenth or more. For data from
strangers ``validate=True`` checks text and offsets.

**Memory** is shared with the input wherever types allow. Who keeps a batch longer than the call must know that
NumPy and pandas memory can be written to by its owner.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

import pyarrow as pa

from tidelog.model.arguments import found, instance
from tidelog.model.conversion.columns import ArrowColumn, ColumnReader, is_column
from tidelog.model.conversion.rows import row_reader
from tidelog.model.errors import InputError
from tidelog.model.naming import check_names
from tidelog.model.schema import Schema
from tidelog.model.times.instants import shown

_MANY_BATCHES = "Many batches are one input as pyarrow.RecordBatchReader.from_batches(schema, batches)"


def to_batches(data: Any, schema: Schema, *, validate: bool = False) -> list[pa.RecordBatch] | Iterator[pa.RecordBatch]:
    """``data`` as batches of exactly ``schema.arrow``; empty batches are left out.

    Data in memory is converted and checked as a whole, and comes back as a list: when this returns, all of it
    fits. Streams (readers, and exporters of ``__arrow_c_stream__`` other than the frames and tables above) may
    not end or not fit into memory: their columns are checked now, and the iterator that comes back converts and
    checks batch by batch, so a fault further on is raised after the batches before it were handed out.

    Raises :class:`InputError` that names the first column and row at fault.
    """
    try:
        converter = _converter(schema)
    except TypeError:  # not even hashable
        raise found("a schema", schema, "a tidelog.Schema") from None
    return converter.convert(data, validate)


@functools.lru_cache(maxsize=256)
def _converter(schema: Schema) -> _Converter:
    return _Converter(schema)


class _Plan:
    """How batches of one Arrow schema become batches of the stream's."""

    def __init__(self, source: pa.Schema, schema: Schema, readers: Sequence[ColumnReader]) -> None:
        check_names(source.names, schema, "the input")
        self.source = source
        self._target = schema.arrow
        self._is_exact = source.equals(schema.arrow, check_metadata=True)
        self._is_alike = source.names == schema.arrow.names and source.types == schema.arrow.types
        """Whether at most nullability and metadata differ."""
        self._steps = [(reader, source.get_field_index(reader.name)) for reader in readers]
        for reader, position in self._steps:
            if position >= 0:
                reader.check_type(source.field(position).type)

    def apply(self, batch: pa.RecordBatch, first_row: int, validate: bool) -> list[pa.RecordBatch]:
        """The batch, or its parts, under the stream's schema."""
        if batch.num_rows == 0:
            return []
        if self._is_alike and not validate:
            for reader, position in self._steps:
                if not reader.nullable:
                    reader.check_nulls(batch.column(position), first_row)
            return [batch if self._is_exact else pa.RecordBatch.from_arrays(batch.columns, schema=self._target)]
        columns = []
        for reader, position in self._steps:
            if position < 0:
                columns.append(pa.nulls(batch.num_rows, reader.type))
            else:
                column = reader.from_arrow(batch.column(position), first_row=first_row, validate=validate)
                reader.check_nulls(column, first_row)
                columns.append(column)
        return _assembled(columns, self._target)


class _Converter:
    """Everything about a schema that conversion needs more than once."""

    def __init__(self, schema: Schema) -> None:
        instance("a schema", schema, Schema, "a tidelog.Schema")
        self._schema = schema
        self._columns = [ColumnReader(field) for field in schema]
        self._rows = row_reader(schema)
        self._last_plan = _Plan(schema.arrow, schema, self._columns)

    def convert(self, data: Any, validate: bool) -> list[pa.RecordBatch] | Iterator[pa.RecordBatch]:
        if isinstance(data, pa.RecordBatch):
            return self._from_batches([data], data.schema, validate)
        if isinstance(data, dict | Mapping):  # dict first: asking an abstract class takes a while
            return self._from_mapping(data, validate)
        if isinstance(data, list):
            return self._from_rows(data)
        if isinstance(data, pa.Table):
            return self._from_batches(data.to_batches(), data.schema, validate)
        if isinstance(data, pa.RecordBatchReader):
            return self._from_reader(data, validate)
        return self._from_foreign(data, validate)

    def _from_foreign(self, data: Any, validate: bool) -> list[pa.RecordBatch] | Iterator[pa.RecordBatch]:
        pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
        if pandas is not None and isinstance(data, pandas.DataFrame):
            return self._from_pandas(data, validate)
        if polars is not None and isinstance(data, polars.DataFrame):
            # Polars' own strings are views; the oldest level spares us the detour over them.
            return self.convert(data.to_arrow(compat_level=polars.CompatLevel.oldest()), validate)
        if polars is not None and isinstance(data, polars.LazyFrame):
            raise InputError("found a polars LazyFrame, which holds no data yet; append its .collect()")
        imported: pa.RecordBatch | pa.RecordBatchReader | None = None
        try:
            if hasattr(data, "__arrow_c_array__"):
                imported = pa.record_batch(data)
            elif hasattr(data, "__arrow_c_stream__"):
                imported = pa.RecordBatchReader.from_stream(data)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InputError(f"found a {type(data).__name__} that is no table of columns: {error}") from error
        if imported is not None:
            return self.convert(imported, validate)
        raise InputError(
            f"found {shown(data)} ({type(data).__name__}); expected an Arrow table, batch or reader, a pandas or "
            f"Polars data frame, a dict of columns, a dict or a list of dicts. {_MANY_BATCHES}"
        )

    def _plan(self, source: pa.Schema) -> _Plan:
        # Batches come in long runs of one schema. Losing a race for the attribute costs a plan, nothing else.
        plan = self._last_plan
        if not plan.source.equals(source, check_metadata=True):
            plan = _Plan(source, self._schema, self._columns)
            self._last_plan = plan
        return plan

    def _from_batches(
        self, batches: Iterable[pa.RecordBatch], source: pa.Schema, validate: bool
    ) -> list[pa.RecordBatch]:
        plan = self._plan(source)
        result: list[pa.RecordBatch] = []
        first_row = 0
        for batch in batches:
            result.extend(plan.apply(batch, first_row, validate))
            first_row += batch.num_rows
        return result

    def _from_reader(self, reader: pa.RecordBatchReader, validate: bool) -> Iterator[pa.RecordBatch]:
        plan = _Plan(reader.schema, self._schema, self._columns)

        def batches() -> Iterator[pa.RecordBatch]:
            first_row = 0
            for batch in reader:
                yield from plan.apply(batch, first_row, validate)
                first_row += batch.num_rows

        return batches()

    def _from_mapping(self, data: Mapping[Any, Any], validate: bool) -> list[pa.RecordBatch]:
        # An event almost always has a bare time, and columns almost never do; ask in the likely order.
        if not is_column(data.get(self._schema.time)):
            try:
                return [self._rows.batch([self._rows.read(data)])]
            except InputError:
                if not any(map(is_column, data.values())):
                    raise
        return self._from_columns(data, "the dict", validate)

    def _from_rows(self, rows: list[Any]) -> list[pa.RecordBatch]:
        if not rows:
            return []
        if set(map(type, rows)) != {dict}:
            _check_mappings(rows)
        names = set(chain.from_iterable(rows))
        if not names.issubset(self._schema.names):
            row = next(row for row, each in enumerate(rows) if not set(each).issubset(self._schema.names))
            check_names(list(rows[row]), self._schema, f"row {row}")
        check_names(list(names), self._schema, "the list")
        columns = {}
        for name in names:
            try:
                columns[name] = list(map(itemgetter(name), rows))
            except KeyError:
                columns[name] = [row.get(name) for row in rows]
        return self._from_columns(columns, "the list", validate=False)

    def _from_pandas(self, frame: Any, validate: bool) -> list[pa.RecordBatch]:
        names = list(frame.columns)
        levels = [name for name in frame.index.names if name in self._schema and name not in names]
        check_names([*names, *levels], self._schema, "the data frame")
        columns = {name: frame[name] for name in names}
        columns.update({name: frame.index.get_level_values(name) for name in levels})
        return self._from_columns(columns, "the data frame", validate)

    def _from_columns(self, data: Mapping[Any, Any], what: str, validate: bool) -> list[pa.RecordBatch]:
        check_names(list(data), self._schema, what)
        columns: dict[str, ArrowColumn] = {
            reader.name: reader.read(data[reader.name], validate=validate)
            for reader in self._columns
            if reader.name in data and is_column(data[reader.name])
        }
        first, rows = next((name, len(column)) for name, column in columns.items())
        for name, column in columns.items():
            if len(column) != rows:
                raise InputError(
                    f"{what} has {rows} values in column {first!r}, but {len(column)} in column {name!r}; "
                    "expected columns of one length",
                    column=name,
                )
        for reader in self._columns:
            if reader.name not in columns:
                columns[reader.name] = (
                    reader.repeat(data[reader.name], rows) if reader.name in data else pa.nulls(rows, reader.type)
                )
        return _assembled([columns[reader.name] for reader in self._columns], self._schema.arrow) if rows else []


def _check_mappings(rows: list[Any]) -> None:
    for row, each in enumerate(rows):
        if not isinstance(each, Mapping):
            hint = f". {_MANY_BATCHES}" if isinstance(each, pa.RecordBatch) else ""
            raise InputError(
                f"row {row}: found {shown(each)} ({type(each).__name__}), expected a dict of names to values{hint}",
                row=row,
            )


def _assembled(columns: list[ArrowColumn], schema: pa.Schema) -> list[pa.RecordBatch]:
    if not any(isinstance(column, pa.ChunkedArray) for column in columns):
        return [pa.RecordBatch.from_arrays(columns, schema=schema)]
    table = pa.Table.from_arrays(columns, schema=schema)
    return [batch for batch in table.to_batches() if batch.num_rows]
