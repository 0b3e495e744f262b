"""What is left out is not read: counted by running, in this process, the partitions that tasks would run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, InputPartition, LessThan

import tidelog
from tidelog import spark as ts
from tidelog.spark.datasource.options import SourceOptions
from tidelog.spark.datasource.source import FilteringReader
from tidelog.spark.datasource.stream_source import Offset, TidelogStreamReader
from tidelog.spark.datasource.types import spark_schema
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.read import pieces
from tidelog.store.split.context import StreamContext

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[..., tuple[pa.Table, "Cost"]]

ROWS = 20_000
SCHEMA = pa.schema([("ts", pa.int64()), ("level", pa.int64()), ("noise", pa.float64()), ("text", pa.string())])


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with a stream of many leaves in several splits, whose column ``level`` rises with time."""
    place = str(tmp_path_factory.mktemp("store"))
    numbers = range(ROWS)
    with tidelog.open(place) as store:
        stream = store.create_stream("s", SCHEMA, "ts", leaf_rows=256, split=5_000)
        stream.append(
            {
                "ts": list(numbers),
                "level": [number // 100 for number in numbers],
                "noise": [number * 7919 % 10_007 / 3 for number in numbers],
                "text": [f"row {number * 7919 % 10_007}" for number in numbers],
            }
        )
    return place


def reader_of(path: str, pushed: list[Filter] | None = None, **options: Any) -> FilteringReader:
    chosen = SourceOptions(path=path, stream="s", partition_size=2_000, **options)
    with tidelog.open(path, read_only=True) as store:
        declared = spark_schema(store.stream("s").schema, chosen.columns)
    reader = FilteringReader(chosen, declared)
    assert list(reader.pushFilters(pushed or [])) == []
    return reader


@dataclass
class Cost:
    """What tasks have read."""

    blocks: int
    bytes: int


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """What reads partitions as tasks do; returns the rows, and what was read from disk for them."""
    contexts: list[StreamContext] = []

    def kept(*arguments: Any, **more: Any) -> StreamContext:
        contexts.append(StreamContext(*arguments, **more))
        return contexts[-1]

    monkeypatch.setattr(pieces, "StreamContext", kept)

    def run(reader: FilteringReader, parts: Sequence[InputPartition] | None = None) -> tuple[pa.Table, Cost]:
        contexts.clear()
        planned = reader.partitions() if parts is None else parts
        rows = pa.Table.from_batches([batch for part in planned for batch in reader.read(part)])
        return rows, Cost(
            sum(context.meter.blocks for context in contexts), sum(context.meter.bytes for context in contexts)
        )

    return run


Chosen = Callable[[pa.Table], pa.Table]

CASES: dict[str, tuple[dict[str, Any], list[Filter], Chosen]] = {
    "time range": (
        {"start": "4000", "end": "6000"},
        [],
        lambda rows: rows.filter((pc.field("ts") >= 4_000) & (pc.field("ts") < 6_000)),
    ),
    "where": ({"where": "level = 77"}, [], lambda rows: rows.filter(pc.field("level") == 77)),
    "as_of": ({"as_of": "[[1000, 1500]]"}, [], lambda rows: rows.slice(1_000, 500)),
    "pushed range": (
        {},
        [GreaterThanOrEqual(("ts",), 4_000), LessThan(("ts",), 6_000)],
        lambda rows: rows.filter((pc.field("ts") >= 4_000) & (pc.field("ts") < 6_000)),
    ),
    "pushed condition": ({}, [EqualTo(("level",), 77)], lambda rows: rows.filter(pc.field("level") == 77)),
    "pushed and own": (
        {"where": "level < 80"},
        [GreaterThan(("level",), 76)],
        lambda rows: rows.filter((pc.field("level") > 76) & (pc.field("level") < 80)),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_fewer_blocks_give_the_same_rows(path: str, run: Run, case: str) -> None:
    options, pushed, chosen = CASES[case]
    every, all_read = run(reader_of(path))
    assert every.num_rows == ROWS
    found, read = run(reader_of(path, pushed, **options))
    expected = chosen(every)
    assert 0 < expected.num_rows < ROWS
    assert found.equals(expected)
    assert read.blocks < all_read.blocks / 5
    assert read.bytes < all_read.bytes / 5
    assert run(reader_of(path))[1] == all_read  # it was no cache that saved the work


def test_columns_that_are_not_wanted_are_not_read(path: str, run: Run) -> None:
    every, all_read = run(reader_of(path))
    found, read = run(reader_of(path, columns=("level", "ts")))
    assert found.equals(every.select(["level", "ts"]))
    assert read.bytes < all_read.bytes / 2


def test_a_batch_of_a_query_reads_its_own_blocks(path: str, run: Run) -> None:
    """Of 20,000 rows, a batch that wants 500 of them."""
    every, all_read = run(reader_of(path))
    reader = reader_of(path)
    streaming = TidelogStreamReader(SourceOptions(path=path, stream="s"), reader._declared)
    stream = streaming.initialOffset()["stream"]
    old, new = Offset(stream, SeqSet.below(12_000)), Offset(stream, SeqSet.below(12_500))
    found, read = run(reader, streaming.partitions(old.to_json(), new.to_json()))
    assert found.equals(every.slice(12_000, 500))
    assert read.blocks < all_read.blocks / 5


def test_spark_gets_the_rows_that_its_own_filters_leave(session: SparkSession, path: str) -> None:
    every = ts.read(session, path, "s")
    narrow = ts.read(
        session, path, "s", start=4_000, end=9_000, where="level > 50", columns=["text", "ts"], as_of=8_500
    )
    wanted = every.where("ts >= 4000 AND ts < 9000 AND level > 50 AND ts < 8500").select("text", "ts")
    found = narrow.orderBy("ts").toArrow()
    assert found.num_rows == 8_500 - 5_100
    assert found.equals(wanted.orderBy("ts").toArrow())
