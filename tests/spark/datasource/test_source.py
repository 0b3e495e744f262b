"""Streams read by a real Spark, against scans of the same streams."""

from __future__ import annotations

import datetime
import functools
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as fn
from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual, InputPartition, LessThan
from pyspark.sql.types import StructType

import tidelog
from tidelog import spark as ts
from tidelog.engine.store import Store
from tidelog.engine.stream import writer_of
from tidelog.model.errors import InputError, NotFoundError, SchemaError, TidelogError
from tidelog.model.times.interval import Interval
from tidelog.spark.datasource.options import SourceOptions
from tidelog.spark.datasource.provider import TidelogSource
from tidelog.spark.datasource.source import FilteringReader, TidelogReader
from tidelog.spark.datasource.types import spark_schema
from tidelog.store.bulk import commit_bulk
from tidelog.store.manifest.sequence_set import SeqSet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidelog.engine.stream import Stream

ROWS = 12_000
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us")),
        ("flag", pa.bool_()),
        ("u8", pa.uint8()),
        ("u64", pa.uint64()),
        ("price", pa.float64()),
        ("ratio", pa.float32()),
        ("amount", pa.decimal128(10, 2)),
        ("name", pa.string()),
        ("long name", pa.large_string()),
        ("raw", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("ms", "Europe/Berlin")),
        ("exact", pa.timestamp("ns")),
    ]
)


def rows(count: int, first: int = 0, seed: int = 0) -> pa.Table:
    """Events a second apart, each value of which may be missing; one in ten comes late."""
    random = np.random.default_rng(seed)
    seconds = np.arange(first, first + count) - np.where(random.random(count) < 0.1, random.integers(0, 500, count), 0)
    base = random.integers(0, 100, count)

    def column(values: Any, type_: pa.DataType) -> pa.Array:
        return pa.array(values, mask=random.random(count) < 0.1).cast(type_)

    columns = [
        pa.array(seconds * 1_000_000).view(pa.timestamp("us")),
        column(base % 2 == 0, pa.bool_()),
        column(base, pa.uint8()),
        column(base.astype(np.uint64) << np.uint64(57), pa.uint64()),
        column(np.where(base == 7, np.nan, base / 7), pa.float64()),
        column(base / 8, pa.float32()),
        column(base.astype(np.int8), pa.decimal128(10, 2)),
        column([f"name {each}" for each in base], pa.string()),
        column([f"it's {each}%" for each in base], pa.large_string()),
        column([bytes([each, 255]) for each in base], pa.binary()),
        column(base.astype(np.int32), pa.date32()),
        pa.array(base * 1000, mask=base == 3).view(pa.timestamp("ms", "Europe/Berlin")),
        pa.array(base - 50).view(pa.timestamp("ns")),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A store with a stream of several splits, late rows, a deletion, and rows that are only in the journal."""
    place = str(tmp_path_factory.mktemp("store"))
    with tidelog.open(place) as store:
        stream = store.create_stream("events", SCHEMA, "ts", split="1h", leaf_rows=512)
        for first in range(0, ROWS, 4_000):
            stream.append(rows(4_000, first, seed=first))
        stream.append(rows(300, 5_000, seed=1))
        stream.delete_before(datetime.datetime(1970, 1, 1, 0, 10))
        stream.flush()
        store.create_stream("empty", SCHEMA, "ts")
        store.create_stream("cases", pa.schema([("t", pa.int64()), ("a", pa.int32()), ("A", pa.int32())]), "t").append(
            {"t": [1, 2], "a": [1, 2], "A": [3, 4]}
        )
        store.flush()
        yield place


@pytest.fixture
def stream(path: str) -> Iterator[Stream]:
    with tidelog.open(path, read_only=True) as store:
        yield store.stream("events")


def arrived(frame: DataFrame) -> pa.Table:
    return frame.orderBy("_seq").toArrow()


def test_everything_is_read(session: SparkSession, path: str, stream: Stream) -> None:
    frame = ts.read(session, path, "events", seq=True, ns="long", partition_size=3_000)
    found = arrived(frame)
    expected = stream.scan(seq=True).read_all().sort_by("_seq")
    assert found.column_names == [*SCHEMA.names, "_seq"]
    assert found.num_rows == expected.num_rows > 0
    for name in found.column_names:
        stored = expected[name]
        if name == "exact":
            stored = pa.chunked_array([chunk.view(pa.int64()) for chunk in stored.chunks])
        wanted = stored.cast(pa.timestamp("us", "UTC")) if name == "at" else stored.cast(found[name].type)
        # NaN is not equal to itself, its bits are.
        pairs = [
            table.combine_chunks().fill_null(0).view(pa.int64()) if name == "price" else table
            for table in (found[name], wanted)
        ]
        assert pairs[0].equals(pairs[1]), name
        assert found[name].null_count == wanted.null_count


def test_partitions_are_ranges_of_time_in_order(session: SparkSession, path: str) -> None:
    frame = ts.read(session, path, "events", columns=["ts"], partition_size=2_000)
    parts = frame.select(fn.spark_partition_id().alias("part"), fn.col("ts").cast("timestamp").cast("long").alias("s"))
    table = parts.toArrow()
    numbers, seconds = table["part"].to_numpy(), table["s"].to_numpy()
    bounds = []
    for number in np.unique(numbers):
        own = seconds[numbers == number]
        assert np.all(np.diff(own) >= 0)
        bounds.append((own[0], own[-1]))
    assert len(bounds) > 4
    bounds.sort()
    assert all(before[1] < after[0] for before, after in itertools.pairwise(bounds))


CONDITIONS = [
    "ts > timestamp_ntz'1970-01-01 01:00:00.5' AND ts <= timestamp_ntz'1970-01-01 02:00:00' AND name LIKE 'name 1%'",
    "ts IN (timestamp_ntz'1970-01-01 01:00:00', timestamp_ntz'1970-01-01 02:00:00')",
    "NOT flag AND u8 > 50 AND u64 >= 9223372036854775808",
    "price = double('NaN') AND ratio <= 0.875",
    "amount BETWEEN 5.5 AND 7 AND raw > X'06'",
    "`long name` = 'it''s 5%' OR day = date'1970-02-01'",
    "`long name` LIKE '%9\\%' AND NOT (u8 <=> 19)",
    "at < timestamp'1970-01-01 00:00:30' AND exact = timestamp_ntz'1969-12-31 23:59:59.999999'",
    "ts < timestamp_ntz'1970-01-01'",
]


@pytest.fixture
def pushing(session: SparkSession) -> Iterator[SparkSession]:
    """The session with filters pushed down."""
    session.conf.set(PUSHDOWN, "true")
    yield session
    session.conf.set(PUSHDOWN, "false")


def counts(session: SparkSession, frames: list[DataFrame]) -> list[int]:
    """How many rows satisfy each condition, of a frame each; one job for all."""
    counted = [
        frame.where(text).agg(fn.lit(index).alias("i"), fn.count("*").alias("n"))
        for index, (frame, text) in enumerate(zip(frames, CONDITIONS, strict=True))
    ]
    return [row.n for row in sorted(functools.reduce(lambda one, other: one.unionAll(other), counted).collect())]


def test_filters_change_nothing_but_the_work(pushing: SparkSession, path: str) -> None:
    """Counts with filters pushed down, against Spark's own filtering of all rows."""
    frame = ts.read(pushing, path, "events", ns="truncate")
    plain = pushing.createDataFrame(frame.toArrow(), frame.schema)
    pushed = [ts.read(pushing, path, "events", ns="truncate", push_filters=True) for _ in CONDITIONS]
    found, expected = counts(pushing, pushed), counts(pushing, [plain] * len(CONDITIONS))
    assert dict(zip(CONDITIONS, found, strict=True)) == dict(zip(CONDITIONS, expected, strict=True))
    assert sum(count > 0 for count in expected) == len(CONDITIONS) - 1


def test_a_frame_may_be_used_in_many_ways(pushing: SparkSession, path: str, stream: Stream) -> None:
    """Spark mixes up filters of different uses, unless the source takes none."""
    frame = ts.read(pushing, path, "events", columns=["ts", "u8"])
    few, many, every = (
        stream.aggregate(None, None, "count(*)", where)["count(*)"] for where in ("u8 > 90", "u8 > 10", None)
    )
    assert frame.where("u8 > 90").count() == few
    assert frame.count() == every
    assert frame.where("u8 > 90").union(frame.where("u8 > 10")).union(frame).count() == few + many + every


def test_filters_that_are_taken_reach_the_store(path: str, stream: Stream) -> None:
    options = SourceOptions(path=path, stream="events", ns="long", columns=("ts", "name"), partition_size=500)
    reader = FilteringReader(options, spark_schema(stream.schema, ["ts", "name"]))
    start, end = datetime.datetime(1970, 1, 1, 2), datetime.datetime(1970, 1, 1, 2, 5)
    mine = [GreaterThanOrEqual(("ts",), start), LessThan(("ts",), end), EqualTo(("name",), "name 5")]
    left = EqualTo(("exact",), datetime.datetime(1970, 1, 1))
    assert list(reader.pushFilters([*mine, left])) == [left]
    parts = reader.partitions()
    assert len(parts) <= 2
    batches = [batch for part in parts for batch in reader.read(part)]
    expected = stream.scan(start, end, ["ts", "name"], "name = 'name 5'").read_all()
    assert pa.Table.from_batches(batches).cast(expected.schema).equals(expected)


def test_filters_that_leave_nothing_read_nothing(path: str, stream: Stream) -> None:
    options = SourceOptions(path=path, stream="events", columns=("ts",))
    reader = FilteringReader(options, spark_schema(stream.schema, ["ts"]))
    moment = datetime.datetime(1970, 1, 1, 2)
    assert list(reader.pushFilters([LessThan(("ts",), moment), GreaterThanOrEqual(("ts",), moment)])) == []
    assert list(reader.partitions()) == []
    assert list(reader.read(InputPartition(None))) == []  # what Spark makes of it


def test_asking_for_filters_to_be_pushed_is_enough(session: SparkSession, path: str, stream: Stream) -> None:
    assert session.conf.get(PUSHDOWN) == "false"
    plain = ts.read(session, path, "events", columns=["ts", "u8"])
    assert session.conf.get(PUSHDOWN) == "false"
    try:
        frame = ts.read(session, path, "events", columns=["ts", "u8"], push_filters=True)
        expected = stream.aggregate(None, None, "count(*)", "u8 > 90")["count(*)"]
        assert [each.where("u8 > 90").count() for each in (frame, plain)] == [expected, expected]
    finally:
        session.conf.set(PUSHDOWN, "false")


def counted(options: SourceOptions) -> int:
    """The rows that a reader gives who was asked for no columns."""
    reader = TidelogReader(options, StructType([]))
    found = [batch for part in reader.partitions() for batch in reader.read(part)]
    assert all(batch.num_columns == 0 for batch in found)
    return sum(batch.num_rows for batch in found)


@pytest.mark.parametrize(
    ("given", "start", "end"),
    [
        ({}, None, None),
        ({"start": "1970-01-01T01:07:09.5", "end": "1970-01-01T03:00"}, "1970-01-01T01:07:09.5", "1970-01-01T03:00"),
        ({"where": "u8 > 90"}, None, None),
        ({"as_of": "5000"}, None, None),
        ({"start": "2030-01-01"}, "2030-01-01", None),
    ],
)
def test_rows_are_counted_without_columns(
    path: str, stream: Stream, given: dict[str, str], start: str | None, end: str | None
) -> None:
    as_of = SeqSet.below(int(given["as_of"])) if "as_of" in given else None
    expected = stream.scan(start, end, ["ts"], given.get("where"), as_of=as_of).read_all().num_rows
    for size in (None, 3_000):
        assert counted(SourceOptions(path=path, stream="events", columns=(), partition_size=size, **given)) == expected


def test_counting_after_an_overwrite(tmp_path: Path) -> None:
    with tidelog.open(tmp_path) as store:
        stream = store.create_stream("s", pa.schema([("t", pa.int64())]), "t", leaf_rows=64)
        stream.append({"t": list(range(1000))})
        stream.flush()
        commit_bulk(writer_of(stream).manifests, [], overwrite=Interval(100, 250))
    assert counted(SourceOptions(path=str(tmp_path), stream="s")) == 850


def test_counting_with_spark(session: SparkSession, path: str, stream: Stream) -> None:
    every, few = (stream.aggregate(None, None, "count(*)", where)["count(*)"] for where in (None, "u8 > 90"))
    assert ts.read(session, path, "events", columns=[]).count() == every
    assert ts.count(session, path, "events") == every
    assert ts.count(session, path, "events", where="u8 > 90") == few
    start = "1970-01-01T02:00"
    assert ts.count(session, path, "events", start=start) == len(stream.scan(start, None, ["ts"]).read_all())


@pytest.mark.parametrize(
    ("start", "end"),
    [(datetime.datetime(1970, 1, 1, 1), "1970-01-01T02:00:00"), (3_600_000_000, 7_200_000_000), (-5, "1970-01-01")],
)
def test_options_narrow_what_is_read(session: SparkSession, path: str, stream: Stream, start: Any, end: Any) -> None:
    frame = ts.read(
        session, path, "events", start=start, end=end, where="price > 3 -- a remark", columns=["name", "ts"], seq=True
    )
    expected = stream.scan(start, end, ["name", "ts"], "price > 3", seq=True).read_all()
    assert arrived(frame).equals(expected.sort_by("_seq").cast(arrived(frame).schema))


def test_as_of(session: SparkSession, path: str, stream: Stream) -> None:
    for numbers in (5_000, SeqSet([(100, 2_000), (9_000, 9_500)])):
        frame = ts.read(session, path, "events", columns=["ts"], seq=True, as_of=numbers)
        chosen = numbers if isinstance(numbers, SeqSet) else SeqSet.below(numbers)
        every = stream.scan(columns=["_seq"]).read_all()["_seq"].to_numpy()
        expected = np.sort(every[chosen.contains(every)])
        assert np.array_equal(arrived(frame)["_seq"].to_numpy(), expected)


def test_sql_and_a_schema_given(session: SparkSession, path: str, stream: Stream) -> None:
    session.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW events USING tidelog OPTIONS (path '{path}', stream 'events', ns 'truncate')"
    )
    expected = stream.aggregate(None, None, ["count(*)", "count(name)"], "u8 = 7")
    assert tuple(session.sql("SELECT count(*), count(name) FROM events WHERE u8 = 7").first()) == tuple(
        expected.values()
    )
    reader = session.read.format("tidelog").schema("u8 smallint, ts timestamp_ntz").option("stream", "events")
    frame = reader.load(path)
    assert frame.columns == ["u8", "ts"]
    assert frame.where("u8 = 7").count() == expected["count(*)"]


def test_an_empty_stream(session: SparkSession, path: str) -> None:
    assert ts.read(session, path, "empty", ns="long").count() == 0


def test_what_was_flushed_before_the_first_action_is_seen(session: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "store")
    with Store.open(place) as store:
        stream = store.create_stream("s", pa.schema([("t", pa.int64())]), "t")
        frame = ts.read(session, place, "s")
        stream.append({"t": [1, 2, 3]})
        stream.flush()
        stream.append({"t": [4]})  # Spark looks from another process
        assert frame.count() == 3
        stream.flush()
        assert frame.count() == 3
        assert ts.read(session, place, "s").count() == 4


def test_names_that_differ_by_case(session: SparkSession, path: str) -> None:
    with pytest.raises(SchemaError, match=r"columns 'a' and 'A' differ by case only.*spark\.sql\.caseSensitive"):
        ts.read(session, path, "cases")
    assert ts.read(session, path, "cases", columns=["t", "A"]).where("a = 4").count() == 1
    session.conf.set("spark.sql.caseSensitive", "true")
    try:
        frame = ts.read(session, path, "cases")
        assert [row.A for row in frame.where("a = 1").collect()] == [3]
    finally:
        session.conf.set("spark.sql.caseSensitive", "false")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stream": "event"}, "did you mean 'events'?"),
        ({"stream": "events"}, "set the option ns to 'truncate'"),
        ({"stream": "events", "columns": "nme"}, "there is no column 'nme'; did you mean 'name'?"),
        ({"stream": "events", "columns": "ts", "where": "nme = 1"}, "there is no column 'nme'; did you mean 'name'?"),
        ({"stream": "events", "columns": "ts", "start": "yesterday"}, "yesterday"),
        (
            {"stream": "events", "columns": "ts", "strat": "5"},
            "the source has no option 'strat'; did you mean 'start'?",
        ),
        ({}, "was not told the stream"),
    ],
)
def test_what_is_wrong_is_said_while_planning(path: str, options: dict[str, str], message: str) -> None:
    source = TidelogSource({"path": path, **options})
    with pytest.raises(TidelogError) as caught:
        source.reader(source.schema())
    assert message in str(caught.value)


def test_spark_passes_the_message_on(session: SparkSession, path: str) -> None:
    with pytest.raises(NotFoundError, match=r"^there is no stream 'event'; did you mean 'events'\?$"):
        ts.read(session, path, "event")
    with pytest.raises(AnalysisException) as caught:
        session.read.format("tidelog").options(stream="event").load(path)
    assert "NotFoundError: " in str(caught.value)
    assert "did you mean 'events'?" in str(caught.value)
    assert str(caught.value).count("File ") <= 2  # not the way through the store


def test_a_store_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TidelogError, match="nowhere"):
        TidelogSource({"path": str(tmp_path / "nowhere"), "stream": "s"}).schema()
    assert not (tmp_path / "nowhere").exists()


def test_a_read_that_comes_too_late_says_so(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        stream = store.create_stream("s", pa.schema([("t", pa.int64())]), "t", split=10, leaf_rows=8, grace=0)
        stream.append({"t": range(100)})
        stream.flush()
        source = TidelogSource({"path": str(tmp_path / "store"), "stream": "s"})
        reader = source.reader(source.schema())
        parts = reader.partitions()
        stream.delete_before(50)
        assert store.sweep()
        with pytest.raises(NotFoundError, match="its grace period, 0 s, is over: read it anew"):
            list(itertools.chain.from_iterable(map(reader.read, parts)))


def test_a_table_of_the_catalogue_is_refused(session: SparkSession, path: str) -> None:
    with pytest.raises(AnalysisException, match="CREATE TEMPORARY VIEW"):
        session.sql(f"CREATE TABLE listed USING tidelog OPTIONS (stream 'events', ns 'long') LOCATION '{path}'")
    with pytest.raises(AnalysisException, match="CREATE TEMPORARY VIEW"):
        session.sql("CREATE TABLE listed USING tidelog OPTIONS (stream 'new', time 't') AS SELECT 1L AS t")
    assert not session.catalog.tableExists("listed")


def test_a_table_that_was_made_all_the_same(session: SparkSession, tmp_path: Path) -> None:
    """Spark does not tell a sink that it is one, nor a source where its rows are."""
    place = str(tmp_path / "store")
    frame = session.range(3).selectExpr("id AS t")
    frame.write.format("tidelog").options(path=place, stream="s", time="t").saveAsTable("made")
    try:
        with pytest.raises(AnalysisException, match=r"was told nothing.*SELECT \.\.\. FROM name WITH \(path = "):
            session.table("made").count()
        found = session.sql(f"SELECT t FROM made WITH (path = '{place}', stream = 's') ORDER BY t").collect()
        assert [row.t for row in found] == [0, 1, 2]
        assert session.read.options(path=place, stream="s").table("made").count() == 3
    finally:
        session.sql("DROP TABLE made")
    with tidelog.open(place) as store:
        assert len(store.stream("s")) == 3


def test_options_that_make_no_sense_are_refused_at_once(session: SparkSession) -> None:
    with pytest.raises(InputError, match="option 'ns' is 'round'"):
        ts.read(session, "/x", "s", ns="round")
