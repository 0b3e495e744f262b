"""What the driver does for a stream after a commit, and what it says of coarse events; no session is needed."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import DoubleType, LongType, StructField, StructType

from tidelog.engine.store import Store, manifests_of
from tidelog.engine.stream import writer_of
from tidelog.model.errors import GrainError, StorageError
from tidelog.spark.datasource.committing import Written
from tidelog.spark.datasource.options import SinkOptions, SourceOptions
from tidelog.spark.datasource.sink import TidelogWriter
from tidelog.spark.datasource.source import TidelogReader
from tidelog.store.bulk import BulkWriter

SCHEMA = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("x", pa.float64())])
DECLARED = StructType([StructField("ts", LongType(), False), StructField("x", DoubleType())])


@pytest.fixture
def path(tmp_path: Path) -> str:
    with Store.open(tmp_path) as store:
        store.create_stream("s", SCHEMA, "ts")
    return str(tmp_path)


def commit(path: str, first: int, **options: str) -> None:
    """What the driver does at the end of a job that has written ten rows."""
    writer = TidelogWriter(SinkOptions.read({"path": path, "stream": "s", **options}), DECLARED, False)
    with Store.open(path) as store, BulkWriter(writer_of(store.stream("s")).context) as task:
        task.append(pa.record_batch([list(range(first, first + 10)), [0.5] * 10], schema=SCHEMA))
        written = Written({"s": task.finish()})
    writer.commit([written])


def splits(path: str) -> int:
    with Store.open(path, read_only=True) as store:
        assert store.check() == []
        return len(manifests_of(store, "s").load().splits)


def test_many_commits_leave_few_splits(path: str) -> None:
    for index in range(20):
        commit(path, index * 10)
    assert splits(path) < 8
    with Store.open(path, read_only=True) as store:
        assert store.stream("s").scan().read_all()["ts"].to_pylist() == list(range(200))


def test_it_can_be_turned_off(path: str) -> None:
    for index in range(10):
        commit(path, index * 10, compact="false")
    assert splits(path) == 10


def test_a_failure_does_not_fail_the_job(
    path: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise StorageError("the disk is tired")

    monkeypatch.setattr("tidelog.store.upkeep.maintenance.Maintenance.run", fail)
    with caplog.at_level(logging.WARNING, "tidelog.maintenance"):
        commit(path, 0)
    assert "after a commit, which is through: the disk is tired" in caplog.text
    assert splits(path) == 1


def test_reduced_events_are_refused_while_planning(path: str) -> None:
    commit(path, 0)
    commit(path, 100)
    with Store.open(path) as store:
        store.stream("s").coarsen(50)
    with pytest.raises(GrainError, match="coarsened to 1 entries"):
        TidelogReader(SourceOptions.read({"path": path, "stream": "s"}), DECLARED).partitions()
    later = TidelogReader(SourceOptions.read({"path": path, "stream": "s", "start": "50"}), DECLARED)
    assert sum(batch.num_rows for part in later.partitions() for batch in later.read(part)) == 10
