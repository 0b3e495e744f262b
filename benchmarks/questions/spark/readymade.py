"""The ceiling of Spark's interface for data sources in Python: a source and a sink that do nothing of their own.

The source hands over Arrow batches as they lie in mapped files, the sink writes the buffers of batches as they come.
Nothing that comes through this interface can be faster. Workers import this module, so it is light, and its directory
(that of the benchmarks) has to be on their ``PYTHONPATH``.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

SUFFIX = ".arrow"


class ReadyMade(DataSource):
    """Arrow files in the directory ``path`` as a table, a partition each; and a place for raw buffers."""

    @classmethod
    def name(cls) -> str:
        """What it is called in ``format(...)``."""
        return "readymade"

    def schema(self) -> StructType:
        """That of the files."""
        from pyspark.sql.pandas.types import from_arrow_schema

        with pa.memory_map(str(_files(self.options["path"])[0])) as file:
            return from_arrow_schema(pa.ipc.open_file(file).schema, prefer_timestamp_ntz=True)

    def reader(self, schema: StructType) -> DataSourceReader:
        """What reads all files."""
        return _Reader(self.options["path"])

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """What writes raw buffers."""
        return _Writer(self.options["path"])


class _Reader(DataSourceReader):
    def __init__(self, path: str) -> None:
        self._path = path

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(str(file)) for file in _files(self._path)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with pa.memory_map(partition.value) as file:
            reader = pa.ipc.open_file(file)
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)


class _Writer(DataSourceArrowWriter):
    def __init__(self, path: str) -> None:
        self._path = path
        os.makedirs(path, exist_ok=True)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _write_buffers(self._path, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _sync(self._path)


def _files(path: str) -> list[Path]:
    return sorted(Path(path).glob(f"*{SUFFIX}"))


def _write_buffers(path: str, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
    """Write everything that is in the memory of some batches to one new file, durably."""
    with open(os.path.join(path, uuid.uuid4().hex), "wb", buffering=0) as file:
        for batch in batches:
            for column in batch.columns:
                for buffer in column.buffers():
                    if buffer is not None:
                        file.write(buffer)
        os.fsync(file.fileno())
    return WriterCommitMessage()


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
