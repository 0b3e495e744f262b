"""Events as keys and values of RocksDB."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from formats.base import SCAN_ROWS, THREADS, Format, Store

BATCH_ROWS = 1000
"""Events of a write batch; hundreds to thousands are what its documentation advises."""

_KEY = struct.Struct(">qq")
_LENGTH = struct.Struct("<I")


class RocksDB(Format):
    """One key an event: time and row number, so that events keep their order; the columns are packed into the value.

    Written in batches, without the write-ahead log and with a flush at the end, which is how loading is advised.
    Packing is not timed. The first ``most_rows`` rows only: a rate over ten times as many is no higher.
    """

    name = "RocksDB"
    most_rows = 1_000_000

    def unavailable(self) -> str | None:
        """Why rocksdict cannot be used."""
        try:
            import rocksdict  # noqa: F401
        except ImportError as error:
            return str(error)
        return None

    def prepare(self, table: pa.Table) -> Any:
        """Keys and values."""
        return table.schema, pairs(table)

    def write(self, directory: Path, prepared: Any) -> None:
        """Write all batches, flush, close."""
        from rocksdict import WriteBatch

        schema, rows = prepared
        database = connect(directory, wal=False)
        for start in range(0, len(rows), BATCH_ROWS):
            batch = WriteBatch(raw_mode=True)
            for key, value in rows[start : start + BATCH_ROWS]:
                batch.put(key, value)
            database.write(batch)
        database.flush()
        database.close()
        (directory / "schema").write_bytes(schema.serialize().to_pybytes())

    def open(self, directory: Path) -> Store:
        """Open the database for reading."""
        return _RocksStore(directory)


def connect(directory: Path, *, wal: bool = True, sync: bool = False) -> Any:
    """A database below a directory: with bytes for keys and values, as many threads as others, LZ4."""
    from rocksdict import DBCompressionType, Options, Rdict, WriteOptions

    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.increase_parallelism(THREADS)
    options.set_compression_type(DBCompressionType.lz4())
    database = Rdict(str(directory / "rocks"), options)
    writing = WriteOptions()
    writing.disable_wal = not wal
    writing.sync = sync
    database.set_write_options(writing)
    return database


def pairs(table: pa.Table) -> list[tuple[bytes, bytes]]:
    """A key and a value for each row. The first column is the time; columns are numbers or texts, without nulls."""
    numbers, texts = _columns(table.schema)
    fixed = np.empty(table.num_rows, _record(table.schema))
    for name in numbers:
        fixed[name] = table[name].cast(_stored(table.schema.field(name).type)).to_numpy()
    width, packed = fixed.dtype.itemsize, fixed.tobytes()
    values = [packed[start : start + width] for start in range(0, len(packed), width)]
    for name in texts:
        encoded = [text.encode() for text in table[name].to_pylist()]
        values = [before + _LENGTH.pack(len(text)) + text for before, text in zip(values, encoded, strict=True)]
    times = table[0].cast(pa.int64()).to_pylist()
    return [(_KEY.pack(time, row), value) for row, (time, value) in enumerate(zip(times, values, strict=True))]


class _RocksStore(Store):
    def __init__(self, directory: Path) -> None:
        self._schema = pa.ipc.read_schema(pa.BufferReader((directory / "schema").read_bytes()))
        self._database = connect(directory)

    def scan(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """All values, unpacked a batch at a time."""
        names = self._schema.names if columns is None else list(columns)
        values: list[bytes] = []
        for value in self._database.values():
            values.append(value)
            if len(values) == SCAN_ROWS:
                yield _batch(self._schema, values).select(names)
                values = []
        if values:
            yield _batch(self._schema, values).select(names)

    def rows(self, first: int, count: int) -> pa.Table:
        """The rows from the start on, cut: keys are not found by row number."""
        return pa.Table.from_batches(self.scan(None)).slice(first, count)

    def close(self) -> None:
        """Close the database."""
        self._database.close()


def _batch(schema: pa.Schema, values: list[bytes]) -> pa.RecordBatch:
    numbers, texts = _columns(schema)
    record = _record(schema)
    fixed = np.frombuffer(b"".join(value[: record.itemsize] for value in values), record)
    found: dict[str, Any] = {name: np.ascontiguousarray(fixed[name]) for name in numbers}
    places = [record.itemsize] * len(values)
    for name in texts:
        column = []
        for row, value in enumerate(values):
            start = places[row] + _LENGTH.size
            places[row] = start + _LENGTH.unpack_from(value, places[row])[0]
            column.append(value[start : places[row]].decode())
        found[name] = column
    arrays = [pa.array(found[field.name], _stored(field.type)).cast(field.type) for field in schema]
    return pa.record_batch(arrays, schema)


def _columns(schema: pa.Schema) -> tuple[list[str], list[str]]:
    """Names of the columns of numbers, and of those of texts."""
    texts = [field.name for field in schema if pa.types.is_string(field.type)]
    return [name for name in schema.names if name not in texts], texts


def _record(schema: pa.Schema) -> np.dtype[Any]:
    numbers, _ = _columns(schema)
    return np.dtype([(name, _stored(schema.field(name).type).to_pandas_dtype()) for name in numbers])


def _stored(kind: pa.DataType) -> pa.DataType:
    """The type in which values of a type are packed: time stamps are numbers."""
    return pa.int64() if pa.types.is_timestamp(kind) else kind
