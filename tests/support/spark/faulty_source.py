"""A data source that is tidelog's own and fails where it is told to, in whichever process that is.

Spark runs a source in a process beside the driver, and in workers. So what is to fail is written on disk: a file named
after a step, in a folder that the option ``faults`` names. Whoever comes by first takes the file away and raises; the
next time the step succeeds. Nothing of this is known to the code that is tested.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from tidelog.spark.datasource.committing import Written
from tidelog.spark.datasource.options import SinkOptions, SourceOptions
from tidelog.spark.datasource.provider import TidelogSource
from tidelog.spark.datasource.sink import TidelogWriter
from tidelog.spark.datasource.source import TidelogReader
from tidelog.spark.datasource.stream_sink import TidelogStreamWriter
from tidelog.spark.datasource.stream_source import TidelogStreamReader

NAME = "tidelog_faulty"


class Fault(Exception):
    """What a step fails with."""


class Faults:
    """The steps that are to fail, each once."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = str(folder)

    def next(self, *steps: str) -> Faults:
        """Faults for the next run, in which these steps are to fail.

        A run has a folder of its own: tasks of an earlier one may still be under way, and must not take them.
        """
        found = Faults(Path(self.folder).parent / str(int(Path(self.folder).name) + 1))
        os.makedirs(found.folder)
        for step in steps:
            Path(found.folder, step).touch()
        return found

    def left(self) -> list[str]:
        """The steps that nobody has come to."""
        return sorted(os.listdir(self.folder))

    def at(self, step: str) -> None:
        """Raise :class:`Fault` if the step is to fail: in one process only, and once."""
        try:
            os.unlink(os.path.join(self.folder, step))
        except FileNotFoundError:
            return
        raise Fault(f"at step {step!r}")

    def within(self, rows: Iterator[pa.RecordBatch], step: str) -> Iterator[pa.RecordBatch]:
        """The same rows; the step is in their middle, when a half of the first batch is through."""
        for batch in rows:
            half = batch.num_rows // 2
            if half:
                yield batch.slice(0, half)
                self.at(step)
            yield batch.slice(half)


class FaultyWriter(TidelogWriter):
    """Fails at ``task begins``, ``task writes``, ``task ends``, ``commit begins``, ``commit ends``, ``abort``."""

    def __init__(self, faults: Faults, options: SinkOptions, brought: StructType, overwrite: bool) -> None:
        super().__init__(options, brought, overwrite)
        self._faults = faults

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        self._faults.at("task begins")
        written = super().write(self._faults.within(iterator, "task writes"))
        self._faults.at("task ends")
        return written

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._faults.at("commit begins")
        super().commit(messages)
        self._faults.at("commit ends")

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._faults.at("abort")
        super().abort(messages)


class FaultyStreamWriter(TidelogStreamWriter):
    """Fails at the steps of :class:`FaultyWriter`."""

    def __init__(self, faults: Faults, options: SinkOptions, brought: StructType, overwrite: bool) -> None:
        super().__init__(options, brought, overwrite)
        self._faults = faults

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        self._faults.at("task begins")
        written = super().write(self._faults.within(iterator, "task writes"))
        self._faults.at("task ends")
        return written

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._faults.at("commit begins")
        super().commit(messages, batchId)
        self._faults.at("commit ends")

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._faults.at("abort")
        super().abort(messages, batchId)


class FaultyReader(TidelogReader):
    """Fails at ``partitions``, ``read begins``, ``read goes on``, ``read ends``."""

    def __init__(self, faults: Faults, options: SourceOptions, declared: StructType) -> None:
        super().__init__(options, declared)
        self._faults = faults

    def partitions(self) -> Sequence[InputPartition]:
        self._faults.at("partitions")
        return super().partitions()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        self._faults.at("read begins")
        yield from self._faults.within(super().read(partition), "read goes on")
        self._faults.at("read ends")


class FaultyStreamReader(TidelogStreamReader):
    """Fails at ``initialOffset``, ``latestOffset``, ``available now``, ``source commit`` and the steps of a read."""

    def __init__(self, faults: Faults, options: SourceOptions, declared: StructType) -> None:
        super().__init__(options, declared)
        self._faults = faults

    def initialOffset(self) -> dict[str, str]:  # noqa: N802
        self._faults.at("initialOffset")
        return super().initialOffset()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, str]:  # noqa: N802
        self._faults.at("latestOffset")
        return super().latestOffset(start, limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._faults.at("available now")
        super().prepareForTriggerAvailableNow()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._faults.at("partitions")
        return super().partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        self._faults.at("read begins")
        yield from self._faults.within(super().read(partition), "read goes on")
        self._faults.at("read ends")

    def commit(self, end: dict[str, Any]) -> None:
        self._faults.at("source commit")
        super().commit(end)


class FaultySource(TidelogSource):
    """tidelog's data source with the option ``faults``."""

    def __init__(self, options: dict[str, str]) -> None:
        own = dict(options)
        self._faults = Faults(own.pop("faults"))
        super().__init__(own)

    @classmethod
    def name(cls) -> str:
        return NAME

    def reader(self, schema: StructType) -> DataSourceReader:
        self._faults.at("reader")
        return FaultyReader(self._faults, SourceOptions.read(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        self._faults.at("writer")
        return FaultyWriter(self._faults, SinkOptions.read(self.options), schema, overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        self._faults.at("streamReader")
        return FaultyStreamReader(self._faults, SourceOptions.read(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        self._faults.at("streamWriter")
        return FaultyStreamWriter(self._faults, SinkOptions.read(self.options), schema, overwrite)
