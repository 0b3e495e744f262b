"""Many streams as one table and from one table; most of it needs no session."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

import tidelog
from tidelog import spark as tl
from tidelog.engine.store import Store
from tidelog.model.errors import ConflictError, InputError, NotFoundError, SchemaError, StorageError
from tidelog.spark.datasource.committing import Written
from tidelog.spark.datasource.many_sink import ManyWriter, by_name
from tidelog.spark.datasource.many_source import ManyReader, matching
from tidelog.spark.datasource.options import SinkOptions, SourceOptions
from tidelog.spark.datasource.provider import TidelogSource
from tidelog.spark.datasource.stream_sink import TidelogStreamWriter
from tidelog.store.bulk import BulkWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("x", pa.float64())])
BROUGHT = StructType(
    [StructField("ts", LongType()), StructField("device", StringType()), StructField("x", DoubleType())]
)
DEVICES = [f"sensors/{number:03d}" for number in range(12)]


def rows(*events: tuple[int, str | None, float]) -> pa.RecordBatch:
    times, devices, values = zip(*events, strict=True)
    schema = pa.schema([("ts", pa.int64()), ("device", pa.string()), ("x", pa.float64())])
    return pa.record_batch([list(times), list(devices), list(values)], schema=schema)


def contents(path: Path | str) -> dict[str, list[tuple[int, float]]]:
    """The rows of all streams, in a store that is checked once."""
    with tidelog.open(path, read_only=True) as store:
        assert store.check() == []
        tables = {name: store.stream(name).scan().read_all() for name in store.streams()}
    return {
        name: list(zip(table["ts"].to_pylist(), table["x"].to_pylist(), strict=True)) for name, table in tables.items()
    }


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Twelve devices with ten events each, and a stream that is none of them."""
    with Store.open(tmp_path) as store:
        for index, name in enumerate(DEVICES):
            store.create_stream(name, SCHEMA, "ts").append(
                {"ts": range(index, index + 100, 10), "x": [float(index)] * 10}
            )
        store.create_stream("other", pa.schema([("t", pa.int64())]), "t")
    return str(tmp_path)


# -- reading ---------------------------------------------------------------------------------------------------------


def source(path: str, **options: str) -> TidelogSource:
    return TidelogSource({"path": path, **options})


def read(path: str, **options: str) -> tuple[list[tuple[Any, ...]], int]:
    """All rows of a source, sorted, and the number of tasks that read them."""
    made = source(path, **options)
    reader = made.reader(made.schema())
    parts = list(reader.partitions())
    found = [tuple(row.values()) for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
    return sorted(found), len(parts)


def test_names_alone(path: str) -> None:
    expected = sorted((name,) for name in DEVICES for _ in range(10))
    assert read(path, stream="sensors/*", columns="[]")[0] == expected


def test_patterns(path: str) -> None:
    with Store.open(path) as store:
        assert matching(store, "sensors/*") == DEVICES
        assert matching(store, "*/00*") == DEVICES[:10]
        assert matching(store, "*") == ["other", *DEVICES]
        store.create_stream("a[1]*", SCHEMA, "ts")
        store.create_stream("a[1]b", SCHEMA, "ts")
        assert matching(store, "a[1]*") == ["a[1]*", "a[1]b"]
        with pytest.raises(NotFoundError, match=r"no stream matches 'sensr\*'"):
            matching(store, "sensr*")
    # A stream that is called like the pattern is meant itself.
    assert "_stream" not in source(path, stream="a[1]*").schema().names


def test_all_rows_come_with_the_names_of_their_streams(path: str) -> None:
    found, tasks = read(path, stream="sensors/*")
    assert found == sorted(
        (index + 10 * i, float(index), name) for index, name in enumerate(DEVICES) for i in range(10)
    )
    assert tasks == 1
    found, tasks = read(path, stream="sensors/*", partition_size="50000")
    assert len(found) == 120
    assert tasks == 6


def test_options_are_those_of_one_stream(path: str) -> None:
    found, _ = read(
        path, stream="sensors/*", start="50", end="60", where="x >= 5", columns="x", seq="true", stream_column="from"
    )
    assert found == [(float(index), 4 if index >= 10 else 5, DEVICES[index]) for index in range(5, 12)]
    made = source(path, stream="sensors/*", columns="x", stream_column="from")
    assert made.schema().names == ["x", "from"]
    reader = made.reader(StructType([StructField("from", StringType(), False), StructField("x", DoubleType())]))
    assert isinstance(reader, ManyReader)
    batch = next(iter(reader.read(reader.partitions()[0])))
    assert batch.schema.names == ["from", "x"]
    assert batch.to_pylist()[0] == {"from": "sensors/000", "x": 0.0}


def test_large_streams_are_divided(path: str) -> None:
    with Store.open(path) as store:
        store.create_stream("sensors/large", SCHEMA, "ts", leaf_rows=64).append(
            {"ts": range(10_000), "x": [0.5] * 10_000}
        )
    found, tasks = read(path, stream="sensors/*", partition_size="3000")
    assert len(found) == 10_120
    assert tasks >= 12 + 3


def test_streams_that_differ_are_refused(path: str) -> None:
    with Store.open(path) as store:
        store.create_stream("sensors/text", pa.schema([("ts", pa.int64()), ("x", pa.string())]), "ts")
        store.create_stream("sensors2/a", SCHEMA, "ts")
        store.create_stream("sensors2/b", SCHEMA.append(pa.field("more", pa.int64())), "ts")
        store.create_stream("sensors3/a", SCHEMA, "ts")
        store.create_stream(
            "sensors3/b", pa.schema([("x", pa.float64()), ("at", pa.int64()), ("ts", pa.int64())]), "at"
        )
    with pytest.raises(SchemaError, match="column 'x' is double in stream 'sensors/000' and string in 'sensors/text'"):
        source(path, stream="sensors/*").schema()
    with pytest.raises(SchemaError, match="'sensors2/b' has a column 'more'"):
        source(path, stream="sensors2/*").schema()
    assert source(path, stream="sensors2/*", columns="ts, x").schema().names == ["ts", "x", "_stream"]
    with pytest.raises(SchemaError, match="time column of stream 'sensors3/a' is 'ts', of 'sensors3/b' 'at'"):
        source(path, stream="sensors3/*").schema()


def test_wrong_questions_about_many_streams(path: str) -> None:
    with pytest.raises(InputError, match="'x'; give that of their names another one"):
        source(path, stream="sensors/*", stream_column="x").schema()
    with pytest.raises(InputError, match="is for many streams"):
        source(path, stream="other", stream_column="x").schema()
    made = source(path, stream="sensors/*")
    with pytest.raises(InputError, match="a streaming query reads one stream"):
        made.streamReader(made.schema())
    with pytest.raises(InputError, match="'push_filters' is for single streams"):
        ManyReader(SourceOptions.read({"path": path, "stream": "sensors/*", "push_filters": "true"}), StructType([]))


# -- writing ---------------------------------------------------------------------------------------------------------


def options(path: Path | str, **values: str) -> SinkOptions:
    return SinkOptions.read({"path": str(path), "stream_column": "device", "time": "ts", **values})


def test_rows_are_parted_by_name() -> None:
    found = list(by_name(rows((1, "b", 1.0), (2, "a", 2.0), (3, "b", 3.0)), 1))
    assert [(name, batch.to_pydict()) for name, batch in found] == [
        ("b", {"ts": [1, 3], "x": [1.0, 3.0]}),
        ("a", {"ts": [2], "x": [2.0]}),
    ]
    assert list(by_name(rows((1, "b", 1.0)).slice(0, 0), 1)) == []
    with pytest.raises(InputError, match=r"'device' .* is null in a row"):
        list(by_name(rows((1, "b", 1.0), (2, None, 2.0)), 1))


def test_every_stream_gets_its_rows(tmp_path: Path) -> None:
    writer = ManyWriter(options(tmp_path), BROUGHT, False)
    names = [f"d{number}" for number in range(10)]  # more than are written at once
    tasks = [
        writer.write(iter([rows(*((time * 2 + task, name, float(time)) for time in range(20) for name in names))] * 1))
        for task in range(2)
    ]
    with Store.open(tmp_path, read_only=True) as store:
        assert store.streams() == sorted(names)
        assert [len(store.stream(name)) for name in names] == [0] * 10
    writer.commit(tasks)
    assert contents(tmp_path) == {name: [(time, float(time // 2)) for time in range(40)] for name in names}


def test_rows_that_come_one_by_one_are_gathered(tmp_path: Path) -> None:
    """Names in turn, in many batches: one commit creates all streams, and each has one split."""
    writer = ManyWriter(options(tmp_path), BROUGHT, False)
    names = [f"d{number:02d}" for number in range(12)]
    batches = [rows((time, name, float(time))) for time in range(10) for name in names]
    written = writer.write(iter(batches))
    assert {name: len(splits) for name, splits in written.splits.items()} == dict.fromkeys(names, 1)
    assert len(list((tmp_path / "catalogue").glob("*.json"))) == 2
    writer.commit([written])
    assert contents(tmp_path) == {name: [(time, float(time)) for time in range(10)] for name in names}


def test_more_than_is_gathered_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tidelog.spark.datasource import many_sink

    monkeypatch.setattr(many_sink, "_GATHERED", 500)
    writer = ManyWriter(options(tmp_path), BROUGHT, False)
    names = [f"d{number:02d}" for number in range(12)]
    # Rows of equal time stay in the order they came in, whatever was written and ended when.
    written = writer.write(rows((time // 2, name, float(time))) for time in range(10) for name in names)
    assert any(len(splits) > 1 for splits in written.splits.values())
    writer.commit([written])
    assert contents(tmp_path) == {name: [(time // 2, float(time)) for time in range(10)] for name in names}


def test_a_job_that_is_run_again_writes_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tidelog.spark.datasource import committing

    writer = ManyWriter(options(tmp_path, transaction="daily", transaction_number="1"), BROUGHT, False)
    batch = rows((1, "a", 1.0), (1, "b", 2.0), (1, "c", 3.0))
    real = committing.commit_bulk

    def fail_for_b(manifests: Any, *arguments: Any, **named: Any) -> Any:
        if "b~" in manifests.directory:
            raise ConflictError("somebody was faster")
        return real(manifests, *arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(committing, "commit_bulk", fail_for_b)
        written = writer.write(iter([batch]))
        with pytest.raises(ConflictError, match="somebody was faster") as caught:
            writer.commit([written])
        assert "Of 3 streams 1 did not get their rows, 'b' first" in caught.value.__notes__[0]
    writer.abort([written, None])
    assert [len(found) for found in contents(tmp_path).values()] == [1, 0, 1]
    for _ in range(2):
        writer.commit([writer.write(iter([batch]))])
    assert contents(tmp_path) == {"a": [(1, 1.0)], "b": [(1, 2.0)], "c": [(1, 3.0)]}
    with Store.open(tmp_path) as store:
        assert store.orphans() == []


def test_a_task_that_fails_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tidelog.spark.datasource import many_sink

    writer = ManyWriter(options(tmp_path), BROUGHT, False)
    events = [rows((1, f"d{number}", 1.0)) for number in range(20)]

    def failing() -> Any:
        yield from events
        raise RuntimeError("the task was killed")

    with monkeypatch.context() as patched:
        patched.setattr(many_sink, "_GATHERED", 1)
        with pytest.raises(RuntimeError):
            writer.write(failing())
        finish = BulkWriter.finish
        finished: list[int] = []

        def failing_once(self: BulkWriter) -> Any:
            finished.append(1)
            if len(finished) == 3:
                raise StorageError("the disk is full")
            return finish(self)

        patched.setattr(BulkWriter, "finish", failing_once)
        with pytest.raises(StorageError, match="the disk is full"):
            writer.write(iter(events))
    written = writer.write(iter(events))
    writer.abort([written])
    with Store.open(tmp_path) as store:
        assert store.orphans() == []
        assert len(store.streams()) == 20


def test_batches_of_a_query_count_once_for_each_stream(tmp_path: Path) -> None:
    sink = TidelogStreamWriter(options(tmp_path), BROUGHT, False)
    task = ManyWriter(options(tmp_path), BROUGHT, False)
    for batch_id in (0, 1, 1, 0):
        first = (batch_id + 1) * 10
        written = [task.write(iter([rows((first, "a", 1.0), (first + 1, "b", 2.0))])), Written()]
        sink.commit([replace(each, query="q") for each in written], batch_id)
    assert contents(tmp_path) == {"a": [(10, 1.0), (20, 1.0)], "b": [(11, 2.0), (21, 2.0)]}


@pytest.mark.parametrize(
    ("given", "overwrite", "error", "message"),
    [
        ({}, True, InputError, "cannot be overwritten at once"),
        ({"stream_column": "devise"}, False, InputError, "no column; did you mean 'device'"),
        ({"stream_column": "x"}, False, SchemaError, "expected string"),
        ({"stream": "s"}, False, InputError, "expected one of them"),
        ({"time": "x"}, False, SchemaError, "x"),
    ],
)
def test_what_cannot_be_written(
    tmp_path: Path, given: dict[str, str], overwrite: bool, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ManyWriter(options(tmp_path, **given), BROUGHT, overwrite)


def test_streams_are_not_created_unasked(tmp_path: Path) -> None:
    writer = ManyWriter(options(tmp_path, create="false"), BROUGHT, False)
    with pytest.raises(NotFoundError, match="there is no stream 'a'"):
        writer.write(iter([rows((1, "a", 1.0))]))


# -- all of it through Spark -----------------------------------------------------------------------------------------


def test_there_and_back(session: SparkSession, tmp_path: Path) -> None:
    frame = session.range(0, 300, 1, 3).selectExpr("id AS ts", "concat('d/', id % 5) AS device", "id / 2 AS x")
    for _ in range(2):
        tl.write(frame, tmp_path, stream_column="device", time="ts", transaction=("all", 1))
    back = tl.read(session, tmp_path, "d/*", where="x < 100", stream_column="device")
    assert back.columns == ["ts", "x", "device"]
    assert sorted(map(tuple, back.collect())) == [(ts, ts / 2, f"d/{ts % 5}") for ts in range(200)]
    query = (
        session.readStream.format("tidelog")
        .options(stream="d/3", maxRowsPerBatch=40)
        .load(str(tmp_path))
        .selectExpr("ts", "x", "concat('copy/', ts % 2) AS name")
        .writeStream.format("tidelog")
        .options(stream_column="name", time="ts", checkpointLocation=str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path))
    )
    assert query.awaitTermination(600)
    for rest in range(2):
        wanted = [(ts, ts / 2) for ts in range(3, 300, 5) if ts % 2 == rest]
        assert contents(tmp_path)[f"copy/{rest}"] == wanted
