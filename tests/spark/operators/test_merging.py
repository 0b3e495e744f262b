"""Logical merge on Spark: batches and streams give what one process does, while inputs come, go and lag."""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidelog.spark as tl
from operators.merge.copies import KINDS, copy, events
from tidelog.model.errors import InputError, SchemaError
from tidelog.operators.merge.codes import NEVER, STABLE
from tidelog.operators.merge.elements import KINDS as NAMES
from tidelog.operators.merge.elements import Element
from tidelog.spark.pipeline.description.merging import Merge

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DELAY = 50
EVENTS = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("x", pa.int64())])
ELEMENTS = pa.schema(
    [
        ("kind", pa.string()),
        *((name, pa.int64()) for name in ("valid_from", "valid_to", "old_valid_to")),
        ("case", pa.int64()),
        ("p", pa.int64()),
        ("n", pa.int64()),
    ]
)
Row = tuple[int, str, int]


def whole(count: int = 240) -> list[Row]:
    return [(10 * (number // 2), "ab"[number % 2], number) for number in range(count)]


def received(dice: random.Random, rows: list[Row]) -> list[Row]:
    """Out of order, and some of it twice."""
    twice = rows + [each for each in rows if dice.random() < 0.1]
    return sorted(twice, key=lambda each: each[0] + dice.random() * (DELAY - 10))


def table(rows: list[Row]) -> pa.Table:
    return pa.table([pa.array(list(each)) for each in zip(*rows, strict=True)], schema=EVENTS)


def put(folder: Path, tables: list[pa.Table]) -> None:
    """Add files, each for one micro-batch."""
    folder.mkdir(exist_ok=True)
    before = len(list(folder.iterdir()))
    for number, each in enumerate(tables, before):
        path = folder / f"{number}.parquet"
        pq.write_table(each, path)
        os.utime(path, (1_000_000_000 + number,) * 2)


def stream(session: SparkSession, folder: Path, like: pa.Schema, name: str | None = None) -> DataFrame:
    columns = ", ".join(f"`{each.name}` {'string' if each.type == pa.string() else 'bigint'}" for each in like)
    reader = session.readStream.schema(columns).option("maxFilesPerTrigger", 1)
    return (reader if name is None else reader.name(name)).parquet(str(folder))


def run(frame: DataFrame, folder: Path) -> Any:
    writer = frame.writeStream.format("parquet").option("path", str(folder / "out"))
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def found(folder: Path) -> list[Row]:
    rows = pq.read_table(folder / "out").select(EVENTS.names).to_pylist()
    return sorted(tuple(each.values()) for each in rows)  # type: ignore[misc]


def rows_of(elements: list[Element]) -> pa.Table:
    rows = []
    for number, each in enumerate(elements):
        row: dict[str, Any] = {"kind": NAMES[each.kind], "valid_from": each.start, "n": number}
        if each.kind == STABLE:
            row["valid_from"] = each.end
        else:
            row["case"], row["p"] = each.payload  # type: ignore[misc]
            row["valid_to"] = None if each.end == NEVER else each.end
            row["old_valid_to"] = each.old if each.kind == 1 and each.old != NEVER else None
        rows.append(row)
    return pa.Table.from_pylist(rows, schema=ELEMENTS)


def elements_of(rows: list[dict[str, Any]]) -> list[Element]:
    return [
        Element(
            NAMES.index(each["kind"]),
            each["p"],
            each["valid_from"],
            NEVER if each["valid_to"] is None else each["valid_to"],
            NEVER if each["old_valid_to"] is None else each["old_valid_to"],
        )
        for each in rows
        if each["kind"] != "stable"
    ]


def net(rows: list[dict[str, Any]]) -> Counter[Any]:
    """What elements come to, in whatever order rows were written: each event is adjusted along a chain of ends."""
    ends: Counter[tuple[Any, int, int]] = Counter()
    for kind, payload, start, end, old in elements_of(rows):
        if kind == 1:
            ends[payload, start, old] -= 1
        if end > start:
            ends[payload, start, end] += 1
    return Counter({event: count for event, count in ends.items() if count})


def test_batches(session: SparkSession) -> None:
    dice, rows = random.Random(1), whole()
    frames = [session.createDataFrame(table(received(dice, rows))) for _ in range(3)]
    merged = tl.logical_merge(frames, time="ts", key=["x"], tasks=3)
    assert sorted(map(tuple, merged.collect())) == rows
    lacking = [frame.where(f"x % 3 <> {number}") for number, frame in enumerate(frames)]
    counted = tl.logical_merge(lacking, time="ts", tasks=2).collect()
    most: Counter[Any] = Counter()
    for frame in lacking:
        most |= Counter(map(tuple, frame.collect()))
    assert Counter(map(tuple, counted)) == most


def test_steps_of_pipelines_do_not_look_at_the_case_of_names(session: SparkSession) -> None:
    rows = whole(20)
    frames = {"north": session.createDataFrame(table(rows)), "south": session.createDataFrame(table(rows))}
    frames["south"] = frames["south"].withColumnsRenamed({"x": "X", "ts": "Ts"})
    step = Merge(name="both", inputs=("north", "south"), key=("K", "X"), time="TS", tasks=1)
    merged = step.build(session, frames)
    assert merged.columns == EVENTS.names
    assert sorted(map(tuple, merged.collect())) == rows


def test_batches_of_elements(session: SparkSession) -> None:
    dice = random.Random(2)
    kind = KINDS["R3"]
    events_of = events(dice, kind, count=60, span=80)
    copies = [
        rows_of([each._replace(payload=(0, each.payload)) for each in copy(dice, kind, events_of)]) for _ in range(3)
    ]
    frames = [session.createDataFrame(each) for each in copies]
    out = tl.logical_merge(frames, key=["case", "p"], order="n", tasks=3).toArrow().to_pylist()
    assert net(out) == Counter(events_of)
    assert len([each for each in out if each["kind"] == "stable"]) > 1


def test_streams_that_lag_and_inputs_that_come_and_go(session: SparkSession, tmp_path: Path) -> None:
    """The first input stops in the middle, then the query is begun again with another one in its place."""
    from pyspark.errors import StreamingQueryException

    dice, rows = random.Random(3), whole()
    given = [received(dice, rows) for _ in range(3)]
    parts = [[table(each[first : first + 100]) for first in range(0, len(each), 100)] for each in given]
    put(tmp_path / "a", parts[0][:1])
    put(tmp_path / "b", parts[1][:2])

    def merged(first: str, names: list[str]) -> DataFrame:
        frames = [stream(session, tmp_path / name, EVENTS) for name in (first, "b")]
        return tl.logical_merge(frames, names=names, time="ts", key=["x"], delay=DELAY, tasks=2)

    query = run(merged("a", ["a", "b"]), tmp_path)
    told = [each.observedMetrics["tidelog"].asDict() for each in query.recentProgress if each.observedMetrics]
    assert sum(each["rows"] for each in told) == 100 * 3
    assert sum(each["late_rows"] for each in told) == 0
    before = found(tmp_path)
    assert len(before) == len(set(before))
    put(tmp_path / "a", parts[2])  # in the place of the first one, all of it from the start
    put(tmp_path / "b", parts[1][2:])
    run(merged("a", ["c", "b"]), tmp_path)
    assert found(tmp_path) == rows
    put(tmp_path / "b", parts[1][:1])
    with pytest.raises(StreamingQueryException, match="has left this merge before"):
        run(merged("a", ["a", "b"]), tmp_path)


def test_streams_of_elements(session: SparkSession, tmp_path: Path) -> None:
    dice = random.Random(4)
    kind = KINDS["R3"]
    events_of = events(dice, kind, count=80, span=100)
    for name in ("a", "b", "c"):
        own = rows_of([each._replace(payload=(0, each.payload)) for each in copy(dice, kind, events_of)])
        cut = len(own) // 3
        put(tmp_path / name, [own.slice(0, cut), own.slice(cut, cut), own.slice(2 * cut)])
    frames = [stream(session, tmp_path / name, ELEMENTS) for name in ("a", "b", "c")]
    run(tl.logical_merge(frames, key=["case", "p"], order="n", tasks=2), tmp_path)
    out = pq.read_table(tmp_path / "out").to_pylist()
    assert net(out) == Counter(events_of)
    assert len([each for each in out if each["kind"] == "stable"]) >= 1


def test_named_sources_come_and_go_in_any_number(session: SparkSession, tmp_path: Path) -> None:
    """One goes, two come: Spark knows sources by their names, if it is told to from the beginning."""
    options = {"queryEvolution.enableSourceEvolution": "true", "offsetLog.formatVersion": "2"}
    dice, rows = random.Random(6), whole()
    north, south, west = (table(received(dice, rows)) for _ in range(3))
    put(tmp_path / "north", [north.slice(0, 100)])
    put(tmp_path / "south", [south.slice(0, 60)])

    def merged(*names: str) -> DataFrame:
        frames = [stream(session, tmp_path / name, EVENTS, name) for name in names]
        return tl.logical_merge(frames, names=names, time="ts", key=["x"], delay=DELAY, tasks=2)

    for name, value in options.items():
        session.conf.set(f"spark.sql.streaming.{name}", value)
    try:
        run(merged("north", "south"), tmp_path)
        before = found(tmp_path)
        assert 60 < len(before) == len(set(before)) < len(rows)
        put(tmp_path / "west", [west])
        put(tmp_path / "empty", [west.slice(0, 0)])
        put(tmp_path / "south", [south.slice(60, 40)])
        run(merged("west", "empty", "south"), tmp_path)
    finally:
        for name in options:
            session.conf.unset(f"spark.sql.streaming.{name}")
    assert found(tmp_path) == rows


def test_what_cannot_be_merged_is_refused(session: SparkSession) -> None:
    one = session.createDataFrame(table(whole(4)))
    other = one.withColumnRenamed("x", "y")
    with pytest.raises(InputError, match="no DataFrames"):
        tl.logical_merge([])
    with pytest.raises(InputError, match="expected a list of DataFrames"):
        tl.logical_merge(one)  # type: ignore[arg-type]  # as somebody may do
    with pytest.raises(InputError, match=r"found 5 \(int\) for a frame; expected a DataFrame"):
        tl.logical_merge([one, 5])  # type: ignore[list-item]
    maps = one.selectExpr("ts", "map(k, x) AS m", "array(map(k, x)) AS n", "x")
    for key in (True, ["m"], ["n"]):
        with pytest.raises(SchemaError, match=r"column '[mn]' has maps, which Spark does not compare"):
            tl.logical_merge([maps, maps], key=key, time="ts")
    assert tl.logical_merge([maps, maps], key="x", time="ts").count() == one.count()
    with pytest.raises(SchemaError, match="expected those of the first"):
        tl.logical_merge([one, other], time="ts")
    with pytest.raises(SchemaError, match="cast them"):
        tl.logical_merge([one, one.withColumn("x", one.x.cast("double"))], time="ts")
    with pytest.raises(InputError, match="names"):
        tl.logical_merge([one, one], names=["a", "a"], time="ts")
    with pytest.raises(SchemaError, match="no column 'n'"):
        tl.logical_merge([one], order="n", time="ts")
