"""Aggregates by tasks of Spark, against Spark SQL over the same rows and against the embedded engine."""

from __future__ import annotations

import datetime
import math
import pickle
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType

import tidelog
from tidelog import spark as tl
from tidelog.engine.stream import writer_of
from tidelog.expr.errors import ExpressionError
from tidelog.model.errors import InputError, NotFoundError, SchemaError, TimeError
from tidelog.spark.jobs.aggregate_plan import Asked, plan_aggregate
from tidelog.spark.jobs.aggregating import RANGES_PER_TASK, SCANS_PER_TASK, _chunks
from tidelog.store.bulk import BulkWriter, commit_bulk

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidelog.engine.stream import Stream

SCHEMA = pa.schema(
    [
        pa.field("ts", pa.timestamp("us"), nullable=False),
        ("price", pa.float64()),
        ("volume", pa.int32()),
        ("amount", pa.decimal128(10, 2)),
        ("day", pa.date32()),
        ("symbol", pa.string()),
    ]
)
START = datetime.datetime(2026, 1, 1)
SECONDS = 20_000
CALLS = {
    "n": "count(*)",
    "prices": "count(price)",
    "total": "sum(volume)",
    "money": "sum(amount)",
    "low": "min(price)",
    "high": "max(price)",
    "mean": "avg(price)",
    "first_day": "min(day)",
    "last_symbol": "max(symbol)",
    "spread": "stddev_samp(price)",
}


def rows(count: int, seed: int) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    seconds = random.integers(0, SECONDS, count)

    def with_nulls(values: list[Any]) -> list[Any]:
        return [None if missing else value for value, missing in zip(values, random.random(count) < 0.1, strict=True)]

    return {
        "ts": [START + datetime.timedelta(seconds=int(second)) for second in seconds],
        "price": with_nulls(np.round(random.normal(100, 10, count), 2).tolist()),
        "volume": with_nulls(random.integers(-5, 1000, count).tolist()),
        "amount": with_nulls([Decimal(cents) / 100 for cents in random.integers(0, 9999, count).tolist()]),
        "day": with_nulls([datetime.date(2026, 1, int(day)) for day in random.integers(1, 28, count)]),
        "symbol": with_nulls(random.choice(["TIDE", "EBB", "FLOW"], count).tolist()),
    }  # fmt: skip


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A stream with splits that overlap, an open split and rows in a journal."""
    place = tmp_path_factory.mktemp("aggregating")
    with tidelog.open(place) as store:
        stream = store.create_stream("trades", SCHEMA, "ts", leaf_rows=256, fanout=4)
        for seed in range(3):
            load(stream, rows(1500, seed))
        stream.append(rows(500, 9))
    return str(place)


def load(stream: Stream, data: dict[str, Any]) -> None:
    with BulkWriter(writer_of(stream).context) as writer:
        for batch in pa.table(data, SCHEMA).to_batches():
            writer.append(batch)
        commit_bulk(writer_of(stream).manifests, writer.finish())


def at(seconds: float) -> datetime.datetime:
    return START + datetime.timedelta(seconds=seconds)


def ranges(count: int, seed: int) -> list[tuple[datetime.datetime, datetime.datetime]]:
    """Any, of all lengths, some of them empty."""
    random = np.random.default_rng(seed)
    return [tuple(map(at, random.integers(-500, SECONDS + 500, 2).tolist())) for _ in range(count)]  # type: ignore[misc]


def by_sql(frame: DataFrame, spark: SparkSession, intervals: list[tuple[Any, Any]]) -> dict[Any, dict[str, Any]]:
    """What Spark says of the same ranges, by a range join of all rows."""
    frame.createOrReplaceTempView("trades")
    spark.createDataFrame(sorted(set(intervals)), "lo timestamp_ntz, hi timestamp_ntz").createOrReplaceTempView("asked")
    calls = ", ".join(f"{call.replace('*', 'ts')} AS {name}" for name, call in CALLS.items())
    found = spark.sql(
        f"SELECT lo, hi, {calls} FROM asked LEFT JOIN trades ON ts >= lo AND ts < hi GROUP BY lo, hi"
    ).collect()
    return {(row["lo"], row["hi"]): row.asDict() for row in found}


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    for name in CALLS:
        ours, theirs = found[name], expected[name]
        if isinstance(theirs, float) and ours is not None:
            assert math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-9), name
        else:
            assert ours == theirs, name


def test_pairs_give_what_spark_sql_gives(session: SparkSession, path: str) -> None:
    asked = ranges(60, 1)
    found = tl.aggregate(session, path, "trades", asked, CALLS, tasks=3)
    types = {field.name: field.dataType.simpleString() for field in found.schema}
    assert types == {
        "start": "timestamp_ntz",
        "end": "timestamp_ntz",
        "n": "bigint",
        "prices": "bigint",
        "total": "decimal(38,0)",
        "money": "decimal(38,2)",
        "low": "double",
        "high": "double",
        "mean": "double",
        "first_day": "date",
        "last_symbol": "string",
        "spread": "double",
    }
    expected = by_sql(tl.read(session, path, "trades"), session, asked)
    answers = found.collect()
    assert sorted((row["start"], row["end"]) for row in answers) == sorted(asked)
    for row in answers:
        assert_same(row.asDict(), expected[row["start"], row["end"]])


def test_a_frame_keeps_its_columns(session: SparkSession, path: str) -> None:
    asked = ranges(40, 2)
    frame = session.createDataFrame(
        [(index, low, None if index % 7 == 0 else high, f"r{index}") for index, (low, high) in enumerate(asked)],
        "id int, lo timestamp_ntz, hi timestamp_ntz, label string",
    )
    found = tl.aggregate(session, path, "trades", frame, {"n": "count(*)", "mean": "avg(price)"}, start="lo", end="hi")
    assert found.columns == ["id", "lo", "hi", "label", "n", "mean"]
    with tidelog.open(path, read_only=True) as store:
        stream = store.stream("trades")
        answers = {row["id"]: row for row in found.collect()}
        assert sorted(answers) == list(range(40))
        for index, (low, high) in enumerate(asked):
            row = answers[index]
            assert row["label"] == f"r{index}"
            embedded = stream.aggregate(low, None if index % 7 == 0 else high, ["count(*)", "avg(price)"])
            assert (row["n"], row["mean"]) == pytest.approx(tuple(embedded.values()))


def test_conditions_are_those_of_the_store(session: SparkSession, path: str) -> None:
    asked = [(at(0), at(5000)), (None, None), (at(100), at(101))]
    found = tl.aggregate(session, path, "trades", asked, ["count(*)", "sum(volume * 2)"], where="symbol = 'TIDE'")
    with tidelog.open(path, read_only=True) as store:
        embedded = store.stream("trades").aggregate_all(
            sorted(asked, key=lambda pair: pair[0] or at(-1e6)), ["count(*)", "sum(volume * 2)"], "symbol = 'TIDE'"
        )
    assert [(row["count(*)"], row["sum(volume * 2)"]) for row in found.collect()] == [
        tuple(each.values()) for each in embedded
    ]


def test_what_is_committed_later_does_not_count(session: SparkSession, tmp_path: Path) -> None:
    with tidelog.open(tmp_path) as store:
        stream = store.create_stream("trades", SCHEMA, "ts")
        load(stream, rows(100, 1))
        stream.append(rows(50, 2))
        stream.flush()
        found = tl.aggregate(session, tmp_path, "trades", [(None, None)], "count(*)")
        load(stream, rows(10, 3))
        stream.append(rows(10, 4))
        stream.compact()
        stream.delete_before(at(SECONDS))
        assert found.first()["count(*)"] == 150
        assert tl.aggregate(session, tmp_path, "trades", [(None, None)], "count(*)").first()["count(*)"] == 0


def test_reduced_events_answer_where_they_can(session: SparkSession, tmp_path: Path) -> None:
    with tidelog.open(tmp_path) as store:
        stream = store.create_stream("trades", SCHEMA, "ts", leaf_rows=256)
        load(stream, rows(1000, 1))
        expected = stream.aggregate(None, None, ["count(*)", "sum(volume)"])
        stream.coarsen(at(SECONDS + 1))
    found = tl.aggregate(session, tmp_path, "trades", [(None, None)], ["count(*)", "sum(volume)"])
    assert tuple(found.first())[2:] == tuple(expected.values())


def test_few_ranges_make_one_task(session: SparkSession, path: str) -> None:
    def tasks(frame: DataFrame) -> int:
        return frame.selectExpr("spark_partition_id() AS task").distinct().count()

    many = ranges(RANGES_PER_TASK + 1, 3)
    assert tasks(tl.aggregate(session, path, "trades", many[:100], ["count(*)"])) == 1
    assert tasks(tl.aggregate(session, path, "trades", many, ["count(*)"])) == 2
    scanned = tl.aggregate(session, path, "trades", many[: SCANS_PER_TASK + 1], ["count(*)"], where="volume > 5")
    assert tasks(scanned) == 2
    frame = session.createDataFrame(many[:100], "start timestamp_ntz, end timestamp_ntz").repartition(2)
    assert tasks(tl.aggregate(session, path, "trades", frame, ["count(*)"])) == 1


def test_no_ranges_give_no_rows(session: SparkSession, path: str) -> None:
    assert tl.aggregate(session, path, "trades", [], "count(*)").collect() == []
    frame = session.createDataFrame([], "start timestamp, end timestamp")
    assert tl.aggregate(session, path, "trades", frame, "count(*)").collect() == []


def test_user_defined_aggregates_have_types(session: SparkSession, path: str) -> None:
    found = tl.aggregate(session, path, "trades", [(at(0), at(9000))], {"second": "second_largest(price)"})
    assert found.schema["second"].dataType.simpleString() == "double"
    with tidelog.open(path, read_only=True) as store:
        expected = store.stream("trades").aggregate(at(0), at(9000), "second_largest(price)")
    assert found.first()["second"] == expected["second_largest(price)"]
    with pytest.raises(SchemaError, match=r"bounding_box.* does not say of which type"):
        tl.aggregate(session, path, "trades", [(None, None)], "bounding_box(price, volume)")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"stream": "trade"}, NotFoundError, "did you mean 'trades'"),
        ({"aggregates": "avg(prize)"}, ExpressionError, "price"),
        ({"aggregates": []}, InputError, "no aggregate is asked for"),
        ({"aggregates": ["count(*)", "count(*)"]}, InputError, "asked for twice"),
        ({"aggregates": {"start": "count(*)"}}, InputError, "have a column 'start' already"),
        ({"where": "prize > 1"}, ExpressionError, "price"),
        ({"intervals": [("yesterday", None)]}, TimeError, "yesterday"),
        ({"ns": "round"}, InputError, "'truncate'"),
        ({"tasks": 0}, InputError, "found 0 .* for tasks"),
        ({"types": {"n": pa.int64()}}, InputError, "not asked for"),
    ],
)
def test_what_cannot_be_asked_is_refused_at_once(
    session: SparkSession, path: str, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    given = {"stream": "trades", "intervals": [(None, None)], "aggregates": "count(*)", **arguments}
    with pytest.raises(error, match=message):
        tl.aggregate(session, path, **given)


def test_a_frame_without_bounds_is_refused(session: SparkSession, path: str) -> None:
    frame = session.createDataFrame([(1,)], "begin bigint")
    with pytest.raises(InputError, match="no column 'start'"):
        tl.aggregate(session, path, "trades", frame, "count(*)")


def test_a_plan_can_be_sent(path: str) -> None:
    (plan,) = plan_aggregate(path, "trades", Asked(("count(*)",), types=(None,))).plans
    sent = pickle.loads(pickle.dumps(plan))
    declared = StructType([StructField("n", LongType())])
    assert sent.answers(sent.snapshot(), sent.ranges([None], [None]), declared).to_pydict() == {"n": [5000]}
    assert len(pickle.dumps(plan)) < 100_000


@pytest.fixture(scope="module")
def devices(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three streams of one kind, and one of another."""
    place = tmp_path_factory.mktemp("devices")
    with tidelog.open(place) as store:
        for index in range(3):
            stream = store.create_stream(f"d/{index}", pa.schema([("t", pa.int64()), ("x", pa.int64())]), "t")
            stream.append({"t": range(100), "x": [index] * 100})
        store.create_stream("text", pa.schema([("t", pa.int64()), ("x", pa.string())]), "t")
    return str(place)


def test_many_streams(session: SparkSession, devices: str) -> None:
    """Every range of every stream, or of those that rows name."""
    asked = [(0, 10), (50, None), (7, 7)]
    expected = {(0, 10): 10, (50, None): 50, (7, 7): 0}
    found = tl.aggregate(session, devices, "d/*", asked, {"n": "count(*)", "total": "sum(x)"}, tasks=2)
    assert found.columns == ["start", "end", "_stream", "n", "total"]
    wanted = [
        (start, end, f"d/{index}", n, n * index if n else None)
        for index in range(3)
        for (start, end), n in expected.items()
    ]
    assert sorted(map(str, map(tuple, found.collect()))) == sorted(
        str((start, end, name, n, None if total is None else Decimal(total))) for start, end, name, n, total in wanted
    )
    frame = session.createDataFrame([(1, 0, 10), (2, 50, None)], "id int, start bigint, end bigint")
    found = tl.aggregate(session, devices, "d/*", frame, {"n": "count(*)"}, stream_column="device")
    assert found.columns == ["id", "start", "end", "device", "n"]
    assert sorted((row.device, row.id, row.n) for row in found.collect()) == [
        (f"d/{index}", id_, n) for index in range(3) for id_, n in ((1, 10), (2, 50))
    ]
    named = session.createDataFrame([("d/2", 0, 10), ("d/0", 0, None)], "_stream string, start bigint, end bigint")
    found = tl.aggregate(session, devices, "d/*", named, {"total": "sum(x)"})
    assert {row["_stream"]: row["total"] for row in found.collect()} == {"d/2": 20, "d/0": 0}
    with pytest.raises(SchemaError, match=r"max\(x\) is int64 of stream 'd/0' and string of 'text'; ask them apart"):
        tl.aggregate(session, devices, "*", asked, "max(x)")


def test_work_is_divided_evenly() -> None:
    assert _chunks(1, 10, 3) == [[(0, 0, 3)], [(0, 3, 6)], [(0, 6, 10)]]
    assert _chunks(3, 2, 2) == [[(0, 0, 2), (1, 0, 1)], [(1, 1, 2), (2, 0, 2)]]
    assert _chunks(5, 0, 4) == [[]]
    assert _chunks(2, 1, 9) == [[(0, 0, 1)], [(1, 0, 1)]]
