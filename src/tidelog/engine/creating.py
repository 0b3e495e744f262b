"""What a stream begins with: its schema, given or told by data, and the first rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tidelog.model import infer_schema, to_batches
from tidelog.model.arguments import found
from tidelog.model.errors import SchemaError, listed
from tidelog.model.schema import Schema
from tidelog.model.types import type_name
from tidelog.store.rows.stored import owned


class Opening:
    """The schema of a stream that is to be, and data for it if there is some."""

    def __init__(self, data: Any, schema: pa.Schema | Schema | None, time: str | None) -> None:
        """Raises :class:`SchemaError` if there is no schema, or no time column, to be told."""
        self.data = _reader(data) if _is_stream(data) else data
        self._is_told = schema is not None
        """Whether the schema was given, not only seen in the data."""
        self.schema = _schema(self.data, schema, time)

    def check(self) -> None:
        """Raise :class:`InputError` if the data does not fit; of a reader, nothing is looked at yet."""
        if self.data is None or isinstance(self.data, pa.RecordBatchReader):
            return
        batches = to_batches(self.data, self.schema)
        if not isinstance(self.data, pa.RecordBatch | pa.Table):
            batches = [owned(batch) for batch in batches]  # the caller may change what they were made of
        self.data = pa.Table.from_batches(batches, self.schema.arrow)

    def refuse_other(self, name: str, known: Schema) -> None:
        """Raise :class:`SchemaError` unless a stream that is there has the columns that are wanted.

        Of columns seen in data, names and types count: whether there may be nulls no data can tell.
        """
        if self.schema == known if self._is_told else _columns(self.schema) == _columns(known):
            return
        raise SchemaError(
            f"stream {name!r} exists with the columns {_told(known)}; found {_told(self.schema)}. Give the schema it "
            "has, change it with evolve, or choose another name"
        )


def _is_stream(data: Any) -> bool:
    """Whether data is exported by Arrow's C interface, perhaps only once: asking for its schema would spend it."""
    is_known = isinstance(data, pa.Table | pa.RecordBatch | pa.RecordBatchReader)
    is_frame = type(data).__module__.partition(".")[0] in ("pandas", "polars")
    return not (is_known or is_frame) and hasattr(data, "__arrow_c_stream__")


def _reader(data: Any) -> pa.RecordBatchReader:
    try:
        return pa.RecordBatchReader.from_stream(data)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise SchemaError(f"found a {type(data).__name__} that is no table of columns: {error}") from error


def _schema(data: Any, schema: pa.Schema | Schema | None, time: str | None) -> Schema:
    if isinstance(schema, Schema):
        if time is not None and not (isinstance(time, str) and time == schema.time):
            raise SchemaError(f"found time={time!r} and a schema whose time column is {schema.time!r}; leave time out")
        return schema
    if schema is None and data is None:
        raise SchemaError(
            "found neither a schema nor data; expected one of them, such as schema=pyarrow.schema(...) or data=a frame"
        )
    if schema is not None and not isinstance(schema, pa.Schema):
        raise SchemaError(str(found("the schema", schema, "a pyarrow.Schema, or data=... to take the columns of data")))
    if time is None:
        known = "" if schema is None else f" one of {listed(schema.names)},"
        raise SchemaError(f"no time column was named; expected time={known} the column with the event times")
    return infer_schema(data, time) if schema is None else Schema(schema, time)


def _columns(schema: Schema) -> tuple[str, list[tuple[str, pa.DataType]]]:
    return schema.time, [(field.name, field.type) for field in schema]


def _told(schema: Schema) -> str:
    columns = [f"{field.name} {type_name(field.type)}{'' if field.nullable else ' not null'}" for field in schema]
    return f"{', '.join(columns)} (time {schema.time})"
