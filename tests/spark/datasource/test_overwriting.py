"""What an overwrite may be told, and what becomes of rows outside of its range."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType

import tidelog
from tidelog import spark as ts
from tidelog.model.errors import InputError, TidelogError
from tidelog.spark import pipeline as pl
from tidelog.spark.datasource.committing import Written
from tidelog.spark.datasource.options import option_texts
from tidelog.spark.datasource.provider import TidelogSource
from tidelog.spark.datasource.sink import TidelogWriter
from tidelog.spark.pipeline.running.jobs import run_job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = pa.schema([("t", pa.int64()), ("a", pa.int64())])
BROUGHT = StructType([StructField("t", LongType()), StructField("a", LongType())])


@pytest.fixture
def path(tmp_path: Path) -> str:
    place = str(tmp_path / "store")
    with tidelog.open(place) as store:
        stream = store.create_stream("s", SCHEMA, "t")
        stream.append({"t": list(range(0, 100, 10)), "a": [0] * 10})
    return place


def times(path: str) -> list[int]:
    with tidelog.open(path) as store:
        assert store.check() == []
        assert store.orphans() == []
        found: list[int] = store.stream("s").scan(columns=["t"]).read_all()["t"].to_pylist()
        return found


def frame(session: SparkSession, *found: int) -> DataFrame:
    return session.createDataFrame([(each, -1) for each in found], "t bigint, a bigint")


@pytest.mark.parametrize(
    "wrong",
    [0, 1, None, {}, {1, 2}, "false", "", "all", np.bool_(True), np.bool_(False), [], [1], (1, 2, 3), (1,), range(2),
     iter((1, 2)), 5.0, datetime.datetime(2024, 1, 1), np.array([1, 2]), slice(1, 2), b"ab"],
    ids=lambda value: f"{type(value).__name__}-{value!r}"[:40],
)  # fmt: skip
def test_what_is_neither_a_flag_nor_a_range_is_refused(session: SparkSession, path: str, wrong: Any) -> None:
    with pytest.raises(InputError, match=r"overwrite is .*expected True, False, or a start and an end"):
        ts.write(frame(session, 50), path, "s", overwrite=wrong)
    assert times(path) == list(range(0, 100, 10))


@pytest.mark.parametrize(
    "wrong", [(True, None), (None, False), ([], None), ({}, 5), (1.5, 7), ("soon", None), (float("nan"), 3), ("", 3)]
)
def test_bounds_that_are_no_times(path: str, wrong: Any) -> None:
    told = option_texts(dict(zip(("overwrite_start", "overwrite_end"), wrong, strict=True)))
    with pytest.raises(TidelogError):
        TidelogSource({"path": path, "stream": "s", **told}).writer(BROUGHT, overwrite=True)
    assert times(path) == list(range(0, 100, 10))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"overwrite": "false"}, "the sink has no option 'overwrite'"),
        ({"overwrite_start": ""}, "option 'overwrite_start' is empty"),
        ({"overwrite_start": "soon"}, "soon"),
        ({"overwrite_start": "20", "overwrite_end": "20"}, "20 to 20, is empty"),
        (
            {"overwrite_start": "20", "outside": "keep"},
            "option 'outside' is 'keep'; expected one of 'refuse', 'append'",
        ),
    ],
)
def test_options_that_make_no_sense(path: str, options: dict[str, str], message: str) -> None:
    for stream in ("s", "new"):
        with pytest.raises(TidelogError, match=message):
            TidelogSource({"path": path, "stream": stream, "time": "t", **options}).writer(BROUGHT, overwrite=True)
    with tidelog.open(path) as store:
        assert store.streams() == ["s"]


def test_what_is_for_overwriting_needs_the_mode(path: str) -> None:
    for name, value in (("overwrite_start", "1"), ("outside", "append")):
        source = TidelogSource({"path": path, "stream": "s", name: value})
        with pytest.raises(InputError, match=f"option '{name}' was given, but the mode is append"):
            source.writer(BROUGHT, overwrite=False)
        with pytest.raises(InputError, match=f"option '{name}' was given, but the mode is append"):
            source.streamWriter(BROUGHT, overwrite=False)


def test_lists_and_open_ends(session: SparkSession, path: str) -> None:
    ts.write(frame(session, 15, 29), path, "s", overwrite=[10, 30])
    assert times(path) == [0, 15, 29, *range(30, 100, 10)]
    ts.write(frame(session, 71), path, "s", overwrite=(70, None))
    assert times(path) == [0, 15, 29, *range(30, 70, 10), 71]
    ts.write(frame(session, 1), path, "s", overwrite=(None, None))
    assert times(path) == [1]


def test_rows_outside_are_refused(session: SparkSession, path: str) -> None:
    rows = frame(session, 5, 15, 25, 35, 45, 9).repartition(3)
    message = (
        r"^4 of the rows are outside of the range to overwrite, from 10 up to 30: the first at 5, the last at 45; "
        r"nothing was written.*outside='append'"
    )
    with pytest.raises(InputError, match=message):
        ts.write(rows, path, "s", overwrite=(10, 30), sort=False)
    assert times(path) == list(range(0, 100, 10))
    with pytest.raises(InputError, match=r"^1 of the rows .* from 50 on: the first at 49, the last at 49;"):
        ts.write(frame(session, 49, 50), path, "s", overwrite=(50, None))
    assert times(path) == list(range(0, 100, 10))
    ts.write(rows, path, "s", overwrite=(10, 30), outside="append")
    assert times(path) == sorted([0, *range(30, 100, 10), 5, 15, 25, 35, 45, 9])


def batches(*found: Sequence[int]) -> list[pa.RecordBatch]:
    schema = pa.schema([("t", pa.int64()), ("a", pa.int64())])
    return [pa.record_batch({"t": list(each), "a": [0] * len(each)}, schema) for each in found]


def writer(path: str, **options: str) -> TidelogWriter:
    made = TidelogSource({"path": path, "stream": "s", **options}).writer(BROUGHT, overwrite=True)
    assert isinstance(made, TidelogWriter)
    return made


def test_tasks_count_what_is_outside_and_the_commit_adds_it_up(path: str) -> None:
    made = writer(path, overwrite_start="10", overwrite_end="30")
    messages = [
        made.write(iter(batches([10, 29], [11]))),
        made.write(iter(batches([12], [30, 31], [13, 9]))),
        made.write(iter(batches([-5]))),
        None,
    ]
    with pytest.raises(InputError, match=r"^4 of the rows are outside .*: the first at -5, the last at 31"):
        made.commit(messages)
    made.abort(messages)
    assert times(path) == list(range(0, 100, 10))


def test_the_commit_does_not_take_the_word_of_tasks(path: str) -> None:
    """Splits of a writer that allows what this one does not."""
    splits = writer(path, overwrite_start="10", overwrite_end="30", outside="append").write(iter(batches([5, 12, 40])))
    made = writer(path, overwrite_start="10", overwrite_end="30")
    with pytest.raises(InputError, match=r"events from 5 to 40, not all inside"):
        made.commit([Written(splits.splits)])
    made.abort([splits])
    assert times(path) == list(range(0, 100, 10))


def test_a_pipeline_overwrites_the_range_it_names(session: SparkSession, path: str, tmp_path: Path) -> None:
    sink = pl.Sink(
        name="out", input="rows", path=path, stream="s", mode="overwrite",
        options={"overwrite_start": 10, "overwrite_end": 30},
    )  # fmt: skip
    pipeline = pl.Pipeline(name="p", checkpoint=str(tmp_path / "state"), sources=(), sinks=(sink,))
    (tmp_path / "state").mkdir()
    run_job(pipeline, sink, frame(session, 15))
    assert times(path) == [0, 15, *range(30, 100, 10)]
    with pytest.raises(InputError, match="1 of the rows are outside"):
        run_job(pipeline, sink, frame(session, 35))
    assert times(path) == [0, 15, *range(30, 100, 10)]
