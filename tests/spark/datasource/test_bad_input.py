"""What cannot work is refused in the driver, by a clear error, before any row is read or written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import tidelog
from tidelog import spark as ts
from tidelog.model.errors import InputError, SchemaError, TidelogError
from tidelog.model.schema import Schema
from tidelog.spark.datasource.options import SinkOptions
from tidelog.spark.datasource.provider import TidelogSource
from tidelog.spark.datasource.types import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

SCHEMA = pa.schema([("ts", pa.int64()), ("v", pa.int64())])


@pytest.fixture
def path(tmp_path: Path) -> str:
    place = str(tmp_path / "store")
    with tidelog.open(place) as store:
        for name in ("in", "out"):
            store.create_stream(name, schema=SCHEMA, time="ts")
        store.stream("in").append({"ts": [1, 2, 3], "v": [1, 2, 3]})
        store.create_stream("other", schema=pa.schema([("ts", pa.int64()), ("v", pa.bool_())]), time="ts")
    return place


def poisoned(session: SparkSession, type_: str) -> DataFrame:
    """Rows that raise when anybody looks at them."""
    return session.range(3).selectExpr("id AS ts", f"CAST(raise_error('rows were computed') AS {type_}) AS v")


def copying(session: SparkSession, path: str, checkpoint: Path, stream: str = "out") -> Any:
    frame = session.readStream.format("tidelog").options(stream="in").load(path)
    return frame.writeStream.format("tidelog").options(stream=stream, checkpointLocation=str(checkpoint))


@pytest.mark.parametrize(
    ("type_", "stream", "kind", "message"),
    [
        ("string", "out", TidelogError, "column 'v': found type string, expected int64"),
        ("array<int>", "new", SchemaError, "column 'v' has the Spark type array<int>"),
    ],
)
def test_columns_that_do_not_fit(
    session: SparkSession, path: str, type_: str, stream: str, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind) as caught:
        ts.write(poisoned(session, type_), path, stream, time="ts", sort=False)
    assert message in str(caught.value)


def test_a_directory_that_cannot_be_reached(session: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    place = tmp_path / "file" / "store"
    with pytest.raises(TidelogError, match=r"there is no store in .*file/store"):
        ts.read(session, place, "s")
    with pytest.raises(TidelogError, match=r"cannot make directory .*file: a file of that name exists"):
        ts.write(poisoned(session, "bigint"), place, "s", time="ts", sort=False)


@pytest.mark.parametrize(
    ("stream", "overwrite", "message"),
    [
        ("other", False, "column 'v': found type int64, expected bool"),
        ("new", False, "there is no stream 'new'"),
        ("out", True, "the output mode is complete"),
    ],
)
def test_queries_that_cannot_be_written(path: str, stream: str, overwrite: bool, message: str) -> None:
    with pytest.raises(TidelogError, match=message):
        TidelogSource({"path": path, "stream": stream}).streamWriter(spark_schema(Schema(SCHEMA, "ts")), overwrite)


def test_a_query_ends_with_the_message(session: SparkSession, path: str, tmp_path: Path) -> None:
    query = copying(session, path, tmp_path / "checkpoint", "other").trigger(availableNow=True).start(path)
    with pytest.raises(Exception, match="column 'v': found type int64, expected bool"):
        query.awaitTermination(600)
    with tidelog.open(path) as store:
        assert len(store.stream("other")) == 0
        assert store.orphans() == []


def test_two_queries_on_one_checkpoint(session: SparkSession, path: str, tmp_path: Path) -> None:
    """The second one takes over: Spark stops the first, and no row comes twice."""
    first: StreamingQuery = copying(session, path, tmp_path / "checkpoint").start(path)
    second: StreamingQuery = copying(session, path, tmp_path / "checkpoint").start(path)
    try:
        second.processAllAvailable()
        assert not first.isActive
    finally:
        first.stop()
        second.stop()
    with tidelog.open(path) as store:
        assert store.stream("out").scan(columns=["v"]).read_all()["v"].to_pylist() == [1, 2, 3]


@pytest.mark.parametrize(
    "options",
    [{"transaction": "a"}, {"transaction_number": "5"}, {"transaction": "a", "transaction_number": "-1"},
     {"transaction": "a", "transaction_number": "one"}],
)  # fmt: skip
def test_transactions_have_a_name_and_a_number(options: dict[str, str]) -> None:
    with pytest.raises(InputError, match="transaction_number"):
        SinkOptions.read({"path": "/x", "stream": "s", **options})


def test_batches_are_numbered_by_spark(path: str) -> None:
    source = TidelogSource({"path": path, "stream": "out", "transaction": "a", "transaction_number": "1"})
    with pytest.raises(InputError, match="the batches of a query are numbered by Spark"):
        source.streamWriter(spark_schema(Schema(SCHEMA, "ts")), overwrite=False)
