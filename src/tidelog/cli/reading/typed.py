"""Formats that know their types: Parquet, and Arrow IPC as file and as stream."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import pyarrow as pa

from tidelog.cli.formats import Format
from tidelog.cli.reading.detect import ARROW_FILE_MAGIC, Input
from tidelog.cli.reading.source import fitted, taken
from tidelog.model import Schema
from tidelog.model.errors import InputError
from tidelog.model.types import type_name

PARQUET_BATCH_ROWS = 1 << 16


class TypedSource:
    """An input that brings an Arrow schema of its own."""

    def __init__(self, content: Input, *, columns: Collection[str] | None = None) -> None:
        self._input = content
        try:
            self._schema, self._blocks = _opened(content, columns)
        except (pa.ArrowException, OSError) as error:
            raise content.broken(error) from error

    def infer(self, time: str, types: Mapping[str, pa.DataType]) -> Schema:
        """The schema that the input has; types other than its own are refused where they cannot hold its values."""
        fields = [pa.field(field.name, types.get(field.name, field.type), field.nullable) for field in self._schema]
        fields.extend(pa.field(name, type_) for name, type_ in types.items() if name not in self._schema.names)
        return Schema(pa.schema(fields), time)

    def batches(self, schema: Schema) -> Iterator[pa.RecordBatch]:
        """Batch by batch."""
        row = 0
        try:
            for batch in self._blocks:
                yield from fitted(batch, schema, self._input.name, row)
                row += batch.num_rows
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, InputError):
                raise
            raise self._input.broken(f"after row {row}: {error}") from error


def _opened(content: Input, columns: Collection[str] | None) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    if content.format is Format.PARQUET:
        import pyarrow.parquet as pq  # takes a while to load, and most commands do not need it

        file = pq.ParquetFile(content.seekable())
        names = taken(file.schema_arrow.names, columns, content.name)
        schema = pa.schema([file.schema_arrow.field(name) for name in names])
        return schema, file.iter_batches(PARQUET_BATCH_ROWS, columns=None if columns is None else names)
    if content.peek().startswith(ARROW_FILE_MAGIC):
        reader = pa.ipc.open_file(content.seekable())
        batches = (reader.get_batch(index) for index in range(reader.num_record_batches))
        return _selected(reader.schema, batches, columns, content.name)
    if not content.peek():
        raise InputError(f"{content.name}: found nothing; expected an Arrow IPC file or stream")
    stream = pa.ipc.open_stream(content.for_arrow())
    return _selected(stream.schema, iter(stream), columns, content.name)


def _selected(
    schema: pa.Schema, batches: Iterator[pa.RecordBatch], columns: Collection[str] | None, name: str
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    if columns is None:
        return schema, batches
    names = taken(schema.names, columns, name)
    return pa.schema([schema.field(each) for each in names]), (batch.select(names) for batch in batches)


def parsed_types(texts: list[str]) -> dict[str, pa.DataType]:
    """Types as ``column=type``. Raises ValueError with advice for other texts."""
    types: dict[str, pa.DataType] = {}
    for text in texts:
        column, equals, name = text.rpartition("=")
        if not equals or not column:
            raise ValueError(f"found {text!r}; expected COLUMN=TYPE, such as price=float64")
        if column in types:
            raise ValueError(f"found column {column!r} twice; name it once")
        try:
            types[column] = _type(name.strip())
        except ValueError:
            known = ", ".join(map(type_name, (pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.date32())))
            raise ValueError(
                f"found the type {name!r}; expected an Arrow type such as {known}, timestamp[us], timestamp[ns, UTC] "
                "or decimal128(10, 2)"
            ) from None
    return types


def _type(name: str) -> pa.DataType:
    kind, _, inner = name.replace("[", "(").rstrip(")]").partition("(")
    arguments = [part.strip().removeprefix("tz=") for part in inner.split(",")] if inner else []
    if kind == "timestamp" and arguments:
        return pa.timestamp(*arguments)
    if kind in ("decimal", "decimal128") and len(arguments) == 2:
        return pa.decimal128(*map(int, arguments))
    return pa.type_for_alias(name)
