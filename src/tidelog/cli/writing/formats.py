"""Writers: batches of one schema into a file of bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import PurePath
from types import TracebackType
from typing import IO, Any, Final, Protocol, Self, TypeAlias

import pyarrow as pa

from tidelog.cli.formats import Output
from tidelog.cli.writing.texts import csv_lines, json_lines
from tidelog.model.errors import InputError

TEXT_BYTES: Final = 64 << 20
"""About how much Arrow data is turned into text at a time."""

BINARY: Final = frozenset({Output.ARROW, Output.PARQUET})

_BY_SUFFIX: Final = {
    ".csv": Output.CSV,
    ".json": Output.JSON,
    ".jsonl": Output.JSON,
    ".ndjson": Output.JSON,
    ".arrow": Output.ARROW,
    ".arrows": Output.ARROW,
    ".feather": Output.ARROW,
    ".ipc": Output.ARROW,
    ".parquet": Output.PARQUET,
    ".pq": Output.PARQUET,
}


class Writer(Protocol):
    """Takes batches; what it was given is complete only after ``close``."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a batch of the schema the writer was made for."""

    def close(self) -> None:
        """Write what comes last. The file stays open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.close()


def output_for(path: PurePath) -> Output | None:
    """The format that a file's name asks for, if it asks for one."""
    return _BY_SUFFIX.get(path.suffix.lower())


def known_suffixes() -> list[str]:
    """The ends of names that ask for a format."""
    return list(_BY_SUFFIX)


def writer(output: Output, file: IO[bytes], schema: pa.Schema, *, is_stream: bool) -> Writer:
    """A writer of a format other than the table.

    ``is_stream`` chooses the form of Arrow IPC: a stream can be read while it is written, a file at any position.
    """
    return _WRITERS[output](file, schema, is_stream)


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch in parts whose text stays far below what one array of Arrow can hold."""
    step = max(1, batch.num_rows // (1 + batch.nbytes // TEXT_BYTES))
    for first in range(0, batch.num_rows, step):
        yield batch.slice(first, step)


class _JsonWriter(Writer):
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, batch: pa.RecordBatch) -> None:
        for part in _parts(batch):
            self._file.write(json_lines(part))

    def close(self) -> None:
        """Lines need no end."""


class _CsvWriter(Writer):
    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        self._file = file
        names = [pa.array([name]) for name in schema.names]
        file.write(csv_lines(pa.RecordBatch.from_arrays(names, schema.names)))

    def write(self, batch: pa.RecordBatch) -> None:
        for part in _parts(batch):
            self._file.write(csv_lines(part))

    def close(self) -> None:
        """Lines need no end."""


class _ArrowWriter(Writer):
    def __init__(self, file: IO[bytes], schema: pa.Schema, is_stream: bool) -> None:
        make: Callable[..., Any] = pa.ipc.new_stream if is_stream else pa.ipc.new_file
        self._writer = make(file, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()


class _ParquetWriter(Writer):
    ROW_GROUP_ROWS: Final = 1 << 18

    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        import pyarrow.parquet

        try:
            self._writer = pyarrow.parquet.ParquetWriter(file, schema, compression="zstd")
        except pa.ArrowNotImplementedError as error:
            kind = str(error).partition("conversion: ")[2]
            names = ", ".join(repr(field.name) for field in schema if kind and kind in str(field.type))
            raise InputError(
                f"column {names or 'of some type'}: found {kind or error}, which Parquet files do not have; cast it, "
                "as in x::VARCHAR, or epoch(x) of an INTERVAL"
            ) from error
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0
        self._schema = schema

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._rows += batch.num_rows
        if self._rows >= self.ROW_GROUP_ROWS:
            self._write_group()

    def _write_group(self) -> None:
        self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema), row_group_size=self._rows)
        self._waiting, self._rows = [], 0

    def close(self) -> None:
        if self._waiting:
            self._write_group()
        self._writer.close()


_Make: TypeAlias = Callable[[IO[bytes], pa.Schema, bool], Writer]

_WRITERS: Final[dict[Output, _Make]] = {
    Output.CSV: lambda file, schema, _: _CsvWriter(file, schema),
    Output.JSON: lambda file, schema, _: _JsonWriter(file),
    Output.ARROW: _ArrowWriter,
    Output.PARQUET: lambda file, schema, _: _ParquetWriter(file, schema),
}
