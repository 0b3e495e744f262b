"""Streaming queries from and into streams."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import tidelog
from tidelog.model.errors import InputError
from tidelog.spark.datasource.stream_source import Offset
from tidelog.store.manifest.sequence_set import SeqSet

SCHEMA = pa.schema([("ts", pa.int64()), ("v", pa.int64())])


def rows(first: int, last: int) -> dict[str, list[int]]:
    return {"ts": list(range(first, last)), "v": list(range(first, last))}


def values(path: Path, stream: str) -> list[int]:
    with tidelog.open(path, read_only=True) as store:
        return sorted(store.stream(stream).scan(columns=["v"]).read_all()["v"].to_pylist())


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    with tidelog.open(path) as opened:
        opened.create_stream("in", schema=SCHEMA, time="ts")
        opened.create_stream("out", schema=SCHEMA, time="ts")
    return path


def copied(session: SparkSession, store: Path, checkpoint: Path, **options: Any) -> list[int]:
    """Run a query that copies everything there is from one stream to the other; returns the rows of its batches."""
    query = (
        session.readStream.format("tidelog")
        .options(stream="in", **options)
        .load(str(store))
        .writeStream.format("tidelog")
        .options(stream="out", checkpointLocation=str(checkpoint))
        .trigger(availableNow=True)
        .start(str(store))
    )
    query.awaitTermination(600)
    assert query.exception() is None
    return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]


def test_everything_is_copied_once(session: SparkSession, store: Path, tmp_path: Path) -> None:
    with tidelog.open(store) as writer:
        stream = writer.stream("in")
        stream.append(rows(100, 200))
        stream.flush()
        assert copied(session, store, tmp_path / "c") == [100]
        stream.append(rows(200, 250))
        stream.append(rows(0, 30))  # late
        stream.append(rows(250, 260))
        stream.flush()
        stream.append(rows(1000, 1100))  # not flushed: nobody else sees it
        assert sum(copied(session, store, tmp_path / "c")) == 90
        assert values(store, "out") == [*range(30), *range(100, 260)]
        stream.flush()
    assert copied(session, store, tmp_path / "c") == [100]
    assert copied(session, store, tmp_path / "c") == []
    assert values(store, "out") == [*range(30), *range(100, 260), *range(1000, 1100)]
    with tidelog.open(store) as checked:
        assert checked.check() == []


def test_batches_are_as_large_as_they_may_be(session: SparkSession, store: Path, tmp_path: Path) -> None:
    with tidelog.open(store) as writer:
        writer.stream("in").append(rows(0, 100))
    assert copied(session, store, tmp_path / "c", maxRowsPerBatch=40) == [40, 40, 20]
    assert values(store, "out") == list(range(100))
    assert copied(session, store, tmp_path / "other", maxBytesPerBatch=16 * 70) == [70, 30]


@pytest.mark.parametrize(
    ("starting", "expected"),
    [
        ("earliest", [*range(100), *range(200, 210)]),
        ("latest", range(200, 210)),
        ("95", [*range(95, 100), *range(200, 210)]),
    ],
)
def test_where_a_query_starts(session: SparkSession, store: Path, tmp_path: Path, starting: str, expected: Any) -> None:
    with tidelog.open(store) as writer:
        writer.stream("in").append(rows(0, 100))
    copied(session, store, tmp_path / "c", startingOffset=starting)
    with tidelog.open(store) as writer:
        writer.stream("in").append({"ts": list(range(10)), "v": list(range(200, 210))})  # late, but new
    copied(session, store, tmp_path / "c", startingOffset=starting)
    assert values(store, "out") == list(expected)


def test_columns_ranges_and_conditions(session: SparkSession, store: Path, tmp_path: Path) -> None:
    with tidelog.open(store) as writer:
        writer.stream("in").append(rows(0, 100))
    copied(session, store, tmp_path / "c", start="10", end="50", where="v % 2 = 0")
    assert values(store, "out") == list(range(10, 50, 2))


def test_rows_of_spark_and_of_the_tail_in_one_stream(session: SparkSession, store: Path, tmp_path: Path) -> None:
    with tidelog.open(store) as writer:
        stream = writer.stream("in")
        for turn in range(3):
            stream.append(rows(1000 * turn, 1000 * turn + 10))
            stream.flush()
            table = pa.table(rows(1000 * turn + 10, 1000 * turn + 20), schema=SCHEMA)
            session.createDataFrame(table).write.format("tidelog").option("stream", "in").mode("append").save(
                str(store)
            )
            assert sum(copied(session, store, tmp_path / "c")) == 20
    assert values(store, "out") == [1000 * turn + row for turn in range(3) for row in range(20)]


def test_a_reader_that_was_overtaken(session: SparkSession, store: Path, tmp_path: Path) -> None:
    with tidelog.open(store) as writer:
        stream = writer.stream("in")
        stream.append(rows(0, 50))
        stream.flush()
        copied(session, store, tmp_path / "c")
        stream.append(rows(50, 100))
        stream.flush()
        stream.delete_before(60)
    with pytest.raises(Exception, match=r"rows of stream 'in' were deleted before this query read them"):
        copied(session, store, tmp_path / "c")
    copied(session, store, tmp_path / "c", failOnDataLoss=False)
    assert values(store, "out") == [*range(50), *range(60, 100)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda reader: reader.option("as_of", "5"), "'as_of' is for reading a stream once"),
        (lambda reader: reader.option("stream", "no"), "no stream 'no'"),
        (lambda reader: reader.option("startingOffset", "soon"), "soon"),
    ],
)
def test_what_cannot_be_read(
    session: SparkSession, store: Path, tmp_path: Path, change: Callable[[Any], Any], message: str
) -> None:
    reader = change(session.readStream.format("tidelog").option("stream", "in"))

    def run() -> None:
        frame = reader.load(str(store))
        writer = frame.writeStream.format("tidelog").options(stream="out", checkpointLocation=str(tmp_path / "c"))
        writer.trigger(availableNow=True).start(str(store)).awaitTermination(600)

    with pytest.raises(Exception, match=message):
        run()


def test_offsets_are_small_and_checked() -> None:
    offset = Offset("id", SeqSet([(0, 10), (20, 30)]), SeqSet.below(5), -7)
    assert Offset.of(offset.to_json()) == offset
    assert Offset.of(Offset("id").to_json()) == Offset("id")
    assert all(isinstance(value, str) for value in offset.to_json().values())
    for wrong in ({}, {"seen": "no"}, {"seen": "[[5, 3]]"}, {"seen": "[]", "before": "1"}):
        with pytest.raises(InputError, match="none of a tidelog stream"):
            Offset.of({"stream": "id", **wrong})
    with pytest.raises(InputError, match="none of a tidelog stream"):
        Offset.of({"index": 4})
