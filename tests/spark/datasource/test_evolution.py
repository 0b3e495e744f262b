"""Spark over streams whose schema changes: what runs keeps its schema, what is planned later has the new one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidelog
from tidelog.model.errors import SchemaError
from tidelog.spark.datasource.options import SinkOptions, SourceOptions
from tidelog.spark.datasource.sink import TidelogWriter
from tidelog.spark.datasource.source import TidelogReader
from tidelog.spark.datasource.stream_source import TidelogStreamReader
from tidelog.spark.datasource.types import spark_schema

SCHEMA = pa.schema([("ts", pa.int64()), ("v", pa.int32())])


@pytest.fixture
def path(tmp_path: Path) -> str:
    with tidelog.open(tmp_path / "store") as store:
        store.create_stream("s", SCHEMA, "ts").append({"ts": [1, 2], "v": [10, 20]})
    return str(tmp_path / "store")


def declared(path: str) -> Any:
    with tidelog.open(path, read_only=True) as store:
        return spark_schema(store.stream("s").schema, None)


def rows(reader: Any, partitions: Any) -> list[dict[str, Any]]:
    return [row for part in partitions for batch in reader.read(part) for row in batch.to_pylist()]


def evolve(path: str, values: list[int], **changes: Any) -> None:
    with tidelog.open(path) as store:
        stream = store.stream("s")
        stream.evolve(**changes)
        name = stream.schema.names[1]
        stream.append([{"ts": 3 + i, name: value} for i, value in enumerate(values)])


def test_a_running_streaming_query_keeps_its_schema(path: str) -> None:
    reader = TidelogStreamReader(SourceOptions(path=path, stream="s"), declared(path))
    start = reader.initialOffset()
    first = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert rows(reader, reader.partitions(start, first)) == [{"ts": 1, "v": 10}, {"ts": 2, "v": 20}]
    evolve(path, [30], rename={"v": "w"}, widen={"v": pa.int64()}, add=[("x", pa.string())])
    second = reader.latestOffset(first, reader.getDefaultReadLimit())
    assert rows(reader, reader.partitions(first, second)) == [{"ts": 3, "v": 30}]
    again = TidelogStreamReader(SourceOptions(path=path, stream="s"), declared(path))
    assert rows(again, again.partitions(first, second)) == [{"ts": 3, "w": 30, "x": None}]
    evolve(path, [2**40], add=[("y", pa.string())])
    third = reader.latestOffset(second, reader.getDefaultReadLimit())
    with pytest.raises(SchemaError, match="start again with the new schema"):
        rows(reader, reader.partitions(second, third))


def test_a_read_that_was_planned_before(path: str) -> None:
    reader = TidelogReader(SourceOptions(path=path, stream="s", where="v >= 20"), declared(path))
    evolve(path, [30], rename={"v": "w"}, add=[("v", pa.string())])
    assert rows(reader, reader.partitions()) == [{"ts": 2, "v": 20}, {"ts": 3, "v": 30}]


def test_a_write_that_was_planned_before(path: str) -> None:
    writer = TidelogWriter(SinkOptions(path=path, stream="s"), declared(path), False)
    evolve(path, [], rename={"v": "w"}, add=[("x", pa.int8())])
    written = writer.write(iter([pa.RecordBatch.from_pydict({"ts": [5], "v": pa.array([50], pa.int32())})]))
    evolve(path, [], rename={"w": "z"})
    writer.commit([written])
    with tidelog.open(path, read_only=True) as store:
        assert store.stream("s").scan().read_all().to_pylist()[-1] == {"ts": 5, "z": 50, "x": None}
        assert store.check() == []
