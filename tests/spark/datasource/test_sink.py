"""DataFrames written into streams by a real Spark, beside a live writer."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as fn

import tidelog
from tidelog import spark as ts
from tidelog.engine.store import Store
from tidelog.engine.stream import writer_of
from tidelog.model.errors import InputError, NotFoundError, TidelogError
from tidelog.spark.datasource.provider import TidelogSource
from tidelog.store.log.file_names import join
from tidelog.store.manifest.manifest import SPLITS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidelog.engine.stream import Stream


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with tidelog.open(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "store")


def numbers(session: SparkSession, count: int, first: int = 0) -> DataFrame:
    return session.range(first, first + count).selectExpr("id AS t", "id * 2 AS a")


def content(stream: Stream) -> list[tuple[int, int]]:
    table = stream.scan(columns=["t", "a"]).read_all()
    return list(zip(table["t"].to_pylist(), table["a"].to_pylist(), strict=True))


def files(store: Store, stream: Stream) -> list[str]:
    manifests = writer_of(stream).manifests
    return [name for name in manifests.medium.names(join(manifests.directory, SPLITS)) if "lock" not in name]


def test_a_stream_is_created_and_added_to(session: SparkSession, store: Store, path: str) -> None:
    ts.write(numbers(session, 1_000), path, "s", time="t")
    stream = store.stream("s")
    assert stream.schema.arrow == pa.schema([pa.field("t", pa.int64(), nullable=False), ("a", pa.int64())])
    assert content(stream) == [(each, 2 * each) for each in range(1_000)]
    ts.write(numbers(session, 500, 1_000).orderBy(fn.rand()), path, "s", partitions=3)  # time column not named
    assert content(stream) == [(each, 2 * each) for each in range(1_500)]
    assert sorted(stream.scan(columns=["_seq"]).read_all()["_seq"].to_pylist()) == list(range(1_500))
    bounds = sorted((info.time_min, info.time_max) for info in writer_of(stream).manifests.load().splits.values())
    assert len(bounds) >= 3
    assert all(before[1] < after[0] for before, after in itertools.pairwise(bounds))
    assert store.check() == []


def test_a_writer_beside_spark_waits_for_nothing(session: SparkSession, store: Store, path: str) -> None:
    stream = store.create_stream("s", pa.schema([("t", pa.int64()), ("a", pa.int64())]), "t")
    stream.append({"t": [10, 20], "a": [1, 2]})
    stream.flush()
    stream.append({"t": [30], "a": [3]})
    ts.write(numbers(session, 5), path, "s")
    stream.append({"t": [40], "a": [4]})
    expected = [(0, 0), (1, 2), (2, 4), (3, 6), (4, 8), (10, 1), (20, 2), (30, 3), (40, 4)]
    assert content(stream) == expected
    stream.flush()
    assert [tuple(row) for row in ts.read(session, path, "s").orderBy("t").collect()] == expected
    seen = stream.scan(columns=["_seq"]).read_all()["_seq"].to_pylist()
    assert len(set(seen)) == len(seen)


def test_overwrite(session: SparkSession, store: Store, path: str) -> None:
    ts.write(numbers(session, 100), path, "s", time="t")
    stream = store.stream("s")
    ts.write(session.createDataFrame([(15, -1)], "t bigint, a bigint"), path, "s", overwrite=(10, 20))
    kept = [(each, 2 * each) for each in range(100) if not 10 <= each < 20]
    assert content(stream) == sorted([*kept, (15, -1)])
    ts.write(numbers(session, 3), path, "s", overwrite=True)
    assert content(stream) == [(0, 0), (1, 2), (2, 4)]
    with pytest.raises(InputError, match="the range to overwrite, 5 to 5, is empty"):
        ts.write(numbers(session, 3), path, "s", overwrite=(5, 5))
    with pytest.raises(InputError, match="but the mode is append"):
        TidelogSource({"path": path, "stream": "s", "overwrite_start": "5"}).writer(numbers(session, 3).schema, False)
    assert len(content(stream)) == 3


def test_a_job_that_fails_leaves_nothing(session: SparkSession, store: Store, path: str) -> None:
    ts.write(numbers(session, 10), path, "s", time="t")
    stream = store.stream("s")
    before = files(store, stream)
    poisoned = session.range(0, 1_000, 1, 4).selectExpr(
        "id AS t", "IF(id = 999, CAST(raise_error('poison') AS bigint), id) AS a"
    )
    with pytest.raises(Exception, match="poison"):
        ts.write(poisoned, path, "s", sort=False)
    assert len(content(stream)) == 10
    # Spark kills tasks that are under way without a word; what those leave is known to be nobody's.
    assert set(files(store, stream)) - set(before) <= set(store.orphans())
    assert store.check() == []


def test_a_value_that_does_not_fit_is_named(session: SparkSession, store: Store, path: str) -> None:
    store.create_stream("s", pa.schema([("t", pa.int64()), ("a", pa.uint8())]), "t")
    with pytest.raises(InputError, match=r"^column 'a', row .*expected uint8 from 0 to 255"):
        ts.write(numbers(session, 200), path, "s", partitions=1)
    assert len(store.stream("s")) == 0
    assert files(store, store.stream("s")) == []


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (["id AS t"], {"stream": "new"}, "there is no stream 'new'"),
        (["id AS t"], {"stream": "new", "create": "false"}, "'new'"),
        (
            ["id AS i", "id * 2 AS j", "now() AS at", "'x' AS s"],
            {"stream": "new"},
            "there is no stream 'new' in {path} (known are 'old'); to create it, say which column has the times of "
            "events: time='at', or one of 'i', 'j'",
        ),
        (["id AS t"], {"stream": "od"}, "there is no stream 'od' in {path} (did you mean 'old'?); to create it, say"),
        (
            ["CAST(id AS string) AS s"],
            {"stream": "new"},
            "say which column has the times of events: cast one of 's' to timestamp or bigint",
        ),
        (["id AS t"], {"stream": "new", "time": "x"}, "there is no column 'x' to take the event time from"),
        (["id AS t", "array(id) AS a"], {"stream": "new", "time": "t"}, "column 'a' has the Spark type array<bigint>"),
        (
            ["id AS t", "interval '1' month AS a"],
            {"stream": "new", "time": "t"},
            "column 'a' has the Spark type interval",
        ),
        (["id AS t", "id AS b"], {"stream": "old"}, "'b'"),
        (["id AS a"], {"stream": "old"}, "'t'"),
        (["id AS t", "'x' AS a"], {"stream": "old"}, "column 'a': found type string, expected int64"),
        (["id AS t"], {"stream": "old", "time": "a"}, "the time column of stream 'old' is 't'"),
        (["id AS t"], {"stream": "old", "tme": "a"}, "the sink has no option 'tme'; did you mean 'time'?"),
    ],
)
def test_what_is_wrong_is_said_while_planning(
    session: SparkSession, store: Store, path: str, columns: list[str], options: dict[str, str], message: str
) -> None:
    store.create_stream("old", pa.schema([("t", pa.int64()), ("a", pa.int64())]), "t")
    brought = session.range(3).selectExpr(*columns).schema
    with pytest.raises(TidelogError) as caught:
        TidelogSource({"path": path, **options}).writer(brought, overwrite=False)
    assert message.format(path=path) in str(caught.value)
    assert "new" not in store


def test_values_survive_both_ways(session: SparkSession, store: Store, path: str) -> None:
    moment = datetime.datetime(2024, 5, 6, 7, 8, 9, 123456)
    values: dict[str, tuple[pa.DataType, Any]] = {
        "t": (pa.timestamp("us", "Europe/Berlin"), moment.replace(tzinfo=datetime.UTC)),
        "u8": (pa.uint8(), 255),
        "u32": (pa.uint32(), 2**32 - 1),
        "u64": (pa.uint64(), 2**64 - 1),
        "f": (pa.float32(), 1.5),
        "d": (pa.float64(), float("inf")),
        "n": (pa.decimal128(38, 10), Decimal("1.2500000000")),
        "s": (pa.large_string(), "ä\0'"),
        "b": (pa.large_binary(), b"\0\xff"),
        "day": (pa.date64(), moment.date()),
        "ms": (pa.timestamp("ms"), moment.replace(microsecond=123000)),
        "none": (pa.string(), None),
    }
    schema = pa.schema([(name, type_) for name, (type_, _) in values.items()])
    for name in ("a", "b"):
        store.create_stream(name, schema, "t")
    store.stream("a").append({name: [value] for name, (_, value) in values.items()})
    store.flush()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")  # must not matter
    try:
        ts.write(ts.read(session, path, "a"), path, "b")
        ts.write(ts.read(session, path, "a"), path, "c", time="t")
    finally:
        session.conf.set("spark.sql.session.timeZone", "UTC")
    expected = store.stream("a").scan().read_all()
    assert store.stream("b").scan().read_all().equals(expected)
    made = store.stream("c").scan().read_all()
    assert made.schema.field("u64").type == pa.decimal128(20, 0)
    assert made.cast(expected.schema).equals(expected)


def test_a_time_column_that_was_forgotten(session: SparkSession, store: Store, path: str) -> None:
    with pytest.raises(NotFoundError, match=r"no stream 'new' in .*say which column has the times of events: time='t'"):
        ts.write(numbers(session, 3), path, "new")
    assert store.streams() == []


def test_options_that_make_no_sense_are_refused_at_once(session: SparkSession) -> None:
    with pytest.raises(InputError, match="option 'path' is 'hdfs://x'"):
        ts.write(session.range(1), "hdfs://x", "s")
