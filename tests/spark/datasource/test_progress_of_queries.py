"""How a streaming source gets on, batch by batch, asked as Spark asks it."""

from __future__ import annotations

import logging
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import tidelog
from tidelog.engine.stream import Stream, writer_of
from tidelog.model.errors import InputError, NotFoundError
from tidelog.model.schema import Schema
from tidelog.model.times.interval import Interval
from tidelog.spark.datasource.provider import TidelogSource
from tidelog.spark.datasource.stream_source import TidelogStreamReader
from tidelog.spark.datasource.types import spark_schema
from tidelog.store.bulk import BulkWriter, commit_bulk

SCHEMA = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("v", pa.int64())])
MOST = 5


def load(stream: Stream, times: list[int], overwrite: Interval | None = None) -> None:
    """What a job of Spark does."""
    with BulkWriter(writer_of(stream).context) as writer:
        writer.append(pa.record_batch([times, times], schema=SCHEMA))
        commit_bulk(writer_of(stream).manifests, writer.finish(), overwrite=overwrite)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with tidelog.open(tmp_path / "store") as store:
        store.create_stream("in", schema=SCHEMA, time="ts", grace=0)
    return tmp_path / "store"


def append(path: Path, *times: int) -> None:
    with tidelog.open(path) as store:
        store.stream("in").append({"ts": list(times), "v": list(times)})


class Query:
    """A query with its checkpoint; each run asks a new reader."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.path = path
        self.options = {name: str(value) for name, value in options.items()}
        self.offset: dict[str, str] | None = None
        self.planned: dict[str, str] | None = None
        """The end of a batch that was begun and not ended."""

    def reader(self) -> TidelogStreamReader:
        source = TidelogSource({"path": str(self.path), "stream": "in", **self.options})
        made = source.streamReader(spark_schema(Schema(SCHEMA, "ts")))
        assert isinstance(made, TidelogStreamReader)
        return made

    def run(self) -> list[list[int]]:
        """The values of each batch that it takes to read all there is."""
        return list(self.batches())

    def batches(self) -> Iterator[list[int]]:
        reader = self.reader()
        reader.prepareForTriggerAvailableNow()
        if self.offset is None:
            self.offset = reader.initialOffset()
        for _ in range(200):
            end = self.planned or reader.latestOffset(self.offset, reader.getDefaultReadLimit())
            self.planned = None
            if end == self.offset:
                return
            partitions = reader.partitions(self.offset, end)
            found = [batch for each in partitions for batch in reader.read(each)]
            self.offset = end
            yield sorted(value for batch in found for value in batch.column("v").to_pylist())
        pytest.fail("it gets on too slowly")


def check(batches: list[list[int]], expected: list[int], most: int = MOST) -> None:
    """Every row once, no more rows than a batch may have, and no more batches than that takes."""
    assert sorted(value for batch in batches for value in batch) == sorted(expected)
    assert max(map(len, batches), default=0) <= most
    assert len(batches) <= math.ceil(len(expected) / most) + 1


# -- gaps between numbers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [{"maxRowsPerBatch": MOST}, {"maxBytesPerBatch": MOST * 16}])
def test_gaps_between_numbers_are_passed_at_once(path: Path, limit: dict[str, int]) -> None:
    append(path, 1, 2, 3, 4)
    with tidelog.open(path) as store:
        load(store.stream("in"), [11, 12, 13, 14])
    append(path, 21, 22, 23, 24)
    query = Query(path, **limit)
    check(query.run(), [1, 2, 3, 4, 11, 12, 13, 14, 21, 22, 23, 24])
    assert query.run() == []
    append(path, 5)
    assert query.run() == [[5]]


def test_how_many_rows_are_left_is_told(path: Path) -> None:
    append(path, *range(20))
    with tidelog.open(path) as store:
        load(store.stream("in"), list(range(100, 110)))
    append(path, *range(200, 205))
    query = Query(path, maxRowsPerBatch=12)
    reader = query.reader()
    assert reader.reportLatestOffset()["behind"] == "35"
    offset = reader.initialOffset()
    for left in (23, 11, 0, 0):
        offset = reader.latestOffset(offset, reader.getDefaultReadLimit())
        assert reader.reportLatestOffset()["behind"] == str(left)


def test_gaps_after_a_restart_in_the_middle(path: Path) -> None:
    expected: list[int] = []
    for turn in range(4):
        times = list(range(100 * turn, 100 * turn + 7))
        append(path, *times)
        with tidelog.open(path) as store:
            load(store.stream("in"), [time + 50 for time in times])
        expected += [*times, *(time + 50 for time in times)]
    query = Query(path, maxRowsPerBatch=MOST)
    found: list[list[int]] = []
    for _ in range(4):
        batches = query.batches()
        found += [next(batches), next(batches)]
        batches.close()  # killed
    check([*found, *query.run()], expected)


def test_rows_that_are_deleted_or_overwritten_do_not_count(path: Path) -> None:
    append(path, *range(100))
    with tidelog.open(path) as store:
        load(store.stream("in"), [45], Interval(10, 90))
        store.stream("in").delete_before(5)
    check(Query(path, maxRowsPerBatch=MOST, failOnDataLoss=False).run(), [*range(5, 10), 45, *range(90, 100)])


def test_rows_that_came_late_or_were_merged(path: Path) -> None:
    """Numbers of several splits lie between each other, and in the leaves of one too."""
    expected = []
    for turn in range(3):
        with tidelog.open(path) as store:
            stream = store.stream("in")
            stream.append({"ts": list(range(0, 600, 6)), "v": [1000 * turn + i for i in range(100)]})
            stream.append({"ts": list(range(3, 600, 6)), "v": [1000 * turn + 100 + i for i in range(100)]})
            expected += [1000 * turn + i for i in range(200)]
            load(stream, list(range(10_000 * (turn + 1), 10_000 * (turn + 1) + 20)))
            expected += range(10_000 * (turn + 1), 10_000 * (turn + 1) + 20)
            stream.compact()
    check(Query(path, maxRowsPerBatch=70).run(), expected, most=70)


def test_rows_that_do_not_concern_a_query_do_not_count(path: Path) -> None:
    append(path, *range(1000))
    query = Query(path, maxRowsPerBatch=MOST, startingOffset=990)
    check(query.run(), list(range(990, 1000)))
    append(path, 3)
    assert query.run() == [[3]]
    check(Query(path, maxRowsPerBatch=MOST, start=500, end=512).run(), list(range(500, 512)))


# -- another stream under the same name -------------------------------------------------------------------------------


def recreated(path: Path, *times: int) -> None:
    with tidelog.open(path) as store:
        store.drop_stream("in")
        store.create_stream("in", schema=SCHEMA, time="ts")
    append(path, *times)


def test_a_stream_that_was_created_again(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    append(path, 1, 2, 3)
    query = Query(path)
    assert query.run() == [[1, 2, 3]]
    recreated(path, 4, 5, 6, 7)
    with pytest.raises(NotFoundError, match=r"stream 'in' is another one .*dropped and created again.*new checkpoint"):
        query.run()
    query.options["failOnDataLoss"] = "false"
    with caplog.at_level(logging.WARNING, logger="tidelog.spark"):
        assert query.run() == [[4, 5, 6, 7]]
    assert "dropped and created again" in caplog.text
    del query.options["failOnDataLoss"]
    append(path, 8)
    assert query.run() == [[8]]


def test_a_batch_that_was_planned_before_the_stream_was_created_again(path: Path) -> None:
    append(path, 1, 2, 3)
    query = Query(path, maxRowsPerBatch=2)
    reader = query.reader()
    query.offset = reader.initialOffset()
    query.planned = reader.latestOffset(query.offset, reader.getDefaultReadLimit())
    planned = query.planned
    recreated(path, 4, 5, 6)
    with pytest.raises(NotFoundError, match="dropped and created again"):
        query.run()
    query.options["failOnDataLoss"] = "false"
    query.planned = planned
    assert query.run() == [[], [4, 5], [6]]


def test_a_stream_that_is_created_again_under_a_running_query(path: Path) -> None:
    append(path, 1, 2, 3)
    query = Query(path, maxRowsPerBatch=2, failOnDataLoss=False)
    batches = query.batches()
    assert next(batches) == [1, 2]
    recreated(path, 4, 5, 6)
    with pytest.raises(NotFoundError, match="dropped and created again while this query was running; start"):
        next(batches)
    assert query.run() == [[4, 5], [6]]


def test_a_stream_may_be_renamed(path: Path) -> None:
    append(path, 1, 2, 3)
    query = Query(path)
    query.run()
    with tidelog.open(path) as store:
        store.rename_stream("in", "renamed")
        store.stream("renamed").append({"ts": [4], "v": [4]})
    query.options["stream"] = "renamed"
    assert query.run() == [[4]]


def test_a_store_that_was_put_back(path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    append(path, 1, 2, 3)
    query = Query(path)
    query.run()
    with tidelog.open(path) as store:
        store.backup(tmp_path / "backup")
    append(path, 4, 5, 6)
    assert query.run() == [[4, 5, 6]]
    shutil.rmtree(path)
    tidelog.restore(tmp_path / "backup", path)
    append(path, 7)
    with pytest.raises(NotFoundError, match=r"lacks rows that this query has read.*numbers 4 to 5.*older backup"):
        query.run()
    query.options["failOnDataLoss"] = "false"
    with caplog.at_level(logging.WARNING, logger="tidelog.spark"):
        assert query.run() == [[]]  # the row with a number that was seen cannot be told from the one that was
    assert "older backup" in caplog.text
    append(path, 8)
    del query.options["failOnDataLoss"]
    assert query.run() == [[8]]


def test_a_copy_of_a_store_goes_on(path: Path, tmp_path: Path) -> None:
    append(path, 1, 2, 3)
    query = Query(path)
    query.run()
    with tidelog.open(path) as store:
        store.backup(tmp_path / "backup")
    tidelog.restore(tmp_path / "backup", tmp_path / "copy")
    append(tmp_path / "copy", 4)
    query.path = tmp_path / "copy"
    assert query.run() == [[4]]


def test_offsets_of_earlier_releases_are_refused(path: Path) -> None:
    append(path, 1, 2, 3)
    query = Query(path)
    query.offset = {"seen": "[[0, 2]]"}
    with pytest.raises(InputError, match=r"does not say of which stream it is.*new checkpoint"):
        query.run()


def test_a_checkpoint_of_another_stream_in_spark(session: SparkSession, path: Path, tmp_path: Path) -> None:
    def run(**options: Any) -> None:
        query = (
            session.readStream.format("tidelog")
            .options(stream="in", maxRowsPerBatch=MOST, **options)
            .load(str(path))
            .writeStream.format("tidelog")
            .options(stream="out", time="ts", checkpointLocation=str(tmp_path / "c"))
            .trigger(availableNow=True)
            .start(str(path))
        )
        query.awaitTermination(600)
        assert query.exception() is None

    append(path, 1, 2, 3)
    with tidelog.open(path) as store:
        load(store.stream("in"), [4, 5, 6])
    append(path, 7, 8)
    run()
    recreated(path, 9, 10)
    with pytest.raises(Exception, match="stream 'in' is another one than this query has read"):
        run()
    run(failOnDataLoss=False)
    with tidelog.open(path) as store:
        assert store.stream("out").scan(columns=["v"]).read_all()["v"].to_pylist() == list(range(1, 11))
